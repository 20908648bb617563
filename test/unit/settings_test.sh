#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: settings_test.sh KUBECONFIG-GEN LOCALPROXY MANAGER NAT-INIT RULESYNC
#
# Every program knows the settings of all of them, warns of other variables that begin with CMESH_,
# and names the one that is meant.
set -euo pipefail

gen=$1
manager=$3
flags=$(for program in "$1" "$2" "$3" "$3 compile" "$3 coverage" "$3 unlabel" "$4" "$5"; do
	$program --help | sed -n 's/^    \(-[a-z], \)\{0,1\}--\([a-z-]*\).*/\2/p'
done | sort -u | grep -vxE 'help|version')

# kubeconfig-gen with nothing to read: it complains of that alone.
ask() { env -i HOME=/nonexistent CMESH_TOKEN_FILE=off "$@" "$gen" --output=/nonexistent/x 2>&1 || true; }

expect() { # WORDS ENVIRONMENT...
	local words=$1 said
	shift
	said=$(ask "$@")
	grep -qF -- "$words" <<<"$said" || {
		printf '%s: expected "%s" in:\n%s\n' "$*" "$words" "$said" >&2
		exit 1
	}
}

own=$("$gen" --help | sed -n 's/^    --\([a-z-]*\).*/\1/p')
for flag in $flags; do
	name=CMESH_$(tr a-z- A-Z_ <<<"$flag")
	grep -qx -- "$flag" <<<"$own" && continue
	if said=$(ask "$name=x") && grep -q "variable=$name" <<<"$said"; then
		echo "core/base/flags_environment.c lacks $flag" >&2
		exit 1
	fi
done
expect "variable=CMESH_PROXI meant=CMESH_PROXY" CMESH_PROXI=http://127.0.0.1:1
expect "variable=CMESH_PXI meant=CMESH_PROXY" CMESH_PXI=1
expect "no kubeconfig" "CMESH_$(printf '%0500d' 1)=1"
expect "variable=CMESH_X_PORT_HTTP" CMESH_X_PORT_HTTP=1
expect "variable=CMESH_LGO_LEVEL meant=CMESH_LOG_LEVEL" CMESH_LGO_LEVEL=debug
expect "variable=CMESH_SOMETHING_ELSE" CMESH_SOMETHING_ELSE=1
said=$(ask CMESH_WEBHOOK_SERVICE_HOST=10.0.0.1 CMESH_WEBHOOK_SERVICE_PORT=443 \
	CMESH_WEBHOOK_SERVICE_PORT_HTTPS=443 CMESH_WEBHOOK_PORT=tcp://10.0.0.1:443 \
	CMESH_WEBHOOK_PORT_443_TCP=tcp://10.0.0.1:443 CMESH_WEBHOOK_PORT_443_TCP_ADDR=10.0.0.1 \
	CMESHED=1 CMESH=1)
if grep -q variable= <<<"$said"; then
	echo "a warning of what Kubernetes sets: $said" >&2
	exit 1
fi
said=$(env -i HOME=/nonexistent CMESH_LABEL_QSP=5 "$manager" --in-cluster 2>&1 || true)
grep -qF "variable=CMESH_LABEL_QSP meant=CMESH_LABEL_QPS" <<<"$said" || {
	echo "manager: $said" >&2
	exit 1
}
