# SPDX-License-Identifier: Apache-2.0
"""localproxy changes nothing but what a shard sees: each request is sent to the API server directly
and through localproxy, and the answers are the same, byte for byte.

For lists, watches and deletions of limited resources the direct request carries the selector
itself. Dates and the API server's audit ids differ by nature. Where other things can change between
two requests, the direct one is made before and after the other until it has stood still meanwhile.
"""

import base64
import concurrent.futures
import gzip
import json
import random
import re
import ssl
import urllib.parse

import harness
import objects
import pki
import upstream
import wire

# A watch ends after so long; all events of the past must have come before, on a busy machine too:
# of one alone, and of many at once.
WATCH_S = 3
MANY_WATCHES_S = 10
JSON_TYPE = ("Content-Type", "application/json")
MERGE = ("Content-Type", "application/merge-patch+json")
JSON_PATCH = ("Content-Type", "application/json-patch+json")
STRATEGIC = ("Content-Type", "application/strategic-merge-patch+json")
APPLY = ("Content-Type", "application/apply-patch+yaml")
PROTOBUF_TYPE = ("Content-Type", objects.PROTOBUF)

MEDIA_TYPES = (
    "*/*",
    "application/json",
    "application/json;pretty=1",
    "application/yaml",
    objects.PROTOBUF,
    objects.PROTOBUF + ",application/json",
    "application/json;q=0.5, application/yaml;q=0.9",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    objects.PROTOBUF + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=Nonsense;v=v1;g=meta.k8s.io",
    "text/html",
    "application/xml",
)

# What belongs to one connection or one moment.
OWN_HEADERS = {"date", "audit-id", "connection", "keep-alive"}
FRAMING = {"transfer-encoding", "content-length"}

AGE = re.compile(rb'"[0-9]+s"')
UID = re.compile(rb'"uid": ?"[0-9a-f-]{36}"|uid: [0-9a-f-]{36}')
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def quoted(text):
    return urllib.parse.quote(text, safe="")


def encoded(thing):
    return json.dumps(thing).encode()


def headers_of(answer):
    """Those that must be the same, in their order and spelling."""
    leave_out = OWN_HEADERS | FRAMING
    return [(name, value) for name, value in answer.head.headers if name.lower() not in leave_out]


def framing_of(answer):
    """How the body is delimited. Where these headers stand is each sender's own affair."""
    return {name: value for name, value in answer.head.headers if name.lower() in FRAMING}


def without_identity(body):
    """Of objects that are made anew for each answer."""
    return TIME.sub(b"TIME", UID.sub(b"UID", body))


def without_ages(body):
    """Of Tables, in which each object's age is printed."""
    return AGE.sub(b'"AGE"', body)


def sorted_items(body):
    """Of lists at version 0, which come from a cache that keeps no order."""
    document = json.loads(body)
    if "items" in document:
        document["items"].sort(key=lambda thing: thing["metadata"]["name"])
    return document


def sorted_events(body):
    """Of watches from version 0, which begin with what that cache has."""
    return sorted(body.splitlines())


def without_current_version(body):
    """Of errors that tell it."""
    return re.sub(rb"current: [0-9]+", b"current: N", body)


def metric_names(body):
    """Of /metrics, where the values never stand still."""
    return {line.split(b" ")[2] for line in body.splitlines() if line.startswith(b"# TYPE")}


def first_difference(left, right):
    """For messages: where two long bodies part."""
    shorter = min(len(left), len(right))
    at = next((i for i in range(shorter) if left[i] != right[i]), shorter)
    begin = max(0, at - 80)
    shown = f"{left[begin:at + 160]!r}\n{right[begin:at + 160]!r}"
    return f"bodies of {len(left)} and {len(right)} bytes differ at {at}:\n{shown}"


