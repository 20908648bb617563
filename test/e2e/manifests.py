# SPDX-License-Identifier: Apache-2.0
"""Objects out of YAML, by Debian's own python3-yaml: whichever Python runs the tests."""

import json
import subprocess

from real_clients import PYTHON

PARSER = """
import json, sys, yaml
json.dump([thing for thing in yaml.safe_load_all(sys.stdin) if thing is not None], sys.stdout)
"""


def parse(text):
    """What the documents are, but for empty ones."""
    done = subprocess.run(
        [PYTHON, "-c", PARSER], input=text, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def lost(wanted, stored, path="spec"):
    """Where an object that the API server made has something else, or nothing: it drops what it does
    not know, and adds defaults."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return [
            where
            for key, value in wanted.items()
            for where in lost(value, stored.get(key), f"{path}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) <= len(stored):
        return [
            where
            for i, value in enumerate(wanted)
            for where in lost(value, stored[i], f"{path}[{i}]")
        ]
    return [] if wanted == stored else [path]
