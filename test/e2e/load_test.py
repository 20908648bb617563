# SPDX-License-Identifier: Apache-2.0
"""What each bucket of namespaces costs: localproxy counts requests, events and objects in every form
in which a client may have them, and nothing else; and buckets move by it."""

import gzip
import json
import socket
import threading
import time

import harness
import mesh
import objects
import wire

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
BIG = 150_000  # bytes: API servers compress what is larger than 128 KiB
NONE = [0, 0, 0]


def bucket_of(namespace):
    """As core/rules/sharding.h has it."""
    h = 0
    for c in namespace:
        h = (h * 33 + ord(c)) % 32
    return h


def two_buckets(case):
    """Two new namespaces of different buckets."""
    first = harness.make_namespace(harness.cluster(), "load", case.addCleanup)
    while True:
        second = harness.make_namespace(harness.cluster(), "load", case.addCleanup)
        if bucket_of(second) != bucket_of(first):
            return first, second


class Counts:
    """`load` of /status: [requests, events, objects] by bucket."""

    def __init__(self, proxy):
        self.load = proxy.status()["load"]

    def of(self, namespace):
        return self.load["buckets"].get(str(bucket_of(namespace)), NONE)

    def others(self):
        return self.load.get("others", NONE)

    def unread(self):
        return self.load.get("unread", 0)


def difference(after, before):
    return [a - b for a, b in zip(after, before)]


