# SPDX-License-Identifier: Apache-2.0
"""Surplus pods of a Deployment with automatic shards, with the real controllers: they are evicted one at
a time until each shard has its part, within disruption budgets, and not while anything is rolled out.
"""

import collections
import datetime
import time

import api
import deployment_shards_test
import harness
import mesh
import webhook_case

GROUP = webhook_case.GROUP
SHARD = GROUP + "/shard"
PAUSE = 30  # seconds between two evictions, and before the first
SOON = 90  # in which one is made, however busy the machine is
FIRST, SECOND, THIRD = "op-1-normal", "op-2-normal", "op-3-normal"


@harness.needs("controllers")
class SurplusTest(webhook_case.WebhookCase):
    def setUp(self):
        super().setUp()
        self.ns = self.namespace()
        self.pods = f"/api/v1/namespaces/{self.ns}/pods"
        self.configs = f"{webhook_case.API}/namespaces/{self.ns}/shardingconfigs"
        self.deployment = f"/apis/apps/v1/namespaces/{self.ns}/deployments/op"
        self.addCleanup(self.remove)
        self.kubelet = deployment_shards_test.Kubelet(self, self.ns)
        self.addCleanup(self.kubelet.end)

    def remove(self):
        self.cluster.fetch(f"{self.deployment}?propagationPolicy=Background", "DELETE")
        harness.wait_for(lambda: not self.cluster.json(self.pods)["items"], "all pods are gone", 60)

    # ---- what users do ----

    def make_root(self, size):
        root = {
            "prefix": "op",
            "targetDeployment": "op",
            "auto": {"shardingSize": size, "everyShardReplicas": 2},
            "resourceSelector": [{"relateResources": [{"apiGroups": [""], "resources": ["configmaps"]}]}],
        }
        self.create(
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "ShardingConfig",
                "metadata": {"name": "op", "namespace": self.ns},
                "spec": {"selector": {"matchLabels": {"app": "op"}}, "root": root},
            }
        )

    def deploy(self, replicas):
        labels = {"app": "op", GROUP + "/enable-proxy": "true"}
        spec = {"schedulerName": "none", "containers": [{"name": "operator", "image": "operator"}]}
        self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "op", "namespace": self.ns},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "op"}},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            }
        )

    def change(self, spec):
        self.cluster.json(self.deployment, "PATCH", {"spec": spec}, api.MERGE)

    def move(self, shard, to, count):
        """As if chance had given so many pods of a shard to another one."""
        for pod in self.of(shard)[:count]:
            path = f"{self.pods}/{pod['metadata']['name']}"
            self.cluster.json(path, "PATCH", {"metadata": {"labels": {SHARD: to}}}, api.MERGE)

    # ---- what they see ----

    def of(self, shard):
        items = self.cluster.json(self.pods)["items"]
        return [pod for pod in items if pod["metadata"]["labels"].get(SHARD) == shard]

    def wait_pods(self, timeout=SOON, **pods):
        """first=2: so many, and no others."""
        names = {"first": FIRST, "second": SECOND, "third": THIRD}
        wanted = {names[key]: count for key, count in pods.items()}

        def look():
            items = self.cluster.json(self.pods)["items"]
            return collections.Counter(p["metadata"]["labels"].get(SHARD) for p in items) == wanted

        harness.wait_for(look, f"pods are {wanted}", timeout, 0.1)

    def root(self):
        return self.cluster.json(f"{self.configs}/op")

    def wait_balanced(self, status, reason, timeout=SOON):
        def look():
            condition = mesh.condition(self.root(), "Balanced")
            return (condition.get("status"), condition.get("reason")) == (status, reason)

        try:
            harness.wait_for(look, f"Balanced is {status}, {reason}", timeout, 0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.root()['status']}") from None

    def eviction(self):
        return self.root()["status"]["root"].get("eviction")

    def events(self, reason):
        items = self.cluster.json(f"/api/v1/namespaces/{self.ns}/events")["items"]
        return [(e["involvedObject"]["kind"], e["message"]) for e in items if e["reason"] == reason]

    # ---- tests ----

    def test_one_at_a_time_while_the_manager_is_killed(self):
        self.make_root(2)
        self.deploy(4)
        self.wait_pods(first=2, second=2)
        self.wait_balanced("True", "Balanced")
        gone = mesh.Watched(self.cluster, self.pods)
        self.addCleanup(gone.end)
        begun = time.time()
        self.move(SECOND, FIRST, 2)
        self.wait_balanced("False", "Uneven")
        self.wait_pods(first=3, second=1)
        first = time.time()
        self.assertGreater(first - begun, PAUSE - 1)
        self.assertEqual(FIRST, self.eviction()["shard"])
        type(self).manager.kill()
        type(self).manager = self.start_manager("again", self.addClassCleanup, self.webhook)
        self.manager.wait_ready()
        self.wait_pods(first=2, second=2)
        self.assertGreater(time.time() - first, PAUSE - 1)
        self.wait_balanced("True", "Balanced")
        time_of = datetime.datetime.fromisoformat(self.eviction()["time"].replace("Z", "+00:00"))
        self.assertGreater(time_of.timestamp(), first)
        told = [kind for kind, _ in self.events("PodEvicted")]
        self.assertEqual(2, told.count("Pod"), told)
        self.assertIn("ShardingConfig", told)
        deleted = [t["metadata"]["name"] for change, t in gone.events if change == "DELETED"]
        self.assertEqual(2, len(deleted), deleted)

    def test_a_disruption_budget(self):
        self.make_root(2)
        self.deploy(4)
        self.wait_pods(first=2, second=2)
        budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "op"}}}
        path = f"/apis/policy/v1beta1/namespaces/{self.ns}/poddisruptionbudgets"
        self.cluster.json(path, "POST", {"metadata": {"name": "op"}, "spec": budget})
        self.move(SECOND, FIRST, 2)
        self.wait_balanced("False", "EvictionBlocked")
        harness.wait_for(lambda: self.events("EvictionBlocked"), "it is told")
        self.wait_pods(first=4)
        self.cluster.json(f"{path}/op", "DELETE")
        self.wait_pods(first=3, second=1)

    def test_nothing_while_it_is_rolled_out(self):
        self.make_root(2)
        self.deploy(4)
        self.wait_pods(first=2, second=2)
        self.move(SECOND, FIRST, 2)
        self.wait_balanced("False", "Uneven")
        self.kubelet.end()
        change = {"template": {"metadata": {"annotations": {"rolled": "1"}}}}
        self.change({**change, "strategy": {"rollingUpdate": {"maxUnavailable": 0}}})
        self.wait_balanced("Unknown", "RollingOut")
        time.sleep(PAUSE + 5)
        self.assertIsNone(self.eviction())
        self.kubelet = deployment_shards_test.Kubelet(self, self.ns)
        self.addCleanup(self.kubelet.end)
        self.wait_balanced("True", "Balanced")
        self.wait_pods(first=2, second=2)

    def test_fewer_shards(self):
        self.make_root("auto")
        self.deploy(6)
        self.wait_pods(first=2, second=2, third=2)
        self.change({"replicas": 3})
        self.wait_pods(first=3, timeout=3 * SOON)
        for name in (SECOND, THIRD):
            path = f"{self.configs}/{name}"
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 404, f"{name} is gone", SOON)
        self.wait_balanced("True", "Balanced")


if __name__ == "__main__":
    harness.main()
