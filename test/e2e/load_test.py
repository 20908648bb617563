# SPDX-License-Identifier: Apache-2.0
"""What each bucket of namespaces costs: localproxy counts requests, events and objects in every form
in which a client may have them, and nothing else."""

import gzip
import json

import harness
import objects

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


if __name__ == "__main__":
    harness.main()
