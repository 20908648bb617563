# SPDX-License-Identifier: Apache-2.0
"""Shared namespaces: each shard of an operator keeps a certificate in a Secret of the operator's own
namespace, as the rotators of webhook certificates do, and sees and writes it whichever shard has the
namespace; what is not shared stays with one.
"""

import json

import harness
import labels_test
import mesh
import wire

HASH = mesh.GROUP + "/sharding-hash"
KEY = mesh.GROUP + "/namespace"
KINDS = {"v1": ["ConfigMap", "Secret"]}
LOW, HIGH = [str(i) for i in range(16)], [str(i) for i in range(16, 32)]
MARK = "cmesh-test/certificate"
LIST = f"/api/v1/secrets?labelSelector={MARK}"


def setUpModule():
    mesh.install()


class SharedTestCase(mesh.MeshTestCase):
    """An operator that runs in `namespace`, and works on Secrets there and in two others."""

    def setUp(self):
        super().setUp()
        self.home = harness.make_namespace(self.cluster, "manager", self.addCleanup)
        self.spaces = [
            harness.make_namespace(self.cluster, f"space-{i}", self.addCleanup) for i in range(2)
        ]
        for space in (self.namespace, *self.spaces):
            self.create(space, "certificate")
        self.lead = self.labelling_manager()
        self.pods, self.seen = {}, {}

    def labelling_manager(self, *args):
        resources = self.path("resources.json", json.dumps({"groupVersionKinds": KINDS}))
        return self.manager("--label-qps", "1000", "--sharding-resources", resources, *args)

    def create(self, space, name):
        secret = {"metadata": {"name": name, "labels": {MARK: "yes"}}, "data": {"tls.crt": "b2xk"}}
        return self.cluster.json(f"/api/v1/namespaces/{space}/secrets", "POST", secret)

    def start(self, *shards):
        for name in shards:
            pod = self.pods[name] = self.pod(f"{name}-0", name)
            pod.proxy_args = ["--write-fence", "enforce"]
            pod.start()
        for name in shards:
            self.wait_enforced(name, 1)
            self.seen[name] = mesh.Seen(self.pods[name], "/api/v1/secrets", MARK)
            self.addCleanup(self.seen[name].end)

    def value(self, space, name="certificate"):
        """Its hash label."""
        secret = self.cluster.json(f"/api/v1/namespaces/{space}/secrets/{name}")
        return secret["metadata"]["labels"].get(HASH)

    def wait_label(self, space, value, name="certificate"):
        harness.wait_for(lambda: self.value(space, name) == value, f"{space}/{name} has {value}")

    def lists(self, shard, space, name="certificate"):
        """By a list of all namespaces; None: it was cut, as new rules came."""
        try:
            answer = self.pods[shard].proxy.fetch(LIST)
        except wire.Cut:
            return None
        if answer.status != 200 or not answer.complete:
            return None
        found = [item["metadata"] for item in json.loads(answer.body)["items"]]
        return (space, name) in [(meta["namespace"], meta["name"]) for meta in found]

    def renew(self, shard, space, name="certificate"):
        """As a rotator does: gets the Secret, and updates it. The status of the update."""
        proxy, path = self.pods[shard].proxy, f"/api/v1/namespaces/{space}/secrets/{name}"
        answer = proxy.fetch(path)
        self.assertEqual(200, answer.status)
        secret = json.loads(answer.body)
        secret["data"] = {"tls.crt": "bmV3"}
        body, kind = json.dumps(secret).encode(), [("Content-Type", "application/json")]
        return proxy.fetch(path, "PUT", kind, body).status

    def wait_seen(self, space, *shards, name="certificate"):
        """These see it, and no others do, by lists and by watches."""

        def look():
            listed = {shard for shard in self.pods if self.lists(shard, space, name)}
            shown = {shard for shard in self.pods if (space, name) in self.seen[shard].shown}
            return listed == shown == set(shards)

        try:
            harness.wait_for(look, f"{space} is seen by {shards}", interval=0.05)
        except AssertionError as error:
            told = {shard: list(self.seen[shard].shown) for shard in self.pods}
            raise AssertionError(f"{error}: {told}") from None

    def check_renews(self, space, *shards):
        """These may write it, and no others."""
        for shard in self.pods:
            self.assertEqual(200 if shard in shards else 403, self.renew(shard, space), shard)

    def share(self, *shards, spaces=None):
        for name in shards:
            self.patch(name, {"spec": {"sharedNamespaces": spaces}})
        for name in self.pods:
            self.wait_enforced(name, 1)


