# SPDX-License-Identifier: Apache-2.0
"""From `kubectl apply` to rules that are enforced, and a status that says what is so: one manager,
shards of two pods with the real sidecars.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import unittest
import unittest.mock

import api
import harness
import mesh
import relay
import wire

EDITS = 100
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NO_SIDECAR = "did not answer as a cmesh sidecar"


def setUpModule():
    mesh.install()


def report(text):
    print(text, file=sys.stderr, flush=True)


def percentiles(samples):
    ranks = statistics.quantiles(samples, n=100, method="inclusive")
    return f"p50 {ranks[49]:.0f} ms, p99 {ranks[98]:.0f} ms, most {max(samples):.0f} ms"


class ShardsTestCase(mesh.MeshTestCase):
    def two_shards(self):
        """shard-a sees the objects of part a, shard-b those of part b; all enforced."""
        for part in ("a", "b"):
            name = f"shard-{part}"
            self.apply(mesh.config(name, name, mesh.limit(mesh.is_in("part", part))))
        pods = {name: self.shard_of_two(name) for name in ("shard-a", "shard-b")}
        for name in pods:
            self.wait_enforced(name, pods=2)
        return pods

    def one_shard(self):
        """The same with one shard only."""
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pods = self.shard_of_two("shard-a")
        self.wait_enforced("shard-a", pods=2)
        return pods

    def check_status(self, name, pods):
        """Every number and row of the status is as the ConfigMap and the proxies say."""
        thing = self.get(name)
        status = thing["status"]
        rules = self.check_map(name)
        self.assertEqual(thing["metadata"]["generation"], status["observedGeneration"])
        self.assertEqual(rules["generation"], status["generation"])
        self.assertEqual(rules["checksum"], status["checksum"])
        self.assertEqual(len(pods), status["podCount"])
        self.assertEqual(f"{len(pods)}/{len(pods)}", status["enforced"])
        self.assertEqual([pod.name for pod in pods], [row["name"] for row in status["pods"]])
        for pod, row in zip(pods, status["pods"]):
            self.assertEqual((rules["generation"], rules["checksum"]), pod.enforced())
            self.assertEqual(rules["generation"], row["generation"])
            self.assertEqual(rules["checksum"], row["checksum"])
            self.assertNotIn("message", row)
            self.assertRegex(row["since"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        return rules

    def row(self, name, pod):
        """What the status says of a pod; nothing as long as it has not heard of it."""
        rows = self.get(name)["status"]["pods"]
        return next((row for row in rows if row["name"] == pod.name), {})

    def events(self, name):
        path = f"/api/v1/namespaces/{self.namespace}/events"
        items = self.cluster.json(path)["items"]
        return [e for e in items if e["involvedObject"]["name"] == name]

    def wait_event(self, name, reason):
        return harness.wait_for(
            lambda: next((e for e in self.events(name) if e["reason"] == reason), None),
            f"an Event {reason} about {name}",
        )


class LifeTest(ShardsTestCase):
    """Applied, edited, deleted, made again."""

    def test_apply_edit_delete(self):
        self.manager()
        pods = self.two_shards()
        for part in ("a", "b"):
            name = f"shard-{part}"
            self.assertEqual(1, self.check_status(name, pods[name])["generation"])
            for pod in pods[name]:
                self.assertEqual({f"object-{part}"}, pod.shown())
        self.check_columns()
        described = self.here("describe", "shardingconfig", "shard-a")
        for words in ("Enforced", "2 of 2 pods enforce generation 1", "cmesh-rules-shard-a"):
            self.assertIn(words, described)

        self.cluster.json(
            self.maps, "POST", {"metadata": {"name": "object-x", "labels": {"part": "x"}}}
        )
        edited = mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a", "x")))
        self.assertIn("configured", self.here("apply", "-f", "-", stdin=json.dumps(edited)))
        self.wait_enforced("shard-a")
        self.assertEqual(2, self.check_status("shard-a", pods["shard-a"])["generation"])
        self.assertEqual(1, self.check_status("shard-b", pods["shard-b"])["generation"])
        for pod in pods["shard-a"]:
            self.assertEqual({"object-a", "object-x"}, pod.shown())

        self.delete("shard-a")
        self.wait_event(pods["shard-a"][0].name, "RulesKept")
        time.sleep(2)  # longer than a ConfigMap that no pod mounts is there
        self.assertIsNotNone(self.map_of("shard-a"))
        for pod in pods["shard-a"]:
            self.assertEqual(2, pod.enforced()[0])
            self.assertEqual({"object-a", "object-x"}, pod.shown())

        again = mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a")))
        self.apply(again)
        self.wait_enforced("shard-a")
        self.assertEqual(3, self.check_status("shard-a", pods["shard-a"])["generation"])
        for pod in pods["shard-a"]:
            self.assertEqual({"object-a"}, pod.shown())

        self.delete("shard-a")
        for pod in pods["shard-a"]:
            pod.stop()
            pod.delete()
        harness.wait_for(lambda: self.map_of("shard-a") is None, "its ConfigMap is gone")

    def check_columns(self):
        shown = self.here("get", "shardingconfigs").splitlines()
        columns = ["NAME", "PODS", "RULES", "ENFORCED", "READY", "STATE", "AGE"]
        self.assertEqual(columns, shown[0].split())
        for line, name in zip(shown[1:], ("shard-a", "shard-b")):
            self.assertRegex(line, rf"^{name} +2 +1 +2/2 +True +Enforced +[\dms]+$")
        wide = self.here("get", "shard", "-o", "wide").splitlines()
        self.assertRegex(wide[0], r"CHECKSUM +COMPILED +WHY$")
        self.assertRegex(wide[1], r"sha256:[0-9a-f]{64} .* 2 of 2 pods enforce generation 1\.$")

    def test_what_changes_nothing_is_not_published(self):
        self.manager()
        pods = self.one_shard()
        watched = mesh.Watched(self.cluster, self.maps)
        version = self.map_of("shard-a")["metadata"]["resourceVersion"]
        self.patch("shard-a", {"metadata": {"labels": {"team": "x"}}})
        spelt = mesh.config("shard-a", "shard-a", mesh.limit({"matchLabels": {"part": "a"}}))
        self.apply(spelt)  # other words
        self.wait_enforced("shard-a")
        self.patch("shard-a", {"metadata": {"annotations": {"x": "y"}}})
        self.show("shard-a", "a")  # and back again
        self.wait_enforced("shard-a")
        time.sleep(1)
        rules = self.check_status("shard-a", pods)
        watched.end()
        changes = {t["metadata"]["resourceVersion"] for _, t in watched.events} - {version}
        of_ours = [t for _, t in watched.events if t["metadata"]["name"].startswith("cmesh-rules")]
        self.assertEqual(rules["generation"], len({json.dumps(t["data"]) for t in of_ours}))
        self.assertLessEqual(len(changes), 4 + rules["generation"])

    def test_a_manager_that_comes_later(self):
        """Everything is there before it; and nothing is written when it starts again."""
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pods = self.shard_of_two("shard-a")
        self.assertEqual(503, pods[0].shown())  # nothing, rather than everything
        manager = self.manager()
        self.wait_enforced("shard-a", pods=2)
        self.check_status("shard-a", pods)
        manager.stop()
        before = [self.get("shard-a"), self.map_of("shard-a"), *(pod.object() for pod in pods)]
        self.manager()
        time.sleep(4)
        after = [self.get("shard-a"), self.map_of("shard-a"), *(pod.object() for pod in pods)]
        self.assertEqual(before, after)

    def test_pods_come_and_go(self):
        self.manager()
        pods = self.one_shard()
        third = self.pod("shard-a-9", "shard-a")
        third.create()
        third.set_status(ready=False, phase="Pending")
        status = harness.wait_for(
            lambda: self.get("shard-a")["status"]["enforced"] == "2/3" and self.get("shard-a"),
            "it is counted",
        )
        self.assertEqual("True", mesh.condition(status, "Enforced")["status"])
        self.assertIn("Not ready yet: shard-a-9", mesh.condition(status, "Enforced")["message"])
        third.start_proxy()
        third.start_sync()
        third.set_status()
        harness.wait_for(
            lambda: self.get("shard-a")["status"]["enforced"] == "3/3", "it enforces the rules"
        )
        self.check_status("shard-a", [*pods, third])
        third.delete()
        harness.wait_for(
            lambda: self.get("shard-a")["status"]["enforced"] == "2/2", "it is not counted"
        )
        self.check_status("shard-a", pods)
        for pod in pods:
            pod.delete()
        found = self.wait_condition("shard-a", "Enforced", "True", "NoPods")
        self.assertEqual((0, "0/0"), (found["status"]["podCount"], found["status"]["enforced"]))


class TestDriveTest(ShardsTestCase):
    """docs/operator-checklist.md#a-test-drive, of one of two pods."""

    def test_beside_a_pod_without_sidecars(self):
        self.manager()
        bare = self.pod("bare", None, {"shard": "drive"}).start()
        self.apply(mesh.config("drive", "drive"))
        driven = self.pod("driven", "drive").start()
        self.wait_condition("drive", "Published", "False", "WaitingForHandover")
        harness.wait_for(lambda: driven.shown() == set(), "it sees nothing")
        let_go = {"metadata": {"annotations": {mesh.GROUP + "/let-go": "true"}}}
        self.cluster.json(f"{bare.path}/bare", "PATCH", let_go, api.MERGE)
        self.wait_condition("drive", "Published", "True")
        harness.wait_for(lambda: driven.shown() == {"object-a", "object-b"}, "it sees everything")
        lease = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
        body = json.dumps({"metadata": {"name": "op"}}).encode()
        kind = [("Content-Type", "application/json")]
        answer = driven.proxy.fetch(lease.format(self.namespace), "POST", kind, body)
        self.assertEqual("op", json.loads(answer.body)["metadata"]["name"])


