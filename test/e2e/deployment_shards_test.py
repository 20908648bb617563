# SPDX-License-Identifier: Apache-2.0
"""Automatic shards of a Deployment: which shard each of its pods gets, from two managers of which the
API server asks either.
"""

import collections
import concurrent.futures
import os
import random
import threading
import time
import unittest

import api
import harness
import manifests
import mesh
import relay
import webhook_case

GROUP = webhook_case.GROUP
SHARD = GROUP + "/shard"
COST = "controller.kubernetes.io/pod-deletion-cost"
EXAMPLE = os.path.join(harness.ROOT, "examples", "several-deployments")
ROLLED = 240  # seconds in which a rolling update of 30 pods is over on a busy machine


class Balancer(relay.Relay):
    """As a Service: each connection leads to any of them."""

    def __init__(self, targets):
        self.targets = targets
        super().__init__(targets[0])

    def accept(self):
        self.lead_to(random.choice(self.targets))
        super().accept()


class Kubelet(threading.Thread):
    """Makes the pods of a namespace ready a moment after they are created, as long as it runs. Without
    a node a pod that is deleted is gone at once."""

    def __init__(self, case, namespace):
        super().__init__(daemon=True)
        self.case = case
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.1):
            for pod in self.case.cluster.json(self.pods)["items"]:
                if pod["status"].get("phase") == "Pending":
                    self.make_ready(pod)

    def make_ready(self, pod):
        path = f"{self.pods}/{pod['metadata']['name']}/status"
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.case.api.ask("PATCH", path, {"status": status}, api.MERGE)

    def end(self):
        self.over.set()
        self.join(30)


class Gaps:
    """Which shards were without a pod, since they had all."""

    def __init__(self, case, namespace, shards):
        self.alive = {}
        self.shards = shards
        self.full = False
        self.empty = collections.Counter()
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.watched = mesh.Watched(case.cluster, path, self.on_event)
        for kind, pod in list(self.watched.events):
            self.on_event(kind, pod)
        case.addCleanup(self.watched.end)

    def on_event(self, kind, pod):
        meta = pod["metadata"]
        shard = meta.get("labels", {}).get(SHARD)
        if kind == "DELETED" or "deletionTimestamp" in meta:
            self.alive.pop(meta["name"], None)
        else:
            self.alive[meta["name"]] = shard
        now = set(self.alive.values())
        self.full = self.full or self.shards <= now
        if self.full:
            self.empty.update(self.shards - now)


