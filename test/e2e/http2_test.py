# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 towards the API server, which is scripted: how many connections there are, what becomes of
what is under way when one of them is refused, left, frozen or lost, and that other requests do not
feel it."""

import json
import threading
import time

import harness
import scripted_case
import upstream
from scripted_case import AS_JSON, json_event, json_list, meta

MEBIBYTE = 1 << 20
SILENCE = 45  # seconds after which a server that does not answer is given up, about
PODS = "/api/v1/namespaces/a/pods"


class Http2Case(scripted_case.ScriptedCase):
    upstream_protocol = "h2"

    def links(self):
        """The connections that are open."""
        return [link for link in self.server.links if link.open]

    def wait_links(self, count):
        harness.wait_for(lambda: len(self.links()) == count, f"there are {count} connections")

    def get(self, target="/version"):
        """Asks, and answers."""
        connection = self.open(target)
        asked = self.asked(target)
        asked.respond(b"fine")
        self.assertEqual(b"fine", connection.response().body)
        return asked


class SharingTest(Http2Case):
    """Many requests share a connection."""

    def test_watches_and_requests(self):
        self.start_with("a")
        self.get()
        watches = [self.open_watch(AS_JSON) for _ in range(90)]
        for _ in range(5):
            self.get()
        self.assertEqual(1, len(self.server.links))
        self.assertEqual(1, self.metric("upstream_connections"))
        self.assertEqual(1, self.metric("upstream_connections_http2"))
        self.assertEqual(90, self.metric("upstream_requests_in_flight"))
        up = self.proxy_process.status()["upstream"]
        self.assertEqual((1, 1, 90), (up["connections"], up["http2Connections"], up["requestsInFlight"]))
        for number, (watch, asked) in enumerate(watches):
            event = json_event("ADDED", meta(f"p{number}", 5 + number))
            asked.send(event)
            self.expect(watch, event)

    def test_more_than_a_connection_takes(self):
        self.start_with("a", streams=10)
        watches = [self.open_watch(AS_JSON) for _ in range(35)]
        self.get()
        self.assertEqual(4, len(self.server.links))
        for _, asked in watches:
            asked.end()
        for watch, _ in watches:
            self.expect_end(watch)
        self.assert_idle()

    def test_one_stream_at_a_time(self):
        self.start_with("a", streams=1)
        watches = [self.open_watch(AS_JSON) for _ in range(3)]
        self.get()
        self.get()
        self.assertEqual(4, len(self.server.links))
        for watch, asked in watches:
            event = json_event("ADDED", meta("p", 5))
            asked.send(event)
            self.expect(watch, event)

    def test_a_client_that_leaves(self):
        """Its stream alone is reset."""
        self.start_with("a")
        first, gone = self.open_watch(AS_JSON)
        second, stays = self.open_watch(AS_JSON)
        first.close()
        self.assertTrue(gone.closed())
        event = json_event("ADDED", meta("p", 5))
        stays.send(event)
        self.expect(second, event)
        self.assertEqual(1, len(self.server.links))

    def test_a_client_that_does_not_read(self):
        """It holds up nobody else, and not more than its window is kept of it."""
        self.start_with("a")
        self.get()
        slow = self.open(PODS, receive_buffer=4096)
        asked = self.asked()
        sender = threading.Thread(target=asked.try_respond, args=(b"x" * (64 * MEBIBYTE),))
        sender.start()
        watch, other = self.open_watch(AS_JSON)
        for version in range(5, 25):
            event = json_event("ADDED", meta("p", version, uid="x" * 10000))
            other.send(event)
            self.expect(watch, event)
            self.get()
        self.assertLess(self.proxy_process.memory_kib(), 64 * 1024)
        self.assertEqual(64 * MEBIBYTE, len(slow.response().body))
        sender.join(60)
        self.assertEqual(1, len(self.server.links))

    def test_upgrades(self):
        """They have HTTP/1.1, on a connection of their own."""
        self.start_with("a")
        self.get()
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
        tunnel = self.open(f"{PODS}/p/exec?command=x", upgrade, method="POST")
        asked = self.asked()
        self.assertEqual("HTTP/1.1", asked.request.version)
        asked.peer.send_response_head(101, upgrade)
        self.assertEqual(101, tunnel.read_head().status)
        asked.peer.send(b"out")
        self.expect(tunnel, b"out")
        self.assertEqual("HTTP/2", self.get().request.version)

    def test_what_is_asked(self):
        """The request of HTTP/1.1 with names in lower case, one Host, and no header of a hop."""
        self.start_with("a")
        hop = [("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5")]
        connection = self.proxy_process.connect()
        self.addCleanup(connection.close)
        own = [("X-Own", "A b"), ("TE", "trailers"), ("Authorization", "Bearer nobody's")]
        connection.send_head("GET", f"{PODS}/p?pretty=1", [*hop, *own])
        asked = self.asked(f"{PODS}/p?pretty=1", "GET")
        names = [name for name, _ in asked.request.headers]
        self.assertEqual([name.lower() for name in names], names)
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual("A b", asked.request.get("X-Own"))
        self.assertEqual("Bearer e2e-token", asked.request.get("Authorization"))
        for name in ("connection", "x-hop", "keep-alive", "te"):
            self.assertNotIn(name, names)
        asked.respond(b"{}", headers=[("X-Answer", "1")])
        answer = connection.response()
        self.assertEqual(("1", b"{}"), (answer.get("X-Answer"), answer.body))


class ChoiceTest(Http2Case):
    """What is spoken."""

    def test_http1_only(self):
        self.start_with("a", args=("--upstream-protocol=http1",))
        self.assertEqual("HTTP/1.1", self.get().request.version)
        self.assertEqual([], self.server.links)
        self.assertEqual(0, self.metric("upstream_connections_http2"))

    def test_a_server_without_http2(self):
        self.upstream_protocol = "http1"
        self.start_with("a", tls=True)
        self.assertEqual("HTTP/1.1", self.get().request.version)


class FaultTest(Http2Case):
    """Streams and connections that end before their time."""

    def test_a_watch_is_reset(self):
        """The client sees it broken off; its neighbour sees nothing."""
        self.start_with("a")
        broken, gone = self.open_watch(AS_JSON)
        watch, stays = self.open_watch(AS_JSON)
        gone.break_off()
        self.expect_broken_off(broken)
        event = json_event("ADDED", meta("p", 5))
        stays.send(event)
        self.expect(watch, event)
        self.get()
        self.assertEqual(1, len(self.server.links))

    def test_a_list_is_reset(self):
        self.start_with("a")
        connection = self.open(PODS)
        asked = self.asked()
        asked.peer.send_response_head(200, [("Content-Length", "100")])
        asked.peer.send(b"x" * 50)
        self.assertEqual(200, connection.read_head().status)
        self.expect(connection, b"x" * 50)
        asked.break_off()
        self.expect_broken_off(connection)

    def test_a_list_whose_end_comes_late(self):
        """Its client has all of it, and may go on from it, before the server says that it has ended."""
        self.start_with("a", args=("--state", self.path("state")))
        body = json_list([meta("p", 5)], 10)
        connection = self.open(PODS)
        asked = self.asked()
        asked.peer.send_response_head(200, [("Content-Length", len(body))])
        asked.peer.left = None  # the end of the stream does not go with the last byte
        asked.peer.send(body)
        self.assertEqual(200, connection.read_head().status)
        self.expect(connection, body)
        self.reload_to("b")
        self.assert_expired(self.proxy_process.fetch(f"{PODS}?watch=1&resourceVersion=10"))
        asked.end()
        self.assert_nothing_asked()

    def test_a_write_is_reset(self):
        """It may have been executed: the operator is told, and nothing is sent again."""
        self.start_with("a")
        connection = self.proxy_process.connect()
        self.addCleanup(connection.close)
        body = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}'
        connection.send_head("POST", PODS, [("Content-Length", str(len(body)))])
        connection.send(body)
        self.asked(PODS, "POST").break_off()
        answer = connection.response()
        self.assert_status_error(answer, 502, mentions=["may have been executed"])
        self.assertIsNone(answer.get("Retry-After"))
        self.assert_nothing_asked()

    def refused(self, method, target, body=b""):
        """What comes of a request that is refused once."""
        connection = self.proxy_process.connect()
        self.addCleanup(connection.close)
        headers = [("Content-Length", str(len(body)))] if body else []
        connection.send_head(method, target, headers)
        connection.send(body)
        self.asked(target, method).peer.refuse()
        return connection

    def test_requests_are_refused(self):
        """Nothing of them was executed, so they are sent again."""
        self.start_with("a")
        self.get()
        for method in ("GET", "DELETE"):
            with self.subTest(method=method):
                connection = self.refused(method, f"{PODS}/p")
                self.asked(method=method).respond(b"done")
                self.assertEqual(b"done", connection.response().body)
        self.assert_nothing_asked()

    def test_a_write_is_refused(self):
        """It is sent again with its body, and executed once; the operator sees nothing of it."""
        self.start_with("a")
        self.get()
        for size in (50, MEBIBYTE):
            with self.subTest(size=size):
                body = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s"}}' % (b"p" * size)
                connection = self.refused("POST", PODS, body)
                asked = self.asked(PODS, "POST")
                self.assertEqual(body, asked.request.body)
                asked.respond(b"{}", 201)
                self.assertEqual(201, connection.response().status)
        self.assert_nothing_asked()

    def test_a_large_write_is_refused(self):
        """No more is kept than etcd takes: its client is told to ask again, and that it may."""
        self.start_with("a")
        self.get()
        connection = self.refused("POST", PODS, b'{"x":"' + b"x" * 2 * MEBIBYTE + b'"}')
        answer = connection.response()
        self.assertEqual(("1", 503), (answer.get("Retry-After"), answer.status))
        self.assert_nothing_asked()

    def test_the_server_leaves(self):
        """What is open goes on, what comes goes elsewhere, and the connection ends with the last."""
        self.start_with("a")
        watch, asked = self.open_watch(AS_JSON)
        connection = self.open(PODS)
        listed = self.asked()
        listed.peer.send_response_head(200, [("Content-Length", "100")])
        listed.peer.send(b"x" * 50)
        self.server.links[0].go_away()
        self.get()
        self.assertEqual(2, len(self.server.links))
        listed.peer.send(b"x" * 50)
        self.assertEqual(b"x" * 100, connection.response().body)
        event = json_event("ADDED", meta("p", 5))
        asked.send(event)
        self.expect(watch, event)
        asked.end()
        self.expect_end(watch)
        self.wait_links(1)

    @staticmethod
    def fill(peer):
        """Sends until the stream's window stays shut; how much that was."""
        sent = shut = 0
        while shut < 10:
            part = b"x" * peer.room()
            shut = 0 if part else shut + 1
            if part:
                peer.send(part)
                sent += len(part)
            else:
                time.sleep(0.03)
        return sent

    def test_the_server_ends_before_a_client_has_read(self):
        """All of the answer has come to localproxy, and so it does to the client."""
        self.start_with("a")
        self.get()
        slow = self.open(PODS, receive_buffer=4096)
        peer = self.asked().peer
        peer.begin_watch("text/plain")
        sent = self.fill(peer)
        peer.end_chunks()
        peer.link.go_away()
        peer.sock.close_notify()
        self.wait_links(0)
        self.get()
        self.assertEqual((b"x" * sent, True), (lambda a: (a.body, a.complete))(slow.response()))

    def test_the_server_leaves_before_a_write(self):
        """One that it has not looked at is sent on another connection, and executed once."""
        self.start_with("a")
        watch, _ = self.open_watch(AS_JSON)
        connection = self.proxy_process.connect()
        self.addCleanup(connection.close)
        connection.send_head("DELETE", f"{PODS}/p")
        old = self.asked(f"{PODS}/p", "DELETE")
        link = self.server.links[0]
        link.go_away(old.peer.stream - 2)
        self.asked(f"{PODS}/p", "DELETE").respond(b"{}")
        self.assertEqual(200, connection.response().status)
        self.assert_nothing_asked()
        event = json_event("ADDED", meta("p", 5))
        next(iter(link.peers.values())).send_chunk(event)
        self.expect(watch, event)

    def test_the_connection_breaks(self):
        """All that was on it is broken off; what comes then has another."""
        self.start_with("a")
        watches = [self.open_watch(AS_JSON)[0] for _ in range(5)]
        self.server.links[0].sock.shutdown(2)
        for watch in watches:
            self.expect_broken_off(watch)
        self.get()
        self.open_watch(AS_JSON)
        self.assertEqual(2, len(self.server.links))

    def test_the_protocol_is_broken(self):
        self.start_with("a")
        watch, _ = self.open_watch(AS_JSON)
        self.server.links[0].sock.sendall(b"\0\0\1\0\0\0\0\0\0x")  # DATA of no stream
        self.expect_broken_off(watch)
        self.get()

    def test_the_server_is_frozen(self):
        """Its system still takes what is sent. Watches end after a while, so that clients ask
        again; a request that it got is not answered, and those that come then are."""
        self.start_with("a")
        watches = [self.open_watch(AS_JSON)[0] for _ in range(3)]
        self.server.links[0].freeze()
        connection = self.open(f"{PODS}/p", timeout=3 * SILENCE)
        began = time.monotonic()
        for watch in watches:
            watch.sock.settimeout(3 * SILENCE)
            self.expect_broken_off(watch)
        self.assertGreater(time.monotonic() - began, SILENCE / 2)
        asked = self.asked(f"{PODS}/p")
        asked.respond(b"{}")
        self.assertEqual(200, connection.response().status)
        self.get()
        self.assertEqual(2, len(self.server.links))
        self.server.links[0].reading.set()

    def test_the_server_restarts(self):
        self.start_with("a")
        watch, _ = self.open_watch(AS_JSON)
        old = self.server
        address = old.listener.getsockname()
        old.close()
        self.expect_broken_off(watch)
        waiting = self.open(f"{PODS}?watch=true", [("Accept", AS_JSON.of_watch)])
        harness.wait_for(lambda: "watches wait for it" in self.proxy_process.log(), "it waits")
        context = upstream.server_context(*self.authority().server(), upstream.HTTP2)
        self.server = self.upstream(self.serve, context=context, listener=upstream.listen(address))
        self.asked().open(AS_JSON)
        self.assertEqual(200, waiting.read_head().status)
        self.get()

    def test_answers_that_are_none(self):
        """No header that belongs to a hop reaches the operator, nor what is no answer."""
        self.start_with("a")
        for fields in (
            [(":status", "99")],
            [(":status", "abc")],
            [("x", "y")],
            [(":status", "200"), ("content-length", "x")],
            [(":status", "200"), ("connection", "close")],
            [(":status", "101")],
        ):
            with self.subTest(fields=fields):
                connection = self.open(PODS)
                asked = self.asked()
                asked.peer.send_raw_headers(fields)
                self.assert_status_error(connection.response(), 502)
                self.get()


class AnswerTest(Http2Case):
    def test_before_the_request_is_complete(self):
        """Too large, says the server, and reads no further; the connection goes on."""
        self.start_with("a")
        self.get()
        connection = self.proxy_process.connect()
        self.addCleanup(connection.close)
        self.early = 413
        connection.send_head("POST", PODS, [("Content-Length", str(64 * MEBIBYTE))])
        connection.send(b"x" * MEBIBYTE)
        self.assertEqual(413, connection.response().status)
        self.early = None
        self.get()
        self.assertEqual(1, len(self.server.links))

    def serve(self, peer):
        """`early` answers before the body has come."""
        if self.early is None:
            super().serve(peer)
        elif peer.read_request_head() is not None:
            peer.respond(self.early)

    def setUp(self):
        super().setUp()
        self.early = None

    def test_401(self):
        """It is passed on, and the connection is as good as before."""
        self.start_with("a")
        connection = self.open(PODS)
        body = json.dumps({"kind": "Status", "code": 401}).encode()
        self.asked().respond(body, 401)
        self.assertEqual((401, body), (lambda a: (a.status, a.body))(connection.response()))
        self.asked("/version").respond()  # whether localproxy is known
        self.get()
        self.assertEqual(1, len(self.server.links))
