# SPDX-License-Identifier: Apache-2.0
"""No list and no watch through localproxy shows an object outside the limits, and none inside is
missing: against what a client without localproxy sees, filtered a second time here.
"""

import collections
import concurrent.futures
import json
import os
import random
import subprocess
import threading
import urllib.parse

import harness
import objects
import wire

NAMESPACES = 24
OBJECTS = 240
CHANGES = 700
WRITERS = 4

JSON_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def quoted(text):
    return urllib.parse.quote(text, safe="")


class Fixture:
    """Namespaces full of ConfigMaps and Secrets whose labels change all the time."""

    KINDS = ("configmaps", "secrets")
    APPS = ("foo", "bar", None)

    def __init__(self, control_plane, cleanup, count=NAMESPACES):
        self.control_plane = control_plane
        self.prefix = f"limits-{os.getpid()}-{next(harness.Run.counter)}"
        self.namespaces = [f"{self.prefix}-{i:02}" for i in range(count)]
        self.random = random.Random(20)
        for name in self.namespaces:
            control_plane.json("/api/v1/namespaces", "POST", {"metadata": {"name": name}})
            cleanup(control_plane.fetch, f"/api/v1/namespaces/{name}", "DELETE")

    def labels(self, pick, namespace):
        """As the manager would set them, now and then wrong or missing, plus the fixture's own."""
        labels = {"fixture": self.prefix, "tier": pick.choice(("web", "db", "cache"))}
        if (app := pick.choice(self.APPS)) is not None:
            labels["app"] = app
        if pick.random() < 0.9:
            labels[harness.NAMESPACE_LABEL] = pick.choice((namespace, self.namespaces[0]))
        labels[harness.HASH_LABEL] = str(pick.randrange(32))
        return labels

    def path(self, kind, namespace, name=""):
        return f"/api/v1/namespaces/{namespace}/{kind}" + (f"/{name}" if name else "")

    def create(self, connection, pick, number):
        kind = self.KINDS[number % 2]
        namespace = pick.choice(self.namespaces)
        name = f"thing-{number}"
        thing = {"metadata": {"name": name, "labels": self.labels(pick, namespace)}}
        self.write(connection, "POST", self.path(kind, namespace), thing)
        return kind, namespace, name

    def relabel(self, connection, pick, key):
        labels = {label: None for label in ("app", harness.NAMESPACE_LABEL)}
        labels.update(self.labels(pick, key[1]))
        self.write(connection, "PATCH", self.path(*key), {"metadata": {"labels": labels}})

    def touch(self, connection, pick, key):
        """A change that moves it nowhere."""
        patch = {"metadata": {"annotations": {"touched": str(pick.random())}}}
        self.write(connection, "PATCH", self.path(*key), patch)

    def delete(self, connection, key):
        self.write(connection, "DELETE", self.path(*key), None)

    @staticmethod
    def write(connection, method, path, thing):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        body = b"" if thing is None else json.dumps(thing).encode()
        answer = connection.request(method, path, [("Content-Type", kind)], body)
        if answer.status >= 300:
            raise AssertionError(f"{method} {path}: {answer}")

    def connect(self):
        return wire.Connection(self.control_plane.address, tls=self.control_plane.tls)

    def run_writer(self, number, creates, changes):
        """Its own objects only, so that writers need no lock."""
        pick = random.Random(number)
        alive = []
        with self.connect() as connection:
            for i in range(creates):
                alive.append(self.create(connection, pick, number * 100000 + i))
            for i in range(changes):
                key = pick.choice(alive)
                dice = pick.random()
                if dice < 0.60:
                    self.relabel(connection, pick, key)
                elif dice < 0.75:
                    self.touch(connection, pick, key)
                elif dice < 0.90 and len(alive) > 5:
                    self.delete(connection, key)
                    alive.remove(key)
                else:
                    alive.append(self.create(connection, pick, number * 100000 + creates + i))

    def run_writers(self, creates, changes, first=0):
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            jobs = [
                pool.submit(self.run_writer, first + n, creates // WRITERS, changes // WRITERS)
                for n in range(WRITERS)
            ]
            for job in jobs:
                job.result()

    def items(self, kind):
        """All that there is, without localproxy: key -> item."""
        answer = self.control_plane.fetch(f"/api/v1/{kind}?labelSelector=fixture%3D{self.prefix}")
        return {(item.namespace, item.name): item for item in objects.json_list(answer.body)}


class Watch:
    """An open watch, read by a thread of its own until it is closed."""

    def __init__(self, connection, target, accept="application/json"):
        self.target = target
        self.events = []
        self.protobuf = accept.startswith(objects.PROTOBUF)
        self.connection = connection
        connection.sock.settimeout(60)
        connection.send_head("GET", target, [("Accept", accept)])
        head = connection.read_head()
        if head.status != 200:
            raise AssertionError(f"{target}: {head.status} {connection.read_body()}")
        self.content_type = head.get("Content-Type")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        decode = objects.protobuf_events if self.protobuf else objects.json_events
        data = b""
        try:
            while more := self.connection.read_some():
                events, data = decode(data + more)
                self.events += events
        except (wire.Cut, OSError):
            pass

    def shown(self):
        return [event for event in self.events if event.type != "BOOKMARK"]

    def close(self):
        try:
            self.connection.sock.shutdown(2)
        except OSError:
            pass
        self.thread.join(10)
        self.connection.close()


def expected_events(history, before, matches):
    """What a watch with the selector must show, from everything that happened since `before`."""
    known = {key: matches(item.labels) for key, item in before.items()}
    shown = []
    for event in history:
        key = (event.item.namespace, event.item.name)
        was = known.get(key, False)
        now = event.type != "DELETED" and matches(event.item.labels)
        known[key] = now
        if now:
            shown.append(("MODIFIED" if was else "ADDED", key, event.item.resource_version))
        elif was:
            shown.append(("DELETED", key, event.item.resource_version))
    return shown


class LimitsTestCase(harness.TestCase):
    """Objects and two shards of them."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        cls.fixture = Fixture(cls.cluster, cls.addClassCleanup)
        half = len(cls.fixture.namespaces) // 2
        cls.selectors = [
            f"app=foo,{harness.NAMESPACE_LABEL} in ({','.join(cls.fixture.namespaces[:half])})",
            f"app=foo,{harness.NAMESPACE_LABEL} notin ({','.join(cls.fixture.namespaces[:half])})",
        ]
        cls.proxies = [
            # Labels say here whose an object is, whatever its namespace: no fence.
            cls.class_proxy(
                [harness.limit(["configmaps", "secrets"], selector)],
                args=["--write-fence=off"],
            )
            for selector in cls.selectors
        ]
        for proxy in cls.proxies:
            proxy.wait_for_start_version()
        cls.matches = [objects.parse_selector(selector) for selector in cls.selectors]

    def outside(self, items, shard, own=""):
        """Those that must not have been shown."""
        inside = self.matches[shard]
        narrower = objects.parse_selector(own)
        return [item for item in items if not (inside(item.labels) and narrower(item.labels))]


class WatchTest(LimitsTestCase):
    """Many watches while everything changes."""

    def variants(self, version):
        """target, Accept, own selector, namespace ("" for all), kind."""
        fixture = self.fixture
        own = f"fixture={fixture.prefix}"
        tail = f"resourceVersion={version}&labelSelector={quoted(own)}"
        one = fixture.namespaces[3]
        marked = tail + "&watch=1&allowWatchBookmarks=true"
        base = [
            ("/api/v1/configmaps?watch=true&" + tail, own, "", "configmaps"),
            ("/api/v1/configmaps?" + marked, own, "", "configmaps"),
            ("/api/v1/watch/configmaps?" + tail, own, "", "configmaps"),
            ("/api/v1/watch/configmaps?watch=false&" + tail, own, "", "configmaps"),
            (f"/api/v1/namespaces/{one}/configmaps?watch=true&{tail}", own, one, "configmaps"),
            (f"/api/v1/watch/namespaces/{one}/configmaps?{tail}", own, one, "configmaps"),
            ("/api/v1/secrets?watch=true&" + tail, own, "", "secrets"),
        ]
        for extra in ("tier=web", "tier in (web,db),app", "app!=bar", f"!{harness.HASH_LABEL}"):
            both = f"{own},{extra}"
            query = f"watch=true&resourceVersion={version}&labelSelector={quoted(both)}"
            base.append((f"/api/v1/configmaps?{query}", both, "", "configmaps"))
        query = f"fieldSelector={quoted(f'metadata.namespace={one}')}&watch=1&{tail}"
        base.append((f"/api/v1/configmaps?{query}", own, one, "configmaps"))
        for target, selector, namespace, kind in base:
            yield target, "application/json", selector, namespace, kind
            yield target, objects.PROTOBUF_WATCH, selector, namespace, kind

    def open(self, target, accept, shard):
        watch = Watch(self.proxies[shard].connect(), target, accept)
        self.addCleanup(watch.close)
        return watch

    def histories(self, version):
        """Watches without localproxy, from which the truth is computed."""
        watches = {}
        for kind in Fixture.KINDS:
            target = f"/api/v1/{kind}?watch=true&resourceVersion={version}"
            watches[kind] = Watch(self.fixture.connect(), target)
            self.addCleanup(watches[kind].close)
        return watches

    def test_watches_show_the_shard_and_nothing_else(self):
        fixture = self.fixture
        fixture.run_writers(OBJECTS, 0)
        before = {kind: fixture.items(kind) for kind in Fixture.KINDS}
        answer = self.cluster.json("/api/v1/configmaps?limit=1")
        version = answer["metadata"]["resourceVersion"]
        truth = self.histories(version)
        watches = []
        for shard in range(2):
            for target, accept, own, namespace, kind in self.variants(version):
                watch = self.open(target, accept, shard)
                watches.append((shard, watch, own, namespace, kind))
        self.assertGreater(len(watches), 40)
        open_now = [proxy.metrics()["cmesh_proxy_open_watches"] for proxy in self.proxies]
        self.assertEqual([len(watches) / 2] * 2, open_now)
        fixture.run_writers(OBJECTS // 4, CHANGES, first=100)
        self.mark_the_end(truth, watches)
        self.assertGreater(max(len(watch.events) for _, watch, *_ in watches), 100)
        for shard, watch, own, namespace, kind in watches:
            with self.subTest(shard=shard, target=watch.target, type=watch.content_type):
                self.compare(shard, watch, own, namespace, before[kind], truth[kind])

    def mark_the_end(self, truth, watches):
        """One object in each namespace and kind that every watch shows, after all the others."""
        fixture = self.fixture
        with fixture.connect() as connection:
            for kind in Fixture.KINDS:
                for namespace in (fixture.namespaces[3], fixture.namespaces[-1]):
                    labels = {"fixture": fixture.prefix, "app": "foo", "tier": "web"}
                    labels[harness.NAMESPACE_LABEL] = namespace
                    thing = {"metadata": {"name": "the-end", "labels": labels}}
                    fixture.write(connection, "POST", fixture.path(kind, namespace), thing)
        for kind, watch in truth.items():
            harness.wait_for(
                lambda w=watch: sum(map(self.is_end, list(w.events))) == 2, f"the end of {kind}"
            )
        for shard, watch, _, namespace, kind in watches:
            end = fixture.namespaces[3] if shard == 0 else fixture.namespaces[-1]
            if namespace in ("", end):
                harness.wait_for(
                    lambda w=watch: any(map(self.is_end, list(w.events))),
                    f"the end of {kind} of shard {shard} on {watch.target}",
                )

    def is_end(self, event):
        return event.item.name == "the-end" and event.item.namespace in self.fixture.namespaces

    def compare(self, shard, watch, own, namespace, before, truth):
        shown = watch.shown()
        self.assertEqual([], self.outside([event.item for event in shown], shard, own))
        marks = [event.item for event in watch.events if event.type == "BOOKMARK"]
        self.assertFalse([mark for mark in marks if mark.name or mark.namespace])
        mine = objects.parse_selector(own)
        history = [
            event
            for event in truth.events
            if event.type != "BOOKMARK" and namespace in ("", event.item.namespace)
        ]
        before = {key: item for key, item in before.items() if namespace in ("", key[0])}
        expected = expected_events(
            history, before, lambda labels: self.matches[shard](labels) and mine(labels)
        )
        actual = [
            (event.type, (event.item.namespace, event.item.name), event.item.resource_version)
            for event in shown
        ]
        self.assertEqual(expected, actual)


class ListTest(LimitsTestCase):
    """Lists of objects that nobody changes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fixture.run_writers(OBJECTS, CHANGES // 5)
        cls.all = {kind: cls.fixture.items(kind) for kind in Fixture.KINDS}

    def expected(self, kind, shard, own="", namespace=""):
        narrower = objects.parse_selector(own)
        return {
            key
            for key, item in self.all[kind].items()
            if self.matches[shard](item.labels)
            and narrower(item.labels)
            and namespace in ("", key[0])
        }

    def shown(self, shard, target, accept="application/json"):
        """The keys of this fixture's objects in a list; nothing outside may be there."""
        answer = self.proxies[shard].fetch(target, headers=[("Accept", accept)])
        self.assertEqual(200, answer.status, (target, answer))
        items = objects.read_list(answer)
        self.assertEqual([], self.outside(items, shard), target)
        keys = [(item.namespace, item.name) for item in items]
        self.assertEqual(len(set(keys)), len(keys))
        return {key for key in keys if key[0] in self.fixture.namespaces}

    def test_two_shards_share_everything(self):
        foo = objects.parse_selector("app=foo")
        for kind in Fixture.KINDS:
            shards = [self.shown(shard, f"/api/v1/{kind}") for shard in range(2)]
            self.assertEqual(set(), shards[0] & shards[1])
            everything = {key for key, item in self.all[kind].items() if foo(item.labels)}
            self.assertEqual(everything, shards[0] | shards[1])
            self.assertTrue(shards[0] and shards[1])

    def test_every_form_of_a_list(self):
        one = self.fixture.namespaces[3]
        for shard in range(2):
            for kind in Fixture.KINDS:
                everywhere = self.expected(kind, shard)
                here = self.expected(kind, shard, namespace=one)
                for accept in ("application/json", objects.PROTOBUF, JSON_TABLE, PARTIAL, "*/*"):
                    listed = self.shown(shard, f"/api/v1/{kind}", accept)
                    self.assertEqual(everywhere, listed, accept)
                    listed = self.shown(shard, f"/api/v1/namespaces/{one}/{kind}", accept)
                    self.assertEqual(here, listed, accept)
                for target in (
                    f"/api/v1/{kind}?",
                    f"/api/v1/{kind}?&",
                    f"/api/v1/{kind}?resourceVersion=0",
                    f"/api/v1/{kind}?limit=0",
                    f"/api/v1/{kind}?labelSelector=",
                    f"/api/v1/{kind}?labelSelector",
                    f"/api/v1/{kind}?labelSelector=%20",
                    f"/api/v1/{kind}?watch=false&watch=true",
                    f"/api/v1/{kind}?watch=0",
                    f"/api/v1/{kind}?timeoutSeconds=5&fieldSelector=",
                    f"/api/v1/{kind}/",
                    f"/api/v1/%63{kind[1:]}" if kind == "configmaps" else f"/api/v1/%73{kind[1:]}",
                    f"/%61pi/v1/{kind}",
                ):
                    if harness.cluster().fetch(target).status == 404:  # later versions know fewer
                        self.assertEqual(404, self.proxies[shard].fetch(target).status, target)
                        continue
                    self.assertEqual(everywhere, self.shown(shard, target), target)

    def test_own_selectors(self):
        for own in (
            "app",
            "app=foo",
            "app==foo",
            "app!=bar",
            "tier=web",
            "tier in (web, db)",
            "tier notin (web)",
            "tier in (web,db),tier!=db",
            f"{harness.HASH_LABEL} in (1,2,3,4,5,6,7,8)",
            "!app",
            "app=bar",
            "nothing=at-all",
        ):
            for shard in range(2):
                query = f"labelSelector={quoted(own)}"
                listed = self.shown(shard, f"/api/v1/configmaps?{query}")
                self.assertEqual(self.expected("configmaps", shard, own), listed, own)

    def test_more_than_one_selector_is_refused(self):
        """kube-apiserver takes the first; servers in another language may take the last."""
        for query in ("labelSelector=app&labelSelector=tier", "labelSelector=&labelSelector=app"):
            answer = self.proxies[0].fetch(f"/api/v1/configmaps?{query}")
            self.assert_status_error(answer, 400, "BadRequest", ["more than one labelSelector"])

    def test_pages(self):
        for accept in ("application/json", objects.PROTOBUF):
            for limit in (1, 7, 500):
                seen, pages, token = [], 0, ""
                while True:
                    target = f"/api/v1/configmaps?limit={limit}&continue={quoted(token)}"
                    answer = self.proxies[0].fetch(target, headers=[("Accept", accept)])
                    self.assertEqual(200, answer.status, answer)
                    items = objects.read_list(answer)
                    self.assertLessEqual(len(items), limit)
                    self.assertEqual([], self.outside(items, 0))
                    seen += [(i.namespace, i.name) for i in items]
                    pages += 1
                    token = self.token(answer)
                    if not token:
                        break
                ours = [key for key in seen if key[0] in self.fixture.namespaces]
                self.assertEqual(len(set(seen)), len(seen))
                self.assertEqual(self.expected("configmaps", 0), set(ours))
                self.assertGreaterEqual(pages, len(seen) / limit)

    @staticmethod
    def token(answer):
        if answer.get("Content-Type").startswith(objects.PROTOBUF):
            _, data = objects.unwrap(answer.body)
            return objects.text_of(objects.fields(objects.fields(data)[1][0]), 3)
        return json.loads(answer.body)["metadata"].get("continue", "")

    def test_single_objects_are_not_hidden(self):
        """Limits narrow lists and watches; what a client knows by name it may read."""
        for key, item in list(self.all["configmaps"].items())[:20]:
            answer = self.proxies[0].fetch(f"/api/v1/namespaces/{key[0]}/configmaps/{key[1]}")
            self.assertEqual(200, answer.status)
            self.assertEqual(item, objects.item_of(json.loads(answer.body)))

    def test_other_resources_are_not_limited(self):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for target in ("/api/v1/namespaces", "/api/v1/services", definitions):
            direct, proxied = harness.wait_for(
                lambda t=target: self.steady_lists(t), f"{target} stands still", interval=0
            )
            self.assertEqual(direct, proxied)

    def steady_lists(self, target):
        """Without and with localproxy, when nothing changed meanwhile: the namespaces of the tests
        before are still on their way out."""
        fetches = (self.cluster.fetch, self.proxies[0].fetch, self.cluster.fetch)
        before, proxied, after = (objects.json_list(fetch(target).body) for fetch in fetches)
        return (before, proxied) if before == after else None


class HostileQueryTest(LimitsTestCase):
    """Whatever stands in the query: what comes back is inside the limits, or an error."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fixture.run_writers(60, 0)

    BAD = (
        "labelSelector=app%3Dbar&labelSelector=app%3Dfoo",
        "labelSelector=&labelSelector=app%3Dbar",
        "label%53elector=app%3Dbar",
        "label%53elector=&labelSelector=app%3Dbar",
        "labelSelector=app%3Dfoo&label%53elector=app%3Dbar",
        "LabelSelector=app%3Dbar",
        "labelselector=app%3Dbar",
        "labelSelector;labelSelector=app%3Dbar",
        "labelSelector=app%3Dbar;x=y",
        "a=b;labelSelector=",
        ";labelSelector=",
        "a=b;c=d&labelSelector=app",
        "labelSelector=%",
        "labelSelector=%zz",
        "labelSelector=%2",
        "labelSelector=app%3Dbar&labelSelector=%zz",
        "labelSelector=%zz&labelSelector=app%3Dbar",
        "%zz=1&labelSelector=app%3Dbar",
        "labelSelector=,",
        "labelSelector=app,",
        "labelSelector=,app",
        "labelSelector=app,,tier",
        "labelSelector=app%2C",
        "labelSelector=app%20in%20(",
        "labelSelector=app%20in%20(bar",
        "labelSelector=app%20in%20(bar))",
        "labelSelector=)%20or%20(app",
        "labelSelector=%22",
        "labelSelector=app%3Dbar%00",
        "labelSelector=%00",
        "labelSelector=%0A",
        "labelSelector=%26labelSelector%3D",
        "labelSelector=app%3Dbar%26x",
        "labelSelector=%23",
        "labelSelector=app+in+(bar,foo)",
        "labelSelector=+",
        "labelSelector",
        "labelSelector&labelSelector=app%3Dbar",
        "labelSelector=app=bar",
        "labelSelector==",
        "labelSelector=app==bar",
        "labelSelector=app!=foo",
        "labelSelector=%21app",
        "labelSelector=\xc3\xa4",
        "labelSelector=%C3%A4",
        "labelSelector=%FF",
        "&&&labelSelector=app%3Dbar&&&",
        "?labelSelector=app%3Dbar",
        "x?labelSelector=app%3Dbar",
        "labelSelector[]=app%3Dbar",
        "labelSelector%5B%5D=app%3Dbar",
        "label%2553elector=app%3Dbar",
        "%6c%61%62%65%6c%53%65%6c%65%63%74%6f%72=app%3Dbar",
        "%6C%61%62%65%6C%53%65%6C%65%63%74%6F%72=%61%70%70",
        "%20labelSelector=app%3Dbar",
        "+labelSelector=app%3Dbar",
        "labelSelector%20=app%3Dbar",
        "labelSelector%00=app%3Dbar",
        "labelSelector=app%3Dbar#",
        "a#b&labelSelector=",
        "%23&labelSelector=app%3Dbar",
        "fieldSelector=metadata.name!%3Dx&labelSelector=app%3Dbar",
        "fieldSelector=metadata.labels.app%3Dbar",
        "exact=true&export=true",
        "limit=500&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0",
        "a=b&" * 500 + "labelSelector=app%3Dbar",
        "a=b&" * 2000 + "labelSelector=app%3Dbar",
        "a=b&" * 12000 + "labelSelector=app%3Dbar",
        "labelSelector=app%3Dbar&" * 200 + "x",
        "labelSelector=" + "app%3Dbar%2C" * 200 + "app",
        "pretty=1&includeUninitialized=true&labelSelector=app%3Dbar",
    )  # fmt: skip

    def ask(self, shard, method, target, headers=()):
        """Raw: also what a client library would refuse to send."""
        with self.proxies[shard].connect() as connection:
            return connection.request(method, target, list(headers))

    def test_lists(self):
        answered = collections.Counter()
        one = self.fixture.namespaces[3]
        for shard in range(2):
            for query in self.BAD:
                for base in ("/api/v1/configmaps?", f"/api/v1/namespaces/{one}/secrets?"):
                    answer = self.ask(shard, "GET", base + query)
                    answered[answer.status] += 1
                    if answer.status == 200:
                        items = objects.read_list(answer)
                        self.assertEqual([], self.outside(items, shard), query[:200])
                    else:
                        self.assertIn(answer.status, (400, 410, 414, 431), (query[:200], answer))
        self.assertGreater(answered[200], 40)
        self.assertGreater(answered[400], 20)

    def test_watches(self):
        """From version 0 a watch begins with all that there is."""
        for query in self.BAD:
            for base in ("/api/v1/configmaps?watch=1&", "/api/v1/watch/secrets?"):
                target = base + "resourceVersion=0&timeoutSeconds=1&" + query
                with self.proxies[0].connect() as connection:
                    connection.send_head("GET", target)
                    head = connection.read_head()
                    if head.status != 200:
                        self.assertIn(head.status, (400, 410, 414, 422, 431), query[:200])
                        continue
                    data = self.first_events(connection)
                events, _ = objects.json_events(data)
                shown = [e.item for e in events if e.type not in ("BOOKMARK", "ERROR")]
                self.assertEqual([], self.outside(shown, 0), query[:200])

    @staticmethod
    def first_events(connection):
        """What comes without a pause: the objects that exist are sent in one go."""
        connection.sock.settimeout(0.1)
        data = b""
        try:
            while more := connection.read_some():
                data += more
        except (TimeoutError, wire.Cut):
            pass
        return data

    PATHS = (
        "/api/v1//configmaps",
        "//api/v1/configmaps",
        "/api//v1/configmaps",
        "/api/v1/./configmaps",
        "/api/v1/x/../configmaps",
        "/api/v1/namespaces/default/../../configmaps",
        "/api/v1/namespaces//configmaps",
        "/api/v1/watch//configmaps",
        "/api/v1/%2e/configmaps",
        "/api/v1/%2e%2e/v1/configmaps",
        "/api%2fv1%2fconfigmaps",
        "/api/v1%2Fconfigmaps",
        "/api/v1/configmaps%2F",
        "/api/v1/configmaps%3F",
        "/api/v1/configmaps;x",
        "/api/v1/configmaps%00",
        "/api/v1/watch/watch/configmaps",
        "/api/v1/watch/namespaces/default/../configmaps",
        "/healthz/../api/v1/configmaps",
        "/API/v1/configmaps",
        "/api/V1/configmaps",
        "/api/v1/ConfigMaps",
        "/apis//v1/configmaps",
        "/apis/v1/configmaps",
        "/apis/core/v1/configmaps",
        "/api/v1/configmaps/",
        "/api/v1/configmaps//",
        "/api/v1/proxy/configmaps",
        "/api/v1/redirect/configmaps",
        "http://127.0.0.1/api/v1/configmaps",
        "*",
    )

    def test_paths(self):
        for path in self.PATHS:
            for method in ("GET", "get", "Get", "LIST", "WATCH", "OPTIONS"):
                target = path + "?timeoutSeconds=1"
                with self.proxies[0].connect() as connection:
                    connection.send_head(method, target)
                    head = connection.read_head(method)
                    body, _ = connection.read_body()  # of a watch too: it ends by itself
                if head.status != 200 or b'"items"' not in body and b'"object"' not in body:
                    continue
                if b'"items"' in body:
                    items = objects.json_list(body)
                else:
                    items = [event.item for event in objects.json_events(body)[0]]
                self.assertEqual([], self.outside(items, 0), (method, path))

    def test_other_headers_change_nothing(self):
        for headers in (
            [("X-HTTP-Method-Override", "GET"), ("X-Original-URL", "/api/v1/secrets")],
            [("X-Rewrite-URL", "/api/v1/configmaps"), ("X-Forwarded-Prefix", "/x")],
            [("Accept", "application/json;stream=watch")],
            [("Accept", "application/yaml")],
            [("Content-Type", "application/x-www-form-urlencoded")],
            [("Connection", "labelSelector, Host"), ("TE", "trailers")],
        ):
            answer = self.ask(0, "GET", "/api/v1/configmaps", headers)
            self.assertIn(answer.status, (200, 406), headers)
            if answer.status == 200 and answer.get("Content-Type") == "application/json":
                self.assertEqual([], self.outside(objects.read_list(answer), 0), headers)
            elif answer.status == 200:
                self.assertNotIn(b"app: bar", answer.body)

    def test_a_form_in_the_body_is_no_query(self):
        body = b"labelSelector=&watch=true"
        headers = [("Content-Type", "application/x-www-form-urlencoded")]
        answer = self.proxies[0].fetch("/api/v1/configmaps", "GET", headers, body)
        self.assertEqual(200, answer.status)
        self.assertEqual([], self.outside(objects.read_list(answer), 0))


class DeleteCollectionTest(LimitsTestCase):
    """deletecollection deletes what a list would show."""

    def setUp(self):
        super().setUp()
        self.fixture.run_writers(120, 0, first=1000 * next(harness.Run.counter))

    def delete(self, query="", body=None, kind="configmaps"):
        """In every namespace; returns the keys before and after."""
        before = self.fixture.items(kind)
        for namespace in self.fixture.namespaces:
            target = self.fixture.path(kind, namespace) + query
            headers = [("Content-Type", "application/json")]
            answer = self.proxies[0].fetch(target, "DELETE", headers, body)
            self.assertEqual(200, answer.status, answer)
        return before, set(self.fixture.items(kind))

    def mine(self, items, own=""):
        narrower = objects.parse_selector(own)
        return {
            key
            for key, item in items.items()
            if self.matches[0](item.labels) and narrower(item.labels)
        }

    def test_all(self):
        before, after = self.delete()
        self.assertTrue(self.mine(before))
        self.assertEqual(set(before) - self.mine(before), after)

    def test_with_own_selector(self):
        before, after = self.delete("?labelSelector=tier%3Dweb")
        self.assertTrue(self.mine(before, "tier=web"))
        self.assertEqual(set(before) - self.mine(before, "tier=web"), after)

    def test_with_a_body(self):
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        options["labelSelector"] = ""
        before, after = self.delete(body=json.dumps(options).encode(), kind="secrets")
        self.assertTrue(self.mine(before))
        self.assertEqual(set(before) - self.mine(before), after)

    def test_hostile_queries(self):
        before = self.fixture.items("configmaps")
        for query in HostileQueryTest.BAD:
            target = self.fixture.path("configmaps", self.fixture.namespaces[3]) + "?" + query
            with self.proxies[0].connect() as connection:
                answer = connection.request("DELETE", target)
            self.assertIn(answer.status, (200, 400, 410, 414, 431), (query[:200], answer))
        after = self.fixture.items("configmaps")
        for key in set(before) - set(after):
            self.assertEqual(self.fixture.namespaces[3], key[0])
            self.assertTrue(self.matches[0](before[key].labels), before[key])


class SeveralLimitsTest(harness.TestCase):
    """How limits combine."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        cls.fixture = Fixture(cls.cluster, cls.addClassCleanup, count=4)
        cls.fixture.run_writers(60, 0)

    def listed(self, limits, kind="configmaps"):
        proxy = self.proxy(limits)
        answer = proxy.fetch(f"/api/v1/{kind}")
        self.assertEqual(200, answer.status, answer)
        return {(i.namespace, i.name) for i in objects.read_list(answer)}

    def expected(self, selector, kind="configmaps"):
        matches = objects.parse_selector(f"fixture={self.fixture.prefix}," + selector)
        return {key for key, item in self.fixture.items(kind).items() if matches(item.labels)}

    def test_limits_of_one_resource_are_anded(self):
        limits = [
            harness.limit(["configmaps"], "app=foo"),
            harness.limit(["*"], f"fixture={self.fixture.prefix}"),
            harness.limit(["configmaps", "pods"], "tier in (web,db)", groups=[""]),
        ]
        self.assertEqual(self.expected("app=foo,tier in (web,db)"), self.listed(limits))
        self.assertEqual(self.expected("fixture", "secrets"), self.listed(limits, "secrets"))

    def test_limits_of_other_groups_do_not_count(self):
        limits = [harness.limit(["configmaps"], "app=foo", groups=["apps", "example.com"])]
        listed = {key for key in self.listed(limits) if key[0] in self.fixture.namespaces}
        listed = {key for key in listed if key[1] != "kube-root-ca.crt"}
        self.assertEqual(set(self.fixture.items("configmaps")), listed)

    def test_a_contradiction_is_nothing(self):
        for selector in ("app=foo,app=bar", "app,!app", "app in (foo),app notin (foo)"):
            self.assertEqual(set(), self.listed([harness.limit(["*"], selector)]), selector)

    def compiled(self, key, operator, values):
        """The rules that `manager compile` makes of one limit on all there is."""
        expression = {"key": key, "operator": operator, "values": values}
        thing = {
            "apiVersion": "ctrlmesh.kusionstack.io/v1alpha1",
            "kind": "ShardingConfig",
            "metadata": {"name": "shard-a", "namespace": "cmesh-e2e"},
            "spec": {
                "selector": {"matchLabels": {"app": "operator"}},
                "limits": [
                    {
                        "relateResources": [{"apiGroups": ["*"], "resources": ["configmaps"]}],
                        "selector": {"matchExpressions": [expression]},
                    }
                ],
            },
        }
        command = [harness.program("manager"), "compile", "-f", "-"]
        done = subprocess.run(
            command, input=json.dumps(thing), capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    def test_the_others_are_those_that_are_labelled(self):
        """One shard has some values, one "the others". What has no label yet is in neither."""
        items = self.fixture.items("configmaps")
        for key, some in (
            (harness.NAMESPACE_LABEL, self.fixture.namespaces[:1]),
            (harness.HASH_LABEL, [str(i) for i in range(20)]),
        ):
            own = {name for name in items if name[0] in self.fixture.namespaces}
            labelled = {name for name in own if key in items[name].labels}
            if key == harness.NAMESPACE_LABEL:
                self.assertNotEqual(own, labelled)
            shards = [self.listed(self.compiled(key, op, some)) for op in ("In", "NotIn")]
            self.assertEqual(set(), shards[0] & shards[1], key)
            # Namespaces of other tests have labelled objects too.
            self.assertEqual(labelled, (shards[0] | shards[1]) & own, key)
            self.assertTrue(labelled & shards[0] and labelled & shards[1], key)


if __name__ == "__main__":
    harness.main()
