#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The binaries of the control plane: found in KUBEBUILDER_ASSETS or in the cache, or
# built once from Debian 12's packages. Sourced by `cluster`.
#
# Nothing is installed on the machine and its package sources stay as they are: packages
# are downloaded with apt settings of our own and unpacked into the build folder. So no
# root rights are needed either.

assets=      # the folder, once assets_prepare returned
node_assets= # the one with a node's programs, once assets_prepare_node returned

kubernetes_version=1.20.2
# These count up when the recipes below change what they build.
assets_recipe=2
node_recipe=1
node_programs=(kubelet kube-proxy kube-scheduler)

assets_root() {
	printf '%s\n' "${CMESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cmesh}"
}

assets_complete() {
	[ -x "$1/etcd" ] && [ -x "$1/kube-apiserver" ] && [ -x "$1/kubectl" ]
}

assets_prepare() {
	if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
		if assets_complete "$KUBEBUILDER_ASSETS"; then
			assets=$(cd "$KUBEBUILDER_ASSETS" && pwd)
			return
		fi
		say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks etcd, kube-apiserver or kubectl: not used"
	fi
	require dpkg dpkg
	local root
	root=$(assets_root)
	assets=$root/kubernetes-$kubernetes_version-$(dpkg --print-architecture)-$assets_recipe
	assets_complete "$assets" || assets_build "$root" "$assets"
}

node_complete() {
	local program
	for program in "${node_programs[@]}"; do
		[ -x "$1/$program" ] || return 1
	done
}

assets_prepare_node() {
	if [ -n "${KUBEBUILDER_ASSETS:-}" ] && assets_complete "$KUBEBUILDER_ASSETS"; then
		node_assets=$KUBEBUILDER_ASSETS
		node_complete "$node_assets" ||
			unable "KUBEBUILDER_ASSETS=$node_assets lacks one of: ${node_programs[*]}"
		return
	fi
	node_assets=$(assets_root)/node-$kubernetes_version-$(dpkg --print-architecture)-$node_recipe
	node_complete "$node_assets" ||
		locked_build "$(assets_root)" "$node_assets" node_complete node_binaries_recipe
}

say() {
	printf '%s\n' "$*" >&2
}

assets_build() {
	locked_build "$1" "$2" assets_complete kubernetes_recipe
}

kubernetes_recipe() {
	local started=$SECONDS
	say "Building Kubernetes $kubernetes_version from Debian's source package, once: some minutes"
	build_steps=6
	step 1 "read Debian's package lists" build_lists
	step 2 "download source and compiler (130 MB)" build_download etcd-server kubernetes-client
	step 3 "unpack" build_unpack
	step 4 "generate the API description" build_generate
	step 5 "compile 1,850 packages (2 to 4 minutes on two cores)" \
		build_compile k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager}
	step 6 "keep the binaries" build_publish "$1"
	say "Kubernetes $kubernetes_version is ready in $1 ($(duration "$started"))"
}

node_binaries_recipe() {
	local started=$SECONDS
	say "Building the programs of a node from the same source, once: some minutes"
	build_steps=5
	step 1 "read Debian's package lists" build_lists
	step 2 "download source and compiler (115 MB)" build_download
	step 3 "unpack" build_unpack
	step 4 "compile 1,700 packages (2 to 4 minutes on two cores)" \
		build_compile k8s.io/kubernetes/cmd/{kubelet,kube-proxy,kube-scheduler}
	step 5 "keep the binaries" build_publish_node "$1"
	say "The programs of a node are ready in $1 ($(duration "$started"))"
}

# locked_build ROOT TARGET COMPLETE RECIPE: runs `RECIPE TARGET` in a build folder below ROOT unless
# `COMPLETE TARGET` holds; one build at a time.
locked_build() {
	local root=$1 target=$2 complete=$3 recipe=$4 lock build step_process=
	require apt-get apt
	require flock util-linux
	mkdir -p "$root"
	exec {lock}>"$root/build.lock"
	if ! flock -n "$lock"; then
		say "another build is running: waiting for it"
		local since=$SECONDS
		until flock -w 10 "$lock"; do
			say "  still waiting, $(duration "$since")"
		done
	fi
	! "$complete" "$target" || { exec {lock}>&-; return; }

	rm -rf "$root"/build.?????? # left by a build that was killed
	build=$(mktemp -d "$root/build.XXXXXX")
	trap assets_abandon EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	local free
	free=$(df -Pk "$build" | awk 'NR == 2 { print int($4 / 1024) }')
	[ "$free" -ge "$build_space" ] ||
		fail "$root has $free MiB free; the build needs $build_space MiB"

	"$recipe" "$target"
	trap '' INT TERM # not in the middle of the removal
	rm -rf "$build"
	trap - EXIT INT TERM
	exec {lock}>&-
}

