# SPDX-License-Identifier: Apache-2.0
"""A watch is told of a write outside of it, to the byte: what is asked of the API server, when the
bookmark is written, and what comes in between.
"""

import gzip
import json
import os
import signal
import threading
import time
import urllib.parse

import harness
import scripted_case
import seamless_wire_test
from scripted_case import AS_JSON, AS_PROTOBUF, ENCODINGS, JSON, compact, injected, meta, within

LABEL = harness.NAMESPACE_LABEL
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
RESULTS = ("written", "overtaken", "failed")


def labelled(version, namespace):
    """The metadata of the object that is written, in another's share."""
    labels = {LABEL: namespace} if namespace else {}
    return meta("p", version, "a", labels=labels)


def partial_event(kind, version):
    """As localproxy asks for them."""
    return scripted_case.json_event(
        kind, {"resourceVersion": str(version)}, "PartialObjectMetadata", "meta.k8s.io/v1"
    )


class Probe:
    """The two watches by which localproxy finds out."""

    def __init__(self, case, old, to, own=("a",), path=None):
        first, second = self.next_of(case), self.next_of(case)
        both = {first.target: first, second.target: second}
        begin = f"{path or case.pods}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&"
        begin += f"resourceVersion={old}"
        self.cover = both.get(f"{begin}&{injected(within(*own, to))}")
        self.rest = both.get(f"{begin}&{injected(within(to))}")
        case.assertTrue(self.cover and self.rest, list(both))
        case.assertTrue(first.request.get("Accept").startswith(PARTIAL))

    @staticmethod
    def next_of(case):
        """Whether the connection lives is asked, too, when nothing comes of it."""
        while (asked := case.asked()).target == "/livez":
            asked.respond(b"ok")
        return asked

    @staticmethod
    def show(asked, events):
        """`events`: "M25 M30" and so on."""
        asked.begin()
        names = {"A": "ADDED", "M": "MODIFIED", "D": "DELETED", "B": "BOOKMARK"}
        for event in events.split():
            asked.send(partial_event(names[event[0]], int(event[1:])))

    def answer(self, cover, rest=None):
        self.show(self.cover, cover)
        self.show(self.rest, cover if rest is None else rest)

    def closed(self):
        return self.cover.closed() and self.rest.closed()


class OwnWritesCase(seamless_wire_test.SeamlessCase):
    def write(self, version, namespace="c", method="PUT", encoding=AS_JSON, **more):
        """The operator writes an object, which has the control label of `namespace` then."""
        target = "/api/v1/namespaces/a/pods/p"
        body = compact({"kind": "Pod", "apiVersion": "v1", "metadata": labelled(version, namespace)})
        if encoding is AS_PROTOBUF:
            body = scripted_case.envelope(
                "Pod", scripted_case.protobuf_item(labelled(version, namespace))
            )
        self.write_answered(body, target, method, encoding.of_list, **more)

    def write_answered(self, body, target=None, method="PUT", content_type=JSON, **more):
        target = target or "/api/v1/namespaces/a/pods/p"
        client = self.open(target, [("Accept", content_type)], method=method)
        answering = threading.Thread(
            target=self.asked(target, method).respond,
            args=(body,),
            kwargs={"content_type": content_type, **more},
        )
        answering.start()  # which is not read as fast as it is sent
        answer = client.response()
        answering.join()
        self.assertTrue(answer.complete)
        self.assertEqual(body, answer.body)
        client.close()

    def results(self):
        name = 'cmesh_proxy_write_probes_total{result="%s"}'
        metrics = self.proxy_process.metrics()
        return tuple(int(metrics[name % result]) for result in RESULTS)

    def wait_results(self, *expected):
        harness.wait_for(lambda: self.results() == expected, f"results are {expected}")

    def assert_quiet(self):
        """Longer than anything waits that has nothing to wait for."""
        time.sleep(0.8)
        self.assert_nothing_asked()
        self.assertEqual((0, 0, 0), self.results())


