#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests `cluster up --node`: pods on two nodes beside one another, one of them with IPv6 alone, and
# what is left when they end.
set -euo pipefail

cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cluster
unset KUBECONFIG CMESH_APISERVER_ARGS
status=0
"$cluster" build --node >/dev/null || status=$?
[ "$status" -ne 3 ] || echo "skipped: no node on this machine (reason above)"
[ "$status" -eq 0 ] || exit "$status"

ipv6=--node=ipv6
"$cluster" build "$ipv6" >/dev/null || status=$?
[ "$status" -ne 3 ] || { echo "skipped: IPv6 (reason above)"; ipv6=--node status=0; }
[ "$status" -eq 0 ] || exit "$status"

work=$(mktemp -d "${TMPDIR:-/tmp}/cmesh-node-test.XXXXXX")
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
a=$work/a b=$work/b

finish() {
	local status=$?
	trap - EXIT
	for dir in "$a" "$b" "$work/c" "$TMPDIR"/*; do
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

# await COMMAND...: a machine that is busy may take long.
await() {
	local deadline=$((SECONDS + 300))
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || { "$@"; return 1; }
		sleep 0.2
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

# has_started DIR: what the pod said there has reached its log.
has_started() {
	[ "$(kubectl_on "$1" logs web)" = started ]
}

# says TEXT COMMAND...: as part of its output, which is read to its end.
says() {
	[[ $("${@:2}") == *"$1"* ]]
}

# What a node changes on the machine. Other nodes may run meanwhile, so names are asked for. Its
# process ids are held open: the number of a namespace that is gone is given to the next one.
remember() {
	# shellcheck disable=SC1091,SC2154
	(. "$1/node.state" && echo "$node_groups $node_link $node_holder") >"$work/remembered"
	local groups link holder
	read -r groups link holder <"$work/remembered"
	exec {process_ids}<"/proc/$holder/ns/pid"
	# What is looked for later is there now.
	[ -n "$(groups_left "$groups")" ]
	[ -n "$(ip link show "$link")" ]
	[ -n "$(routes_of "$link")" ]
	[ -n "$(on_node "$1")" ]
}

# on_node DIR: what runs with the process ids that are held, which all on the node has, or works in
# DIR, as the control plane does.
on_node() {
	local process
	for process in /proc/[0-9]*; do
		if [ "$process/ns/pid" -ef "/proc/$$/fd/$process_ids" ] ||
			[[ $(readlink "$process/cwd") == "$1"* ]]; then
			tr '\0' ' ' <"$process/cmdline" 2>/dev/null || true # it has just ended
		fi
	done
}

routes_of() {
	ip -4 route show dev "$1" 2>/dev/null
	ip -6 route show dev "$1" 2>/dev/null
}

# empty WHAT TEXT
empty() {
	[ -z "$2" ] || { printf '%s:\n%s\n' "$1" "$2" >&2; return 1; }
}

# nothing_left DIR: of what was remembered.
nothing_left() {
	local groups link
	read -r groups link _ <"$work/remembered"
	[ -n "$link" ]
	empty "its folder is still there" "$(find "$1" -maxdepth 1 2>/dev/null)"
	empty "its control groups" "$(groups_left "$groups")"
	empty "its cable" "$(ip link show "$link" 2>/dev/null)"
	empty "its routes" "$(routes_of "$link")"
	empty "its mounts" "$(grep -F "$1" /proc/self/mountinfo)"
	empty "processes on it" "$(on_node "$1")"
	empty "processes with its folder" "$(no_process "$1")"
	exec {process_ids}<&-
}

# no_process FOLDER: all that is started has it among its arguments.
no_process() {
	local before=(/proc/[0-9]*/cmdline) # without grep's own
	! grep -slF "$1" "${before[@]}"
}

# groups_left NAME: control groups of that name. Other nodes come and go meanwhile.
groups_left() {
	find /sys/fs/cgroup -maxdepth 2 -name "$1"
}