class HashTest(SharedTestCase):
    """Shards by the hash, and another operator's beside them, which shares nothing."""

    def limit(self, hashes):
        return mesh.limit(mesh.is_in(HASH, *hashes), ["secrets"])

    def owner(self, space, low="low", high="high"):
        return low if labels_test.hash_of(space) in LOW else high

    def other(self, shard):
        return {"low": "high", "high": "low"}[shard]

    def begin(self):
        mine = {"controller": {"leaderElectionName": "mine"}}
        theirs = {"controller": {"leaderElectionName": "theirs"}}
        but = {"matchExpressions": [{"key": HASH, "operator": "NotIn", "values": LOW}]}
        self.apply(
            mesh.config("low", "low", self.limit(LOW), **mine),
            mesh.config("high", "high", self.limit(HIGH), **mine),
            mesh.config("their-low", "their-low", self.limit(LOW), **theirs),
            mesh.config("their-high", "their-high", mesh.limit(but, ["secrets"]), **theirs),
        )
        for space in (self.namespace, *self.spaces):
            self.wait_label(space, labels_test.hash_of(space))
        self.start("low", "high", "their-low", "their-high")

    def check_not_shared(self):
        for space in self.spaces:
            owners = (self.owner(space), self.owner(space, "their-low", "their-high"))
            self.wait_seen(space, *owners)
            self.check_renews(space, *owners)

    def test_own_namespace(self):
        self.begin()
        mine = self.owner(self.namespace)
        theirs = self.owner(self.namespace, "their-low", "their-high")
        # The other shard cannot renew the certificate.
        self.wait_seen(self.namespace, mine, theirs)
        self.check_renews(self.namespace, mine, theirs)

        # Those of others are listed in vain.
        self.share("low", "high", spaces=[self.namespace, *self.spaces])
        self.wait_label(self.namespace, self.namespace)
        self.wait_seen(self.namespace, "low", "high", theirs)
        self.check_renews(self.namespace, "low", "high", theirs)
        self.check_not_shared()
        for name in ("low", "high"):
            self.wait_condition(name, "Exclusive", "False", "SharedOnPurpose")
            self.assertNotIn(
                self.namespace, mesh.condition(self.get(name), "Covered").get("message", "")
            )
        self.wait_condition("their-low", "Exclusive", "True")

        # What comes later, through managers that come and go.
        self.create(self.namespace, "later")
        self.wait_seen(self.namespace, "low", "high", theirs, name="later")
        self.lead.kill()
        self.lead = self.labelling_manager()
        self.create(self.namespace, "last")
        self.wait_seen(self.namespace, "low", "high", theirs, name="last")
        self.check_renews(self.namespace, "low", "high", theirs)
        self.check_not_shared()

        self.share("low", "high")
        self.wait_label(self.namespace, labels_test.hash_of(self.namespace))
        self.wait_seen(self.namespace, mine, theirs)
        self.check_renews(self.namespace, mine, theirs)
        self.check_not_shared()
        self.wait_condition(mine, "Exclusive", "True")

    def test_one_shares_what_the_other_has(self):
        """Who has it is told, though it does not share it itself."""
        self.begin()
        mine, other = self.owner(self.namespace), self.other(self.owner(self.namespace))
        theirs = self.owner(self.namespace, "their-low", "their-high")
        self.wait_condition(mine, "Exclusive", "True")
        self.share(other, spaces=[self.namespace])
        self.wait_seen(self.namespace, mine, other, theirs)
        self.check_renews(self.namespace, mine, other, theirs)
        self.wait_condition(other, "Exclusive", "False", "SharedOnPurpose")
        self.wait_condition(mine, "Exclusive", "False", "Shared")
        for name in ("their-low", "their-high"):
            self.wait_condition(name, "Exclusive", "True")
        self.share(other)
        self.wait_seen(self.namespace, mine, theirs)
        self.wait_condition(mine, "Exclusive", "True")

    def test_namespaces_of_others(self):
        """They are shared by who runs the manager; until then by nobody."""
        self.begin()
        flagged, listed = self.spaces
        self.share("low", "high", spaces=self.spaces)
        self.check_not_shared()
        self.lead.kill()
        self.lead = self.labelling_manager("--shareable-namespaces", flagged)
        theirs = self.owner(flagged, "their-low", "their-high")
        self.wait_label(flagged, flagged)
        self.wait_seen(flagged, "low", "high", theirs)
        self.check_renews(flagged, "low", "high", theirs)
        owners = (self.owner(listed), self.owner(listed, "their-low", "their-high"))
        self.assertEqual(labels_test.hash_of(listed), self.value(listed))
        self.wait_seen(listed, *owners)
        self.check_renews(listed, *owners)

    def test_nobody_waits_for_what_is_shared(self):
        """A pod that is silent keeps what was its own, and nothing of what is shared."""
        self.begin()
        mine, other = self.owner(self.namespace), self.other(self.owner(self.namespace))
        self.pods[mine].stop_sync()
        self.pods[mine].stop_proxy()
        self.patch(other, {"spec": {"sharedNamespaces": [self.namespace]}})
        self.wait_enforced(other, 1)
        harness.wait_for(lambda: self.lists(other, self.namespace), "it is shared", interval=0.05)
        self.assertEqual(200, self.renew(other, self.namespace))
        hashes = [*(HIGH if other == "high" else LOW), labels_test.hash_of(self.namespace)]
        self.patch(other, {"spec": {"limits": [self.limit(hashes)]}})
        self.wait_condition(other, "Published", "False", "WaitingForHandover")
        self.assertEqual(200, self.renew(other, self.namespace))


