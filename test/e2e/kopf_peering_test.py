# SPDX-License-Identifier: Apache-2.0
"""Peering of kopf: operators write into one object that they are alive, and pause while they see
others there. The requests are those of kopf: a merge patch of the object by its name, and list and
watch of the whole collection, in which it looks for that name.
"""

import json
import os

import harness

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
NAME = f"peers{os.getpid()}"


def definition(group, kind, scope):
    plural = f"{kind.lower()}s"
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


class Operator:
    """What kopf does of peering, behind a localproxy or (`ask`) not."""

    def __init__(self, ask, collection, name, identity, priority=0):
        self.ask = ask
        self.collection = collection
        self.name = name
        self.identity = identity
        self.priority = priority
        self.peers = None
        self.version = None

    def touch(self):
        """keepalive()"""
        alive = {"priority": self.priority, "lifetime": 60, "lastseen": "2999-01-01T00:00:00Z"}
        body = json.dumps({"status": {self.identity: alive}}).encode()
        headers = [("Content-Type", MERGE)]
        return self.ask(f"{self.collection}/{self.name}", "PATCH", headers, body)

    def take(self, thing):
        """process_peering_event()"""
        if thing["metadata"]["name"] == self.name:
            self.peers = {name for name in thing.get("status", {}) if name != self.identity}

    def list(self):
        found = json.loads(self.ask(self.collection).body)
        self.version = found["metadata"]["resourceVersion"]
        for thing in found["items"]:
            self.take(thing)

    def watch(self):
        """What has happened since the list."""
        query = f"watch=true&resourceVersion={self.version}&timeoutSeconds=1"
        for line in self.ask(f"{self.collection}?{query}").body.splitlines():
            self.take(json.loads(line)["object"])

    def paused(self):
        """With --peering it begins paused, until it sees its object."""
        return self.peers is None or bool(self.peers)


class PeeringTest(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        for group in ("kopf.dev", "zalando.org"):
            cls.define(definition(group, "ClusterKopfPeering", "Cluster"))
            cls.define(definition(group, "KopfPeering", "Namespaced"))

    @classmethod
    def define(cls, thing):
        path = f"{DEFINITIONS}/{thing['metadata']['name']}"
        group, plural = thing["spec"]["group"], thing["spec"]["names"]["plural"]
        cls.cluster.json(DEFINITIONS, "POST", thing)
        cls.addClassCleanup(cls.cluster.fetch, path, "DELETE")
        harness.wait_for(
            lambda: cls.cluster.fetch(f"/apis/{group}/v1/{plural}").status == 200,
            f"{plural}.{group} are served",
        )

    def setUp(self):
        super().setUp()
        self.namespace = harness.make_namespace(self.cluster, "kopf", self.addCleanup)
        self.proxies = {
            shard: self.proxy(harness.rules_document(shard=shard)) for shard in ("blue", "green")
        }

    def make(self, group, kind, name):
        """Where the object is that it makes, with `kind` as in a path."""
        inside = f"/namespaces/{self.namespace}" if kind == "kopfpeerings" else ""
        collection = f"/apis/{group}/v1{inside}/{kind}"
        proper = "KopfPeering" if inside else "ClusterKopfPeering"
        thing = {"apiVersion": f"{group}/v1", "kind": proper, "metadata": {"name": name}}
        self.cluster.json(collection, "POST", thing)
        self.addCleanup(self.cluster.fetch, f"{collection}/{name}", "DELETE")
        return collection

    def operator(self, shard, collection, name, identity):
        return Operator(self.proxies[shard].fetch, collection, name, identity)

    def test_a_peering_that_shards_share_is_refused(self):
        """Of both groups, and in namespaces as well. Each shard is at work, and is told."""
        for group in ("kopf.dev", "zalando.org"):
            for kind in ("clusterkopfpeerings", "kopfpeerings"):
                collection = self.make(group, kind, NAME)
                for shard, proxy in self.proxies.items():
                    operator = self.operator(shard, collection, NAME, f"{shard}-0")
                    operator.list()
                    mentions = [f"--peering={NAME}-{shard}", "--standalone"]
                    self.assert_status_error(operator.touch(), 403, "Forbidden", mentions=mentions)
                    operator.watch()
                    self.assertFalse(operator.paused())
                    self.assertIn(mentions[0], proxy.status()["problems"][0]["remedy"])
                stored = self.cluster.json(f"{collection}/{NAME}")
                self.assertEqual({}, stored.get("status", {}))

    def test_it_is_one_warning(self):
        collection = self.make("kopf.dev", "clusterkopfpeerings", NAME)
        proxy = self.proxies["blue"]
        for _ in range(3):
            self.operator("blue", collection, NAME, "blue-0").touch()
        (row,) = proxy.status()["problems"]
        self.assertEqual("lock", row["cause"])
        self.assertEqual(f'ClusterKopfPeering "{NAME}"', row["subject"])
        self.assertEqual(3, row["count"])
        told = [line for line in proxy.log().splitlines() if NAME in line]
        self.assertEqual(1, len(told), told)
        self.assertIn(" WARN ", told[0])

    def test_a_peering_of_each_shard_works(self):
        """The replicas of a shard see each other, and no one else."""
        for kind in ("clusterkopfpeerings", "kopfpeerings"):
            first = self.operators(kind, "0")
            for operator in first.values():
                operator.list()
                self.assertEqual(200, operator.touch().status)
                operator.watch()
            for operator in first.values():
                operator.list()
                self.assertFalse(operator.paused())
            second = self.operator(
                "blue", first["blue"].collection, first["blue"].name, "blue-1"
            )  # fmt: skip
            self.assertEqual(200, second.touch().status)
            for operator in first.values():
                operator.watch()
            self.assertEqual({"blue-1"}, first["blue"].peers)
            self.assertEqual(set(), first["green"].peers)
        for proxy in self.proxies.values():
            self.assertEqual([], proxy.status()["problems"])

    def operators(self, kind, number):
        made = {}
        for shard in self.proxies:
            name = f"{NAME}-{shard}"
            collection = self.make("kopf.dev", kind, name)
            made[shard] = self.operator(shard, collection, name, f"{shard}-{number}")
        return made

    def test_who_is_outside_pauses_all_shards(self):
        """`kopf freeze`, or a developer's own operator, has no localproxy."""
        collection = self.make("kopf.dev", "clusterkopfpeerings", NAME)
        inside = [self.operator(shard, collection, NAME, f"{shard}-0") for shard in self.proxies]
        for operator in inside:
            operator.list()
            self.assertFalse(operator.paused())
        developer = Operator(self.cluster.fetch, collection, NAME, "dev", 666)
        self.assertEqual(200, developer.touch().status)
        for operator in inside:
            operator.watch()
            self.assertEqual({"dev"}, operator.peers)


if __name__ == "__main__":
    harness.main()