class BookmarkTest(OwnWritesCase):
    def test_it_is_written(self):
        for encoding in ENCODINGS:
            for method in ("PUT", "PATCH", "DELETE"):
                with self.subTest(encoding=encoding, method=method):
                    self.generation = 1
                    proxy = self.start_with("a")
                    watch, old = self.open_from(encoding)
                    self.write(30, method=method, encoding=encoding)
                    probe = Probe(self, 20, "c")
                    probe.answer("M30")
                    self.expect(watch, encoding.bookmark(30))
                    self.assertTrue(probe.closed())
                    event = encoding.event("MODIFIED", meta("q", 31))
                    old.send(event)
                    self.expect(watch, event)
                    old.end()
                    self.expect_end(watch)
                    self.assertEqual((1, 0, 0), self.results())
                    self.assert_nothing_asked()
                    self.assert_idle()
                    proxy.stop()

    def test_in_the_form_of_the_client(self):
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON, headers=[("Accept", PARTIAL)])
        self.write(30)
        Probe(self, 20, "c").answer("A30")
        self.expect(watch, partial_event("BOOKMARK", 30).replace(b'"}}}', b'","creationTimestamp":null}}}'))

    def test_of_another_group(self):
        self.start_with("a")
        self.collection = "/apis/e.example/v1/gears"
        watch, _ = self.open_from(AS_JSON)
        body = {"apiVersion": "e.example/v1", "kind": "Gear", "metadata": labelled(30, "c")}
        self.write_answered(compact(body), "/apis/e.example/v1/namespaces/a/gears/p/status")
        Probe(self, 20, "c", path=self.collection).answer("M30")
        self.expect(watch, scripted_case.json_bookmark(30, kind="Gear", api_version="e.example/v1"))

    def test_each_watch_that_covers_the_namespace(self):
        self.start_with("a")
        everywhere, _ = self.open_from(AS_JSON)
        self.collection = "/api/v1/namespaces/b/pods"
        elsewhere, other = self.open_from(AS_JSON)
        self.collection = "/api/v1/namespaces/a/pods"
        inside, _ = self.open_from(AS_JSON)
        self.write(30)
        asked = [self.asked() for _ in range(4)]
        paths = [a.target.partition("?")[0] for a in asked]
        self.assertEqual({"/api/v1/pods": 2, self.collection: 2}, {p: paths.count(p) for p in paths})
        for one in asked:
            Probe.show(one, "M30")
        for watch in (everywhere, inside):
            self.expect(watch, AS_JSON.bookmark(30))
        event = AS_JSON.event("MODIFIED", meta("q", 31))
        other.send(event)
        self.expect(elsewhere, event)

    def test_many_watches(self):
        """Sixteen are asked for at a time, and the next when these have been answered."""
        rounds, at_once = 3, 16
        self.start_with("a")
        watches = [self.open_from(AS_JSON)[0] for _ in range(rounds * at_once)]
        self.write(30)
        for _ in range(rounds):
            asked = [self.asked() for _ in range(2 * at_once)]
            self.assert_nothing_asked()
            for one in asked:
                Probe.show(one, "M30")
        for watch in watches:
            self.expect(watch, AS_JSON.bookmark(30))
        self.assertEqual((len(watches), 0, 0), self.results())

    def test_a_second_write_goes_on_from_there(self):
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        for old, new in ((20, 30), (30, 40)):
            self.write(new, namespace="d" if new == 40 else "c")
            Probe(self, old, "d" if new == 40 else "c").answer(f"M{new}")
            self.expect(watch, AS_JSON.bookmark(new))

    def test_many_writes_are_asked_for_once(self):
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        self.write(30)
        probe = Probe(self, 20, "c")
        for version in range(31, 40):
            self.write(version, namespace="d")
        self.write(25)  # answered late
        self.assert_nothing_asked()
        probe.answer("M30")
        self.expect(watch, AS_JSON.bookmark(30))
        Probe(self, 30, "d").answer("M31 M32 M39")
        self.expect(watch, AS_JSON.bookmark(39))
        self.assertEqual((2, 0, 0), self.results())

    def test_many_bookmarks_are_bounded(self):
        """A burst, and then five in a second."""
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        began = time.monotonic()
        for version in range(21, 41):
            self.write(version)
            Probe(self, version - 1, "c").answer(f"M{version}")
            self.expect(watch, AS_JSON.bookmark(version))
        self.assertGreater(time.monotonic() - began, 1.5)

    def test_an_object_without_the_label(self):
        """It may be about to get it, by which it comes into the share; if not, all is asked for."""
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        self.write(30, namespace=None)
        event = AS_JSON.event("ADDED", meta("p", 31))
        old.send(event)
        self.expect(watch, event)
        self.assert_quiet()
        self.write(40, namespace=None)
        begin = f"{self.pods}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion=31"
        both = {asked.target: asked for asked in (self.asked(), self.asked())}
        Probe.show(both.pop(begin), "A40")
        Probe.show(both.pop(f"{begin}&{injected(LABEL + ' notin (a)')}"), "A40")
        self.expect(watch, AS_JSON.bookmark(40))


