# SPDX-License-Identifier: Apache-2.0
"""Bodies pass as they come: at once, in bounded memory, and an end is told from a cut."""

import hashlib
import os
import random
import statistics
import threading
import time

import harness
import objects
import upstream
import wire

MEBIBYTE = 1 << 20
LIST_SIZE = 200 * MEBIBYTE
MEMORY_KIB = 14 * 1024  # the window of a stream that is read grows to 4 MiB
POD_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}\n'


def sanitized():
    return harness.is_sanitized(harness.program("localproxy"))


class StreamTestCase(harness.TestCase):
    """A proxy before a scripted server over TLS, as in a cluster."""

    def start(self, serve):
        self.server, kubeconfig = self.tls_upstream(serve)
        return self.scripted_proxy([harness.limit(["pods"], "app=foo")], kubeconfig)

    def open(self, proxy, target="/api/v1/pods?watch=true", **more):
        connection = proxy.connect(**more)
        self.addCleanup(connection.close)
        connection.send_head("GET", target)
        return connection


class MemoryTest(StreamTestCase):
    """However much passes, and however slowly it is taken."""

    def assert_little_memory(self, proxy):
        used = proxy.memory_kib()
        if not sanitized():
            self.assertLess(used, MEMORY_KIB)

    def test_a_large_list_and_a_slow_reader(self):
        block = random.Random(1).randbytes(MEBIBYTE)
        expected = hashlib.sha256()
        for _ in range(LIST_SIZE // MEBIBYTE):
            expected.update(block)

        def serve(peer):
            while peer.read_request() is not None:
                peer.begin_watch()
                for _ in range(LIST_SIZE // MEBIBYTE):
                    peer.send_chunk(block)
                peer.end_chunks()

        proxy = self.start(serve)
        connection = self.open(proxy, "/api/v1/pods", receive_buffer=65536)
        connection.read_head()
        got = hashlib.sha256()
        size = pause_at = 0
        while data := connection.read_some():
            got.update(data)
            size += len(data)
            if size > pause_at:
                time.sleep(0.02)
                pause_at += 2 * MEBIBYTE
        self.assertEqual(LIST_SIZE, size)
        self.assertEqual(expected.hexdigest(), got.hexdigest())
        self.assert_little_memory(proxy)

    def test_a_large_upload_and_a_slow_server(self):
        received = []

        def serve(peer):
            peer.read_request_head()
            digest, size, pause_at = hashlib.sha256(), 0, 0
            while data := peer.read_some():
                digest.update(data)
                size += len(data)
                if size > pause_at:
                    time.sleep(0.02)
                    pause_at += MEBIBYTE
            received.append((size, digest.hexdigest()))
            peer.respond(201, headers=[("Connection", "close")])  # or the next might come with it

        proxy = self.start(serve)
        block = random.Random(2).randbytes(MEBIBYTE)
        for framing in ("length", "chunked"):
            digest = hashlib.sha256()
            with proxy.connect() as connection:
                headers = [("Content-Length", str(40 * MEBIBYTE))]
                if framing == "chunked":
                    headers = [("Transfer-Encoding", "chunked")]
                connection.send_head("POST", "/api/v1/namespaces/n/pods", headers)
                for _ in range(40):
                    digest.update(block)
                    (connection.send_chunk if framing == "chunked" else connection.send)(block)
                if framing == "chunked":
                    connection.send(b"0\r\n\r\n")
                self.assertEqual(201, connection.response("POST").status)
            self.assertEqual((40 * MEBIBYTE, digest.hexdigest()), received.pop())
        self.assert_little_memory(proxy)

    def test_a_reader_that_stops_stops_the_server(self):
        sent = []

        def serve(peer):
            peer.read_request()
            peer.begin_watch()
            peer.sock.sock.settimeout(1)
            try:
                for _ in range(200):
                    peer.send_chunk(b"x" * MEBIBYTE)
                    sent.append(MEBIBYTE)
            except TimeoutError:
                pass

        proxy = self.start(serve)
        connection = self.open(proxy, receive_buffer=65536)
        connection.read_head()
        harness.wait_for(lambda: len(self.server.finished) == 1, "the server could send no more")
        self.assertLess(sum(sent), 30 * MEBIBYTE)
        self.assert_little_memory(proxy)


class DelayTest(StreamTestCase):
    """What the server sent leaves at once; nothing waits for more."""

    def test_each_event_arrives_before_the_next_is_sent(self):
        lines = [b'{"type":"ADDED","object":{"n":%d}}\n' % i for i in range(40)]
        frames = [b"\0\0\0\x05\n\x03ADD" for _ in range(40)]
        for events, kind in ((lines, "application/json"), (frames, objects.PROTOBUF_WATCH)):
            taken = threading.Semaphore(0)
            sent_at = []

            def serve(peer, events=events, kind=kind, taken=taken, sent_at=sent_at):
                peer.read_request()
                peer.begin_watch(kind)
                for event in events:
                    sent_at.append(time.monotonic())
                    peer.send_chunk(event)
                    taken.acquire(timeout=20)
                peer.end_chunks()

            watch = self.open(self.start(serve))
            self.assertEqual(kind, watch.read_head().get("Content-Type"))
            delays = []
            for i, event in enumerate(events):
                self.assertEqual(event, watch.read_some())
                delays.append(time.monotonic() - sent_at[i])
                taken.release()
            self.assertEqual(b"", watch.read_some())
            self.assertLess(statistics.median(delays), 0.15)

    def test_the_head_of_a_watch_arrives_before_any_event(self):
        opened = threading.Event()

        def serve(peer):
            peer.read_request()
            peer.begin_watch()
            opened.wait(20)

        watch = self.open(self.start(serve))
        self.assertEqual(200, watch.read_head().status)
        opened.set()

    def test_an_event_leaves_when_it_is_complete(self):
        """Whole, and not together with the next: whatever the pieces in which it came."""
        taken = threading.Semaphore(0)
        event = b'{"type":"ADDED","object":{"n":1}}\n'

        def serve(peer):
            peer.read_request()
            peer.begin_watch()
            for size in (1, 5, len(event) - 1, len(event)):
                for at in range(0, len(event), size):
                    peer.send_chunk(event[at : at + size])
                taken.acquire(timeout=20)
            peer.end_chunks()

        watch = self.open(self.start(serve))
        watch.read_head()
        for _ in range(4):
            self.assertEqual(event, watch.read_some())
            taken.release()
        self.assertEqual(b"", watch.read_some())

    def test_any_answer_streams(self):
        """A log with a Content-Length or none, not only what Kubernetes calls a watch."""
        taken = threading.Semaphore(0)

        def serve(peer):
            while (request := peer.read_request()) is not None:
                headers = [("Content-Type", "text/plain")]
                if "length" in request.target:
                    headers.append(("Content-Length", "10"))
                peer.send_response_head(200, headers)
                for _ in range(10):
                    peer.send(b"x")
                    taken.acquire(timeout=20)
                if "length" not in request.target:
                    peer.half_close()
                    return

        proxy = self.start(serve)
        for target in ("/api/v1/namespaces/n/pods/p/log?length", "/logs/close"):
            connection = self.open(proxy, target)
            connection.read_head()
            for _ in range(10):
                self.assertEqual(b"x", connection.read_some())
                taken.release()
            self.assertEqual(b"", connection.read_some())

    def test_a_slow_reader_holds_up_nobody_else(self):
        def serve(peer):
            while (request := peer.read_request()) is not None:
                if "huge" in request.target:
                    peer.respond(200, b"x" * (64 * MEBIBYTE))
                else:
                    peer.respond(200, POD_LIST)

        proxy = self.start(serve)
        stuck = [self.open(proxy, "/api/v1/huge", receive_buffer=4096) for _ in range(10)]
        for connection in stuck:
            connection.read_head()
        with proxy.connect() as good:
            for _ in range(300):
                self.assertEqual(POD_LIST, good.request("GET", "/api/v1/pods").body)

    def test_many_watches_at_once(self):
        count = 200
        release = threading.Event()

        def serve(peer):
            peer.read_request()
            peer.begin_watch()
            release.wait(60)
            for i in range(20):
                peer.send_chunk(b'{"n":%d,"peer":%d}\n' % (i, peer.number))
            peer.end_chunks()

        proxy = self.start(serve)
        watches = [self.open(proxy) for _ in range(count)]
        for watch in watches:
            watch.read_head()
        self.assertEqual(count, proxy.status()["openWatches"])
        release.set()
        seen = set()
        for watch in watches:
            body, complete = watch.read_body()
            self.assertTrue(complete)
            self.assertEqual(20, body.count(b"\n"))
            number = body.partition(b'"peer":')[2].partition(b"}")[0]
            expected = b"".join(b'{"n":%d,"peer":%s}\n' % (i, number) for i in range(20))
            self.assertEqual(expected, body)
            seen.add(number)
        self.assertEqual(count, len(seen))
        harness.wait_for(lambda: proxy.status()["openWatches"] == 0, "they have ended")


class EndTest(StreamTestCase):
    """Ends and cuts, on either side."""

    def test_a_client_that_leaves_closes_the_servers_side(self):
        closed = threading.Semaphore(0)
        opened = threading.Semaphore(0)

        def serve(peer):
            peer.read_request()
            peer.begin_watch()
            opened.release()
            peer.wait_closed()
            closed.release()

        proxy = self.start(serve)
        for _ in range(5):
            watch = self.open(proxy)
            watch.read_head()
            self.assertTrue(opened.acquire(timeout=20))
            watch.close()
            self.assertTrue(closed.acquire(timeout=20), "the server learns of it")
        harness.wait_for(lambda: proxy.status()["openWatches"] == 0, "they are closed")

    def test_a_client_that_leaves_before_the_answer(self):
        arrived = threading.Event()
        closed = threading.Event()

        def serve(peer):
            peer.read_request()
            arrived.set()
            peer.wait_closed()
            closed.set()

        connection = self.open(self.start(serve), "/api/v1/pods")
        self.assertTrue(arrived.wait(20))
        connection.close()
        self.assertTrue(closed.wait(20))

    def test_a_cut_answer_is_cut_for_the_client(self):
        self.upstream_protocol = "http1"  # how its messages end
        event = b'{"type":"ADDED"}\n'
        chunked = [("Transfer-Encoding", "chunked"), ("Content-Type", "application/json")]
        length = [("Content-Length", "100")]
        unframed = [("Connection", "close")]
        cases = [
            ("no last chunk", chunked, b"11\r\n" + event + b"\r\n", event),
            ("within a chunk", chunked, b"ff\r\n" + event, event),
            ("within a chunk's size", chunked, b"11\r\n" + event + b"\r\n1", event),
            ("within the last chunk", chunked, b"11\r\n" + event + b"\r\n0\r\n", event),
            ("no chunk at all", chunked, b"", b""),
            ("a bad chunk", chunked, b"11\r\n" + event + b"\r\nxyz\r\n", event),
            ("less than its length", length, event, event),
            ("none of its length", length, b"", b""),
        ]

        def serve(peer):
            peer.read_request()
            _, headers, body, _ = current
            peer.send_response_head(200, headers)
            peer.send(body)
            if how == "orderly":
                peer.half_close()
            elif how == "reset":
                peer.wait_taken()
                peer.reset()
            # else: the connection is closed without close_notify

        for how in ("orderly", "abrupt", "reset"):
            proxy = self.start(serve)
            for current in cases + [("without close_notify", unframed, event, event)]:
                if how == "orderly" and current[1] is unframed:
                    continue  # that is a proper end
                with self.subTest(how=how, case=current[0]):
                    self.expect_cut(proxy, current, how != "reset")
            proxy.stop()

    def expect_cut(self, proxy, case, all_came):
        """Of a known length it ends by a reset, which may take along what came before, head and all."""
        _, headers, _, body = case
        watch = self.open(proxy)
        known_length = any(name == "Content-Length" for name, _ in headers)
        try:
            answer = watch.response()
            self.assertEqual((200, False), (answer.status, answer.complete))
            if all_came and not known_length:
                self.assertEqual(body, answer.body, "what came is passed on")
        except wire.Cut:
            self.assertTrue(known_length)
        watch.close()

    def test_proper_ends(self):
        self.upstream_protocol = "http1"  # how its messages end
        def serve(peer):
            while (request := peer.read_request()) is not None:
                if "close" in request.target:
                    peer.send_response_head(200, [("Content-Type", "text/plain")])
                    peer.send(b"until the end")
                    peer.half_close()
                    return
                if "chunked" in request.target:
                    peer.begin_watch()
                    peer.send(b"5;ext=1\r\nuntil\r\n008\r\n the end\r\n0\r\nTrailer: x\r\n\r\n")
                else:
                    peer.respond(200, b"until the end")

        proxy = self.start(serve)
        for target in ("/close", "/chunked", "/length"):
            for version in ("1.1", "1.0"):
                answer = proxy.fetch(target, version=version)
                self.assertEqual((200, True), (answer.status, answer.complete), target)
                self.assertEqual(b"until the end", answer.body)
                if version == "1.0":
                    self.assertIsNone(answer.get("Transfer-Encoding"))

    def test_an_answer_before_the_request_is_complete(self):
        """Too large, says the server, and reads no further."""
        self.upstream_protocol = "http1"  # how its messages end

        def serve(peer):
            peer.read_request_head()
            peer.respond(413, b'{"kind":"Status","code":413}\n', headers=[("Connection", "close")])
            peer.half_close()
            time.sleep(0.2)

        proxy = self.start(serve)
        with proxy.connect() as connection:
            connection.send_head("POST", "/api/v1/namespaces/n/pods", [("Content-Length", "99")])
            connection.send(b"x" * 50)
            answer = connection.response("POST")
            self.assertEqual((413, True), (answer.status, answer.complete))
            self.assertEqual(b'{"kind":"Status","code":413}\n', answer.body)
            self.assertTrue(connection.closed_by_peer())
        harness.wait_for(lambda: proxy.status()["requestsInFlight"] == 0, "it has ended")

    def test_bodies_of_every_shape_both_ways(self):
        """Echoed: sizes around all the buffers' limits, in chunks of any size."""
        pick = random.Random(3)

        def serve(peer):
            while (request := peer.read_request()) is not None:
                if pick.random() < 0.5:
                    peer.respond(200, request.body)
                    continue
                peer.begin_watch()
                at = 0
                while at < len(request.body):
                    size = pick.choice((1, 7, 100, 4096, 16384, 65536, 100000))
                    peer.send_chunk(request.body[at : at + size])
                    at += size
                peer.end_chunks()

        proxy = self.start(serve)
        sizes = [0, 1, 2, 100, 12287, 12288, 12289, 16383, 16384, 16385, 65535, 65536, 65537]
        sizes += [131071, 131072, 131073, 262144, 1000000, 3 * MEBIBYTE]
        with proxy.connect() as connection:
            for size in sizes:
                body = os.urandom(size)
                for chunked in (False, True):
                    method = pick.choice(("POST", "PUT", "PATCH"))
                    answer = connection.request(
                        method, "/api/v1/namespaces/n/pods/p", [], body, chunked=chunked
                    )
                    self.assertEqual((200, True), (answer.status, answer.complete))
                    self.assertEqual(body, answer.body, size)


if __name__ == "__main__":
    harness.main()