class CompareTestCase(harness.TestCase):
    """A namespace half of which is the shard's, and a localproxy that shows that half."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        cls.namespace = harness.make_namespace(cls.cluster, "compare", cls.addClassCleanup)
        cls.base = f"/api/v1/namespaces/{cls.namespace}"
        cls.selector = f"app in ({cls.namespace},foo),fixture={cls.namespace}"
        cls.limited = ["pods", "configmaps", "widgets"]
        cls.through = cls.class_proxy(
            [harness.limit(cls.limited, cls.selector)], args=["--resume-doubt=0"]
        )
        cls.fill()

    @classmethod
    def fill(cls):
        for number in range(8):
            meta = cls.meta(f"thing-{number}", "foo" if number % 2 else "bar")
            meta["labels"]["number"] = str(number)
            thing = {"metadata": meta, "data": {"k": "v"}}
            cls.cluster.json(f"{cls.base}/configmaps", "POST", thing)
            spec = {"containers": [{"name": "main", "image": "example.com/main:1"}]}
            spec["automountServiceAccountToken"] = False  # it need not be there yet
            cls.cluster.json(f"{cls.base}/pods", "POST", {"metadata": meta, "spec": spec})
        cls.thing = f"{cls.base}/configmaps/thing-1"
        cls.pod = f"{cls.base}/pods/thing-1"

    @classmethod
    def meta(cls, name, app="foo"):
        return {"name": name, "labels": {"fixture": cls.namespace, "app": app}}

    def narrowed(self, target):
        """The target with the selector in it, which a client without localproxy would send."""
        own = re.search(r"[?&]labelSelector=([^&]*)", target)
        if own is None:
            return f"{target}{'&' if '?' in target else '?'}labelSelector={quoted(self.selector)}"
        both = quoted(self.selector) + ("%2C" + own[1] if own[1] else "")
        return target[: own.start(1)] + both + target[own.end(1) :]

    def direct(self, target, method="GET", headers=(), body=None, **more):
        return self.cluster.fetch(target, method, headers, body, **more)

    def steady(self, ask_directly, ask_through, view):
        """Both answers, at a moment at which the direct one did not change."""

        def ask():
            before = ask_directly()
            answer = ask_through()
            after = ask_directly()
            same = view(before.body) == view(after.body) and before.status == after.status
            return (before, answer) if same else None

        return harness.wait_for(ask, "the API server's own answers stand still", interval=0)

    def assert_same(self, expected, answer, view=bytes, version="1.1"):
        self.assertEqual(expected.status, answer.status, (expected, answer))
        self.assertEqual(expected.head.reason, answer.head.reason)
        self.assertEqual(headers_of(expected), headers_of(answer))
        if version == "1.1":
            # Over HTTP/2 servers in Go say the length of longer answers.
            length = {"Content-Length": str(len(answer.body))}
            self.assertIn(framing_of(answer), (framing_of(expected), length))
        self.assertTrue(expected.complete and answer.complete)
        left, right = view(expected.body), view(answer.body)
        if left != right:
            self.fail(first_difference(left, right) if isinstance(left, bytes) else (left, right))

    def ask_through(self, *args, **more):
        """localproxy doubts once a version that was not learnt through it."""
        for _ in range(100):
            answer = self.through.fetch(*args, **more)
            if b"Expired" not in answer.body or b"cmesh: " not in answer.body:
                break  # as JSON and as protobuf
        return answer

    # pylint: disable-next=too-many-arguments
    def compare(self, target, method="GET", headers=(), body=None, *, direct=None, status=None,
                view=bytes, **more):  # fmt: skip
        """Asks both; returns localproxy's answer, which is the same. `direct`: the target of the
        direct request if that is another one; `status`: what both must answer,
        or several where API servers differ."""
        with self.subTest(method=method, target=target[:200], headers=headers):
            expected, answer = self.steady(
                lambda: self.direct(direct or target, method, headers, body, **more),
                lambda: self.ask_through(target, method, headers, body, **more),
                view,
            )
            self.assert_same(expected, answer, view, more.get("version", "1.1"))
            if status is not None:
                self.assertIn(answer.status, status if isinstance(status, tuple) else (status,))
            return answer
        return None

    def compare_limited(self, target, method="GET", headers=(), body=None, **more):
        return self.compare(target, method, headers, body, direct=self.narrowed(target), **more)


class ReadTest(CompareTestCase):
    """Lists and single objects."""

    def test_media_types(self):
        for accept in MEDIA_TYPES:
            headers = [("Accept", accept)]
            for kind in ("pods", "configmaps"):
                self.compare_limited(f"/api/v1/{kind}", headers=headers)
                self.compare_limited(f"{self.base}/{kind}", headers=headers)
            self.compare(f"{self.base}/serviceaccounts", headers=headers)
            self.compare(self.thing, headers=headers)
            self.compare(self.pod, headers=headers)
            self.compare(f"{self.base}/configmaps/missing", headers=headers)

    def test_a_limited_list_is_half_of_it(self):
        """What the other tests compare with is not empty and not everything."""
        for accept in ("application/json", objects.PROTOBUF):
            answer = self.compare_limited(f"{self.base}/pods", headers=[("Accept", accept)])
            self.assertEqual(
                [f"thing-{number}" for number in (1, 3, 5, 7)],
                [item.name for item in objects.read_list(answer)],
            )

    LIST_QUERIES = (
        "?",
        "?&",
        "?&&&",
        "?=",
        "?limit",
        "?limit=",
        "?limit=2",
        "?limit=x",
        "?limit=-1",
        "?limit=2&limit=3",
        "?pretty=true",
        "?pretty=false&&limit=1&",
        "?unknown=1&other=%20&%41=b",
        "?resourceVersion=0",
        "?resourceVersion=0&limit=2",
        "?resourceVersion=0&resourceVersionMatch=NotOlderThan",
        "?resourceVersion=0&resourceVersionMatch=Exact",
        "?resourceVersionMatch=Exact",
        "?resourceVersion=abc",
        "?resourceVersion=0&resourceVersionMatch=Nonsense",
        "?timeoutSeconds=5",
        "?watch=false",
        "?watch=0",
        "?labelSelector=",
        "?labelSelector=number%3D1",
        "?labelSelector=number=1",
        "?labelSelector=number%20in%20(1,2,3)",
        "?labelSelector=number+in+(1,%202,3)",
        "?labelSelector=%6eumber%3d3&limit=1",
        "?limit=1&labelSelector=app",
        "?labelSelector=!number",
        "?labelSelector=app!=foo",
        "?fieldSelector=metadata.name%3Dthing-1",
        "?fieldSelector=metadata.name=thing-2",
        "?fieldSelector=metadata.name!=thing-1&labelSelector=app%3Dfoo",
        "?fieldSelector=metadata.namespace%3Ddefault",
        "?fieldSelector=nonsense%3D1",
        "?fieldSelector=metadata.name",
        "?continue=nonsense",
        "?includeObject=Object",
        "?export=true&exact=true",
    )  # fmt: skip

    def test_queries_of_lists(self):
        for query in self.LIST_QUERIES:
            more = {"view": sorted_items if "resourceVersion=0" in query else bytes}
            for path in (f"{self.base}/configmaps", "/api/v1/pods"):
                self.compare_limited(path + query, **more)
            self.compare(f"{self.base}/serviceaccounts{query}", **more)

    def test_includeobject_of_tables(self):
        headers = [("Accept", MEDIA_TYPES[7])]
        for policy in ("None", "Metadata", "Object", "Nonsense"):
            self.compare_limited(f"{self.base}/pods?includeObject={policy}", headers=headers)

    def test_selectors_of_the_client_the_server_refuses(self):
        """The message names the client's own text, and that comes behind the shard's."""
        for own in ("%29", "a%3D%3D%3Db", "a%20in", "a%20in%20%28b", "-a%3Db", "%21%21a", "a%2C"):
            for path in (f"{self.base}/serviceaccounts", f"{self.base}/secrets"):
                self.compare(f"{path}?labelSelector={own}")
            self.compare_limited(f"{self.base}/pods?labelSelector={own}", status=400)

    def test_keys_written_otherwise(self):
        own = quoted("," + "number=3")
        mine = quoted(self.selector)
        for query, direct in (
            ("?label%53elector=number%3D3", f"?label%53elector={mine}{own}"),
            ("?limit=1&&label%53elector=number%3D3&", f"?limit=1&&labelSelector={mine}{own}&"),
            ("?labelSelector", f"?labelSelector={mine}"),
            ("?labelSelector=%20&limit=2", f"?labelSelector={mine}&limit=2"),
            ("?labelselector=x", f"?labelSelector={mine}"),
            ("?%zz&limit=3", f"?limit=3&labelSelector={mine}"),
            ("?limit=3&x=%", f"?limit=3&labelSelector={mine}"),
        ):
            path = f"{self.base}/configmaps"
            self.compare(path + query, direct=path + direct, status=200)

    def test_versions(self):
        """Lists at a version: also as everything was then."""
        path = f"{self.base}/configmaps"
        version = self.cluster.json(path)["metadata"]["resourceVersion"]
        meta = self.meta("late")
        self.cluster.json(path, "POST", {"metadata": meta})
        self.cluster.json(f"{path}/late", "DELETE")
        for match in ("", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"):
            for own in ("", "&limit=3", "&labelSelector=app%3Dfoo"):
                target = f"{path}?resourceVersion={version}{match}{own}"
                more = {"view": bytes if "Exact" in match else sorted_items}
                self.compare_limited(target, status=200, **more)
        for version in ("0", version, "", "-1", "1x"):
            self.compare(f"{self.thing}?resourceVersion={version}")

    def test_a_version_of_the_future(self):
        """The API server lets the client wait for it, in vain."""
        target = f"{self.base}/pods?resourceVersion=999999999"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            expected = pool.submit(self.direct, self.narrowed(target))
            answer = self.through.fetch(target)
        self.assert_same(expected.result(), answer, without_current_version)
        self.assertEqual((504, "1"), (answer.status, answer.get("Retry-After")))

    def walk(self, path, accept, limit, direct=False):
        """All pages: their items, and remainingItemCount of each."""
        names, remaining, token = [], [], ""
        while True:
            target = f"{path}?limit={limit}" + (f"&continue={quoted(token)}" if token else "")
            headers = [("Accept", accept)]
            if direct:
                answer = self.direct(self.narrowed(target), "GET", headers)
            else:
                answer = self.compare_limited(target, headers=headers, status=200)
            document = json.loads(answer.body)
            names += [item.name for item in objects.read_list(answer)]
            remaining.append(document["metadata"].get("remainingItemCount"))
            token = document["metadata"].get("continue", "")
            if not token:
                return names, remaining

    def test_pages(self):
        for kind in ("configmaps", "pods"):
            for accept in ("application/json", MEDIA_TYPES[7], MEDIA_TYPES[11]):
                for limit in (1, 3, 4):
                    path = f"{self.base}/{kind}"
                    pages = self.walk(path, accept, limit)
                    self.assertEqual(self.walk(path, accept, limit, direct=True), pages)
                    self.assertEqual([f"thing-{n}" for n in (1, 3, 5, 7)], pages[0])

    def test_unlimited_pages_tell_what_remains(self):
        answer = self.compare("/api/v1/namespaces?limit=1", status=200)
        meta = json.loads(answer.body)["metadata"]
        self.assertGreater(meta["remainingItemCount"], 0)
        self.compare(f"/api/v1/namespaces?limit=500&continue={meta['continue']}", status=200)

    def test_paths_written_otherwise(self):
        name = self.namespace
        for path in (
            "/api/v1/%6eamespaces",
            f"/api/v1/namespaces/%{ord(name[0]):02x}{name[1:]}",
            "/api/v1/namespaces/",
            "/api/v1/",
            "/api/",
            f"{self.base}/serviceaccounts/",
            f"{self.base}/configmaps/thing-1/",
            f"{self.base}/%63onfigmaps/thing-1",
            f"{self.base}/configmaps%2Fthing-1",
            f"{self.base}/configmaps/thing%2D1",
            f"{self.base}/configmaps/thing-1%20",
            f"{self.base}/configmaps/%C3%A4",
            f"{self.base}/configmaps/thing-1?",
            f"{self.base}/configmaps/thing-1?pretty=1&pretty=0&&",
            f"{self.base}/configmaps/a+b",
            f"{self.base}/configmaps/a:b@c;d=e,f",
            "/API/v1/namespaces",
        ):
            self.compare(path)
        for path in (
            "/%61pi/v1/pods",
            "/api/v1/%70ods",
            f"/api/v1/namespaces/{name}/%63onfig%6Daps",
            f"/api/v1/namespaces%2F{name}/pods",
            f"{self.base}/configmaps/",
            "/api/v1/pods/",
        ):
            self.compare_limited(path)

    def test_methods(self):
        for target in ("/api/v1/namespaces", self.thing, "/healthz", "/version", "/nope", "/apis"):
            for method in ("HEAD", "OPTIONS", "TRACE", "PROPFIND"):
                self.compare(target, method)
        for method in ("HEAD", "OPTIONS"):
            self.compare_limited(f"{self.base}/pods", method)

    def test_http_1_0(self):
        for headers in ([], [("Connection", "keep-alive")], [("Connection", "close")]):
            self.compare(self.thing, headers=headers, version="1.0", status=200)
            self.compare("/openapi/v2", headers=headers, version="1.0", status=200)
            self.compare_limited(f"{self.base}/pods", headers=headers, version="1.0", status=200)
            self.compare("/nope", headers=headers, version="1.0", status=404)
            path, body = f"{self.base}/configmaps?dryRun=All", encoded({"metadata": {"name": "x"}})
            more = {"version": "1.0", "view": without_identity, "status": 201}
            self.compare(path, "POST", [JSON_TYPE, *headers], body, **more)

    def test_client_headers_that_matter(self):
        for headers in (
            [("User-Agent", "Mozilla/5.0")],
            [("Accept", "application/yaml"), ("Accept", "application/json")],
            [("aCCEPT", "application/yaml")],
            [("Accept", "")],
            [("Origin", "https://example.com")],
            [("Cache-Control", "no-cache"), ("X-Empty", ""), ("X-Long", "x" * 6000)],
            [("Cookie", "a=b"), ("Cookie", "c=d"), ("Referer", "https://example.com/")],
            [("Range", "bytes=0-10")],
            [("If-None-Match", "*"), ("If-Modified-Since", "Sat, 29 Oct 1994 19:43:31 GMT")],
        ):
            self.compare(self.thing, headers=headers)
            self.compare_limited(f"{self.base}/pods", headers=headers)


class DiscoveryTest(CompareTestCase):
    """What is not about objects."""

    PATHS = (
        "/", "/nope", "/nope?a=b;c", "/index.html",
        "/api", "/api/v1", "/apis", "/apis/nope", "/apis/apps", "/apis/apps/v1", "/apis/apps/v9",
        "/version", "/version/", "/healthz", "/healthz/ping", "/healthz?verbose",
        "/livez", "/livez?verbose=true", "/readyz", "/readyz/nope",
        "/openapi/v2", "/openapi/v3", "/swagger.json",
        "/.well-known/openid-configuration", "/openid/v1/jwks",
    )  # fmt: skip

    def test_paths(self):
        for path in self.PATHS:
            self.compare(path)
            self.compare(path, headers=[("Accept", "application/yaml")])
            self.compare(path, headers=[("Accept", objects.PROTOBUF), ("Accept-Encoding", "gzip")])

    def test_metrics(self):
        answer = self.compare("/metrics", view=metric_names, status=200)
        self.assertIn(b"apiserver_request_total", answer.body)
        self.compare("/metrics", "HEAD", view=metric_names)

    def test_openapi_is_not_sent_twice(self):
        schema = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        for accept in ("application/json", schema):
            for coding in ("identity", "gzip"):
                self.compare_known_schema([("Accept", accept), ("Accept-Encoding", coding)])

    def compare_known_schema(self, headers):
        """It changes some time after each definition of a resource, also of other tests."""

        def is_known():
            known = self.compare("/openapi/v2", headers=headers, status=200).get("Etag")
            ask = [*headers, ("If-None-Match", known)]
            return self.compare("/openapi/v2", headers=ask).status == 304

        harness.wait_for(is_known, "the schema stands still", interval=0)

    @harness.needs("authorization.k8s.io")
    def test_reviews(self):
        """The identity is localproxy's."""
        spec = {"resourceAttributes": {"verb": "*", "resource": "*", "group": "*"}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self.compare(path, "POST", [JSON_TYPE], encoded({"spec": spec}), status=201)
        self.assertTrue(json.loads(answer.body)["status"]["allowed"])
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        spec["user"] = "jane"
        answer = self.compare(path, "POST", [JSON_TYPE], encoded({"spec": spec}), status=201)
        self.assertFalse(json.loads(answer.body)["status"]["allowed"])


class LargeTest(CompareTestCase):
    """Bodies that do not fit into one buffer."""

    @classmethod
    def fill(cls):
        pick = random.Random(7)
        words = [pick.randbytes(6).hex() for _ in range(400)]
        for number in range(40):
            meta = cls.meta(f"large-{number:02}", "foo" if number % 4 else "bar")
            data = {"text": " ".join(pick.choice(words) for _ in range(700))}
            cls.cluster.json(f"{cls.base}/configmaps", "POST", {"metadata": meta, "data": data})

    def test_gzip(self):
        for accept in ("application/json", "application/yaml", objects.PROTOBUF, MEDIA_TYPES[11]):
            for path in (f"{self.base}/configmaps", "/api/v1/configmaps"):
                headers = [("Accept", accept), ("Accept-Encoding", "gzip")]
                packed = self.compare_limited(path, headers=headers, status=200)
                plain = self.compare_limited(path, headers=headers[:1], status=200)
                if len(plain.body) > 128 * 1024:
                    self.assertEqual("gzip", packed.get("Content-Encoding"))
                    self.assertLess(len(packed.body), len(plain.body))
                    self.assertGreater(len(gzip.decompress(packed.body)), 128 * 1024)

    def test_gzip_is_the_same_list(self):
        headers = [("Accept-Encoding", "deflate, gzip")]
        answer = self.compare_limited(f"{self.base}/configmaps", headers=headers, status=200)
        names = [item.name for item in objects.json_list(gzip.decompress(answer.body))]
        self.assertEqual([f"large-{n:02}" for n in range(40) if n % 4], names)

    def huge(self, name):
        data = {"text": random.Random(8).randbytes(450_000).hex()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.meta(name), "data": data}

    def test_a_large_object(self):
        path = f"{self.base}/configmaps"
        body = encoded(self.huge("huge"))
        more = {"view": without_identity, "status": 201}
        for chunked in (False, True):
            self.compare(f"{path}?dryRun=All", "POST", [JSON_TYPE], body, chunked=chunked, **more)
        for chunked in (False, True):
            made = self.through.fetch(path, "POST", [JSON_TYPE], body, chunked=chunked)
            self.assertEqual(201, made.status, made)
            read = self.compare(f"{path}/huge", status=200)
            self.assertEqual(made.body, read.body)
            self.assertEqual(self.huge("huge")["data"], json.loads(read.body)["data"])
            self.assertEqual(200, self.through.fetch(f"{path}/huge", "DELETE").status)

    def test_a_large_update(self):
        path = f"{self.base}/configmaps"
        thing = self.cluster.json(path, "POST", self.huge("update"))
        self.addCleanup(self.cluster.fetch, f"{path}/update", "DELETE")
        thing["data"]["text"] = thing["data"]["text"][::-1]
        for chunked in (False, True):
            more = {"chunked": chunked, "status": 200}
            self.compare(f"{path}/update?dryRun=All", "PUT", [JSON_TYPE], encoded(thing), **more)
        updated = self.through.fetch(f"{path}/update", "PUT", [JSON_TYPE], encoded(thing))
        self.assertEqual(200, updated.status)
        for accept in ("application/json", objects.PROTOBUF, "application/yaml"):
            for coding in ("gzip", "identity"):
                headers = [("Accept", accept), ("Accept-Encoding", coding)]
                self.compare(f"{path}/update", headers=headers, status=200)
        patch = encoded({"data": {"more": "x" * 50_000}})
        self.compare(f"{path}/update?dryRun=All", "PATCH", [MERGE], patch, status=200)
        packed = self.direct(f"{path}/update", headers=[("Accept", objects.PROTOBUF)]).body
        self.compare(f"{path}/update", "PUT", [PROTOBUF_TYPE], packed, status=200)

    @harness.needs("validation of ConfigMaps")
    def test_too_large_for_its_kind(self):
        thing = {"metadata": self.meta("too-large"), "data": {"text": "x" * 1_100_000}}
        self.compare(f"{self.base}/configmaps", "POST", [JSON_TYPE], encoded(thing), status=422)

    def test_too_large(self):
        for chunked in (False, True):
            body = b" " * 3_300_000  # above the API server's limit of 3 MiB
            more = {"chunked": chunked, "status": 413}
            self.compare(f"{self.base}/configmaps", "POST", [JSON_TYPE], body, **more)


class WriteTest(CompareTestCase):
    """Writes that change nothing: dry runs, and updates to what is there."""

    def test_creates(self):
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.meta("new")}
        agent = ("User-Agent", "an-operator/v1")
        for path in (f"{self.base}/configmaps", f"{self.base}/secrets"):
            if path.endswith("secrets"):
                thing["kind"] = "Secret"
            for accept in MEDIA_TYPES:
                if objects.PROTOBUF in accept:
                    continue  # holds identities that the view does not see
                headers = [JSON_TYPE, agent, ("Accept", accept)]
                target = f"{path}?dryRun=All&fieldManager=me"
                view = {"view": without_identity}
                self.compare(target, "POST", headers, encoded(thing), **view)
                self.compare(target, "POST", headers, encoded(thing), chunked=True, **view)
        answer = self.compare(
            f"{self.base}/secrets?dryRun=All",
            "POST",
            [agent, ("Content-Type", "application/yaml")],
            b"apiVersion: v1\nkind: Secret\nmetadata: {name: made-of-yaml}\ndata: {a: Yg==}\n",
            view=without_identity,
            status=201,
        )
        managers = {m["manager"] for m in json.loads(answer.body)["metadata"]["managedFields"]}
        self.assertEqual({"an-operator"}, managers)

    def test_updates(self):
        for path in (self.thing, self.pod):
            body = self.direct(path).body
            self.direct(path, "PUT", [JSON_TYPE], body)  # from now on an update changes nothing
            for accept in ("application/json", objects.PROTOBUF, "application/yaml"):
                for query in ("", "?dryRun=All", "?dryRun=All&fieldManager=me"):
                    body = self.direct(path, headers=[("Accept", accept)]).body
                    headers = [("Content-Type", accept), ("Accept", accept)]
                    for chunked in (False, True):
                        more = {"chunked": chunked, "status": 200}
                        self.compare(path + query, "PUT", headers, body, **more)

    def test_patches(self):
        labels = encoded({"metadata": {"labels": {"more": "1"}}})
        ops = encoded([{"op": "add", "path": "/metadata/labels/more", "value": "1"}])
        failing = encoded([{"op": "test", "path": "/metadata/name", "value": "x"}])
        for path in (self.thing, self.pod):
            target = f"{path}?dryRun=All"
            for kind in (MERGE, STRATEGIC):
                self.compare(target, "PATCH", [kind], labels, status=200)
                self.compare(target, "PATCH", [kind], b"{", status=(400, 500))
            self.compare(target, "PATCH", [JSON_PATCH], ops, status=200)
            self.compare(target, "PATCH", [JSON_PATCH], failing, status=422)
            self.compare(target, "PATCH", [JSON_PATCH], labels, status=400)
            self.compare(target, "PATCH", [("Content-Type", "text/plain")], labels, status=415)
            self.compare(target, "PATCH", [], labels, status=415)
            self.compare(target, "PATCH", [MERGE], labels, chunked=True, status=200)

    def test_server_side_apply(self):
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  k: %s\n"
        for name, value, query, status in (
            ("thing-1", "v", "fieldManager=me", 200),
            ("thing-1", "other", "fieldManager=me", 409),
            ("thing-1", "other", "fieldManager=me&force=true", 200),
            ("thing-1", "v", "", 422),
            ("thing-2", "v", "fieldManager=me", 400),
        ):
            body = (text % (name, value)).encode()
            target = f"{self.thing}?dryRun=All&{query}"
            self.compare(target, "PATCH", [APPLY], body, status=status)
        target = f"{self.base}/configmaps/made-by-apply?dryRun=All&fieldManager=me"
        body = (text % ("made-by-apply", "v")).encode()
        self.compare(target, "PATCH", [APPLY], body, status=201, view=without_identity)

    def test_deletes(self):
        for path in (self.thing, self.pod):
            self.compare(f"{path}?dryRun=All", "DELETE", status=200)
            options = {"dryRun": ["All"], "propagationPolicy": "Background"}
            self.compare(path, "DELETE", [JSON_TYPE], encoded(options))
            options["preconditions"] = {"uid": "0"}
            self.compare(path, "DELETE", [JSON_TYPE], encoded(options), status=409)
            self.compare(path, "DELETE", [JSON_TYPE], b"nonsense", status=(400, 500))
            self.compare(f"{path}?dryRun=Some", "DELETE", status=422)

    def test_deletecollection(self):
        options = encoded({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
        for kind in ("pods", "configmaps"):
            path = f"{self.base}/{kind}"
            one = "fieldSelector=metadata.name%3Dthing-1"
            for query in ("", "labelSelector=number%3D3", "limit=2", one):
                target = f"{path}?dryRun=All&{query}"
                answer = self.compare_limited(target, "DELETE", status=200)
                self.assertNotIn(b"thing-2", answer.body)
            self.compare_limited(path, "DELETE", [JSON_TYPE], options, status=200)
            self.compare_limited(f"{path}?dryRun=Some", "DELETE")
        self.compare(f"{self.base}/serviceaccounts?dryRun=All", "DELETE", status=200)

    @harness.needs("subresources of pods")
    def test_subresources(self):
        self.compare(f"{self.pod}/status", status=200)
        patch = encoded({"status": {"message": "hello"}})
        self.compare(f"{self.pod}/status?dryRun=All", "PATCH", [MERGE], patch, status=200)
        for name in ("log", "exec", "attach", "portforward", "proxy", "eviction", "binding", "x"):
            self.compare(f"{self.pod}/{name}")
        self.compare(f"{self.pod}/exec?command=ls&stdout=true", "POST")
        eviction = {"metadata": {"name": "thing-1"}, "deleteOptions": {"dryRun": ["All"]}}
        self.compare(f"{self.pod}/eviction", "POST", [JSON_TYPE], encoded(eviction), status=201)
        eviction["metadata"]["name"] = "thing-2"
        self.compare(f"{self.pod}/eviction", "POST", [JSON_TYPE], encoded(eviction), status=400)

    @harness.needs("ReplicaSets")
    def test_scale(self):
        labels = {"app": "scaled"}
        spec = {"containers": [{"name": "main", "image": "example.com/main:1"}]}
        template = {"metadata": {"labels": labels}, "spec": spec}
        thing = {"metadata": {"name": "scaled"}}
        thing["spec"] = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
        self.cluster.json(path, "POST", thing)
        scale = self.compare(f"{path}/scaled/scale", status=200)
        target = f"{path}/scaled/scale?dryRun=All"
        self.compare(target, "PATCH", [MERGE], encoded({"spec": {"replicas": 3}}), status=200)
        changed = json.loads(scale.body)
        changed["spec"]["replicas"] = 2
        changed["metadata"].pop("resourceVersion")
        self.compare(target, "PUT", [JSON_TYPE], encoded(changed), status=200)

    def test_errors(self):
        thing = encoded({"metadata": self.meta("thing-1")})
        stale = encoded({"metadata": {"name": "thing-1", "resourceVersion": "1"}})
        nameless = encoded({"metadata": {"name": "Not A Name"}})
        things = f"{self.base}/configmaps"
        for method, target, headers, body, status in (
            ("GET", f"{things}/missing", [], None, 404),
            ("GET", "/apis/nope.example.com/v1/things", [], None, 404),
            ("DELETE", f"{things}/missing", [], None, 404),
            ("POST", "/api/v1/namespaces/missing-namespace/configmaps", [JSON_TYPE], thing, 404),
            ("PUT", f"{things}/missing", [JSON_TYPE], thing, 400),
            ("POST", self.thing, [JSON_TYPE], thing, 405),
            ("PUT", things, [JSON_TYPE], thing, 405),
            ("DELETE", "/api/v1/namespaces", [], None, 405),
            ("PATCH", things, [MERGE], b"{}", 405),
            ("GET", self.thing, [("Accept", "application/xml")], None, 406),
            ("POST", things, [JSON_TYPE], thing, 409),
            ("PUT", self.thing, [JSON_TYPE], stale, 409),
            ("POST", things, [("Content-Type", "application/xml")], thing, 415),
            ("POST", things, [JSON_TYPE], nameless, 422),
            ("POST", things, [JSON_TYPE], b"", 400),
            ("POST", things, [JSON_TYPE], b"{", 400),
            ("POST", things, [JSON_TYPE], b'{"kind":"Pod","apiVersion":"v1"}', 400),
            ("POST", things, [PROTOBUF_TYPE], b"k8s\0nonsense", 400),
            ("POST", things, [("Content-Type", "application/yaml")], b"a: [", 400),
            ("POST", f"{things}?dryRun=Some", [JSON_TYPE], thing, 422),
        ):
            self.compare(target, method, headers, body, status=status)

    def test_expect_continue(self):
        """Both let the body come, and say the same then."""

        def ask(connection, method, target, body):
            headers = [JSON_TYPE, ("Content-Length", str(len(body))), ("Expect", "100-continue")]
            with connection:
                connection.send_head(method, target, headers)
                head = connection.read_head(method)
                if head.status == 100:
                    connection.send(body)
                    head = connection.read_head(method)
                return wire.Response(head, *connection.read_body(), [])

        thing = encoded({"metadata": self.meta("expected"), "data": {"text": "x" * 200_000}})
        for method, target, body, status in (
            ("POST", f"{self.base}/configmaps?dryRun=All", thing, 201),
            ("POST", f"{self.base}/configmaps?dryRun=All", b"{", 400),
            ("PUT", self.thing, self.direct(self.thing).body, 200),
            ("POST", "/apis/nope/v1/things", thing, 404),
        ):
            with self.subTest(target=target):
                tls = self.cluster.tls
                address = self.cluster.address
                expected, answer = self.steady(
                    lambda a=(method, target, body): ask(wire.Connection(address, tls=tls), *a),
                    lambda a=(method, target, body): ask(self.through.connect(), *a),
                    without_identity,
                )
                self.assert_same(expected, answer, without_identity)
                self.assertEqual(status, answer.status)

    def test_one_connection_for_all(self):
        """Bodies of every framing, one after the other, do not disturb each other."""
        with self.through.connect() as connection:
            for _ in range(3):
                self.assert_next(connection, "GET", "/nope")
                self.assert_next(connection, "HEAD", self.thing)
                self.assert_next(connection, "GET", "/openapi/v2")
                body = self.direct(self.thing).body
                self.assert_next(connection, "PUT", self.thing, [JSON_TYPE], body, chunked=True)
                self.assert_next(connection, "PUT", self.thing, [JSON_TYPE], body)
                self.assert_next(connection, "POST", f"{self.base}/configmaps", [JSON_TYPE], b"{")

    def assert_next(self, connection, method, target, headers=(), body=None, **more):
        expected, answer = self.steady(
            lambda: self.direct(target, method, headers, body, **more),
            lambda: connection.request(method, target, headers, body, **more),
            bytes,
        )
        self.assert_same(expected, answer)


class WatchTest(CompareTestCase):
    """The same events in the same order: of the past, so that both can be asked for them."""

    @classmethod
    def fill(cls):
        super().fill()
        path = f"{cls.base}/configmaps"
        cls.version = cls.cluster.json(path)["metadata"]["resourceVersion"]
        for app in ("bar", "foo", "bar", "foo", "foo"):
            for number in (1, 2, 3):
                patch = encoded({"metadata": {"labels": {"app": app}}, "data": {"at": app}})
                cls.cluster.fetch(f"{path}/thing-{number}", "PATCH", [MERGE], patch)
                cls.cluster.fetch(f"{cls.base}/pods/thing-{number}", "PATCH", [MERGE], patch)
        for number in (4, 5):
            cls.cluster.json(f"{path}/thing-{number}", "DELETE")
        cls.cluster.json(path, "POST", {"metadata": cls.meta("born"), "data": {"x": "y" * 300_000}})

    def targets(self):
        tail = f"timeoutSeconds={MANY_WATCHES_S}&resourceVersion={self.version}"
        for kind in ("configmaps", "pods"):
            path = f"{self.base}/{kind}"
            yield f"{path}?watch=true&{tail}"
            yield f"{path}?watch=1&{tail}"
            yield f"{path}?{tail}&watch=t&labelSelector=number%3D3"
            yield f"{path}?watch&{tail}"
            yield f"{path}?watch=&{tail}"
            yield f"/api/v1/{kind}?watch=True&{tail}"
            yield f"/api/v1/watch/namespaces/{self.namespace}/{kind}?{tail}"
            yield f"/api/v1/watch/{kind}?{tail}&watch=false"
            yield f"/api/v1/watch/namespaces/{self.namespace}/{kind}/thing-3?{tail}"
            yield f"{path}?watch=true&fieldSelector=metadata.name%3Dthing-1&{tail}"
            yield f"{path}?watch=yes&{tail}"
            yield f"{path}?watch=true&resourceVersion=abc"

    ACCEPT = ("application/json", objects.PROTOBUF_WATCH, MEDIA_TYPES[3], MEDIA_TYPES[7])

    def test_watches(self):
        """All at once, as they only end when their time is over."""
        cases = [(target, accept) for target in self.targets() for accept in self.ACCEPT]
        with concurrent.futures.ThreadPoolExecutor(2 * len(cases)) as pool:
            asked = []
            for target, accept in cases:
                headers = [("Accept", accept), ("Accept-Encoding", "gzip")]
                expected = pool.submit(self.direct, self.narrowed(target), "GET", headers)
                asked.append((expected, pool.submit(self.ask_through, target, "GET", headers)))
        events = 0
        for (target, accept), answers in zip(cases, asked):
            with self.subTest(target=target, accept=accept):
                expected, answer = (future.result() for future in answers)
                self.assert_same(expected, answer, without_ages if "Table" in accept else bytes)
                events += answer.status == 200 and answer.body.count(b"thing-")
        self.assertGreater(events, 200)

    def test_unlimited(self):
        account = {"metadata": {"name": "watched"}}
        self.cluster.json(f"{self.base}/serviceaccounts", "POST", account)
        target = f"{self.base}/serviceaccounts?watch=true&resourceVersion=0&timeoutSeconds={WATCH_S}"
        answer = self.compare(target, status=200, view=sorted_events)
        self.assertIn(b'"ADDED"', answer.body)

    def test_http_1_0(self):
        tail = f"timeoutSeconds={WATCH_S}&resourceVersion={self.version}"
        target = f"{self.base}/configmaps?watch=true&{tail}"
        self.compare_limited(target, version="1.0", status=200)


class CustomResourceTest(CompareTestCase):
    """A resource that the API server learns of at run time."""

    @classmethod
    def fill(cls):
        cls.group = f"{cls.namespace}.example.com"
        column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
            "additionalPrinterColumns": [column],
        }
        former = {**version, "name": "v0", "storage": False, "deprecated": True}
        former["deprecationWarning"] = "v0 of widgets is a former one"
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
        spec = {"group": cls.group, "scope": "Namespaced", "names": names}
        spec["versions"] = [version, former]
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        thing = {"metadata": {"name": f"widgets.{cls.group}"}, "spec": spec}
        cls.definition = f"{path}/widgets.{cls.group}"
        cls.cluster.json(path, "POST", thing)
        cls.addClassCleanup(cls.cluster.fetch, cls.definition, "DELETE")
        cls.widgets = f"/apis/{cls.group}/v1/namespaces/{cls.namespace}/widgets"
        harness.wait_for(lambda: cls.cluster.fetch(cls.widgets).status == 200, "widgets are served")
        for number in range(6):
            harness.wait_for(lambda n=number: cls.make(n), "the API server takes widgets")

    @classmethod
    def make(cls, number):
        """The API server refuses for a moment after it began to serve."""
        meta = cls.meta(f"widget-{number}", "foo" if number % 2 else "bar")
        thing = {"apiVersion": f"{cls.group}/v1", "kind": "Widget", "metadata": meta}
        thing["spec"] = {"size": number}
        return cls.cluster.fetch(cls.widgets, "POST", [JSON_TYPE], encoded(thing)).status == 201

    def test_reads(self):
        for accept in MEDIA_TYPES:
            headers = [("Accept", accept)]
            self.compare_limited(self.widgets, headers=headers)
            self.compare_limited(f"/apis/{self.group}/v1/widgets?limit=2", headers=headers)
            self.compare(f"{self.widgets}/widget-1", headers=headers)
            self.compare(self.definition, headers=headers)
        answer = self.compare_limited(self.widgets, headers=[("Accept", MEDIA_TYPES[7])])
        names = [row["cells"] for row in json.loads(answer.body)["rows"]]
        self.assertEqual([["widget-1", 1], ["widget-3", 3], ["widget-5", 5]], names)

    def test_warnings(self):
        path = self.widgets.replace("/v1/", "/v0/")
        for answer in (
            self.compare(f"{path}/widget-1", status=200),
            self.compare_limited(path, status=200),
            self.compare(f"{path}/widget-1?dryRun=All", "DELETE", status=200),
        ):
            self.assertIn("a former one", answer.get("Warning", ""))

    def test_discovery(self):
        for path in (f"/apis/{self.group}", f"/apis/{self.group}/v1", f"/apis/{self.group}/v2"):
            self.compare(path)

    def test_writes(self):
        path = f"{self.widgets}/widget-1"
        patch = encoded({"spec": {"size": 9}})
        self.compare(f"{path}?dryRun=All", "PATCH", [MERGE], patch, status=200)
        self.compare(f"{path}?dryRun=All", "PATCH", [STRATEGIC], patch, status=415)
        self.compare(f"{path}?dryRun=All", "PATCH", [JSON_TYPE], patch, status=415)
        self.compare(path, "PUT", [JSON_TYPE], self.direct(path).body, status=200)
        self.compare(f"{path}/scale", status=200)
        scale = encoded({"spec": {"replicas": 2}})
        self.compare(f"{path}/scale?dryRun=All", "PATCH", [MERGE], scale, status=200)
        self.compare(f"{path}/status", status=200)
        status = encoded({"status": {"size": 1}})
        self.compare(f"{path}/status?dryRun=All", "PATCH", [MERGE], status, status=200)
        self.compare(f"{path}?dryRun=All", "DELETE", status=200)
        self.compare_limited(f"{self.widgets}?dryRun=All", "DELETE", status=200)

    def test_watch(self):
        version = self.direct(f"{self.widgets}/widget-0").body
        version = json.loads(version)["metadata"]["resourceVersion"]
        for accept in ("application/json", MEDIA_TYPES[7]):
            tail = f"timeoutSeconds={WATCH_S}&resourceVersion={version}"
            target = f"{self.widgets}?watch=1&{tail}"
            headers = [("Accept", accept)]
            self.compare_limited(target, headers=headers, view=without_ages, status=200)


@harness.needs("RBAC, and no service accounts")
class IdentityTest(CompareTestCase):
    """Whoever asks localproxy: the API server sees localproxy, and whom it speaks for."""

    REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    REVIEW_BODY = encoded({"spec": {"resourceAttributes": {"verb": "*", "resource": "*"}}})

    def token(self):
        """Of a service account that may view this namespace."""
        accounts = f"{self.base}/serviceaccounts"
        request = {"spec": {"expirationSeconds": 3600}}
        answer = self.cluster.json(f"{accounts}/default/token", "POST", request)
        group = "rbac.authorization.k8s.io"
        account = {"kind": "ServiceAccount", "name": "default", "namespace": self.namespace}
        binding = {
            "metadata": {"name": "view"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
            "subjects": [account],
        }
        path = f"/apis/{group}/v1/namespaces/{self.namespace}/rolebindings"
        self.cluster.fetch(path, "POST", [JSON_TYPE], encoded(binding))
        return answer["status"]["token"]

    def fetch_as_anybody(self, target, headers):
        """Directly, with nothing but these headers."""
        tls = ssl.create_default_context(cafile=self.cluster.env["CLUSTER_CA"])
        return wire.fetch(self.cluster.address, target, headers=headers, tls=tls)

    def allowed(self, answer):
        self.assertEqual(201, answer.status, answer)
        return json.loads(answer.body)["status"]["allowed"]

    def test_impersonation(self):
        for headers, status in (
            ([("Impersonate-User", "jane")], 403),
            ([("Impersonate-User", "jane"), ("Impersonate-Group", "system:masters")], 200),
            (
                [
                    ("Impersonate-User", "jane"),
                    ("Impersonate-Group", "developers"),
                    ("Impersonate-Group", "system:masters"),
                    ("Impersonate-Extra-scopes", "view"),
                    ("Impersonate-Extra-scopes", "edit"),
                    ("Impersonate-Extra-acme.com%2fproject", "some-project"),
                ],
                200,
            ),
            ([("Impersonate-Group", "system:masters")], (400, 500)),
            ([("Impersonate-User", f"system:serviceaccount:{self.namespace}:other")], 403),
        ):
            self.compare(self.thing, headers=headers, status=status)
            self.compare_limited(f"{self.base}/pods", headers=headers, status=status)
            self.compare(self.REVIEW, "POST", [JSON_TYPE, *headers], self.REVIEW_BODY)

    def test_a_token_of_the_client_is_not_used(self):
        token = self.token()
        basic = base64.b64encode(b"jane:secret").decode()
        for value in (f"Bearer {token}", "Bearer wrong", f"Basic {basic}", "Nonsense"):
            headers = [("Authorization", value), JSON_TYPE]
            answer = self.through.fetch(self.REVIEW, "POST", headers, self.REVIEW_BODY)
            self.assertTrue(self.allowed(answer), value[:10])
            answer = self.through.fetch(self.thing, headers=headers)
            self.assert_same(self.direct(self.thing), answer)

    def test_a_client_certificate_is_not_used(self):
        """Of a user without rights, over TLS."""
        authority = self.authority()
        certificate, key = authority.server()
        paths = [f"--listen-tls-cert={certificate}", f"--listen-tls-key={key}"]
        proxy = self.proxy([harness.limit(self.limited, self.selector)], args=paths)
        tls = ssl.create_default_context(cafile=authority.certificate)
        cluster = self.cluster.env
        signer = pki.Authority(self.path("pki"), cluster["CLUSTER_CA"], cluster["CLUSTER_CA_KEY"])
        tls.load_cert_chain(*signer.client("jane"))
        with wire.Connection(proxy.listen, tls=tls) as connection:
            answer = connection.request("POST", self.REVIEW, [JSON_TYPE], self.REVIEW_BODY)
            self.assertTrue(self.allowed(answer))
            self.assert_same(self.direct(self.thing), connection.request("GET", self.thing))

    def test_a_client_cannot_lend_rights(self):
        """localproxy without rights answers what its user would get, whatever the client sends."""
        token = self.token()
        headers = [("Authorization", f"Bearer {token}")]
        harness.wait_for(
            lambda: self.fetch_as_anybody(self.thing, headers).status == 200,
            "the service account may view the namespace",
        )
        kubeconfig = self.cluster.user_kubeconfig(self.folder, "jane")
        proxy = self.proxy([harness.limit(self.limited, self.selector)], kubeconfig)
        tls = ssl.create_default_context(cafile=self.cluster.env["CLUSTER_CA"])
        tls.load_cert_chain(*self.certificate_of(kubeconfig))
        for target in (self.thing, f"{self.base}/pods", "/api/v1/nodes", "/version", "/metrics"):
            expected = wire.fetch(self.cluster.address, target, tls=tls)
            self.assert_same(expected, proxy.fetch(target, headers=headers))
            self.assertEqual(200 if target == "/version" else 403, expected.status)
        answer = proxy.fetch(self.REVIEW, "POST", [JSON_TYPE, *headers], self.REVIEW_BODY)
        self.assertFalse(self.allowed(answer))

    def test_a_localproxy_without_credentials_is_anonymous(self):
        """There is no certificate that the API server would prefer to the client's token."""
        headers = [("Authorization", f"Bearer {self.token()}")]
        harness.wait_for(
            lambda: self.fetch_as_anybody(self.thing, headers).status == 200,
            "the service account may view the namespace",
        )
        env = self.cluster.env
        kubeconfig = upstream.write_kubeconfig(
            self.path("anonymous"), env["APISERVER"], authority=env["CLUSTER_CA"]
        )
        proxy = self.proxy([harness.limit(self.limited, self.selector)], kubeconfig)
        for target in (self.thing, f"{self.base}/pods", "/metrics"):
            expected = self.fetch_as_anybody(target, [])
            self.assertEqual(403, expected.status)
            self.assert_same(expected, proxy.fetch(target, headers=headers))

    @staticmethod
    def certificate_of(kubeconfig):
        with open(kubeconfig, encoding="utf-8") as f:
            text = f.read()
        return [re.search(rf"client-{part}: (\S+)", text)[1] for part in ("certificate", "key")]


if __name__ == "__main__":
    harness.main()