class SeveralRequirementsTest(OwnWritesCase):
    """The object fails more than one: of each a watch shows what fails it."""

    def write_failing(self, version, **labels):
        labels = {LABEL: "c", **labels}
        metadata = meta("p", version, "a", labels=labels)
        body = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
        self.write_answered(compact(body))

    def asked_by_selector(self, count):
        asked = [Probe.next_of(self) for _ in range(count)]
        return {urllib.parse.unquote(one.target.partition("labelSelector=")[2]): one for one in asked}

    def test_two_of_three(self):
        self.start([harness.limit(["pods"], f"app=x,{within('a')},tier!=y")])
        watch, old = self.open_from(AS_JSON)
        self.write_failing(30, app="x", tier="y")
        both = f"app=x,{within('a', 'c')}"
        asked = self.asked_by_selector(3)
        Probe.show(asked.pop(both), "M21 M22 M23 M24 M25 M30")
        Probe.show(asked.pop(f"{both},tier=y"), "M21 A22 A24 M30")
        Probe.show(asked.pop(f"app=x,{within('c')}"), "D22 M23 A24 M30")
        self.assertEqual({}, asked)
        events = [AS_JSON.event("MODIFIED", meta("q", n)) for n in (24, 25)]
        old.send(events[0])  # 24 went from the share to both: only 25 is still expected
        self.expect(watch, events[0])
        self.assertEqual((0, 0, 0), self.results())
        old.send(events[1])
        self.expect(watch, events[1] + AS_JSON.bookmark(30))

    def test_more_than_are_looked_at(self):
        """Nothing is asked, nor again; what is written then is not kept waiting."""
        self.start([harness.limit(["pods"], f"a=x,b=x,c=x,{within('a')}")])
        watch, _ = self.open_from(AS_JSON)
        self.write_failing(30, a="y", b="y", c="y")
        self.wait_results(0, 0, 1)
        self.write_failing(29, a="x", b="x", c="x")
        asked = self.asked_by_selector(2)
        for one in asked.values():
            Probe.show(one, "M29")
        self.expect(watch, AS_JSON.bookmark(29))
        time.sleep(2)
        self.assert_nothing_asked()
        self.assertEqual((1, 0, 1), self.results())