assets_abandon() {
	local status=$?
	trap - EXIT
	trap '' INT TERM # a second one must not stop the removal
	if [ -n "$step_process" ]; then
		kill -- "-$step_process" 2>/dev/null || true
		wait "$step_process" || true
	fi
	rm -rf "$build"
	exit "$status"
}

# MiB that source, compiler, compiler cache and binaries take together.
build_space=3000
build_steps= # how many the recipe has
step_refusal=fail # what says that a step has failed, and ends

duration() {
	printf '%d:%02d' $(((SECONDS - $1) / 60)) $(((SECONDS - $1) % 60))
}

# step N TITLE FUNCTION [ARGUMENT...]: runs FUNCTION with its output in a log and shows that
# time passes: on a terminal in one line, elsewhere a line at times.
step() {
	local title="[$1/$build_steps] $2" since=$SECONDS shown=0 status=0 log=$build/log
	shift 2
	: >"$log"
	[ -t 2 ] || say "$title"
	# In a process group of its own, so that all of it can be ended.
	set -m
	(set -e; trap - EXIT INT TERM; "$@") >"$log" 2>&1 {lock}>&- &
	set +m
	step_process=$!
	while kill -0 "$step_process" 2>/dev/null; do
		if [ -t 2 ]; then
			printf '\r%s  %s%s\033[K' "$title" "$(duration "$since")" "$(packages_compiled)" >&2
		elif [ $((SECONDS - since - shown)) -ge 10 ]; then
			shown=$((SECONDS - since))
			say "  $(duration "$since")$(packages_compiled)"
		fi
		sleep 0.5
	done
	wait "$step_process" || status=$?
	step_process=
	[ ! -t 2 ] || printf '\r%s  %s\033[K\n' "$title" "$(duration "$since")" >&2
	[ "$status" -eq 0 ] || {
		cp "$log" "$root/build-failed.log"
		tail -n 20 "$log" >&2
		"$step_refusal" "this step failed; its whole output is in $root/build-failed.log"
	}
}

# The compiler names each package it is done with.
packages_compiled() {
	local count
	count=$(grep -cE '^[a-z][A-Za-z0-9._/-]+$' "$build/log" || true)
	[ "${count:-0}" -lt 10 ] || printf ', %d packages' "$count"
}

private_apt() {
	apt-get -q -c "$build/apt.conf" "$@"
}

build_lists() {
	build_apt
	debian_sources
	private_apt update
}

# apt settings of the build's own, that know no archive yet.
build_apt() {
	mkdir -p "$build/apt/state/lists/partial" "$build/apt/cache/archives/partial" "$build/apt/sources"
	cat >"$build/apt.conf" <<-CONF
		Dir::State "$build/apt/state";
		Dir::State::status "/var/lib/dpkg/status";
		Dir::Cache "$build/apt/cache";
		Dir::Etc::SourceList "/dev/null";
		Dir::Etc::SourceParts "$build/apt/sources";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Acquire::Retries "3";
	CONF
}

# The machine's own Debian 12 sources (its mirror, its options), with source packages. Other
# archives it uses are left out: they need not have any.
debian_sources() {
	local file to="$build/apt/sources"
	for file in /etc/apt/sources.list.d/*.sources; do
		[ -r "$file" ] || continue
		awk 'BEGIN { RS = ""; ORS = "\n\n" }
			/(^|\n)Suites:[^\n]*[ \t]bookworm[^\n]*/ && /(^|\n)Components:[^\n]*[ \t]main/ {
				gsub(/(^|\n)Enabled:[^\n]*/, "")
				sub(/Types:[^\n]*/, "Types: deb deb-src")
				print
			}' "$file"
	done >"$to/debian.sources"
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -r "$file" ] || continue
		awk '/^deb[ \t]/ && / bookworm(-updates|-security|\/updates)? ([a-z-]+ )*main( |$)/ {
				print
				sub(/^deb/, "deb-src")
				print
			}' "$file"
	done >"$to/debian.list"
	[ -s "$to/debian.sources" ] || [ -s "$to/debian.list" ] ||
		fail "this machine's apt knows no Debian 12 (bookworm) archive; add one, or set KUBEBUILDER_ASSETS"
}

# debian_archive SUITE: the machine's own Debian archive, with this suite in place of Debian 12.
debian_archive() {
	debian_sources
	local sources=$build/apt/sources
	awk -v suite="$1" 'BEGIN { RS = ""; ORS = "\n\n" }
		/(^|\n)Suites:([^\n]*[ \t])?bookworm([ \t\n]|$)/ {
			sub(/Types:[^\n]*/, "Types: deb")
			sub(/Suites:[^\n]*/, "Suites: " suite)
			print
		}' "$sources/debian.sources" >"$sources/$1.sources"
	sed -n "/^deb[ \t].* bookworm /s/ bookworm / $1 /p" "$sources/debian.list" >"$sources/$1.list"
	rm "$sources/debian.sources" "$sources/debian.list"
	[ -s "$sources/$1.sources" ] || [ -s "$sources/$1.list" ] || {
		echo "this machine's apt knows no Debian 12 (bookworm) archive"
		return 1
	}
}

