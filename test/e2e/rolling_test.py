# SPDX-License-Identifier: Apache-2.0
"""Rolling upgrades of a StatefulSet shard by shard: the real StatefulSet and disruption controllers, six
pods with real sidecars and leader election through them, of three shards. What happened is judged by
the history of pods and Leases at the API server.
"""

import datetime
import json
import os
import signal
import threading
import time

import harness
import mesh
import wire

ROLLING = f"{mesh.GROUP}/rolling"
STATUS = f"{mesh.GROUP}/roll-status"
EXPECTED = f"{mesh.GROUP}/roll-expected"
DEADLINE = f"{mesh.GROUP}/rolling-deadline-seconds"
POD_NAME = "statefulset.kubernetes.io/pod-name"
REVISION = "controller-revision-hash"
MERGE = "application/merge-patch+json"
LOCK = "op-lock"
LEASE_S = 2
BAD = "bad"

# By shard, in the order in which they are rolled.
SHARDS = {
    "op-0-canary": ("op-0", "op-1"),
    "op-2-normal": ("op-2", "op-3"),
    "op-10-normal": ("op-4", "op-5"),
}
PODS = [name for names in SHARDS.values() for name in names]


def setUpModule():
    mesh.install()


def shard_of(pod):
    return next(shard for shard, names in SHARDS.items() if pod in names)


class RunningPod(mesh.Pod):
    """A pod that the StatefulSet's controller has made, as a kubelet would run it. Its operator stands
    for election through localproxy, and dies without giving the Lease back."""

    def __init__(self, case, thing):
        meta = thing["metadata"]
        super().__init__(case, meta["name"], {}, shard_of(meta["name"]))
        self.identity = f"{self.name}_{meta['uid']}"
        self.folder = case.path(self.identity)
        os.makedirs(self.folder)
        self.over = threading.Event()
        self.operator = threading.Thread(target=self.stand, daemon=True)

    def create(self):
        """It is there."""

    def start(self):
        super().start()
        self.operator.start()
        return self

    def stop(self):
        self.over.set()
        if self.operator.is_alive():
            self.operator.join(30)
        super().stop()

    # ---- its operator ----

    def stand(self):
        seen, since = None, 0
        while not self.over.wait(0.2):
            try:
                lease = self.read()
                if lease is not None and lease["spec"] != seen:
                    seen, since = lease["spec"], time.monotonic()
                holder = (seen or {}).get("holderIdentity")
                if holder in (None, self.identity) or time.monotonic() - since > LEASE_S:
                    self.claim(lease)
            except (OSError, wire.Cut):
                pass

    def read(self):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.case.namespace}/leases/{LOCK}"
        answer = self.proxy.fetch(path)
        return json.loads(answer.body) if answer.status == 200 else None

    def claim(self, lease):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.case.namespace}/leases"
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": LEASE_S, "renewTime": now}
        kind = [("Content-Type", "application/json")]
        if lease is None:
            body = {"metadata": {"name": LOCK}, "spec": spec}
            self.proxy.fetch(path, "POST", kind, json.dumps(body).encode())
        else:
            lease["spec"].update(spec)
            self.proxy.fetch(f"{path}/{LOCK}", "PUT", kind, json.dumps(lease).encode())


