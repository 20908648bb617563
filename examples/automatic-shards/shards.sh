#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the tours of automatic shards have in common: who has which buckets, and whether all is right.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../quickstart/stage.sh"

throwaway=1 # the cluster is the demo's own
operator=   # its name, and that of its namespace and root: the tour's
failed=
declare -A programs # of each pod

ok() {
	say "  ok      $*"
}

wrong() {
	say "  WRONG   $*"
	failed=1
}

end_well() {
	[ -z "$failed" ] || die "something of this is not as it should be"
	say
	say "All of it is as it should be. The demo ends, and removes what it made."
}

# start_programs POD SHARD ADDRESS: its sidecars, and what the kubelet says of it.
start_programs() {
	start_sidecars "$@"
	await set_ready "$1" "$3" || die "$(cat await.log)"
}

# start_sidecars POD SHARD ADDRESS [KUBECONFIG]: localproxy has that kubeconfig, else the administrator's.
start_sidecars() {
	local pod=$1 shard=$2 address=$3 first=${#processes[@]}
	rm -rf "$pod" "$pod".*ready
	mkdir "$pod"
	run "$pod.rulesync.log" "$bin/rulesync/rulesync" --shard="$operator/$shard" \
		--from-configmap="$operator/cmesh-rules-$shard" --to="$pod/rules.json" \
		--control="$pod.sock" --admin="$address:5442" --ready-file="$pod.rulesync.ready"
	XDG_STATE_HOME=$work run "$pod.localproxy.log" "$bin/localproxy/localproxy" \
		--kubeconfig="${4:-$KUBECONFIG}" --rules="$pod/rules.json" --control="$pod.sock" --state="$pod/state" --listen=127.0.0.1:0 \
		--admin="$address:5441" --ready-file="$pod.ready"
	programs[$pod]=${processes[*]:first}
	await test -f "$pod.ready" -a -f "$pod.rulesync.ready" ||
		die "$pod does not start: $(tail -n 3 "$pod".*.log)"
	XDG_STATE_HOME=$work "$bin/kubeconfig-gen/kubeconfig-gen" --log-level=error \
		--proxy="https://$(value "$pod.ready" listen)" -o "$pod.kubeconfig"
}

# stop_programs POD
stop_programs() {
	# shellcheck disable=SC2086 # they are several
	end_and_forget ${programs[$1]}
	unset "programs[$1]"
}

# end_and_forget PID...: of what need not run any more.
end_and_forget() {
	local pid others=()
	for pid in "${processes[@]}"; do
		[[ " $* " == *" $pid "* ]] || others+=("$pid")
	done
	end_these "$@"
	processes=("${others[@]}")
}

# SHARD BUCKETS of each, the buckets as in 0-10,13.
list_buckets() {
	admin get shardingconfigs --namespace "$operator" -l "$label/auto-sharding-root=$operator" \
		-o jsonpath="{range .items[*]}{.metadata.name} {.metadata.annotations.${label//./\\.}/auto-sharding-buckets}{\"\\n\"}{end}" |
		awk 'NF == 2' | sort -V
}

# BUCKET SHARD of each bucket.
owners() {
	awk '{ n = split($2, runs, ",")
		for (i = 1; i <= n; i++) {
			last = split(runs[i], ends, "-")
			for (b = ends[1]; b <= ends[last]; b++) print b, $1
		} }' "$1" | sort
}

# The numbers of buckets differ by one at most.
check_balance() {
	local sizes
	sizes=$(owners buckets | cut -d' ' -f2 | uniq_count | sort -n)
	if [ $(($(tail -n 1 <<<"$sizes") - $(head -n 1 <<<"$sizes"))) -le 1 ]; then
		ok "each of the $(wc -l <buckets) shards has $(uniq <<<"$sizes" | paste -sd/ | sed 's,/, or ,') of the 32 buckets"
	else
		wrong "they are not shared evenly: $(paste -sd' ' <<<"$sizes")"
	fi
}

uniq_count() {
	sort | uniq -c | awk '{ print $1 }'
}