# debian_release SUITE: all of the machine's Debian 12 archives, those of updates and security too, with
# this release in place of Debian 12.
debian_release() {
	debian_sources
	local sources=$build/apt/sources
	sed -i "s/^Types:.*/Types: deb/;/^Suites:/s/bookworm/$1/g" "$sources/debian.sources"
	sed -i "/^deb-src/d;s/ bookworm/ $1/" "$sources/debian.list"
}

# build_download PACKAGE...: the source, what compiles it, and further packages.
build_download() {
	cd "$build"
	private_apt source --download-only kubernetes
	private_apt download golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev "$@"
}

build_unpack() {
	local package
	mkdir "$build/root" "$build/k8s"
	for package in "$build"/*.deb; do
		dpkg-deb -x "$package" "$build/root"
	done
	# Debian's patches change kubectl alone, and that comes ready built.
	tar -xzf "$build"/kubernetes_*"$kubernetes_version".orig.tar.gz -C "$build/k8s" --strip-components=1
	# Version 1.0.1 in the vendor tree corrupts memory with Go 1.18 and later: kube-apiserver
	# dies after some minutes of use.
	local vendored=$build/k8s/vendor/github.com/modern-go/reflect2
	rm -r "$vendored"
	cp -r "$build/root/usr/share/gocode/src/github.com/modern-go/reflect2" "$vendored"
	# This Go refuses Kubernetes' go.mod, so the tree stands in a GOPATH.
	mkdir -p "$build/go/src/k8s.io"
	ln -s "$build/k8s" "$build/go/src/k8s.io/kubernetes"
}

# Runs go in the source tree.
go_tool() {
	cd "$build/go/src/k8s.io/kubernetes"
	env -u GOFLAGS -u GOENV GOROOT="$build/root/usr/lib/go-1.19" GOPATH="$build/go" GO111MODULE=off \
		CGO_ENABLED=0 GOCACHE="$build/gocache" GOTMPDIR="$build" \
		"$build/root/usr/lib/go-1.19/bin/go" "$@"
}

# kube-apiserver needs one file that the source package does not carry.
build_generate() {
	go_tool build -v -o "$build/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
	cd "$build/go/src/k8s.io/kubernetes"
	local folder inputs=()
	while read -r folder; do
		inputs+=(--input-dirs "k8s.io/kubernetes/${folder/#staging\/src/vendor}")
	done < <(grep -rlE '^// *\+k8s:openapi-gen=' --include='*.go' pkg staging/src |
		grep -vE '^staging/src/k8s.io/(code-generator|sample-apiserver)/' | xargs -n1 dirname | sort -u)
	[ ${#inputs[@]} -gt 0 ]
	GOPATH=$build/go GO111MODULE=off GOROOT=$build/root/usr/lib/go-1.19 \
		PATH=$build/root/usr/lib/go-1.19/bin:$PATH "$build/openapi-gen" -O zz_generated.openapi \
		-p k8s.io/kubernetes/pkg/generated/openapi -r /dev/null \
		--go-header-file hack/boilerplate/boilerplate.generatego.txt "${inputs[@]}"
}

# build_compile PACKAGE...
build_compile() {
	local number=${kubernetes_version%.*} flags="-s -w" package
	# The log names the version of the one, /version that of the other.
	for package in component-base/version client-go/pkg/version; do
		package=k8s.io/kubernetes/vendor/k8s.io/$package
		flags+=" -X $package.gitVersion=v$kubernetes_version -X $package.gitTreeState=clean"
		flags+=" -X $package.gitMajor=${number%.*} -X $package.gitMinor=${number#*.}"
	done
	mkdir "$build/bin"
	go_tool build -v -trimpath -o "$build/bin/" -ldflags "$flags" "$@"
}

build_publish() {
	cp "$build/root/usr/bin/etcd" "$build/root/usr/bin/kubectl" "$build/bin/"
	local program
	for program in etcd kubectl kube-apiserver kube-controller-manager; do
		"$build/bin/$program" "$([ "$program" = kubectl ] && echo --help || echo --version)" >/dev/null
	done
	rm -rf "$1"
	mv "$build/bin" "$1"
}

build_publish_node() {
	local program
	for program in "${node_programs[@]}"; do
		"$build/bin/$program" --version >/dev/null
	done
	rm -rf "$1"
	mv "$build/bin" "$1"
}
