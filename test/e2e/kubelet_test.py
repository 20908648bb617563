# SPDX-License-Identifier: Apache-2.0
"""Logs and upgraded connections: exec, attach, port-forward.

The real API server asks a kubelet for these; here that is a script behind a Node object. What the
API server would not let a test see (half-closed tunnels, odd answers) is scripted in its place.
"""

import os
import socket
import threading
import unittest

import harness
import upstream
import wire

SPDY = [
    ("Connection", "Upgrade"),
    ("Upgrade", "SPDY/3.1"),
    ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
    ("X-Stream-Protocol-Version", "v3.channel.k8s.io"),
]
WEB_SOCKET = [
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Protocol", "v4.channel.k8s.io"),
]
MEBIBYTE = 1 << 20


def send_in_pieces(stream, data, shutdown=None):
    """In a thread: pieces of changing size. `shutdown` is called in the end."""

    def run():
        at = 0
        size = 1
        while at < len(data):
            stream.send(data[at : at + size])
            at += size
            size = size * 3 % 70001 + 1
        if shutdown is not None:
            shutdown()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def read_exactly(stream, count):
    while len(stream.input) < count:
        if not stream.fill():
            break
    return stream.take(count)


class KubeletTest(harness.TestCase):
    """Through the real API server to a scripted kubelet."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        cls.namespace = harness.make_namespace(cls.cluster, "kubelet", cls.addClassCleanup)
        cls.proxy_process = cls.class_proxy([harness.limit(["pods"], "none=none")])

    def setUp(self):
        super().setUp()
        context = upstream.server_context(*self.authority().server())
        self.kubelet = self.upstream(self.serve, context=context)
        self.requests = []
        self.script = None
        self.node = f"node-{os.getpid()}-{self.kubelet.port}"
        self.addCleanup(self.cluster.fetch, f"/api/v1/nodes/{self.node}", "DELETE")
        self.cluster.json("/api/v1/nodes", "POST", {
            "metadata": {"name": self.node},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.port}},
            },
        })  # fmt: skip
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.pod = f"{self.pods}/{self.node}"
        self.addCleanup(self.cluster.fetch, self.pod + "?gracePeriodSeconds=0", "DELETE")
        self.cluster.json(self.pods, "POST", {
            "metadata": {"name": self.node},
            "spec": {"nodeName": self.node, "containers": [{"name": "c", "image": "i"}]},
        })  # fmt: skip

    def serve(self, peer):
        while (request := peer.read_request()) is not None:
            self.requests.append(request)
            if self.script(peer, request) == "tunnel":
                return

    def test_logs_are_followed(self):
        """Each line arrives before the next one is written."""
        lines = [f"line {i} {'x' * (i * i * 50)}\n" for i in range(12)]
        shown = threading.Semaphore(0)

        def follow(peer, _):
            peer.begin_watch("text/plain")
            for line in lines:
                peer.send_chunk(line.encode())
                shown.acquire(timeout=20)
            peer.end_chunks()

        self.script = follow
        kubectl = harness.Kubectl(self.path("home"), server=self.proxy_process.url)
        logs = kubectl.popen("-n", self.namespace, "logs", "-f", self.node)
        self.addCleanup(harness.end_process, logs)
        for line in lines:
            self.assertEqual(line, logs.stdout.readline())
            shown.release()
        _, err = logs.communicate(timeout=20)
        self.assertEqual((0, ""), (logs.returncode, err))
        self.assertIn("follow=true", self.requests[-1].target)

    def tunnel(self, verb, method, headers):
        """Opens one and returns it with the kubelet's end."""
        ends = []
        opened = threading.Event()
        done = threading.Event()
        self.addCleanup(done.set)

        def accept(peer, request):
            agreed = [("Connection", "Upgrade"), ("Upgrade", request.get("Upgrade"))]
            agreed += [("X-Stream-Protocol-Version", "v4.channel.k8s.io")]
            peer.send_response_head(101, agreed)
            ends.append(peer)
            opened.set()
            done.wait(60)
            return "tunnel"

        self.script = accept
        connection = self.proxy_process.connect()
        self.addCleanup(connection.close)
        target = f"{self.pod}/{verb}?container=c&command=cat&stdin=true&stdout=true&ports=80"
        connection.send_head(method, target, headers)
        head = connection.read_head()
        self.assertEqual(101, head.status, head.headers)
        self.assertEqual(dict(headers)["Upgrade"], head.get("Upgrade"))
        self.assertEqual("Upgrade", head.get("Connection"))
        self.assertEqual("v4.channel.k8s.io", head.get("X-Stream-Protocol-Version"))
        self.assertTrue(opened.wait(20))
        return connection, ends[0], done

    def test_tunnels_carry_every_byte_both_ways(self):
        for verb, method, headers in (
            ("exec", "POST", SPDY),
            ("attach", "POST", SPDY),
            ("portforward", "POST", SPDY),
            ("exec", "GET", WEB_SOCKET),
        ):
            connection, kubelet, done = self.tunnel(verb, method, headers)
            up, down = os.urandom(3 * MEBIBYTE), os.urandom(5 * MEBIBYTE)
            senders = [send_in_pieces(connection, up), send_in_pieces(kubelet, down)]
            received = []
            reader = threading.Thread(
                target=lambda to, end: to.append(read_exactly(end, len(up))), daemon=True,
                args=(received, kubelet),
            )  # fmt: skip
            reader.start()
            self.assertEqual(down, read_exactly(connection, len(down)), verb)
            reader.join(20)
            self.assertEqual([up], received, verb)
            for sender in senders:
                sender.join(20)
            done.set()
            self.assertTrue(connection.closed_by_peer(), "the kubelet's end is passed on")
            connection.close()
        self.assertEqual(
            {"exec", "attach", "portForward"},
            {request.target.split("/")[1] for request in self.requests},
        )

    def test_a_client_that_leaves_ends_the_tunnel(self):
        connection, kubelet, _ = self.tunnel("exec", "POST", SPDY)
        connection.send(b"some bytes")
        self.assertEqual(b"some bytes", read_exactly(kubelet, 10))
        self.assertEqual(1, self.proxy_process.metrics()["cmesh_proxy_open_tunnels"])
        connection.close()
        self.assertFalse(kubelet.fill())
        harness.wait_for(
            lambda: self.proxy_process.metrics()["cmesh_proxy_open_tunnels"] == 0, "it is closed"
        )

    def test_refused_upgrades_are_the_same(self):
        self.script = lambda peer, _: peer.respond(403, b"not you", "text/plain")
        for target in (
            f"{self.pods}/missing/exec?command=true&stdout=true",
            f"{self.pod}/exec?command=true",
            f"{self.pod}/exec?container=missing&command=true&stdout=true",
            f"{self.pod}/exec?container=c&command=true&stdout=true",
        ):
            direct = self.cluster.fetch(target, "POST", SPDY)
            proxied = self.proxy_process.fetch(target, "POST", SPDY)
            self.assertGreaterEqual(direct.status, 400, target)
            self.assertEqual((direct.status, direct.body), (proxied.status, proxied.body), target)
            self.assertEqual(direct.get("Content-Type"), proxied.get("Content-Type"), target)


