# SPDX-License-Identifier: Apache-2.0
"""Automatic shards: an operator as a StatefulSet with one root, whose pods come, go and change shards.

Pods have the real sidecars and work all the time, with a watch open. Judged by the API server's audit
log and by all versions of the children: no object has two writers, no bucket is nobody's, no more
buckets move than must, and no watch ends.
"""

import json
import signal
import threading
import time
import unittest

import audit
import harness
import labels_test
import mesh
import wire
import working_pod

KEY = working_pod.KEY
HASH = harness.HASH_LABEL
POD = "statefulset.kubernetes.io/pod-name"
ROOT = mesh.GROUP + "/auto-sharding-root"
SPACES = 8
SOON = 60  # seconds in which a shard works on what it has, on however busy a machine
ALL = set(range(32))
# The state of a root without a StatefulSet; where there are no StatefulSets at all, nobody can tell.
TAKEOVER = {"afterSeconds": 5}
NO_PODS = "WaitingForPods" if harness.modern() else "StatefulSetNotFound"


def setUpModule():
    mesh.install()


class Again(Exception):
    """The rules changed between a list and the watch that was to follow it."""


class OpenWatch(threading.Thread):
    """A client that watches through a pod's localproxy, and neither reconnects nor lists."""

    path = "/api/v1/configmaps?labelSelector=owned"

    def __init__(self, proxy):
        super().__init__(daemon=True)
        self.proxy = proxy
        self.begun = threading.Event()
        self.over = threading.Event()
        self.ended = None  # how; None: it is open
        self.start()
        self.begun.wait(SOON)

    def run(self):
        try:
            while not self.over.is_set():
                try:
                    self.watch()
                except Again:
                    pass
        except Exception as e:  # pylint: disable=broad-except
            self.ended = repr(e)
        self.begun.set()

    def watch(self):
        version = json.loads(self.proxy.fetch(self.path).body)["metadata"]["resourceVersion"]
        with self.proxy.connect() as connection:
            connection.send_head("GET", f"{self.path}&watch=1&resourceVersion={version}")
            head = connection.read_head()
            if head.status == 410:
                raise Again
            if head.status != 200:
                raise wire.Cut(f"status {head.status}")
            connection.sock.settimeout(0.5)
            self.drain(connection)

    def drain(self, connection):
        while not self.over.is_set():
            try:
                data = connection.read_some()
            except TimeoutError:
                self.begun.set()
                continue
            if b'"code":410' in data and not self.begun.is_set():
                raise Again
            if not data or b'"type":"ERROR"' in data:
                raise wire.Cut(f"ended with {data[-200:]!r}")
            self.begun.set()

    def end(self):
        self.over.set()
        self.join(30)


class Ledger:
    """Who had which bucket, by all versions of the children."""

    def __init__(self, case, path):
        self.case = case
        self.children = {}  # name -> its buckets
        self.spared = set()  # buckets that the canary has, or may have
        self.all = False  # from now on each must be somebody's
        self.gains = []  # (time, bucket, name, whether it was another's before)
        self.lock = threading.Lock()
        self.watched = mesh.Watched(case.cluster, path, self.on_event)
        case.addCleanup(self.watched.end)

    def on_event(self, kind, thing):
        meta = thing["metadata"]
        if ROOT not in meta.get("labels", {}):
            return
        with self.lock:
            before = self.children.get(meta["name"], set())
            others = set().union(*(b for n, b in self.children.items() if n != meta["name"]))
            now = set() if kind == "DELETED" else mesh.buckets_of(thing)
            self.gains += [(time.time(), b, meta["name"], b in others) for b in now - before]
            self.children[meta["name"]] = now
            owned = self.spared.union(*self.children.values())
            self.all = self.all or owned == ALL
            if self.all and owned != ALL:
                raise AssertionError(f"nobody has buckets {ALL - owned}")

    def moved(self, since):
        with self.lock:
            return sum(other for at, _, _, other in self.gains if at >= since)

    def owners(self, bucket, since):
        """In their order, after that time."""
        with self.lock:
            return [name for at, b, name, _ in self.gains if b == bucket and at >= since]

    def owner(self, bucket):
        with self.lock:
            return next(name for _, b, name, _ in reversed(self.gains) if b == bucket)