@harness.needs("StatefulSets, evictions and controllers")
class RollingTest(mesh.MeshTestCase):
    def setUp(self):
        super().setUp()
        harness.wait_for_pods(self.cluster, self.namespace)
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.sets = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        for shard, names in SHARDS.items():
            term = {"key": POD_NAME, "operator": "In", "values": list(names)}
            self.apply(
                mesh.config(
                    shard,
                    shard,
                    mesh.limit(mesh.is_in("part", shard)),
                    selector={"matchLabels": {"app": "op"}, "matchExpressions": [term]},
                    controller={"leaderElectionName": LOCK},
                )
            )
        self.start_all()

    def start_all(self):
        self.made = self.manager("--bypass-wait", "0")
        for shard in SHARDS:
            harness.wait_for(lambda s=shard: self.map_of(s), f"the rules of {shard} are published")
        self.kubelet = mesh.Kubelet(self, self.run_pod)
        self.watched_leases = mesh.Watched(self.cluster, self.leases)
        self.addCleanup(self.watched_leases.end)
        self.cluster.json(self.sets, "POST", self.stateful_set())
        self.addCleanup(self.remove)
        for shard in SHARDS:
            self.wait_enforced(shard, 2)
            harness.wait_for(lambda s=shard: self.holder(s), f"{shard} is led")

    def run_pod(self, thing):
        """With a good image it is Ready once localproxy is."""
        if thing["spec"]["containers"][0]["image"] != BAD:
            return RunningPod(self, thing).start()
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        state = {"name": "operator", "image": BAD, "imageID": "", "ready": False, "restartCount": 0}
        status = {
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{**state, "state": {"waiting": waiting}}],
        }
        path = f"{self.pods}/{thing['metadata']['name']}/status"
        self.cluster.json(path, "PATCH", {"status": status}, MERGE)
        return None

    def remove(self):
        self.cluster.fetch(f"{self.sets}/op", "DELETE")
        path = f"{self.pods}?gracePeriodSeconds=0"
        self.cluster.fetch(path, "DELETE")
        harness.wait_for(lambda: not self.cluster.json(self.pods)["items"], "all pods are gone")

    def stateful_set(self):
        container = {"name": "operator", "image": "good"}
        labels = {"app": "op"}
        sidecars = [
            {"name": name, "image": "cmesh", "ports": [{"name": port, "containerPort": number}]}
            for name, port, number in (
                ("cmesh-localproxy", "cmesh-admin", 5441),
                ("cmesh-rulesync", "cmesh-rulesync", 5442),
            )
        ]
        return {
            "metadata": {"name": "op", "labels": labels, "annotations": {DEADLINE: "10"}},
            "spec": {
                "replicas": len(PODS),
                "serviceName": "op",
                "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "OnDelete"},
                "podManagementPolicy": "Parallel",
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container, *sidecars]},
                },
            },
        }

    # ---- what users do, and see ----

    def patch_set(self, change):
        return self.cluster.json(f"{self.sets}/op", "PATCH", change, MERGE)

    def label(self, value):
        self.patch_set({"metadata": {"labels": {ROLLING: value}}})

    def change_template(self, **annotations):
        self.patch_set({"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def set_image(self, image):
        path = "/spec/template/spec/containers/0/image"
        patch = [{"op": "replace", "path": path, "value": image}]
        self.cluster.json(f"{self.sets}/op", "PATCH", patch, "application/json-patch+json")

    def status(self):
        return self.cluster.json(f"{self.sets}/op")["metadata"]["annotations"].get(STATUS, "")

    def wait_status(self, *parts, timeout=90):
        def look():
            status = self.status()
            return all(part in status for part in parts)

        try:
            harness.wait_for(look, f"the status has {parts}", timeout, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.status()}") from None

    def events(self):
        """reason -> how often, and the last message."""
        found = {}
        for event in self.cluster.json(f"/api/v1/namespaces/{self.namespace}/events")["items"]:
            about = event["involvedObject"]
            if about["kind"] == "StatefulSet" and event["source"]["component"] == "cmesh-manager":
                count = found.get(event["reason"], (0, ""))[0] + event.get("count", 1)
                found[event["reason"]] = (count, event["message"])
        return found

    def holder(self, shard):
        answer = self.cluster.fetch(f"{self.leases}/{LOCK}---{shard}")
        if answer.status != 200:
            return None
        return json.loads(answer.body)["spec"]["holderIdentity"].partition("_")[0]

    def revisions(self):
        """pod -> whether it runs what the StatefulSet is to run now."""
        wanted = self.cluster.json(f"{self.sets}/op")["status"]["updateRevision"]
        pods = self.cluster.json(self.pods)["items"]
        return {
            p["metadata"]["name"]: p["metadata"]["labels"][REVISION] == wanted for p in pods
        }

    def deleted(self):
        return [t["metadata"]["name"] for change, t in self.kubelet.pods.events if change == "DELETED"]

    # ---- the judge ----

    def check_history(self, order):
        """Pods went in that order, each while all others were Ready, and each shard that had lost one
        was led anew by a pod that lives."""
        events = [(e, "pod") for e in self.kubelet.pods.events]
        events += [(e, "lease") for e in self.watched_leases.events]
        events.sort(key=lambda e: int(e[0][1]["metadata"]["resourceVersion"]))
        ready, alive, holders, gone = {}, {}, {}, []
        for (change, thing), kind in events:
            name = thing["metadata"]["name"]
            if kind == "lease" and name.startswith(LOCK):
                holders[name.partition("---")[2]] = thing["spec"]["holderIdentity"]
            elif kind == "pod" and change == "DELETED":
                self.check_deletion(name, ready, alive, holders, gone)
                gone.append(name)
                ready.pop(name, None)
                alive.pop(name, None)
            elif kind == "pod":
                alive[name] = f"{name}_{thing['metadata']['uid']}"
                conditions = thing.get("status", {}).get("conditions", [])
                ready[name] = any(
                    c["type"] == "Ready" and c["status"] == "True" for c in conditions
                )
        self.assertEqual(order, gone)

    def check_deletion(self, name, ready, alive, holders, gone):
        self.assertEqual(set(PODS), set(ready), f"{name} was deleted while another was missing")
        others = {pod for pod, is_ready in ready.items() if not is_ready} - {name}
        self.assertEqual(set(), others, f"not Ready when {name} was deleted")
        for before in gone:
            self.assertIn(holders[shard_of(before)], alive.values(), f"led when {name} was deleted")

    # ---- tests ----

    def expected_order(self):
        order = []
        for shard, names in SHARDS.items():
            holder = self.holder(shard)
            self.assertIn(holder, names)
            order += [*(n for n in names if n != holder), holder]
        return order

    def test_one_pod_at_a_time_while_the_manager_is_killed(self):
        first = self.expected_order()
        self.change_template(version="2")
        self.label("all")
        harness.wait_for(lambda: len(self.deleted()) >= 2, "two pods were evicted", 90)
        self.made.kill()
        self.made = self.manager("--bypass-wait", "0")
        self.wait_status("6/6 state=Done")
        self.assertTrue(all(self.revisions().values()))
        gone = self.deleted()
        self.check_history(gone)
        # In each shard who led at the beginning goes last, and shards in their order.
        self.assertEqual(first, gone)
        thing = self.cluster.json(f"{self.sets}/op")
        self.assertEqual(thing["status"]["updateRevision"], thing["metadata"]["annotations"][EXPECTED])
        harness.wait_for(lambda: "RollDone" in self.events(), "it is told")
        events = self.events()
        self.assertEqual(1, events["RollStarted"][0], events)
        self.assertNotIn("RollStuck", events)
        shown = self.here("get", "statefulsets", "-L", ROLLING)
        self.assertRegex(shown, r"op +6/6 .* all")

    def test_a_bad_image_stops_at_the_first_canary_pod(self):
        first = self.expected_order()[0]
        self.label("all")
        self.wait_status("6/6 state=Done")
        self.set_image(BAD)
        self.wait_status("0/6", f"pod={first} state=Stuck", "ImagePullBackOff")
        harness.wait_for(lambda: "RollStuck" in self.events(), "it is told")
        count, message = self.events()["RollStuck"]
        self.assertEqual(1, count)
        self.assertIn(first, message)
        metrics = self.made.metrics()
        self.assertEqual(1, metrics["cmesh_manager_rolling_stuck"])
        self.assertEqual([first], self.deleted())
        # Rolled back: what is stuck is replaced, and nothing else was touched.
        self.set_image("good")
        self.wait_status("6/6 state=Done")
        self.assertEqual([first, first], self.deleted())
        self.assertTrue(all(self.revisions().values()))

    def test_paused_by_a_budget_and_by_the_label(self):
        order = self.expected_order()
        budgets = f"/apis/policy/v1beta1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": len(PODS), "selector": {"matchLabels": {"app": "op"}}}
        self.cluster.json(budgets, "POST", {"metadata": {"name": "op"}, "spec": spec})

        def counted():
            return self.cluster.json(f"{budgets}/op").get("status", {}).get("currentHealthy") == 6

        harness.wait_for(counted, "the budget is known")
        self.change_template(version="2")
        self.label(next(iter(SHARDS)))
        self.wait_status("0/2", f"pod={order[0]} state=Blocked", "disruption budget")
        self.assertEqual([], self.deleted())
        self.cluster.json(f"{budgets}/op", "DELETE")
        harness.wait_for(lambda: self.deleted() == order[:1], "the first pod is evicted")
        self.label(None)
        self.wait_status("state=Paused")
        harness.wait_for(lambda: self.revisions().get(order[0]), "it is made anew")
        # The label of another StatefulSet is answered meanwhile: this one is left alone.
        other = self.stateful_set()
        other["metadata"].update(name="other", labels={ROLLING: "all"})
        other["spec"].update(replicas=0, updateStrategy={"type": "RollingUpdate"})
        self.cluster.json(self.sets, "POST", other)
        self.addCleanup(self.cluster.fetch, f"{self.sets}/other", "DELETE")

        def refused():
            annotations = self.cluster.json(f"{self.sets}/other")["metadata"].get("annotations", {})
            return "state=Refused: updateStrategy.type must be OnDelete" in annotations.get(STATUS, "")

        harness.wait_for(refused, "a StatefulSet with rolling updates is refused")
        strategy = {"type": "OnDelete", "rollingUpdate": None}
        change = json.dumps({"spec": {"updateStrategy": strategy}})
        self.here("patch", "statefulset", "other", "-p", change)

        def taken():
            key = STATUS.replace(".", "\\.")
            path = f"jsonpath={{.metadata.annotations.{key}}}"
            return self.here("get", "statefulset", "other", "-o", path) == "0/0 state=Done"

        harness.wait_for(taken, "it is taken")
        column = f"{mesh.GROUP}/roll-progress"
        self.assertIn(" Done-0-of-0\n", self.here("get", "statefulset", "other", "-L", column) + "\n")
        self.wait_enforced(shard_of(order[0]), 2)
        self.assertEqual(order[:1], self.deleted())
        self.label(next(iter(SHARDS)))
        self.wait_status("2/2 state=Done")
        self.assertEqual(order[:2], self.deleted())
        self.check_history(order[:2])

    def tearDown(self):
        self.made.signal(signal.SIGCONT)
        super().tearDown()


if __name__ == "__main__":
    harness.main()