class OrderTest(OwnWritesCase):
    """What the watch selects and is still under way comes before the bookmark."""

    def test_an_event_under_way(self):
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                self.generation = 1
                proxy = self.start_with("a")
                watch, old = self.open_from(encoding)
                self.write(30)
                probe = Probe(self, 20, "c")
                probe.answer("A22 M25 M27 M30", "A22 M27 M30")
                self.assertTrue(probe.closed())
                first, second = (encoding.event("MODIFIED", meta("q", n)) for n in (24, 25))
                old.send(first)
                self.expect(watch, first)
                self.assertEqual((0, 0, 0), self.results())
                self.send_unseen(old, second[:20])
                old.send(second[20:])
                self.expect(watch, second + encoding.bookmark(30))
                self.assertEqual((1, 0, 0), self.results())
                proxy.stop()

    def test_one_that_has_come_already(self):
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        self.write(30)
        probe = Probe(self, 20, "c")
        event = AS_JSON.event("MODIFIED", meta("q", 25))
        old.send(event)
        self.expect(watch, event)
        probe.answer("M25 M30", "M30")
        self.expect(watch, AS_JSON.bookmark(30))

    def test_the_object_has_left_the_share(self):
        """Its event is that of the version itself, or a later one comes first."""
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        self.write(30)
        Probe(self, 20, "c").answer("M30", "A30")
        event = AS_JSON.event("DELETED", meta("p", 30))
        old.send(event)
        self.expect(watch, event)
        self.wait_results(0, 1, 0)
        self.write(40)
        probe = Probe(self, 30, "c")
        event = AS_JSON.event("MODIFIED", meta("q", 41))
        old.send(event)
        self.expect(watch, event)
        probe.answer("M40")
        self.wait_results(0, 2, 0)
        old.end()
        self.expect_end(watch)

    def test_while_an_event_is_coming(self):
        """It is held until it is whole, and the bookmark may stand before it."""
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        event = AS_JSON.event("MODIFIED", meta("q", 35))
        self.send_unseen(old, event[:30])
        self.write(30)
        Probe(self, 20, "c").answer("M30")
        self.expect(watch, AS_JSON.bookmark(30))
        old.send(event[30:])
        self.expect(watch, event)

    def test_an_older_bookmark_of_the_api_server(self):
        """One that lags behind does not take the client back."""
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                self.generation = 1
                proxy = self.start_with("a")
                watch, old = self.open_from(encoding)
                self.write(30)
                Probe(self, 20, "c").answer("M30")
                self.expect(watch, encoding.bookmark(30))
                event = encoding.event("MODIFIED", meta("q", 31))
                old.send(encoding.bookmark(28) + event)
                self.expect(watch, event)
                proxy.stop()

    def test_a_client_that_does_not_read(self):
        """What is before it has been sent, if not read: the bookmark follows at once."""
        self.start_with("a")
        self.list_at(20)
        target = f"{self.pods}?watch=true{self.begin}"
        watch = self.open(target, [("Accept", AS_JSON.of_watch)], receive_buffer=4096)
        old = self.asked()
        old.open(AS_JSON)
        self.assertEqual(200, watch.read_head().status)
        self.write(30)
        probe = Probe(self, 20, "c")
        old.send(AS_JSON.event("MODIFIED", meta("q", 21)))
        fill = meta("", 22, annotations={"fill": "x" * 900 * 1024})
        fill = [AS_JSON.event("BOOKMARK", {**fill, "resourceVersion": str(22 + i)}) for i in range(8)]
        old.send_beside(b"".join(fill))
        name = "cmesh_proxy_response_bytes_total"
        before = -1
        while before != (before := self.proxy_process.metrics()[name]):
            time.sleep(0.5)
        self.assertLess(before, sum(map(len, fill)))
        probe.answer("M21 M30", "M30")
        self.wait_results(1, 0, 0)

    def test_events_that_never_come(self):
        """It is looked at anew."""
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        self.write(30)
        Probe(self, 20, "c").answer("M25 M30", "M30")
        Probe(self, 20, "c").answer("M30")
        self.expect(watch, AS_JSON.bookmark(30))
        self.assertEqual((1, 0, 1), self.results())


