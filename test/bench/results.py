# SPDX-License-Identifier: Apache-2.0
"""The results that are kept: one pair of files for each run below results/, and the index there."""

import json
import os
import subprocess
import time

import plot
from build import HERE, ROOT

FOLDER = os.path.join(HERE, "results")
INDEX_HEAD = """# Results

What `bench`, `apiserver` and `sharding` have written with `--keep`, the latest first. How to read it, and what not to conclude, says [the benchmark's README](../README.md). Figures of different
machines cannot be compared.

| run | machine | what was measured |
|---|---|---|
"""


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit():
    """Abbreviated, with "+" behind it where the checkout has more than was committed."""
    name = git("rev-parse", "--short=8", "HEAD") or "unknown"
    return name + "+" * bool(git("status", "--porcelain", "--untracked-files=no"))


def today():
    return time.strftime("%Y-%m-%d", time.gmtime())


def version():
    with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as f:
        return f.read().strip()


def write_text(path, words):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(words)


def write_json(path, document):
    write_text(path, json.dumps(document, indent=2) + "\n")


def index_line(name, document):
    machine = document["machine"]
    links = f"[{name}]({name}.json)" + f", [plot]({name}.svg)" * document.get("plotted", True)
    return (f"| {links} | {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, "
            f"load {machine['load']} at the start | {document['rounds']} rounds; "
            f"{'; '.join(dict.fromkeys(document['versions'].values()))} |\n")


def index(folder):
    """The text of the index of what is there."""
    lines = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                document = json.load(f)
            lines.append((document["date"], index_line(name.removesuffix(".json"), document)))
    return INDEX_HEAD + "".join(line for _, line in sorted(lines, reverse=True))


def keep(document, kind="", folder=FOLDER):
    """Writes the run and the index; the paths."""
    name = f"{version()}-{document['date']}-{document['commit']}{kind}"
    path = os.path.join(folder, name)
    write_json(f"{path}.json", document)
    paths = [f"{path}.json"]
    if document.get("plotted", True):
        write_text(f"{path}.svg", plot.draw(document))
        paths.append(f"{path}.svg")
    write_text(os.path.join(folder, "README.md"), index(folder))
    return [*paths, os.path.join(folder, "README.md")]