class ScriptedTunnelTest(harness.TestCase):
    """What an API server could do with an upgrade."""

    TARGET = "/api/v1/namespaces/n/pods/p/exec?command=cat&stdin=true"

    def both(self, serve):
        """A proxy before a plain and one before a TLS server, with that script."""
        for make in (self.plain_upstream, self.tls_upstream):
            _, kubeconfig = make(serve)
            yield self.scripted_proxy([], kubeconfig)

    def opened(self, proxy, extra=b""):
        connection = proxy.connect()
        self.addCleanup(connection.close)
        lines = [f"POST {self.TARGET} HTTP/1.1", "Host: localhost"] + [f"{k}: {v}" for k, v in SPDY]
        connection.send("\r\n".join(lines + ["", ""]).encode() + extra)
        self.assertEqual(101, connection.read_head().status)
        return connection

    @staticmethod
    def agree(peer):
        request = peer.read_request()
        peer.send_response_head(101, [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")])
        return request

    def test_half_close_by_the_client(self):
        """`kubectl exec -i` with a file as input: the answer comes after the input ended."""
        down = os.urandom(4 * MEBIBYTE)

        def serve(peer):
            self.agree(peer)
            heard = peer.wait_closed()
            peer.send(b"%d bytes;" % len(heard))
            peer.send(heard[-20:])
            peer.send(down)

        up = os.urandom(2 * MEBIBYTE)
        expected = b"%d bytes;" % len(up) + up[-20:] + down
        for proxy in self.both(serve):
            with self.opened(proxy) as connection:
                shutdown = lambda c=connection: c.sock.shutdown(socket.SHUT_WR)
                send_in_pieces(connection, up, shutdown)
                self.assertEqual(expected, read_exactly(connection, len(expected)))
                self.assertTrue(connection.closed_by_peer())

    def test_half_close_by_the_server(self):
        heard = []

        def serve(peer):
            self.agree(peer)
            peer.send(b"that is all from here")
            peer.half_close()
            heard.append(peer.wait_closed())

        for proxy in self.both(serve):
            with self.opened(proxy) as connection:
                self.assertEqual(b"that is all from here", read_exactly(connection, 100))
                connection.send(b"still " * 100000)
                connection.send(b"talking")
                connection.sock.shutdown(socket.SHUT_WR)
                harness.wait_for(lambda: heard, "the server saw the end")
                self.assertEqual(b"still " * 100000 + b"talking", heard.pop())

    def test_bytes_sent_along_with_the_heads(self):
        """Either side may speak at once, in the very packet of its head."""

        def serve(peer):
            peer.read_request()
            head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
            peer.send(head + b"Upgrade: SPDY/3.1\r\n\r\nfirst words")
            peer.send(b"<" + read_exactly(peer, 5) + b">")

        for proxy in self.both(serve):
            with self.opened(proxy, extra=b"hasty") as connection:
                self.assertEqual(b"first words<hasty>", read_exactly(connection, 18))

    def test_refusals_pass_unchanged(self):
        body = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no exec for you"}\n'
        headers = [("X-Why", "because"), ("Audit-Id", "1-2-3")]

        def serve(peer):
            while peer.read_request() is not None:
                peer.respond(403, body, headers=headers)

        for proxy in self.both(serve):
            with proxy.connect() as connection:
                for _ in range(3):
                    answer = connection.request("POST", self.TARGET, SPDY)
                    self.assertEqual((403, body), (answer.status, answer.body))
                    self.assertEqual("because", answer.get("X-Why"))

    def test_an_upgrade_that_nobody_asked_for_is_refused(self):
        def serve(peer):
            self.agree(peer)
            peer.wait_closed()

        for proxy in self.both(serve):
            answer = proxy.fetch(self.TARGET, "POST")
            self.assert_status_error(answer, 502)

    def test_headers_of_the_upgrade_arrive(self):
        seen = []

        def serve(peer):
            seen.append(self.agree(peer))

        for proxy in self.both(serve):
            with self.opened(proxy) as connection:
                self.assertTrue(connection.closed_by_peer())
            request = seen.pop()
            self.assertEqual(("POST", self.TARGET), (request.method, request.target))
            self.assertEqual("SPDY/3.1", request.get("Upgrade"))
            self.assertEqual("upgrade", request.get("Connection").lower())
            protocols = [v for k, v in request.headers if k == "X-Stream-Protocol-Version"]
            self.assertEqual(["v4.channel.k8s.io", "v3.channel.k8s.io"], protocols)

    def test_other_protocols_get_no_tunnel(self):
        """Whoever speaks HTTP/2 through a tunnel would go round the rules."""
        seen = []

        def serve(peer):
            seen.append(peer.read_request())
            peer.respond(200, headers=[("Connection", "close")])

        for proxy in self.both(serve):
            for protocol in ("h2c", "TLS/1.2", "h2c, websocket"):
                headers = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", protocol),
                           ("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA")]
                self.assertEqual(200, proxy.fetch(self.TARGET, "POST", headers).status)
                request = seen.pop()
                for name in ("Upgrade", "Connection", "HTTP2-Settings"):
                    self.assertIsNone(request.get(name), name)

    def test_a_server_that_dies_ends_the_tunnel(self):
        def serve(peer):
            self.agree(peer)
            peer.send(b"x")
            read_exactly(peer, 1)
            peer.reset()

        for proxy in self.both(serve):
            with self.opened(proxy) as connection:
                self.assertEqual(b"x", read_exactly(connection, 1))
                connection.send(b"y")
                self.assertTrue(connection.closed_by_peer())
                harness.wait_for(
                    lambda p=proxy: p.metrics()["cmesh_proxy_open_tunnels"] == 0, "it is closed"
                )


if __name__ == "__main__":
    harness.main()
