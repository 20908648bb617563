#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the demo shows, on a control plane of its own. Run by `demo`.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/shards.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=report # of the operator's namespace
operator=$prefix-operator
network=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1)) # the pods' addresses, on this machine
teams=$(sed -n 's/^  name: \(team-.*\)/\1/p' "$here/teams.yaml" | sort)
pods=0          # that run

# --- The operator ---

# No scheduler has this name, so the pods stay what they are here: objects. The demo plays the kubelet,
# and its programs stand in for the sidecars.
stateful_set() {
	cat <<-YAML
		apiVersion: apps/v1
		kind: StatefulSet
		metadata: {name: $operator, namespace: $operator}
		spec:
		  serviceName: $operator
		  replicas: 0
		  podManagementPolicy: Parallel
		  selector: {matchLabels: {app: $operator}}
		  template:
		    metadata: {labels: {app: $operator}}
		    spec:
		      schedulerName: cmesh-demo
		      containers:
		      - {name: operator, image: cmesh-demo}
		      - {name: cmesh-localproxy, image: cmesh-demo}
		      - {name: cmesh-rulesync, image: cmesh-demo}
	YAML
}

shard_of() {
	echo "$prefix-$(($1 + 1))-normal"
}

# scale NUMBER: as kubectl says it, and what the node does about it.
scale() {
	local number
	say "  kubectl scale statefulset $operator --replicas=$1"
	for ((number = pods - 1; number >= $1; number--)); do
		stop_programs "$operator-$number"
	done
	admin scale statefulset "$operator" --namespace "$operator" --replicas="$1" >/dev/null
	for ((number = pods; number < $1; number++)); do
		await admin get pod "$operator-$number" --namespace "$operator" -o name >/dev/null ||
			die "$operator-$number is not made: $(cat await.log)"
		start_programs "$operator-$number" "$(shard_of "$number")" "$network.$((number + 1))"
	done
	pods=$1
}

# --- Who has what ---

# NAMESPACE POD of what is seen through each pod.
list_views() {
	local number pod
	for ((number = 0; number < pods; number++)); do
		pod=$operator-$number
		through "$pod" get namespaces -o name --request-timeout=10s |
			sed -n "s,^namespace/\(team-.*\),\1 $pod,p"
	done | sort
}

# Whether each shard has buckets, each bucket one shard, and each team is seen through one pod. What
# moves is given to its new shard before it is taken from the old one.
is_spread() {
	list_buckets >buckets
	[ "$(wc -l <buckets)" -eq "$pods" ] && [ "$(owners buckets | wc -l)" -eq 32 ] && list_views >views &&
		[ "$(cut -d' ' -f1 views)" = "$teams" ] && [ "$(field "$operator" enforced)" = "$pods/$pods" ] &&
		[ "$(field "$operator" 'conditions[?(@.type=="Ready")].status')" = True ]
}

show_shards() {
	local shard has pod
	printf '  %-18s%-18s%s\n' SHARD BUCKETS "NAMESPACES THAT ITS POD SEES"
	while read -r shard has; do
		pod=$operator-$((${shard//[^0-9]/} - 1))
		printf '  %-18s%-18s%s\n' "$shard" "$has" \
			"$(awk -v pod="$pod" '$2 == pod { print $1 }' views | paste -sd' ')"
	done <buckets
}

# show_change NUMBER
show_change() {
	local begun moved
	owners buckets >owners.before
	begun=$(date +%s%3N)
	scale "$1"
	await is_spread || die "it is not spread over $1: $(cat buckets views) $(tail -n 3 manager.log)"
	owners buckets >owners.now
	moved=$(join owners.before owners.now | awk '$2 != $3' | wc -l)
	say
	show_shards
	ok "each of the $(wc -l <<<"$teams") namespaces is seen through one pod," \
		"$((($(date +%s%3N) - begun) / 1000)) s after \"kubectl scale\""
	check_balance
	ok "$moved buckets have moved; $((32 - moved)) are where they were"
	check_watch
}

# --- A watch ---

# Through the first pod: a line for each event.
open_watch() {
	: >watch
	run watch.log "$KUBECTL" --kubeconfig "$operator-0.kubeconfig" get namespaces \
		--watch --output-watch-events -o jsonpath='{.type} {.object.metadata.name}{"\n"}' >watch
	await watch_is_right || die "the watch does not begin: $(cat watch.log)"
}

# What an informer would have now.
watched() {
	awk '$2 ~ /^team-/ { if ($1 == "DELETED") delete has[$2]; else has[$2] = 1 }
		END { for (name in has) print name }' watch | sort
}

watch_is_right() {
	[ "$(watched)" = "$(awk -v pod="$operator-0" '$2 == pod { print $1 }' views)" ]
}

check_watch() {
	await watch_is_right || true
	if watch_is_right && all_run; then
		ok "so says the watch that was opened through $operator-0 at the beginning, and never ended"
	else
		wrong "the watch through $operator-0 says $(watched | paste -sd' ') $(cat watch.log)"
	fi
}

# --- The tour ---

made() {
	[ "$(list_buckets | wc -l)" -eq "$1" ]
}

main() {
	enter_work
	find_kubectl
	say
	say "Twelve namespaces, an operator as StatefulSet, and the manager"
	{
		namespace "$operator"
		echo ---
		cat "$here/teams.yaml"
		echo ---
		stateful_set
	} >objects.yaml
	apply objects.yaml
	define_kind shardingconfigs crd.yaml
	start_manager

	say
	say "One ShardingConfig, with root: as many shards as the StatefulSet has pods"
	sed -n '/^  root:/,$ { /#/d; s/^  /        /; p }' "$here/root.yaml"
	apply "$here/root.yaml"
	scale 2
	await is_spread || die "it is not spread: $(cat buckets views) $(tail -n 3 manager.log)"
	say
	say "  kubectl get shardingconfigs"
	admin get shardingconfigs --namespace "$operator" | sed 's/^/          /'
	say
	show_shards
	check_balance
	open_watch

	say
	say "Three pods more: each new shard gets its share as soon as its pod is ready"
	show_change 5

	say
	say "Two pods go: what was theirs goes to those that stay"
	show_change 3

	say
	say "  kubectl get shardingconfigs"
	admin get shardingconfigs --namespace "$operator" | sed 's/^/          /'
	end_well
}

main
