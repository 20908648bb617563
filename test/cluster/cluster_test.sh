#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests `cluster`: two control planes beside one another, and what is left when they end.
set -euo pipefail

cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cluster
unset KUBECONFIG CMESH_APISERVER_ARGS
"$cluster" build >/dev/null

# Everything happens below a TMPDIR of this test's own, so that leftovers show.
work=$(mktemp -d "${TMPDIR:-/tmp}/cmesh-cluster-test.XXXXXX")
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
a=$work/a b=$work/b
bystander=

finish() {
	local status=$?
	trap - EXIT
	for dir in "$a" "$b" "$TMPDIR"/*; do
		"$cluster" down "$dir" 2>/dev/null || true
	done
	[ -z "$bystander" ] || kill "$bystander" 2>/dev/null || true
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
	echo "- $1"
	checks=$((checks + 1))
}

# on DIR COMMAND...: with that control plane's variables.
on() (
	# shellcheck disable=SC1091
	. "$1/env"
	shift
	"$@"
)

# kubectl_on DIR ARGUMENT...
kubectl_on() {
	# shellcheck disable=SC2016
	on "$1" sh -c '"$KUBECTL" "$@"' sh "${@:2}"
}

# await COMMAND...: a machine that is busy may take long.
await() {
	local deadline=$((SECONDS + 300))
	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.1
	done
}

# exit_code N COMMAND...: COMMAND exits with N.
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

# processes_of DIR: ids of the running processes that work in DIR.
processes_of() {
	local link
	for link in /proc/[0-9]*/cwd; do
		[ "$(readlink "$link" 2>/dev/null)" != "$1" ] || basename "$(dirname "$link")"
	done
}

runs_nothing() {
	[ -z "$(processes_of "$1")" ]
}

is_gone() {
	[ ! -e "$1" ] && runs_nothing "$1"
}

left_in_tmp() {
	local left=("$TMPDIR"/*)
	[ ! -e "${left[0]}" ] || printf '%s\n' "${left[@]}"
}

check "two start at once"
mkdir "$b" # an empty folder will do as well
"$cluster" up --dir "$a" >"$work/printed" &
start_a=$!
printed_b=$("$cluster" up --dir="$b")
wait "$start_a"
[ "$(cat "$work/printed")" = "$a" ]
[ "$printed_b" = "$b" ]
[ -n "$(processes_of "$a")" ]
[ "$(on "$a" printenv APISERVER)" != "$(on "$b" printenv APISERVER)" ]

check "each has objects of its own"
for dir in "$a" "$b"; do
	kubectl_on "$dir" create namespace "only-$(basename "$dir")" >/dev/null
	kubectl_on "$dir" -n "only-$(basename "$dir")" create configmap thing --from-literal=key=value >/dev/null
done
[ "$(kubectl_on "$a" -n only-a get configmap thing -o 'jsonpath={.data.key}')" = value ]
exit_code 1 kubectl_on "$a" get namespace only-b
exit_code 1 kubectl_on "$b" get namespace only-a

check "a new namespace gets its service account"
if [ -e "$a/kube-controller-manager.pid" ]; then
	await kubectl_on "$a" -n only-a get serviceaccount default >/dev/null 2>&1
else
	echo "  skipped: no kube-controller-manager among the binaries"
fi

check "the variables name the files they should, and no other user can read them"
[ "$(on "$a" printenv CLUSTER_DIR)" = "$a" ]
[ "$(stat -c %a "$a")" = 700 ]
for name in KUBECONFIG CLUSTER_CA CLUSTER_CA_KEY CLUSTER_CERT CLUSTER_KEY CLUSTER_AUDIT_LOG; do
	[ -s "$(on "$a" printenv "$name")" ]
done
for name in localhost kubernetes kubernetes.default.svc; do
	openssl x509 -in "$a/pki/apiserver.crt" -noout -checkhost "$name" | grep -q 'does match'
done
openssl verify -CAfile "$(on "$a" printenv CLUSTER_CA)" "$(on "$a" printenv CLUSTER_CERT)" >/dev/null

check "the audit log shows the query that reached the server"
kubectl_on "$a" get pods -A -l shard=seven >/dev/null 2>&1
await grep -q 'labelSelector=shard%3Dseven' "$(on "$a" printenv CLUSTER_AUDIT_LOG)"

check "an API server that is stopped comes back with its objects"
"$cluster" stop-apiserver "$a"
exit_code 1 kubectl_on "$a" get --raw /readyz
kubectl_on "$b" get namespace only-b >/dev/null
"$cluster" stop-apiserver "$a"
"$cluster" start-apiserver "$a"
kubectl_on "$a" -n only-a get configmap thing >/dev/null
before=$(cat "$a/kube-apiserver.pid")
"$cluster" restart-apiserver "$a"
[ "$(cat "$a/kube-apiserver.pid")" != "$before" ]
kubectl_on "$a" -n only-a get configmap thing >/dev/null

check "one that goes down leaves the other alone, and nothing behind"
"$cluster" down "$a"
is_gone "$a"
kubectl_on "$b" get namespace only-b >/dev/null
"$cluster" down "$a"

check "a process that has got the id of one of ours is left alone"
sleep 600 &
bystander=$!
mkdir "$work/stale"
touch "$work/stale/.cmesh-cluster"
echo "$bystander 1" >"$work/stale/etcd.pid"
"$cluster" down "$work/stale"
kill -0 "$bystander"
[ ! -e "$work/stale" ]

check "run gives back the command's exit code and leaves nothing"
# shellcheck disable=SC2016
exit_code 7 "$cluster" run -- sh -c 'echo "$CLUSTER_DIR" >"$1"; "$KUBECTL" get namespace default && exit 7' sh "$work/ran"
is_gone "$(cat "$work/ran")"
[ "$(echo text | "$cluster" run cat 2>/dev/null)" = text ]
[ -z "$(left_in_tmp)" ]

# run_and_signal SIGNAL: starts `run`, sends SIGNAL once its command runs, sets ran and code.
run_and_signal() {
	rm -f "$work/ran"
	# shellcheck disable=SC2016
	"$cluster" run -- sh -c 'echo "$CLUSTER_DIR" >"$1"; exec sleep 600' sh "$work/ran" 2>/dev/null &
	local runner=$!
	await test -s "$work/ran"
	ran=$(cat "$work/ran")
	code=0
	kill "-$1" "$runner"
	wait "$runner" 2>/dev/null || code=$?
}

check "run that is terminated stops its command and leaves nothing"
run_and_signal TERM
[ "$code" -eq 143 ]
is_gone "$ran"
[ -z "$(left_in_tmp)" ]

check "no process survives a run that is killed"
run_and_signal KILL
await runs_nothing "$ran"
"$cluster" down "$ran"

check "misuse is refused and harms nothing"
for arguments in "" fly "down" "up --dir" "up extra" "run" "run --" "stop-apiserver"; do
	# shellcheck disable=SC2086
	exit_code 2 "$cluster" $arguments
done
touch "$work/output.kept"
exit_code 1 "$cluster" up --dir "$work"
exit_code 1 "$cluster" down "$work"
exit_code 1 "$cluster" start-apiserver "$work"
[ -e "$work/output.kept" ]
exit_code 1 env CMESH_APISERVER_ARGS=--no-such-flag "$cluster" up --dir "$a"
grep -q 'unknown flag: --no-such-flag' "$work/output"
is_gone "$a"

check "what is left at the end"
"$cluster" down "$b"
is_gone "$b"
[ -z "$(left_in_tmp)" ]

echo "$checks checks passed"
