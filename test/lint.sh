#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the sources without running them. Each job fails when it found nothing to check.
set -euo pipefail

usage() {
	cat <<'HELP'
Usage: test/lint.sh [JOB...]

Jobs (all of them when none is named):
  format    C sources are as .clang-format has it
  shell     shellcheck over all shell scripts
  licence   every source file begins with an SPDX line
  folders   every top-level folder has a README.md
  version   manifests, examples and pages name the version of the file VERSION
  layers    core includes only what is below it, and each library in one place; the folders of
            manager and localproxy form no circle, and none has more than 25 sources
  results   none of MUST_CHECK is dropped by (void) alone, which clang takes and gcc does not
  links     links and paths in Markdown files lead somewhere
  tidy      clang-tidy over the sources of the release build, unless they were clean before
  all       all of these

Only files known to git are checked.
HELP
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# report JOB COUNT WHAT: a job that saw no file checked nothing, and that is a failure.
report() {
	if [ "$2" -eq 0 ]; then
		echo "lint: $1: no $3 found" >&2
		return 1
	fi
	echo "lint: $1: $2 $3"
}

# tracked PATTERN...: files known to git that are there.
tracked() {
	local file
	git ls-files -- "$@" | while read -r file; do
		[ ! -f "$file" ] || printf '%s\n' "$file"
	done
}

lint_format() {
	local files
	mapfile -t files < <(tracked '*.c' '*.h')
	report format ${#files[@]} "C files"
	clang-format --dry-run -Werror "${files[@]}"
}

shell_scripts() {
	local file first
	tracked | while read -r file; do
		first=
		read -r first 2>/dev/null <"$file" || true
		case $file:$first in
		*.sh:* | *:'#!/bin/sh'* | *:'#!'*[/\ ]bash*) printf '%s\n' "$file" ;;
		esac
	done
}

lint_shell() {
	local files
	mapfile -t files < <(shell_scripts)
	report shell ${#files[@]} "shell scripts"
	shellcheck -x "${files[@]}"
}

lint_licence() {
	local files file missing=0
	mapfile -t files < <({
		tracked '*.c' '*.h' '*.cmake' '*CMakeLists.txt' '*.py' '*.js' '*.mjs' '*.go' '*.java'
		shell_scripts
	} | sort -u)
	report licence ${#files[@]} "source files"
	for file in "${files[@]}"; do
		head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || {
			echo "$file: no SPDX line among its first three" >&2
			missing=1
		}
	done
	return "$missing"
}

# The floors of core/, from the lowest: see core/README.md.
floors=(base json yaml schema crypto net http kube document rules traffic control admin program)

# Where the headers of a library may be included.
lint_borders() {
	local header place
	while read -r header place; do
		tracked 'core/*.[ch]' 'localproxy/*.[ch]' 'manager/*.[ch]' 'rulesync/*.[ch]' \
			'kubeconfig-gen/*.[ch]' 'nat-init/*.[ch]' | xargs grep -nE "#include <$header" | grep -vE "^$place"
	done <<-'TABLE'
		mbedtls/ core/crypto/mbedtls/
		gcrypt core/crypto/gcrypt/
		llhttp core/http/h1_parser.c
		nghttp2/ core/http/h2_
		yaml core/yaml/
		pcre2 core/traffic/pattern.c
		uv core/(net/|base/err\.c)
	TABLE
}

# What includes something of a floor above its own.
lint_floors() {
	local floor above=() i
	for ((i = ${#floors[@]} - 1; i >= 0; i--)); do
		floor=${floors[i]}
		[ ${#above[@]} -eq 0 ] || tracked "core/$floor/*.[ch]" |
			xargs grep -nE "#include \"($(IFS='|' && echo "${above[*]}"))/" || true
		above+=("$floor")
	done
}

# The manager's folders, each after those that it needs; those of a circle are left over.
# lint_rooms PROGRAM: its folders; what lies beside main.c is above and below all of them.
lint_rooms() {
	git ls-files "$1/*/*.c" | sed 's,/[^/]*$,,' | sort | uniq -c |
		awk '$1 > 25 { print $2 " has " $1 " sources; at most 25 let a stranger find the right one" }'
	git grep -oE '^#include "[a-z]+/[^"]+' -- "$1/*/*.[ch]" |
		sed -nE "s,^$1/([a-z]+)/[^:]*:#include \"(([a-z]+)/.*),\1 \3 \2,p" | sort -u |
		while read -r one other header; do
			[ "$one" = "$other" ] || [ ! -e "$1/$header" ] || echo "$one $other"
		done | tsort 2>&1 >/dev/null |
		awk -v program="$1" '/loop:$/ && loops++ { exit } { sub(/^tsort: -?/, program (/loop/ ? "" : "/")); print }'
}

lint_layers() {
	local found known
	known=$(printf '%s\n' "${floors[@]}" | sort)
	[ "$(git ls-files core | sed -n 's,^core/\([^/]*\)/.*,\1,p' | sort -u)" = "$known" ] || {
		echo "lint: layers: the folders of core are not those that this job knows" >&2
		return 1
	}
	found=$(lint_floors; lint_borders || true; lint_rooms manager || true; lint_rooms localproxy || true)
	report layers ${#floors[@]} "floors of core"
	report layers "$(git ls-files 'manager/*/*.c' | sed 's,/[^/]*$,,' | sort -u | wc -l)" "folders of the manager"
	[ -z "$found" ] || {
		printf '%s\n' "$found" "core/README.md and manager/README.md say what may include what" >&2
		return 1
	}
}

lint_results() {
	local names found
	mapfile -t names < <(git grep -ohE 'MUST_CHECK [^;(]*[ *][a-z0-9_]+\(' -- '*.h' |
		sed 's/.*[ *]\([a-z0-9_]*\)($/\1/' | sort -u)
	report results ${#names[@]} "functions whose results must be checked"
	found=$(git grep -nE "\(void\)($(IFS='|' && echo "${names[*]}"))\(" -- '*.[ch]' || true)
	[ -z "$found" ] || {
		printf '%s\n' "$found" "write (void)! where a result is of no use" >&2
		return 1
	}
}

lint_version() {
	test/version.py
}

lint_folders() {
	local folders folder missing=0
	mapfile -t folders < <(git ls-files | sed -n 's,^\([^./][^/]*\)/.*,\1,p' | sort -u)
	report folders ${#folders[@]} "top-level folders"
	for folder in "${folders[@]}"; do
		[ -s "$folder/README.md" ] || {
			echo "$folder/README.md is missing" >&2
			missing=1
		}
	done
	return "$missing"
}

lint_links() {
	test/check_links.py
}

lint_tidy() {
	local database=build/release/compile_commands.json files all
	cmake --preset release >/dev/null # so that the database knows the newest files
	mapfile -t files < <(sed -n "s,^ *\"file\": \"$PWD/\(.*\)\"\,\{0\,1\}\$,\1,p" "$database" |
		sort -u | comm -12 - <(tracked '*.c' | sort))
	all=$(tracked '*.c' | wc -l)
	report tidy ${#files[@]} "compiled sources ($((all - ${#files[@]})) others are not in this build)"
	test/tidy.py build/release "${files[@]}"
}

jobs=()
for job; do
	case $job in
	format | shell | licence | folders | version | layers | results | links | tidy) jobs+=("$job") ;;
	all) jobs=() ; break ;;
	-h | --help) usage; exit 0 ;;
	*) echo "lint: no such job: $job (see --help)" >&2; exit 2 ;;
	esac
done
[ "$(git rev-parse --show-cdup 2>&1)" = "" ] || {
	echo "lint: $PWD is not the top of a git checkout; git says which files there are" >&2
	exit 2
}
[ ${#jobs[@]} -gt 0 ] || jobs=(format shell licence folders version layers results links tidy)

# Every job in a shell of its own, as what follows || would run without -e.
failed=()
for job in "${jobs[@]}"; do
	status=0
	(set -e; "lint_$job") &
	wait $! || status=$?
	[ "$status" -eq 0 ] || failed+=("$job")
done
[ ${#failed[@]} -eq 0 ] || {
	echo "lint: failed: ${failed[*]}" >&2
	exit 1
}