class RootTestCase(mesh.MeshTestCase):
    def setUp(self):
        super().setUp()
        self.root_name, self.prefix, self.every = "demo", "op", 1
        self.pods = {}  # ordinal -> pod
        self.watches = {}
        self.users = {}  # user -> shard
        self.lead = self.manager()
        self.sets = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets"

    # ---- objects ----

    def root(self, **root):
        limit = mesh.limit({"matchLabels": {"owned": "yes"}})
        spec = {"prefix": self.prefix, "targetStatefulSet": "operator", "resourceSelector": [limit]}
        return {
            "apiVersion": f"{mesh.GROUP}/v1alpha1",
            "kind": "ShardingConfig",
            "metadata": {"name": self.root_name},
            "spec": {
                "root": {**spec, **root},
                "controller": {"leaderElectionName": "owner"},
            },
        }

    def size(self, size, **auto):
        """As a user edits it."""
        self.apply(
            self.root(auto={"shardingSize": size, "everyShardReplicas": self.every, **auto})
        )

    def child(self, number):
        return f"{self.prefix}-{number}-normal" if number else f"{self.prefix}-0-canary"

    def find(self, name):
        """None: there is none."""
        answer = self.cluster.fetch(f"{self.configs}/{name}")
        return json.loads(answer.body) if answer.status == 200 else None

    def wait_child(self, name, there=True):
        what = f"{name} is {'there' if there else 'gone'}"
        harness.wait_for(lambda: (self.find(name) is not None) == there, what, SOON, 0.02)
        return self.find(name)

    def wait_buckets(self, name, look, what):
        harness.wait_for(lambda: look(mesh.buckets_of(self.find(name))), f"{name} {what}", SOON, 0.02)

    def wait_ready(self, reason="Enforced", timeout=SOON):
        return self.wait_condition(self.root_name, "Ready", "True", reason, timeout)

    def events(self, reason):
        """Their messages."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        items = self.cluster.json(path)["items"]
        return [e["message"] for e in items if e["reason"] == reason]

    def wait_event(self, reason, part):
        def look():
            return any(part in message for message in self.events(reason))

        harness.wait_for(look, f"Event {reason} with {part}", SOON, 0.05)

    # ---- pods ----

    def create_pod(self, ordinal, child):
        """As the StatefulSet and the webhook make it."""
        name = f"operator-{ordinal}"
        pod = working_pod.WorkingPod(self, name, child, labels={POD: name})
        self.users[pod.user] = child
        self.pods[ordinal] = pod
        pod.create()

    def run_pod(self, ordinal):
        """As a kubelet does."""
        self.pods[ordinal].start_proxy()
        self.pods[ordinal].start_sync()

    def start_pod(self, ordinal, child):
        self.wait_child(child)
        self.create_pod(ordinal, child)
        self.run_pod(ordinal)
        self.set_ready(ordinal)

    def set_ready(self, ordinal):
        """With rules, even if it has no share of anything yet."""
        pod = self.pods[ordinal]
        harness.wait_for(lambda: pod.enforced() is not None, f"{pod.name} has rules", SOON, 0.02)
        pod.worker = working_pod.Worker(pod.proxy)
        self.watches[ordinal] = OpenWatch(pod.proxy)
        self.addCleanup(self.watches[ordinal].end)
        pod.set_status()

    def stop_pod(self, ordinal):
        self.check_watch(ordinal)
        self.watches.pop(ordinal).end()
        pod = self.pods.pop(ordinal)
        pod.stop()
        pod.delete()

    def check_watch(self, ordinal):
        """It is open, and none was cut in any way."""
        proxy = self.pods[ordinal].proxy
        self.assertIsNone(self.watches[ordinal].ended, f"the watch of pod {ordinal}")
        metrics = {n: v for n, v in proxy.metrics().items() if "watches_cut" in n or "fallback" in n}
        self.assertTrue(metrics)
        self.assertFalse({n: v for n, v in metrics.items() if v}, f"pod {ordinal}")

    def check_watches(self):
        for ordinal in self.pods:
            self.check_watch(ordinal)


class SizeTest(RootTestCase):
    def setUp(self):
        super().setUp()
        self.spaces = [
            harness.make_namespace(self.cluster, f"root-{i}", self.addCleanup) for i in range(SPACES)
        ]
        for space in self.spaces:
            labels = {"owned": "yes", KEY: space, HASH: labels_test.hash_of(space)}
            thing = {"metadata": {"name": "object", "labels": labels}}
            self.cluster.json(f"/api/v1/namespaces/{space}/configmaps", "POST", thing)
        self.ledger = Ledger(self, self.configs)
        self.writes = working_pod.Writes(self, self.users)
        self.chosen = set()  # namespaces of the canary
        self.named = set()  # of these, by name
        self.were_named = {}  # when the step began; namespace -> who had its bucket
        self.steps = []

    def bucket(self, space):
        return int(labels_test.hash_of(space))

    def owner(self, space):
        return self.child(0) if space in self.chosen else self.ledger.owner(self.bucket(space))

    def begin(self, what):
        planned = {space: [self.owner(space)] if self.steps else [] for space in self.spaces}
        self.were_named = {s: self.ledger.owner(self.bucket(s)) for s in self.named}
        self.steps.append(audit.Step(time.time(), what, planned))

    def settle(self):
        """All enforce what they are to, and work on it."""
        self.wait_ready()
        step = self.steps[-1]
        for space in self.spaces:
            owner = self.owner(space)
            if space not in self.chosen and space in self.were_named:
                step.planned[space] += [self.were_named[space]]  # until the bucket moves, too
            step.planned[space] += self.ledger.owners(self.bucket(space), step.begun)
            step.planned[space] += [owner]
            users = {user for user, shard in self.users.items() if shard == owner}
            self.writes.soon(space, users, time.time(), SOON)
        self.check_watches()

    def test_sizes_under_load(self):
        self.begin("two shards")
        self.size(2)
        for i in (1, 2):
            self.start_pod(i - 1, self.child(i))
        self.settle()

        self.begin("from 2 to 3")
        self.size(3)
        self.start_pod(2, self.child(3))
        self.settle()
        self.wait_event("Resized", "From 2 to 3 shards; 10 buckets moved.")
        self.assertEqual(10, self.ledger.moved(self.steps[-1].begun))

        self.begin("from 3 to 10, and the manager is killed in the middle")
        self.size(10)
        for i in range(4, 11):
            self.create_pod(i - 1, self.child(i))
            self.run_pod(i - 1)
        self.set_ready(3)
        moving = lambda: self.ledger.moved(self.steps[-1].begun) > 0  # noqa: E731
        harness.wait_for(moving, "buckets move", SOON, 0.001)
        self.lead.kill()
        self.lead = self.manager()
        for i in range(5, 11):
            self.set_ready(i - 1)
        self.settle()
        # At the least 21, and some more because the pods did not come all at once.
        self.assertLessEqual(self.ledger.moved(self.steps[-1].begun), 33)

        self.begin("from 10 to 2")
        self.size(2)
        self.wait_event("Resized", "From 10 to 2 shards; 24 buckets moved.")
        for ordinal in range(2, 10):
            self.stop_pod(ordinal)
        for i in range(3, 11):
            self.wait_child(self.child(i), there=False)
        self.settle()
        self.assertEqual(24, self.ledger.moved(self.steps[-1].begun))

        self.judge(self.steps)
        self.begin("a canary, whose pod is of another shard yet")
        self.canary([self.spaces[0]], [])
        self.wait_child(self.child(0))
        harness.wait_for(
            lambda: "operator-0" in mesh.condition(self.get(self.root_name), "Sized")["message"],
            "pods that are of another shard now are named",
            SOON,
            0.05,
        )

    def judge(self, steps):
        gaps = audit.judge_steps(self, steps, self.writes.all())
        print(f"{len(gaps)} hand-overs, nobody's for {max(gaps, default=0):.2f} s at most", flush=True)
        self.assertGreater(len(gaps), 0)
        self.assertLess(max(gaps), audit.NOBODYS, "nobody's for too long")

    def canary(self, spaces, hashes):
        """As a user edits it; two normal shards have the rest."""
        canary = {"replicas": 1}
        canary.update({"inNamespaces": spaces} if spaces else {})
        canary.update({"inShardHash": [str(h) for h in sorted(hashes)]} if hashes else {})
        self.ledger.spared |= set(hashes)
        auto = {"shardingSize": 2, "everyShardReplicas": 1}
        self.apply(self.root(canary=canary, auto=auto))
        self.named = set(spaces)
        self.chosen = {s for s in self.spaces if s in spaces or self.bucket(s) in hashes}

    def test_canary(self):
        """By names, by hashes, and by both, which means either."""
        one, other, third = self.spaces[:3]
        self.begin("a canary")
        self.canary([one], [])
        for i in (0, 1, 2):
            self.start_pod(i, self.child(i))
        self.settle()
        hashes = {self.bucket(other), self.bucket(third)}
        for spaces, some in (([one, other], []), ([], hashes), ([one], hashes), ([third], [])):
            self.begin(f"canary {spaces} {sorted(some)}")
            self.canary(spaces, some)
            self.settle()
        self.judge(self.steps)

    def test_takeover(self):
        self.begin("three shards")
        self.size(3)
        for i in (1, 2, 3):
            self.start_pod(i - 1, self.child(i))
        self.settle()
        self.size(3, takeover=TAKEOVER)  # now: a pod may take longer than that to begin
        dead = self.pods[1]
        self.check_watch(1)
        self.watches.pop(1).end()
        dead.stop_proxy(signal.SIGKILL)
        dead.stop()
        dead.delete()
        del self.pods[1]
        self.wait_event("TakenOver", self.child(2))
        self.wait_condition(self.root_name, "Ready", "False", NO_PODS)
        self.wait_buckets(self.child(2), lambda b: not b, "gave all away")
        now = time.time()
        for space in self.spaces:
            owner = self.owner(space)
            self.assertNotEqual(self.child(2), owner)
            users = {user for user, shard in self.users.items() if shard == owner}
            self.writes.soon(space, users, now, SOON)
        self.start_pod(1, self.child(2))
        self.wait_event("GivenBack", self.child(2))
        self.wait_ready()
        self.check_watches()
        self.assertEqual(1, self.lead.metrics()["cmesh_manager_root_takeovers_total"])

    def plan(self, space, shard):
        """It is to be worked on by that shard, after those that were planned in this step."""
        self.steps[-1].planned[space].append(shard)
        users = {user for user, owner in self.users.items() if owner == shard}
        self.writes.soon(space, users, time.time(), SOON)

    def test_takeover_of_the_canary(self):
        mine = self.spaces[0]
        canary = {"replicas": 1, "inNamespaces": [mine]}
        auto = {"shardingSize": 2, "everyShardReplicas": 1}
        self.steps.append(audit.Step(time.time(), "a canary by names", {mine: []}))
        self.apply(self.root(canary=canary, auto=auto))
        for i in range(3):
            self.start_pod(i, self.child(i))
        self.wait_ready()
        self.plan(mine, self.child(0))
        self.apply(self.root(canary=canary, auto={**auto, "takeover": TAKEOVER}))

        self.steps.append(audit.Step(time.time(), "it dies", {mine: []}))
        self.plan(mine, self.child(0))
        self.check_watch(0)
        self.watches.pop(0).end()
        self.pods.pop(0).die()
        self.wait_event("TakenOver", self.child(0))
        found = self.wait_condition(self.root_name, "Ready", "False", NO_PODS)
        self.assertEqual(
            [True, None, None], [row.get("takenOver") for row in found["status"]["root"]["shards"]]
        )
        owner = self.ledger.owner(self.bucket(mine))
        self.plan(mine, owner)

        self.steps.append(audit.Step(time.time(), "it comes back", {mine: []}))
        self.plan(mine, owner)
        self.start_pod(0, self.child(0))
        self.wait_event("GivenBack", self.child(0))
        self.wait_ready()
        self.plan(mine, self.child(0))
        self.check_watches()
        gaps = audit.judge_steps(self, self.steps, self.writes.all())
        print(f"taken over and back: nobody's for {max(gaps):.2f} s at most", flush=True)
        self.assertEqual(2, len(gaps))
        self.assertLess(max(gaps), audit.NOBODYS, "nobody's for too long")
        for space in self.spaces[1:]:
            there = {write.shard for write in self.writes.all() if write.namespace == space}
            self.assertEqual({self.ledger.owner(self.bucket(space))}, there)
        self.assertEqual(1, self.lead.metrics()["cmesh_manager_root_takeovers_total"])


class ChildTest(RootTestCase):
    """Without pods: what becomes of children, and of what others do."""

    def begin_two(self, **auto):
        self.size(2, **auto)
        for i in (1, 2):
            self.wait_child(self.child(i))

    def test_status(self):
        self.begin_two()
        found = self.wait_condition(self.root_name, "Ready", "False", NO_PODS)
        self.assertEqual([self.child(1), self.child(2)], found["status"]["root"]["childShardingConfigs"])
        rows = found["status"]["root"]["shards"]
        self.assertEqual(["0-15", "16-31"], [row["buckets"] for row in rows])
        self.assertEqual(2, found["status"]["root"]["size"])
        self.assertEqual("Valid", mesh.condition(found, "Compiled")["reason"])
        self.assertEqual("False", mesh.condition(found, "Conflict")["status"])
        child = self.get(self.child(1))
        owner = child["metadata"]["ownerReferences"][0]
        self.assertEqual((found["metadata"]["uid"], True), (owner["uid"], owner["controller"]))
        self.assertIn(NO_PODS, self.here("get", "shardingconfigs"))
        told = harness.wait_for(lambda: self.lead.status()["roots"]["items"], "it is on the page")
        self.assertEqual(NO_PODS, told[0]["state"])
        self.wait_condition(self.child(1), "Ready", "True", "NoPods")
        before = {i: self.get(self.child(i))["metadata"]["resourceVersion"] for i in (1, 2)}
        self.lead.stop()
        self.lead = self.manager()
        self.size(2, takeover={"afterSeconds": 60})
        self.wait_condition(self.root_name, "Compiled", "True")
        after = {i: self.get(self.child(i))["metadata"]["resourceVersion"] for i in (1, 2)}
        self.assertEqual(before, after, "nothing of the children changed")

    def test_children_are_put_back(self):
        self.begin_two()
        spec = self.get(self.child(1))["spec"]
        for change in (
            {"limits": []},
            {"controller": {"leaderElectionName": "mine"}},
            {"webhook": {"port": 7}},
        ):
            self.patch(self.child(1), {"spec": change})
            harness.wait_for(
                lambda: self.get(self.child(1))["spec"] == spec, f"{change} is put back", SOON, 0.02
            )
        self.wait_event("ChildPutBack", f"{self.child(1)} was changed by")
        uid = self.get(self.child(2))["metadata"]["uid"]
        self.delete_child(self.child(2))
        harness.wait_for(
            lambda: (self.find(self.child(2)) or self.get(self.child(1)))["metadata"]["uid"] != uid
            and self.find(self.child(2)) is not None,
            "it is made again",
            SOON,
            0.02,
        )
        self.assertEqual(set(range(16, 32)), mesh.buckets_of(self.get(self.child(2))))
        self.wait_event("ChildPutBack", f"{self.child(2)} was deleted")

    def delete_child(self, name):
        self.cluster.fetch(f"{self.configs}/{name}", "DELETE")

    def test_a_name_that_is_taken(self):
        limit = mesh.limit(mesh.is_in("part", "a"))
        mine = mesh.config(self.child(2), "mine", limit)
        self.apply(mine)
        self.size(2)
        found = self.wait_condition(self.root_name, "Conflict", "True", "NameTaken")
        self.assertIn(self.child(2), mesh.condition(found, "Conflict")["message"])
        self.wait_event("ChildConflict", self.child(2))
        self.wait_condition(self.root_name, "Stalled", "True", "Conflict")
        self.assertEqual([limit], self.get(self.child(2))["spec"]["limits"])
        self.delete_child(self.child(2))  # the root's own may take its place before anybody looks
        self.wait_condition(self.root_name, "Conflict", "False")
        self.wait_buckets(self.child(2), lambda b: True, "is a shard of the root")

    @unittest.skipUnless(harness.modern(), "the garbage collector is as fast")
    def test_children_of_an_earlier_root(self):
        self.begin_two()
        self.delete(self.root_name)
        self.size(2)
        self.wait_condition(self.root_name, "Conflict", "True", "WaitingForGarbageCollector")
        for i in (1, 2):
            self.delete_child(self.child(i))
        self.wait_condition(self.root_name, "Conflict", "False")
        for i in (1, 2):
            self.wait_child(self.child(i))

    @harness.needs("garbage collector")
    def test_deleted(self):
        self.begin_two()
        for i in (1, 2):
            self.start_pod(i - 1, self.child(i))
        self.wait_ready()
        before = self.pods[0].enforced()
        self.delete(self.root_name)
        for i in (1, 2):
            self.wait_child(self.child(i), there=False)
        self.assertEqual(before, self.pods[0].enforced())
        self.check_watches()
        self.size(2)
        self.wait_ready()
        self.check_watches()

    def test_disabled(self):
        self.begin_two()
        auto = {"shardingSize": 3, "everyShardReplicas": 4}
        self.apply(self.root(disable=True, auto=auto))
        generation = self.get(self.root_name)["metadata"]["generation"]
        harness.wait_for(
            lambda: self.get(self.root_name).get("status", {}).get("observedGeneration") == generation,
            "it was looked at",
            SOON,
            0.05,
        )
        self.assertIsNone(self.find(self.child(3)))
        self.assertEqual({"operator-0"}, self.pods_named(self.child(1)))
        self.size(2)
        self.wait_condition(self.root_name, "Ready", "False", NO_PODS)

    def pods_named(self, name):
        terms = self.get(name)["spec"]["selector"]["matchExpressions"]
        return {value for term in terms if term["key"] == POD for value in term["values"]}

    @harness.needs("StatefulSets")
    def test_as_many_as_there_are_pods_for(self):
        # What a StatefulSet's controller would make has these names already.
        for i in (1, 2, 3):
            self.create_pod(i - 1, self.child(i))
        self.make_set(2)
        self.size("auto")
        for i in (1, 2):
            self.run_pod(i - 1)
            self.set_ready(i - 1)
        self.wait_ready()
        self.wait_condition(self.root_name, "Sized", "True", "Sized")
        self.scale(3)
        self.wait_child(self.child(3))
        self.assertEqual(set(), mesh.buckets_of(self.get(self.child(3))))
        self.run_pod(2)
        self.set_ready(2)
        self.wait_buckets(self.child(3), lambda b: len(b) == 10, "has its share")
        self.wait_ready()
        self.scale(2)
        self.wait_buckets(self.child(3), lambda b: not b, "gave all away")
        self.wait_ready_pods()
        self.stop_pod(2)
        self.wait_child(self.child(3), there=False)
        self.wait_ready()
        self.check_watches()

    def wait_ready_pods(self):
        """What moved was given by whom had it."""
        for i in (1, 2):
            self.wait_condition(self.child(i), "Ready", "True", "Enforced")

    def make_set(self, replicas):
        labels = {"app": "operator"}
        container = {"name": "operator", "image": "operator"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"serviceName": "operator", "selector": {"matchLabels": labels}}
        spec.update(replicas=replicas, template=template)
        self.cluster.json(self.sets, "POST", {"metadata": {"name": "operator"}, "spec": spec})

    def scale(self, replicas):
        kind = "application/merge-patch+json"
        self.cluster.json(f"{self.sets}/operator", "PATCH", {"spec": {"replicas": replicas}}, kind)