class NameTest(SharedTestCase):
    """Shards by names of namespaces."""

    def limit(self, *spaces):
        return mesh.limit(mesh.is_in(KEY, *spaces), ["secrets"])

    def test_own_namespace(self):
        first, second = self.spaces
        lock = {"controller": {"leaderElectionName": "mine"}}
        self.apply(
            mesh.config("first", "first", self.limit(first, self.namespace), **lock),
            mesh.config("second", "second", self.limit(second), **lock),
        )
        for space in (self.namespace, *self.spaces):
            self.wait_label(space, labels_test.hash_of(space))
        self.start("first", "second")
        self.wait_seen(self.namespace, "first")
        self.check_renews(self.namespace, "first")
        self.share("first", "second", spaces=[self.namespace])
        self.wait_seen(self.namespace, "first", "second")
        self.check_renews(self.namespace, "first", "second")
        self.wait_seen(first, "first")
        self.wait_seen(second, "second")
        self.check_renews(first, "first")
        # Moving a namespace waits for who has it, as ever, and not for what both see.
        self.patch("first", {"spec": {"limits": [self.limit(self.namespace)]}})
        self.patch("second", {"spec": {"limits": [self.limit(first, second)]}})
        self.wait_seen(first, "second")
        self.wait_seen(self.namespace, "first", "second")


class RootTest(SharedTestCase):
    """The shards of a root have what it shares, the canary too."""

    def test_children(self):
        limit = mesh.limit({"matchLabels": {MARK: "yes"}}, ["secrets"])
        root = {
            "prefix": "op",
            "targetStatefulSet": "operator",
            "resourceSelector": [limit],
            "canary": {"replicas": 1, "inNamespaces": [self.spaces[0], self.namespace]},
            "auto": {"shardingSize": 2, "everyShardReplicas": 1},
        }
        spec = {"controller": {"leaderElectionName": "mine"}, "root": root}
        spec["sharedNamespaces"] = [self.namespace]
        kind = {"apiVersion": f"{mesh.GROUP}/v1alpha1", "kind": "ShardingConfig"}
        self.apply({**kind, "metadata": {"name": "root"}, "spec": spec})
        shards = ["op-0-canary", "op-1-normal", "op-2-normal"]
        for ordinal, name in enumerate(shards):
            path = f"{self.configs}/{name}"
            harness.wait_for(lambda path=path: self.cluster.fetch(path).status == 200, name)
            pod_name = {"statefulset.kubernetes.io/pod-name": f"operator-{ordinal}"}
            pod = self.pods[name] = self.pod(f"operator-{ordinal}", name, pod_name)
            pod.proxy_args = ["--write-fence", "enforce"]
            pod.start()
        for name in shards:
            self.wait_enforced(name, 1)
            self.seen[name] = mesh.Seen(self.pods[name], "/api/v1/secrets", MARK)
            self.addCleanup(self.seen[name].end)
        self.wait_label(self.namespace, self.namespace)
        self.wait_seen(self.namespace, *shards)
        self.check_renews(self.namespace, *shards)
        self.wait_seen(self.spaces[0], "op-0-canary")
        self.check_renews(self.spaces[0], "op-0-canary")
        owners = [name for name in shards if self.lists(name, self.spaces[1])]
        self.assertEqual(1, len(owners))
        self.assertNotIn("op-0-canary", owners)