class MeanwhileTest(OwnWritesCase):
    def test_the_rules_change(self):
        """The watch migrates first; what is outside of it then is asked for anew."""
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        self.write(30)
        probe = Probe(self, 20, "c")
        self.reload_to("a", "b")
        self.assertTrue(probe.closed())
        self.assertTrue(old.closed())
        self.answer_list(AS_JSON, 20, "b", [meta("gained", 9, "b")])
        self.answer_watch(AS_JSON, 20, ("a", "b"))
        gained = AS_JSON.event("ADDED", meta("gained", 9, "b"))
        self.expect(watch, gained + AS_JSON.bookmark(20))
        Probe(self, 20, "c", ("a", "b")).answer("M30")
        self.expect(watch, AS_JSON.bookmark(30))

    def test_the_rules_change_and_the_object_is_in_the_share(self):
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        self.write(30)
        probe = Probe(self, 20, "c")
        self.reload_to("a", "c")
        self.assertTrue(probe.closed())
        self.answer_list(AS_JSON, 20, "c", [])
        asked = self.answer_watch(AS_JSON, 20, ("a", "c"))
        self.expect(watch, AS_JSON.bookmark(20))
        event = AS_JSON.event("MODIFIED", meta("p", 30, "c"))
        asked.send(event)
        self.expect(watch, event)
        self.assert_quiet()

    def test_the_rules_change_with_a_proof_at_hand(self):
        """What was proven of the old selector does not hold of the new one."""
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        self.write(30)
        Probe(self, 20, "c").answer("M25 M30", "M30")
        self.reload_to("a", "b")
        self.answer_list(AS_JSON, 20, "b", [])
        asked = self.answer_watch(AS_JSON, 20, ("a", "b"))
        self.expect(watch, AS_JSON.bookmark(20))
        event = AS_JSON.event("MODIFIED", meta("q", 25))
        asked.send(event)
        self.expect(watch, event)
        Probe(self, 25, "c", ("a", "b")).answer("M28 M30", "M30")
        later = AS_JSON.event("MODIFIED", meta("q", 28, "b"))
        asked.send(later)
        self.expect(watch, later + AS_JSON.bookmark(30))

    def test_the_watch_ends(self):
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        self.write(30)
        probe = Probe(self, 20, "c")
        old.end()
        self.expect_end(watch)
        self.assertTrue(probe.closed())
        self.assert_idle()

    def test_the_client_leaves(self):
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        self.write(30)
        probe = Probe(self, 20, "c")
        watch.close()
        self.assertTrue(probe.closed())
        self.assertTrue(old.closed())
        self.assert_idle()

    def test_the_end_of_the_program(self):
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        self.write(30)
        Probe(self, 20, "c")
        self.proxy_process.signal(signal.SIGTERM)
        self.expect_end(watch)
        self.assert_ends()


