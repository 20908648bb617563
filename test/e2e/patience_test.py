# SPDX-License-Identifier: Apache-2.0
"""What takes localproxy a while by design: time limits. All run at the same time."""

import concurrent.futures
import os
import socket
import threading
import time

import harness
import island
import upstream

POD_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}\n'
EVENT = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"one"}}}\n'

# localproxy gives a request's head 10 s, and looks as often.
HEAD_S = 25
# Keepalive and user timeout find a dead peer in 30 s; then a dial may take 15 s.
DEAD_S = 40
DIAL_S = 20


class PatienceTest(harness.TestCase):
    """setUpClass begins everything, each test waits for its part."""

    @classmethod
    def setUpClass(cls):
        cls.pool = concurrent.futures.ThreadPoolExecutor(16)
        cls.addClassCleanup(cls.pool.shutdown)
        cls.released = threading.Event()
        cls.addClassCleanup(cls.released.set)
        cls.jobs = {}
        cls.begin_good_server()
        cls.begin_silent_server()
        cls.begin_tls_listener()
        cls.begin(cls.absent_server, cls.proxy_before(f"http://127.0.0.1:{cls.port_of_nobody()}"))
        cls.begin(cls.dead_server, island.Cable, cls.addClassCleanup)

    @classmethod
    def begin(cls, function, *args):
        cls.jobs[function.__name__] = cls.pool.submit(function, *args)

    @classmethod
    def proxy_before(cls, server, *args):
        folder = cls.make_folder(cls.addClassCleanup)
        path = upstream.write_kubeconfig(os.path.join(folder, "kubeconfig"), server)
        return cls.class_proxy([], path, ["--resume-doubt=0", *args])

    @classmethod
    def port_of_nobody(cls):
        """It is refused to everybody."""
        keeper = socket.socket()
        cls.addClassCleanup(keeper.close)
        keeper.bind(("127.0.0.1", 0))
        return keeper.getsockname()[1]

    @classmethod
    def begin_good_server(cls):
        def answer(peer, _):
            peer.respond(200, POD_LIST)

        server = upstream.Upstream(upstream.always(answer))
        cls.addClassCleanup(server.close)
        proxy = cls.proxy_before(server.url)
        for scenario in (cls.half_requests, cls.trickle, cls.idle_within_limits):
            cls.begin(scenario, proxy)

    @classmethod
    def begin_silent_server(cls):
        """Accepts connections, and says nothing."""
        server = upstream.Upstream(lambda _: cls.released.wait(60))
        cls.addClassCleanup(server.close)
        proxy = cls.proxy_before(server.url.replace("http:", "https:"))
        cls.begin(cls.silent_server, proxy)

    @classmethod
    def begin_tls_listener(cls):
        folder = cls.make_folder(cls.addClassCleanup)
        certificate, key = harness.pki.Authority(folder).server()
        args = ["--listen-tls-cert", certificate, "--listen-tls-key", key]
        cls.begin(cls.silent_clients, cls.proxy_before("http://127.0.0.1:1", *args))

    # ---- the scenarios: each returns what its test looks at ----

    @staticmethod
    def seconds_until_closed(connections):
        began = time.monotonic()
        closed = [connection.closed_by_peer() for connection in connections]
        for connection in connections:
            connection.close()
        return all(closed), time.monotonic() - began

    @staticmethod
    def half_requests(proxy):
        held = []
        for data in (b"GET /api/v1/pods HTTP/1.1\r\nHos", b"G", b"\xff\xfe"):
            for _ in range(60):
                held.append(proxy.connect(timeout=40))
                held[-1].send(data)
        with proxy.connect() as good:
            statuses = {good.request("GET", "/api/v1/pods").status for _ in range(200)}
        closed, seconds = PatienceTest.seconds_until_closed(held)
        return statuses, closed, seconds

    @staticmethod
    def trickle(proxy):
        began = time.monotonic()
        with proxy.connect(timeout=0.3) as connection:
            connection.send(b"GET / HTTP/1.1\r\nX: ")
            while time.monotonic() - began < 40:
                try:
                    connection.send(b"y")
                    if connection.closed_by_peer():
                        break
                except OSError:
                    break
        return time.monotonic() - began

    @staticmethod
    def idle_within_limits(proxy):
        """Client libraries keep connections for a minute and more."""
        with proxy.connect() as connection:
            first = connection.request("GET", "/api/v1/pods").status
            time.sleep(HEAD_S)
            return first, connection.request("GET", "/api/v1/pods").status

    @staticmethod
    def silent_server(proxy):
        with proxy.connect(timeout=60) as connection:
            return connection.request("GET", "/api/v1/pods")

    @staticmethod
    def absent_server(proxy):
        """A watch waits for it, but not for ever; the next one not at all."""
        with proxy.connect(timeout=60) as connection:
            began = time.monotonic()
            first = connection.request("GET", "/api/v1/pods?watch=true")
            waited = time.monotonic() - began
            return waited, first, connection.request("GET", "/api/v1/pods?watch=true")

    @staticmethod
    def silent_clients(proxy):
        return PatienceTest.seconds_until_closed([proxy.connect(timeout=40) for _ in range(20)])

    @classmethod
    def dead_server(cls, make_cable, cleanup):
        """Its machine is gone: nothing comes from there any more, no reset either."""
        cable = make_cable(cleanup)
        listener = cable.far.do(lambda: socket.create_server((island.FAR, 0), backlog=64))
        server = upstream.Upstream(cls.serve_watches, listener=listener)
        cleanup(server.close)
        proxy = cable.near.do(lambda: cls.proxy_before(server.url))
        cleanup(cable.near.do, proxy.stop)

        def connect():
            connection = cable.near.do(lambda: proxy.connect(timeout=90))
            cleanup(connection.close)
            return connection

        watches = [cls.open_watch(connect()) for _ in range(10)]
        kept, upload, fresh = connect(), connect(), connect()
        # Two connections are in the pool then; one more is dialled when both are in use.
        for connection in (kept, upload):
            connection.send_head("GET", "/api/v1/pods")
        for connection in (kept, upload):
            connection.response()
        cable.cut()
        began = time.monotonic()
        kept.send_head("GET", "/api/v1/pods")
        upload.send_head("POST", "/api/v1/namespaces/n/pods", [("Content-Length", "2000000")])
        sender = threading.Thread(target=cls.send_quietly, args=(upload, 2000000), daemon=True)
        sender.start()
        fresh.send_head("GET", "/api/v1/pods")
        seen = {"fresh": fresh.response()}
        seen["watches"] = [watch.read_body() for watch in watches]
        seen["watches found"] = time.monotonic() - began
        seen["upload"] = upload.response("POST")
        seen["upload found"] = time.monotonic() - began
        seen["kept"] = kept.response()
        seen["kept found"] = time.monotonic() - began
        cable.mend()
        seen["mended"] = cable.near.do(lambda: proxy.fetch("/api/v1/pods"))
        return seen

    @staticmethod
    def serve_watches(peer):
        while (request := peer.read_request()) is not None:
            if "watch" in request.target:
                peer.begin_watch()
                peer.send_chunk(EVENT)
            else:
                peer.respond(200, POD_LIST)

    @staticmethod
    def open_watch(connection):
        connection.send_head("GET", "/api/v1/pods?watch=true")
        connection.read_head()
        if connection.read_some() != EVENT:
            raise AssertionError("the watch does not begin with the event")
        return connection

    @staticmethod
    def send_quietly(connection, count):
        try:
            connection.send(b"x" * count)
        except OSError:
            pass

    # ---- the tests ----

    def result(self, name):
        return self.jobs[name].result(90)

    def test_half_requests_do_not_last(self):
        statuses, closed, seconds = self.result("half_requests")
        self.assertEqual({200}, statuses)
        self.assertTrue(closed)
        self.assertLess(seconds, HEAD_S)

    def test_one_byte_at_a_time_does_not_help(self):
        self.assertLess(self.result("trickle"), HEAD_S)

    def test_an_idle_connection_is_kept(self):
        self.assertEqual((200, 200), self.result("idle_within_limits"))

    def test_a_server_that_never_shakes_hands(self):
        self.assert_status_error(self.result("silent_server"), 504, "Timeout", ["timed out"])

    def test_a_watch_waits_for_an_absent_server(self):
        waited, *answers = self.result("absent_server")
        self.assertGreater(waited, 25)
        for answer in answers:
            self.assert_status_error(answer, 429, "TooManyRequests", ["refused"])
            self.assertEqual("1", answer.get("Retry-After"))

    def test_clients_that_never_shake_hands(self):
        closed, seconds = self.result("silent_clients")
        self.assertTrue(closed)
        self.assertLess(seconds, HEAD_S)

    def test_a_dead_server_is_found(self):
        seen = self.result("dead_server")
        self.assertEqual([(b"", False)] * 10, seen["watches"], "they are cut, not ended")
        self.assertLess(seen["watches found"], DEAD_S)
        self.assert_status_error(seen["fresh"], 504, "Timeout")
        self.assertIn(seen["upload"].status, (502, 504))
        self.assertLess(seen["upload found"], DEAD_S)
        self.assertIn(seen["kept"].status, (503, 504))
        self.assertLess(seen["kept found"], DEAD_S + DIAL_S)
        self.assertEqual(200, seen["mended"].status)


if __name__ == "__main__":
    harness.main()
