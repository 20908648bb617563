#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One node for a control plane: containerd, kubelet and kube-proxy. Sourced by `cluster`.
#
# The process `node` holds namespaces of its own for network, mounts and process ids. The node's
# programs and all pods live in these, so what they mount, every bridge, rule of iptables and
# process ends with it, even when it is killed, and several nodes do not meet. The control plane
# lives in the network namespace alone, where pods and services can be reached. What is outside:
# a cable (veth) from this machine to the node, which goes with the namespace, and control groups,
# whose name tells the process that they belong to.

# shellcheck disable=SC2154 # what control-plane.sh and assets.sh set

# shellcheck disable=SC2034 # read by control-plane.sh
node_wanted=     # ipv4 or ipv6: control_plane_up makes a node too, whose pods have such addresses
node_number=     # NUMBER of the node: "17.4" has the network 10.17.4.0/24, or fd00:17:4::/48
node_address=    # of the node, the API server on it, and all else that does not live in pods
node_host=       # of this machine, as the node sees it
node_pods=       # addresses that pods get
node_link=       # our end of the cable
node_groups=     # name of the control groups
node_snapshots=  # containerd's snapshotter
node_holder=     # id of the process that holds the namespaces, once it runs
node_services=   # addresses of services
node_service=    # the first of them, which is the API server's
node_anywhere=   # all addresses of the family
node_name=node

node_plugins=/usr/lib/cni
node_image=cmesh.test/busybox:1
containerd_socket=/run/containerd/containerd.sock # within the namespace

# unable REASON: exit code 3 tells tests to skip what needs a node.
unable() {
	printf 'cluster: no node on this machine: %s\n' "$*" >&2
	exit 3
}

# --- What a machine must have ---

node_check() {
	local program
	[ "$(id -u)" -eq 0 ] || unable "it takes root"
	for program in containerd ctr runc iptables ip nsenter unshare busybox; do
		command -v "$program" >/dev/null || unable "$program is not installed (test/deps node)"
	done
	if [ ! -x "$node_plugins/bridge" ] || [ ! -x "$node_plugins/host-local" ]; then
		unable "no bridge and host-local in $node_plugins (test/deps node)"
	fi
	! ldd "$(command -v busybox)" >/dev/null 2>&1 ||
		unable "busybox is not linked statically: install busybox-static"
	unshare --net --mount --pid --fork ip link add name probe type bridge 2>/dev/null ||
		unable "it may not make namespaces with bridges"
	unshare --net "$(node_tables)" -t nat -N PROBE 2>/dev/null ||
		unable "$(node_tables) has no table nat"
	[ "$node_wanted" = ipv4 ] || [ -e /proc/sys/net/ipv6 ] || unable "the kernel has no IPv6"
	[ -e /proc/sys/net/bridge ] || unable "the kernel has no br_netfilter: modprobe br_netfilter"
	local group
	for group in $(group_roots); do
		mkdir "$group/cmesh-probe-$$" 2>/dev/null || unable "it may not make control groups in $group"
		rmdir "$group/cmesh-probe-$$"
	done
	[ -n "${group:-}" ] || unable "no control groups are mounted"
}

node_tables() {
	if [ "$node_wanted" = ipv6 ]; then echo ip6tables; else echo iptables; fi
}

# Overlays are quick, but not every file system can be under them.
pick_snapshotter() {
	local try=$control_plane_dir/overlay
	mkdir -p "$try/lower" "$try/upper" "$try/work" "$try/merged"
	node_snapshots=native
	! unshare --mount mount -t overlay overlay "$try/merged" \
		-o "lowerdir=$try/lower,upperdir=$try/upper,workdir=$try/work" 2>/dev/null ||
		node_snapshots=overlayfs
	rm -rf "$try"
}

# --- Control groups ---

# Where they are made: in one folder with version 2, in one for each controller with version 1.
group_roots() {
	awk '$3 ~ /^cgroup2?$/ { print $2 }' /proc/mounts
}

make_groups() {
	local root
	node_groups=cmesh-node-$1-$(start_time "$1")
	printf 'node_groups=%q\n' "$node_groups" >>"$control_plane_dir/node.state"
	for root in $(group_roots); do
		mkdir "$root/$node_groups"
	done
}

# remove_groups NAME: empty ones, from the leaves up; killed processes take a moment to leave.
remove_groups() {
	local root tries
	for root in $(group_roots); do
		for ((tries = 0; tries < patience * 10; tries++)); do
			[ -d "$root/$1" ] || break
			find "$root/$1" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
		done
	done
}

