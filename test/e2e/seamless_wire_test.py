# SPDX-License-Identifier: Apache-2.0
"""An open watch migrates to new rules, to the byte: what is asked of the API server, what is
written into the stream, and what happens when something fails or comes in between.
"""

import collections
import itertools
import json
import queue
import signal
import threading
import urllib.parse

import harness
import objects
import scripted_case
from scripted_case import (
    AS_JSON,
    AS_PROTOBUF,
    ENCODINGS,
    compact,
    custom_list,
    injected,
    json_event,
    json_list,
    meta,
    within,
)


def busy_for_long(asked):
    """For longer than localproxy repeats what is refused for now."""
    asked.try_respond(b"{}", 429, headers=[("Retry-After", "60")])


class SeamlessCase(scripted_case.ScriptedCase):
    """A watch from version 20, and the way from one selector to another."""

    mode = "seamless"
    begin = "&allowWatchBookmarks=true&resourceVersion=20"

    def setUp(self):
        super().setUp()
        self.collection = self.pods

    def list_at(self, version, target=None):
        """So that a client may go on from this version."""
        client = self.open(target or self.collection)
        self.asked().respond(json_list([], version))
        self.assertTrue(client.response().complete)

    def open_from(self, encoding, *events, query=None, **more):
        """A watch from version 20 that has delivered `events`."""
        self.list_at(20)
        target = self.collection + "?watch=true" + (self.begin if query is None else query)
        return self.open_watch(encoding, *events, target=target, **more)

    def difference_target(self, version, *namespaces, more="", token=None):
        """What is asked for the objects of these namespaces."""
        where = f"continue={token}" if token else ""
        where = where or f"resourceVersion={version}&resourceVersionMatch=Exact"
        return f"{self.collection}?{more}limit=500&{where}&{injected(within(*namespaces))}"

    def watch_target(self, version, *namespaces, more="&allowWatchBookmarks=true"):
        """What is asked to go on."""
        query = f"?watch=true{more}&resourceVersion={version}&{injected(within(*namespaces))}"
        return self.collection + query

    def answer_list(self, encoding, version, namespaces, items=(), **more):
        """The API server answers one list of the difference."""
        asked = self.asked(self.difference_target(version, *namespaces, **more), "GET")
        self.assertEqual(encoding.of_list, asked.request.get("Accept"))
        asked.respond(encoding.list(items, version), content_type=encoding.of_list)
        return asked

    def answer_watch(self, encoding, version, namespaces, **more):
        """The API server answers the watch that goes on."""
        asked = self.asked(self.watch_target(version, *namespaces, **more), "GET")
        asked.open(encoding)
        return asked

    def fallbacks(self):
        prefix = 'cmesh_proxy_fallbacks_total{reason="'
        metrics = self.proxy_process.metrics().items()
        return {name[len(prefix) : -2]: n for name, n in metrics if name.startswith(prefix) and n}

    def state(self):
        watches = self.proxy_process.status()["watches"]
        self.assertEqual(1, len(watches))
        return watches[0]["state"]

    def wait_state(self, state):
        harness.wait_for(lambda: self.state() == state, f"the watch is {state}")