class ReadyTest(ShardsTestCase):
    """One condition for scripts and for tools that know nothing of shards."""

    def wait_ready(self, *args):
        """As a script does it after `kubectl apply`."""
        self.here("wait", "--for=condition=Ready", "shardingconfig/shard-a", "--timeout=90s", *args)
        found = self.get("shard-a")
        c = mesh.condition(found, "Ready")
        self.assertEqual("True", c["status"])
        self.assertEqual(found["metadata"]["generation"], c["observedGeneration"])
        self.assertEqual({}, mesh.condition(found, "Stalled"))
        return c["reason"]

    def wait_stalled(self, reason):
        found = self.wait_condition("shard-a", "Stalled", "True", reason)
        ready = mesh.condition(found, "Ready")
        self.assertEqual(("False", reason), (ready["status"], ready["reason"]))
        self.assertEqual(ready["message"], mesh.condition(found, "Stalled")["message"])

    def wait_metric(self, manager, number):
        harness.wait_for(
            lambda: manager.metrics()["cmesh_manager_shards_not_ready"] == number,
            f"{number} shards are not ready",
        )

    def test_ready(self):
        manager = self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        self.assertEqual("NoPods", self.wait_ready())
        pods = self.shard_of_two("shard-a")
        self.wait_enforced("shard-a", pods=2)
        self.assertEqual("Enforced", self.wait_ready())
        self.wait_metric(manager, 0)
        self.show("shard-a", "b")
        self.assertEqual("Enforced", self.wait_ready())
        self.assertEqual({"object-b"}, pods[0].shown())  # it is the edit that was waited for
        pods[0].stop_proxy()
        self.wait_condition("shard-a", "Ready", "False", "Silent")
        self.assertEqual({}, mesh.condition(self.get("shard-a"), "Stalled"))
        self.wait_metric(manager, 1)
        pods[0].start_proxy()
        self.assertEqual("Enforced", self.wait_ready())

    def test_stalled(self):
        manager = self.manager()
        self.one_shard()
        self.patch("shard-a", {"spec": {"limits": [mesh.limit({"matchLabels": {}})]}})
        self.wait_stalled("Invalid")
        self.assertIn(" False ", self.here("get", "shardingconfig", "shard-a"))
        self.wait_metric(manager, 1)
        root = mesh.config("root", "x")
        root["spec"] = {
            "root": {
                "prefix": "x",
                "targetStatefulSet": "x",
                "auto": {"everyShardReplicas": 1, "shardingSize": 2},
            }
        }
        self.apply(root)
        self.assertEqual(1, manager.metrics()["cmesh_manager_shards_not_ready"])
        self.show("shard-a", "a")
        self.assertEqual("Enforced", self.wait_ready())
        self.wait_metric(manager, 0)


class LabelledTest(ShardsTestCase):
    """Rules that ask for control labels wait until there are some."""

    OBJECTS = 40

    def setUp(self):
        super().setUp()
        self.home = "default"  # in the manager's own namespace nothing is labelled
        unlabel = [harness.program("manager"), "unlabel", "--label-qps", "10000"]
        unlabel += ["--kubeconfig", self.cluster.kubeconfig, "--all-resources"]
        self.addCleanup(subprocess.run, unlabel, check=True, capture_output=True)
        for i in range(self.OBJECTS):
            thing = {"metadata": {"name": f"part-{i}", "labels": {"part": "a"}}}
            self.cluster.json(self.maps, "POST", thing)

    def labelling(self, qps, *args, kinds="{v1: [ConfigMap]}"):
        path = self.path("resources.yaml", f"groupVersionKinds: {kinds}\n")
        return self.manager("--label-qps", str(qps), "--sharding-resources", path, *args)

    def apply_limit(self, *resources):
        mine = mesh.is_in(f"{mesh.GROUP}/namespace", self.namespace)
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mine, resources)))

    def unlabelled(self):
        items = self.cluster.json(self.maps)["items"]
        bare = [item for item in items if f"{mesh.GROUP}/control" not in
                item["metadata"].get("labels", {})]  # fmt: skip
        return [item for item in bare if item["metadata"]["name"].startswith("part-")]

    def test_the_first_rules_wait(self):
        pods = self.shard_of_two("shard-a")
        self.apply_limit("configmaps")
        found = []

        def look(kind, thing):
            if thing["metadata"]["name"] == mesh.CONFIG_MAP + "shard-a" and kind == "ADDED":
                found.append(len(self.unlabelled()))

        watched = mesh.Watched(self.cluster, self.maps, look)
        manager = self.labelling(8)
        self.wait_condition("shard-a", "Published", "False", "WaitingForLabels")
        harness.wait_for(  # once it knows which resources there are
            lambda: "configmaps" in mesh.condition(self.get("shard-a"), "Published").get("message", ""),
            "it says for which labels it waits",
            interval=0.05,
        )
        waiting = self.get("shard-a")
        self.assertEqual("Labelling", mesh.condition(waiting, "Labelled")["reason"])
        self.assertEqual("WaitingForLabels", mesh.condition(waiting, "Ready")["reason"])
        metric = 'cmesh_manager_shards_unlabelled{state="labelling"}'
        self.assertEqual(1, manager.metrics()[metric])
        self.assertEqual(503, pods[0].shown())
        self.here("wait", "--for=condition=Labelled", "shardingconfig/shard-a", "--timeout=90s")
        self.wait_enforced("shard-a", pods=2)
        watched.end()
        self.assertEqual([0], found)  # when there were rules, all had their labels
        wanted = {f"part-{i}" for i in range(self.OBJECTS)} | {"object-a", "object-b"}
        self.assertEqual(wanted, pods[0].shown())
        self.assertEqual(0, manager.metrics()[metric])
        self.assertFalse([e for e in self.events("shard-a") if e["reason"] == "PublishFailed"])

    def test_without_waiting(self):
        self.apply_limit("configmaps")
        self.labelling(1, "--wait-for-labels=false")
        found = self.wait_condition("shard-a", "Published", "True")
        self.assertEqual("Labelling", mesh.condition(found, "Labelled")["reason"])

    def test_what_never_gets_labels(self):
        """Waiting would not help: it is said, and published."""
        self.apply_limit("configmaps", "events", "nodes")
        manager = self.labelling(1000)
        found = self.wait_condition("shard-a", "Labelled", "False", "NeverLabelled")
        self.assertIn("events", mesh.condition(found, "Labelled")["message"])
        self.assertIn("nodes", mesh.condition(found, "Labelled")["message"])
        self.wait_condition("shard-a", "Ready", "True")
        self.assertEqual(1, manager.metrics()['cmesh_manager_shards_unlabelled{state="never"}'])

    def test_a_manager_that_does_not_label(self):
        self.apply_limit("configmaps")
        self.labelling(0)
        self.wait_condition("shard-a", "Labelled", "Unknown", "NotLabelling")
        self.wait_condition("shard-a", "Ready", "True")


