# SPDX-License-Identifier: Apache-2.0
"""What a neighbour of the operator can make localproxy keep is bounded, and others do not notice."""

import functools
import json
import random
import re
import resource
import select
import socket
import threading
import time
import urllib.parse

import harness
import upstream

WATCHES = 100
ATTACK_S = 20
HALF_HEADS = 4000
HALF_BODIES = 100
UPLOADS = 1200
LISTS = 400
SLOW_ANSWERS = 1000
IDLE_WATCHES = 1000
# With an HTTP/1.1 connection on either side, without TLS; a stream of HTTP/2 takes somewhat more.
WATCH_BOUND_KIB = 5
STREAM_BOUND_KIB = 6
WATCH_HEAD = (
    b"GET /api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=600 HTTP/1.1\r\n"
    b"Host: localhost\r\nUser-Agent: operator/v1 (linux/amd64)\r\nAccept: application/json\r\n\r\n"
)
# Of them at most those whose head finds room, with 64 KiB each.
UNREFUSED_ANSWERS = 256
UNREAD_MIGRATIONS = 20
HALF_EVENTS = 100
EVENT_SIZE = 900000
LOCK = "operator-lock"
# Twice 32 MiB and what thousands of connections take, in a container of 256 MiB.
BOUND_KIB = 96 * 1024
SLOW_BOUND_KIB = 60 * 1024
# Two connections each, beside the 32 MiB to which what they leave unread is bounded.
UPLOADS_BOUND_KIB = SLOW_BOUND_KIB + UPLOADS * 8
# 32 MiB for requests, 16 as they are sent, 32 for what is not read, 48 for watches.
ALL_BOUND_KIB = 160 * 1024
ANSWER_S = 10
MIB = 1024 * 1024


def setUpModule():  # pylint: disable=invalid-name
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = HALF_HEADS + HALF_BODIES + 2 * WATCHES + 1000
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def ask(proxy, target):
    """The status of an answer, which must come."""
    with proxy.connect(timeout=ANSWER_S) as connection:
        return connection.request("GET", target).status


