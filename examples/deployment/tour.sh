#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the demo shows, on a control plane of its own. Run by `demo`.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../automatic-shards/shards.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=report # of the operator's namespace
operator=$prefix-operator
network=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1)) # the pods' addresses, on this machine
teams=$(sed -n 's/^  name: \(team-.*\)/\1/p' "$here/../automatic-shards/teams.yaml" | sort)
every=2
started=0 # pods, ever

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

# --- The operator ---

# Without the service account, whose token nobody mounts here. No scheduler has this name, so the pods stay
# what they are here: objects. The demo plays the kubelet, and its programs stand in for the sidecars.
deployment() {
	sed -e 's/replicas: 4/replicas: 0/' -e 's/serviceAccountName: .*/schedulerName: cmesh-demo/' \
		"$here/deployment.yaml"
}

# POD SHARD of each.
list_pods() {
	admin get pods --namespace "$operator" -l "app=$operator" \
		-o jsonpath="{range .items[*]}{.metadata.name} {.metadata.labels.${label//./\\.}/shard}{\"\\n\"}{end}" |
		sort
}

# Programs for pods that have come, and none for those that have gone.
follow_pods() {
	local pod shard
	list_pods >pods
	for pod in "${!programs[@]}"; do
		grep -q "^$pod " pods || stop_programs "$pod"
	done
	while read -r pod shard <&3; do
		[ -n "${programs[$pod]-}" ] || {
			started=$((started + 1))
			start_programs "$pod" "$shard" "$network.$((started % 250 + 1))"
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

scale() {
	say "  kubectl scale deployment $operator --replicas=$1"
	admin scale deployment "$operator" --namespace "$operator" --replicas="$1" >/dev/null
	show "$1"
}

# --- The tour ---

main() {
	enter_work
	find_kubectl
	say
	say "Twelve namespaces, an operator as Deployment, and the manager with its webhook for pods"
	{
		namespace "$operator"
		echo ---
		cat "$here/../automatic-shards/teams.yaml"
		echo ---
		deployment
	} >objects.yaml
	apply objects.yaml
	define_kind shardingconfigs crd.yaml
	webhook=(--webhook=127.0.0.1:0 --webhook-host=127.0.0.1 --sidecar-image=cmesh-demo)
	start_manager
	webhook_configuration >webhook.yaml
	apply webhook.yaml
	await is_trusted || die "the API server does not get the webhook's authority: $(tail -n 3 manager.log)"

	say
	say "One ShardingConfig, with root: a shard for each two pods of the Deployment"
	sed -n '/^  root:/,$ { /#/d; s/^  /        /; p }' "$here/root.yaml"
	apply "$here/root.yaml"
	scale 6

	say
	say "Two pods more make a shard more, which gets both"
	scale 8

	say
	say "A rolling update makes all pods anew, and each shard has its two again"
	say "  kubectl rollout restart deployment $operator"
	cut -d' ' -f1 pods >pods.before
	admin rollout restart "deployment/$operator" --namespace "$operator" >/dev/null
	show 8
	if [ -z "$(cut -d' ' -f1 pods | comm -12 - pods.before)" ]; then
		ok "none of the old pods is left"
	else
		wrong "old pods are left: $(cut -d' ' -f1 pods | comm -12 - pods.before | paste -sd' ')"
	fi

	say
	say "  kubectl get pods -L $label/shard"
	admin get pods --namespace "$operator" -L "$label/shard" | sed 's/^/          /'
	end_well
}

main
