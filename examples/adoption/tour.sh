#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the demo shows, on a control plane of its own. Run by `demo`.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../deployment/pods.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
every=1
rate=50 # changes by users, in a second
load=   # of all pods together, in thousandths of a CPU
leader=$prefix-1-normal # when the operator leaves
declare -A operators # the process of each pod
: "${APISERVER:?is set by test/cluster/cluster run}" "${CLUSTER_CA:?}" "${CLUSTER_AUDIT_LOG:?}"

# --- The operator ---

# As in examples/deployment, with two pods, and not in the mesh. No scheduler has this name, so the pods stay
# what they are here: objects. The demo plays the kubelet, and runs the operator and the sidecars of each. A
# pod is there until these have ended.
deployment() {
	sed -e 's/replicas: 4/replicas: 2/' -e '/enable-proxy/d' "$examples/deployment/deployment.yaml" |
		admin patch --local -f - --type=merge -o yaml -p '{"spec": {
			"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "template": {
			"metadata": {"finalizers": ["demo.cmesh/runs"]}, "spec": {"schedulerName": "cmesh-demo"}}}}'
}

root() {
	sed "s/everyShardReplicas: .*/everyShardReplicas: $every/" "$examples/deployment/root.yaml"
}

# As hpa.yaml, but that it does not wait before it scales down. Kubernetes before 1.23 has another version.
autoscaler() {
	local version=autoscaling/v2
	admin api-versions | grep -qx "$version" || version=autoscaling/v2beta2
	sed -e "s,autoscaling/v2,$version," -e 's/stabilizationWindowSeconds: .*/stabilizationWindowSeconds: 0/' "$here/hpa.yaml"
}

# say_and_do ARGUMENT...: of kubectl, in the operator's namespace.
say_and_do() {
	local argument shown=
	for argument; do
		[[ $argument != "{"* ]] || argument="'$argument'"
		shown+=" $argument"
	done
	say "  kubectl$shown"
	admin "$@" --namespace "$operator" >/dev/null
}

# --- The node ---

