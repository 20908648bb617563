#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the versions that manifests, examples and pages name with the file VERSION.

    test/version.py            fails where they differ
    test/version.py --write    puts that of VERSION there
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NUMBER = r"(\d+\.\d+\.\d+(?:-[0-9a-z.]+)?)"
# What is ours and of this release: its images, their files, and the chart's.
NAMED = [
    (r"", rf"cmesh/(?:localproxy|manager|nat):{NUMBER}"),
    (r"", rf"(?:localproxy|manager|nat)-{NUMBER}-amd64\.tar"),
    (r"k8s/.*", rf"newTag: {NUMBER}"),
    (r"k8s/chart/Chart\.yaml", rf"^(?:appVersion|version): {NUMBER}"),
]
LEFT_OUT = re.compile(r"CHANGELOG\.md$|test/(unit|integration|fuzz|bench/results)/")


def tracked():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True)
    return [path for path in listed.stdout.decode().split("\0") if path and not LEFT_OUT.match(path)]


def correct(path, text, version):
    """The text with this version in it, and how often some version stands there."""
    count = 0
    for where, pattern in NAMED:
        if re.match(where, path):
            text, found = re.subn(
                pattern, lambda m: m[0].replace(m[1], version), text, flags=re.MULTILINE
            )
            count += found
    return text, count


def main():
    write = sys.argv[1:] == ["--write"]
    if sys.argv[1:] and not write:
        sys.exit(__doc__)
    with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as f:
        version = f.read().strip()
    places, wrong = 0, []
    for path in tracked():
        full = os.path.join(ROOT, path)
        try:
            with open(full, encoding="utf-8") as f:
                before = f.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        after, count = correct(path, before, version)
        places += count
        if after != before:
            wrong.append(path)
            if write:
                with open(full, "w", encoding="utf-8") as f:
                    f.write(after)
    print(f"version: {version} in {places} places")
    if not places:
        sys.exit("version: it stands nowhere, so this sees nothing")
    for path in wrong:
        print(f"{path}: {'was' if write else 'names'} another version", file=sys.stderr)
    sys.exit(1 if wrong and not write else 0)


main()