class DeploymentCase(webhook_case.WebhookCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = cls.start_manager("other", cls.addClassCleanup)
        cls.other.wait_ready()
        cls.balancer = Balancer([cls.webhook, cls.other.webhook])
        cls.addClassCleanup(cls.balancer.close)
        for kind, resource in webhook_case.KINDS.items():
            changes = [
                {
                    "op": "replace",
                    "path": f"/webhooks/{i}/clientConfig/url",
                    "value": webhook["clientConfig"]["url"].replace(cls.webhook, cls.balancer.address),
                }
                for i, webhook in enumerate(cls.configuration(kind)["webhooks"])
            ]
            path = f"{webhook_case.CONFIGURATIONS}/{resource}/{cls.configuration_name()}"
            cls.cluster.json(path, "PATCH", changes, "application/json-patch+json")
        cls.wait_working()

    def setUp(self):
        super().setUp()
        self.ns = self.namespace()
        self.pods = f"/api/v1/namespaces/{self.ns}/pods"
        self.configs = f"{webhook_case.API}/namespaces/{self.ns}/shardingconfigs"

    def make_root(self, size, every, canary=0):
        root = {
            "prefix": "op",
            "targetDeployment": "op",
            "auto": {"shardingSize": size, "everyShardReplicas": every},
            "resourceSelector": [{"relateResources": [{"apiGroups": [""], "resources": ["configmaps"]}]}],
        }
        if canary > 0:
            root["canary"] = {"replicas": canary, "inNamespaces": ["canary-space"]}
        self.create(
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "ShardingConfig",
                "metadata": {"name": "op", "namespace": self.ns},
                "spec": {"selector": {"matchLabels": {"app": "op"}}, "root": root},
            }
        )

    def children(self):
        items = self.cluster.json(self.configs)["items"]
        return {i["metadata"]["name"] for i in items if "root" not in i["spec"]}

    def wait_children(self, count):
        harness.wait_for(lambda: len(self.children()) == count, f"{count} shards are made")

    def template(self):
        labels = {"app": "op", GROUP + "/enable-proxy": "true"}
        spec = {"schedulerName": "none", "containers": [{"name": "operator", "image": "operator"}]}
        return {"metadata": {"labels": labels}, "spec": spec}

    def living(self):
        return [
            pod
            for pod in self.cluster.json(self.pods)["items"]
            if "deletionTimestamp" not in pod["metadata"]
        ]

    def distribution(self):
        """Shard -> how many pods it has; a pod without one is an error."""
        return collections.Counter(pod["metadata"]["labels"][SHARD] for pod in self.living())

    def spread(self):
        """Between the normal shards with the most pods and the fewest."""
        count = self.distribution()
        numbers = [count[name] for name in self.children() if name.endswith("-normal")]
        return max(numbers) - min(numbers)

    def assigned(self):
        """By each manager."""
        key = 'cmesh_webhook_assignments_total{result="assigned"}'
        return [m.metrics()[key] for m in (self.manager, self.other)]

    def known(self):
        """How many pods each manager has in its cache."""
        return [m.metrics()["cmesh_manager_known_pods"] for m in (self.manager, self.other)]

    def say(self, what):
        print(f"{what}: {sorted(self.distribution().values())} pods, assigned by each manager: {self.assigned()}")


@unittest.skipUnless(harness.modern(), "where there are controllers, they delete pods without a ReplicaSet")
class BurstTest(DeploymentCase):
    """Pods as a ReplicaSet makes them, on an API server without controllers."""

    def make_pod(self, revision="5d4f8c7b9c"):
        pod = {"apiVersion": "v1", "kind": "Pod", **self.template()}
        pod["metadata"]["namespace"] = self.ns
        pod["metadata"]["generateName"] = f"op-{revision}-"
        pod["metadata"]["labels"]["pod-template-hash"] = revision
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"op-{revision}", "uid": revision}
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        return self.api.try_create(pod)

    def burst(self, number):
        """In batches of 1, 2, 4, ... until so many are there."""
        size = 1
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            while number > 0:
                answers = list(pool.map(lambda _: self.make_pod(), range(min(size, number))))
                made = sum(a.status == 201 for a in answers)
                number -= made
                size = size * 2 if made == len(answers) else 1

    def test_a_burst_of_30(self):
        self.make_root(10, 3, canary=1)
        self.wait_children(11)
        before = self.assigned()
        self.burst(31)
        self.say("31 pods at once")
        count = self.distribution()
        self.assertEqual(1, count["op-0-canary"])
        self.assertLessEqual(self.spread(), 1, count)
        self.assertTrue(all(now > then for then, now in zip(before, self.assigned())), self.assigned())
        for pod in self.living():
            meta = pod["metadata"]
            self.assertEqual(meta["labels"][SHARD], meta["labels"][GROUP + "/sharding-config-injected"])
            self.assertGreater(int(meta["annotations"][COST]), 0)
        known = self.known()
        for pod in self.living()[:6]:
            path = f"{self.pods}/{pod['metadata']['name']}?gracePeriodSeconds=0"
            self.cluster.json(path, "DELETE")
        harness.wait_for(
            lambda: self.known() == [n - 6 for n in known], "both managers know which are gone"
        )
        self.burst(6)
        self.assertLessEqual(self.spread(), 1, self.distribution())

    def test_no_place_yet(self):
        answer = self.make_pod()
        self.assertEqual(403, answer.status)
        self.assertIn("selects this pod", answer.said)
        self.make_root(1, 1)
        harness.wait_for(lambda: self.make_pod().status == 201, "there is a shard")
        harness.wait_for(
            lambda: "has all its pods" in self.make_pod().said, "both managers have seen it", 5
        )


