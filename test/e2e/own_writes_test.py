# SPDX-License-Identifier: Apache-2.0
"""A client that reads its own writes: after each write it waits until its informer has come to the
version that the answer has, as controller-runtime's client does (5 s, then an error). Objects are
inside of the shard's share and outside, and others write into the share meanwhile: when the informer
has come so far, nothing of the share up to there is missing in its cache.
"""

import gzip
import itertools
import json
import os
import random
import statistics
import threading
import time

import harness
import informer_case
import objects
import real_clients
import resources
import wire
import wire_informer

PATIENCE = 5  # seconds, as controller-runtime has it
WITHIN = 1  # what is promised of a machine that has time

SHARE = {"share": "a"}
ELSEWHERE = {"share": "z"}
SHARES = ("a", "b", "c", "z", "")


class OwnWritesTest(harness.TestCase):
    """In front of a real API server."""

    rounds = int(os.environ.get("CMESH_E2E_ROUNDS", "10"))
    args = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        resources.install(cls.cluster, cls.addClassCleanup)

    def setUp(self):
        super().setUp()
        self.namespace = harness.make_namespace(self.cluster, "own-writes", self.addCleanup)
        rules = [harness.limit(["configmaps", "gears"], "share in (a,b)")]
        self.localproxy = self.proxy(rules, args=self.args, control=True)
        self.informer = None
        self.seen = 0
        self.at = 0
        self.others = []  # (name, version) of what others wrote into the share
        self.over = threading.Event()
        self.times = {}
        self.seed = None

    def follow(self, form, resource):
        """An informer of the whole collection in the namespace."""
        self.resource = resource
        self.path = resources.path(resource, self.namespace)
        name = resources.name_of(resource)
        watch = f"{form}:{name}@{self.namespace}"
        self.informer = wire_informer.WireInformer("own", self.localproxy.listen, watch)
        self.addCleanup(self.informer.close)
        harness.wait_for(self.informer.synced, "the informer has listed")
        self.seen = self.at = 0
        self.others = []

    # ---- what the client does ----

    # pylint: disable-next=too-many-arguments
    def write(self, method, name, labels=None, accept="application/json", fill=0, coding=None):
        """The version that the answer has; None: it has none. `fill`: bytes of an annotation."""
        target = self.path if method == "POST" else f"{self.path}/{name}"
        body, kind = None, "application/json"
        if labels is not None:
            thing = resources.body(self.resource, name, labels)
            if fill:
                thing["metadata"]["annotations"] = {"fill": "x" * fill}
            if method == "PATCH":
                thing = {"metadata": {"labels": labels, "annotations": {"at": str(time.time_ns())}}}
                kind = "application/merge-patch+json"
            body = json.dumps(thing).encode()
        headers = [("Content-Type", kind), ("Accept", accept)]
        if coding:
            headers.append(("Accept-Encoding", coding))
        answer = self.localproxy.fetch(target, method, headers, body)
        self.assertLess(answer.status, 300, answer)
        self.assertEqual(coding, answer.get("Content-Encoding"))
        data = gzip.decompress(answer.body) if coding else answer.body
        if accept == objects.PROTOBUF:
            return int(objects.protobuf_item(objects.unwrap(data)[1]).resource_version)
        version = json.loads(data)["metadata"].get("resourceVersion")
        return version and int(version)

    def come_to(self, version):
        """Seconds until the informer has seen it; None: it has not in time."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            self.informer.check_alive()
            events = self.informer.events
            while self.at < len(events):
                self.seen = max(self.seen, int(events[self.at].fields.get("rv") or 0))
                self.at += 1
            if self.seen >= version:
                return time.monotonic() - began
            time.sleep(0.001)
        return None

    def judge_cache(self, version):
        """All that others wrote into the share up to there is in it."""
        with self.informer.lock:
            cache = {key: int(i.resource_version) for key, i in self.informer.cache.items()}
        for name, written in list(self.others):
            if written <= version:
                self.assertGreaterEqual(cache.get(f"{self.namespace}/{name}", 0), written, name)

    def step(self, what, *args, **more):
        version = self.write(*args, **more)
        took = self.come_to(version)
        self.assertIsNotNone(took, f"{what}: the informer has not come to {version}")
        self.judge_cache(version)
        self.times.setdefault(what, []).append(took)

    def walk(self, accept="application/json"):
        for i in range(self.rounds):
            inside, outside, bare = f"inside-{i}", f"outside-{i}", f"bare-{i}"
            self.step("create inside", "POST", inside, SHARE, accept=accept)
            self.step("create outside", "POST", outside, ELSEWHERE, accept=accept)
            self.step("create unlabelled", "POST", bare, {"other": "x"}, accept=accept)
            self.step("update inside", "PATCH", inside, SHARE, accept=accept)
            self.step("update outside", "PATCH", outside, ELSEWHERE, accept=accept)
            self.step("update unlabelled", "PATCH", bare, {"other": "y"}, accept=accept)
            self.step("leave", "PATCH", inside, ELSEWHERE, accept=accept)
            self.step("come back", "PATCH", inside, {"share": "b"}, accept=accept)
            self.step("to another share", "PATCH", outside, {"share": "y"}, accept=accept)

    def report(self, title):
        for what, times in self.times.items():
            median, most = statistics.median(times), max(times)
            text = f"median {median * 1000:.0f} ms, max {most * 1000:.0f} ms"
            informer_case.report(f"{title}: {what}: {text}")
            self.assertLess(median, WITHIN, what)
        self.times = {}

    # ---- what others do ----

    def write_beside(self):
        number = 0
        while not self.over.is_set():
            number += 1
            name = f"other-{number}"
            thing = resources.body(self.resource, name, SHARE)
            made = self.cluster.json(self.path, "POST", thing)
            self.others.append((name, int(made["metadata"]["resourceVersion"])))
            time.sleep(0.01)

    def probes(self):
        name = 'cmesh_proxy_write_probes_total{result="%s"}'
        metrics = self.localproxy.metrics()
        return {r: metrics[name % r] for r in ("written", "overtaken", "failed")}

    def walk_with(self, title, accept="application/json"):
        self.walk(accept)
        self.report(title)
        beside = threading.Thread(target=self.write_beside)
        beside.start()
        try:
            self.remove_all()
            self.walk(accept)
        finally:
            self.over.set()
            beside.join()
            self.over.clear()
        self.report(f"{title}, others write")

    def remove_all(self):
        for i in range(self.rounds):
            for name in (f"inside-{i}", f"outside-{i}", f"bare-{i}"):
                self.cluster.fetch(f"{self.path}/{name}", "DELETE")

    # ---- many at random ----

    def write_at_random(self, number):
        """Objects of this writer's own, in any share."""
        pick = random.Random(f"{self.seed} {number}")
        names = [f"random-{number}-{i}" for i in range(10)]
        with wire.Connection(self.cluster.address, tls=self.cluster.tls) as connection:
            while not self.over.is_set():
                name = pick.choice(names)
                labels = {"share": share} if (share := pick.choice(SHARES)) else {}
                thing = resources.body(self.resource, name, labels)
                json_type = [("Content-Type", "application/json")]
                target, method = f"{self.path}/{name}", pick.choice(("PUT", "PUT", "DELETE"))
                data = json.dumps(thing).encode() if method == "PUT" else b""
                answer = connection.request(method, target, json_type, data)
                if method == "PUT" and answer.status == 404:
                    connection.request("POST", self.path, json_type, data)

    def reload_at_random(self):
        pick = random.Random(f"{self.seed} rules")
        for generation in itertools.count(2):
            if self.over.wait(0.1 + pick.random()):
                return
            kept = ",".join(pick.sample(SHARES[:3], 2))
            limit = harness.limit(["configmaps", "gears"], f"share in ({kept})")
            self.localproxy.reload(harness.rules_document(limit, generation=generation))

    def judge_bookmarks(self):
        """At each of them the cache is what the API server had at that version."""
        cache, judged = {}, 0
        for event in list(self.informer.events):
            if event.kind in ("add", "update"):
                cache[event.fields["key"]] = event.fields["rv"]
            elif event.kind == "delete":
                del cache[event.fields["key"]]
            elif event.kind == "bookmark":
                version = event.fields["rv"]
                query = f"?resourceVersion={version}&resourceVersionMatch=Exact"
                metas = [i["metadata"] for i in self.cluster.json(self.path + query)["items"]]
                expected = [
                    {
                        f"{m['namespace']}/{m['name']}": m["resourceVersion"]
                        for m in metas
                        if (share := m.get("labels", {}).get("share")) and share != without
                        and share in SHARES[:3]
                    }
                    for without in SHARES[:3]
                ]
                self.assertIn(cache, expected, f"at {version}")
                judged += 1
        return judged

    def walk_at_random(self, form, resource, *more):
        self.follow(form, resource)
        self.seed = harness.seed()
        pick = random.Random(f"{self.seed} operator")
        writers = [threading.Thread(target=self.write_at_random, args=(n,)) for n in range(3)]
        beside = writers + [threading.Thread(target=one) for one in more]
        for thread in beside:
            thread.start()
        try:
            for i in range(self.rounds * 10):
                share = pick.choice(SHARES)
                self.step("at random", "POST", f"own-{i}", {"share": share} if share else {})
                time.sleep(0.2 * pick.random())
        finally:
            self.over.set()
            for thread in beside:
                thread.join()
        probes = self.probes()
        informer_case.report(f"{form}: {self.judge_bookmarks()} bookmarks were right; {probes}")
        self.assertGreater(probes["written"] + probes["overtaken"], self.rounds)

    def test_random(self):
        self.walk_at_random("json", resources.CONFIG_MAPS)

    def test_random_protobuf(self):
        self.walk_at_random("protobuf", resources.CONFIG_MAPS)

    def test_random_with_reloads(self):
        self.walk_at_random("json", resources.GEARS, self.reload_at_random)

    def test_client_go(self):
        """Informers of client-go, over JSON and protobuf, of whole objects and of metadata."""
        _, missing = real_clients.go_folder()
        if missing:
            self.skipTest(missing)
        gears = resources.name_of(resources.GEARS)
        for resource, name, forms in (
            (resources.CONFIG_MAPS, "configmaps", ("typed", "json", "metadata")),
            (resources.GEARS, gears, ("dynamic", "metadata")),
        ):
            self.resource, self.path = resource, resources.path(resource, self.namespace)
            watches = [f"{form}:{name}@{self.namespace}" for form in forms]
            client = real_clients.go_informer("go", self.localproxy.url, watches)
            self.addCleanup(client.close)
            real_clients.wait_synced([client])
            for i in range(self.rounds):
                for method in ("POST", "PATCH"):
                    version = self.write(method, f"outside-{i}", ELSEWHERE)
                    began = time.time_ns()
                    client.say(f"reach {version}")
                    harness.wait_for(
                        lambda: len(self.reached(client, version)) == len(watches),
                        f"all have come to {version}",
                        timeout=PATIENCE,
                        interval=0.001,
                    )
                    last = max(event.at for event in self.reached(client, version))
                    self.times.setdefault(method, []).append(max(0, last - began) / 1e9)
            self.report(f"client-go, {resource.plural}")
            self.assertEqual([], [event for event in client.events if event.kind == "error"])

    @staticmethod
    def reached(client, version):
        events = list(client.events)
        return [e for e in events if e.kind == "reached" and e.fields["rv"] == version]

    def test_json(self):
        self.follow("json", resources.CONFIG_MAPS)
        self.walk_with("JSON")

    def test_protobuf(self):
        self.follow("protobuf", resources.CONFIG_MAPS)
        self.walk_with("protobuf", objects.PROTOBUF)

    def test_custom(self):
        self.follow("json", resources.GEARS)
        self.walk_with("custom resources")

    def test_metadata(self):
        self.follow("partial", resources.GEARS)
        self.walk_with("metadata")

    def test_two_requirements(self):
        """Objects fail one of them, or both."""
        rules = [harness.limit(["configmaps", "gears"], "share in (a,b),other!=x")]
        self.localproxy = self.proxy(rules, args=self.args, control=True)
        self.follow("json", resources.CONFIG_MAPS)
        self.walk_with("two requirements")
        self.assertEqual(0, self.probes()["failed"])

    def test_large(self):
        """Of more than 128 KiB, which the API server sends in gzip to whom that is right; the
        annotation of a custom resource stands before its version."""
        for resource, accept in (
            (resources.CONFIG_MAPS, "application/json"),
            (resources.CONFIG_MAPS, objects.PROTOBUF),
            (resources.GEARS, "application/json"),
        ):
            self.follow("json", resource)
            for coding in (None, "gzip"):
                name = f"large-{objects.PROTOBUF == accept}-{coding}".lower()
                more = {"accept": accept, "fill": 240 * 1024, "coding": coding}
                self.step(f"large, {coding}", "POST", name, ELSEWHERE, **more)
            self.report(f"{resource.plural}, {accept}")

    def test_many_watches(self):
        """Of one collection: each is told of a write outside of all."""
        self.resource = resources.CONFIG_MAPS
        self.path = resources.path(self.resource, self.namespace)
        self.localproxy.wait_for_start_version()
        self.cluster.json(self.path, "POST", resources.body(self.resource, "first", SHARE))
        listed = json.loads(self.localproxy.fetch(self.path).body)["metadata"]["resourceVersion"]
        query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={listed}"
        watches = [self.localproxy.connect() for _ in range(100)]
        for watch in watches:
            self.addCleanup(watch.close)
            watch.send_head("GET", self.path + query)
            self.assertEqual(200, watch.read_head().status)
        version = self.write("POST", "outside", ELSEWHERE)
        began = time.monotonic()
        for watch in watches:
            event = json.loads(watch.read_some())
            self.assertEqual("BOOKMARK", event["type"])
            self.assertEqual(str(version), event["object"]["metadata"]["resourceVersion"])
        took = time.monotonic() - began
        informer_case.report(f"{len(watches)} watches: the last has its bookmark after {took:.2f} s")

    def test_nothing_is_asked_for_what_is_in_the_share(self):
        self.follow("json", resources.CONFIG_MAPS)
        for i in range(self.rounds):
            self.step("create inside", "POST", f"x-{i}", SHARE)
            self.step("update inside", "PATCH", f"x-{i}", {"share": "b"})
        self.assertEqual({"written": 0, "overtaken": 0, "failed": 0}, self.probes())

    def test_deleted(self):
        """One with a finalizer is an object with a version still; one that is gone has none, and
        the informer cannot wait for it."""
        self.follow("json", resources.CONFIG_MAPS)
        thing = resources.body(self.resource, "held", ELSEWHERE)
        thing["metadata"]["finalizers"] = ["cmesh.example/held"]
        self.cluster.json(self.path, "POST", thing)
        self.step("delete outside", "DELETE", "held")
        self.report("deleted")
        change = [{"op": "remove", "path": "/metadata/finalizers"}]
        self.cluster.json(f"{self.path}/held", "PATCH", change, "application/json-patch+json")
        self.write("POST", "gone", ELSEWHERE)
        self.assertIsNone(self.write("DELETE", "gone"))
