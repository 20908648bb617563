#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what Markdown files refer to exists: links to files and headings, paths in backquotes
that begin with a folder of the repository, and C files, also in pictures, by the end of their path.
Links to other sites are not followed.

    test/check_links.py            the files of this checkout that git knows
    test/check_links.py FOLDER     the links of what is installed there
"""

import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else HERE
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
QUOTED = re.compile(r"`([A-Za-z0-9._*/-]+/[A-Za-z0-9._*/-]*)`")
SOURCE = re.compile(r"(?<![\w/.*-])([a-z][a-z0-9_/-]*\.[ch])\b")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)


def installed():
    found = glob.glob("**", root_dir=ROOT, recursive=True)
    return sorted(name for name in found if os.path.isfile(at(name)))


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode != 0:
        sys.exit(f"{ROOT} is no git checkout: {listed.stderr.strip()}")
    return sorted({name for name in listed.stdout.splitlines() if os.path.isfile(at(name))})


def at(name):
    return os.path.join(ROOT, name)


def whole(name):
    with open(at(name), encoding="utf-8") as f:
        return f.read()


def prose(name):
    """The text of a page without its fenced code, with the same offsets."""
    return FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), whole(name))


def anchors(name):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+\s+(.*?)\s*$", prose(name), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = 0
        while (unique := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(unique)
    return found


def wrong_link(page, target):
    """Why the target of a link is wrong, or None."""
    path, _, anchor = target.partition("#")
    name = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if name.startswith(".."):
        return "leads out of the repository"
    if not os.path.exists(at(name)):
        return f"there is no {name}"
    if anchor and (not name.endswith(".md") or anchor not in anchors(name)):
        return f"{name} has no heading #{anchor}"
    return None


def references(page, names):
    """(offset, what is referred to, why that is wrong or None) of a page."""
    folders = {name.split("/")[0] for name in names if "/" in name}
    text = prose(page)
    for match in LINK.finditer(text):
        if not re.match(r"[a-z]+:", match[1]):
            yield match.start(), match[1], wrong_link(page, match[1])
    if ROOT != HERE:
        return
    for match in QUOTED.finditer(text):
        if match[1].split("/")[0] in folders and "NAME" not in match[1]:
            there = glob.glob(at(match[1])) or glob.glob(at(match[1]) + ".[ch]")
            yield match.start(), match[1], None if there else "there is no such file"
    for match in SOURCE.finditer(whole(page)):
        there = any(f"/{name}".endswith(f"/{match[1]}") for name in names)
        yield match.start(), match[1], None if there else "there is no such file"


def main():
    names = tracked() if ROOT == HERE else installed()
    pages = [name for name in names if name.endswith(".md")]
    checked = wrong = 0
    for page in pages:
        for offset, target, reason in references(page, names):
            checked += 1
            if reason:
                wrong += 1
                line = whole(page).count("\n", 0, offset) + 1
                print(f"{page}:{line}: {target}: {reason}", file=sys.stderr)
    print(f"links: {checked} references in {len(pages)} pages")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
