#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One control plane: its folder, certificates, processes and their end. Sourced by `cluster`.
#
# etcd listens on a socket in the folder, kube-controller-manager on nothing, so
# kube-apiserver's port is the only one to find. Each process leaves NAME.args, to start it
# again, and NAME.pid: process id and start time, which together are never used twice.

# shellcheck disable=SC2154 # what node.sh and assets.sh set

control_plane_dir=  # absolute, once control_plane_up returned
control_plane_tied= # not empty: the processes die with this shell, even when it is killed

marker=.cmesh-cluster
patience=300 # seconds for what a busy machine does at its leisure: only what never comes meets them

# --- Processes ---

# start_process NAME PROGRAM ARGUMENT...
start_process() {
	local name=$1 pid tie=() enter
	shift
	[ -z "$control_plane_tied" ] || tie=(setpriv --pdeathsig KILL)
	printf '%s\0' "$@" >"$control_plane_dir/$name.args"
	if node_runs "$name"; then
		node_start "$name"
	else
		node_enter
		# A session of its own: an interrupt typed at a terminal leaves stopping to us.
		(
			cd "$control_plane_dir" || exit
			exec "${tie[@]}" setsid "${enter[@]}" "$@" </dev/null >>"$name.log" 2>&1
		) &
		pid=$!
		disown "$pid"
	fi
	printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$control_plane_dir/$name.pid"
}