class Flood:
    """`count` connections that send `data` and no more; `statuses` has what they were answered.
    `retried` are those of them after which it is of use to come again."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, address, count, data, receive_buffer=None, send_buffer=None,
                 retried=(429, 503)):  # fmt: skip
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.count = count
        self.data = data
        self.receive_buffer = receive_buffer
        self.send_buffer = send_buffer
        self.retried = retried
        self.sockets = {}
        self.statuses = {}
        self.sent = 0

    def open(self):
        for _ in range(self.count):
            s = socket.socket()
            if self.receive_buffer:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
            if self.send_buffer:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer)
            s.connect(self.address)
            s.setblocking(False)
            self.sockets[s.fileno()] = [s, 0]
            self.push(s.fileno())

    def push(self, number):
        entry = self.sockets[number]
        try:
            n = entry[0].send(self.data[entry[1] :])
        except BlockingIOError:
            n = 0
        except OSError:
            n = len(self.data)  # answered, and closed
        entry[1] += n
        self.sent += n

    def look(self, read=True):
        """Sends on what can be sent, and notes what was answered."""
        poller = select.poll()
        for number, (_, at) in self.sockets.items():
            wants = (select.POLLOUT if at < len(self.data) else 0) | (select.POLLIN if read else 0)
            poller.register(number, wants)
        moved = 0
        for number, events in poller.poll(0):
            if events & select.POLLOUT:
                self.push(number)
                moved += 1
            if read and events & select.POLLIN:
                self.note_answer(number)
        return moved

    def note_answer(self, number):
        try:
            text = self.sockets[number][0].recv(4096)
        except OSError:
            return
        if found := re.match(rb"HTTP/1.1 (\d+)", text):
            status = int(found[1])
            self.statuses[status] = self.statuses.get(status, 0) + 1
            kind = b"Retry-After: 1" if status in self.retried else b""
            if kind not in text or b'"kind":"Status"' not in text:
                self.statuses["malformed"] = text

    def answered(self):
        return sum(n for status, n in self.statuses.items() if status != "malformed")

    def close(self):
        for s, _ in self.sockets.values():
            s.close()
        self.sockets.clear()


def half_head(size):
    return b"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * size


def half_body(namespace, size):
    return (
        f"POST /api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode() + b" " * (size - 1)


class Watcher(threading.Thread):
    """Follows one ConfigMap through localproxy; `seen` are the values that were told."""

    def __init__(self, proxy, target):
        super().__init__(daemon=True)
        self.seen = []
        self.ended = None
        self.connection = proxy.connect(timeout=None)
        self.connection.send_head("GET", target, [("Accept", "application/json")])
        self.head = self.connection.read_head()
        self.start()

    def run(self):
        text = b""
        try:
            while piece := self.connection.read_some():
                *lines, text = (text + piece).split(b"\n")
                for line in lines:
                    self.seen.append(json.loads(line)["object"]["data"]["value"])
            self.ended = "ended"
        except Exception as e:  # pylint: disable=broad-except
            self.ended = repr(e)


class Asker(threading.Thread):
    """Asks small things all the time."""

    def __init__(self, proxy, target):
        super().__init__(daemon=True)
        self.proxy = proxy
        self.target = target
        self.statuses = {}
        self.slowest = 0
        self.stopped = False
        self.start()

    def run(self):
        while not self.stopped:
            began = time.monotonic()
            try:
                status = ask(self.proxy, self.target)
            except Exception as e:  # pylint: disable=broad-except
                status = repr(e)
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            time.sleep(0.02)

    def stop(self):
        self.stopped = True
        self.join()


class NeighbourTest(harness.TestCase):
    """Somebody who may reach the port of localproxy, beside an operator that works."""

    def setUp(self):
        super().setUp()
        self.sanitized = harness.is_sanitized(harness.program("localproxy"))
        self.control_plane = harness.cluster()
        self.namespace = harness.make_namespace(self.control_plane, "memory", self.addCleanup)
        document = harness.rules_document(harness.limit(["pods"], "app=foo"))
        document["spec"]["leaderElection"] = {"name": LOCK}
        self.proxy_ = self.proxy(document, args=["--pod-namespace", self.namespace])
        self.maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.write(0)

    def write(self, value):
        thing = {"metadata": {"name": "told"}, "data": {"value": str(value)}}
        if value == 0:
            self.control_plane.json(self.maps, "POST", thing)
        else:
            self.control_plane.json(
                f"{self.maps}/told", "PATCH", thing, "application/merge-patch+json"
            )

    def watchers(self):
        target = f"{self.maps}?watch=true&fieldSelector=metadata.name%3Dtold"
        found = [Watcher(self.proxy_, target) for _ in range(WATCHES)]
        for w in found:
            self.addCleanup(w.connection.close)
            self.assertEqual(200, w.head.status)
        return found

    def attack(self):
        """Both attacks once, for as long as bytes go, and then once more; returns what was answered."""
        floods = [
            Flood(self.proxy_.listen, HALF_HEADS, half_head(60000)),
            Flood(self.proxy_.listen, HALF_BODIES, half_body(self.namespace, 3 * MIB)),
        ]
        try:
            for flood in reversed(floods):
                flood.open()
            until = time.monotonic() + 3
            while time.monotonic() < until and sum(f.look() for f in floods):
                pass
            for flood in floods:
                flood.look()
        finally:
            for flood in floods:
                flood.close()
        return [flood.statuses for flood in floods]

    def test_half_requests(self):
        watchers = self.watchers()
        asker = Asker(self.proxy_, "/api/v1/namespaces/default")
        answers, value = [], 0
        until = time.monotonic() + ATTACK_S
        while time.monotonic() < until:
            answers.append(self.attack())
            value += 1
            self.write(value)
        asker.stop()
        expected = [str(v) for v in range(value + 1)]
        for w in watchers:
            harness.wait_for(lambda w=w: len(w.seen) == len(expected) or w.ended,
                             "each watch has all events")  # fmt: skip
            self.assertEqual((None, expected), (w.ended, w.seen))
        self.assertGreater(len(answers), 1)
        for heads, bodies in answers:
            self.assertEqual({429}, set(heads))
            self.assertEqual({503}, set(bodies))
        self.assertEqual({200}, set(asker.statuses), asker.slowest)
        self.assertGreater(self.proxy_.metrics()["cmesh_proxy_request_memory_refused_total"], 0)
        self.assert_all_is_given_back()
        self.assert_memory()

    def assert_all_is_given_back(self):
        """Nothing stays counted when the connections are gone, and large requests pass again."""
        harness.wait_for(
            lambda: self.proxy_.metrics()["cmesh_proxy_request_memory_bytes"] == 0,
            "nothing is kept for those who have gone",
        )
        padding = [("X-Padding", "p" * 60000)]
        self.assertEqual(200, self.proxy_.fetch("/api/v1/nodes", headers=padding).status)
        thing = {"metadata": {"name": "large"}, "data": {"x": "y" * 500000}}
        answer = self.proxy_.fetch(
            self.maps, "POST", [("Content-Type", "application/json")], json.dumps(thing).encode()
        )
        self.assertEqual(201, answer.status)

    def assert_memory(self):
        if not self.sanitized:
            self.assertLess(self.proxy_.memory_kib(), BOUND_KIB)


class SlowReaderTest(harness.TestCase):
    """Clients that ask and do not read, and those that send ahead."""

    watch_bound_kib = WATCH_BOUND_KIB

    def start(self):
        large = b"x" * (8 * MIB)  # once, not for each of hundreds

        def answer(peer, request):
            if "watch" in request.target:
                peer.begin_watch()
                peer.wait_closed()
            elif "hang" in request.target:
                peer.wait_closed()
            elif "large" in request.target:
                peer.respond(200, large)
            else:
                peer.respond(200, b"{}")

        _, kubeconfig = self.build(upstream.always(answer))
        return self.scripted_proxy([harness.limit(["pods"], "app=foo")], kubeconfig)

    def build(self, serve):
        return self.plain_upstream(serve)

    def check(self, proxy, flood, rounds=200):
        self.addCleanup(flood.close)
        flood.open()
        for _ in range(rounds):
            if flood.look(read=False) == 0:
                break
        self.assertEqual(200, proxy.fetch("/version").status)
        self.assert_memory(proxy)

    def assert_memory(self, proxy):
        if not harness.is_sanitized(harness.program("localproxy")):
            self.assertLess(proxy.memory_kib(), SLOW_BOUND_KIB)

    def test_sent_ahead(self):
        proxy = self.start()
        request = b"GET /version?hang HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.check(proxy, Flood(proxy.listen, 1500, request + b"G" * 60000))
        self.assertGreater(proxy.metrics()["cmesh_proxy_request_memory_refused_total"], 0)

    def test_idle_watches(self):
        """What one takes is bounded, and is the system's again when it has gone."""
        proxy = self.start()
        self.assertEqual(200, proxy.fetch("/version").status)
        before = proxy.memory_kib("VmRSS")
        flood = Flood(proxy.listen, IDLE_WATCHES, WATCH_HEAD)
        self.check(proxy, flood)
        harness.wait_for(
            lambda: proxy.metrics()["cmesh_proxy_open_watches"] == IDLE_WATCHES,
            "all of them are open",
        )
        taken = proxy.memory_kib("VmRSS") - before
        flood.close()
        if not harness.is_sanitized(harness.program("localproxy")):
            self.assertLess(taken, IDLE_WATCHES * self.watch_bound_kib)
            harness.wait_for(
                lambda: proxy.memory_kib("VmRSS") - before < taken / 3,
                "what they had is the system's again",
            )

    def test_not_read(self):
        proxy = self.start()
        request = b"GET /version?large HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.check(proxy, Flood(proxy.listen, 400, request, receive_buffer=4096))
        self.wait_bounded(proxy)
        # One who reads gets all of it.
        self.assertEqual(8 * MIB, len(proxy.fetch("/version?large").body))
        self.assert_memory(proxy)


    def wait_bounded(self, proxy):
        harness.wait_for(
            lambda: proxy.metrics()["cmesh_proxy_unread_connections_closed_total"] > 0,
            "those that do not read are given up",
        )


