# SPDX-License-Identifier: Apache-2.0
"""Rolling upgrades of a Deployment pod by pod, with the real controllers: five pods with real sidecars, of
a canary and two shards. What happened is judged by the history of pods at the API server.
"""

import api
import harness
import mesh
import webhook_case

GROUP = webhook_case.GROUP
SHARD = GROUP + "/shard"
ROLLING = f"{GROUP}/rolling"
STATUS = f"{GROUP}/roll-status"
DEADLINE = f"{GROUP}/rolling-deadline-seconds"
REPLICAS = 5
BAD = "bad"


def image_of(pod):
    return next(c["image"] for c in pod["spec"]["containers"] if c["name"] == "operator")


class RunningPod(mesh.Pod):
    """A pod that a ReplicaSet has made, as a kubelet would run it."""

    def __init__(self, case, thing):
        meta = thing["metadata"]
        super().__init__(case, meta["name"], {}, meta["labels"][SHARD])

    def create(self):
        """It is there."""


@harness.needs("controllers")
class RolloutTest(webhook_case.WebhookCase):
    manager_args = ("--probe-any-address", "--bypass-wait", "0")  # pods are played on loopback

    def setUp(self):
        super().setUp()
        self.namespace_name = self.namespace()
        self.pods = f"/api/v1/namespaces/{self.namespace_name}/pods"
        self.deployment = f"/apis/apps/v1/namespaces/{self.namespace_name}/deployments/op"
        self.configs = f"{webhook_case.API}/namespaces/{self.namespace_name}/shardingconfigs"
        self.make_root()
        self.addCleanup(self.remove)
        self.namespace = self.namespace_name  # of mesh.Pod
        self.kubelet = mesh.Kubelet(self, self.run_pod)
        self.deploy()
        self.wait_status(f"{REPLICAS}/{REPLICAS} state=Done", timeout=120)

    def run_pod(self, thing):
        return None if image_of(thing) == BAD else RunningPod(self, thing).start()

    def remove(self):
        self.cluster.fetch(f"{self.deployment}?propagationPolicy=Background", "DELETE")
        harness.wait_for(lambda: not self.cluster.json(self.pods)["items"], "all pods are gone", 60)

    def make_root(self):
        root = {
            "prefix": "op",
            "targetDeployment": "op",
            "canary": {"replicas": 1, "inNamespaces": ["canary-space"]},
            "auto": {"shardingSize": 2, "everyShardReplicas": 2},
            "resourceSelector": [{"relateResources": [{"apiGroups": [""], "resources": ["configmaps"]}]}],
        }
        self.create(
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "ShardingConfig",
                "metadata": {"name": "op", "namespace": self.namespace_name},
                "spec": {"selector": {"matchLabels": {"app": "op"}}, "root": root},
            }
        )

    def deploy(self):
        labels = {"app": "op", GROUP + "/enable-proxy": "true"}
        spec = {"schedulerName": "none", "containers": [{"name": "operator", "image": "good"}]}
        meta = {"labels": {ROLLING: "all"}, "annotations": {DEADLINE: "10"}}
        self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "op", "namespace": self.namespace_name, **meta},
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {"matchLabels": {"app": "op"}},
                    "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            }
        )

    # ---- what users do, and see ----

    def set_image(self, image):
        path = "/spec/template/spec/containers/0/image"
        patch = [{"op": "replace", "path": path, "value": image}]
        self.cluster.json(self.deployment, "PATCH", patch, "application/json-patch+json")

    def look(self):
        thing = self.cluster.json(self.deployment)
        return thing["spec"].get("paused", False), thing["metadata"]["annotations"].get(STATUS, "")

    def wait_status(self, *parts, timeout=90):
        def look():
            paused, status = self.look()
            return paused and all(part in status for part in parts)

        try:
            harness.wait_for(look, f"it is paused, and the status has {parts}", timeout, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.look()}") from None

    def events(self):
        items = self.cluster.json(f"/api/v1/namespaces/{self.namespace_name}/events")["items"]
        return [e["reason"] for e in items if e["involvedObject"]["kind"] == "Deployment"]

    def images(self):
        items = self.cluster.json(self.pods)["items"]
        return [image_of(pod) for pod in items]

    # ---- the judge ----

    def check_history(self, image):
        """No new pod came before all earlier ones were Ready, and no old one went before as many new
        ones were: the ReplicaSets' controller makes the next one and deletes an old one in either order.
        Returns the shards of the new ones, in the order in which they came."""
        ready, new, gone, shards = set(), [], 0, []
        for change, thing in self.kubelet.pods.events:
            name = thing["metadata"]["name"]
            old = image_of(thing) != image
            conditions = thing.get("status", {}).get("conditions", [])
            is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            if change == "DELETED":
                self.assertTrue(old, name)
                gone += 1
                self.assertLessEqual(gone, len(new))
                self.assertLessEqual(set(new[:gone]), ready, f"not Ready when {name} went")
                continue
            if change == "ADDED" and not old:
                self.assertLessEqual(set(new), ready, f"not Ready when {name} came")
                new.append(name)
                shards.append(thing["metadata"]["labels"][SHARD])
            (ready.add if is_ready else ready.discard)(name)
        return shards

    # ---- tests ----

    def test_one_pod_at_a_time_while_the_manager_is_killed(self):
        self.set_image("better")
        harness.wait_for(lambda: self.images().count("better") == 2, "there are two new pods", 90)
        type(self).manager.kill()
        type(self).manager = self.start_manager("again", self.addClassCleanup, self.webhook)
        self.wait_status(f"{REPLICAS}/{REPLICAS} state=Done", timeout=180)
        self.assertEqual(["better"] * REPLICAS, self.images())
        shards = self.check_history("better")
        self.assertEqual("op-0-canary", shards[0], "the canary is first")
        self.assertEqual(
            ["op-0-canary", *["op-1-normal"] * 2, *["op-2-normal"] * 2], sorted(shards)
        )
        harness.wait_for(lambda: "RollDone" in self.events(), "it is told")
        self.assertIn("RollStarted", self.events())
        self.assertNotIn("RollStuck", self.events())

    def test_a_bad_image_stops_at_the_first_pod(self):
        self.set_image(BAD)
        self.wait_status(f"1/{REPLICAS} pod=", "state=Stuck: it is not Ready")
        harness.wait_for(lambda: "RollStuck" in self.events(), "it is told")
        self.assertEqual(sorted([BAD] + ["good"] * REPLICAS), sorted(self.images()))
        self.set_image("good")  # rolled back
        self.wait_status(f"{REPLICAS}/{REPLICAS} state=Done")
        self.assertEqual(["good"] * REPLICAS, self.images())

    def test_the_label_is_taken_away(self):
        self.set_image(BAD)
        self.wait_status(f"1/{REPLICAS} pod=", "it is not Ready")
        self.cluster.json(self.deployment, "PATCH", {"metadata": {"labels": {ROLLING: None}}}, api.MERGE)
        self.wait_status(f"1/{REPLICAS} state=Paused")
        harness.wait_for(lambda: "RollPaused" in self.events(), "it is told")
        self.assertEqual(sorted([BAD] + ["good"] * REPLICAS), sorted(self.images()))


if __name__ == "__main__":
    harness.main()