# start_time PID: in ticks since the machine started; nothing when the process has ended.
start_time() {
	local stat
	# The name, in parentheses, may hold anything; state is the first field behind it.
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
	# shellcheck disable=SC2086
	set -- ${stat##*) }
	[ "$1" = Z ] || printf '%s\n' "${20}"
}

# process_id NAME: the process in NAME.pid if that very process runs.
process_id() {
	local pid started
	read -r pid started 2>/dev/null <"$control_plane_dir/$1.pid" || return 1
	[ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] && printf '%s\n' "$pid"
}

# stop_processes NAME...: asks all to end, then waits, then insists.
stop_processes() {
	local name pid tries
	for name; do
		! pid=$(process_id "$name") || kill "$pid" 2>/dev/null || true
	done
	for name; do
		for ((tries = 0; tries < patience * 20; tries++)); do
			pid=$(process_id "$name") || break
			[ "$tries" -ne 60 ] || kill -KILL "$pid" 2>/dev/null || true
			sleep 0.05
		done
		! process_id "$name" >/dev/null || fail "$name (process $pid) does not end"
		rm -f "$control_plane_dir/$name.pid"
	done
}

# --- Folder, certificates, files ---

make_dir() {
	local dir=$1
	if [ -z "$dir" ]; then
		dir=$(mktemp -d "${TMPDIR:-/tmp}/cmesh-cluster.XXXXXX")
	elif [ -e "$dir" ]; then
		[ -d "$dir" ] || fail "$dir is not a folder"
		[ -z "$(ls -A "$dir")" ] || fail "$dir is not empty"
	else
		mkdir -p "$dir"
	fi
	control_plane_dir=$(cd "$dir" && pwd)
	chmod 700 "$control_plane_dir"
	touch "$control_plane_dir/$marker"
}

openssl_quietly() {
	openssl "$@" 2>>"$control_plane_dir/pki/openssl.log" || {
		cat "$control_plane_dir/pki/openssl.log" >&2
		fail "openssl ${1} failed"
	}
}

# certificate NAME SUBJECT [OPENSSL-ARGUMENT...]: P-256, as handshakes with it are fast.
certificate() {
	local name=$1 subject=$2
	shift 2
	openssl_quietly req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-sha256 -days 3650 -subj "$subject" -keyout "$name.key" -out "$name.crt" "$@"
}

# In a subshell, for the folder it changes to.
make_certificates() (
	mkdir "$control_plane_dir/pki"
	cd "$control_plane_dir/pki" || exit
	printf '[req]\ndistinguished_name = dn\n[dn]\n' >openssl.cnf
	certificate ca /CN=cmesh-test-ca -addext basicConstraints=critical,CA:TRUE \
		-addext keyUsage=critical,keyCertSign,cRLSign
	local names=localhost,kubernetes,kubernetes.default,kubernetes.default.svc addresses=IP:127.0.0.1
	# The service's own is the first of the services' addresses.
	[ -z "$node_address" ] || addresses+=,IP:$node_address,IP:$node_service
	certificate apiserver /CN=kube-apiserver -CA ca.crt -CAkey ca.key \
		-addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=serverAuth \
		-addext "subjectAltName=DNS:${names//,/,DNS:},$addresses"
	certificate admin /O=system:masters/CN=admin -CA ca.crt -CAkey ca.key \
		-addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=clientAuth
	# kube-apiserver reads the public half only out of this older form.
	openssl_quietly ecparam -name prime256v1 -genkey -noout -out service-account.key
)

# write_kubeconfig SERVER USER: to standard output; USER's certificate is in pki.
write_kubeconfig() {
	local pki=$control_plane_dir/pki
	cat <<-CONFIG
		apiVersion: v1
		kind: Config
		clusters:
		- name: cmesh-test
		  cluster:
		    server: $1
		    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
		users:
		- name: $2
		  user:
		    client-certificate-data: $(base64 -w0 "$pki/$2.crt")
		    client-key-data: $(base64 -w0 "$pki/$2.key")
		contexts:
		- name: cmesh-test
		  context:
		    cluster: cmesh-test
		    user: $2
		current-context: cmesh-test
	CONFIG
}

write_env() {
	local pki=$control_plane_dir/pki
	{
		printf 'export %s=%q\n' \
			CLUSTER_DIR "$control_plane_dir" \
			KUBECONFIG "$control_plane_dir/kubeconfig" \
			APISERVER "$1" \
			CLUSTER_CA "$pki/ca.crt" \
			CLUSTER_CA_KEY "$pki/ca.key" \
			CLUSTER_CERT "$pki/admin.crt" \
			CLUSTER_KEY "$pki/admin.key" \
			CLUSTER_AUDIT_LOG "$control_plane_dir/audit.log" \
			KUBECTL "$assets/kubectl"
		[ -z "$node_holder" ] || printf 'export %s=%q\n' \
			CLUSTER_NODE "$node_name" NODE_ADDRESS "$node_address" NODE_HOST_ADDRESS "$node_host" \
			NODE_IMAGE "$node_image"
		printf "export PATH=\"\$PATH\":%q\n" "$assets"
	} >"$control_plane_dir/env"
}

# --- Start ---

# Sets port to one that nothing uses, below those the kernel hands to outgoing connections:
# so it stays free when kube-apiserver is stopped for a while.
pick_port() {
	local low=10000 high
	read -r high _ 2>/dev/null </proc/sys/net/ipv4/ip_local_port_range || high=32768
	[ "$high" -ge 12000 ] || { low=20000; high=60000; }
	while :; do
		port=$((low + SRANDOM % (high - low)))
		! grep -qs "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6 || continue
		return
	done
}

start_etcd() {
	# Clients and apiserver take the address as a file name relative to the folder.
	start_process etcd "$assets/etcd" --data-dir=etcd --unsafe-no-fsync --log-level=warn \
		--listen-client-urls=unix://etcd:0 --advertise-client-urls=unix://etcd:0 \
		--listen-peer-urls=unix://etcd-peer:0 --initial-advertise-peer-urls=unix://etcd-peer:0 \
		--initial-cluster=default=unix://etcd-peer:0
}

start_apiserver() {
	local pki=$control_plane_dir/pki own=()
	if [ -n "$modern_wanted" ]; then
		own=(--bind-address=127.0.0.1 --emulated-version="kube=$modern_wanted")
	else
		whole_apiserver
	fi
	cat >"$control_plane_dir/audit-policy.yaml" <<-POLICY
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived]
		rules:
		- level: Metadata
	POLICY
	# shellcheck disable=SC2086
	start_process kube-apiserver "$assets/kube-apiserver" --etcd-servers=unix://etcd:0 \
		--secure-port="$port" --client-ca-file="$pki/ca.crt" \
		--tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
		--audit-policy-file="$control_plane_dir/audit-policy.yaml" \
		--audit-log-path="$control_plane_dir/audit.log" \
		"${own[@]}" ${CMESH_APISERVER_ARGS:-}
}

