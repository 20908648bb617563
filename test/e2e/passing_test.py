# SPDX-License-Identifier: Apache-2.0
"""What the API server sees of a request, and a client of an answer, to the byte: a scripted server
shows and does what the real one would not."""

import os

import harness
import upstream


class PassingTest(harness.TestCase):
    """What a server sees of requests, to the byte."""

    def setUp(self):
        super().setUp()
        self.seen = []
        self.answer_headers = []

        def answer(peer, request):
            self.seen.append(request)
            peer.respond(200, headers=self.answer_headers)

        self.server, self.kubeconfig = self.plain_upstream(upstream.always(answer))
        limits = [harness.limit(["pods"], "app in (foo, bar),tier!=x")]
        self.proxy_process = self.scripted_proxy(limits, self.kubeconfig)

    INJECTED = "app%20in%20%28bar%2Cfoo%29%2Ctier%21%3Dx"

    def targets_of(self, target):
        self.seen.clear()
        self.assertEqual(200, self.proxy_process.fetch(target).status, target)
        return self.seen[0].target

    def test_unlimited_targets_pass_as_they_are(self):
        for target in (
            "/",
            "/version?",
            "/api/v1/services?a=b&a=b&&=&%61=%62;c",
            "/api/v1/services?labelSelector=x;y&labelSelector=%zz",
            "/api/v1/namespaces/n/pods/p?labelSelector=x",
            "/api/v1/n%C3%A4mespaces",
            "/api/v1/namespaces/n/services/s:80/proxy/a//b/c?x=%2F%20+y",
            "/healthz/%2F/~!$&'()*+,;=:@",
            "/?" + "q" * 30000,
        ):
            self.assertEqual(target, self.targets_of(target))

    def test_injection_changes_nothing_else(self):
        ours = self.INJECTED
        for target, expected in (
            ("/api/v1/pods", f"/api/v1/pods?labelSelector={ours}"),
            ("/api/v1/pods?", f"/api/v1/pods?labelSelector={ours}"),
            ("/api/v1/pods?b=2&a=1", f"/api/v1/pods?b=2&a=1&labelSelector={ours}"),
            ("/api/v1/pods?labelSelector=x&b=2", f"/api/v1/pods?labelSelector={ours}%2Cx&b=2"),
            ("/api/v1/pods?labelSelector=%78+%2C&b",
             f"/api/v1/pods?labelSelector={ours}%2C%78+%2C&b"),
            ("/api/v1/pods?limit=500&resourceVersion=0",
             f"/api/v1/pods?limit=500&resourceVersion=0&labelSelector={ours}"),
            ("/api/v1/%70ods?watch=1", f"/api/v1/%70ods?watch=1&labelSelector={ours}"),
            ("/api/v1/watch/pods?x=%zz&y=%2B",
             f"/api/v1/watch/pods?x=%zz&y=%2B&labelSelector={ours}"),
        ):  # fmt: skip
            self.assertEqual(expected, self.targets_of(target))

    def test_headers(self):
        headers = [
            ("Host", "operator.localhost:5443"),
            ("User-Agent", "manager/v0.0.0 (linux/amd64) kubernetes/$Format"),
            ("accept", "application/json, */*"),
            ("X-Empty", ""),
            ("X-Twice", "one"),
            ("x-twice", "two, three"),
            ("X-Odd", 'quote " \\ tab\tend'),
            ("X-Umlaut", "gr\xf6\xdfer"),
            ("Accept-Encoding", "gzip"),
            ("Impersonate-User", "somebody"),
            ("Authorization", "Bearer the-operators-own"),
            ("Connection", "keep-alive, X-Hop"),
            ("Keep-Alive", "timeout=5"),
            ("X-Hop", "for this hop only"),
            ("TE", "trailers"),
            ("Proxy-Authorization", "Basic x"),
            ("Proxy-Connection", "keep-alive"),
            ("Upgrade", "h2c"),
            ("Cookie", "a=b"),
        ]
        self.proxy_process.fetch("/api/v1/services", headers=headers)
        seen = [(k, v) for k, v in self.seen[0].headers if k.lower() != "host"]
        kept = {"User-Agent", "accept", "X-Empty", "X-Twice", "x-twice", "X-Odd", "X-Umlaut"}
        kept |= {"Accept-Encoding", "Impersonate-User", "Cookie"}
        expected = [(k, v) for k, v in headers if k in kept] + [("Via", "1.1 cmesh")]
        self.assertEqual(expected, seen)
        hosts = [v for k, v in self.seen[0].headers if k.lower() == "host"]
        self.assertEqual([self.server.url.removeprefix("http://")], hosts)

    def agents(self, proxy, *own):
        """What the server is told of a client that has these lines."""
        self.seen.clear()
        headers = [("User-Agent", name) for name in own]
        proxy.fetch("/api/v1/pods", headers=[*headers, ("X-Own", "1")])
        self.assertEqual("1", self.seen[0].get("X-Own"))
        return [v for k, v in self.seen[0].headers if k.lower() == "user-agent"]

    def test_user_agent(self):
        limits = [harness.limit(["pods"], "a=b")]
        for text, own, expected in (
            ("shard-a/", ["manager/v1 (linux)"], ["shard-a/manager/v1 (linux)"]),
            ("shard-a/", [], ["shard-a"]),
            ("shard-a/", ["one", "two"], ["shard-a/one"]),
            ("shard-a/", ["x" * 9000], ["shard-a"]),
            ("the shard/1", ["manager/v1"], ["the shard/1"]),
            ("the shard/1", [], ["the shard/1"]),
            ("", ["manager/v1"], ["manager/v1"]),
            ("", [], []),
        ):
            with self.subTest(text=text, own=own):
                args = ["--user-agent=" + text]
                proxy = self.scripted_proxy(limits, self.kubeconfig, args)
                self.assertEqual(expected, self.agents(proxy, *own))
                proxy.stop()

    def test_answer_headers(self):
        self.answer_headers = [
            ("Warning", '299 - "one"'),
            ("Warning", '299 - "two"'),
            ("X-Empty", ""),
            ("ETag", '"x"'),
            ("Set-Cookie", "a=b; c"),
            ("Location", "https://elsewhere.example/"),
            ("Keep-Alive", "timeout=5"),
            ("Connection", "X-Hop"),
            ("X-Hop", "y"),
            ("X-Umlaut", "gr\xf6\xdfer"),
        ]
        answer = self.proxy_process.fetch("/api/v1/services")
        names = {"Keep-Alive", "Connection", "X-Hop"}
        expected = [(k, v) for k, v in self.answer_headers if k not in names]
        actual = [(k, v) for k, v in answer.head.headers if not k.startswith("Content-")]
        self.assertEqual(expected, actual)

    def test_bodies_arrive_with_their_framing(self):
        body = os.urandom(100000)
        for chunked in (False, True):
            self.seen.clear()
            self.proxy_process.fetch("/api/v1/pods", "POST", [], body, chunked=chunked)
            self.assertEqual(body, self.seen[0].body)
            self.assertEqual(chunked, self.seen[0].get("Transfer-Encoding") == "chunked")
            self.assertEqual(None if chunked else "100000", self.seen[0].get("Content-Length"))
        self.seen.clear()
        self.proxy_process.fetch("/api/v1/pods", "POST", [], b"")
        self.assertEqual("0", self.seen[0].get("Content-Length"))
        self.proxy_process.fetch("/api/v1/pods")
        self.assertIsNone(self.seen[1].get("Content-Length"))

    def test_path_prefix_of_the_server(self):
        """`server: https://host/prefix`, as gateways have it."""
        path = upstream.write_kubeconfig(self.path("prefixed"), self.server.url + "/k8s/c-1/")
        proxy = self.scripted_proxy([harness.limit(["pods"], "a=b")], path)
        self.seen.clear()
        proxy.fetch("/api/v1/pods?x=y")
        self.assertEqual("/k8s/c-1/api/v1/pods?x=y&labelSelector=a%3Db", self.seen[0].target)

    def test_status_codes(self):
        codes = [200, 201, 202, 203, 206, 299, 300, 301, 302, 307, 400, 401, 404, 409, 410, 418]
        codes += [422, 429, 499, 500, 502, 503, 504, 599]

        def serve(peer, request):
            if request.target == "/version":  # whether localproxy is known, after 401
                peer.respond(200)
                return
            code = int(request.target.rpartition("/")[2])
            peer.respond(code, b"the body of %d" % code, headers=[("Retry-After", "7")])

        _, kubeconfig = self.plain_upstream(upstream.always(serve))
        proxy = self.scripted_proxy([], kubeconfig)
        with proxy.connect() as connection:
            for code in codes:
                answer = connection.request("GET", f"/x/{code}")
                self.assertEqual(code, answer.status)
                self.assertEqual("Scripted", answer.head.reason)
                self.assertEqual(b"the body of %d" % code, answer.body)
                self.assertEqual("7", answer.get("Retry-After"))

    def test_answers_without_a_body(self):
        def serve(peer):
            while (request := peer.read_request()) is not None:
                code = int(request.target.rpartition("/")[2])
                peer.send_response_head(code, [("X-A", "b")])

        _, kubeconfig = self.plain_upstream(serve)
        with self.scripted_proxy([], kubeconfig).connect() as connection:
            for code in (204, 304, 204):
                answer = connection.request("GET", f"/x/{code}")
                self.assertEqual((code, b"", "b"), (answer.status, answer.body, answer.get("X-A")))
                self.assertIsNone(answer.get("Transfer-Encoding"))

    def test_interim_answers_are_not_passed_on(self):
        def serve(peer):
            while peer.read_request() is not None:
                peer.send(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
                peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                peer.respond(200)

        _, kubeconfig = self.plain_upstream(serve)
        with self.scripted_proxy([], kubeconfig).connect() as connection:
            for _ in range(3):
                answer = connection.request("POST", "/api/v1/pods", [], b"x")
                self.assertEqual((200, []), (answer.status, answer.interim))


if __name__ == "__main__":
    harness.main()
