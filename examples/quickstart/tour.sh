#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the demo shows, on the cluster of $KUBECONFIG. Run by `demo`.
set -euo pipefail

throwaway= # the cluster is the demo's own
once=
for argument; do
	case $argument in
	--throwaway) throwaway=1 ;;
	--once) once=1 ;;
	esac
done

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "$here/../../build/release" && pwd)
shards=(blue green)
label=ctrlmesh.kusionstack.io
prefix=demo # of the namespaces
processes=()
created=
failed=
leaving=130

# --- The end ---

finish() {
	local status=$? pid
	trap '' INT TERM HUP
	trap - EXIT
	for pid in "${processes[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	wait
	if [ -n "$created" ] && [ -z "$throwaway" ]; then
		echo "Removing the namespaces $prefix-1 to $prefix-6 ..."
		admin delete namespace "$prefix"-{1..6} --ignore-not-found --timeout=120s >/dev/null || {
			echo "They could not be removed: kubectl delete namespace $prefix-{1..6}" >&2
			status=1
		}
	fi
	rm -rf "$work"
	exit "$status"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/cmesh-demo.XXXXXX")
trap finish EXIT
# An interrupt may come twice: from the terminal and from who started this.
trap 'trap "" INT TERM HUP; exit "$leaving"' INT
trap 'trap "" INT TERM HUP; exit 143' TERM
trap 'trap "" INT TERM HUP; exit 129' HUP

# --- Words ---

say() {
	printf '%s\n' "$*"
}

ok() {
	say "  ok      $*"
}

wrong() {
	say "  WRONG   $*"
	failed=1
}

die() {
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

# --- The cluster ---

# The control plane's own kubectl, else the machine's, else one that is built.
find_kubectl() {
	kubectl=${KUBECTL:-}
	if [ -z "$throwaway" ] && ! kubectl=$(command -v kubectl); then
		kubectl=$("$here/../../test/cluster/cluster" build)/kubectl
	fi
}

admin() {
	"$kubectl" "$@"
}

# through SHARD ARGUMENT...
through() {
	"$kubectl" --kubeconfig "$work/$1.kubeconfig" "${@:2}"
}

# The hash of the control label: h = h*33 + c, modulo 32, over the characters of the namespace.
sharding_hash() {
	local h=0 i code
	for ((i = 0; i < ${#1}; i++)); do
		printf -v code %d "'${1:i:1}"
		h=$(((h * 33 + code) % 32))
	done
	echo "$h"
}

labels() {
	echo "{$label/namespace: $1, $label/sharding-hash: \"$(sharding_hash "$1")\"}"
}

# No scheduler has this name, so that pods stay what they are here: objects.
pod() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Pod
		metadata: {name: $2, namespace: $1, labels: $(labels "$1")}
		spec:
		  schedulerName: cmesh-demo
		  containers: [{name: main, image: cmesh-demo}]
	YAML
}

namespace() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Namespace
		metadata: {name: $1, labels: $(labels "$1")}
	YAML
}

# Pods are refused until the controllers have made the namespace's service account.
apply() {
	local deadline=$((SECONDS + 30))
	until admin apply -f "$1" >"$work/apply.log" 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || die "$(cat "$work/apply.log")"
		sleep 0.3
	done
}

make_objects() {
	local i name
	for i in {1..6}; do
		namespace "$prefix-$i"
		for name in web db; do
			pod "$prefix-$i" "$name"
		done
	done >"$work/objects.yaml"
	created=1
	apply "$work/objects.yaml"
}

# --- The shards ---

# value FILE KEY: a string of a flat JSON object.
value() {
	sed "s/.*\"$2\":\"\([^\"]*\)\".*/\1/" "$1"
}

start_shard() {
	local shard=$1 tries
	sed "s/\bdemo-\([1-6]\)\b/$prefix-\1/g" "$here/shard-$shard.yaml" >"$work/$shard.yaml"
	"$bin/manager/manager" compile -f "$work/$shard.yaml" >"$work/$shard.rules.json"
	setpriv --pdeathsig TERM "$bin/localproxy/localproxy" --rules="$work/$shard.rules.json" \
		--listen=127.0.0.1:0 --admin=127.0.0.1:0 --ready-file="$work/$shard.ready" \
		2>"$work/$shard.log" &
	processes+=($!)
	for ((tries = 0; tries < 100; tries++)); do
		[ ! -f "$work/$shard.ready" ] || break
		kill -0 $! 2>/dev/null || die "localproxy has ended: $(cat "$work/$shard.log")"
		sleep 0.1
	done
	[ -f "$work/$shard.ready" ] || die "localproxy does not start: $(cat "$work/$shard.log")"
	"$bin/kubeconfig-gen/kubeconfig-gen" --log-level=error \
		--proxy="http://$(value "$work/$shard.ready" listen)" -o "$work/$shard.kubeconfig"
	printf '  %-7s shard-%s.yaml -> localproxy at http://%s\n' "$shard" "$shard" \
		"$(value "$work/$shard.ready" listen)"
}

# --- What is shown ---

# NAMESPACE/NAME of a table of pods on standard input, of the demo's namespaces alone: a cluster
# that is not the demo's own has others, which no shard sees.
pods_of_table() {
	awk -v prefix="$prefix-" 'index($1, prefix) == 1 { print $1 "/" $2 }' | sort -u
}

show_views() {
	local shard
	admin get pods -A --no-headers | pods_of_table >"$work/all.pods"
	for shard in "${shards[@]}"; do
		through "$shard" get pods -A --no-headers | pods_of_table >"$work/$shard.pods"
	done
	printf '  %-26s%-26s%s\n' "directly" "through blue" "through green"
	local pod row
	while read -r pod; do
		row=$(printf '  %-26s' "$pod")
		for shard in "${shards[@]}"; do
			row+=$(printf '%-26s' "$(grep -Fx "$pod" "$work/$shard.pods" || echo .)")
		done
		say "${row%"${row##*[! ]}"}"
	done <"$work/all.pods"
}

namespaces_of() {
	sed 's,/.*,,' "$1" | sort -u | paste -sd' '
}

check_views() {
	local shard all both
	all=$(wc -l <"$work/all.pods")
	for shard in "${shards[@]}"; do
		printf '  %-7s sees %d pods, of %s\n' "$shard" "$(wc -l <"$work/$shard.pods")" \
			"$(namespaces_of "$work/$shard.pods")"
	done
	both=$(sort -m "$work/blue.pods" "$work/green.pods" | uniq -d)
	if [ "$all" -gt 0 ] && sort -mu "$work/blue.pods" "$work/green.pods" | cmp -s - "$work/all.pods"; then
		ok "together they see all $all pods"
	else
		wrong "together they do not see all $all pods"
	fi
	if [ -z "$both" ] && [ -s "$work/blue.pods" ] && [ -s "$work/green.pods" ]; then
		ok "no pod is seen by both"
	else
		wrong "seen by both: $both"
	fi
}

# What the API server was asked, from its own log of requests.
show_requests() {
	local uri
	say "kubectl asked for /api/v1/pods?limit=500 each time; the API server was asked for"
	grep -o '"requestURI":"/api/v1/pods?[^"]*labelSelector=[^"]*"' "$CLUSTER_AUDIT_LOG" |
		cut -d'"' -f4 | sort -u | while read -r uri; do
		uri=${uri//\\u0026/&}
		uri=${uri//+/ }
		printf '  %b\n' "${uri//%/\\x}"
	done
	say
}

# await COMMAND...
await() {
	local deadline=$((SECONDS + 20))
	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.1
	done
}

has_lines() {
	[ "$(wc -l <"$1")" -ge "$2" ]
}

start_watch() {
	setpriv --pdeathsig TERM "$kubectl" --kubeconfig "$work/$1.kubeconfig" get pods -A --watch \
		--no-headers >"$work/$1.watch" 2>"$work/$1.watch.log" &
	processes+=($!)
	await has_lines "$work/$1.watch" "$(wc -l <"$work/$1.pods")" ||
		die "the watch through $1 does not begin: $(cat "$work/$1.watch.log")"
}

# new_in_watch SHARD: pods in the watch that were not there before.
new_in_watch() {
	pods_of_table <"$work/$1.watch" | comm -23 - "$work/$1.pods"
}

has_news() {
	[ -n "$(new_in_watch "$1")" ]
}

check_watch() {
	local shard=$1 want=$2 got
	got=$(new_in_watch "$shard" | tr '\n' ' ')
	if [ "${got% }" = "$want" ]; then
		ok "the watch through $shard got $want and nothing else"
	else
		wrong "the watch through $shard got ${got:-nothing} instead of $want"
	fi
}

show_watches() {
	local shard
	for shard in "${shards[@]}"; do
		start_watch "$shard"
	done
	{
		pod "$prefix-2" late
		pod "$prefix-5" late
	} >"$work/late.yaml"
	apply "$work/late.yaml"
	for shard in "${shards[@]}"; do
		await has_news "$shard" || true
	done
	sleep 1 # for what must not come
	check_watch blue "$prefix-2/late"
	check_watch green "$prefix-5/late"
}

play() {
	say
	say "Play on, in another terminal:"
	say
	# The other terminal does not have it when it is the one that was built.
	case $kubectl in
	"${CMESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cmesh}"/*) say "  alias kubectl=$kubectl" ;;
	esac
	cat <<-TEXT
		  cd $work
		  kubectl --kubeconfig blue.kubeconfig get pods -A --watch
		  kubectl --kubeconfig green.kubeconfig get namespaces
		  # blue's watch shows this one:
		  KUBECONFIG=$KUBECONFIG kubectl run hello \\
		    --image=none -n $prefix-3 -l $label/namespace=$prefix-3
		  # any client, any operator:
		  KUBECONFIG=$work/green.kubeconfig ...

		What the proxies say: http://$(value "$work/blue.ready" admin)/status and /metrics
		In that folder are also their rules (blue.rules.json) and logs (blue.log).

		Ctrl-C ends the demo and removes everything that it made.
	TEXT
}

main() {
	local shard
	find_kubectl
	if [ -z "$throwaway" ]; then
		prefix=cmesh-demo-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')
		say "Using the cluster of KUBECONFIG=$KUBECONFIG, context $(admin config current-context)."
		admin get --raw /version --request-timeout=10s >/dev/null || die "that cluster does not answer"
		say "It gets the namespaces $prefix-1 to $prefix-6; they are removed at the end."
	fi
	say
	say "Six namespaces with two pods each, labelled as the manager labels them"
	make_objects

	say "Two shards: a ShardingConfig compiled to rules, a localproxy, a kubeconfig that leads to it"
	for shard in "${shards[@]}"; do
		start_shard "$shard"
	done

	say
	say "\"kubectl get pods -A\" as usual, and through each of them:"
	say
	show_views
	say
	check_views
	say
	[ -z "$throwaway" ] || show_requests
	say "Two watches are open; now a pod is created in $prefix-2 and one in $prefix-5"
	show_watches

	[ -z "$failed" ] || die "something of this is not as it should be"
	[ -z "$once" ] || return 0
	play
	leaving=0
	wait -n "${processes[@]}" || true
	tail -n 5 "$work"/*.log >&2
	die "a proxy or a watch has ended by itself"
}

main