class CarryTest(SeamlessCase):
    """What the client gets, and what the API server is asked."""

    def migrate(self, encoding, version):
        """From a,b to b,c: one object is lost, one is gained."""
        lost, gained = meta("lost", 7, "a", uid="u-1"), meta("gained", 9, "c", labels={"x": "y"})
        self.reload_to("b", "c")
        self.answer_list(encoding, version, "a", [lost])
        self.answer_list(encoding, version, "c", [gained])
        return encoding.event("DELETED", lost) + encoding.event("ADDED", gained)

    def test_lost_and_gained(self):
        for encoding in ENCODINGS:
            for bookmarks in (True, False):
                with self.subTest(encoding=encoding, bookmarks=bookmarks):
                    self.generation = 1
                    proxy = self.start_with("a", "b")
                    query = None if bookmarks else "&resourceVersion=20"
                    first = encoding.event("MODIFIED", meta("p", 25, "b"))
                    watch, old = self.open_from(encoding, first, query=query)
                    lines = self.migrate(encoding, 25)
                    self.assertTrue(old.closed())
                    if bookmarks:
                        lines += encoding.bookmark(25)
                    self.expect(watch, lines)
                    more = "&allowWatchBookmarks=true" if bookmarks else ""
                    asked = self.answer_watch(encoding, 25, ("b", "c"), more=more)
                    later = encoding.event("MODIFIED", meta("gained", 31, "c"))
                    asked.send(later)
                    self.expect(watch, later)
                    asked.end()
                    self.expect_end(watch)
                    self.assertEqual(1, self.metric("transitions_total"))
                    self.assertEqual(2, self.metric("spliced_events_total"))
                    self.assertEqual(0, self.metric("watches_cut_total"))
                    self.assertEqual({}, self.fallbacks())
                    self.assert_nothing_asked()
                    self.assert_idle()
                    proxy.stop()

    def test_it_is_the_default(self):
        self.mode = None
        self.start_with("a", "b")
        watch, _ = self.open_from(AS_JSON)
        lines = self.migrate(AS_JSON, 20)
        self.expect(watch, lines)

    def test_the_version_is_that_of_the_last_event(self):
        """Also of a bookmark; of an object that was gained long ago it is not."""
        for encoding in ENCODINGS:
            for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                with self.subTest(encoding=encoding, kind=kind):
                    self.generation = 1
                    proxy = self.start_with("a")
                    events = [encoding.event("ADDED", meta("p", 22))]
                    events.append(encoding.event(kind, meta("q", 27)))
                    watch, _ = self.open_from(encoding, *events)
                    self.reload_to("a", "b")
                    gained = meta("g", 4, "b")
                    self.answer_list(encoding, 27, "b", [gained])
                    lines = encoding.event("ADDED", gained) + encoding.bookmark(27)
                    self.expect(watch, lines)
                    self.answer_watch(encoding, 27, ("a", "b"))
                    # And once more, with nothing between.
                    self.wait_state("Passing")
                    self.reload_to("a")
                    self.answer_list(encoding, 27, "b", [gained])
                    self.expect(
                        watch, encoding.event("DELETED", gained) + encoding.bookmark(27)
                    )
                    self.answer_watch(encoding, 27, ("a",))
                    proxy.stop()

    def test_pages(self):
        """The token goes back as it came; events are in the order of the lists."""
        token, encoded = "ab+/=&x", "ab%2B%2F%3D%26x"
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                self.generation = 1
                proxy = self.start_with("a", "b")
                watch, _ = self.open_from(encoding)
                self.reload_to("b", "c")
                expected = b""
                for kind, namespace in (("DELETED", "a"), ("ADDED", "c")):
                    for page in range(3):
                        items = [meta(f"{namespace}-{page}-{n}", 5, namespace) for n in range(9)]
                        expected += b"".join(encoding.event(kind, item) for item in items)
                        asked = self.asked(
                            self.difference_target(
                                20, namespace, token=f"{encoded}{page}" if page else None
                            )
                        )
                        asked.respond(
                            encoding.list(items, 20, f"{token}{page + 1}" if page < 2 else None),
                            content_type=encoding.of_list,
                        )
                self.expect(watch, expected + encoding.bookmark(20))
                self.answer_watch(encoding, 20, ("b", "c"))
                proxy.stop()

    def test_the_clients_own_parameters_stay(self):
        self.collection = "/api/v1/namespaces/n/pods"
        own = "fieldSelector=status.phase%3DRunning&labelSelector=app+in+%28x%29"
        query = f"&timeoutSeconds=300&{own}&resourceVersionMatch=NotOlderThan{self.begin}"
        self.start_with("a", "b")
        self.list_at(20, f"{self.collection}?{own}")
        target = f"{self.collection}?watch=true{query}"
        watch, _ = self.open_watch(AS_JSON, target=target)
        self.reload_to("b")
        selected = own.replace("labelSelector=", injected(within("a")) + "%2C")
        exact = "limit=500&resourceVersion=20&resourceVersionMatch=Exact"
        self.asked(f"{self.collection}?{selected}&{exact}").respond(
            json_list([meta("l", 7, "n")], 20)
        )
        self.expect(watch, json_event("DELETED", meta("l", 7, "n")) + AS_JSON.bookmark(20))
        selected = own.replace("labelSelector=", injected(within("b")) + "%2C")
        self.asked(
            f"{self.collection}?watch=true&timeoutSeconds=300&{selected}"
            "&allowWatchBookmarks=true&resourceVersion=20"
        )

    def test_headers(self):
        """The lists are localproxy's own; the watch that goes on is the client's."""
        self.start_with("a", "b")
        headers = [
            ("Accept", "application/json;stream=watch, */*"),
            ("User-Agent", "manager/v1"),
            ("X-Kept", "yes"),
            ("Accept-Encoding", "gzip"),
        ]
        self.open_from(AS_JSON, headers=headers)
        self.reload_to("b")
        asked = self.asked()
        self.assertEqual("application/json", asked.request.get("Accept"))
        self.assertTrue(asked.request.get("User-Agent").startswith("cmesh-localproxy/"))
        self.assertIsNone(asked.request.get("X-Kept"))
        self.assertIsNone(asked.request.get("Accept-Encoding"))
        asked.respond(json_list([], 20))
        asked = self.asked()
        for name, value in headers[:-1]:
            self.assertEqual(value, asked.request.get(name))
        self.assertEqual("identity", asked.request.get("Accept-Encoding"))

    def test_partial_objects(self):
        self.start_with("a", "b")
        form = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        watch, _ = self.open_from(AS_JSON, headers=[("Accept", form)])
        self.reload_to("b")
        asked = self.asked(self.difference_target(20, "a"))
        self.assertEqual(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            asked.request.get("Accept"),
        )
        thing = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "20"},
            "items": [
                {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": meta("l", 7),
                }
            ],
        }
        asked.respond(compact(thing))
        kind = {"kind": "PartialObjectMetadata", "api_version": "meta.k8s.io/v1"}
        self.expect(watch, json_event("DELETED", meta("l", 7), **kind))
        self.expect(watch, AS_JSON.bookmark(20, **kind))
        self.assertEqual(form, self.asked(self.watch_target(20, "b")).request.get("Accept"))

    def test_custom_resources(self):
        """Their lists say what they are at the end, and each item for itself."""
        self.collection = "/apis/e.example/v1/gears"
        self.start_with("a", "b")
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        expected = b""
        for kind, namespace in (("DELETED", "a"), ("ADDED", "c")):
            items = [meta(f"g{n}", n, namespace) for n in range(5, 8)]
            self.asked(self.difference_target(20, namespace)).respond(custom_list(items, 20))
            for item in items:
                thing = {"apiVersion": "e.example/v1", "kind": "Gear", "metadata": item}
                expected += compact({"type": kind, "object": thing}) + b"\n"
        self.expect(watch, expected)
        gear = {"kind": "Gear", "api_version": "e.example/v1"}
        self.expect(watch, AS_JSON.bookmark(20, **gear))
        self.asked(self.watch_target(20, "b", "c"))

    def test_objects_of_any_shape(self):
        """What stands in the item stands in the event."""
        self.start_with("a", "b")
        items = [
            b'{"metadata":{"name":"a","resourceVersion":"1"},"x":"\\u00e4\\n\\"}]{["}',
            b'{ "metadata" : {"name":"b"} , "items":[{"kind":"K"}], "n":1e400 }',
            b'{\n  "metadata": {\r\n    "name": "pretty"\n  }\n}',
            b'{"metadata":{},"kind2":null,"deep":' + b"[" * 50 + b"]" * 50 + b"}",
            '{"metadata":{"name":"ä€😀"}}'.encode(),
        ]
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b")
        body = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"20"},"items":['
        asked = self.asked()
        asked.begin()
        for at in range(0, len(body), 7):
            asked.send(body[at : at + 7])
        for byte in b",".join(items) + b"]}":
            asked.send(bytes([byte]))
        asked.end()
        text = b""
        while not text.endswith(AS_JSON.bookmark(20)):
            text += watch.read_some()
        lines = text.split(b"\n")[:-1]
        self.assertEqual(len(items) + 1, len(lines))
        for item, line in zip(items, lines):
            if b"1e400" in item:
                continue
            event = json.loads(line)
            self.assertEqual("DELETED", event["type"])
            expected = {"kind": "Pod", "apiVersion": "v1", **json.loads(item)}
            self.assertEqual(expected, event["object"])
            rest = item.replace(b"\n", b" ").lstrip(b"{ ").rstrip(b"} ")
            self.assertIn(rest, line.replace(b"\n", b" "))

    def test_nothing_lost_or_gained(self):
        self.start_with("a", "b")
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        self.answer_list(AS_JSON, 20, "a")
        self.answer_list(AS_JSON, 20, "c")
        self.expect(watch, AS_JSON.bookmark(20))
        asked = self.answer_watch(AS_JSON, 20, ("b", "c"))
        asked.send(json_event("ADDED", meta("p", 21)))
        self.expect(watch, json_event("ADDED", meta("p", 21)))

    def test_limits_that_come_and_go(self):
        key = harness.NAMESPACE_LABEL
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        exact = "limit=500&resourceVersion=20&resourceVersionMatch=Exact&"
        self.reload([])  # everything
        asked = self.asked(f"{self.pods}?{exact}{injected(f'{key} notin (a)')}")
        asked.respond(json_list([meta("g", 3, "z")], 20))
        self.expect(watch, json_event("ADDED", meta("g", 3, "z")) + AS_JSON.bookmark(20))
        asked = self.asked(f"{self.pods}?watch=true{self.begin}")
        asked.open(AS_JSON)
        self.wait_state("Passing")
        self.reload([harness.limit(["pods"], "app=x")])
        asked = self.asked(f"{self.pods}?{exact}{injected('app!=x')}")
        asked.respond(json_list([meta("l", 4, "z")], 20))
        self.expect(watch, json_event("DELETED", meta("l", 4, "z")) + AS_JSON.bookmark(20))
        asked = self.asked(f"{self.pods}?watch=true{self.begin}&{injected('app=x')}")
        asked.open(AS_JSON)
        self.wait_state("Passing")
        self.reload([harness.limit(["pods"], "tier=y")])
        asked = self.asked(f"{self.pods}?{exact}{injected('app=x,tier!=y')}")
        asked.respond(json_list([], 20))
        asked = self.asked(f"{self.pods}?{exact}{injected('app!=x,tier=y')}")
        asked.respond(json_list([], 20))
        self.asked(f"{self.pods}?watch=true{self.begin}&{injected('tier=y')}")

    def test_what_the_old_watch_sent_last_comes_again(self):
        """A part of an event is dropped, and so is all that comes after the change."""
        self.start_with("a", "b")
        first, second = (json_event("ADDED", meta("p", n, "b")) for n in (21, 22))
        watch, old = self.open_from(AS_JSON, first)
        self.send_unseen(old, second[:40])
        lines = self.migrate(AS_JSON, 21) + AS_JSON.bookmark(21)
        self.assertTrue(old.closed())
        self.expect(watch, lines)
        self.answer_watch(AS_JSON, 21, ("b", "c")).send(second)
        self.expect(watch, second)

    def test_initial_events(self):
        """Before they end, nobody knows what the client has."""
        query = "&allowWatchBookmarks=true&sendInitialEvents=true"
        query += "&resourceVersionMatch=NotOlderThan"
        self.start_with("a", "b")
        target = f"{self.pods}?watch=true{query}"
        for end in (False, True):
            events = [json_event("ADDED", meta(f"p{n}", n, "b")) for n in (30, 12)]
            annotation = {"annotations": {"k8s.io/initial-events-end": "true"}}
            if end:
                bookmark = {"resourceVersion": "40", **annotation}
                events.append(json_event("BOOKMARK", bookmark))
            watch, _ = self.open_watch(AS_JSON, *events, target=target)
            if end:
                self.reload_to("a", "c")
                self.answer_list(AS_JSON, 40, "b")
                self.answer_list(AS_JSON, 40, "c")
                self.expect(watch, AS_JSON.bookmark(40))
                self.answer_watch(AS_JSON, 40, ("a", "c"))
            else:
                self.reload_to("a", "b", "d")
                self.reload_to("a", "b")
                self.expect_end(watch, AS_JSON.expired(2))
        self.assertEqual({"version": 1}, self.fallbacks())

    def test_the_end_of_the_watch_right_after(self):
        """By timeoutSeconds: an end as any other, after which the client goes on from what is
        newer than the change. From before it nobody goes on: who knows what he has read."""
        for version, allowed in ((31, True), (20, False), (9, False)):
            self.generation = 1
            proxy = self.start_with("a", "b")
            watch, _ = self.open_from(AS_JSON)
            lines = self.migrate(AS_JSON, 20) + AS_JSON.bookmark(20)
            asked = self.answer_watch(AS_JSON, 20, ("b", "c"))
            if allowed:
                asked.send(AS_JSON.bookmark(31))
                lines += AS_JSON.bookmark(31)
            asked.end()
            self.expect_end(watch, lines)
            self.assert_idle()
            target = f"{self.pods}?watch=true&resourceVersion={version}"
            if allowed:
                self.open_watch(AS_JSON, target=target)
            else:
                self.assert_expired(proxy.fetch(target))
            proxy.stop()

    def test_again_and_again(self):
        """A hundred times in the same stream; nothing piles up."""
        for encoding in ENCODINGS:
            self.generation = 1
            proxy = self.start_with("a", "b")
            query = "&resourceVersion=20"
            watch, asked = self.open_from(encoding, query=query)
            thing = {namespace: meta("p", 5, namespace) for namespace in "abc"}
            has, version = ("a", "b"), 20
            for turn in range(100):
                to = ("b", "c") if has == ("a", "b") else ("a", "b")
                (lost,), (gained,) = set(has) - set(to), set(to) - set(has)
                self.reload_to(*to)
                self.answer_list(encoding, version, lost, [thing[lost]])
                self.answer_list(encoding, version, gained, [thing[gained]])
                self.expect(
                    watch,
                    encoding.event("DELETED", thing[lost])
                    + encoding.event("ADDED", thing[gained]),
                )
                asked = self.answer_watch(encoding, version, to, more="")
                if turn % 3:
                    version += 1
                    asked.send(encoding.event("MODIFIED", meta("q", version, "b")))
                    self.expect(watch, encoding.event("MODIFIED", meta("q", version, "b")))
                has = to
            watch.close()
            self.assertTrue(asked.closed())
            self.assert_idle()
            self.assertEqual(100, self.metric("transitions_total"))
            self.assertEqual(200, self.metric("spliced_events_total"))
            self.assertEqual({}, self.fallbacks())
            proxy.stop()

    def test_watches_that_did_not_change(self):
        same = harness.limit(["secrets"], "app=x")
        self.start([*self.limits("a"), same])
        watches = [
            self.open_watch(AS_JSON, target=target)
            for target in ("/api/v1/secrets?watch=1", "/api/v1/services?watch=true")
        ]
        self.reload([*self.limits("b"), same])
        for watch, asked in watches:
            asked.send(json_event("ADDED", meta("p", 9)))
            self.expect(watch, json_event("ADDED", meta("p", 9)))
        self.assert_nothing_asked()


class ShareTest(SeamlessCase):
    """Many watches of the same ask for the same once."""

    def test_one_list_for_all(self):
        self.start_with("a", "b")
        watches = [self.open_from(AS_JSON) for _ in range(40)]
        other = [self.open_from(AS_PROTOBUF) for _ in range(2)]
        later = self.open_from(AS_JSON, json_event("ADDED", meta("p", 23, "b")))
        lost = [meta(f"l{n}", n, "a") for n in range(1, 6)]
        self.reload_to("b", "c")
        counts = collections.Counter()
        for _ in range(6 + len(watches) + len(other) + 1):
            asked = self.asked()
            kind = asked.request.get("Accept")
            encoding = AS_PROTOBUF if "protobuf" in kind else AS_JSON
            if "watch=true" in asked.target:
                asked.open(encoding)
                continue
            counts[kind, asked.target] += 1
            items = lost if injected(within("a")) in asked.target else []
            version = 23 if "resourceVersion=23" in asked.target else 20
            asked.respond(encoding.list(items, version), content_type=encoding.of_list)
        self.assertEqual(
            {
                (encoding.of_list, self.difference_target(version, namespace)): 1
                for encoding, version in ((AS_JSON, 20), (AS_JSON, 23), (AS_PROTOBUF, 20))
                for namespace in "ac"
            },
            counts,
        )
        for watch, _ in [*watches, later]:
            self.expect(watch, b"".join(json_event("DELETED", item) for item in lost))
        for watch, _ in other:
            self.expect(watch, b"".join(AS_PROTOBUF.event("DELETED", item) for item in lost))
        self.assertEqual(43, self.metric("transitions_total"))
        self.assert_nothing_asked()

    def test_one_leaves_while_the_list_is_under_way(self):
        self.start_with("a", "b")
        first, second = (self.open_from(AS_JSON)[0] for _ in range(2))
        self.reload_to("b")
        asked = self.asked()
        first.close()
        self.wait_metric("open_watches", 1)
        asked.respond(json_list([meta("l", 3, "a")], 20))
        self.expect(second, json_event("DELETED", meta("l", 3, "a")))
        asked = self.asked(self.watch_target(20, "b"))
        second.close()
        self.assertTrue(asked.closed())
        self.assert_idle()

    def test_all_leave_while_the_list_is_under_way(self):
        self.start_with("a", "b")
        watches = [self.open_from(AS_JSON)[0] for _ in range(3)]
        self.reload_to("b")
        asked = self.asked()
        for watch in watches:
            watch.close()
        self.assertTrue(asked.closed())
        self.assert_idle()


class SupersedeTest(SeamlessCase):
    """The rules change again. The newest win; nothing of those between is seen."""

    def setUp(self):
        super().setUp()
        self.start_with("a", "b")

    def restart(self):
        self.proxy_process.stop()
        self.generation = 1
        self.start_with("a", "b")

    def finish(self, watch, lost, gained, to, version=20):
        """From what the client has to the newest."""
        expected = b""
        if lost:
            items = [meta("l", 5, lost)]
            self.answer_list(AS_JSON, version, lost, items)
            expected += json_event("DELETED", items[0])
        if gained:
            items = [meta("g", 6, gained)]
            self.answer_list(AS_JSON, version, gained, items)
            expected += json_event("ADDED", items[0])
        self.expect(watch, expected + AS_JSON.bookmark(version))
        return self.answer_watch(AS_JSON, version, to)

    def test_while_the_first_list_is_under_way(self):
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        old = self.asked(self.difference_target(20, "a"))
        self.reload_to("b", "d")
        again = self.asked(self.difference_target(20, "a"))
        again.respond(json_list([meta("l", 5, "a")], 20))
        self.assertTrue(old.closed())
        self.answer_list(AS_JSON, 20, "d", [meta("g", 6, "d")])
        lines = json_event("DELETED", meta("l", 5, "a")) + json_event("ADDED", meta("g", 6, "d"))
        self.expect(watch, lines + AS_JSON.bookmark(20))
        self.answer_watch(AS_JSON, 20, ("b", "d"))
        self.assertEqual(1, self.metric("transitions_total"))

    def test_while_the_second_list_is_under_way(self):
        """What was listed already was not written yet."""
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        self.answer_list(AS_JSON, 20, "a", [meta("l", 5, "a")])
        old = self.asked(self.difference_target(20, "c"))
        self.reload_to("a", "d")  # a is its own again, b is not
        self.assertTrue(old.closed())
        self.finish(watch, "b", "d", ("a", "d"))

    def test_in_the_middle_of_a_page(self):
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b")
        asked = self.asked()
        body = json_list([meta("l", 5, "a")] * 5, 20)
        asked.begin()
        asked.send(body[:300])
        self.reload_to("a", "b", "c")
        self.assertTrue(asked.closed())
        self.finish(watch, None, "c", ("a", "b", "c"))

    def test_back_to_where_it_was(self):
        """Nothing is lost and nothing gained: it goes on."""
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        old = self.asked()
        self.reload_to("a", "b")
        self.assertTrue(old.closed())
        self.answer_watch(AS_JSON, 20, ("a", "b")).send(json_event("ADDED", meta("p", 21)))
        self.expect(watch, json_event("ADDED", meta("p", 21)))

    def test_many_changes_in_a_row(self):
        watch, _ = self.open_from(AS_JSON)
        for namespace in "cdefghijkl":
            self.reload_to("b", namespace)
        self.reload_to("b", "z")
        # All but one are aborted, in whatever order they are seen here.
        while (asked := self.asked()).target == self.difference_target(20, "a"):
            asked.try_respond(json_list([meta("l", 5, "a")], 20))
        self.assertEqual(self.difference_target(20, "z"), asked.target)
        self.wait_metric("upstream_requests_in_flight", 1)
        asked.respond(json_list([meta("g", 6, "z")], 20))
        lines = json_event("DELETED", meta("l", 5, "a")) + json_event("ADDED", meta("g", 6, "z"))
        self.expect(watch, lines + AS_JSON.bookmark(20))

    def test_a_change_of_other_rules(self):
        """The lists go on."""
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        old = self.asked(self.difference_target(20, "a"))
        self.reload([*self.limits("b", "c"), harness.limit(["secrets"], "app=x")])
        self.assertFalse(old.closed(0.1))
        old.respond(json_list([meta("l", 5, "a")], 20))
        self.answer_list(AS_JSON, 20, "c", [meta("g", 6, "c")])
        lines = json_event("DELETED", meta("l", 5, "a")) + json_event("ADDED", meta("g", 6, "c"))
        self.expect(watch, lines + AS_JSON.bookmark(20))
        self.answer_watch(AS_JSON, 20, ("b", "c"))

    def test_while_the_new_watch_is_not_answered(self):
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        self.answer_list(AS_JSON, 20, "a", [meta("l", 5, "a")])
        self.answer_list(AS_JSON, 20, "c", [meta("g", 6, "c")])
        old = self.asked(self.watch_target(20, "b", "c"))
        self.assertEqual("Reopening", self.state())
        lines = json_event("DELETED", meta("l", 5, "a")) + json_event("ADDED", meta("g", 6, "c"))
        self.expect(watch, lines + AS_JSON.bookmark(20))
        self.reload_to("b", "d")
        self.assertTrue(old.closed())
        self.finish(watch, "c", "d", ("b", "d"))

    def test_before_the_new_watch_has_told_anything(self):
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        asked = self.finish(watch, "a", "c", ("b", "c"))
        self.wait_state("Passing")
        self.send_unseen(asked, json_event("ADDED", meta("p", 23))[:30])
        self.reload_to("b", "d")
        self.assertTrue(asked.closed())
        self.finish(watch, "c", "d", ("b", "d"))

    pages = 40

    def is_more_asked(self):
        """Whether localproxy asks for another page, after all that it could read: when it has told
        its state it has made use of what came before. What it lists has been asked for, or will be."""
        quiet = 0
        for _ in range(300):
            try:
                self.arrived.put(self.arrived.get(timeout=0.2))
                return True
            except queue.Empty:
                quiet = 0 if self.state() == "ListingDifference" else quiet + 1
            if quiet == 5:
                return False
        raise AssertionError("a page that is listed has not been asked for")

    @staticmethod
    def items_of(page):
        """About 300 kB."""
        return [meta(f"g{page}-{n}", 5, "c", uid="x" * 997 * n) for n in range(25)]

    def events_of(self, encoding, pages):
        """What is to come of them."""
        things = (item for page in pages for item in self.items_of(page))
        return b"".join(encoding.event("ADDED", thing) for thing in things)

    def answer_page(self, encoding, page):
        token = f"more-{page}" if page < self.pages - 1 else None
        body = encoding.list(self.items_of(page), 20, token)
        self.asked().respond(body, content_type=encoding.of_list)

    def answer_pages(self, encoding, pages):
        for page in pages:
            self.answer_page(encoding, page)

    def slow_watch(self, encoding):
        """Much is gained, and the client does not read: so many pages are asked for, and no more."""
        self.list_at(20)
        target = f"{self.pods}?watch=true{self.begin}"
        watch = self.open(target, [("Accept", encoding.of_watch)], receive_buffer=4096)
        old = self.asked()
        old.open(encoding)
        self.assertEqual(200, watch.read_head().status)
        self.reload_to("a", "b", "c")
        self.assertTrue(old.closed())
        pages = 0
        while self.is_more_asked():
            self.answer_page(encoding, pages)
            pages += 1
        self.assertLess(pages, self.pages)
        self.assertEqual("WritingDifference", self.state())
        return watch, pages

    def test_while_it_is_written_to_a_slow_reader(self):
        """What it got is whole; then it lists again."""
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                watch, pages = self.slow_watch(encoding)
                expected = self.events_of(encoding, range(pages))
                self.reload_to("a", "b")
                self.wait_metric("watches_cut_total", 1)
                body, complete = watch.read_body()
                self.assertTrue(complete)
                end = encoding.expired(self.generation)
                self.assertEqual(end, body[-len(end) :])
                seen = body[: -len(end)]
                self.assertEqual(expected[: len(seen)], seen)
                self.assertLess(len(seen), len(expected))
                decode = objects.json_events if encoding is AS_JSON else objects.protobuf_events
                self.assertEqual(b"", decode(seen)[1])
                self.assertEqual({"superseded": 1}, self.fallbacks())
                self.restart()

    def test_a_slow_reader_leaves(self):
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                watch, _ = self.slow_watch(encoding)
                watch.close()
                self.assert_idle()
                # Neither from where it was nor from what was written.
                for version in (20, 5):
                    target = f"{self.pods}?watch=true&resourceVersion={version}"
                    self.assert_expired(self.proxy_process.fetch(target))
                self.restart()

    def test_a_slow_reader_gets_all(self):
        """When it reads at last; until then only so much is asked for."""
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                watch, pages = self.slow_watch(encoding)
                # A page is asked for while the client still reads, and must come soon.
                rest = (encoding, range(pages, self.pages))
                answering = threading.Thread(target=self.answer_pages, args=rest)
                answering.start()
                self.expect(watch, self.events_of(encoding, range(self.pages)))
                answering.join()
                self.asked(self.watch_target(20, "a", "b", "c"))
                self.restart()

class FallBackTest(SeamlessCase):
    """Where there is no way but the cut, and what fails on the way."""

    def assert_cut(self, watch, encoding=AS_JSON, **reasons):
        self.expect_end(watch, encoding.expired(self.generation))
        self.assertEqual(reasons, self.fallbacks())

    def test_no_version_is_known(self):
        self.start_with("a")
        watch, _ = self.open_watch(AS_JSON, json_event("ADDED", meta("p", 12)))
        self.reload_to("b")
        self.assert_cut(watch, version=1)
        # After a bookmark it is.
        events = [json_event("ADDED", meta("p", 12)), json_event("BOOKMARK", meta("", 15))]
        watch, _ = self.open_watch(AS_JSON, *events)
        self.reload_to("a")
        self.answer_list(AS_JSON, 15, "b")
        self.answer_list(AS_JSON, 15, "a")
        self.asked(f"{self.pods}?watch=true&resourceVersion=15&{injected(within('a'))}")

    def test_forms(self):
        """Tables, somebody else's name, the old form of the path."""
        self.start_with("a", args=("--cut-interval=0",))
        table = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")]
        impersonated = [("Impersonate-User", "somebody")]
        extra = [("impersonate-extra-x", "y"), ("Impersonate-User", "somebody")]
        old_form = "/api/v1/watch/pods?resourceVersion=20"
        for headers, target in (
            (table, None),
            (impersonated, None),
            (extra, None),
            ((), old_form),
        ):
            self.list_at(20)
            watch, _ = self.open_watch(
                AS_JSON,
                target=target or f"{self.pods}?watch=true{self.begin}",
                headers=headers,
            )
            self.reload_to("a" if self.generation % 2 == 0 else "b")
            self.expect_end(watch, AS_JSON.expired(self.generation))
        self.assertEqual({"form": 4}, self.fallbacks())
        self.assert_nothing_asked()

    def test_what_cannot_be_told_apart_is_broken_off(self):
        self.start_with("a")
        self.list_at(20)
        watch = self.open(f"{self.pods}?watch=true{self.begin}")
        asked = self.asked()
        asked.begin("application/cbor-seq")
        asked.send(b"\xd9\xd9\xf7")
        watch.read_head()
        self.reload_to("b")
        self.expect_broken_off(watch, b"\xd9\xd9\xf7")

    def test_within_a_huge_event(self):
        """The client has begun to read it, so it is finished."""
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                self.generation = 1
                proxy = self.start_with("a")
                huge = encoding.event("ADDED", meta("p", 23, uid="x" * 1500000))
                watch, asked = self.open_from(encoding)
                asked.send_beside(huge[:1300000])
                self.expect(watch, huge[:1300000])
                self.reload_to("b")
                asked.send_beside(huge[1300000:] + encoding.event("ADDED", meta("q", 24)))
                self.expect_end(watch, huge[1300000:] + encoding.expired(2))
                self.assertEqual({"size": 1}, self.fallbacks())
                proxy.stop()

    def test_selectors_whose_difference_cannot_be_listed(self):
        self.start([harness.limit(["pods"], "n>5")])
        watch, _ = self.open_from(AS_JSON)
        self.reload([harness.limit(["pods"], "n>7")])
        self.assert_cut(watch, selector=1)

    def failing_lists(self):
        """How a list fails -> the reason that is counted."""

        def status(code):
            return lambda asked: asked.try_respond(b'{"kind":"Status"}', code)

        def typed(body, kind="application/json", **headers):
            named = [(name.replace("_", "-"), value) for name, value in headers.items()]
            return lambda asked: asked.try_respond(body, content_type=kind, headers=named)

        whole = json_list([meta("l", 5)], 20)
        table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "rows": []}
        other = json_list([meta("l", 5)], 21)
        return (
            ("of now", typed(other), "upstream"),
            ("refused", status(403), "upstream"),
            ("not known", status(404), "upstream"),
            ("expired", self.forget, "expired"),
            ("bad request", status(400), "upstream"),
            ("failing", status(501), "upstream"),
            ("busy for long", busy_for_long, "upstream"),
            ("no JSON", typed(b"<html>"), "upstream"),
            ("empty", typed(b""), "upstream"),
            ("half", typed(whole[: len(whole) // 2]), "upstream"),
            ("a table", typed(compact(table)), "upstream"),
            ("protobuf", typed(AS_PROTOBUF.list([], 20), objects.PROTOBUF), "upstream"),
            ("no type", typed(whole, "text/plain"), "upstream"),
            ("compressed", typed(whole, Content_Encoding="gzip"), "upstream"),
        )

    def forget(self, asked):
        """Neither is the version kept, nor is what is in memory as late."""
        asked.try_respond(b'{"kind":"Status"}', 410)
        asked = self.asked()
        self.assertIn("&resourceVersion=0&", asked.target)
        asked.try_respond(json_list([], 19))

    def test_a_list_fails(self):
        """The client lists again; it has seen nothing."""
        self.start_with("a", "b", args=("--cut-interval=0",))
        expected = collections.Counter()
        for name, fail, reason in self.failing_lists():
            for which in (1, 2):
                with self.subTest(how=name, list=which):
                    watch, _ = self.open_from(AS_JSON)
                    lost = self.swap()
                    if which == 2:
                        self.answer_list(AS_JSON, 20, lost, [meta("l", 5, lost)])
                    fail(self.asked())
                    expected[reason] += 1
                    self.assert_cut(watch, **expected)
                    self.assert_nothing_asked()
        self.assert_idle()

    def swap(self):
        """From a,b to b,c and back: what is lost."""
        to, lost = (("b", "c"), "a") if self.generation % 2 else (("a", "b"), "c")
        self.reload_to(*to)
        return lost

    def test_a_list_fails_for_all(self):
        self.start_with("a", "b")
        watches = [self.open_from(AS_JSON)[0] for _ in range(5)]
        self.reload_to("b")
        self.asked().try_respond(b"{}", 403)
        for watch in watches:
            self.expect_end(watch, AS_JSON.expired(2))
        self.assert_nothing_asked()

    def test_protobuf_lists_that_fail(self):
        whole = AS_PROTOBUF.list([meta("l", 5)], 20)
        for body, kind in (
            (whole[:-9], objects.PROTOBUF),
            (b"k8s\0garbage", objects.PROTOBUF),
            (json_list([], 20), "application/json"),
            (whole[4:], objects.PROTOBUF),
        ):
            self.generation = 1
            proxy = self.start_with("a", "b")
            watch, _ = self.open_from(AS_PROTOBUF)
            self.reload_to("b")
            self.asked().try_respond(body, content_type=kind)
            self.assert_cut(watch, AS_PROTOBUF, upstream=1)
            proxy.stop()

    def test_what_takes_too_long(self):
        """A list that is not answered; pages without end, and without objects; a watch that is not
        answered. Nothing of it is sooner over than the others, so all at once."""
        self.start_with("a", "b", args=("--cut-interval=0",))
        watches = {}
        for name in ("list", "pages", "reopen"):
            self.collection = f"/api/v1/namespaces/{name}/pods"
            watches[name], _ = self.open_from(AS_JSON)
        self.reload_to("b")
        token = itertools.count()

        def all_are_cut():
            while not self.arrived.empty():
                asked = self.asked()
                if "/namespaces/pages/" in asked.target:
                    asked.try_respond(json_list([], 20, f"more-{next(token)}"))
                elif "/namespaces/reopen/" in asked.target and "watch=true" not in asked.target:
                    asked.respond(json_list([], 20))
            return self.fallbacks() == {"upstream": 2, "reopen": 1}

        try:
            harness.wait_for(all_are_cut, "all are cut", 45, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.fallbacks()} {self.proxy_process.log()}") from None
        for watch in watches.values():
            self.expect_end_with(watch, AS_JSON.expired(self.generation))
        self.assertGreater(next(token), 10)
        self.assert_idle()

    def test_pages_that_go_round(self):
        """Some page names the token of itself, or of one before."""
        self.start_with("a", "b", args=("--cut-interval=0",))
        cut = 0
        for follows in (
            {None: "x", "x": "x"},
            {None: "x", "x": "y", "y": "x"},
            {None: "u", "u": "v", "v": "x", "x": "y", "y": "z", "z": "x"},
        ):
            for items in ([meta("l", 5)], []):
                with self.subTest(follows=follows, empty=not items):
                    watch, _ = self.open_from(AS_JSON)
                    self.swap()
                    cut += 1

                    def is_cut(items=items, follows=follows, number=cut):
                        self.answer_pages(items, follows)
                        return self.fallbacks() == {"upstream": number}

                    harness.wait_for(is_cut, "the watch is cut")
                    self.expect_end_with(watch, AS_JSON.expired(self.generation))
        self.assert_idle()

    def answer_pages(self, items, follows):
        """Those that are asked for now."""
        while not self.arrived.empty():
            asked = self.asked()
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(asked.target).query)
            (token,) = query.get("continue", [None])
            asked.try_respond(json_list(items, 20, follows[token]))

    def expect_end_with(self, watch, last):
        """After whatever came before."""
        data, complete = watch.read_body()
        self.assertTrue(complete and data.endswith(last), data[-300:])

    def test_a_page_that_is_too_large(self):
        self.start_with("a", "b")
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b")
        asked = self.asked()
        items = [meta(f"l{n}", 5, "a", uid="x" * 100000) for n in range(200)]
        asked.try_respond(json_list(items, 20))
        self.assert_cut(watch, size=1)

    def test_a_later_page_fails(self):
        """Whether its version is gone, or all is."""
        self.start_with("a", "b")
        fails = (("expired", self.forget), ("upstream", lambda asked: asked.try_respond(b"{}", 403)))
        for reason, fail in fails:
            watch, _ = self.open_from(AS_JSON)
            self.reload_to("b" if self.generation % 2 else "a")
            self.asked().respond(json_list([meta("l", 5, "a")], 20, "more"))
            fail(self.asked())
            self.expect_end(watch, AS_JSON.expired(self.generation))
            self.assertIn(reason, self.fallbacks())

    def test_the_new_watch_fails(self):
        """The client has all up to its version then, but nobody knows whether it has read it."""
        fails = (
            lambda asked: asked.try_respond(b"{}", 403),
            lambda asked: asked.try_respond(b"{}", 410),
            busy_for_long,
            lambda asked: asked.begin("application/cbor-seq"),
            lambda asked: asked.begin(objects.PROTOBUF_WATCH),
            lambda asked: asked.begin(headers=[("Content-Encoding", "gzip")]),
        )
        self.start_with("a", "b", args=("--cut-interval=0",))
        for number, fail in enumerate(fails):
            with self.subTest(number=number):
                watch, _ = self.open_from(AS_JSON)
                lost = self.swap()
                self.answer_list(AS_JSON, 20, lost, [meta("l", 5, lost)])
                self.asked().respond(json_list([], 20))
                lines = json_event("DELETED", meta("l", 5, lost))
                lines += AS_JSON.bookmark(20)
                self.expect(watch, lines)
                fail(self.asked())
                self.assert_cut(watch, reopen=number + 1)
                self.assert_idle()

    def test_the_cut_is_paced(self):
        """A client that falls back again and again must not back off for long."""
        self.start_with("a", "b", args=("--cut-interval=60",))
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b")
        self.asked().try_respond(b"{}", 403)
        self.expect_end(watch, AS_JSON.expired(2))
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("a", "b")
        self.asked().try_respond(b"{}", 403)
        self.wait_state("Silenced")
        self.proxy_process.signal(signal.SIGTERM)
        self.expect_end(watch, AS_JSON.expired(3))
        self.assert_ends()


class ForgottenTest(SeamlessCase):
    """The API server does not keep the client's version any more."""

    def forget(self, encoding=AS_JSON, query=None):
        """A watch from 20, and rules that change from a,b to b,c."""
        if self.proxy_process is not None:
            self.proxy_process.stop()
        self.generation = 1
        self.start_with("a", "b")
        watch, _ = self.open_from(encoding, query=query)
        self.reload_to("b", "c")
        self.asked(self.difference_target(20, "a")).try_respond(b"{}", 410)
        return watch

    def answer_memory(self, encoding, version, namespace, items=()):
        """What the API server has in memory."""
        target = f"{self.collection}?limit=500&resourceVersion=0&{injected(within(namespace))}"
        asked = self.asked(target)
        self.assertEqual(encoding.of_list, asked.request.get("Accept"))
        asked.respond(encoding.list(items, version), content_type=encoding.of_list)

    def probes(self, version=20, namespaces=("a", "b")):
        """The watches that tell what comes after a version: the narrow one and the wide one."""
        wide = (
            f"{self.collection}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3"
            f"&resourceVersion={version}"
        )
        found = {asked.target: asked for asked in (self.asked(), self.asked())}
        self.assertEqual({wide, f"{wide}&{injected(within(*namespaces))}"}, set(found))
        narrow = found.pop(f"{wide}&{injected(within(*namespaces))}")
        for asked in (narrow, found[wide]):
            asked.open(AS_JSON)
        return narrow, found[wide]

    def expect_migrated(self, watch, version, encoding=AS_JSON, bookmarks=True):
        """The rest of the way, at that version."""
        lost, gained = meta("lost", 7, "a"), meta("gained", 9, "c")
        self.answer_list(encoding, version, "a", [lost])
        self.answer_list(encoding, version, "c", [gained])
        self.expect_written(watch, version, encoding, bookmarks)

    def expect_written(self, watch, version, encoding=AS_JSON, bookmarks=True):
        lines = encoding.event("DELETED", meta("lost", 7, "a"))
        lines += encoding.event("ADDED", meta("gained", 9, "c"))
        lines += encoding.bookmark(version) if bookmarks else b""
        self.expect(watch, lines)
        more = "&allowWatchBookmarks=true" if bookmarks else ""
        asked = self.answer_watch(encoding, version, ("b", "c"), more=more)
        later = encoding.event("MODIFIED", meta("p", version + 9, "b"))
        asked.send(later)
        self.expect(watch, later)
        self.assertEqual(1, self.metric("transitions_total"))
        self.assertEqual({}, self.fallbacks())
        self.assert_nothing_asked()

    def test_nothing_came_after_it(self):
        """Then what is in memory is what was there."""
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                watch = self.forget(encoding)
                self.answer_memory(encoding, 20, "a", [meta("lost", 7, "a")])
                self.answer_memory(encoding, 20, "c", [meta("gained", 9, "c")])
                self.expect_written(watch, 20, encoding)

    def test_something_came_between_the_lists(self):
        watch = self.forget()
        self.answer_memory(AS_JSON, 20, "a", [meta("lost", 7, "a")])
        self.answer_memory(AS_JSON, 22, "c")
        _, wide = self.probes()
        wide.send(json_event("ADDED", meta("x", 22, "z")))
        self.expect_migrated(watch, 21)

    def test_the_version_before_the_next_event(self):
        """Whoever tells of it; the client is not."""
        for which in (0, 1):
            for encoding in ENCODINGS:
                with self.subTest(which=which, encoding=encoding):
                    watch = self.forget(encoding)
                    self.answer_memory(encoding, 35, "a")
                    probe = self.probes()[which]
                    line = json_event("MODIFIED", meta("q", 32, "a"))
                    probe.send(line[:50])
                    self.assert_nothing_asked()
                    self.assertEqual("FindingVersion", self.state())
                    probe.send(line[50:] + json_event("MODIFIED", meta("q", 34, "a")))
                    self.expect_migrated(watch, 31, encoding)

    def test_a_client_without_bookmarks(self):
        watch = self.forget(query="&resourceVersion=20")
        self.answer_memory(AS_JSON, 35, "a")
        narrow, _ = self.probes()
        narrow.send(AS_JSON.bookmark(40))
        self.expect_migrated(watch, 40, bookmarks=False)

    def test_the_next_event_is_too_old_as_well(self):
        """The bookmark of the narrow one is not, whether it comes before that turns out or after."""
        for before in (True, False):
            with self.subTest(before=before):
                watch = self.forget()
                self.answer_memory(AS_JSON, 35, "a")
                narrow, wide = self.probes()
                wide.send(json_event("ADDED", meta("x", 30, "z")))
                asked = self.asked(self.difference_target(29, "a"))
                if before:
                    narrow.send(AS_JSON.bookmark(40))
                    self.assertTrue(narrow.closed())
                asked.try_respond(b"{}", 410)
                self.answer_memory(AS_JSON, 35, "a")
                if not before:
                    narrow.send(AS_JSON.bookmark(40))
                self.expect_migrated(watch, 40)

    def test_the_next_event_is_the_next_version(self):
        """So there is nothing between them that could be listed."""
        watch = self.forget()
        self.answer_memory(AS_JSON, 35, "a")
        narrow, wide = self.probes()
        wide.send(json_event("ADDED", meta("x", 21, "z")))
        self.assertTrue(wide.closed())
        self.assert_nothing_asked()
        narrow.send(AS_JSON.bookmark(36))
        self.expect_migrated(watch, 36)

    def test_nothing_tells_of_a_later_version(self):
        gone = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        ends = (
            lambda asked: asked.end(),
            lambda asked: asked.break_off(),
            lambda asked: asked.send(json_event("ADDED", meta("x", 21, "z"))),
            lambda asked: asked.send(compact({"type": "ERROR", "object": gone}) + b"\n"),
            lambda asked: asked.send(b"nonsense\n"),
        )
        for end in ends:
            with self.subTest(end=ends.index(end)):
                watch = self.forget()
                self.answer_memory(AS_JSON, 35, "a")
                for probe in self.probes():
                    end(probe)
                self.expect_end(watch, AS_JSON.expired(2))
                self.assertEqual({"expired": 1}, self.fallbacks())
                self.assert_nothing_asked()
                self.assert_idle()

    def test_the_watches_are_refused(self):
        watch = self.forget()
        self.answer_memory(AS_JSON, 35, "a")
        for code in (410, 500):
            self.asked().try_respond(b"{}", code)
        self.expect_end(watch, AS_JSON.expired(2))
        self.assertEqual({"expired": 1}, self.fallbacks())

    def test_no_limit_before(self):
        """There is nothing that the client was not to see."""
        self.start([harness.limit(["services"], within("a"))])
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b")
        self.asked().try_respond(b"{}", 410)
        self.asked().respond(json_list([], 35))
        self.asked().open(AS_JSON, AS_JSON.bookmark(41))
        asked = self.asked()
        self.assertIn("resourceVersion=41&resourceVersionMatch=Exact", asked.target)
        asked.respond(json_list([], 41))
        self.expect(watch, AS_JSON.bookmark(41))
        self.asked(self.watch_target(41, "b"))

    def test_rules_change_meanwhile(self):
        """The newest count, and what was found remains so."""
        watch = self.forget()
        self.answer_memory(AS_JSON, 35, "a")
        _, wide = self.probes()
        self.reload_to("a")
        self.assertEqual("FindingVersion", self.state())
        self.assert_nothing_asked()
        wide.send(json_event("ADDED", meta("x", 32, "z")))
        asked = self.asked(self.difference_target(31, "b"))
        self.reload_to("b")
        self.assertTrue(asked.closed())
        self.answer_list(AS_JSON, 31, "a", [meta("lost", 7, "a")])
        lines = json_event("DELETED", meta("lost", 7, "a")) + AS_JSON.bookmark(31)
        self.expect(watch, lines)
        self.asked(self.watch_target(31, "b"))

    def test_the_client_leaves_meanwhile(self):
        watch = self.forget()
        self.answer_memory(AS_JSON, 35, "a")
        probes = self.probes()
        watch.close()
        for probe in probes:
            self.assertTrue(probe.closed())
        self.assert_idle()

    def test_shutdown_meanwhile(self):
        watch = self.forget()
        self.answer_memory(AS_JSON, 35, "a")
        probes = self.probes()
        self.proxy_process.signal(signal.SIGTERM)
        self.expect_end(watch, AS_JSON.expired(2))
        for probe in probes:
            self.assertTrue(probe.closed())
        self.assert_ends()


class LeaveTest(SeamlessCase):
    """Either side goes away, in each phase."""

    def phases(self):
        """Each leaves the watch in that phase: the watch, and what is asked upstream."""

        def listing():
            watch, _ = self.open_from(AS_JSON)
            self.reload_to("b", "c")
            return watch, self.asked()

        def listing_more():
            watch, asked = listing()
            asked.respond(json_list([meta("l", 5, "a")], 20))
            return watch, self.asked(self.difference_target(20, "c"))

        def reopening():
            watch, asked = listing_more()
            asked.respond(json_list([], 20))
            return watch, self.asked(self.watch_target(20, "b", "c"))

        def passing():
            watch, asked = reopening()
            asked.open(AS_JSON)
            self.wait_state("Passing")
            return watch, asked

        return listing, listing_more, reopening, passing

    def test_the_client_leaves(self):
        for phase in self.phases():
            with self.subTest(phase=phase.__name__):
                self.generation = 1
                proxy = self.start_with("a", "b")
                watch, asked = phase()
                watch.close()
                self.assertTrue(asked.closed())
                self.assert_idle()
                self.assert_nothing_asked()
                proxy.stop()

    def test_shutdown(self):
        """With a 410 as long as the client has not all; else an end as any other."""
        for phase in self.phases():
            with self.subTest(phase=phase.__name__):
                self.generation = 1
                proxy = self.start_with("a", "b")
                watch, asked = phase()
                proxy.signal(signal.SIGTERM)
                written = json_event("DELETED", meta("l", 5, "a"))
                written += AS_JSON.bookmark(20)
                early = "listing" in phase.__name__
                self.expect_end(watch, AS_JSON.expired(2) if early else written)
                watch.close()
                self.assertTrue(asked.closed())
                self.assert_ends()

    def migrated_and_gone(self, newer):
        """A watch that has migrated, and whose client has gone without an end."""
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b", "c")
        self.answer_list(AS_JSON, 20, "a", [meta("l", 5, "a")])
        self.answer_list(AS_JSON, 20, "c", [meta("g", 6, "c")])
        asked = self.answer_watch(AS_JSON, 20, ("b", "c"))
        self.wait_state("Passing")
        if newer:
            self.send_unseen(asked, json_event("ADDED", meta("p", 31, "b")))
        watch.close()
        self.assertTrue(asked.closed())
        self.assert_idle()

    def test_a_version_that_may_be_from_before(self):
        """A client that was cut off did perhaps not get what was written: it lists again, whatever
        version it comes with; not so once it has seen something newer.
        """
        for newer, version, allowed in (
            (False, 20, False),
            (False, 5, False),
            (True, 20, False),
            (True, 6, False),
            (True, 31, True),
        ):
            with self.subTest(newer=newer, version=version):
                self.generation = 1
                proxy = self.start_with("a", "b")
                self.migrated_and_gone(newer)
                target = f"{self.pods}?watch=true&resourceVersion={version}"
                if allowed:
                    self.open_watch(AS_JSON, target=target)
                else:
                    self.assert_expired(proxy.fetch(target))
                proxy.stop()


if __name__ == "__main__":
    harness.main()
