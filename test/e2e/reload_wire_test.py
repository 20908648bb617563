# SPDX-License-Identifier: Apache-2.0
"""What a change of the rules does to each kind of request, to the byte, with --reload-mode=cut: the
API server is scripted, so that the change comes at a moment of the test's choice.
"""

import base64
import gzip
import json
import os
import signal
import stat
import threading
import time

import harness
import objects
import scripted_case
import wire
from scripted_case import (
    AS_JSON,
    AS_PROTOBUF,
    ENCODINGS,
    compact,
    custom_list,
    injected,
    json_event,
    json_expired,
    json_list,
    meta,
    within,
)

MEBIBYTE = 1 << 20
CUT = json_expired


class WireCase(scripted_case.ScriptedCase):
    mode = "cut"

    def start_with(self, *namespaces, args=("--cut-interval=0",), **more):
        return super().start_with(*namespaces, args=args, **more)


class CutTest(WireCase):
    """A watch of which the selector changed ends between two events, with 410."""

    def test_between_two_events(self):
        self.start_with("a")
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                events = [encoding.event("ADDED", meta("p", n)) for n in (5, 6)]
                watch, asked = self.open_watch(encoding, *events)
                self.reload_to("b" if self.generation % 2 else "a")
                self.assertTrue(asked.closed())
                self.expect_end(watch, encoding.expired(self.generation))
                # The connection is as good as before.
                watch.send_head("GET", "/version")
                self.asked("/version").respond(b"{}")
                self.assertEqual(b"{}", watch.response().body)
        self.assertEqual(2, self.metric("watches_cut_total"))
        self.assertEqual(0, self.metric("watches_silenced_total"))
        self.assert_idle()

    def test_before_the_first_event(self):
        self.start_with("a")
        watch, _ = self.open_watch(AS_JSON)
        self.reload_to("b")
        self.expect_end(watch, CUT(2))

    def test_within_an_event(self):
        """It is not seen, however much of it has come."""
        self.start_with("a")
        for encoding in ENCODINGS:
            first, second = (encoding.event("ADDED", meta("p", n)) for n in (5, 6))
            for place in (1, 3, 4, 5, 30, len(second) - 1):
                with self.subTest(encoding=encoding, place=place):
                    watch, asked = self.open_watch(encoding, first)
                    self.send_unseen(asked, second[:place])
                    self.reload_to("b" if self.generation % 2 else "a")
                    self.expect_end(watch, encoding.expired(self.generation))

    def test_within_an_event_that_came_with_the_one_before(self):
        self.start_with("a")
        first, second = (AS_JSON.event("ADDED", meta("p", n)) for n in (5, 6))
        watch, asked = self.open_watch(AS_JSON)
        asked.send(first + second[:20])
        self.expect(watch, first)
        self.reload_to("b")
        self.expect_end(watch, CUT(2))

    def huge(self, encoding):
        """More than is held back."""
        return encoding.event("ADDED", meta("p", 6, uid="x" * (3 * MEBIBYTE // 2)))

    def test_within_a_huge_event(self):
        """The client has begun to read it, so it is finished; nothing follows."""
        self.start_with("a")
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                huge, small = self.huge(encoding), encoding.event("ADDED", meta("p", 7))
                watch, asked = self.open_watch(encoding)
                asked.send_beside(huge[: 5 * MEBIBYTE // 4])
                self.expect(watch, huge[: 5 * MEBIBYTE // 4])
                self.reload_to("b" if self.generation % 2 else "a")
                asked.send_beside(huge[5 * MEBIBYTE // 4 :] + small)
                self.expect_end(
                    watch, huge[5 * MEBIBYTE // 4 :] + encoding.expired(self.generation)
                )

    def test_within_a_huge_event_that_does_not_end(self):
        self.start_with("a")
        huge = self.huge(AS_JSON)[: 5 * MEBIBYTE // 4]
        watch, asked = self.open_watch(AS_JSON)
        asked.send_beside(huge)
        self.expect(watch, huge)
        broken, asked = self.open_watch(AS_JSON)
        asked.send_beside(huge)
        self.expect(broken, huge)
        self.reload_to("b")
        asked.break_off()
        self.expect_broken_off(broken)
        began = time.monotonic()
        self.expect_broken_off(watch)
        self.assertGreater(time.monotonic() - began, 2)

    def test_a_slow_reader_gets_all_that_came_before(self):
        self.start_with("a")
        events = [json_event("ADDED", meta("p", n, uid="x" * 8000)) for n in range(5, 1000)]
        watch = self.open(f"{self.pods}?watch=true", receive_buffer=4096)
        asked = self.asked()
        asked.open(AS_JSON)
        threading.Thread(target=self.send_quietly, args=(asked, events), daemon=True).start()
        self.assertEqual(200, watch.read_head().status)
        harness.wait_for(lambda: self.metric("unread_memory_bytes") > 0, "the reader is slow")
        self.reload_to("b")
        body, complete = watch.read_body()
        self.assertTrue(complete)
        self.assertTrue(body.endswith(b"\n" + CUT(2)))
        seen = body[: -len(CUT(2))]
        self.assertEqual(b"".join(events)[: len(seen)], seen)
        self.assertLess(len(seen), sum(map(len, events)))

    @staticmethod
    def send_quietly(asked, events):
        try:
            asked.send(*events)
        except OSError:
            pass  # it is aborted

    def test_only_what_changed(self):
        """Others keep their connection and get every event, from the same upstream request."""
        same = harness.limit(["secrets"], "app in (x,y)")
        also = harness.limit(["secrets"], "app in (y, x)")
        other = harness.limit(["pods"], within("b"))
        self.start([*self.limits("a"), same], "--cut-interval=0")
        pods, _ = self.open_watch(AS_JSON)
        kept = [
            self.open_watch(encoding, target=target)
            for encoding in ENCODINGS
            for target in ("/api/v1/secrets?watch=1", "/api/v1/services?watch=true")
        ]
        halves = []
        for encoding, (_, asked) in zip((AS_JSON, AS_JSON, AS_PROTOBUF, AS_PROTOBUF), kept):
            event = encoding.event("ADDED", meta("p", 9))
            self.send_unseen(asked, event[:25])
            halves.append((event, event[25:]))
        self.reload([also, other])
        self.expect_end(pods, CUT(2))
        for (watch, asked), (event, rest) in zip(kept, halves):
            asked.send(rest)
            self.expect(watch, event)
            asked.send(event)
            self.expect(watch, event)
            asked.end()
            self.expect_end(watch)
        self.assert_nothing_asked()
        self.assertEqual(1, self.metric("watches_cut_total"))

    def test_a_limit_that_comes_and_goes(self):
        self.start([harness.limit(["secrets"], "a")], "--cut-interval=0")
        for limits in (self.limits("a"), []):
            watch, asked = self.open_watch(AS_JSON)
            self.assertEqual(bool(limits), injected("") not in asked.target)
            self.reload(limits)
            self.expect_end(watch, CUT(self.generation))

    def test_what_cannot_be_told_apart_is_broken_off(self):
        self.start_with("a")
        event = b"\xd9\xd9\xf7 what CBOR looks like"
        watch, asked = self.open_watch(AS_JSON)
        cbor = self.open(f"{self.pods}?watch=true")
        asked = self.asked()
        asked.begin("application/cbor-seq")
        asked.send(event)
        zipped = self.open(f"{self.pods}?watch=true", [("Accept-Encoding", "gzip")])
        asked = self.asked()
        asked.begin(headers=[("Content-Encoding", "gzip")])
        asked.send(event)
        tunnel, asked = self.upgraded("/api/v1/namespaces/a/pods/p/exec")
        for connection in (cbor, zipped):
            connection.read_head()
            self.expect(connection, event)
        self.reload_to("a", "b")
        self.expect_end(watch, CUT(2))
        self.expect_broken_off(cbor)
        self.expect_broken_off(zipped)
        # What is no watch is left alone.
        asked.peer.send(b"still there")
        self.assertEqual(b"still there", tunnel.read_some())

    def test_a_websocket_is_answered_with_a_stream(self):
        """As kube-apiserver answers a watch that does not ask for an upgrade: Fabric8's client goes
        on with plain HTTP then."""
        self.start_with("a")
        headers = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        watch, asked = self.open_watch(AS_JSON, self.first, headers=headers)
        self.assertIsNone(asked.request.get("Upgrade"))
        self.assertEqual("identity", asked.request.get("Accept-Encoding"))
        self.reload_to("b")
        self.expect_end(watch, CUT(2))

    first = json_event("ADDED", meta("p", 5))

    def upgraded(self, target):
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        connection = self.open(target, upgrade)
        asked = self.asked()
        asked.peer.send_response_head(101, upgrade)
        self.assertEqual(101, connection.read_head().status)
        return connection, asked

    def test_tables(self):
        self.start_with("a")
        table = compact({"type": "ADDED", "object": {"kind": "Table", "rows": []}}) + b"\n"
        accept = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")]
        watch, _ = self.open_watch(AS_JSON, table, headers=accept)
        self.reload_to("b")
        self.expect_end(watch, CUT(2))


class PaceTest(WireCase):
    """A client that is cut again and again backs off: it is cut rarely, but silent at once."""

    first, second = (json_event("ADDED", meta("p", n)) for n in (5, 6))

    def test_within_the_interval(self):
        self.start_with("a", args=("--cut-interval=4",))
        watch, _ = self.open_watch(AS_JSON, self.first)
        began = time.monotonic()
        self.reload_to("b")
        self.expect_end(watch, CUT(2))
        watch, asked = self.open_watch(AS_JSON, self.first)
        self.reload_to("c")
        self.send_unseen(asked, self.second)
        self.reload_to("d")
        self.send_unseen(asked, self.second * 3)
        self.reload_to("b")
        self.assertEqual("Silenced", self.proxy_process.status()["watches"][0]["state"])
        self.expect_end(watch, CUT(5))
        self.assertGreater(time.monotonic() - began, 4)
        self.assertEqual(2, self.metric("watches_cut_total"))
        self.assertEqual(1, self.metric("watches_silenced_total"))

    def test_another_view_is_cut_at_once(self):
        """The interval is that of what one client looks at."""
        self.start_with("a", args=("--cut-interval=60",))
        for encoding, target in (
            (AS_JSON, self.pods),
            (AS_JSON, "/api/v1/namespaces/a/pods"),
            (AS_JSON, f"{self.pods}?labelSelector=x"),
            (AS_JSON, "/apis/e.example/v1/gears"),
        ):
            target += "&watch=true" if "?" in target else "?watch=true"
            watch, _ = self.open_watch(encoding, target=target)
            self.reload_to("a" if self.generation % 2 == 0 else "b")
            self.expect_end(watch, CUT(self.generation))

    def test_the_interval_over(self):
        self.start_with("a", args=("--cut-interval=1",))
        for _ in range(3):
            watch, _ = self.open_watch(AS_JSON, self.first)
            self.reload_to("b" if self.generation % 2 else "a")
            self.expect_end(watch, CUT(self.generation))
            time.sleep(1.1)
        self.assertEqual(0, self.metric("watches_silenced_total"))

    def silent_watch(self, *args):
        """Cut once, open again, silenced."""
        self.start_with("a", args=args)
        watch, _ = self.open_watch(AS_JSON, self.first)
        self.reload_to("b")
        self.expect_end(watch, CUT(2))
        watch, asked = self.open_watch(AS_JSON, self.first)
        self.reload_to("c")
        return watch, asked

    def test_the_server_ends_a_silent_watch(self):
        """For the client that is no reason to watch on from where it is."""
        for how in ("end", "reset", "error"):
            with self.subTest(how=how):
                self.generation = 1
                watch, asked = self.silent_watch("--cut-interval=4")
                if how == "error":
                    self.send_unseen(asked, json_expired(7))
                if how == "reset":
                    asked.break_off()
                else:
                    asked.end()
                self.expect_end(watch, CUT(3))
                self.proxy_process.stop()

    def test_the_client_leaves_a_silent_watch(self):
        watch, asked = self.silent_watch("--cut-interval=60")
        watch.close()
        self.assertTrue(asked.closed())
        self.assert_idle()
        # What it saw, it saw under other rules.
        self.assert_expired(
            self.proxy_process.fetch(f"{self.pods}?watch=true&resourceVersion=5")
        )

    def test_shutdown_while_silent(self):
        watch, asked = self.silent_watch("--cut-interval=60")
        self.send_unseen(asked, self.second)
        self.proxy_process.signal(signal.SIGTERM)
        self.expect_end(watch, CUT(3))
        self.assert_ends()

    def test_many_watches_are_spread(self):
        count = 48
        self.start_with("a", args=("--cut-interval=0", "--cut-spread=6"))
        watches = [self.open_watch(AS_JSON, self.first) for _ in range(count)]
        ends = [None] * count
        self.reload_to("b")
        began = time.monotonic()
        for _, asked in watches[1:]:
            try:
                asked.send(self.second)  # all of them are silent now
            except OSError:
                pass  # cut already

        def read(index):
            watch = watches[index][0]
            ends[index] = (*watch.read_body(), time.monotonic() - began)

        threads = [threading.Thread(target=read, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual({(CUT(2), True)}, {end[:2] for end in ends})
        times = sorted(end[2] for end in ends)
        self.assertGreater(times[-1], 4)
        for first in range(0, count, count // 3):  # each third takes about 2 s
            self.assertGreater(times[first + count // 3 - 1] - times[first], 0.5)
        self.assertEqual(count, self.metric("watches_cut_total"))
        self.assert_idle()

    def test_few_watches_are_not_spread(self):
        self.start_with("a", args=("--cut-interval=0", "--cut-spread=60"))
        watches = [self.open_watch(AS_JSON) for _ in range(16)]
        self.reload_to("b")
        for watch, _ in watches:
            self.expect_end(watch, CUT(2))


class ListTest(WireCase):
    """A list is shown under one selector, or not at all."""

    first, second = meta("p", 5), meta("q", 6)

    def test_unanswered(self):
        """It is asked again, as often as need be; the client notices nothing."""
        self.start_with("a")
        headers = [("Accept", "application/json"), ("X-Kept", "yes")]
        for version, target in ((9, self.pods), (10, f"{self.pods}?limit=2&resourceVersion=0")):
            client = self.open(target, headers)
            asked = self.asked()
            for namespace in ("b", "c", "d"):
                self.assertTrue(asked.target.startswith(target))
                self.reload_to(namespace)
                self.assertTrue(asked.closed())
                asked = self.asked()
                mark = "&" if "?" in target else "?"
                self.assertEqual(target + mark + injected(within(namespace)), asked.target)
                self.assertEqual("yes", asked.request.get("X-Kept"))
            body = json_list([self.first], version)
            asked.respond(body)
            answer = client.response()
            self.assertEqual((200, body), (answer.status, answer.body))
            # What it shows is good to go on from.
            self.open_watch(AS_JSON, target=f"{self.pods}?watch=true&resourceVersion={version}")
        self.assert_nothing_asked()
        self.assertEqual(6, self.metric("requests_repeated_total"))

    def test_unanswered_on_a_connection_that_is_kept(self):
        self.start_with("a")
        client = self.open(self.pods)
        self.asked().respond(json_list([], 3))
        client.response()
        for namespace in ("b", "a", "b"):
            client.send_head("GET", self.pods)
            old = self.asked()
            self.reload_to(namespace)
            self.assertTrue(old.closed())
            self.asked(f"{self.pods}?{injected(within(namespace))}").respond(json_list([], 4))
            self.assertEqual(json_list([], 4), client.response().body)
        self.assert_idle()

    def test_an_unanswered_list_whose_client_leaves(self):
        self.start_with("a")
        client = self.open(self.pods)
        self.asked()
        self.reload_to("b")
        asked = self.asked()
        client.close()
        self.assertTrue(asked.closed())
        self.assert_idle()

    def test_unanswered_watches(self):
        self.start_with("a")
        initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
        for query in ("", "&resourceVersion=0", f"&{initial}", f"&{initial}&resourceVersion=77"):
            target = f"{self.pods}?watch=true{query}"
            watch = self.open(target)
            old = self.asked()
            namespace = "b" if self.generation % 2 else "a"
            self.reload_to(namespace)
            self.assertTrue(old.closed())
            asked = self.asked(f"{target}&{injected(within(namespace))}")
            asked.open(AS_JSON, json_event("ADDED", self.first))
            self.assertEqual(200, watch.read_head().status)
            self.expect(watch, json_event("ADDED", self.first))

    def test_an_unanswered_watch_from_an_old_version(self):
        """It goes on from what was seen under the old rules, so it may not go on at all."""
        self.start_with("a")
        self.list_at(5)
        watch = self.open(f"{self.pods}?watch=true&resourceVersion=5")
        old = self.asked()
        self.reload_to("b")
        self.assert_expired(watch.response())
        self.assertTrue(old.closed())
        self.assert_nothing_asked()

    def list_at(self, version):
        client = self.open(self.pods)
        self.asked().respond(json_list([], version))
        self.assertTrue(client.response().complete)

    def test_answered_in_part(self):
        """Broken off, such that no client takes it for whole."""
        self.start_with("a")
        body = json_list([self.first, self.second], 9)
        half = len(body) // 2
        for framing in ("chunked", "length", "gzip"):
            with self.subTest(framing=framing):
                client = self.open(self.pods)
                asked = self.asked()
                if framing == "length":
                    head = [("Content-Type", "application/json"), ("Content-Length", len(body))]
                    asked.peer.send_response_head(200, head)
                    asked.peer.send(body[:half])
                    sent = body[:half]
                else:
                    sent = gzip.compress(body) if framing == "gzip" else body
                    sent = sent[: len(sent) // 2]
                    gzipped = [("Content-Encoding", "gzip")] if framing == "gzip" else []
                    asked.begin(headers=gzipped)
                    asked.send(sent)
                self.assertEqual(200, client.read_head().status)
                self.expect(client, sent)
                self.reload_to("b" if self.generation % 2 else "a")
                self.expect_broken_off(client)
                self.assertTrue(asked.closed())
        self.assertEqual(3, self.metric("lists_broken_off_total"))
        self.assert_idle()

    def test_only_the_head_has_come(self):
        self.start_with("a")
        client = self.open(self.pods)
        asked = self.asked()
        asked.begin()
        self.assertEqual(200, client.read_head().status)
        self.reload_to("b")
        self.expect_broken_off(client)

    def test_a_list_with_a_body(self):
        """Nobody sends one, but it must not slip through."""
        self.start_with("a")
        for framing in ("length", "chunked"):
            client = self.proxy_process.connect()
            self.addCleanup(client.close)
            if framing == "length":
                client.send_head("GET", self.pods, [("Content-Length", "2")])
                client.send(b"{}")
            else:
                client.send_head("GET", self.pods, [("Transfer-Encoding", "chunked")])
                client.send(b"2\r\n{}\r\n0\r\n\r\n")
            asked = self.asked()
            self.reload_to("b" if self.generation % 2 else "a")
            self.assertTrue(asked.closed())
            with self.assertRaises(wire.Cut):
                client.read_head()

    def test_others_go_on(self):
        same = harness.limit(["secrets"], "app=x")
        self.start([*self.limits("a"), same], "--cut-interval=0")
        targets = ("/api/v1/secrets", "/api/v1/services", "/api/v1/namespaces/a/pods/p")
        clients = []
        for target in targets:
            waiting = self.open(target)
            waiting_asked = self.asked()
            begun = self.open(target)
            begun_asked = self.asked()
            begun_asked.begin()
            begun_asked.send(b"some")
            begun.read_head()
            self.expect(begun, b"some")
            clients.append((waiting, waiting_asked, begun, begun_asked))
        self.reload([*self.limits("b"), same])
        for waiting, waiting_asked, begun, begun_asked in clients:
            waiting_asked.respond(b"all")
            self.assertEqual(b"all", waiting.response().body)
            begun_asked.send(b"more")
            begun_asked.end()
            self.expect_end(begun, b"more")
        self.assert_nothing_asked()

    def test_a_refusal_in_part(self):
        """A Status shows no objects: it goes on."""
        self.start_with("a")
        client = self.open(self.pods)
        asked = self.asked()
        head = [("Content-Type", "application/json"), ("Content-Length", "10")]
        asked.peer.send_response_head(403, head)
        asked.peer.send(b"01234")
        self.assertEqual(403, client.read_head().status)
        self.reload_to("b")
        asked.peer.send(b"56789")
        self.expect_end(client, b"0123456789")

    def test_shutdown_after_it_was_asked_again(self):
        self.start_with("a")
        client = self.open(self.pods)
        self.asked()
        self.reload_to("b")
        asked = self.asked()
        self.proxy_process.signal(signal.SIGTERM)
        harness.wait_for(lambda: "shutting down" in self.proxy_process.log(), "it shuts down")
        asked.respond(json_list([], 3))
        self.assertEqual(json_list([], 3), client.response().body)
        self.assert_ends()


class ResumeTest(WireCase):
    """Nobody goes on from what other rules showed."""

    gears = "/apis/e.example/v1/gears"
    token = "eyJ2IjoibWV0YSIsInJ2Ijo5LCJzdGFydCI6ImEvcC8rPSJ9+/="
    encoded = "eyJ2IjoibWV0YSIsInJ2Ijo5LCJzdGFydCI6ImEvcC8rPSJ9%2B%2F%3D"

    def list(self, body, target=None, content_type="application/json", encoding=None):
        """Lists; what the API server answers is `body`."""
        client = self.open(target or self.pods, [("Accept-Encoding", "gzip")])
        headers = [("Content-Encoding", encoding)] if encoding else []
        asked = self.asked()
        asked.begin(content_type, headers)
        for at in range(0, len(body), 1000):
            asked.send(body[at : at + 1000])
        asked.end()
        answer = client.response()
        self.assertEqual((body, True), (answer.body, answer.complete))

    def lists(self):
        """One of each form: name, path, Content-Type, encoding, body by version and token."""
        many = [meta(f"p{n}", n) for n in range(100)]
        yield "JSON", self.pods, "application/json", None, lambda *what: json_list(many, *what)
        yield "gzip", self.pods, "application/json", "gzip", lambda *what: gzip.compress(
            json_list(many, *what)
        )
        yield "protobuf", self.pods, objects.PROTOBUF, None, lambda *what: AS_PROTOBUF.list(
            many, *what
        )
        yield "custom", self.gears, "application/json", None, lambda *what: custom_list(
            many, *what, padding=40000
        )
        yield "custom, gzip", self.gears, "application/json", "gzip", lambda *what: gzip.compress(
            custom_list(many, *what, padding=40000)
        )

    def ask_page(self, target):
        return self.proxy_process.fetch(f"{target}?limit=100&continue={self.encoded}")

    def expect_page(self, target, more=""):
        """The next page is asked of the API server."""
        client = self.open(f"{target}?limit=100&continue={self.encoded}{more}")
        self.asked().respond(json_list([], 10))
        self.assertEqual(200, client.response().status)

    def watch(self, target, version, more=""):
        """The answer of localproxy to a watch that it does not let through."""
        return self.proxy_process.fetch(f"{target}?watch=true&resourceVersion={version}{more}")

    def expect_watch(self, target, version, more=""):
        watch, asked = self.open_watch(
            AS_JSON, target=f"{target}?watch=true&resourceVersion={version}{more}"
        )
        watch.close()
        self.assertTrue(asked.closed())
        self.assert_idle()

    def test_pages(self):
        for name, target, content_type, encoding, body in self.lists():
            with self.subTest(form=name):
                self.generation = 1
                proxy = self.start_with("a")
                self.list(body(9, self.token), target, content_type, encoding)
                self.expect_page(target)
                self.list(body(9, self.token), target, content_type, encoding)
                self.reload_to("b")
                self.assert_page_expired(self.ask_page(target))
                # Whoever has it may still come.
                self.list(body(9, self.token), target, content_type, encoding)
                self.assert_page_expired(self.ask_page(target))
                # A page of a list of another version.
                self.list(body(11, f"{self.token}2"), target, content_type, encoding)
                self.expect_page(target, "2")
                self.assert_nothing_asked()
                self.assertEqual(2, self.metric("resumes_refused_total"))
                proxy.stop()

    def test_versions_of_lists(self):
        for name, target, content_type, encoding, body in self.lists():
            with self.subTest(form=name):
                self.generation = 1
                proxy = self.start_with("a")
                self.list(body(9), target, content_type, encoding)
                self.expect_watch(target, 9)
                self.reload_to("b")
                self.assert_expired(self.watch(target, 9))
                # Nothing has changed in the cluster: the same version is given out again. Whether who
                # comes with it is the one who has just listed cannot be told.
                for _ in range(3):
                    self.list(body(9), target, content_type, encoding)
                    self.assert_expired(self.watch(target, 9))
                self.list(body(10), target, content_type, encoding)
                self.expect_watch(target, 10)
                self.list(body(12), target, content_type, encoding)
                self.reload_to("c")
                self.list(body(13), target, content_type, encoding)
                self.expect_watch(target, 13)
                self.assert_expired(self.watch(target, 12))
                self.assert_nothing_asked()
                proxy.stop()

    def test_versions_of_events(self):
        for encoding in ENCODINGS:
            self.generation = 1
            proxy = self.start_with("a")
            events = [encoding.event("MODIFIED", meta("p", n)) for n in (21, 23, 25)]
            events.append(encoding.event("BOOKMARK", meta("", 30)))
            for version in (21, 23, 30):
                self.list(json_list([], 20))
                path = f"{self.pods}?watch=true&resourceVersion=20"
                watch, asked = self.open_watch(encoding, *events, target=path)
                watch.close()
                self.assertTrue(asked.closed())
                self.assert_idle()
                # As long as the rules are the same, any of them will do.
                self.expect_watch(self.pods, version)
                self.reload_to("b" if self.generation % 2 else "a")
                self.assert_expired(self.watch(self.pods, version))
            proxy.stop()

    def test_a_client_that_was_cut_lists_first(self):
        """The version that its 410 took from it comes back in its list."""
        self.start_with("a")
        self.list(json_list([], 20))
        path = f"{self.pods}?watch=true&resourceVersion=20"
        watch, _ = self.open_watch(AS_JSON, json_event("ADDED", meta("p", 21)), target=path)
        self.reload_to("b")
        self.expect_end(watch, CUT(2))
        self.list(json_list([], 21))
        self.expect_watch(self.pods, 21)

    def test_views_are_told_apart(self):
        """A version of one collection says nothing of another."""
        self.start_with("a")
        self.list(json_list([], 20), "/api/v1/namespaces/x/pods")
        self.reload_to("b")
        self.list(json_list([], 20))
        self.expect_watch(self.pods, 20)
        self.assert_expired(self.watch("/api/v1/namespaces/x/pods", 20))

    def test_initial_events_are_never_expired(self):
        """A client would ask again at once, and again."""
        self.start_with("a")
        self.list(json_list([], 20))
        self.reload_to("b")
        more = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        for version in ("20", "1", "0", "", "999"):
            self.expect_watch(self.pods, version, more)

    def test_a_start_doubts_each_version_once(self):
        """What clients have from before is not known. One that comes again learnt it elsewhere."""
        self.start_with("a", args=["--resume-doubt=0"])
        self.assert_expired(self.watch(self.pods, 5))
        self.expect_watch(self.pods, 5)
        self.assert_expired(self.watch(self.pods, 5, "&labelSelector=x"))
        self.assert_page_expired(self.ask_page(self.pods))
        self.expect_page(self.pods)
        self.list(json_list([], 30))
        self.expect_watch(self.pods, 31)

    def test_a_start_doubts_for_a_while(self):
        """A limit may have been there before the start."""
        self.start_with("a", args=["--resume-doubt=60"])
        self.asked("/api/v1/namespaces?limit=1").respond(b"{}", status=403)
        for target in (self.pods, "/api/v1/services"):
            for _ in range(3):
                self.assert_expired(self.watch(target, 5))
                self.assert_page_expired(self.ask_page(target))

    def test_a_list_is_no_pass_for_who_listed_before_the_start(self):
        """Whatever its client would take: the API server's memory may be where it was then."""
        self.start_with("b", args=["--resume-doubt=60"])
        self.asked("/api/v1/namespaces?limit=1").respond(json_list([], 4000))
        harness.wait_for(
            lambda: self.proxy_process.status()["upstream"]["versionAtStart"] == "4000", "it is told"
        )
        exact = "resourceVersion=100&resourceVersionMatch=Exact"
        for query, asked, version in (
            ("resourceVersion=0&", "", 5000),
            ("resourceVersion=100&resourceVersionMatch=NotOlderThan&", "", 5001),
            (f"{exact}&", f"{exact}&", 100),
        ):
            with self.subTest(query=query):
                client = self.open(f"{self.pods}?{query}limit=500")
                target = f"{self.pods}?{asked}limit=500&{injected(within('b'))}"
                self.asked(target).respond(json_list([], version))
                self.assertEqual(200, client.response().status)
                self.assert_expired(self.watch(self.pods, 100))
        self.expect_watch(self.pods, 5000)

    def test_versions_that_are_no_numbers(self):
        self.start_with("a")
        self.list(json_list([], "v20"))
        self.reload_to("b")
        self.assert_expired(self.watch(self.pods, "v20"))


if __name__ == "__main__":
    harness.main()