class FailureTest(OwnWritesCase):
    """It is repeated, ever later; the client sees nothing of it."""

    def answer_forbidden(self, probe):
        for asked in (probe.cover, probe.rest):
            asked.try_respond(b"{}", 403)

    def answer_busy(self, probe):
        probe.show(probe.cover, "M30")
        probe.rest.respond(b"{}", 429, headers=[("Retry-After", "1")])

    def answer_gone(self, probe):
        probe.cover.begin()
        probe.cover.send(scripted_case.json_expired(1))

    def answer_end(self, probe):
        probe.show(probe.rest, "M29")
        probe.rest.end()

    def answer_nonsense(self, probe):
        probe.cover.begin()
        probe.cover.send(b"nonsense\n")

    def answer_nothing(self, probe):
        """For six seconds."""
        self.assertTrue(probe.closed())

    def test_each_way(self):
        for way in ("forbidden", "busy", "gone", "end", "nonsense", "nothing"):
            with self.subTest(way=way):
                self.generation = 1
                proxy = self.start_with("a")
                watch, old = self.open_from(AS_JSON)
                self.write(30)
                fail = getattr(self, "answer_" + way)
                fail(Probe(self, 20, "c"))
                self.wait_results(0, 0, 1)
                again = Probe(self, 20, "c")
                event = AS_JSON.event("MODIFIED", meta("q", 22))
                old.send(event)
                self.expect(watch, event)
                fail(again)
                self.wait_results(0, 0, 2)
                Probe(self, 22, "c").answer("M30")
                self.expect(watch, AS_JSON.bookmark(30))
                proxy.stop()

    def test_the_api_servers_bookmark_ends_it(self):
        self.start_with("a")
        watch, old = self.open_from(AS_JSON)
        self.write(30)
        self.answer_forbidden(Probe(self, 20, "c"))
        old.send(AS_JSON.bookmark(33))
        self.expect(watch, AS_JSON.bookmark(33))
        time.sleep(2)
        self.assert_nothing_asked()
        self.assertEqual((0, 0, 1), self.results())

    def test_a_version_that_never_comes(self):
        """It is given up, after more than half a minute, and later writes have their turn."""
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        self.write(2**64 - 1)
        for _ in range(7):
            self.answer_forbidden(Probe(self, 20, "c"))
        self.wait_results(0, 0, 7)
        self.write(30)
        Probe(self, 20, "c").answer("M30")
        self.expect(watch, AS_JSON.bookmark(30))

    def test_the_client_selects_something_else(self):
        """The object is never shown to its like, but a bookmark is."""
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        self.write(30)
        Probe(self, 20, "c").answer("B30")
        self.expect(watch, AS_JSON.bookmark(30))


class StrangeAnswerTest(OwnWritesCase):
    """An API server that answers otherwise than Kubernetes does."""

    def test_without_a_kind(self):
        """No bookmark can be made of it."""
        self.start_with("a")
        self.open_from(AS_JSON)
        self.write_answered(compact({"apiVersion": "v1", "metadata": labelled(30, "c")}))
        kind = {"apiVersion": "v1", "kind": "\u00fc", "metadata": labelled(31, "c")}
        self.write_answered(json.dumps(kind, ensure_ascii=False).encode())
        self.assert_quiet()

    def test_metadata_of_the_beta(self):
        """A watch of whole objects gets no bookmark of that kind."""
        self.start_with("a")
        self.open_from(AS_JSON)
        body = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1"}
        self.write_answered(compact({**body, "metadata": labelled(30, "c")}))
        self.assert_quiet()

    def test_labels_that_are_too_large(self):
        """They are taken for none."""
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        for version in (30, 31):
            self.write(version)
            Probe(self, version - 1 if version == 31 else 20, "c").answer(f"M{version}")
            self.expect(watch, AS_JSON.bookmark(version))
        self.write(40, namespace=None)
        large = meta("p", 41, "a", labels={"large": "x" * 70000, "more": "y"})
        self.write_answered(compact({"kind": "Pod", "apiVersion": "v1", "metadata": large}))
        begin = f"{self.pods}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion=31"
        both = {asked.target: asked for asked in (self.asked(), self.asked())}
        Probe.show(both.pop(begin), "A40 M41")
        Probe.show(both.pop(f"{begin}&{injected(LABEL + ' notin (a)')}"), "A40 M41")
        self.expect(watch, AS_JSON.bookmark(41))


