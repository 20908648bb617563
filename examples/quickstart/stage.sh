#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tour.sh stands on: a folder, a cluster with objects, shards, and the end of them all.
set -euo pipefail

quickstart=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "$quickstart/../../build/release" && pwd)
base=$(cd "$quickstart/../../k8s/base" && pwd)
label=ctrlmesh.kusionstack.io
prefix=demo # of the namespaces
throwaway=  # the cluster is the demo's own
patience=300 # seconds, for slow machines
processes=()
webhook=(--webhook=off) # flags of the manager
created=
defined=() # the kinds that are the demo's own: files
leaving=130

# --- The end ---

# end_these PID...: told again every second, for what comes between bash's fork and exec is lost.
end_these() {
	local pid tries=0
	for pid; do
		while kill -0 "$pid" 2>/dev/null; do
			[ $((tries++ % 20)) -ne 0 ] || kill "$@" 2>/dev/null || true
			sleep 0.05
		done
	done
}

finish() {
	local status=$?
	trap '' INT TERM HUP
	trap - EXIT
	end_these "${processes[@]}"
	if [ -n "$created" ] && [ -z "$throwaway" ]; then
		echo "Removing the namespaces $prefix-1 to $prefix-6 and $prefix-operator ..."
		admin delete namespace "$prefix"-{1..6} "$prefix-operator" --ignore-not-found \
			--timeout=120s >/dev/null || {
			echo "They could not be removed: kubectl delete namespace $prefix-{{1..6},operator}" >&2
			status=1
		}
	fi
	if [ "${#defined[@]}" -gt 0 ] && [ -z "$throwaway" ]; then
		echo "Removing the kinds that were missing ..."
		admin delete "${defined[@]/#/--filename=}" --ignore-not-found >/dev/null || status=1
	fi
	cd /
	rm -rf "$work"
	exit "$status"
}

# A folder for what is made, which is also where everything runs: paths stay short.
enter_work() {
	work=$(mktemp -d "${TMPDIR:-/tmp}/cmesh-demo.XXXXXX")
	trap finish EXIT
	# An interrupt may come twice: from the terminal and from who started this.
	trap 'trap "" INT TERM HUP; exit "$leaving"' INT
	trap 'trap "" INT TERM HUP; exit 143' TERM
	trap 'trap "" INT TERM HUP; exit 129' HUP
	cd "$work"
	mkfifo silence
	exec {silence}<>silence
}

# --- Words ---

say() {
	printf '%s\n' "$*"
}