# Those of nodes that were killed and never taken down.
remove_stale_groups() {
	local root group pid
	for root in $(group_roots); do
		for group in "$root"/cmesh-node-*; do
			[ -d "$group" ] || continue
			group=${group##*/}
			pid=${group#cmesh-node-}
			[ "$(start_time "${pid%-*}")" = "${pid#*-}" ] || remove_groups "$group"
		done
	done
}

# --- Namespaces and network ---

# What runs in the namespaces as process 1, and starts the programs of the node, as their parent:
# were it a process outside, they would not be gone before somebody outside has buried them. It hides the folders in which the programs of a node
# leave things whatever they are told, and the settings of the kernel that kubelet would change
# for the whole machine: it finds them as it wants them.
node_script() {
	cat <<-'SCRIPT'
		set -e
		dir=$1
		mount --make-rshared /
		mkdir -p "$dir/hidden/lib" "$dir/hidden/log"
		mount --bind "$dir/hidden/lib" /var/lib
		mount --bind "$dir/hidden/log" /var/log
		mount -t tmpfs -o mode=755 tmpfs /run
		# It would ask name servers, which cannot be reached, whether it is in a cloud.
		[ ! -f /etc/resolv.conf ] || mount --bind /dev/null /etc/resolv.conf
		for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 \
			kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 \
			kernel/keys/root_maxbytes=25000000; do
			[ -e "/proc/sys/${setting%=*}" ] || continue
			mkdir -p "$dir/hidden/${setting%/*}"
			echo "${setting#*=}" >"$dir/hidden/${setting%=*}"
			mount --bind "$dir/hidden/${setting%=*}" "/proc/sys/${setting%=*}"
		done
		sysctl() { echo "$2" >"/proc/sys/net/$1"; }
		ip link set lo up
		sysctl ipv4/ip_forward 1
		sysctl bridge/bridge-nf-call-iptables 1
		if [ "$2" = ipv6 ]; then
			sysctl ipv6/conf/all/forwarding 1
			sysctl bridge/bridge-nf-call-ip6tables 1
		fi
		trap 'exit 0' TERM
		exec 3<>"$dir/node.start"
		echo ready >"$dir/node.ready"
		while read -r name <&3; do
			mapfile -d '' -t args <"$dir/$name.args"
			(cd "$dir" && exec setsid "${args[@]}" </dev/null >>"$name.log" 2>&1 3>&-) &
			echo $! >"$dir/$name.inner"
		done
	SCRIPT
}

node_runs() {
	[ -n "$node_holder" ] && [[ " containerd kubelet kube-proxy " == *" $1 "* ]]
}

require_holder() {
	process_id node >/dev/null || fail "the node's namespaces are gone: all that is left to do is 'down'"
}

# node_start NAME: has process 1 start the program in NAME.args; sets pid.
node_start() {
	require_holder
	rm -f "$control_plane_dir/$1.inner"
	echo "$1" 1<>"$control_plane_dir/node.start"
	until [ -s "$control_plane_dir/$1.inner" ]; do
		sleep 0.01
	done
	pid=$(outer_pid "$(cat "$control_plane_dir/$1.inner")")
}

# outer_pid PID: of the process that has this id on the node; 1 is the holder itself. An id that no
# process has when there is none any more.
outer_pid() {
	local file
	for file in /proc/[0-9]*/ns/pid; do
		[ "$file" -ef "/proc/$node_holder/ns/pid" ] || continue
		file=${file%/ns/pid}
		! grep -qsE "^NSpid:.*[[:space:]]$1$" "$file/status" || { basename "$file"; return; }
	done
	echo 0
}

# Sets enter to what a command is to be started through. `everything`: it sees what the node's
# programs see; without that it gets the network alone.
node_enter() {
	enter=()
	[ -n "$node_holder" ] || return 0
	require_holder
	local ns=/proc/$node_holder/ns
	enter=(nsenter "--net=$ns/net")
	[ "${1:-}" != everything ] || enter+=("--mount=$ns/mnt" "--pid=$ns/pid")
	enter+=(--)
}

child_of() {
	local file
	for file in /proc/[0-9]*/status; do
		! grep -qs "^PPid:[[:space:]]*$1$" "$file" || { basename "${file%/status}"; return; }
	done
	return 1
}

hold_namespaces() {
	mkfifo "$control_plane_dir/node.start"
	start_process node unshare --net --mount --pid --fork --kill-child --mount-proc -- \
		bash -c "$(node_script)" node "$control_plane_dir" "$node_wanted"
	await node test -e "$control_plane_dir/node.ready" || report_end node
	# The process in node.pid is unshare, which does not end by itself.
	node_holder=$(child_of "$(process_id node)")
	printf '%s %s\n' "$node_holder" "$(start_time "$node_holder")" >"$control_plane_dir/node.pid"
}

# Takes the first network out of some at random that nothing on this machine uses.
connect_node() {
	local tries
	for ((tries = 0; tries < 50; tries++)); do
		node_number=$((64 + SRANDOM % 190)).$((1 + SRANDOM % 255))
		! ip route show table all | grep -q "10\.${node_number%.*}\." || continue
		! ip -6 route show table all | grep -q "fd00:${node_number%.*}:" || continue
		node_link=cmesh$node_number
		# Two that take the same one at the same moment: one of them gets it.
		! ip link add "$node_link" type veth peer name eth0 netns "$node_holder" 2>/dev/null ||
			{ write_addresses; configure_cable; return; }
	done
	fail "no network of the form 10.X.Y.0/24 or fd00:X:Y::/48 is free"
}

write_addresses() {
	if [ "$node_wanted" = ipv6 ]; then
		local prefix=fd00:${node_number/./:}:
		node_host=${prefix}:1 node_address=${prefix}:2 node_pods=${prefix%:}:1::/112
		node_services=fd00:96::/112 node_service=fd00:96::1 node_anywhere=::/0
	else
		node_host=10.$node_number.1 node_address=10.$node_number.2 node_pods=10.$node_number.128/25
		node_services=10.96.0.0/16 node_service=10.96.0.1 node_anywhere=0.0.0.0/0
	fi
}

# node_url ADDRESS: as it stands before a port.
node_url() {
	if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi
}

# Nobody else can have these addresses: they are not asked for first.
configure_cable() {
	local inside=(nsenter "--net=/proc/$node_holder/ns/net" ip) cable=30 at_once=()
	[ "$node_wanted" = ipv4 ] || { cable=126 at_once=(nodad); }
	ip addr add "$node_host/$cable" dev "$node_link" "${at_once[@]}"
	ip link set "$node_link" up
	"${inside[@]}" addr add "$node_address/$cable" dev eth0 "${at_once[@]}"
	"${inside[@]}" link set eth0 up
	ip route add "$node_pods" via "$node_address" dev "$node_link"
	# kube-proxy redirects what goes there, but only what has a way to go.
	"${inside[@]}" route add "$node_services" via "$node_host" dev eth0 src "$node_address"
}

# Before the control plane starts: the network that it lives in.
node_create() {
	remove_stale_groups
	case $control_plane_dir/ in
	/run/* | /var/run/* | /var/lib/* | /var/log/*)
		fail "a node hides /run, /var/lib and /var/log from itself: its folder cannot be there"
		;;
	esac
	: >"$control_plane_dir/node.state"
	hold_namespaces
	make_groups "$node_holder"
	connect_node
	pick_snapshotter
	printf '%s=%q\n' node_wanted "$node_wanted" node_holder "$node_holder" node_number "$node_number" node_link "$node_link" \
		node_snapshots "$node_snapshots" >>"$control_plane_dir/node.state"
}

# Of a folder in which one may have been made.
node_find() {
	[ -e "$control_plane_dir/node.state" ] || return 0
	# shellcheck disable=SC1091
	. "$control_plane_dir/node.state"
	[ -z "$node_number" ] || write_addresses
}

# --- Programs ---

configure_containerd() {
	mkdir -p "$control_plane_dir/net.d"
	cat >"$control_plane_dir/containerd.toml" <<-CONFIG
		version = 2
		root = "$control_plane_dir/containerd"
		state = "/run/containerd/state"
		temp = "$control_plane_dir/containerd-temp"
		[grpc]
		  address = "$containerd_socket"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$node_image"
		  restrict_oom_score_adj = true
		  stream_server_port = "0"
		  [plugins."io.containerd.grpc.v1.cri".containerd]
		    snapshotter = "$node_snapshots"
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "$node_plugins"
		    conf_dir = "$control_plane_dir/net.d"
	CONFIG
	cat >"$control_plane_dir/net.d/pods.conflist" <<-CONFIG
		{"cniVersion": "0.4.0", "name": "pods", "plugins": [{
		  "type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false, "hairpinMode": true,
		  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$node_pods"}]],
		           "routes": [{"dst": "$node_anywhere"}], "dataDir": "/run/addresses"}}]}
	CONFIG
}

# A shell and its tools, which is also what keeps a pod's namespaces.
make_image() {
	local work=$control_plane_dir/image digest architecture
	mkdir -p "$work/root/bin" "$work/root/tmp"
	cp "$(command -v busybox)" "$work/root/bin/busybox"
	(cd "$work/root/bin" && for tool in $(./busybox --list); do
		[ "$tool" = busybox ] || ln -s busybox "$tool"
	done)
	tar -C "$work/root" --owner=0 --group=0 -cf "$work/layer.tar" .
	digest=$(sha256sum <"$work/layer.tar")
	architecture=$(dpkg --print-architecture)
	cat >"$work/config.json" <<-CONFIG
		{"architecture": "$architecture", "os": "linux",
		 "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sleep", "2147483647"]},
		 "rootfs": {"type": "layers", "diff_ids": ["sha256:${digest%% *}"]}}
	CONFIG
	printf '[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]\n' "$node_image" \
		>"$work/manifest.json"
	tar -C "$work" -cf "$control_plane_dir/busybox.tar" manifest.json config.json layer.tar
	rm -rf "$work"
}

# Through its standard input, as the node does not see every folder of this machine.
import_image() {
	local enter
	node_enter everything
	"${enter[@]}" ctr -a "$containerd_socket" -n k8s.io images import \
		--snapshotter "$node_snapshots" - <"$1" >>"$control_plane_dir/images.log" 2>&1 || {
		tail -n 5 "$control_plane_dir/images.log" >&2
		fail "$1 cannot be imported (output above)"
	}
}

configure_kubelet() {
	local pki=$control_plane_dir/pki
	# A disk of the machine that is nearly full is no reason to remove images or pods.
	cat >"$control_plane_dir/kubelet.yaml" <<-CONFIG
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		authentication:
		  anonymous: {enabled: false}
		  webhook: {enabled: true}
		  x509: {clientCAFile: $pki/ca.crt}
		tlsCertFile: $pki/node.crt
		tlsPrivateKeyFile: $pki/node.key
		cgroupDriver: cgroupfs
		cgroupRoot: /$node_groups
		failSwapOn: false
		allowedUnsafeSysctls: [net.ipv4.ip_unprivileged_port_start] # safe from 1.22 on
		nodeStatusUpdateFrequency: 1s
		volumePluginDir: $control_plane_dir/volume-plugins
		clusterDomain: cluster.local
		resolvConf: ""
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		evictionHard: {nodefs.available: "1%", imagefs.available: "1%"}
	CONFIG
}

await_containerd() {
	local enter
	node_enter everything
	await containerd silently "${enter[@]}" ctr -a "$containerd_socket" version || report_end containerd
}

start_node_programs() {
	start_process containerd containerd --config "$control_plane_dir/containerd.toml"
	await_containerd
	import_image "$control_plane_dir/busybox.tar"
	start_process kubelet "$node_assets/kubelet" --config="$control_plane_dir/kubelet.yaml" \
		--kubeconfig="$control_plane_dir/kubelet.kubeconfig" --hostname-override="$node_name" \
		--node-ip="$node_address" --root-dir="$control_plane_dir/kubelet" \
		--container-runtime=remote --container-runtime-endpoint="unix://$containerd_socket"
	start_process kube-proxy "$node_assets/kube-proxy" --kubeconfig="$control_plane_dir/kubeconfig" \
		--hostname-override="$node_name" --proxy-mode=iptables --cluster-cidr="$node_pods" \
		--conntrack-max-per-core=0
}

silently() {
	"$@" >/dev/null 2>&1
}

# node_up SERVER: after the control plane started.
node_up() {
	local since=$SECONDS pki=$control_plane_dir/pki
	(
		cd "$pki" || exit
		certificate node "/O=system:nodes/CN=system:node:$node_name" -CA ca.crt -CAkey ca.key \
			-addext basicConstraints=critical,CA:FALSE \
			-addext extendedKeyUsage=clientAuth,serverAuth -addext "subjectAltName=IP:$node_address"
	)
	write_kubeconfig "$1" node >"$control_plane_dir/kubelet.kubeconfig"
	configure_containerd
	configure_kubelet
	make_image
	start_process kube-scheduler "$node_assets/kube-scheduler" \
		--kubeconfig="$control_plane_dir/kubeconfig" --leader-elect=false
	start_node_programs
	await kubelet kubectl_admin wait --for=condition=Ready --timeout=1s "node/$node_name" ||
		report_end kubelet
	say "node at $node_address is ready ($((SECONDS - since)) s)"
}

# Kills what is in the namespaces, and takes the rest away.
node_down() {
	[ -e "$control_plane_dir/node.state" ] || return 0
	stop_processes kube-proxy kubelet containerd
	[ -z "$node_link" ] || ip link del "$node_link" 2>/dev/null || true
	stop_processes node
	[ -z "$node_groups" ] || remove_groups "$node_groups"
}

# --- Later ---

require_node() {
	find_dir "$1"
	[ -n "$node_holder" ] || fail "$1 has no node: see up --node"
}

# node_load DIR TAR...
node_load() {
	local file
	require_node "$1"
	shift
	for file; do
		import_image "$file"
	done
}

# node_inside DIR COMMAND...
node_inside() {
	require_node "$1"
	shift
	local enter
	node_enter everything
	exec "${enter[@]}" "$@"
}
