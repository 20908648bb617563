#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The small API server of modern/ on Kubernetes' libraries of today: built once, from packages of
# Debian sid, whose archive is asked wherever the machine's own Debian 12 comes from. Sourced by
# `cluster`, after assets.sh, of which it uses the ways to download and build.
#
# sid moves on, and mirrors of it may be old or cut down: where the packages cannot be had, or are of
# another release, exit code 3 and the reason tell tests to skip.

# shellcheck disable=SC2034,SC2154 # what the others read and set

modern_release=1.36 # of Kubernetes; its libraries call themselves 0.36
modern_go=1.27      # Debian's compiler that builds them
modern_emulates=(1.33 1.34 1.35 1.36)
modern_wanted= # one of these, when it is to be started

modern_sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/modern
# The kinds that are served, and what these are made of, for their description.
modern_described=(k8s.io/api/{core,coordination,admissionregistration}/v1
	k8s.io/apimachinery/pkg/{apis/meta/v1,runtime,version,api/resource,util/intstr})

modern_unable() {
	printf 'cluster: no modern API server on this machine: %s\n' "$*" >&2
	exit 3
}

modern_prepare() {
	require dpkg dpkg
	local root
	root=$(assets_root)
	assets=$root/modern-$modern_release-$(dpkg --print-architecture)-$(files_hash "$modern_sources")
	! assets_complete "$assets" || return 0
	[ -z "${KUBEBUILDER_ASSETS:-}" ] || modern_unable "with KUBEBUILDER_ASSETS set nothing is built"
	locked_build "$root" "$assets" assets_complete modern_recipe
}

# files_hash FOLDER: what was built of other files is of no use.
files_hash() (
	cd "$1" || exit
	find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12
)

modern_recipe() {
	local started=$SECONDS
	say "Building an API server on Kubernetes $modern_release's libraries from Debian sid, once: some minutes"
	build_steps=6
	modern_download_steps etcd-server kubectl
	step 4 "generate the API description" modern_generate
	step 5 "compile 1,000 packages (2 to 4 minutes on two cores)" modern_compile_server
	step 6 "keep the binaries" modern_publish "$1"
	say "The API server is ready in $1 ($(duration "$started"))"
}

# modern_download_steps PACKAGE...: the libraries, what compiles them, and further packages.
modern_download_steps() {
	step_refusal=modern_unable
	step 1 "read Debian sid's package list" modern_lists
	step 2 "download libraries and compiler (75 MB)" modern_download "$@"
	step_refusal=fail
	step 3 "unpack" modern_unpack
}

modern_lists() {
	build_apt
	# A mirror may have stopped following sid; who signed its list is checked all the same. What is
	# installed here, perhaps from elsewhere and of a higher version, does not matter.
	: >"$build/apt/status"
	cat >>"$build/apt.conf" <<-CONF
		Acquire::Check-Valid-Until "false";
		Dir::State::status "$build/apt/status";
	CONF
	debian_archive sid
	private_apt update
	local found
	found=$(apt-cache -c "$build/apt.conf" show --no-all-versions golang-k8s-apiserver-dev |
		sed -n 's/^Version: //p')
	[[ $found == 0.${modern_release#*.}.* ]] || {
		echo "this is written for version 0.${modern_release#*.} of golang-k8s-apiserver-dev; sid has '$found'"
		return 1
	}
}

modern_download() {
	cd "$build" || exit
	local libraries
	mapfile -t libraries <"$modern_sources/packages"
	private_apt download "${libraries[@]}" "golang-$modern_go-go" "golang-$modern_go-src" "$@"
}

modern_unpack() {
	local package
	mkdir "$build/root" "$build/bin"
	for package in "$build"/*.deb; do
		dpkg-deb -x "$package" "$build/root"
		rm "$package"
	done
	mkdir -p "$build/go/src/cmesh.test/apiserver/schema"
	cp "$modern_sources"/*.go "$build/go/src/cmesh.test/apiserver"
}

# Runs go in our own sources.
modern_go_tool() {
	cd "$build/go/src" || exit
	env -u GOFLAGS GOENV=off GOTOOLCHAIN=local GO111MODULE=off CGO_ENABLED=0 \
		GOROOT="$build/root/usr/lib/go-$modern_go" GOPATH="$build/go:$build/root/usr/share/gocode" \
		GOCACHE="$build/gocache" GOTMPDIR="$build" PATH="$build/root/usr/lib/go-$modern_go/bin:$PATH" "$@"
}

# kubectl and server-side apply read how each kind is made; the libraries have the types alone.
modern_generate() {
	modern_go_tool go build -v -o "$build/openapi-gen" k8s.io/kube-openapi/cmd/openapi-gen
	local package known=()
	for package in "${modern_described[@]}"; do
		known+=(--readonly-pkg "$package")
	done
	modern_go_tool "$build/openapi-gen" --output-dir cmesh.test/apiserver/schema \
		--output-pkg cmesh.test/apiserver/schema --output-file generated.go \
		--output-model-name-file zz_generated.model_name.go "${known[@]}" -r /dev/null \
		--go-header-file /dev/null "${modern_described[@]}"
}

modern_compile_server() {
	modern_compile "$build/bin/kube-apiserver" cmesh.test/apiserver
}

# The libraries' own number without what Debian adds: 36.4.
modern_patch() {
	apt-cache -c "$build/apt.conf" show --no-all-versions golang-k8s-apiserver-dev |
		sed -n 's/^Version: 0\.\([0-9.]*\).*/\1/p'
}

# modern_compile OUTPUT PACKAGE...
modern_compile() {
	local flags="-s -w" package version output=$1
	shift
	version=v1.$(modern_patch)
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $package.gitVersion=$version -X $package.gitTreeState=clean"
		flags+=" -X $package.gitMajor=1 -X $package.gitMinor=${modern_release#*.}"
	done
	modern_go_tool go build -v -trimpath -o "$output" -ldflags "$flags" "$@"
}

modern_publish() {
	cp "$build/root/usr/bin/etcd" "$build/root/usr/bin/kubectl" "$build/bin/"
	"$build/bin/etcd" --version
	"$build/bin/kubectl" version --client
	"$build/bin/kube-apiserver" --help
	rm -rf "$1"
	mv "$build/bin" "$1"
}