die() {
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

# await COMMAND...: until it succeeds. Not if something that is to run has ended. What it complains
# of is in await.log, and is told where it takes long, or where waiting does not help.
await() {
	local hopeless deadline=$((SECONDS + patience)) told=$((SECONDS + 10))
	until "$@" 2>await.log; do
		! hopeless=$(hopeless await.log) || die "$hopeless"
		if [ "$SECONDS" -ge "$deadline" ] || ! all_run; then
			return 1
		fi
		if [ "$SECONDS" -ge "$told" ]; then
			printf '  still waiting for "%s": %s\n' "${*//$'\n'/, }" "$(tail -n 1 await.log)" >&2
			told=$((SECONDS + 10))
		fi
		sleep 0.1
	done
}

# The first complaint of missing rights or trust. Not that pods are forbidden whose service account
# is still to come.
hopeless() {
	grep -Em1 'cannot [a-z]+ (resource|path) |Unauthorized|x509: ' "$1"
}

all_run() {
	local pid
	for pid in "${processes[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# For as long as all run that is to run.
hold() {
	while all_run; do
		pause 0.5
	done
}

# pause SECONDS: without a child, as `sleep` would be: when bash is interrupted just as it begins to
# wait for one, it interrupts itself for ever.
pause() {
	read -rt "$1" -u "$silence" || true
}

# --- The cluster ---

# The control plane's own kubectl, else the machine's, else one that is built.
find_kubectl() {
	if [ -z "$throwaway" ] && ! KUBECTL=$(command -v kubectl); then
		KUBECTL=$("$quickstart/../../test/cluster/cluster" build)/kubectl
	fi
	export KUBECTL
}

choose_cluster() {
	find_kubectl
	[ -z "$throwaway" ] || return 0
	prefix=cmesh-demo-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')
	say
	say "This is done in YOUR cluster, because KUBECONFIG is set: $KUBECONFIG"
	say "  context $(admin config current-context), $(server)"
	admin get --raw /version --request-timeout=10s >/dev/null || die "that cluster does not answer"
	say "It gets the namespaces $prefix-1 to $prefix-6 and $prefix-operator, removed at the end."
	say "Without KUBECONFIG the demo starts a cluster of its own."
	may create namespaces
	may create customresourcedefinitions
	[ ! -t 0 ] || [ -n "$once" ] || read -r -p "Enter: go on. Ctrl-C: leave it alone. "
}

server() {
	admin config view --minify -o jsonpath='{.clusters[0].cluster.server}'
}

# may VERB RESOURCE
may() {
	admin auth can-i "$@" --all-namespaces >can.log 2>&1 ||
		die "that user may not $*: the demo needs an administrator ($(tail -n 1 can.log))"
}

# A kind, if the cluster does not have it yet: define_kind PLURAL FILE
define_kind() {
	local kind=crd/$1.$label
	admin get "$kind" >/dev/null 2>&1 || {
		defined+=("$base/$2")
		apply "$base/$2"
	}
	await established "$kind" || die "$kind is not served: $(cat await.log)"
}

# Right after it was made it has no conditions, and kubectl wait ends with an error.
established() {
	admin get "$1" -o jsonpath='{.status.conditions[?(@.type=="Established")].status}' | grep -qx True
}

admin() {
	"$KUBECTL" "$@"
}

# through SHARD ARGUMENT...
through() {
	"$KUBECTL" --kubeconfig "$1.kubeconfig" "${@:2}"
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

# In a cluster of its own the demo leaves it to the manager.
labels() {
	[ -n "$throwaway" ] ||
		echo "{$label/namespace: $1, $label/sharding-hash: \"$(sharding_hash "$1")\"}"
}

namespace() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Namespace
		metadata: {name: $1, labels: $(labels "$1")}
	YAML
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

applied() {
	admin apply -f "$1" >/dev/null
}

# Pods are refused until the controllers have made the namespace's service account.
apply() {
	await applied "$1" || die "$(cat await.log)"
}

make_objects() {
	local i name
	{
		namespace "$prefix-operator"
		for i in {1..6}; do
			namespace "$prefix-$i"
			for name in web db; do
				pod "$prefix-$i" "$name"
			done
		done
	} >objects.yaml
	created=1
	apply objects.yaml
}

# --- Programs ---

# run LOG COMMAND...: in the background, for as long as the demo runs.
run() {
	setpriv --pdeathsig TERM "${@:2}" 2>"$1" &
	processes+=($!)
}

# value FILE KEY: a string of a flat JSON object.
value() {
	sed "s/.*\"$2\":\"\([^\"]*\)\".*/\1/" "$1"
}

# --- The manager ---

# Of a cluster that is not the demo's own it looks at one namespace, and labels nothing.
start_manager() {
	local options=("${webhook[@]}")
	[ -n "$throwaway" ] || options+=(--label-qps=0)
	run manager.log "$bin/manager/manager" --namespace="$prefix-operator" \
		--watch-namespace="$prefix-operator" --leader-elect=false \
		--admin=127.0.0.1:0 --probe-any-address --ready-file=manager.ready "${options[@]}"
	await test -f manager.ready || die "the manager does not start: $(tail -n 3 manager.log)"
}

# What stands in the status of a shard: field SHARD PATH
field() {
	status_field shardingconfig "$@"
}

# status_field KIND NAME PATH
status_field() {
	admin get "$1" "$2" --namespace "$prefix-operator" -o jsonpath="{.status.$3}" 2>field.log || true
}

labelled() {
	[ "$(admin get pods -A -l "$label/control=true" --no-headers | pods_of_table | wc -l)" -ge 12 ]
}

# --- The shards ---

# A pod of the operator, as the API server knows it: the demo's programs stand in for its
# containers. operator_pod SHARD FILE
operator_pod() {
	local proxy sync
	proxy=$(value "$1.ready" admin)
	sync=$(value "$1.rulesync.ready" admin)
	cat <<-YAML
		apiVersion: v1
		kind: Pod
		metadata:
		  name: operator-$1-0
		  namespace: $prefix-operator
		  labels: {app: $prefix-operator, shard: $1}
		spec:
		  schedulerName: cmesh-demo
		  containers:
		  - {name: operator, image: cmesh-demo}
		  - name: cmesh-localproxy
		    image: cmesh-demo
		    ports: [{name: cmesh-admin, containerPort: ${proxy##*:}}]
		  - name: cmesh-rulesync
		    image: cmesh-demo
		    ports: [{name: cmesh-rulesync, containerPort: ${sync##*:}}]
	YAML
}

# What the kubelet would say of it. The manager may write to the pod in between: then it fails, and
# is to be done again with what the pod has become. set_ready POD [ADDRESS]
set_ready() {
	local path=/api/v1/namespaces/$prefix-operator/pods/$1 now
	now=$(date -u +%FT%TZ)
	admin get --raw "$path" |
		admin patch --local -f - --type=merge -o json -p '{"status": {"phase": "Running",
			"startTime": "'"$now"'", "podIP": "'"${2:-127.0.0.1}"'", "podIPs": [{"ip": "'"${2:-127.0.0.1}"'"}],
			"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "'"$now"'"}]}}' |
		admin replace --raw "$path/status" -f - >/dev/null
}

# What the kubelet would write of the pod's labels.
pod_labels() {
	printf '%s="%s"\n' app "$prefix-operator" shard "$1"
}

# rulesync follows the shard's ConfigMap and hands rules and traffic policies to localproxy.
start_shard() {
	local shard=$1
	mkdir "$shard"
	pod_labels "$shard" >"$shard/labels"
	run "$shard.rulesync.log" "$bin/rulesync/rulesync" \
		--from-configmap="$prefix-operator/cmesh-rules-$shard" --shard="$prefix-operator/$shard" \
		--to="$shard/rules.json" --control="$shard.sock" --admin=127.0.0.1:0 \
		--ready-file="$shard.rulesync.ready"
	XDG_STATE_HOME=$work run "$shard.localproxy.log" "$bin/localproxy/localproxy" \
		--rules="$shard/rules.json" --control="$shard.sock" \
		--pod-labels="$shard/labels" --breaker-state="$shard/breakers.json" --state="$shard/state" \
		--listen=127.0.0.1:0 --admin=127.0.0.1:0 --ready-file="$shard.ready"
	await test -f "$shard.ready" -a -f "$shard.rulesync.ready" ||
		die "$shard does not start: $(tail -n 3 "$shard".*.log)"
	operator_pod "$shard" >"$shard.pod.yaml"
	apply "$shard.pod.yaml"
	await set_ready "operator-$shard-0" || die "$(cat await.log)"
	XDG_STATE_HOME=$work "$bin/kubeconfig-gen/kubeconfig-gen" --log-level=error \
		--proxy="https://$(value "$shard.ready" listen)" -o "$shard.kubeconfig"
	printf '  %-7s ConfigMap cmesh-rules-%s -> rulesync -> localproxy at https://%s\n' "$shard" \
		"$shard" "$(value "$shard.ready" listen)"
}

# When a shard's proxy confirmed that it enforces this generation, as rulesync's log has it.
enforced_at() {
	grep "localproxy enforces the rules .*generation=$2\b" "$1.rulesync.log" | cut -d' ' -f1
}

confirmed() {
	enforced_at "$@" >/dev/null
}

# Whether the manager has read that back from the proxy: enforced SHARD GENERATION
enforced() {
	[ "$(field "$1" 'pods[0].generation') $(field "$1" enforced)" = "$2 1/1" ]
}
