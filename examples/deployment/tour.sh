#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the demo shows, on a control plane of its own. Run by `demo`.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/pods.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
every=2

# --- The operator ---

# Without the service account, whose token nobody mounts here. No scheduler has this name, so the pods stay
# what they are here: objects. The demo plays the kubelet, and its programs stand in for the sidecars.
deployment() {
	sed -e 's/replicas: 4/replicas: 0/' -e 's/serviceAccountName: .*/schedulerName: cmesh-demo/' \
		"$here/deployment.yaml"
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
		cat "$examples/automatic-shards/teams.yaml"
		echo ---
		deployment
	} >objects.yaml
	apply objects.yaml
	define_kind shardingconfigs crd.yaml
	start_webhook

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