class CoveredTest(ShardsTestCase):
    """Which namespaces are in no shard of an operator, and which in two."""

    def setUp(self):
        super().setUp()
        self.x, self.y = (
            harness.make_namespace(self.cluster, "covered", self.addCleanup) for _ in "xy"
        )

    def give(self, name, operator, *namespaces):
        selector = {"matchExpressions": [
            {"key": f"{mesh.GROUP}/namespace", "operator": operator, "values": list(namespaces)}
        ]}  # fmt: skip
        self.apply(mesh.config(name, name, mesh.limit(selector)))

    def wait_covered(self, reason, *words):
        """On both shards."""
        for name in ("shard-a", "shard-b"):
            status = "True" if reason == "Covered" else "False"
            found = self.wait_condition(name, "Covered", status, reason)
            for word in words:
                self.assertIn(word, mesh.condition(found, "Covered")["message"])

    def test_gaps_and_overlaps(self):
        manager = self.manager()
        self.give("shard-a", "In", self.x, self.y)
        self.give("shard-b", "NotIn", self.x, self.y)
        self.wait_covered("Covered")
        self.give("shard-b", "NotIn", self.x)
        self.wait_covered("Overlaps", f"{self.y} (shard-a, shard-b)")
        self.wait_condition("shard-a", "Ready", "True")
        operator = f'{{operator="{self.namespace}/"}}'
        self.assertEqual(1, manager.metrics()["cmesh_manager_namespaces_overlapping" + operator])
        self.assertEqual(0, manager.metrics()["cmesh_manager_namespaces_uncovered" + operator])
        self.give("shard-a", "In", self.x)
        self.wait_covered("Covered")
        self.give("shard-a", "In", "nobody-has-this-one")
        self.wait_covered("Gaps", f"In no shard: {self.x}.")
        self.assertEqual(1, manager.metrics()["cmesh_manager_namespaces_uncovered" + operator])
        self.assertIn(f"  in no shard: {self.x}\n", self.coverage())

    def coverage(self):
        """On the command line, of what is in force, as its help says."""
        script = (
            "manager coverage -f <(kubectl get shardingconfigs -A -o yaml)"
            " --namespaces <(kubectl get namespaces -o name)"
        )
        asked = subprocess.run([harness.program("manager"), "coverage", "--help"], check=True,
                               capture_output=True, text=True)  # fmt: skip
        self.assertIn(script, " ".join(asked.stdout.replace("\\", "").split()))
        script = script.replace("manager", '"$0"', 1).replace("kubectl", '"$KUBECTL"')
        command = ["bash", "-c", script, harness.program("manager")]
        ours = {key: self.cluster.env[key] for key in ("KUBECONFIG", "KUBECTL")}
        env = harness.clean_environment(**ours)
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        self.assertEqual(1, done.returncode, done.stderr)
        for line in done.stderr.splitlines():
            self.assertIn("spec.sharedNamespaces: does not list", line)
        return done.stdout

    def test_a_new_namespace(self):
        self.manager()
        known = [item["metadata"]["name"] for item in
                 self.cluster.json("/api/v1/namespaces")["items"]]  # fmt: skip
        self.give("shard-a", "In", *known)
        self.give("shard-b", "In", "nobody-has-this-one")
        self.wait_covered("Covered")
        new = harness.make_namespace(self.cluster, "covered", self.addCleanup)
        self.wait_covered("Gaps", new)
        self.delete("shard-b")
        self.give("shard-a", "In", *known, new)
        self.wait_condition("shard-a", "Covered", "True")


class ManyNamespacesTest(ShardsTestCase):
    """Shards in several namespaces: one watch tells of all their pods."""

    MANY = 4

    def setUp(self):
        super().setUp()
        self.many = [self.new_namespace() for _ in range(self.MANY)]

    def new_namespace(self):
        """With a shard, and a pod of it."""
        name = harness.make_namespace(self.cluster, "many", self.addCleanup)
        config = mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a")))
        self.cluster.json(self.path_of(name, collection=True), "POST", config)
        self.add_pod(name, "pod-0")
        return name

    @staticmethod
    def path_of(namespace, collection=False):
        path = f"{mesh.API}/namespaces/{namespace}/shardingconfigs"
        return path if collection else f"{path}/shard-a"

    def add_pod(self, namespace, name):
        thing = {"metadata": {"name": name, "labels": {"shard": "shard-a"}}}
        thing["spec"] = {"containers": [{"name": "operator", "image": "operator"}]}
        self.cluster.json(f"/api/v1/namespaces/{namespace}/pods", "POST", thing)

    def remove_pod(self, namespace, name):
        path = f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0"
        self.assertEqual(200, self.cluster.fetch(path, "DELETE").status)

    def wait_pods(self, counts, manager):
        """Until each of these namespaces has so many by the status of its shard."""

        def look():
            found = self.cluster.json(f"{mesh.API}/shardingconfigs")["items"]
            status = {c["metadata"]["namespace"]: c.get("status", {}) for c in found}
            return all(status[ns].get("podCount") == n for ns, n in counts.items())

        harness.wait_for(look, f"pods are counted: {counts}\n{manager.log()}", timeout=60)

    def start_for_all(self, kubeconfig=None):
        flags = ["--namespace", self.home, "--label-qps", "0", "--leader-elect=false"]
        kubeconfig = kubeconfig or self.cluster.kubeconfig
        manager = mesh.Manager(self.folder, "manager", kubeconfig, flags)
        self.addCleanup(manager.stop)
        return manager

    def check_pods_are_followed(self, manager):
        """In one namespace a pod comes, in another one it goes."""
        first, second, *rest = self.many
        self.add_pod(first, "pod-1")
        self.remove_pod(second, "pod-0")
        self.wait_pods({first: 2, second: 0, **{name: 1 for name in rest}}, manager)
        self.remove_pod(first, "pod-1")
        self.add_pod(second, "pod-0")
        self.wait_pods({name: 1 for name in self.many}, manager)

    def test_one_watch(self):
        manager = self.start_for_all()
        self.wait_pods({name: 1 for name in self.many}, manager)
        self.check_pods_are_followed(manager)
        self.many.append(self.new_namespace())
        self.wait_pods({name: 1 for name in self.many}, manager)
        self.check_pods_are_followed(manager)
        metrics = manager.metrics()
        self.assertEqual(1, metrics['cmesh_manager_lists_total{collection="pods"}'])
        self.assertEqual(1, metrics["cmesh_manager_following"])

    @harness.needs("rights")
    def test_without_the_right(self):
        """A manager that may not list the pods of all namespaces is not ready until it may."""
        user = f"many-{self.namespace}"
        self.grant(user)
        manager = self.start_for_all(self.cluster.user_kubeconfig(self.folder, user))
        harness.wait_for(lambda: "pods is forbidden" in manager.ask("/readyz?verbose").body.decode(),
                         "it says why it is not ready", timeout=60)  # fmt: skip
        self.assertFalse(manager.ready())
        self.assertEqual(0, manager.metrics()["cmesh_manager_following"])
        self.bind("clusterrolebindings", f"{user}-pods", f"{user}-pods", user)
        self.wait_pods({name: 1 for name in self.many}, manager)
        self.check_pods_are_followed(manager)

    def grant(self, user):
        """All but pods."""
        rules = [
            {"apiGroups": [mesh.GROUP], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps", "events", "namespaces"], "verbs": ["*"]},
            {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["list", "watch"]},
        ]
        pods = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]
        for name, what in ((user, rules), (f"{user}-pods", pods)):
            path = f"{RBAC}/clusterroles"
            self.cluster.json(path, "POST", {"metadata": {"name": name}, "rules": what})
            self.addCleanup(self.cluster.fetch, f"{path}/{name}", "DELETE")
        self.bind("clusterrolebindings", user, user, user)

    def bind(self, collection, name, role, user):
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        self.cluster.json(f"{RBAC}/{collection}", "POST", binding)
        self.addCleanup(self.cluster.fetch, f"{RBAC}/{collection}/{name}", "DELETE")


