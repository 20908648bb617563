#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over sources, except those that it found clean before.

    test/tidy.py BUILD SOURCE...

BUILD is a folder with a compile_commands.json. A verdict follows from the content of the source and of
every header that it includes, from the command that compiles it, the .clang-tidy files and clang-tidy
itself. Where it was "clean", an empty file named by the sum of all these is kept in ~/.cache/cmesh/tidy
($CMESH_CACHE/tidy). Paths count below the checkout alone, so that one checkout serves the next.
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
XDG_CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
CACHE = os.path.join(os.environ.get("CMESH_CACHE") or os.path.join(XDG_CACHE, "cmesh"), "tidy")
KEPT_S = 30 * 24 * 3600
# How much it left out in headers of the system is of no interest.
NOISE = re.compile(r"^(\d+ warnings? generated|Suppressed|Use -header-filter).*\n", re.M)


@functools.lru_cache(None)
def digest(path):
    """Of a file; that it is missing counts too."""
    try:
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()
    except OSError:
        return "missing"


@functools.lru_cache(None)
def tool(name):
    """Which program it is: Debian's revisions of one version differ in date and size."""
    found = os.stat(os.path.realpath(shutil.which(name)))
    version = subprocess.run([name, "--version"], check=True, capture_output=True, text=True)
    return f"{version.stdout} {found.st_size} {found.st_mtime_ns}"


def below_root(text):
    return text.replace(ROOT + "/", "").replace(ROOT, ".")


def includes(entry):
    """The source and all that it includes, by its path; None when clang cannot tell."""
    command = shlex.split(entry["command"])
    while os.path.basename(command[0]) in ("ccache", "env"):
        command.pop(0)
    at = command.index("-o")
    command = ["clang", *command[1:at], *command[at + 2 :], "-M", "-MT", "x"]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    paths = re.split(r"(?<!\\)\s+", done.stdout.partition(":")[2].replace("\\\n", " ").strip())
    return [os.path.join(entry["directory"], path.replace("\\ ", " ")) for path in paths]


def configurations(path):
    """The .clang-tidy files that may have a say."""
    folder = os.path.dirname(path)
    while folder.startswith(ROOT):
        yield os.path.join(folder, ".clang-tidy")
        folder = os.path.dirname(folder)


def key(entries):
    """Of all commands that compile a source, as clang-tidy runs for each; None: there is none."""
    facts = [digest(__file__), tool("clang-tidy"), tool("clang")]
    for path in configurations(entries[0]["file"]):
        facts.append(f"{below_root(path)} {digest(path)}")
    for entry in entries:
        paths = includes(entry)
        if paths is None:
            return None
        facts.append(below_root(entry["command"]))
        facts += [f"{below_root(path)} {digest(path)}" for path in paths]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def check(build, entries):
    """Whether the source is clean, and whether that was known; prints what is wrong."""
    name = key(entries)
    known = name and os.path.join(CACHE, name)
    if known and os.path.exists(known):
        os.utime(known)
        return True, True
    command = ["clang-tidy", "--quiet", "-p", build, entries[0]["file"]]
    done = subprocess.run(command, capture_output=True, text=True)
    said = NOISE.sub("", done.stdout + done.stderr)
    print(said, end="", flush=True)
    clean = done.returncode == 0 and not said.strip()
    if clean and known:
        open(known, "w", encoding="ascii").close()
    return done.returncode == 0, False


def forget():
    """What was of no use for a month."""
    for entry in os.scandir(CACHE):
        if entry.stat().st_mtime < time.time() - KEPT_S:
            os.unlink(entry.path)


def main():
    build, sources = sys.argv[1], {os.path.join(ROOT, path) for path in sys.argv[2:]}
    os.makedirs(CACHE, exist_ok=True)
    commands = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        for entry in json.load(f):
            if entry["file"] in sources:
                commands.setdefault(entry["file"], []).append(entry)
    # The largest first, so that none of them is left to the end.
    ordered = sorted(commands.values(), key=lambda e: -os.path.getsize(e[0]["file"]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        verdicts = list(threads.map(lambda entries: check(build, entries), ordered))
    forget()
    known = sum(known for _, known in verdicts)
    print(f"{len(verdicts)} sources, of which {known} were known to be clean")
    return 0 if len(verdicts) == len(sources) and all(clean for clean, _ in verdicts) else 1


sys.exit(main())
