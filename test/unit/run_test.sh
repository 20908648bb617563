#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: run_test.sh RUN
#
# test/run fails when a test fails, or tests nothing where it must; ctest and cmake are played here.
set -euo pipefail

run=$1
folder=$(mktemp -d "${TMPDIR:-/tmp}/cmesh-unit.XXXXXX")
trap 'rm -rf "$folder"' EXIT
printf '#!/bin/sh\nexit 0\n' >"$folder/cmake"
cat >"$folder/ctest" <<'PLAYED'
#!/bin/sh
case " $* " in *" -N "*) echo "Total Tests: 0"; exit ;; esac
echo "$PLAYED_SAYS"
exit "$PLAYED_EXITS"
PLAYED
chmod +x "$folder/cmake" "$folder/ctest"

# expect CODE EXITS SAYS [NO_SKIPS]
expect() {
	local code=0
	PATH=$folder:$PATH CMESH_DEPS=skip PLAYED_EXITS=$2 PLAYED_SAYS=$3 CMESH_NO_SKIPS=${4:-} \
		"$run" unit debug >"$folder/said" 2>&1 || code=$?
	[ "$code" -eq "$1" ] || {
		echo "exit code $code where $1 is expected, when ctest exits with $2 and says: $3"
		cat "$folder/said"
		exit 1
	}
}

for no_skips in '' 1; do
	expect 0 0 "all is well" "$no_skips"
	expect 1 8 "	  1 - unit.x (Failed)" "$no_skips"
done
expect 0 0 "	  1 - e2e.x (Skipped)"
expect 1 0 "	  1 - e2e.x (Skipped)" 1
expect 0 0 "	  1 - e2e.modern.1.36 (Skipped)" 1