class LatencyTest(ShardsTestCase):
    """How long it takes."""

    def test_from_the_edit_to_enforced(self):
        """As a user has it: the manager asks as often as it does by default."""
        manager = self.start_manager("--leader-elect=false")
        pods = self.two_shards()
        statuses = {}

        def note(_, thing):
            c = mesh.condition(thing, "Enforced")
            key = thing["metadata"]["name"], c.get("observedGeneration")
            if c.get("status") == "True":
                statuses.setdefault(key, time.monotonic())

        watched = mesh.Watched(self.cluster, self.configs, note)
        enforced, told = [], []
        parts = {"shard-a": ("a", "c"), "shard-b": ("d", "b")}  # nothing of the other one's
        for i in range(EDITS):
            name = f"shard-{'ab'[i % 2]}"
            shown = (parts[name], parts[name][:1], parts[name][1:])[i % 3]
            began = time.monotonic()
            number = self.show(name, *shown)["metadata"]["generation"]
            wanted = 1 + i // 2 + 1
            waiting = list(pods[name])
            while waiting:
                waiting = [pod for pod in waiting if (pod.enforced() or (0,))[0] != wanted]
                self.assertLess(time.monotonic() - began, 90, f"{name} {wanted}")
            enforced.append((time.monotonic() - began) * 1000)
            key = name, number
            harness.wait_for(lambda k=key: k in statuses, f"the status says {key}")
            told.append((statuses[key] - began) * 1000)
        watched.end()
        self.assertEqual(0, manager.metrics()["cmesh_manager_handover_waits_total"])
        report(f"{EDITS} edits, on both pods after: {percentiles(enforced)}")
        report(f"{EDITS} edits, in the status after: {percentiles(told)}")
        for name, two in pods.items():
            self.check_status(name, two)


