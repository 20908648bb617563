# SPDX-License-Identifier: Apache-2.0
"""A HorizontalPodAutoscaler scales an operator, a Deployment with automatic shards, while users change objects: the
real controllers, sidecars and webhook. What metrics-server would serve is written. The API server's history
of pods and its audit log are the judges.

    test/e2e/run --reloads=NAMESPACES autoscaler_test
"""

import collections
import time

import audit
import harness
import mesh
import moving_operator
from metrics_server import MetricsServer
from moving_operator import ENABLE, MERGE, SHARD

EVERY = 2  # pods of each shard
FEW, MANY = 4, 12


def setUpModule():
    mesh.install()


class Spread:
    """Of the pods that are not to end, how many each shard has, at each moment."""

    def __init__(self, case):
        self.alive = {}
        self.history = []
        self.watched = mesh.Watched(case.cluster, case.pods, self.look)
        for change, thing in list(self.watched.events):
            self.look(change, thing)
        case.addCleanup(self.watched.end)

    def look(self, change, thing):
        meta = thing["metadata"]
        if change == "DELETED" or "deletionTimestamp" in meta:
            self.alive.pop(meta["name"], None)
        else:
            self.alive[meta["name"]] = meta["labels"].get(SHARD)
        self.history.append(collections.Counter(self.alive.values()))

    def now(self):
        return dict(self.history[-1])


@harness.needs("controllers")
class AutoscalerTest(moving_operator.Case):
    SPACES = 24

    def setUp(self):
        super().setUp()
        self.rate = 25
        self.serve_webhook()

    def serve_webhook(self):
        """For the pods of this namespace alone."""
        address = f"127.0.0.1:{harness.free_port()}"
        self.manager("--bypass-wait", "0", "--webhook", address, "--webhook-host", "127.0.0.1",
                     "--sidecar-image", "cmesh.test/sidecars:1")  # fmt: skip
        name = f"{self.namespace}-pods"
        self.cluster.json(
            f"/api/v1/namespaces/{self.namespace}", "PATCH",
            {"metadata": {"labels": {"autoscaled": self.namespace}}}, MERGE[0][1],
        )  # fmt: skip
        webhook = {
            "name": "pods.webhook.cmesh.kusionstack.io",
            "clientConfig": {"url": f"https://{address}/mutate/pods"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"autoscaled": self.namespace}},
            "objectSelector": {"matchLabels": {ENABLE: "true"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        meta = {"name": name, "labels": {"app.kubernetes.io/part-of": "cmesh"}}
        self.cluster.json(path, "POST", {"metadata": meta, "webhooks": [webhook]})
        self.addCleanup(self.cluster.fetch, f"{path}/{name}", "DELETE")

        def trusted():
            client = self.cluster.json(f"{path}/{name}")["webhooks"][0]["clientConfig"]
            return client.get("caBundle")

        harness.wait_for(trusted, "the API server trusts the manager")

    # ---- the operator ----

    @staticmethod
    def template(sharded):
        """The webhook adds the sidecars."""
        return {
            "metadata": {
                "labels": {"app": "op", ENABLE: "true" if sharded else None},
                "finalizers": ["cmesh.test/works"],
            },
            "spec": {"schedulerName": "none", "containers": [{"name": "operator", "image": "operator"}]},
        }

    def make_root(self):
        root = {"prefix": "op", "targetDeployment": "op",
                "auto": {"shardingSize": "auto", "everyShardReplicas": EVERY},
                "resourceSelector": [{"relateResources": mesh.limit({})["relateResources"]}]}  # fmt: skip
        thing = mesh.config("op", "op", controller={"leaderElectionName": self.lock}, root=root)
        thing["spec"]["selector"] = {"matchLabels": {"app": "op"}}
        del thing["spec"]["limits"]
        self.apply(thing)

    def wait_spread(self, count):
        """Each shard has its pods, and all enforce what they are to."""

        def right():
            root = self.get("op")
            ready = mesh.condition(root, "Ready").get("status") == "True"
            return (
                self.spread.now() == {f"op-{i + 1}-normal": EVERY for i in range(count // EVERY)}
                and ready and root["status"].get("enforced") == f"{count}/{count}"
            )  # fmt: skip

        try:
            harness.wait_for(right, f"{count} pods are spread", 300, 0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.spread.now()} {self.kubelet.errors}") from None

    # ---- the autoscaler ----

    def autoscale(self):
        """By memory: of CPU time the controller passes over what pods used while they started."""
        target = {"type": "AverageValue", "averageValue": "100Mi"}
        at_once = {"stabilizationWindowSeconds": 0,
                   "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}  # fmt: skip
        self.apply(
            {
                "apiVersion": "autoscaling/v2beta2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "op"},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "op"},
                    "minReplicas": FEW,
                    "maxReplicas": MANY,
                    "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": target}}],
                    "behavior": {"scaleUp": at_once, "scaleDown": at_once},
                },
            }
        )

    # ---- the judges ----

    def check_history(self, begun, count):
        """Of the shards that stay or come none was empty while another had two more than its share."""
        names = [f"op-{i + 1}-normal" for i in range(count // EVERY)]
        self.assertGreater(len(self.spread.history) - begun, MANY - FEW)
        for now in self.spread.history[begun:]:
            numbers = [now[name] for name in names]
            self.assertFalse(min(numbers) == 0 and max(numbers) >= EVERY + 2, now)

    def check_writes(self, what, begun):
        """In each namespace each shard has worked once, after the last one had ended. Returns how many worked
        in the one with the most."""
        most = 0
        writes = [write for write in self.writes() if write.ok() and write.came >= begun]
        for space in self.spaces:
            been, last = [], None
            for write in writes:
                if write.namespace != space:
                    continue
                if last is not None and last.shard != write.shard:
                    told = f"{what}: {space}: {write} after {last}"
                    self.assertNotIn(write.shard, been, told)
                    self.assertLess(last.done, write.came, told)
                if write.shard not in been:
                    been.append(write.shard)
                last = write
            most = max(most, len(been))
        waits = [wait for of_one in self.waits(begun, writes).values() for wait in of_one]
        print(f"{what}: {len(waits)} changes, seen after {max(waits):.2f} s at most; up to {most} shards for a "
              f"namespace; {len(writes)} writes", flush=True)  # fmt: skip
        self.assertLess(max(waits), audit.NOBODYS)
        return most

    def scale(self, what, load, count):
        begun, seen = time.time(), len(self.spread.history)
        self.metrics.load = load
        self.wait_spread(count)
        self.settle()
        self.assertEqual(count, self.cluster.json(self.workload)["spec"]["replicas"])
        self.check_history(seen, count)
        self.assertGreater(self.check_writes(what, begun), 1)

    def test_up_and_down(self):
        self.deploy("Deployment", FEW)
        self.spread = Spread(self)
        self.make_root()
        self.roll(True)
        self.rolled_out()
        self.wait_spread(FEW)
        self.begin()
        self.metrics = MetricsServer(self, self.namespace, "op", 100 * FEW)
        self.autoscale()
        # What is within a tenth of the target is left alone.
        self.scale("up", 150 * MANY, MANY)
        self.scale("down", 50 * FEW, FEW)


if __name__ == "__main__":
    harness.main()
