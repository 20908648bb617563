#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the demo shows, on the cluster of $KUBECONFIG. Run by `demo`.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/stage.sh"

shards=(blue green)
once=
failed=
for argument; do
	case $argument in
	--throwaway) throwaway=1 ;;
	--once) once=1 ;;
	esac
done

ok() {
	say "  ok      $*"
}

wrong() {
	say "  WRONG   $*"
	failed=1
}

# --- Two shards ---

join_configs() {
	local shard
	for shard in "${shards[@]}"; do
		echo ---
		cat "$shard.yaml"
	done >configs.yaml
}

show_configs() {
	say "  kubectl get shardingconfigs"
	admin get shardingconfigs --namespace "$prefix-operator" | sed 's/^/          /'
}

# NAMESPACE/NAME of a table of pods on standard input, of the six namespaces alone: no shard sees
# others.
pods_of_table() {
	awk -v namespace="^$prefix-[1-6]\$" '$1 ~ namespace { print $1 "/" $2 }' | sort -u
}

list_pods() {
	local shard
	admin get pods -A --no-headers | pods_of_table >all.pods
	for shard in "${shards[@]}"; do
		through "$shard" get pods -A --no-headers | pods_of_table >"$shard.pods"
	done
}

show_views() {
	local shard pod row
	list_pods
	printf '  %-26s%-26s%s\n' "directly" "through blue" "through green"
	while read -r pod; do
		row=$(printf '  %-26s' "$pod")
		for shard in "${shards[@]}"; do
			row+=$(printf '%-26s' "$(grep -Fx "$pod" "$shard.pods" || echo .)")
		done
		say "${row%"${row##*[! ]}"}"
	done <all.pods
	say
}

check_views() {
	local shard all both
	all=$(wc -l <all.pods)
	for shard in "${shards[@]}"; do
		printf '  %-7s sees %d pods, of %s\n' "$shard" "$(wc -l <"$shard.pods")" \
			"$(sed 's,/.*,,' "$shard.pods" | sort -u | paste -sd' ')"
	done
	both=$(sort -m blue.pods green.pods | uniq -d)
	if [ "$all" -gt 0 ] && sort -mu blue.pods green.pods | cmp -s - all.pods; then
		ok "together they see all $all pods"
	else
		wrong "together they do not see all $all pods"
	fi
	if [ -z "$both" ] && [ -s blue.pods ] && [ -s green.pods ]; then
		ok "no pod is seen by both"
	else
		wrong "seen by both: $both"
	fi
}

# What the API server was asked, from its own log of requests.
show_requests() {
	local uri
	say
	say "kubectl asked for /api/v1/pods?limit=500 each time; the API server was asked for"
	grep -o '"requestURI":"/api/v1/pods?[^"]*labelSelector=[^"]*"' "$CLUSTER_AUDIT_LOG" |
		cut -d'"' -f4 | grep -F '?limit=500' | sort -u | while read -r uri; do
		uri=${uri//\\u0026/&}
		uri=${uri//+/ }
		printf '  %b\n' "${uri//%/\\x}"
	done
}

# --- Two watches ---

# A line for each event: what happened, and the pod.
open_watch() {
	: >"$1.watch"
	run "$1.watch.log" "$KUBECTL" --kubeconfig "$1.kubeconfig" get pods -A \
		--watch --output-watch-events \
		-o jsonpath='{.type} {.object.metadata.namespace}/{.object.metadata.name}{"\n"}' >"$1.watch"
	await has_lines "$1.watch" "$(wc -l <"$1.pods")" ||
		die "the watch through $1 does not begin: $(cat "$1.watch.log")"
	mark "$1"
}

has_lines() {
	[ "$(wc -l <"$1")" -ge "$2" ]
}

# From here on what comes in the watch is news.
mark() {
	wc -l <"$1.watch" >"$1.mark"
}

# What came and went; that a pod was modified is of no interest here.
news() {
	tail -n "+$(($(<"$1.mark") + 1))" "$1.watch" | grep -v '^MODIFIED' | sort
}

no_news() {
	[ -z "$(news blue)$(news green)" ]
}

is_news() {
	[ "$(news "$1")" = "$2" ]
}

# expect_news SHARD EVENTS
expect_news() {
	await is_news "$1" "$2" || true
	if is_news "$1" "$2"; then
		ok "the watch through $1 got ${2//$'\n'/, } and nothing else"
	else
		wrong "the watch through $1 got $(news "$1" | paste -sd,) instead of ${2//$'\n'/, }"
	fi
	mark "$1"
}

show_watches() {
	local shard
	for shard in "${shards[@]}"; do
		open_watch "$shard"
	done
	{
		pod "$prefix-2" late
		pod "$prefix-5" late
	} >late.yaml
	apply late.yaml
	expect_news blue "ADDED $prefix-2/late"
	expect_news green "ADDED $prefix-5/late"
}

# --- The rules change ---

move_namespace() {
	local shard
	sed -i "s/, $prefix-3\]/]/" blue.yaml
	sed -i "s/\[$prefix-4,/[$prefix-3, $prefix-4,/" green.yaml
	for shard in "${shards[@]}"; do
		printf '  %-12s %s\n' "$shard.yaml" "$(grep -o 'values:.*' "$shard.yaml")"
	done
}

milliseconds() {
	date "$@" +%s%3N
}

show_move() {
	local shard begun applied took=()
	move_namespace
	join_configs
	begun=$(milliseconds)
	apply configs.yaml
	applied=$(($(milliseconds) - begun))
	for shard in "${shards[@]}"; do
		await enforced "$shard" 2 || die "$shard has not changed: $(tail -n 3 "$shard".*.log)"
		await confirmed "$shard" 2 || die "$shard does not say so: $(tail -n 3 "$shard".*.log)"
		took+=($(($(milliseconds -d "$(enforced_at "$shard" 2)") - begun)))
	done
	ok "enforced by blue ${took[0]} ms, by green ${took[1]} ms after \"kubectl apply\" was started" \
		"(which itself took $applied ms)"
	show_configs
	expect_news blue "DELETED $prefix-3/db"$'\n'"DELETED $prefix-3/web"
	expect_news green "ADDED $prefix-3/db"$'\n'"ADDED $prefix-3/web"
	if all_run; then
		ok "they are the same two watches: kubectl ends when its watch is interrupted"
	else
		wrong "a watch has ended: $(cat ./*.watch.log)"
	fi
	list_pods
	check_views
}

show_fence() {
	local command=(label pod web --namespace "$prefix-3" touched=yes)
	say "  kubectl ${command[*]}"
	if through blue "${command[@]}" >blue.write 2>&1; then
		wrong "blue wrote to what it has lost"
	elif ! grep -q 'cmesh: .* is fenced' blue.write; then
		wrong "blue was refused for another reason: $(cat blue.write)"
	else
		ok "refused through blue:"
		fold -s -w 88 blue.write | sed 's/^/          /; s/ *$//'
	fi
	if through green "${command[@]}" >green.write 2>&1; then
		ok "done through green: $(cat green.write)"
	else
		wrong "green cannot write: $(cat green.write)"
	fi
}

# --- A breaker opens ---

breaker_field() {
	status_field circuitbreaker deletes "$1"
}

breaker_is() {
	[ "$(breaker_field enforced) $(breaker_field open)" = "$1" ]
}

# What the manager has read from the pod's proxy: await_breaker ENFORCED OPEN
await_breaker() {
	await breaker_is "$*" || true
	if breaker_is "$*"; then
		show_breakers
	else
		wrong "its status does not say so: $(breaker_field conditions) $(tail -n 3 manager.log)"
	fi
}

show_breakers() {
	say "  kubectl get circuitbreakers"
	admin get circuitbreakers --namespace "$prefix-operator" | sed 's/^/          /'
}

# delete_pod SHARD NAMESPACE/NAME
delete_pod() {
	say "  kubectl delete pod ${2#*/} --namespace ${2%/*}, through $1"
	through "$1" delete pod "${2#*/}" --namespace "${2%/*}" --wait=false >"$1.write" 2>&1
}

# show_refused_delete NAMESPACE/NAME WHY
show_refused_delete() {
	if delete_pod blue "$1"; then
		wrong "blue has deleted another one"
	elif ! grep -q "circuitbreaker .* $2" blue.write; then
		wrong "blue was refused for another reason: $(cat blue.write)"
	else
		ok "refused:"
		fold -s -w 88 blue.write | sed 's/^/          /; s/ *$//'
	fi
}

show_breaker() {
	sed "s/\bdemo-/$prefix-/g" "$quickstart/breaker.yaml" >breaker.yaml
	sed -n '/^spec:/,$ { /#/d; s/^/        /; p }' breaker.yaml
	apply breaker.yaml
	await_breaker 1/1 0
	delete_pod blue "$prefix-2/late" || wrong "blue cannot delete: $(cat blue.write)"
	show_refused_delete "$prefix-1/db" 'over the limit of 1 in 1h'
	show_refused_delete "$prefix-1/web" 'is open since'
	await_breaker 1/1 1
	delete_pod green "$prefix-5/late" || wrong "green cannot delete: $(cat green.write)"
	expect_news blue "DELETED $prefix-2/late"
	expect_news green "DELETED $prefix-5/late"
	admin annotate circuitbreaker deletes --namespace "$prefix-operator" \
		circuitbreaker.$label/recover='*=looked-at-it' >/dev/null
	say "  kubectl annotate circuitbreaker deletes circuitbreaker.$label/recover='*=looked-at-it'"
	await_breaker 1/1 0
	list_pods
}

# --- A bad ShardingConfig ---

# The schema takes it; that no label can have such a value is found by the manager.
show_bad_config() {
	sed "s/\[$prefix-1,/[\"$prefix 1\",/" blue.yaml >bad.yaml
	apply bad.yaml
	await is_bad blue || true
	if is_bad blue; then
		ok "its status says, in the condition Compiled:"
		field blue 'conditions[?(@.type=="Compiled")].message' | fold -s -w 88 |
			sed 's/^/          /; s/ *$//'
		say
	else
		wrong "its status does not say so: $(tail -n 3 manager.log)"
	fi
	if through blue get pods -A --no-headers | pods_of_table | cmp -s - blue.pods && no_news; then
		ok "blue sees what it saw before"
	else
		wrong "blue sees something else now"
	fi
	apply blue.yaml
}

is_bad() {
	[ "$(field "$1" 'conditions[?(@.type=="Compiled")].status')" = False ]
}

# --- The tour ---

play() {
	local label_option=
	[ -n "$throwaway" ] || label_option=" -l $label/namespace=$prefix-1"
	say
	say "Play on, in another terminal:"
	say
	# The other terminal may not have it, or another one.
	[ -z "$throwaway" ] || say "  export PATH=$(dirname "$KUBECTL"):\$PATH"
	cat <<-TEXT
		  cd $work
		  export KUBECONFIG=$KUBECONFIG
		  kubectl --kubeconfig blue.kubeconfig get pods -A
		  tail -f blue.watch green.watch &      # the two watches
		  kubectl run hello --image=none -n $prefix-1$label_option
		  vi blue.yaml green.yaml               # move a namespace
		  kubectl apply -f blue.yaml -f green.yaml
		  kubectl get shardingconfigs -n $prefix-operator
		  # any client, any operator:
		  KUBECONFIG=$work/green.kubeconfig ...

		What the proxies say, on /status and /metrics:
		  blue http://$(value blue.ready admin), green http://$(value green.ready admin)
		In that folder are also their rules (blue/rules.json), traffic policies (blue/traffic.json) and
		logs (blue.localproxy.log).

		Ctrl-C ends the demo and removes everything that it made.
	TEXT
}

main() {
	local shard
	enter_work
	choose_cluster
	say
	say "Six namespaces with two pods each"
	make_objects
	define_kind shardingconfigs crd.yaml
	define_kind circuitbreakers crd_circuitbreakers.yaml

	say "The manager${throwaway:+, which labels them with their namespaces}"
	start_manager
	[ -z "$throwaway" ] || await labelled || die "they are not labelled: $(tail -n 3 manager.log)"

	say "Two ShardingConfigs, of which the manager makes rules, in a ConfigMap each"
	for shard in "${shards[@]}"; do
		sed "s/\bdemo-/$prefix-/g" "$quickstart/shard-$shard.yaml" >"$shard.yaml"
	done
	join_configs
	apply configs.yaml
	for shard in "${shards[@]}"; do
		start_shard "$shard"
	done
	for shard in "${shards[@]}"; do
		await enforced "$shard" 1 || die "$shard is not enforced: $(tail -n 3 "$shard".*.log manager.log)"
	done
	show_configs

	say
	say "\"kubectl get pods -A\" as usual, and through each of the two:"
	say
	show_views
	check_views
	[ -z "$throwaway" ] || show_requests

	say
	say "Two watches are open; now a pod is created in $prefix-2 and one in $prefix-5"
	show_watches

	say
	say "$prefix-3 moves from blue to green, while the watches are open"
	show_move

	say
	say "An operator may still have work queued for what its shard has lost"
	show_fence

	say
	say "Blue deletes more than is good: a CircuitBreaker stops it"
	show_breaker

	say
	say "Somebody breaks blue's ShardingConfig"
	show_bad_config

	[ -z "$failed" ] || die "something of this is not as it should be"
	[ -z "$once" ] || return 0
	play
	leaving=0
	hold
	tail -n 5 ./*.log >&2
	die "a program or a watch has ended by itself"
}

main