class HandoverTest(ShardsTestCase):
    """Parts that move from one shard to another: no ConfigMap ever gives what the pods of the other
    shard have not confirmed to have lost."""

    def begin(self, *flags, wait=300):
        """shard-a sees the parts a and c, shard-b those b and d; no slow machine makes it give up."""
        manager = self.manager("--handover-wait", str(wait), *flags)
        for part, more in (("a", "c"), ("b", "d")):
            thing = {"metadata": {"name": f"object-{more}", "labels": {"part": more}}}
            self.cluster.json(self.maps, "POST", thing)
            name = f"shard-{part}"
            self.apply(mesh.config(name, name, mesh.limit(mesh.is_in("part", part, more))))
        self.pods = {name: self.shard_of_two(name) for name in ("shard-a", "shard-b")}
        for name in self.pods:
            self.wait_enforced(name, pods=2)
        self.given, self.judged, self.shown_twice, self.meant = [], [], [], {}
        self.watched = mesh.Watched(self.cluster, self.maps, self.look)
        return manager

    @staticmethod
    def parts_of(rules):
        """Those that it shows; limits on one resource are ANDed."""
        seen = [
            set(limit["selector"].removeprefix("part in (").removesuffix(")").split(","))
            for limit in rules["spec"]["limits"]
        ]
        return set.intersection(*seen)

    def look(self, kind, thing):
        """Called for each version of each ConfigMap: the pods of the other shard are asked whether
        they enforce anything of it. As they never go back, they did when it was written if they do
        now; but when it was replaced meanwhile, they may have been given what it gave."""
        rules = mesh.rules_of(thing)
        name = thing["metadata"]["name"].removeprefix(mesh.CONFIG_MAP)
        if kind == "DELETED" or rules is None or name not in self.pods:
            return
        mine = self.parts_of(rules)
        self.given.append((name, rules["generation"]))
        other = "shard-b" if name == "shard-a" else "shard-a"
        proxies = [pod.proxy for pod in self.pods[other]]
        shown = [self.parts_shown(other, proxy) for proxy in proxies if proxy is not None]
        if self.map_of(name)["metadata"]["resourceVersion"] != thing["metadata"]["resourceVersion"]:
            return
        self.judged.append((name, rules["generation"]))
        self.shown_twice += [(*self.judged[-1], mine, theirs) for theirs in shown if mine & theirs]

    def parts_shown(self, name, proxy):
        """By the rules that it enforces, which stand in the ConfigMap or stood there. One that ends
        shows nothing."""
        while True:
            try:
                checksum = proxy.status()["rules"]["checksum"]
            except (OSError, wire.Cut):
                return set()
            if checksum in self.meant:
                return self.meant[checksum]
            rules = mesh.rules_of(self.map_of(name))
            self.meant[rules["checksum"]] = self.parts_of(rules)

    def check(self, **parts):
        """All is enforced, and was never twice."""
        for name, pods in self.pods.items():
            self.wait_enforced(name, pods=2)
            self.check_status(name, pods)
            want = {f"object-{part}" for part in parts[name.replace("-", "_")]}
            for pod in pods:
                self.assertEqual(want, pod.shown())
        self.watched.end()
        self.assertEqual([], self.shown_twice)
        for name in self.pods:
            numbers = [number for shard, number in self.given if shard == name]
            self.assertEqual(sorted(numbers), numbers)
            if numbers:
                self.assertIn((name, numbers[-1]), self.judged)
            self.assertFalse([e for e in self.events(name) if e["reason"] == "HandoverTimedOut"])

    def edit(self, *edits):
        """With one command; (name, parts) in this order."""
        items = [
            {
                **mesh.config(name, name, mesh.limit(mesh.is_in("part", *parts))),
                "metadata": {"name": name, "namespace": self.namespace},
            }
            for name, parts in edits
        ]
        self.apply(*items)

    def describe(self, name):
        return self.here("describe", "shardingconfig", name)

    def wait_held(self, name, other):
        found = self.wait_condition(name, "Published", "False", "WaitingForHandover")
        self.assertIn(f"{self.namespace}/{other}", mesh.condition(found, "Published")["message"])

    def test_there_and_back(self):
        self.begin()
        took = []
        for i in range(8):
            edits = [("shard-a", "a"), ("shard-b", "bcd")]
            edits = edits if i % 2 == 0 else [("shard-a", "ac"), ("shard-b", "bd")]
            began = time.monotonic()
            self.edit(*(edits if i % 4 < 2 else reversed(edits)))
            for name in self.pods:
                self.wait_enforced(name, pods=2)
            took.append((time.monotonic() - began) * 1000)
        report(f"8 moves, both edited with one kubectl apply, enforced after: {percentiles(took)}")
        self.check(shard_a="ac", shard_b="bd")

    def test_a_swap(self):
        self.begin()
        self.edit(("shard-a", "ad"), ("shard-b", "bc"))
        for name in self.pods:
            self.wait_enforced(name, pods=2)
        self.edit(("shard-b", "bd"), ("shard-a", "ac"))
        self.check(shard_a="ac", shard_b="bd")

    def test_pods_that_confirm_late(self):
        """What is said meanwhile; and it goes on when they do, or are gone."""
        self.begin()
        for pod in self.pods["shard-a"]:
            pod.sync.signal(signal.SIGSTOP)
        self.edit(("shard-b", "bc"), ("shard-a", "a"))
        self.wait_held("shard-b", "shard-a")
        said = "2 of 2 pods enforce generation 2, of an earlier spec."
        harness.wait_for(lambda: said in self.describe("shard-b"), said, interval=0.2)
        self.assertIn("WaitingForHandover", self.describe("shard-b"))
        for pod in self.pods["shard-b"]:
            harness.wait_for(lambda p=pod: p.shown() == {"object-b"}, "what it loses is gone")
        self.pods["shard-a"][0].sync.signal(signal.SIGCONT)
        time.sleep(0.5)
        self.wait_held("shard-b", "shard-a")
        gone = self.pods["shard-a"].pop()
        gone.sync.signal(signal.SIGCONT)
        gone.stop()
        gone.delete()
        self.wait_enforced("shard-b", pods=2)
        self.pods["shard-a"].append(self.pod("shard-a-9", "shard-a").start())
        self.check(shard_a="a", shard_b="bc")

    def test_the_manager_is_killed_meanwhile(self):
        manager = self.begin()
        for pod in self.pods["shard-a"]:
            pod.sync.signal(signal.SIGSTOP)
        self.edit(("shard-b", "bc"), ("shard-a", "ad"))
        self.wait_held("shard-b", "shard-a")
        manager.kill()
        manager = self.manager("--handover-wait", "300")
        harness.wait_for(manager.ready, "it is ready")
        time.sleep(1)
        self.wait_held("shard-b", "shard-a")
        for pod in self.pods["shard-a"]:
            pod.sync.signal(signal.SIGCONT)
        self.check(shard_a="ad", shard_b="bc")

    def test_two_that_are_to_see_the_same(self):
        manager = self.begin("--handover=bounded", wait=1)
        self.edit(("shard-b", "bcd"))
        self.wait_enforced("shard-b", pods=2)
        event = self.wait_event("shard-b", "HandoverTimedOut")
        self.assertEqual("Warning", event["type"])
        self.assertIn(f"{self.namespace}/shard-a", event["message"])
        self.assertEqual(1, manager.metrics()["cmesh_manager_handover_timeouts_total"])
        self.watched.end()

    def test_another_operator(self):
        """Pods with another service account are of another operator: nothing waits for them."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.cluster.json(path, "POST", {"metadata": {"name": "another"}})
        manager = self.begin()
        body = mesh.Pod.body

        def of_another(pod):
            thing = body(pod)
            thing["spec"]["serviceAccountName"] = "another"
            return thing

        with unittest.mock.patch.object(mesh.Pod, "body", of_another):
            others = self.shard_of_two("shard-o")
        self.apply(mesh.config("shard-o", "shard-o", mesh.limit(mesh.is_in("part", "a"))))
        self.wait_enforced("shard-o", pods=2)
        self.show("shard-o", "a", "b")
        self.wait_enforced("shard-o", pods=2)
        self.assertEqual({"object-a", "object-b"}, others[0].shown())
        self.edit(("shard-a", "ac"))
        self.assertEqual(0, manager.metrics()["cmesh_manager_handover_waits_total"])
        self.check(shard_a="ac", shard_b="bd")


class StrictTest(ShardsTestCase):
    """What moves waits until it is proven that others gave it up: of shards and pods that come, go and
    change."""

    def setUp(self):
        super().setUp()
        self.lead = self.manager()
        self.pods = self.two_shards()  # shard-a sees part a, shard-b part b

    def wait_held(self, name, words):
        harness.wait_for(
            lambda: words in mesh.condition(self.get(name), "Published").get("message", ""), words
        )
        found = mesh.condition(self.get(name), "Published")
        self.assertEqual(("False", "WaitingForHandover"), (found["status"], found["reason"]))

    def gone(self, pods):
        for pod in pods:
            pod.stop()
            pod.delete()

    def test_a_deleted_shard(self):
        self.delete("shard-a")
        self.show("shard-b", "a", "b")
        self.wait_held("shard-b", f"{self.namespace}/shard-a")
        self.gone(self.pods["shard-a"])
        self.wait_enforced("shard-b")
        self.assertEqual({"object-a", "object-b"}, self.pods["shard-b"][0].shown())
        harness.wait_for(lambda: self.map_of("shard-a") is None, "its ConfigMap is gone")

    def with_accounts(self):
        """From now on the pods of each shard have a service account of their own; by their lock they
        are still one operator's."""
        body = mesh.Pod.body
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"

        def of_account(pod):
            thing = body(pod)
            thing["spec"]["serviceAccountName"] = pod.of
            return thing

        patch = unittest.mock.patch.object(mesh.Pod, "body", of_account)
        patch.start()
        self.addCleanup(patch.stop)
        for name in self.pods:
            self.cluster.json(path, "POST", {"metadata": {"name": name}})
            self.patch(name, {"spec": {"controller": {"leaderElectionName": "lock"}}})
            self.gone(self.pods[name])
        self.pods = {name: self.shard_of_two(name) for name in self.pods}
        for name in self.pods:
            self.wait_enforced(name, pods=2)

    def restart(self):
        self.lead.kill()
        self.lead = self.manager()
        harness.wait_for(self.lead.ready, "it is ready")

    def test_a_deleted_shard_and_managers_that_are_killed(self):
        """In each phase: its pods go on showing what it had."""
        self.with_accounts()
        self.lead.stop()
        self.delete("shard-a")
        self.show("shard-b", "a", "b")
        self.lead = self.manager()
        self.wait_held("shard-b", f"{self.namespace}/shard-a")
        for pod in self.pods["shard-a"]:
            pod.proxy.signal(signal.SIGSTOP)
        self.restart()
        time.sleep(1)
        self.wait_held("shard-b", f"{self.namespace}/shard-a")
        for pod in self.pods["shard-a"]:
            pod.proxy.signal(signal.SIGCONT)
            self.assertEqual({"object-a"}, pod.shown())
        for pod in self.pods["shard-b"]:
            self.assertEqual({"object-b"}, pod.shown())
        self.gone(self.pods["shard-a"])
        self.restart()
        self.wait_enforced("shard-b", pods=2)
        self.assertEqual({"object-a", "object-b"}, self.pods["shard-b"][0].shown())

    def test_a_new_shard(self):
        """Its pods can start, and see nothing yet."""
        for pod in self.pods["shard-a"]:
            pod.sync.signal(signal.SIGSTOP)
        self.show("shard-a", "z")
        self.apply(mesh.config("shard-c", "shard-c", mesh.limit(mesh.is_in("part", "a"))))
        self.wait_held("shard-c", f"pod {self.pods['shard-a'][0].name} of shard")
        pods = self.shard_of_two("shard-c")
        harness.wait_for(lambda: pods[0].shown() == pods[1].shown() == set(), "they see nothing")
        for pod in self.pods["shard-a"]:
            pod.sync.signal(signal.SIGCONT)
        self.wait_enforced("shard-c")
        self.assertEqual({"object-a"}, pods[0].shown())

    def test_a_silent_pod_that_is_let_go(self):
        silent = self.pods["shard-a"][0]
        self.gone(self.pods["shard-a"][1:])
        silent.proxy.signal(signal.SIGSTOP)
        self.show("shard-a", "z")
        self.show("shard-b", "a", "b")
        self.wait_held("shard-b", silent.name)
        self.here("annotate", "pod", silent.name, f"{mesh.GROUP}/let-go=true")
        self.wait_enforced("shard-b")
        silent.proxy.signal(signal.SIGCONT)

    def test_pods_without_a_sidecar(self):
        bare = self.pod("bare", None, {"shard": "shard-c"})
        bare.start()
        self.apply(mesh.config("shard-c", "shard-c", mesh.limit(mesh.is_in("part", "c"))))
        self.wait_held("shard-c", "pod bare (has no sidecar, and so sees everything")
        self.api.annotate(f"{self.configs}/shard-c", {f"{mesh.GROUP}/shares-with": "*"})
        self.wait_held("shard-c", "pod bare")
        bare.delete()
        self.wait_condition("shard-c", "Published", "True", "Published")

    def test_both_say_that_they_share(self):
        self.show("shard-b", "a", "b")
        self.wait_held("shard-b", "its spec selects it too")
        for name in self.pods:
            self.wait_condition(name, "Exclusive", "True", "Exclusive")
        self.api.annotate(f"{self.configs}/shard-a", {f"{mesh.GROUP}/shares-with": "shard-b"})
        self.wait_enforced("shard-b")
        for name in self.pods:
            self.wait_condition(name, "Exclusive", "False", "SharedOnPurpose")


