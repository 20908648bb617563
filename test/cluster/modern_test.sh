#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests `cluster up --modern`: what such an API server does as the versions that it behaves as, and where
# it cannot be had.
set -euo pipefail

cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cluster
unset KUBECONFIG CMESH_APISERVER_ARGS KUBEBUILDER_ASSETS
status=0
"$cluster" build --modern >/dev/null || status=$?
[ "$status" -ne 3 ] || echo "skipped: no modern API server on this machine (reason above)"
[ "$status" -eq 0 ] || exit "$status"

work=$(mktemp -d "${TMPDIR:-/tmp}/cmesh-modern-test.XXXXXX")
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
old=$work/old new=$work/new

finish() {
	local status=$?
	trap - EXIT
	for dir in "$old" "$new" "$TMPDIR"/*; do
		"$cluster" down "$dir" 2>/dev/null || true
	done
	rm -rf "$work"
	[ "$status" -eq 0 ] || echo "FAILED: $current" >&2
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

current=start
checks=0
check() {
	current=$1
	echo "- $1 ($SECONDS s)"
	checks=$((checks + 1))
}

# kubectl_on DIR ARGUMENT...
kubectl_on() (
	# shellcheck disable=SC1091
	. "$1/env"
	shift
	"$KUBECTL" "$@"
)

# exit_code N COMMAND...: COMMAND exits with N; its output is kept.
exit_code() {
	local expected=$1 status=0
	shift
	"$@" >"$work/output" 2>&1 || status=$?
	[ "$status" -eq "$expected" ] || {
		cat "$work/output" >&2
		echo "exit code $status instead of $expected: $*" >&2
		return 1
	}
}

# says TEXT COMMAND...: as part of its output, which is read to its end.
says() {
	[[ $("${@:2}") == *"$1"* ]]
}

# request DIR PATH: as administrator.
request() {
	kubectl_on "$1" get --raw "$2"
}

check "two start at once, as different versions"
"$cluster" up --modern=1.33 --dir "$old" >/dev/null &
start_old=$!
"$cluster" up --modern --dir "$new" >/dev/null
wait "$start_old"
says '"emulationMinor": "33"' request "$old" /version
says '"emulationMinor": "36"' request "$new" /version
says v1.36. kubectl_on "$new" version

check "each has its own objects, of built-in and of custom kinds"
kubectl_on "$new" create namespace tests >/dev/null
kubectl_on "$new" -n tests create configmap thing --from-literal=key=value >/dev/null
[ "$(kubectl_on "$new" -n tests get configmap thing -o 'jsonpath={.data.key}')" = value ]
exit_code 1 kubectl_on "$old" get namespace tests
kubectl_on "$new" apply -f - >/dev/null <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.cmesh.example}
spec:
  group: cmesh.example
  scope: Namespaced
  names: {plural: gears, singular: gear, kind: Gear}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: It turns.}}}
YAML
kubectl_on "$new" wait --for=condition=Established crd/gears.cmesh.example >/dev/null
kubectl_on "$new" -n tests apply -f - >/dev/null <<'YAML'
{apiVersion: cmesh.example/v1, kind: Gear, metadata: {name: wheel}}
YAML
kubectl_on "$new" -n tests get gear wheel >/dev/null
says cmesh.example/v1 request "$new" /apis

check "kinds are described, custom ones too"
described() {
	says "$1" kubectl_on "$new" explain "$2" 2>/dev/null
}
described 'Pod is a collection of containers' pods
for ((tries = 0; tries < 600; tries++)); do
	! described 'It turns.' gears || break
	sleep 0.1
done
described 'It turns.' gears
says '"kind":"Gear"' request "$new" /openapi/v2

check "server-side apply knows the kinds"
kubectl_on "$new" -n tests apply --server-side -f - >/dev/null <<'YAML'
{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}
YAML
[ "$(kubectl_on "$new" -n tests get pods --field-selector status.phase=Pending -o name)" = pod/web ]

check "streaming lists are there from 1.34 on"
stream='/api/v1/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan'
stream+='&allowWatchBookmarks=true&timeoutSeconds=1'
exit_code 1 request "$old" "$stream"
grep -q 'sendInitialEvents is forbidden' "$work/output"
says 'k8s.io/initial-events-end' request "$new" "$stream"

check "events have no watch cache, and stream all the same"
says 'k8s.io/initial-events-end' request "$new" "${stream/configmaps/events}"

check "nobody is served without a certificate"
(
	# shellcheck disable=SC1091
	. "$new/env"
	exit_code 1 env KUBECONFIG=/dev/null "$KUBECTL" --server="$APISERVER" \
		--certificate-authority="$CLUSTER_CA" --token=unknown get --raw /api/v1/configmaps
)
grep -q Forbidden "$work/output"

check "namespaces are not deleted by a dry run, nor all at once"
kubectl_on "$new" delete namespace tests --dry-run=server >/dev/null
kubectl_on "$new" -n tests get configmap thing >/dev/null
exit_code 1 kubectl_on "$new" delete --raw /api/v1/namespaces
grep -q MethodNotAllowed "$work/output"

check "webhooks get the usual values, and are asked"
kubectl_on "$new" apply -f - >/dev/null <<'YAML'
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: away}
webhooks:
- name: away.cmesh.example
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
YAML
asked() {
	exit_code 1 kubectl_on "$new" -n tests create secret generic thing && grep -q away.cmesh.example "$work/output"
}
for ((tries = 0; tries < 600; tries++)); do
	! asked 2>/dev/null || break
	kubectl_on "$new" -n tests delete secret thing --ignore-not-found >/dev/null
	sleep 0.1
done
asked
kubectl_on "$new" delete validatingwebhookconfiguration away >/dev/null

check "the status of a pod is written by itself"
kubectl_on "$new" -n tests patch pod web --subresource=status --type=merge -p '{"status": {"phase": "Running"}}' >/dev/null
[ "$(kubectl_on "$new" -n tests get pods --field-selector status.phase=Running -o name)" = pod/web ]

check "an object is not made in a namespace that does not exist, and goes with its own"
exit_code 1 kubectl_on "$new" -n nowhere create configmap thing
exit_code 1 kubectl_on "$new" -n tests create -f - <<<'{apiVersion: v1, kind: ConfigMap, metadata: {name: Not_A_Name}}'
grep -q 'is invalid' "$work/output"
kubectl_on "$new" delete namespace tests >/dev/null
exit_code 1 kubectl_on "$new" -n tests get configmap thing

check "the audit log shows the query that reached the server"
request "$new" '/api/v1/pods?labelSelector=shard%3Dseven' >/dev/null
grep -q 'labelSelector=shard%3Dseven' "$new/audit.log"

check "one that is stopped comes back with its objects"
kubectl_on "$old" create configmap kept >/dev/null
"$cluster" restart-apiserver "$old"
kubectl_on "$old" get configmap kept >/dev/null
says '"emulationMinor": "33"' request "$old" /version

check "down leaves nothing"
"$cluster" down "$old"
"$cluster" down "$new"
[ ! -e "$old" ] && [ ! -e "$new" ]

check "where it cannot be had, exit code 3 and why"
mkdir "$work/bin"
printf '#!/bin/sh\necho there is no such archive\nexit 100\n' >"$work/bin/apt-get"
chmod +x "$work/bin/apt-get"
exit_code 3 env PATH="$work/bin:$PATH" CMESH_CACHE="$work/cache" "$cluster" up --modern
grep -q 'there is no such archive' "$work/output"
grep -q 'no modern API server on this machine' "$work/output"
exit_code 3 env KUBEBUILDER_ASSETS="$work" CMESH_CACHE="$work/cache" "$cluster" build --modern
grep -q 'with KUBEBUILDER_ASSETS set nothing is built' "$work/output"

check "misuse is refused"
exit_code 2 "$cluster" up --modern=1.20
exit_code 2 "$cluster" up --modern --node
exit_code 2 "$cluster" run --modern
[ -z "$(ls "$TMPDIR")" ]

echo "$checks checks passed"