# Adds to `own` what only Kubernetes' own kube-apiserver has.
whole_apiserver() {
	local bind=127.0.0.1 advertise=192.0.2.1
	if [ -n "$node_address" ]; then
		bind=${node_anywhere%/*} advertise=$node_address
		own+=(--kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key"
			--kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP)
	fi
	# Without the controller no service account exists, and pods would be refused for it.
	[ -x "$assets/kube-controller-manager" ] || own+=(--disable-admission-plugins=ServiceAccount)
	own+=(--bind-address="$bind" --advertise-address="$advertise" --authorization-mode="Node,RBAC"
		--allow-privileged --service-cluster-ip-range="$node_services"
		--service-account-issuer=https://kubernetes.default.svc
		--service-account-key-file="$pki/service-account.key"
		--service-account-signing-key-file="$pki/service-account.key")
}

start_controller_manager() {
	local pki=$control_plane_dir/pki program=$assets/kube-controller-manager insecure=()
	# Off by default, and no longer known, in later versions.
	[[ $("$program" --help) != *' --port '* ]] || insecure=(--port=0)
	start_process kube-controller-manager "$program" --kubeconfig="$control_plane_dir/kubeconfig" \
		--use-service-account-credentials --service-account-private-key-file="$pki/service-account.key" \
		--root-ca-file="$pki/ca.crt" --cluster-signing-cert-file="$pki/ca.crt" \
		--cluster-signing-key-file="$pki/ca.key" --leader-elect=false --secure-port=0 \
		--kube-api-qps=500 --kube-api-burst=1000 --horizontal-pod-autoscaler-sync-period=1s "${insecure[@]}"
}

# ask_apiserver PATH: the answer, as to the administrator; fails unless it is a good one. kubectl takes
# twenty times as long, and who waits asks often. To what calls itself curl the API server answers with
# spaces between all.
ask_apiserver() {
	local pki=$control_plane_dir/pki server
	server=$(sed -n 's/^ *server: //p' "$control_plane_dir/kubeconfig")
	curl --silent --fail --globoff --noproxy '*' --max-time 5 --user-agent cluster \
		--cacert "$pki/ca.crt" --cert "$pki/admin.crt" --key "$pki/admin.key" "$server$1"
}

apiserver_has() {
	ask_apiserver "$1" >/dev/null
}

kubectl_admin() {
	"$assets/kubectl" --kubeconfig="$control_plane_dir/kubeconfig" --request-timeout=5s "$@" >/dev/null 2>&1
}

# await PROCESS COMMAND...: until COMMAND succeeds; 1 when PROCESS ends before.
await() {
	local process=$1 deadline=$((SECONDS + patience))
	shift
	until "$@"; do
		process_id "$process" >/dev/null || return 1
		if [ "$SECONDS" -ge "$deadline" ]; then
			tail -n 20 "$control_plane_dir/$process.log" >&2
			fail "$process is not ready after $patience seconds (log above)"
		fi
		sleep 0.1
	done
}

# occurrences TEXT PATH: how often the API server's answer has it.
occurrences() {
	ask_apiserver "$2" | grep -oF "$1" | wc -l
}

# What the controllers make in each of the four namespaces that are there from the beginning, one
# after the other: tests make pods at once, and compare what is stored before and after them.
# Binaries of other versions make other things.
namespaces_are_furnished() {
	if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
		apiserver_has /api/v1/namespaces/default/serviceaccounts/default
		return
	fi
	[ "$(occurrences '"secrets":[{"name":"default-token-' /api/v1/serviceaccounts)" -eq 4 ] &&
		[ "$(occurrences '"name":"kube-root-ca.crt"' /api/v1/configmaps)" -eq 4 ]
}

await_apiserver() {
	await kube-apiserver apiserver_has /readyz
}

report_end() {
	tail -n 20 "$control_plane_dir/$1.log" >&2
	fail "$1 ended (log above)"
}

control_plane_abandon() {
	local status=$?
	trap - EXIT
	trap '' INT TERM # a second one must not stop the stopping
	control_plane_down "$control_plane_dir"
	exit "$status"
}

# control_plane_foreground COMMAND...: runs it, and exits as it does. Who types an interrupt tells the
# command as well, which decides whether to end: told once more by us it would be interrupted twice.
control_plane_foreground() {
	local child status=0
	trap '' INT
	setpriv --pdeathsig TERM env --default-signal=INT,QUIT -- "$@" <&0 &
	child=$!
	trap 'kill -TERM "$child" 2>/dev/null || true' TERM
	wait "$child" || status=$?
	# A trapped signal ends `wait` early: the command may still be running.
	while kill -0 "$child" 2>/dev/null; do
		status=0
		wait "$child" || status=$?
	done
	exit "$status"
}

# control_plane_up DIR: DIR is empty for a folder of our own in TMPDIR. Leaves a trap that
# takes all down again when the shell exits; a caller who wants it to stay clears that.
control_plane_up() {
	require curl curl
	require openssl openssl
	require setpriv util-linux
	local since=$SECONDS tries port server
	make_dir "$1"
	trap control_plane_abandon EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	[ -z "$node_wanted" ] || node_create
	make_certificates
	start_etcd
	for ((tries = 1; ; tries++)); do
		pick_port
		server=https://$(node_url "${node_address:-127.0.0.1}"):$port
		write_kubeconfig "$server" admin >"$control_plane_dir/kubeconfig"
		start_apiserver
		! await_apiserver || break
		# Somebody else was faster to bind the port: take another.
		if ! grep -q 'address already in use' "$control_plane_dir/kube-apiserver.log" || [ "$tries" -ge 5 ]; then
			report_end kube-apiserver
		fi
		: >"$control_plane_dir/kube-apiserver.log"
	done
	write_env "$server"
	if [ -x "$assets/kube-controller-manager" ]; then
		start_controller_manager
		await kube-controller-manager namespaces_are_furnished || report_end kube-controller-manager
	fi
	await kube-apiserver apiserver_has /api/v1/namespaces/default || report_end kube-apiserver
	say "control plane at $server is ready ($((SECONDS - since)) s) in $control_plane_dir"
	[ -z "$node_wanted" ] || node_up "$server"
}

# --- Later ---

find_dir() {
	[ -e "$1/$marker" ] || fail "$1 is not the folder of a control plane"
	control_plane_dir=$(cd "$1" && pwd)
	node_find
}

control_plane_down() {
	[ -e "$1" ] || return 0
	find_dir "$1"
	node_down
	stop_processes kube-scheduler kube-controller-manager kube-apiserver etcd
	rm -rf "$control_plane_dir"
}

# control_plane_process stop|start|restart NAME DIR
control_plane_process() {
	local name=$2 args
	find_dir "$3"
	[ -e "$control_plane_dir/$name.args" ] || fail "$3 has no process $name"
	[ "$1" = start ] || stop_processes "$name"
	[ "$1" != stop ] || return 0
	! process_id "$name" >/dev/null || return 0
	mapfile -d '' -t args <"$control_plane_dir/$name.args"
	start_process "$name" "${args[@]}"
	case $name in
	kube-apiserver)
		assets=$(dirname "${args[0]}")
		await_apiserver || report_end kube-apiserver
		;;
	containerd) await_containerd ;; # without which a kubelet does not start
	esac
}
