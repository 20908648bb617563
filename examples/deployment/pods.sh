#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the tours of a Deployment have in common: the webhook for its pods, a node that runs them, and who
# has what.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../automatic-shards/shards.sh"

examples=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prefix=report # of the operator's namespace
operator=$prefix-operator
network=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1)) # the pods' addresses, on this machine
teams=$(sed -n 's/^  name: \(team-.*\)/\1/p' "$examples/automatic-shards/teams.yaml" | sort)
every=    # pods in each shard: the tour's
started=0 # pods, ever
webhook=(--webhook=127.0.0.1:0 --webhook-host=127.0.0.1 --sidecar-image=cmesh-demo)

# --- The webhook for pods ---

# As in k8s/base/webhooks.yaml, but that the manager is a process beside the API server. The manager adds by
# which authority it is to be known.
webhook_configuration() {
	cat <<-YAML
		apiVersion: admissionregistration.k8s.io/v1
		kind: MutatingWebhookConfiguration
		metadata: {name: cmesh-demo, labels: {app.kubernetes.io/part-of: cmesh}}
		webhooks:
		- name: pods.webhook.cmesh.kusionstack.io
		  clientConfig: {url: "https://$(value manager.ready webhook)/mutate/pods"}
		  rules:
		  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
		  objectSelector: {matchLabels: {$label/enable-proxy: "true"}}
		  failurePolicy: Fail
		  reinvocationPolicy: IfNeeded
		  sideEffects: None
		  admissionReviewVersions: [v1]
	YAML
}

is_trusted() {
	[ -n "$(admin get mutatingwebhookconfiguration cmesh-demo -o jsonpath='{.webhooks[0].clientConfig.caBundle}')" ]
}

# The manager, which pods are sent to from then on.
start_webhook() {
	start_manager
	webhook_configuration >webhook.yaml
	apply webhook.yaml
	await is_trusted || die "the API server does not get the webhook's authority: $(tail -n 3 manager.log)"
}

# --- The node ---

# POD SHARD of each that is not to end; without sidecars it has the shard <none>.
list_pods() {
	local columns=POD:.metadata.name,SHARD:.metadata.labels.${label//./\\.}/shard
	admin get pods --namespace "$operator" -l "app=$operator" --no-headers \
		-o custom-columns="$columns,ENDS:.metadata.deletionTimestamp" |
		awk '$3 == "<none>" { print $1, $2 }' | sort
}

# start_pod POD SHARD ADDRESS, stop_pod POD: what the node does about it. Tours may have their own.
start_pod() {
	start_programs "$@"
}

stop_pod() {
	stop_programs "$1"
}

# Programs for pods that have come, and none for those that have gone.
follow_pods() {
	local pod shard
	list_pods >pods
	for pod in "${!programs[@]}"; do
		grep -q "^$pod " pods || stop_pod "$pod"
	done
	while read -r pod shard <&3; do
		[ -n "${programs[$pod]+there}" ] || {
			started=$((started + 1))
			start_pod "$pod" "$shard" "$network.$((started % 250 + 1))"
		}
	done 3<pods
}

# As `kubectl rollout status` has it.
is_rolled_out() {
	follow_pods
	admin rollout status "deployment/$operator" --namespace "$operator" --watch=false >rolled.out &&
		grep -q 'successfully rolled out' rolled.out && [ "$(wc -l <pods)" -eq "$1" ]
}

# --- Who has what ---

# TEAM SHARD of what is seen through each pod. Pods of a shard see the same.
list_views() {
	local pod shard
	while read -r pod shard <&3; do
		through "$pod" get namespaces -o name --request-timeout=10s </dev/null |
			sed -n "s,^namespace/\(team-.*\),\1 $shard,p"
	done 3<pods | sort | uniq -c | awk '{ print $2, $3, $1 }'
}

# Whether each shard has buckets, each bucket one shard, and each team is seen through the pods of one shard.
# What moves is given to its new shard before it is taken from the old one.
is_spread() {
	local count
	count=$(wc -l <pods)
	list_buckets >buckets
	[ "$(wc -l <buckets)" -eq $((count / every)) ] && [ "$(owners buckets | wc -l)" -eq 32 ] &&
		list_views >views && [ "$(cut -d' ' -f1 views)" = "$teams" ] &&
		[ "$(cut -d' ' -f3 views | sort -u)" = "$every" ] &&
		[ "$(field "$operator" enforced)" = "$count/$count" ] &&
		[ "$(field "$operator" 'conditions[?(@.type=="Ready")].status')" = True ]
}

show_shards() {
	local shard has
	printf '  %-18s%-6s%-18s%s\n' SHARD PODS BUCKETS "NAMESPACES THAT ITS PODS SEE"
	while read -r shard has; do
		printf '  %-18s%-6s%-18s%s\n' "$shard" "$(grep -c " $shard\$" pods)" "$has" \
			"$(awk -v shard="$shard" '$2 == shard { print $1 }' views | paste -sd' ')"
	done <buckets
}

check_pods() {
	local counts
	counts=$(cut -d' ' -f2 pods | uniq_count | sort -u)
	if [ "$counts" = "$every" ]; then
		ok "each shard has $every of the $(wc -l <pods) pods"
	else
		wrong "shards have $(paste -sd, <<<"$counts") pods"
	fi
}

# show NUMBER: of pods, when they are there and have their shares.
show() {
	local begun
	begun=$(date +%s)
	await is_rolled_out "$1" || die "it is not rolled out: $(cat rolled.out pods await.log)"
	await is_spread || die "it is not spread: $(cat pods buckets views) $(tail -n 3 manager.log)"
	say
	show_shards
	check_pods
	check_balance
	ok "each of the $(wc -l <<<"$teams") namespaces is seen through the pods of one shard," \
		"$(($(date +%s) - begun)) s later"
}
