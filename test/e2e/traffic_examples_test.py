# SPDX-License-Identifier: Apache-2.0
"""The policies of examples/traffic-policies, and those that docs/traffic-policies.md shows: an API
server takes them whole, and the manager's webhook finds nothing wrong with them."""

import glob
import os
import re
import subprocess

import harness
import manifests
from webhook_case import API, WebhookCase

FOLDER = os.path.join(harness.ROOT, "examples", "traffic-policies")
PAGE = os.path.join(harness.ROOT, "docs", "traffic-policies.md")
PLURALS = {"CircuitBreaker": "circuitbreakers", "FaultInjection": "faultinjections"}

# What kubectl says of them: that is meant, and the page says why.
WARNED = {
    "protect-api-server": "is for list or watch in all namespaces",
    "external": "3 rules are for requests to other places than the API server",
}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def examples():
    """File and object."""
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.yaml"))):
        (thing,) = manifests.parse(read(path))
        yield path, thing


def shown():
    """The whole policies of the page."""
    for block in re.findall(r"^```yaml\n(.*?)^```$", read(PAGE), re.M | re.S):
        yield from (t for t in manifests.parse(block) if isinstance(t, dict) and "kind" in t)


class TrafficExamplesTest(WebhookCase):
    versions = ["v1"]

    def check(self, thing):
        ns = thing["metadata"]["namespace"] = self.namespace()
        said = self.taken(thing)
        name = thing["metadata"]["name"]
        path = f"{API}/namespaces/{ns}/{PLURALS[thing['kind']]}/{name}"
        self.assertEqual([], manifests.lost(thing["spec"], self.cluster.json(path)["spec"]))
        odd = [line for line in said.splitlines() if '"spec' in line]
        odd = [line for line in odd if "no ShardingConfig in namespace" not in line]
        for line in odd:
            self.assertIn(WARNED.get(name, "nothing"), line)
        self.assertEqual(name in WARNED, bool(odd), said)

    def test_examples(self):
        names = set()
        for path, thing in examples():
            with self.subTest(path=os.path.basename(path)):
                self.assertEqual("report-operator", thing["metadata"]["namespace"])
                names.add(thing["metadata"]["name"])
                self.assertEqual(thing["metadata"]["name"] + ".yaml", os.path.basename(path))
                self.check(thing)
        self.assertEqual({"limit-deletes", "slow-canary", "protect-api-server", "external"}, names)
        for name in names:
            self.assertIn(f"`{name}.yaml`", read(os.path.join(FOLDER, "README.md")))
            self.assertIn(f"/{name}.yaml)", read(PAGE))

    def test_what_the_page_shows(self):
        things = list(shown())
        self.assertLessEqual(1, len(things))
        for thing in things:
            with self.subTest(name=thing["metadata"]["name"]):
                self.check(thing)


class CompileTest(harness.TestCase):
    """As the README says, offline, for the operator of examples/operator-go."""

    SHARD = os.path.join(harness.ROOT, "examples", "operator-go", "shard-blue.yaml")

    def compiled(self, path):
        """The documents that are printed."""
        command = [harness.program("manager"), "compile", "-f", self.SHARD, "-f", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(0, done.returncode, done.stderr)
        return {d["kind"]: d for d in manifests.parse(done.stdout.replace("\n}\n{", "\n}\n---\n{"))}

    def test_examples(self):
        lists = {"CircuitBreaker": "breakers", "FaultInjection": "faults"}
        for path, thing in examples():
            with self.subTest(path=os.path.basename(path)):
                documents = self.compiled(path)
                self.assertEqual({"ShardRules", "ShardTraffic"}, set(documents))
                (policy,) = documents["ShardTraffic"]["spec"][lists[thing["kind"]]]
                self.assertEqual(thing["metadata"]["name"], policy["name"])
                self.assertEqual(thing["spec"], policy["spec"])


if __name__ == "__main__":
    harness.main()
