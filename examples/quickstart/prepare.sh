#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What demos do first: the packages that are missing, and the programs.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}

# quietly COMMAND...: its output is shown only when it fails.
quietly() {
	local output status=0
	output=$("$@" 2>&1) || status=$?
	[ "$status" -eq 0 ] || printf '%s\n' "$output" >&2
	return "$status"
}

# Installs, builds, and goes to the root of the checkout.
prepare() {
	local lock
	"$root/test/deps" build demo
	echo "Building cmesh (half a minute the first time) ..."
	cd "$root"
	mkdir -p build
	exec {lock}>build/demo.lock # for demos that begin at the same time
	flock "$lock"
	quietly cmake --preset release
	quietly cmake --build --preset release -j "$(nproc)" \
		--target kubeconfig-gen localproxy manager rulesync
	exec {lock}>&-
}