class CountTest(harness.TestCase):
    """ConfigMaps of two namespaces that are in two buckets; three in a, two in b."""

    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.a, self.b = two_buckets(self)
        self.label = self.a
        for namespace, count in ((self.a, 3), (self.b, 2)):
            for n in range(count):
                self.create(namespace, f"c-{n}")
        limits = [harness.limit(["configmaps"], f"load={self.label}")]
        self.counting = self.proxy(limits, args=["--count-load"])

    def create(self, namespace, name, data="x"):
        meta = {"name": name, "labels": {"load": self.label}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.cluster.json(path, "POST", {"metadata": meta, "data": {"x": data}})

    def ask(self, target, accept="application/json", *headers):
        answer = self.counting.fetch(target, headers=[("Accept", accept), *headers])
        self.assertEqual(200, answer.status, answer)
        return answer

    def check(self, target, accept, requests, objects_of, unread=0, headers=()):
        """What one list adds: requests by namespace ("" of none), objects of a and of b."""
        before = Counts(self.counting)
        answer = self.ask(target, accept, *headers)
        after = Counts(self.counting)
        for namespace, number in zip((self.a, self.b), objects_of):
            wanted = [requests.get(namespace, 0), 0, number]
            self.assertEqual(wanted, difference(after.of(namespace), before.of(namespace)), accept)
        self.assertEqual([requests.get("", 0), 0, 0], difference(after.others(), before.others()))
        self.assertEqual(unread, after.unread() - before.unread(), accept)
        return answer

    def test_lists_in_every_form(self):
        every = "/api/v1/configmaps"
        one = f"/api/v1/namespaces/{self.b}/configmaps"
        for accept in (
            "application/json",
            "application/json;pretty=1",
            objects.PROTOBUF,
            TABLE,
            "application/json" + METADATA,
            objects.PROTOBUF + METADATA,
        ):
            with self.subTest(accept=accept):
                self.check(every, accept, {"": 1}, (3, 2))
                self.check(one, accept, {self.b: 1}, (0, 2))
        self.check(every, "application/yaml", {"": 1}, (0, 0), unread=1)

    def test_pages(self):
        page = json.loads(self.check("/api/v1/configmaps?limit=4", "*/*", {"": 1}, (3, 1)).body)
        token = page["metadata"]["continue"]
        self.check(f"/api/v1/configmaps?limit=4&continue={token}", "*/*", {"": 1}, (0, 1))

    def test_compressed_lists(self):
        self.create(self.a, "big", "y" * BIG)
        for accept in ("application/json", objects.PROTOBUF):
            asked = [("Accept-Encoding", "gzip")]
            answer = self.check("/api/v1/configmaps", accept, {"": 1}, (4, 2), headers=asked)
            self.assertEqual("gzip", answer.get("Content-Encoding"))
            self.assertIn(b"y" * BIG, gzip.decompress(answer.body))

    def test_what_has_no_namespace_and_what_is_no_list(self):
        before = Counts(self.counting)
        self.ask("/api/v1/namespaces")
        self.ask(f"/api/v1/namespaces/{self.a}/configmaps/c-0")
        self.ask("/version")
        after = Counts(self.counting)
        self.assertEqual([1, 0, 0], difference(after.of(self.a), before.of(self.a)))
        others = difference(after.others(), before.others())
        self.assertEqual((1, 0), (others[0], others[1]))
        self.assertGreater(others[2], 2)

    def churn(self, namespace):
        """Three events of one object."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.create(namespace, "new")
        merge = "application/merge-patch+json"
        self.cluster.json(f"{path}/new", "PATCH", {"data": {"x": "z"}}, merge)
        self.cluster.json(f"{path}/new", "DELETE")

    def follow(self, target, accept):
        """Lists and watches."""
        version = json.loads(self.ask(target).body)["metadata"]["resourceVersion"]
        connection = self.counting.connect()
        self.addCleanup(connection.close)
        watch = f"{target}?watch=1&resourceVersion={version}"
        connection.send_head("GET", watch, [("Accept", accept)])
        self.assertEqual(200, connection.read_head().status)
        return connection

    def test_watches_in_every_form(self):
        for accept in (
            "application/json",
            objects.PROTOBUF + ";stream=watch",
            TABLE,
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            objects.PROTOBUF + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io;stream=watch",
        ):
            with self.subTest(accept=accept):
                self.check_watch(accept)

    def check_watch(self, accept):
        every = self.follow("/api/v1/configmaps", accept)
        one = self.follow(f"/api/v1/namespaces/{self.b}/configmaps", accept)
        before = Counts(self.counting)
        self.churn(self.a)
        self.churn(self.b)
        self.churn(self.b)

        def come():
            after = Counts(self.counting)
            return (
                difference(after.of(self.a), before.of(self.a)),
                difference(after.of(self.b), before.of(self.b)),
            )

        wanted = ([0, 3, 0], [0, 12, 0])  # what is in b is in both watches
        harness.wait_for(lambda: come() == wanted, "all events have passed")
        self.assertEqual(before.others(), Counts(self.counting).others())
        every.close()
        one.close()

    def test_metrics_say_the_same(self):
        self.ask("/api/v1/configmaps")
        self.ask(f"/api/v1/namespaces/{self.a}/configmaps")
        counts, metrics = Counts(self.counting), self.counting.metrics()
        for bucket, wanted in [*counts.load["buckets"].items(), ("none", counts.others())]:
            for kind, number in zip(("requests", "events", "objects"), wanted):
                name = f'cmesh_proxy_bucket_{kind}_total{{bucket="{bucket}"}}'
                self.assertEqual(number, metrics[name], name)
        self.assertEqual(0, metrics["cmesh_proxy_bucket_unread_total"])

    def test_nothing_is_told_without_the_flag(self):
        proxy = self.proxy([harness.limit(["configmaps"], f"load={self.label}")])
        self.assertEqual(200, proxy.fetch("/api/v1/configmaps").status)
        self.assertNotIn("load", proxy.status())
        self.assertNotIn("cmesh_proxy_bucket_requests_total", str(proxy.metrics()))


# ---- by load ----


class Informer(threading.Thread):
    """An operator's: lists ConfigMaps through a localproxy and watches them, once."""

    def __init__(self, case, proxy):
        super().__init__(daemon=True)
        listed = json.loads(proxy.fetch("/api/v1/configmaps").body)
        self.seen = set()
        self.ended = False
        self.connection = proxy.connect()
        version = listed["metadata"]["resourceVersion"]
        self.connection.send_head("GET", f"/api/v1/configmaps?watch=1&resourceVersion={version}")
        self.status = self.connection.read_head().status
        case.addCleanup(self.end)
        self.start()

    def run(self):
        rest = b""
        try:
            while piece := self.connection.read_some():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self.seen.add(json.loads(line)["object"]["metadata"].get("namespace"))
        except (OSError, wire.Cut):
            pass
        self.ended = True

    def end(self):
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.join(30)
        self.connection.close()


class Writer(threading.Thread):
    """Changes a ConfigMap of each namespace so many times a second."""

    def __init__(self, case, rates):
        super().__init__(daemon=True)
        self.cluster = case.cluster
        self.rates = rates
        self.written = {namespace: 0 for namespace in rates}
        self.stop = threading.Event()
        case.addCleanup(self.end)
        self.start()

    def run(self):
        begun = time.monotonic()
        while not self.stop.wait(0.02):
            for namespace, rate in self.rates.items():
                if self.written[namespace] < rate * (time.monotonic() - begun):
                    self.written[namespace] += 1
                    self.write(namespace, self.written[namespace])

    def write(self, namespace, number):
        path = f"/api/v1/namespaces/{namespace}/configmaps/c"
        patch = {"data": {"x": str(number)}}
        self.cluster.json(path, "PATCH", patch, "application/merge-patch+json")

    def end(self):
        self.stop.set()
        self.join(30)


class RebalanceTest(mesh.MeshTestCase):
    """A root of two shards with a pod each. The manager's minutes are two seconds long, so that what
    takes five of them takes ten."""

    def setUp(self):
        super().setUp()
        mesh.install(self.addCleanup)

    def labelled_namespace(self, *buckets):
        """A new one with one of these buckets, and a ConfigMap c, as the manager labels it."""
        number = 0
        while bucket_of(name := f"{self.namespace}-{number}") not in buckets:
            number += 1
        self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": name}})
        self.addCleanup(self.cluster.fetch, f"/api/v1/namespaces/{name}", "DELETE")
        labels = {harness.NAMESPACE_LABEL: name, harness.HASH_LABEL: str(bucket_of(name))}
        meta = {"name": "c", "labels": labels}
        path = f"/api/v1/namespaces/{name}/configmaps"
        self.cluster.json(path, "POST", {"metadata": meta})
        return name

    def root(self):
        limit = {"relateResources": [{"apiGroups": [""], "resources": ["configmaps"]}]}
        auto = {"everyShardReplicas": 1, "shardingSize": 2, "rebalance": {"maxMovesPerHour": 32}}
        return {
            "apiVersion": f"{mesh.GROUP}/v1alpha1",
            "kind": "ShardingConfig",
            "metadata": {"name": "r"},
            "spec": {
                "root": {
                    "prefix": "op",
                    "targetStatefulSet": "op",
                    "auto": auto,
                    "resourceSelector": [limit],
                }
            },
        }

    def shard_pod(self, number):
        labels = {"statefulset.kubernetes.io/pod-name": f"op-{number - 1}"}
        pod = self.pod(f"op-{number - 1}", f"op-{number}-normal", labels)
        pod.proxy_args = ["--count-load"]
        pod.start()
        return pod

    def buckets(self, number):
        annotations = self.get(f"op-{number}-normal")["metadata"]["annotations"]
        return annotations[f"{mesh.GROUP}/auto-sharding-buckets"]

    def events(self, reason):
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=reason={reason}"
        return [item["message"] for item in self.cluster.json(path)["items"]]

    def test_a_skewed_load_leads_to_one_move(self):
        low, high = range(16), range(16, 32)
        first = self.labelled_namespace(*low)
        second = self.labelled_namespace(*(b for b in low if b != bucket_of(first)))
        others = [b for b in low if b not in (bucket_of(first), bucket_of(second))]
        third = self.labelled_namespace(*others)
        fourth = self.labelled_namespace(*high)
        manager = self.start_manager(
            "--leader-elect=false", "--probe-interval", "1",
            program=harness.program("quick_manager", "test/support"),
        )  # fmt: skip
        self.apply(self.root())
        harness.wait_for(lambda: self.map_of("op-2-normal"), "the rules of both shards")
        pods = [self.shard_pod(number) for number in (1, 2)]
        self.wait_condition("r", "Ready", "True", "Enforced")
        self.assertEqual(("0-15", "16-31"), (self.buckets(1), self.buckets(2)))
        counted = self.get("op-1-normal")["metadata"]["annotations"][f"{mesh.GROUP}/count-load"]
        self.assertEqual("true", counted)
        informers = [Informer(self, pod.proxy) for pod in pods]
        writer = Writer(self, {first: 8, second: 8, third: 4, fourth: 2})

        moved = harness.wait_for(lambda: self.events("Rebalanced"), "a bucket moves")
        self.wait_condition("r", "Ready", "True", "Enforced")
        harness.wait_for(lambda: self.buckets(1) != "0-15", "the first shard has given it up")
        bucket = next(b for b in (bucket_of(first), bucket_of(second)) if f"ucket {b} " in moved[0])
        namespace = first if bucket == bucket_of(first) else second
        harness.wait_for(lambda: namespace in informers[1].seen, "the other one sees it")
        kept = self.buckets(1), self.buckets(2)
        root = self.get("r")["status"]["root"]
        self.assertEqual(1, len(root["moves"]))
        self.assertIn(bucket, [row["bucket"] for row in root["load"]])

        # For as long again, and five minutes more, nothing moves back or forth.
        changes = manager.metrics()["cmesh_manager_root_buckets_moved_total"]
        self.assertEqual(1, changes)
        enough = writer.written[first] + 24 * 8
        harness.wait_for(lambda: writer.written[first] >= enough, "the load has gone on")
        self.assertEqual(kept, (self.buckets(1), self.buckets(2)))
        self.assertEqual(1, manager.metrics()["cmesh_manager_root_buckets_moved_total"])
        self.assertEqual(1, len(self.events("Rebalanced")))
        self.assertEqual([(200, False)] * 2, [(i.status, i.ended) for i in informers])
        carried = [s["loadPercent"] for s in self.get("r")["status"]["root"]["shards"]]
        self.assertLess(max(carried), 63, carried)


if __name__ == "__main__":
    harness.main()
