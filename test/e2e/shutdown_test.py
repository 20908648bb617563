# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: nothing new is taken, what is in flight is finished, watches end between two events."""

import signal
import struct
import threading
import time

import harness
import objects
import wire

FIRST = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"one"}}}\n'
SECOND = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"two"}}}\n'
FRAME = struct.pack(">I", 300) + bytes(range(50)) * 6


class ShutdownTest(harness.TestCase):
    """Before a scripted API server; `script(peer, request)` is the test's."""

    def setUp(self):
        super().setUp()
        self.release = threading.Event()
        self.addCleanup(self.release.set)
        self.arrived = threading.Semaphore(0)
        self.script = None

    def serve(self, peer):
        while (request := peer.read_request()) is not None:
            self.arrived.release()
            self.script(peer, request)

    def start(self, script, *args):
        self.script = script
        _, kubeconfig = self.tls_upstream(self.serve)
        return self.scripted_proxy([], kubeconfig, ("--shutdown-grace=60", *args))

    def wait_arrived(self, count=1):
        for _ in range(count):
            self.assertTrue(self.arrived.acquire(timeout=20))

    def open(self, proxy, target="/api/v1/pods?watch=true", headers=()):
        """Sends a GET and leaves the answer to be read."""
        connection = proxy.connect()
        self.addCleanup(connection.close)
        connection.send_head("GET", target, headers)
        return connection

    def terminate(self, proxy, number=signal.SIGTERM):
        """Sends the signal and waits until it has come: what is asked next is after it."""
        proxy.signal(number)
        harness.wait_for(lambda: "shutting down" in proxy.log(), "it shuts down")

    def linger(self, proxy):
        """Sends the signal; the operator is served as before."""
        proxy.signal(signal.SIGTERM)
        harness.wait_for(lambda: "still serving" in proxy.log(), "it lingers")

    def assert_ends(self, proxy):
        """Long before the period of grace is over, unless the test has made it short."""
        self.assertEqual(0, proxy.wait(20), proxy.log())

    def assert_refuses(self, proxy):
        with self.assertRaises(OSError):
            proxy.connect()

    # ---- the scripts ----

    def held_answer(self, peer, _):
        self.release.wait(30)
        peer.respond(200, b"the answer\n")

    def held_half_answer(self, peer, _):
        peer.send_response_head(200, [("Content-Length", "10")])
        peer.send(b"01234")
        self.release.wait(30)
        peer.send(b"56789")

    def watch_of(self, *parts, content_type="application/json"):
        """Sends the first part at once, the others when released, and never ends by itself."""

        def script(peer, _):
            peer.begin_watch(content_type)
            peer.send_chunk(parts[0])
            self.release.wait(30)
            for part in parts[1:]:
                peer.send_chunk(part)
            peer.wait_closed()

        return script

    # ---- the tests ----

    def test_idle(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            proxy = self.start(self.held_answer)
            proxy.signal(number)
            self.assert_ends(proxy)

    def test_kept_connections_are_closed(self):
        self.release.set()
        proxy = self.start(self.held_answer)
        with proxy.connect() as connection:
            self.assertEqual(200, connection.request("GET", "/api/v1/pods").status)
            proxy.signal(signal.SIGTERM)
            self.assertTrue(connection.closed_by_peer())
        self.assert_ends(proxy)

    def test_a_request_in_flight_is_finished(self):
        for script in (self.held_answer, self.held_half_answer):
            self.release.clear()
            proxy = self.start(script)
            connection = self.open(proxy, "/api/v1/pods")
            self.wait_arrived()
            self.terminate(proxy)
            ready = proxy.ask_admin("/readyz")
            self.assertEqual((503, b"shutting down\n"), (ready.status, ready.body))
            self.assert_refuses(proxy)  # it has said so in the log before it acted on it
            self.assertEqual(200, proxy.ask_admin("/healthz").status)
            self.assertIsNone(proxy.process.poll())
            self.release.set()
            answer = connection.response()
            self.assertEqual((200, True), (answer.status, answer.complete))
            self.assertIn(answer.body, (b"the answer\n", b"0123456789"))
            self.assertTrue(connection.closed_by_peer())
            connection.close()
            self.assert_ends(proxy)

    def test_an_upload_in_flight_is_finished(self):
        received = []

        def script(peer, request):
            received.append(request.body)
            peer.respond(201)

        proxy = self.start(script)
        with proxy.connect() as connection:
            connection.send_head("POST", "/api/v1/namespaces/n/pods", [("Content-Length", "11")])
            connection.send(b"hello ")
            harness.wait_for(
                lambda: proxy.status()["requestsInFlight"] == 1, "the request is in flight"
            )
            self.terminate(proxy)
            connection.send(b"world")
            self.assertEqual(201, connection.response("POST").status)
        self.assertEqual([b"hello world"], received)
        self.assert_ends(proxy)

    def test_no_further_request_on_a_connection_in_flight(self):
        proxy = self.start(self.held_answer)
        connection = self.open(proxy, "/api/v1/pods")
        self.wait_arrived()
        self.terminate(proxy)
        connection.send_head("GET", "/api/v1/second")
        self.release.set()
        answer = connection.response()
        self.assertEqual((200, "close"), (answer.status, answer.get("Connection")))
        self.assertTrue(connection.closed_by_peer())
        self.assert_ends(proxy)
        self.assertFalse(self.arrived.acquire(blocking=False), "the second was not passed on")

    def test_a_watch_between_two_events_ends_at_once(self):
        for part, kind in ((FIRST + SECOND, "application/json"), (FRAME, objects.PROTOBUF_WATCH)):
            proxy = self.start(self.watch_of(part, content_type=kind))
            watches = [self.open(proxy) for _ in range(20)]
            for watch in watches:
                watch.read_head()
                self.assertEqual(part, watch.read_some())
            proxy.signal(signal.SIGTERM)
            for watch in watches:
                self.assertEqual((b"", True), watch.read_body())
                self.assertTrue(watch.closed_by_peer())
                watch.close()
            self.assert_ends(proxy)

    def test_a_watch_without_any_event_ends_at_once(self):
        def script(peer, _):
            peer.begin_watch()
            peer.wait_closed()

        proxy = self.start(script)
        watch = self.open(proxy)
        self.assertEqual(200, watch.read_head().status)
        proxy.signal(signal.SIGTERM)
        self.assertEqual((b"", True), watch.read_body())
        self.assert_ends(proxy)

    def test_a_watch_within_an_event_ends_before_it(self):
        """Cut at every kind of place: within the text, before the newline, within a length."""
        lines = FIRST + SECOND
        frames = FRAME + FRAME
        for data, kind, places, whole in (
            (lines, "application/json", (1, 30, len(FIRST) - 1, len(FIRST) + 5), len(FIRST)),
            (frames, objects.PROTOBUF_WATCH, (1, 3, 4, 303, 305, 309), len(FRAME)),
        ):
            for place in places:
                self.release.clear()
                proxy = self.start(self.watch_of(data[:place], data[place:], content_type=kind))
                watch = self.open(proxy)
                watch.read_head()
                complete_events = data[: place // whole * whole]
                if complete_events:
                    self.assertEqual(complete_events, watch.read_some())
                self.terminate(proxy)
                self.assertEqual((b"", True), watch.read_body(), (kind, place))
                self.release.set()
                watch.close()
                self.assert_ends(proxy)

    def test_a_watch_that_is_answered_late_ends_empty(self):
        def script(peer, _):
            self.release.wait(30)
            peer.begin_watch()
            peer.send_chunk(FIRST)
            peer.wait_closed()

        proxy = self.start(script)
        watch = self.open(proxy)
        self.wait_arrived()
        self.terminate(proxy)
        self.release.set()
        answer = watch.response()
        self.assertEqual((200, True), (answer.status, answer.complete))
        self.assertIn(answer.body, (b"", FIRST))
        self.assert_ends(proxy)

    def test_a_watch_that_never_reaches_a_boundary_is_cut_when_the_grace_is_over(self):
        huge = b"x" * (2 << 20)  # more than is held back
        proxy = self.start(self.watch_of(huge), "--shutdown-grace=1")
        watch = self.open(proxy)
        watch.read_head()
        seen = 0
        while seen < len(huge):
            seen += len(watch.read_some())
        proxy.signal(signal.SIGTERM)
        with self.assertRaises(wire.Cut):
            watch.read_some()
        self.assert_ends(proxy)
        self.assertIn("grace period is over", proxy.log())

    def test_grace_over(self):
        proxy = self.start(self.held_half_answer, "--shutdown-grace=1")
        connection = self.open(proxy, "/api/v1/pods")
        self.assertEqual(200, connection.read_head().status)
        self.assertEqual(b"01234", connection.read_some())
        began = time.monotonic()
        proxy.signal(signal.SIGTERM)
        self.assertEqual((b"", False), connection.read_body())
        self.assert_ends(proxy)
        self.assertGreater(time.monotonic() - began, 0.9)

    def test_no_grace(self):
        proxy = self.start(self.held_answer, "--shutdown-grace=0")
        connection = self.open(proxy, "/api/v1/pods")
        self.wait_arrived()
        proxy.signal(signal.SIGTERM)
        with self.assertRaises(wire.Cut):
            connection.read_head()
        self.assert_ends(proxy)

    def test_second_signal(self):
        for second in (signal.SIGTERM, signal.SIGINT):
            proxy = self.start(self.held_answer, "--shutdown-grace=60")
            connection = self.open(proxy, "/api/v1/pods")
            self.wait_arrived()
            self.terminate(proxy)
            self.assertIsNone(proxy.process.poll())
            proxy.signal(second)
            with self.assertRaises(wire.Cut):
                connection.read_head()
            self.assert_ends(proxy)
            self.assertIn("second signal", proxy.log())

    def test_it_outlives_the_operator(self):
        """Both are told to end at once: the operator must be able to give its lease back."""
        proxy = self.start(self.held_answer, "--shutdown-delay=60")
        watch = self.open(proxy)
        self.wait_arrived()
        self.linger(proxy)
        self.release.set()
        self.assertEqual(200, watch.response().status)
        for _ in range(2):
            time.sleep(1)
            self.assertEqual(200, proxy.fetch("/api/v1/pods").status)
            self.assertEqual(200, proxy.ask_admin("/readyz").status)
        watch.close()
        self.assert_ends(proxy)
        self.assertNotIn("grace period", proxy.log())

    def test_without_an_operator_it_does_not_linger(self):
        proxy = self.start(self.held_answer, "--shutdown-delay=60")
        proxy.signal(signal.SIGTERM)
        self.assert_ends(proxy)

    def test_the_delay_is_a_bound(self):
        proxy = self.start(self.watch_of(FIRST), "--shutdown-delay=1")
        watch = self.open(proxy)
        watch.read_head()
        began = time.monotonic()
        self.linger(proxy)
        self.assertEqual((FIRST, True), watch.read_body())
        self.assertGreater(time.monotonic() - began, 0.9)
        self.assert_ends(proxy)

    def test_second_signal_during_the_delay(self):
        proxy = self.start(self.watch_of(FIRST), "--shutdown-delay=60")
        watch = self.open(proxy)
        watch.read_head()
        self.linger(proxy)
        proxy.signal(signal.SIGTERM)
        self.assert_ends(proxy)

    def test_tunnels_last_until_the_grace_is_over(self):
        def script(peer, _):
            peer.send_response_head(101, [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")])
            while peer.fill():
                peer.send(peer.take(1000))

        proxy = self.start(script, "--shutdown-grace=5")
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
        tunnel = self.open(proxy, "/api/v1/namespaces/n/pods/p/exec", upgrade)
        self.assertEqual(101, tunnel.read_head().status)
        self.terminate(proxy)
        tunnel.send(b"still there?")
        self.assertEqual(b"still there?", tunnel.read_some())
        self.assertTrue(tunnel.closed_by_peer())
        self.assert_ends(proxy)

    def test_other_signals_do_no_harm(self):
        self.release.set()
        proxy = self.start(self.held_answer)
        proxy.signal(signal.SIGPIPE)
        self.assertEqual(200, proxy.fetch("/api/v1/pods").status)


if __name__ == "__main__":
    harness.main()