class TellingTest(ShardsTestCase):
    """Pods that tell by a Lease what they enforce."""

    def shards(self, reachable=True, kubeconfig=None):
        """As two_shards; whose pods tell, and can be asked or not."""
        for part in ("a", "b"):
            name = f"shard-{part}"
            self.apply(mesh.config(name, name, mesh.limit(mesh.is_in("part", part))))
        pods = {}
        for name in ("shard-a", "shard-b"):
            pods[name] = [self.pod(f"{name}-{i}", name) for i in range(2)]
            for pod in pods[name]:
                pod.tells = True
                pod.kubeconfig = kubeconfig or pod.kubeconfig
                if not reachable:
                    pod.reached_at = mesh.new_address()  # nobody is there
                pod.start()
        for name in pods:
            self.wait_enforced(name, pods=2)
        return pods

    def swap(self, pods):
        """What a shard has goes to the other one; each waits for the other's word."""
        shown = {name: pods[name][0].shown() for name in pods}
        for name, other in (("shard-a", "shard-b"), ("shard-b", "shard-a")):
            self.show(name, *(thing[-1] for thing in shown[other]))
        for name, other in (("shard-a", "shard-b"), ("shard-b", "shard-a")):
            harness.wait_for(
                lambda n=name, o=other: all(p.shown() == shown[o] for p in pods[n]), "the swap"
            )
            self.wait_enforced(name, pods=2)

    def test_that_cannot_be_asked(self):
        """As under a NetworkPolicy that keeps the manager away: moves go on, without --probe-interval
        and by proof alone, also under a manager that comes later."""
        manager = self.start_manager("--leader-elect=false")
        pods = self.shards(reachable=False)
        for _ in range(2):
            self.swap(pods)
        metrics = manager.metrics()
        self.assertEqual(4, metrics["cmesh_manager_pods_telling"])
        self.assertEqual(metrics["cmesh_manager_probes_total"], metrics["cmesh_manager_probe_failures_total"])
        self.assertEqual(0, metrics["cmesh_manager_handovers_blocked_total"])
        for name in pods:
            self.check_status(name, pods[name])
        manager.stop()
        self.start_manager("--leader-elect=false", name="next")
        self.swap(pods)
        # Why rules are not taken is known, too.
        pod, other = pods["shard-a"]
        pod.stop_sync()
        pod.start_sync(of="shard-b")
        self.show("shard-a", "z")
        harness.wait_for(
            lambda: "rules of shard" in self.row("shard-a", pod).get("message", ""), "why it does not"
        )
        self.wait_condition("shard-a", "Enforced", "False", "Refused")
        self.assertNotIn("message", self.row("shard-a", other))

    def test_one_that_is_killed(self):
        """What it told stays true: it comes back with the rules that it had, or newer ones."""
        self.start_manager("--leader-elect=false")
        pods = self.shards(reachable=False)
        victim = pods["shard-a"][0]
        victim.stop_proxy(signal.SIGKILL)
        self.show("shard-a", "z")
        self.show("shard-b", "a", "b")
        harness.wait_for(
            lambda: f"pod {victim.name}" in mesh.condition(self.get("shard-b"), "Published")["message"],
            "it waits for the one that was killed",
        )
        victim.start_proxy()
        self.wait_enforced("shard-b", pods=2)
        self.assertEqual({"object-a", "object-b"}, pods["shard-b"][0].shown())

    def test_that_are_asked_too(self):
        """They are asked far less while rules change."""
        manager = self.start_manager("--leader-elect=false")
        pods = self.shards()
        asked = manager.metrics()["cmesh_manager_probes_total"]
        moves, began = 10, time.monotonic()
        for _ in range(moves):
            self.swap(pods)
        seconds = time.monotonic() - began
        asked = manager.metrics()["cmesh_manager_probes_total"] - asked
        report(f"{moves} swaps of 2 x 2 pods that tell, in {seconds:.1f} s: {asked:.0f} probes")
        self.assertLess(asked, moves * 4 + seconds)  # ten a second and pod would be some hundred
        lease = pods["shard-a"][0].lease()
        self.assertEqual("Pod", lease["metadata"]["ownerReferences"][0]["kind"])
        told = json.loads(lease["metadata"]["annotations"]["cmesh.kusionstack.io/status"])
        self.assertEqual(pods["shard-a"][0].enforced()[0], told["rules"]["generation"])

    @harness.needs("RBAC")
    def test_who_may_not(self):
        """The pod says why, and is asked as ever."""
        manager = self.manager()
        pods = self.shards(kubeconfig=self.cluster.user_kubeconfig(self.folder, "nobody"))
        self.assertEqual(0, manager.metrics()["cmesh_manager_pods_telling"])
        pod = pods["shard-a"][0]
        self.assertIsNone(pod.lease())
        self.assertIn("403", pod.proxy.status()["statusLease"]["error"])
        self.assertIn("cannot write the Lease with the status", pod.proxy.log())
        self.show("shard-a", "b")
        self.wait_condition("shard-a", "Published", "False", "WaitingForHandover")


class AddressTest(ShardsTestCase):
    """As in a cluster of IPv6 alone, or one where some pods have one kind of address."""

    @unittest.skipUnless(harness.has_ipv6(), "this machine has no IPv6")
    def test_pods_with_ipv6(self):
        self.manager("--admin", "[::1]:0")
        for part in ("a", "b"):
            self.apply(mesh.config(f"shard-{part}", f"shard-{part}", mesh.limit(mesh.is_in("part", part))))
        pods = [self.pod(f"shard-a-{i}", "shard-a") for i in range(2)]
        for pod in pods:
            pod.use_ipv6()
            pod.start()
        other = self.shard_of_two("shard-b")
        for name in ("shard-a", "shard-b"):
            self.wait_enforced(name, pods=2)
        self.show("shard-b", "a", "b")
        self.wait_condition("shard-b", "Published", "False", "WaitingForHandover")
        self.show("shard-a", "z")
        self.wait_enforced("shard-b", pods=2)
        self.assertEqual({"object-a", "object-b"}, other[0].shown())
        self.assertEqual(set(), pods[0].shown())