class SlowReaderHttp2Test(SlowReaderTest):
    """The same where connections to the API server are shared."""

    watch_bound_kib = STREAM_BOUND_KIB

    def build(self, serve):
        return self.tls_upstream(serve)

    def wait_bounded(self, proxy):
        """Each is held back by its own window: all together need not be given up."""
        harness.wait_for(
            lambda: proxy.metrics()["cmesh_proxy_unread_memory_bytes"] > 100 * 65536,
            "answers wait for those that do not read them",
        )
        self.assertEqual(0, proxy.metrics()["cmesh_proxy_unread_connections_closed_total"])


def pod_list(count, padding):
    """What a difference is made of."""
    thing = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "20"},
        "items": [
            {"metadata": {"name": f"p{i}", "resourceVersion": "19"}, "spec": "x" * padding}
            for i in range(count)
        ],
    }
    return json.dumps(thing).encode()


@functools.cache
def large_page():
    return pod_list(500, 30000)


def send_event(peer, kind, metadata):
    thing = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
    event = {"type": kind, "object": thing}
    line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    peer.send(b"%x\r\n%s\r\n" % (len(line), line))


def narrow_listener():
    """Of connections to it the kernel keeps little that nobody reads: it has learned nothing yet of
    its address."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    a, b, c = (random.randint(1, 254) for _ in range(3))
    listener.bind((f"127.{a}.{b}.{c}", 0))
    listener.listen(1024)
    return listener


class SlowServerTest(harness.TestCase):
    """What is kept for an API server that does not read, or does not answer."""

    def setUp(self):
        super().setUp()
        self.over = threading.Event()

    def start(self, selector="app=foo"):
        _, kubeconfig = self.plain_upstream(self.serve, listener=narrow_listener())
        self.addCleanup(self.over.set)
        rules = [harness.limit(["pods"], selector)]
        return self.scripted_proxy(rules, kubeconfig, control=True)

    def serve(self, peer):
        while (request := peer.read_request_head()) is not None:
            if request.target == "/version":
                peer.respond(200, b"{}")
            elif "watch=true" in request.target:
                self.serve_watch(peer, request)
            elif "limit=500" in request.target:
                large = "large" in request.target
                peer.respond(200, large_page() if large else pod_list(1, 1))
            elif "begun" in request.target:
                peer.send(b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 60000)
                self.over.wait()
                return
            elif "slow" in request.target:
                peer.send_response_head(200, [("Content-Length", "10"), ("X-Long", "a" * 60000)])
                self.over.wait()
                return
            else:
                self.over.wait()
                return

    def serve_watch(self, peer, request):
        peer.begin_watch()
        if "half" in request.target:
            peer.send(b"%x\r\n" % (2 * EVENT_SIZE) + b'{"type":"ADDED' + b" " * EVENT_SIZE)
        else:
            goes_on = "resourceVersion=" in request.target
            send_event(peer, "ADDED" if goes_on else "BOOKMARK", {"resourceVersion": "20"})
        peer.wait_closed()

    def watch(self, proxy, selector, **more):
        """A watch that has its first event."""
        connection = proxy.connect(**more)
        self.addCleanup(connection.close)
        target = f"/api/v1/pods?watch=true&allowWatchBookmarks=true&labelSelector={selector}"
        connection.send_head("GET", target, [("Accept", "application/json")])
        self.assertEqual(200, connection.read_head().status)
        return connection

    def migrate(self, proxy):
        limit = harness.limit(["pods"], "app=bar")
        proxy.reload(harness.rules_document(limit, generation=2))

    def wait_too_much(self, proxy, metric, *floods):
        """Until somebody had to be refused, or given up."""

        def look():
            for flood in floods:
                flood.look()
            return proxy.metrics()[f"cmesh_proxy_{metric}"] > 0

        harness.wait_for(look, metric)

    def upload_head(self):
        return (
            "PUT /api/v1/namespaces/a/configmaps/x HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {MIB}\r\n\r\n"
        ).encode()

    def flood(self, *args, **more):
        flood = Flood(*args, **more)
        self.addCleanup(flood.close)
        flood.open()
        return flood

    def assert_bounded(self, proxy, bound=SLOW_BOUND_KIB):
        self.assertEqual(200, proxy.fetch("/version").status)
        if not harness.is_sanitized(harness.program("localproxy")):
            self.assertLess(proxy.memory_kib(), bound)

    def assert_all_is_given_back(self, proxy, flood):
        flood.close()
        self.over.set()
        for name in ("request", "unread", "watch"):
            harness.wait_for(
                lambda name=name: proxy.metrics()[f"cmesh_proxy_{name}_memory_bytes"] == 0,
                f"nothing is kept for those who have gone: {name}",
            )

    def upload(self, proxy):
        """Uploads that the API server does not read. How much of each has left its client depends on
        the kernel, and whether all of it is more than may be kept."""
        data = self.upload_head() + b" " * MIB
        flood = self.flood(proxy.listen, UPLOADS, data, send_buffer=65536, retried=())

        def all_have_come():
            flood.look()
            waiting = proxy.metrics()["cmesh_proxy_upstream_connections"]
            return waiting + flood.answered() >= UPLOADS

        harness.wait_for(all_have_come, "all wait for the API server, or were given up")
        return flood

    def test_uploads(self):
        """What is passed on waits where it comes from, and what cannot wait there is counted."""
        proxy = self.start()
        flood = self.upload(proxy)
        self.assert_bounded(proxy, UPLOADS_BOUND_KIB)
        self.assertGreater(proxy.metrics()["cmesh_proxy_unread_memory_bytes"], 0)
        flood.look()
        self.assertLessEqual(set(flood.statuses), {503})
        self.assert_all_is_given_back(proxy, flood)

    def test_lists(self):
        """What is asked of the API server counts as it is sent: with the selector of the rules."""
        values = ",".join(f"value-{i:05}" for i in range(5000))
        proxy = self.start(f"app notin ({values})")
        selector = urllib.parse.quote(f"group in ({values})")
        for query in ("", f"?labelSelector={selector}"):
            head = f"GET /api/v1/pods{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            flood = self.flood(proxy.listen, LISTS + (0 if query else LISTS), head)

            def all_wait(flood=flood):
                flood.look()
                asked = proxy.metrics()["cmesh_proxy_requests_in_flight"]
                return asked + flood.answered() >= flood.count

            harness.wait_for(all_wait, "all are waiting, or were refused")
            self.assert_bounded(proxy)
            self.assertEqual({429}, set(flood.statuses))
            self.assertGreater(proxy.metrics()["cmesh_proxy_request_memory_refused_total"], 0)
            flood.close()
            harness.wait_for(
                lambda: proxy.metrics()["cmesh_proxy_request_memory_bytes"] == 0,
                "nothing is kept for those who have gone",
            )

    def test_large_heads_of_answers(self):
        """Nobody needs them while the body comes."""
        proxy = self.start()
        request = b"GET /api/v1/nodes/slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
        flood = self.flood(proxy.listen, SLOW_ANSWERS, request, retried=())

        def all_are_answered():
            flood.look()
            return flood.answered() >= SLOW_ANSWERS

        harness.wait_for(all_are_answered, "the head of each answer has come")
        self.assertEqual({200}, set(flood.statuses) - {"malformed"})
        self.assert_bounded(proxy)

    def test_half_heads_of_answers(self):
        proxy = self.start()
        request = b"GET /api/v1/nodes/begun HTTP/1.1\r\nHost: localhost\r\n\r\n"
        flood = self.flood(proxy.listen, SLOW_ANSWERS, request)
        self.wait_too_much(proxy, "request_memory_refused_total", flood)
        harness.wait_for(
            lambda: flood.look() == 0 and flood.answered() + UNREFUSED_ANSWERS >= SLOW_ANSWERS,
            "those for which there is no room are refused",
        )
        self.assertEqual({503}, set(flood.statuses))
        self.assert_bounded(proxy)
        self.assert_all_is_given_back(proxy, flood)

    def watches(self, proxy):
        """Of large lists, whose clients will not read them, and of small ones."""
        greedy = [
            self.watch(proxy, f"large%3D{i}", receive_buffer=4096)
            for i in range(UNREAD_MIGRATIONS)
        ]
        modest = [self.watch(proxy, f"small%3D{i}") for i in range(WATCHES)]
        for watch in greedy + modest:
            self.assertIn(b"BOOKMARK", watch.read_some())
        return greedy, modest

    def test_migrations(self):
        """Pages that clients do not read, and what has come of others, count. Who reads goes on, and who
        finds no room lists again."""
        proxy = self.start()
        greedy, modest = self.watches(proxy)
        self.migrate(proxy)
        for watch in modest:
            self.assert_migrated(watch)
        self.assert_bounded(proxy)
        harness.wait_for(
            lambda: proxy.metrics()["cmesh_proxy_watches_cut_total"] > 0,
            "memory is taken from those who do not read",
        )
        self.assertEqual(WATCHES, self.migrated_whole(proxy))
        for watch in greedy:
            watch.close()
        harness.wait_for(
            lambda: proxy.metrics()["cmesh_proxy_watch_memory_bytes"] == 0,
            "nothing is kept for those who have gone",
        )
        self.assert_bounded(proxy)

    def assert_migrated(self, watch):
        """It was told what it lost and gained, and goes on."""
        text = b""
        while b'"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"res' not in text:
            piece = watch.read_some()
            self.assertTrue(piece, text[-500:])
            text += piece
        self.assertNotIn(b'"ERROR"', text)

    @staticmethod
    def migrated_whole(proxy):
        return int(proxy.metrics()["cmesh_proxy_transitions_total"])

    def test_half_events(self):
        """What finds no room passes as it comes."""
        proxy = self.start()
        watches = [self.watch(proxy, f"half%3D{i}") for i in range(HALF_EVENTS)]

        def all_have_come():
            for watch in watches:
                if select.select([watch.sock], [], [], 0)[0]:
                    watch.sock.recv(EVENT_SIZE)
            return (
                proxy.metrics()["cmesh_proxy_response_bytes_total"] > HALF_EVENTS * EVENT_SIZE
            )

        harness.wait_for(all_have_come, "half of each event has come")
        self.assert_bounded(proxy)

    def test_all_at_once(self):
        proxy = self.start()
        greedy, modest = self.watches(proxy)
        asker = Asker(proxy, "/version")
        selector = "group%20in%20(" + ",".join(f"value-{i:05}" for i in range(5000)) + ")"
        lists = f"GET /api/v1/nodes?labelSelector={selector} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        uploads = self.upload(proxy)
        floods = [
            uploads,
            self.flood(proxy.listen, LISTS, lists.encode()),
            self.flood(proxy.listen, HALF_HEADS // 4, half_head(60000)),
        ]
        for i in range(HALF_EVENTS):
            self.watch(proxy, f"half%3D{i}")
        self.migrate(proxy)
        for watch in modest:
            self.assert_migrated(watch)
        self.wait_too_much(proxy, "request_memory_refused_total", *floods)
        self.wait_too_much(proxy, "watches_cut_total", *floods)
        self.assert_bounded(proxy, ALL_BOUND_KIB)
        asker.stop()
        self.assertEqual({200}, set(asker.statuses), asker.slowest)
        self.assertEqual(WATCHES, self.migrated_whole(proxy))


if __name__ == "__main__":
    harness.main()
