#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a container image with the operator and nothing else: image.py PROGRAM FILE"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "k8s", "images"))
sys.dont_write_bytecode = True

import archive  # pylint: disable=wrong-import-position
import tree  # pylint: disable=wrong-import-position


def architecture():
    output = subprocess.run(
        ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
    ).stdout
    return output.strip()


def main():
    program, path = sys.argv[1:]
    root = tree.Tree()
    root.copy(program, "/report-operator", 0o755)
    config = {
        "architecture": architecture(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {"User": "65532:65532", "Entrypoint": ["/report-operator"]},
    }
    image = archive.Archive()
    image.image("report-operator", "0.1.0", config, [root], {})
    with open(path, "wb") as f:
        f.write(image.tar())


main()