class TruthTest(ShardsTestCase):
    """What the status says when something is wrong, and again when it is right."""

    def setUp(self):
        super().setUp()
        self.lead = self.manager()
        self.pods = self.one_shard()

    def expect(self, reason, enforced, pod, words, generation=1):
        found = self.wait_condition("shard-a", "Enforced", "False", reason)
        message = mesh.condition(found, "Enforced")["message"]
        self.assertEqual(enforced, found["status"]["enforced"])
        self.assertIn(pod.name, message)
        self.assertIn(words, message)
        row = self.row("shard-a", pod)
        self.assertIn(words, row["message"])
        self.assertEqual(generation, row.get("generation"))
        return message

    def well_again(self):
        self.wait_enforced("shard-a", pods=len(self.pods))
        return self.check_status("shard-a", self.pods)

    def test_a_proxy_that_was_killed(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            self.pods[1].stop_proxy(how)
            self.expect("Silent", "1/2", self.pods[1], NO_SIDECAR)
            self.assertIn("connection refused", self.lead.log())
            self.pods[1].start_proxy()
            self.well_again()
        self.wait_event("shard-a", "Silent")

    def test_a_proxy_that_hangs(self):
        self.pods[0].proxy.signal(signal.SIGSTOP)
        self.expect("Silent", "1/2", self.pods[0], NO_SIDECAR)
        self.assertIn("no complete response within", self.lead.log())
        self.pods[0].proxy.signal(signal.SIGCONT)
        self.well_again()

    def test_rules_that_do_not_arrive(self):
        """rulesync is gone: localproxy goes on with what it has."""
        self.pods[0].stop_sync()
        time.sleep(2)
        self.check_status("shard-a", self.pods)  # no harm yet
        self.show("shard-a", "b")
        self.expect("Refused", "1/2", self.pods[0], f"rulesync {NO_SIDECAR}")
        self.assertIn("connection refused", self.lead.log())
        self.assertEqual({"object-a"}, self.pods[0].shown())
        self.assertEqual({"object-b"}, self.pods[1].shown())
        self.pods[0].start_sync()
        self.assertEqual(2, self.well_again()["generation"])
        self.assertEqual({"object-b"}, self.pods[0].shown())

    def test_a_rulesync_that_hangs(self):
        self.pods[0].sync.signal(signal.SIGSTOP)
        self.show("shard-a", "b")
        self.expect("Refused", "1/2", self.pods[0], f"rulesync {NO_SIDECAR}")
        self.pods[0].sync.signal(signal.SIGCONT)
        self.well_again()

    def test_an_address_that_is_no_sidecars(self):
        """Not asked is what a pod's object must not have the manager ask: here itself."""
        self.lead.stop()
        lead = self.manager("--probe-any-address=false")
        self.show("shard-a", "b")
        harness.wait_for(
            lambda: all("is not where a sidecar can be" in self.row("shard-a", p).get("message", "")
                        for p in self.pods),
            "the reason",
        )
        self.wait_condition("shard-a", "Enforced", "False", "Silent")
        self.assertEqual(0, lead.metrics()["cmesh_manager_probes_total"])

    def test_a_proxy_that_forgot_everything(self):
        pod = self.pods[0]
        pod.stop_sync()
        pod.stop_proxy()
        os.unlink(os.path.join(pod.folder, "rules.json"))
        pod.start_proxy()
        self.assertEqual(503, pod.shown())
        self.expect("Refused", "1/2", pod, f"rulesync {NO_SIDECAR}", generation=None)
        pod.start_sync()
        self.well_again()

    def test_a_pod_that_is_deleted_slowly(self):
        """It counts as long as it answers."""
        slow = self.pod("slow", "shard-a")
        slow.finalizers = ["cmesh.example/e2e"]
        slow.start()
        self.addCleanup(slow.finalize)
        self.wait_enforced("shard-a", pods=3)
        slow.delete()
        slow.stop_sync()
        self.show("shard-a", "b")
        self.expect("Refused", "2/3", slow, f"rulesync {NO_SIDECAR}")
        slow.stop_proxy()
        self.well_again()

    def test_a_pod_that_is_made_again(self):
        """As a StatefulSet does it: the same name, another pod, which has nothing yet."""
        old = self.pods[1]
        old.stop()
        old.delete()
        self.show("shard-a", "b")
        os.unlink(os.path.join(old.folder, "rules.json"))
        new = self.pod(old.name, "shard-a")
        new.create()
        new.set_status(ready=False)
        self.wait_condition("shard-a", "Enforced", "True", "Enforced")
        harness.wait_for(
            lambda: "has not responded yet" in self.row("shard-a", new).get("message", ""),
            "nothing is known of it",
        )
        self.assertNotIn("generation", self.row("shard-a", new))
        new.start_proxy()
        new.start_sync()
        new.set_status()
        self.pods[1] = new
        self.well_again()

    def test_a_pod_without_sidecar(self):
        bare = self.pod("bare", None, {"shard": "shard-a"})
        bare.start()
        harness.wait_for(
            lambda: self.get("shard-a")["status"]["generation"] > 1
            and self.get("shard-a")["status"]["enforced"] == "2/3",
            "the others confirm that they show nothing",
        )
        message = self.expect("NoSidecar", "2/3", bare, "", generation=None)
        self.assertEqual(set(), self.pods[0].shown())
        self.assertIn("seeing everything", message)
        self.assertIn("enable-proxy", message)
        self.assertIn("has no sidecar", self.row("shard-a", bare)["message"])
        bare.delete()
        self.well_again()

    def test_overlapping_selectors(self):
        """A second config takes a pod of the first: both say so, and nothing is taken away."""
        self.pods[0].labels["also"] = "b"
        path = f"{self.pods[0].path}/{self.pods[0].name}"
        patch = {"metadata": {"labels": {"also": "b"}}}
        self.cluster.json(path, "PATCH", patch, "application/merge-patch+json")
        other = mesh.config("shard-b", "", mesh.limit(mesh.is_in("part", "z")))
        other["spec"]["selector"] = {"matchLabels": {"also": "b"}}
        self.apply(other)
        found = self.wait_condition("shard-b", "Enforced", "False", "Overlapping")
        self.assertIn("shard-a", mesh.condition(found, "Enforced")["message"])
        first = harness.wait_for(
            lambda: "shard-b" in mesh.condition(self.get("shard-a"), "Enforced")["message"]
            and self.get("shard-a"),
            "the first one says so too",
        )
        self.assertEqual("2/2", first["status"]["enforced"])
        self.assertEqual({"object-a"}, self.pods[0].shown())
        self.show("shard-a", "a", "b")  # it goes on to be the first one's
        harness.wait_for(lambda: self.pods[0].shown() == {"object-a", "object-b"}, "it follows")
        self.delete("shard-b")
        self.well_again()

    def test_a_pod_of_another_shard(self):
        """The selector of the other one takes it away, but it was started for this one."""
        self.patch("shard-a", {"spec": {"selector": {"matchLabels": {"shard": "nobody"}}}})
        self.wait_condition("shard-a", "Enforced", "True", "NoPods")
        self.apply(mesh.config("shard-c", "shard-a", mesh.limit(mesh.is_in("part", "b"))))
        found = self.wait_condition("shard-c", "Enforced", "False", "OtherRules")
        self.assertIn("shard-a", mesh.condition(found, "Enforced")["message"])
        self.assertEqual("0/2", found["status"]["enforced"])
        self.assertEqual({"object-a"}, self.pods[0].shown())


class BypassTest(ShardsTestCase):
    """Operators, here kubectl, that go around their proxies. The address of a relay before the API
    server is known to one pod alone: elsewhere each pod has a network of its own."""

    def begin(self, wait):
        between = relay.Relay(self.cluster.address)
        self.addCleanup(between.close)
        self.manager("--bypass-wait", str(wait))
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pod, other = (self.pod(f"shard-a-{i}", "shard-a") for i in range(2))
        pod.kubeconfig = self.path("relayed.kubeconfig")
        pod.proxy_args = ["--watch-bypass"]
        with open(self.cluster.kubeconfig, encoding="utf-8") as original:
            text = original.read()
        with open(pod.kubeconfig, "w", encoding="utf-8") as relayed:
            url = "https://" + between.address
            relayed.write(text.replace(self.cluster.env["APISERVER"], url))
        other.start()
        pod.start()
        self.wait_enforced("shard-a", pods=2)
        return pod

    def operator(self, **way):
        """It watches until the test ends it."""
        kubectl = harness.Kubectl(self.path("."), **way)
        process = kubectl.popen("-n", self.namespace, "get", "configmaps", "--watch", "-o", "name")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)

    def wait_bypassed(self, pod, words):
        found = self.wait_condition("shard-a", "Enforced", "False", "Bypassed")
        self.assertEqual("1/2", found["status"]["enforced"])
        message = mesh.condition(found, "Enforced")["message"]
        self.assertIn(f"{pod.name} ({words}", message)
        self.assertIn("allow-bypass", self.wait_event("shard-a", "Bypassed")["message"])
        self.assertIn(words, self.row("shard-a", pod)["message"])

    def allow(self, pod):
        annotations = {mesh.GROUP + "/allow-bypass": "true"}
        patch = {"metadata": {"annotations": annotations}}
        path = f"{pod.path}/{pod.name}"
        self.cluster.json(path, "PATCH", patch, "application/merge-patch+json")

    def test_an_operator_with_connections_of_its_own(self):
        pod = self.begin(0)
        self.operator(server=f"http://{pod.address}:5443")
        harness.wait_for(lambda: pod.proxy.status()["openWatches"], "it comes through its proxy")
        known = harness.wait_for(lambda: pod.proxy.status().get("bypass"), "somebody has looked")
        self.assertEqual({"connections": 0}, known)
        self.assertGreater(pod.proxy.status()["clients"]["requests"], 0)
        self.operator(kubeconfig=pod.kubeconfig)
        self.wait_bypassed(pod, "has connections to the API server")
        self.assertEqual({"connections": 1}, pod.proxy.status()["bypass"])
        self.assertIn("connections of this pod go to the API server", pod.proxy.log())
        self.allow(pod)
        self.wait_enforced("shard-a", pods=2)

    def test_an_operator_that_never_comes(self):
        pod = self.begin(3)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        pod.set_status(since=now)
        self.wait_bypassed(pod, "no request has come to localproxy")
        self.operator(server=f"http://{pod.address}:5443")
        self.wait_enforced("shard-a", pods=2)