# make_account POD: the folder of its service account, with a token that is bound to the pod.
make_account() {
	local uid
	rm -rf "$1.account" "$1.operates"
	mkdir "$1.account"
	uid=$(admin get pod "$1" --namespace "$operator" -o jsonpath='{.metadata.uid}')
	admin create --raw "/api/v1/namespaces/$operator/serviceaccounts/$operator/token" -f - <<-JSON >"$1.token"
		{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		 "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "$1", "uid": "$uid"}}}
	JSON
	value "$1.token" token >"$1.account/token"
	cp "$CLUSTER_CA" "$1.account/ca.crt"
	printf %s "$operator" >"$1.account/namespace"
	cat >"$1.account/kubeconfig" <<-YAML
		apiVersion: v1
		kind: Config
		clusters: [{name: demo, cluster: {server: "$APISERVER", certificate-authority: ca.crt}}]
		users: [{name: demo, user: {tokenFile: token}}]
		contexts: [{name: demo, context: {cluster: demo, user: demo}}]
		current-context: demo
	YAML
}

# start_pod POD SHARD ADDRESS. With sidecars the operator finds another folder, and other variables.
start_pod() {
	local pod=$1 account=$1.account server=${APISERVER#https://}
	make_account "$pod"
	programs[$pod]=
	printf 'KUBERNETES_SERVICE_HOST=%s\nKUBERNETES_SERVICE_PORT=%s\n' "${server%:*}" "${server##*:}" >"$pod.env"
	if [ "$2" != "<none>" ]; then
		start_sidecars "$@" "$account/kubeconfig"
		XDG_STATE_HOME=$work "$bin/kubeconfig-gen/kubeconfig-gen" --log-level=error --namespace="$operator" \
			--proxy="https://$(value "$pod.ready" listen)" --service-account="$pod.led" >"$pod.env"
		account=$pod.led
	fi
	# shellcheck disable=SC2046 # they are several
	run "$pod.operator.log" env $(cat "$pod.env") POD_NAME="$pod" "$here/reporter.py" "$account" "$pod.operates"
	operators[$pod]=${processes[-1]}
	echo "$pod $2" >>pods.ever
	await test -f "$pod.operates" || die "$pod does not start: $(tail -n 3 "$pod".*.log)"
	await set_ready "$pod" "$3" || die "$(cat await.log)"
	meter
}

stop_pod() {
	end_and_forget "${operators[$1]}"
	unset "operators[$1]"
	stop_programs "$1"
	admin patch pod "$1" --namespace "$operator" --type=merge -p '{"metadata": {"finalizers": null}}' >/dev/null
	[ -z "$load" ] || admin delete podmetrics "$1" --namespace "$operator" >/dev/null
	meter
}

# What metrics-server would say of the pods: they share the load.
meter() {
	local pod
	[ -n "$load" ] || return 0
	for pod in "${!programs[@]}"; do
		cat <<-YAML
			---
			apiVersion: metrics.k8s.io/v1beta1
			kind: PodMetrics
			metadata: {name: $pod, namespace: $operator, labels: {app: $operator}}
			timestamp: "$(date -u +%FT%TZ)"
			window: 1s
			containers: [{name: operator, usage: {cpu: $((load / ${#programs[@]}))m, memory: 16Mi}}]
		YAML
	done >metrics.yaml
	apply metrics.yaml
}

# --- What is awaited ---

# phase WHAT SENTENCE: which begins now, for the judge and for people.
phase() {
	echo "$(date +%s.%N) $1" >>phases
	say
	say "$2"
}

# Until each namespace was changed since now, and the operator has seen it.
settle() {
	local highest
	highest=$(numbers settings number | awk '$2 > max { max = $2 } END { print max + 0 }')
	await is_seen "$highest" || die "changes are not seen: $(paste -sd' ' reports) $(tail -n 3 ./*.operator.log)"
}

# NAMESPACE NUMBER of each.
numbers() {
	admin get configmaps -A --field-selector "metadata.name=$1" \
		-o jsonpath="{range .items[*]}{.metadata.namespace} {.data.$2}{\"\\n\"}{end}" | awk 'NF == 2'
}

# Whether all reports have greater numbers than this one.
is_seen() {
	follow_pods
	numbers report seen >reports
	[ "$(awk -v least="$1" '$2 > least' reports | wc -l)" -eq "$(wc -l <<<"$teams")" ]
}

# Whether the manager has rolled the Deployment, and keeps it paused.
is_upgraded() {
	is_rolled_out 2 && [[ $(admin get deployment "$operator" --namespace "$operator" \
		-o jsonpath="{.spec.paused} {.metadata.annotations.${label//./\\.}/roll-status}") == "true 2/2 state=Done"* ]]
}

is_scaled() {
	follow_pods
	[ "$(admin get deployment "$operator" --namespace "$operator" -o jsonpath='{.spec.replicas}')" -eq "$1" ]
}

holder() {
	admin get lease "$operator" --namespace "$operator" -o jsonpath='{.spec.holderIdentity}'
}

# Whether the shard that is left is elected by the operator's own lock.
is_leaving() {
	follow_pods
	[ "$(field "$operator" 'conditions[?(@.type=="Ready")].status')" = True ] &&
		grep -qx "$(holder) $leader" pods
}

# Whether all pods are without sidecars.
is_without() {
	is_rolled_out 2 && [ "$(cut -d' ' -f2 pods | sort -u)" = "<none>" ]
}

# autoscale LOAD NUMBER
autoscale() {
	load=$1
	say "  CPU of all pods together: ${load}m"
	meter
	await is_scaled "$2" || die "it is not scaled: $(admin describe hpa --namespace "$operator")"
	say "  $(admin get events --namespace "$operator" --field-selector reason=SuccessfulRescale \
		-o jsonpath='{.items[-1:].message}')"
	show "$2"
	settle
}

# --- The tour ---

main() {
	local writer
	enter_work
	find_kubectl
	say
	say "An operator of two pods, of which one leads; twelve namespaces; the manager. The operator is not in the mesh"
	deployment >deployment.yaml
	apply "$examples/operator-go/account.yaml"
	apply "$examples/automatic-shards/teams.yaml"
	apply deployment.yaml
	define_kind shardingconfigs crd.yaml
	start_webhook
	await is_without || die "the operator does not start: $(cat pods await.log)"

	phase "without the mesh" "Users change something in the namespaces, $rate times a second, until the end"
	# shellcheck disable=SC2086 # they are several
	run writer.log "$here/writer.py" "$rate" $teams
	writer=${processes[-1]}
	settle
	ok "the operator works, led by $(holder)"

	phase "adopted" "One ShardingConfig and one label of the pod template: a rolling update brings the operator in"
	root >root.yaml
	sed -n '/^  root:/,$ { /#/d; s/^  /        /; p }' root.yaml
	apply root.yaml
	say_and_do patch deployment "$operator" --type=merge -p \
		'{"spec":{"template":{"metadata":{"labels":{"'$label'/enable-proxy":"true"}}}}}'
	show 2
	settle

	phase "scaled from 2 to 4" "A HorizontalPodAutoscaler, and more to do"
	apply "$here/metrics.yaml"
	await established crd/pods.metrics.k8s.io || die "metrics are not served: $(cat await.log)"
	autoscaler >hpa.yaml
	apply hpa.yaml
	autoscale 400 4

	phase "scaled from 4 to 2" "Less to do"
	autoscale 200 2

	phase "upgraded" "A new version, pod by pod, each when the last one is Ready and enforces its rules"
	say_and_do label deployment "$operator" "$label/rolling=all"
	await is_upgraded || die "the Deployment is not followed: $(cat rolled.out await.log)"
	cut -d' ' -f1 pods >pods.before
	say_and_do set image "deployment/$operator" "operator=$operator:0.2.0"
	await is_upgraded || die "it is not upgraded: $(cat rolled.out await.log)"
	[ -z "$(cut -d' ' -f1 pods | comm -12 - pods.before)" ] || wrong "old pods are left: $(cat pods)"
	say_and_do label deployment "$operator" "$label/rolling-"
	say_and_do rollout resume "deployment/$operator"
	show 2
	settle

	phase "leaving" "Out of the mesh: one shard gets everything, and is elected by the operator's own lock"
	say_and_do patch shardingconfig "$operator" --type=merge -p '{"spec":{"leaving":"'$leader'"}}'
	await is_leaving || die "it is not ready to leave: $(admin get shardingconfigs --namespace "$operator")"
	settle
	ok "the operator works, led by $(holder) of $leader"

	phase "left" "Without the label a rolling update brings the operator out"
	say_and_do patch deployment "$operator" --type=merge -p \
		'{"spec":{"template":{"metadata":{"labels":{"'$label'/enable-proxy":null}}}}}'
	await is_without || die "it does not leave: $(cat pods await.log)"
	say_and_do delete shardingconfig "$operator"
	settle
	ok "the operator works as before, led by $(holder)"
	end_and_forget "$writer"

	say
	say "What the API server's audit log says"
	"$here/judge.py" "$CLUSTER_AUDIT_LOG" pods.ever phases || failed=1
	end_well
}

main