@harness.needs("controllers")
class DeploymentTest(DeploymentCase):
    def setUp(self):
        super().setUp()
        self.deployment = f"/apis/apps/v1/namespaces/{self.ns}/deployments/op"
        self.addCleanup(self.remove)
        self.kubelet = Kubelet(self, self.ns)
        self.addCleanup(self.kubelet.end)

    def remove(self):
        self.cluster.fetch(f"{self.deployment}?propagationPolicy=Background", "DELETE")
        harness.wait_for(lambda: not self.cluster.json(self.pods)["items"], "all pods are gone", 60)

    def deploy(self, replicas):
        self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "op", "namespace": self.ns},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "op"}},
                    "template": self.template(),
                },
            }
        )

    def change(self, spec):
        self.cluster.json(self.deployment, "PATCH", {"spec": spec}, api.MERGE)

    def rolled_out(self):
        """As kubectl rollout status has it."""
        now = self.cluster.json(self.deployment)
        status, wanted = now.get("status", {}), now["spec"]["replicas"]
        return (
            status.get("observedGeneration") == now["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
        )

    def wait_rolled_out(self):
        harness.wait_for(self.rolled_out, "the Deployment is rolled out", ROLLED)

    def test_scaled_at_once_and_rolled(self):
        self.make_root(10, 3, canary=1)
        self.wait_children(11)
        self.deploy(0)
        self.change({"replicas": 31})
        self.wait_rolled_out()
        self.say("31 pods at once")
        self.assertEqual(1, self.distribution()["op-0-canary"])
        self.assertLessEqual(self.spread(), 1, self.distribution())
        gaps = Gaps(self, self.ns, self.children())
        begun = time.monotonic()
        self.change({"template": {"metadata": {"annotations": {"rolled": "1"}}}})
        self.wait_rolled_out()
        self.say(f"rolled in {time.monotonic() - begun:.1f} s")
        self.assertEqual(1, self.distribution()["op-0-canary"])
        self.assertLessEqual(self.spread(), 1, self.distribution())
        # The one pod of the canary may go before its successor comes.
        self.assertTrue(gaps.full)
        self.assertEqual({}, {k: v for k, v in gaps.empty.items() if k != "op-0-canary"})

    def test_as_many_shards_as_pods(self):
        self.make_root("auto", 1, canary=1)
        self.deploy(4)
        self.wait_rolled_out()
        self.assertEqual({n: 1 for n in self.children()}, self.distribution())
        self.change({"replicas": 9})
        self.wait_rolled_out()
        self.say("9 pods in place of 4")
        self.assertEqual({n: 1 for n in self.children()}, self.distribution())
        self.assertEqual(9, len(self.children()))


@harness.needs("controllers")
class SeveralDeploymentsTest(webhook_case.WebhookCase):
    """examples/several-deployments."""

    def test_files(self):
        ns = self.namespace()
        pods = f"/api/v1/namespaces/{ns}/pods"
        for name in ("shards", "deployments"):
            with open(os.path.join(EXAMPLE, name + ".yaml"), encoding="utf-8") as f:
                things = manifests.parse(f.read())
            self.assertEqual(2, len(things))
            for thing in things:
                thing["metadata"]["namespace"] = ns
                if "sharedNamespaces" in thing["spec"]:
                    thing["spec"]["sharedNamespaces"] = [ns]
                self.assertFalse(self.taken(thing), "warnings")
        harness.wait_for(lambda: len(self.cluster.json(pods)["items"]) == 4, "all pods are made")
        given = [
            (meta["labels"]["shard"], meta["annotations"][GROUP + "/sharding-config-injected"])
            for meta in (pod["metadata"] for pod in self.cluster.json(pods)["items"])
        ]
        self.assertEqual([("a", "a"), ("a", "a"), ("b", "b"), ("b", "b")], sorted(given))


if __name__ == "__main__":
    harness.main()