class PublishTest(ShardsTestCase):
    """Specs that make no sense, and ConfigMaps that others have their hands on."""

    def setUp(self):
        super().setUp()
        self.manager()

    def test_a_spec_that_makes_no_sense(self):
        """It has come past the webhook: what was enforced stays so."""
        pods = self.one_shard()
        before = self.map_of("shard-a")
        for selector, words in (
            ({"matchLabels": {}}, "selector"),
            ({"matchExpressions": [{"key": "a b", "operator": "Exists"}]}, "a b"),
            ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "values"),
        ):
            self.patch("shard-a", {"spec": {"limits": [mesh.limit(selector)]}})
            found = self.wait_condition("shard-a", "Compiled", "False", "Invalid")
            message = mesh.condition(found, "Compiled")["message"]
            self.assertIn("spec.limits[0]", message)
            self.assertIn(words, message)
            self.assertEqual("False", mesh.condition(found, "Published")["status"])
            self.assertEqual("NotPublished", mesh.condition(found, "Enforced")["reason"])
            self.assertEqual("2/2", found["status"]["enforced"])
            self.assertEqual(before, self.map_of("shard-a"))
            self.assertEqual({"object-a"}, pods[0].shown())
        self.wait_event("shard-a", "CompileFailed")
        self.show("shard-a", "b")
        self.wait_enforced("shard-a")
        self.assertEqual(2, self.check_status("shard-a", pods)["generation"])

    def test_from_the_start_it_makes_no_sense(self):
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit({})))
        found = self.wait_condition("shard-a", "Compiled", "False", "Invalid")
        self.assertNotIn("generation", found["status"])
        self.assertIsNone(self.map_of("shard-a"))
        pods = self.shard_of_two("shard-a")
        self.assertEqual(503, pods[0].shown())
        self.show("shard-a", "a")
        self.wait_enforced("shard-a", pods=2)
        self.check_status("shard-a", pods)

    def test_limits_that_contradict_show_nothing(self):
        pods = self.one_shard()
        limits = [mesh.limit(mesh.is_in("part", part)) for part in ("a", "b")]
        self.patch("shard-a", {"spec": {"limits": limits}})
        self.wait_enforced("shard-a")
        self.check_status("shard-a", pods)
        self.assertEqual(set(), pods[0].shown())

    def test_a_configmap_of_somebody_else(self):
        thing = {"metadata": {"name": "cmesh-rules-shard-a"}, "data": {"mine": "yes"}}
        self.cluster.json(self.maps, "POST", thing)
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        found = self.wait_condition("shard-a", "Published", "False", "NameTaken")
        self.assertIn("cmesh-rules-shard-a", mesh.condition(found, "Published")["message"])
        self.assertEqual("NotPublished", mesh.condition(found, "Enforced")["reason"])
        self.assertEqual({"mine": "yes"}, self.map_of("shard-a")["data"])
        self.cluster.json(f"{self.maps}/cmesh-rules-shard-a", "DELETE")
        self.wait_condition("shard-a", "Published", "True")
        self.check_map("shard-a")

    def rewrite(self, change):
        """Somebody edits the ConfigMap."""
        path, kind = f"{self.maps}/cmesh-rules-shard-a", "application/merge-patch+json"
        self.cluster.json(path, "PATCH", change, kind)

    def put_right(self, pods, generation):
        """It is as it should be, on the pods too; the generation does not go back."""

        def look():
            rules = mesh.rules_of(self.map_of("shard-a") or {})
            return rules and rules["generation"] >= generation and "extra" not in rules

        def told():
            rules = mesh.rules_of(self.map_of("shard-a") or {})
            return rules and rules["generation"] == self.get("shard-a")["status"]["generation"]

        harness.wait_for(look, "it is put right")
        harness.wait_for(told, "the status has it")
        self.wait_enforced("shard-a")
        rules = self.check_status("shard-a", pods)
        self.assertEqual({"object-a"}, pods[0].shown())
        return rules["generation"]

    def test_a_configmap_that_is_edited_by_hand(self):
        pods = self.one_shard()
        at = 1
        good = mesh.rules_of(self.map_of("shard-a"))
        newer = {**good, "generation": 40}
        wider = {**good, "generation": 50, "spec": {**good["spec"], "limits": []}}
        del wider["checksum"]
        for text in ("", "nonsense", None, json.dumps(newer), json.dumps(wider)):
            self.rewrite({"data": {"rules.json": text}})
            at = self.put_right(pods, at)
        self.assertGreaterEqual(at, 50)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pods[0].name, "uid": "none"}

        def ours():
            # Whose owner is not there the garbage collector deletes, if it is faster than the manager.
            keys = (self.map_of("shard-a") or {"metadata": {}})["metadata"].keys()
            return {"labels", "annotations"} <= keys and "ownerReferences" not in keys

        for change in ({"labels": None}, {"annotations": None}, {"ownerReferences": [owner]}):
            self.rewrite({"metadata": change})
            harness.wait_for(ours, "it is ours again")
        self.put_right(pods, at)
        self.rewrite({"data": {"more": "stays"}, "metadata": {"annotations": {"mine": "stays"}}})
        time.sleep(0.5)
        self.show("shard-a", "a", "b")
        self.wait_enforced("shard-a")
        self.assertEqual("stays", self.map_of("shard-a")["metadata"]["annotations"]["mine"])
        self.assertEqual("stays", self.map_of("shard-a")["data"]["more"])

    def test_a_configmap_that_is_deleted_by_hand(self):
        pods = self.one_shard()
        self.show("shard-a", "a", "b")
        self.wait_enforced("shard-a")
        self.show("shard-a", "a")
        self.wait_enforced("shard-a")
        for _ in range(3):
            self.cluster.json(f"{self.maps}/cmesh-rules-shard-a", "DELETE")
            self.put_right(pods, 3)

    @staticmethod
    def many(*resources):
        """A limit on each of them, by half a MiB of names that no other one has."""
        return [
            mesh.limit(
                mesh.is_in("part", *(f"{i:05}-{name}-{'x' * 45}" for i in range(9000))), [name]
            )
            for name in resources
        ]

    def test_large_rules(self):
        """More than a ConfigMap takes: what was published stays."""
        pods = self.one_shard()
        self.patch("shard-a", {"spec": {"limits": self.many("configmaps", "secrets")}})
        found = self.wait_condition("shard-a", "Published", "False", "TooLarge")
        message = mesh.condition(found, "Published")["message"]
        self.assertRegex(message, re.compile("bytes|MiB"))
        self.assertEqual("2/2", found["status"]["enforced"])
        self.assertEqual({"object-a"}, pods[0].shown())
        self.show("shard-a", "b")
        self.wait_enforced("shard-a")
        self.check_status("shard-a", pods)


if __name__ == "__main__":
    harness.main()