# What a node must leave as it is: no table, bridge, folder or setting of the machine's own.
machine() {
	iptables-save 2>/dev/null | grep -v '^#' || true
	ip6tables-save 2>/dev/null | grep -v '^#' || true
	ip -o link show type bridge
	cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding
	cat /proc/sys/kernel/panic /proc/sys/kernel/panic_on_oops /proc/sys/vm/overcommit_memory
	ls -d /var/lib/cni /var/log/pods /var/lib/kubelet /run/containerd 2>/dev/null || true
}
machine >"$work/machine"

# url ADDRESS: as it stands in one.
url() {
	if [[ $1 == *:* ]]; then echo "http://[$1]"; else echo "http://$1"; fi
}

check "two nodes start at once"
"$cluster" up --node --dir "$a" >/dev/null &
start_a=$!
"$cluster" up "$ipv6" --dir "$b" >/dev/null
wait "$start_a"
for dir in "$a" "$b"; do
	[ "$(kubectl_on "$dir" get nodes --no-headers | awk '{ print $2 }')" = Ready ]
done

check "pods run on both, with what the kubelet gives them"
# shellcheck disable=SC2016
cat >"$work/pod.yaml" <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: settings, configMap: {name: settings}}]
  containers:
  - name: web
    image: cmesh.test/busybox:1
    command: [sh, -c, "echo started; exec httpd -f -p 8080 -h /settings"]
    volumeMounts: [{name: settings, mountPath: /settings}]
    readinessProbe: {httpGet: {port: 8080, path: /colour}, periodSeconds: 1}
YAML
for dir in "$a" "$b"; do
	kubectl_on "$dir" apply -f "$work/pod.yaml" >/dev/null
done
for dir in "$a" "$b"; do
	await kubectl_on "$dir" wait --for=condition=Ready --timeout=1s pod/web
	await has_started "$dir"
	[ "$(kubectl_on "$dir" exec web -- cat /settings/colour)" = blue ]
done

check "a pod reaches the API server with its own credentials, and services"
# shellcheck disable=SC2016
for dir in "$a" "$b"; do
	await says gitVersion kubectl_on "$dir" exec web -- sh -c 'host=$KUBERNETES_SERVICE_HOST
		case $host in *:*) host=[$host] ;; esac
		wget -qO- --no-check-certificate \
			--header "Authorization: Bearer $(cat /var/run/secrets/kubernetes.io/serviceaccount/token)" \
			https://$host/version 2>/dev/null'
	service=$(url "$(kubectl_on "$dir" get service web -o 'jsonpath={.spec.clusterIP}')")
	await kubectl_on "$dir" exec web -- timeout 2 wget -qO- "$service/colour"
	[ "$(kubectl_on "$dir" exec web -- wget -qO- "$service/colour")" = blue ]
done

check "this machine reaches pods, and pods reach it"
for dir in "$a" "$b"; do
	python3 -c 'import sys, urllib.request as u; assert u.urlopen(sys.argv[1], timeout=60).read() == b"blue"' \
		"$(url "$(kubectl_on "$dir" get pod web -o 'jsonpath={.status.podIP}')"):8080/colour"
	# shellcheck disable=SC1091
	host=$(. "$dir/env" && echo "$NODE_HOST_ADDRESS")
	kubectl_on "$dir" exec web -- ping -c 1 -W 60 "$host" >/dev/null
done

check "pods have addresses of one kind"
[[ $(kubectl_on "$a" exec web -- ip addr show dev eth0) != *inet6*global* ]]
[ "$ipv6" = --node ] || [[ $(kubectl_on "$b" exec web -- ip addr show dev eth0) != *"inet "* ]]

check "nothing leaves this machine"
exit_code 1 kubectl_on "$a" exec web -- ping -c 1 -W 1 192.0.2.77
exit_code 1 kubectl_on "$b" exec web -- ping -c 1 -W 1 2001:db8::77