class NothingAskedTest(OwnWritesCase):
    def test_what_is_in_the_share(self):
        self.start_with("a")
        self.open_from(AS_JSON)
        self.write(30, namespace="a")
        self.assert_quiet()

    def test_what_the_watch_has_had(self):
        self.start_with("a")
        self.open_from(AS_JSON, AS_JSON.event("MODIFIED", meta("q", 30)))
        self.write(29)
        self.assert_quiet()

    def test_watches_that_cannot_be_told(self):
        table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        begin = "&allowWatchBookmarks=true"
        for more in (
            {"query": "&resourceVersion=20"},
            {"headers": [("Accept", table)]},
            {"query": begin},  # what it has is not known
        ):
            with self.subTest(more=more):
                self.generation = 1
                proxy = self.start_with("a")
                self.open_from(AS_JSON, **more)
                self.write(30)
                self.assert_quiet()
                proxy.stop()

    def test_of_another_resource(self):
        self.start_with("a")
        self.open_from(AS_JSON)
        body = {"apiVersion": "e.example/v1", "kind": "Gear", "metadata": labelled(30, "c")}
        self.write_answered(compact(body), "/apis/e.example/v1/namespaces/a/gears/p")
        self.assert_quiet()

    def test_when_it_is_off(self):
        for args in (("--write-bookmarks=off",), ("--reload-mode=cut",)):
            self.generation = 1
            proxy = self.start_with("a", args=args)
            self.open_from(AS_JSON)
            self.write(30)
            self.assert_quiet()
            proxy.stop()

    def test_answers_that_say_nothing(self):
        self.start_with("a")
        self.open_from(AS_JSON)
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": labelled(30, "c")}
        path = "/api/v1/namespaces/a/pods/p/scale"
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        self.write_answered(compact(status), method="DELETE")
        self.write_answered(compact(pod), path)
        self.write_answered(compact(pod), status=409)
        for coding, body in (
            ("gzip", gzip.compress(compact(pod))[:-20]),
            ("gzip", compact(pod)),
            ("br", compact(pod)),
        ):
            self.write_answered(body, headers=[("Content-Encoding", coding)])
        self.write_answered(b"kind: Pod", content_type="application/yaml")
        self.write_answered(b'{"kind":"Pod"')
        self.write_answered(compact({"metadata": labelled(30, "c")}))
        self.write_answered(json.dumps(pod).encode().replace(b'"c"', b'"\\u0063"'))
        self.assert_quiet()

    def test_large_answers(self):
        """Up to what the API server stores, wherever the version stands; in gzip, too, in which
        client-go is answered from 128 KiB on."""
        fill = os.urandom(700 * 1024).hex()
        built_in = {"kind": "Pod", "apiVersion": "v1", "metadata": labelled(30, "c"), "spec": fill}
        meta = {"annotations": {"fill": fill[: 250 * 1024]}, **labelled(30, "c")}
        fields = {"f:spec": {f"f:{i}": {} for i in range(50000)}}
        meta["managedFields"] = [{"fieldsV1": fields}]
        custom = {"apiVersion": "v1", "data": {"fill": fill}, "kind": "Pod", "metadata": meta}
        sorted_keys = json.dumps(custom, sort_keys=True, indent=1).encode()
        protobuf = scripted_case.envelope(
            "Pod", scripted_case.protobuf_item(labelled(30, "c")) + scripted_case.field(2, fill)
        )
        for encoding, body in (
            (AS_JSON, compact(built_in)),
            (AS_JSON, sorted_keys),
            (AS_PROTOBUF, protobuf),
        ):
            self.assertGreater(len(body), 1024 * 1024)
            for headers in ([], [("Content-Encoding", "gzip")]):
                with self.subTest(encoding=encoding, length=len(body), headers=headers):
                    self.generation = 1
                    proxy = self.start_with("a")
                    watch, _ = self.open_from(encoding)
                    sent = gzip.compress(body, 1) if headers else body
                    self.write_answered(sent, content_type=encoding.of_list, headers=headers)
                    Probe(self, 20, "c").answer("M30")
                    self.expect(watch, encoding.bookmark(30))
                    proxy.stop()

    def test_an_answer_in_pieces(self):
        self.start_with("a")
        watch, _ = self.open_from(AS_JSON)
        target = "/api/v1/namespaces/a/pods/p"
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": labelled(30, "c")}
        body = compact({**pod, "spec": "x" * 100000})
        client = self.open(target, method="PUT")
        asked = self.asked(target, "PUT")
        asked.begin()
        for at in range(0, len(body), 999):
            asked.send(body[at : at + 999])
        asked.end()
        self.assertEqual(body, client.response().body)
        Probe(self, 20, "c").answer("M30")
        self.expect(watch, AS_JSON.bookmark(30))
