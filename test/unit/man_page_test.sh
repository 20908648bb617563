#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: man_page_test.sh PROGRAM [COMMAND]
#
# The manual page that the program prints has each flag of its --help, and groff, where it is
# installed, takes it without a warning.
set -euo pipefail

page=$("$@" --man)
flags=$("$@" --help | sed -n 's/^    \(-[a-z], \)\{0,1\}--\([a-z-]*\).*/\2/p')
[[ -n $flags ]] || { echo "$*: no flags in --help" >&2; exit 1; }
for flag in $flags; do
	grep -qF "\\fB\\-\\-${flag//-/\\-}\\fR" <<<"$page" || {
		echo "$*: the page lacks --$flag" >&2
		exit 1
	}
done
if command -v groff >/dev/null; then
	warnings=$(groff -man -ww -z -Tutf8 <<<"$page" 2>&1)
	[[ -z $warnings ]] || { printf '%s\n' "$*: $warnings" >&2; exit 1; }
fi