check "an image is given to one node and not to the other"
mkdir "$work/image"
tar -C "$work/image" -cf "$work/image/layer.tar" --files-from /dev/null
digest=$(sha256sum <"$work/image/layer.tar")
echo "{\"architecture\": \"$(dpkg --print-architecture)\", \"os\": \"linux\", \"config\": {}, \"rootfs\":
	{\"type\": \"layers\", \"diff_ids\": [\"sha256:${digest%% *}\"]}}" >"$work/image/config.json"
echo '[{"Config": "config.json", "RepoTags": ["cmesh.test/empty:1"], "Layers": ["layer.tar"]}]' \
	>"$work/image/manifest.json"
tar -C "$work/image" -cf "$work/empty.tar" manifest.json config.json layer.tar
"$cluster" load "$a" "$work/empty.tar"
exit_code 1 "$cluster" load "$a" "$work/pod.yaml"
images() {
	"$cluster" inside "$1" ctr -a /run/containerd/containerd.sock -n k8s.io images ls -q
}
[[ $(images "$a") == *cmesh.test/empty:1* ]]
[[ $(images "$b") != *cmesh.test/empty:1* ]]

check "pods outlive kubelet, containerd and the API server"
started=$(kubectl_on "$a" get pod web -o 'jsonpath={.status.containerStatuses[0].containerID}')
"$cluster" stop-kubelet "$a"
"$cluster" stop-apiserver "$a"
"$cluster" restart-containerd "$a"
"$cluster" start-apiserver "$a"
"$cluster" start-kubelet "$a"
await kubectl_on "$a" exec web -- true
await kubectl_on "$a" wait --for=condition=Ready --timeout=1s pod/web
[ "$(kubectl_on "$a" get pod web -o 'jsonpath={.status.containerStatuses[0].containerID}')" = "$started" ]
[ "$(kubectl_on "$a" get pod web -o 'jsonpath={.status.containerStatuses[0].restartCount}')" = 0 ]

check "one that goes down leaves the other alone, and nothing behind"
remember "$a"
"$cluster" down "$a"
nothing_left "$a"
kubectl_on "$b" exec web -- true

check "one whose processes were killed leaves nothing either"
remember "$b"
kill -KILL "$(awk '{ print $1 }' "$b/node.pid")" # with it all that is on the node
kill -KILL "$(awk '{ print $1 }' "$b/etcd.pid")"
"$cluster" down "$b"
nothing_left "$b"

check "nor does a start that fails half-way"
mkdir "$work/bin"
printf '#!/bin/sh\ncat node.state >"%s"\nexit 1\n' "$work/state" >"$work/bin/containerd"
chmod +x "$work/bin/containerd"
mkdir "$work/c"
exit_code 1 env PATH="$work/bin:$PATH" "$cluster" up --node --dir "$work/c"
grep -q 'containerd ended' "$work/output"
[ ! -e "$work/c" ]
no_process "$work/c"
# shellcheck disable=SC1091
groups=$(. "$work/state" && echo "$node_groups")
[[ $groups == cmesh-node-* ]]
[ -z "$(groups_left "$groups")" ]

check "run that is killed leaves no process, and control groups only until the next start"
# shellcheck disable=SC2016
"$cluster" run --node -- sh -c 'echo "$CLUSTER_DIR" >"$1"; exec sleep 600' sh "$work/ran" 2>/dev/null &
runner=$!
await test -s "$work/ran"
ran=$(cat "$work/ran")
remember "$ran"
read -r groups link _ <"$work/remembered"
kill -KILL "$runner"
wait "$runner" 2>/dev/null || true
await no_process "$ran"
await test ! -e "/sys/class/net/$link"
"$cluster" run --node -- true
[ -z "$(groups_left "$groups")" ]
"$cluster" down "$ran"
nothing_left "$ran"

check "a machine that cannot run containers says why"
mkdir "$work/poor"
ln -sf /usr/bin/* /usr/sbin/* "$work/poor/"
rm "$work/poor/containerd"
exit_code 3 env PATH="$work/poor" "$cluster" up --node --dir "$work/c"
grep -q 'no node on this machine: containerd is not installed' "$work/output"
[ ! -e "$work/c" ]

check "misuse is refused"
exit_code 2 "$cluster" load "$a"
exit_code 2 "$cluster" inside "$a"
exit_code 2 "$cluster" stop-everything "$a"
exit_code 2 "$cluster" up --node=ipv5
exit_code 1 "$cluster" load "$work" "$work/empty.tar"

check "the machine is as it was"
[ -z "$(ls "$TMPDIR")" ]
machine | diff "$work/machine" -

echo "$checks checks passed"
