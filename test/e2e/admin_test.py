# SPDX-License-Identifier: Apache-2.0
"""/healthz, /readyz, /metrics and /status: right, parsable, and without a secret."""

import base64
import json
import os
import re
import threading

import harness
import upstream
import wire

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (-?[0-9.eE+-]+|NaN|[+-]Inf)")
POD_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}\n'


class Metrics:
    """The Prometheus text format, version 0.0.4, read strictly.

    Each name has one HELP and one TYPE before its samples, which stand together; no sample comes
    twice; histograms are cumulative and agree with their count.
    """

    def __init__(self, text):
        self.types = {}
        self.samples = {}
        self.helps = set()
        closed = set()
        current = None
        if not text.endswith("\n"):
            raise ValueError("the last line has no end")
        for line in text[:-1].split("\n"):
            if line.startswith("# HELP "):
                current = line.split(" ")[2]
                self.once(current not in self.helps, line)
                self.helps.add(current)
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.once(name == current and name not in self.types, line)
                self.once(kind in ("counter", "gauge", "histogram"), line)
                self.types[name] = kind
            else:
                self.read_sample(line, current, closed)
        for name, kind in self.types.items():
            if kind == "histogram":
                self.check_histogram(name)

    @staticmethod
    def once(right, line):
        if not right:
            raise ValueError(line)

    def read_sample(self, line, current, closed):
        match = SAMPLE.fullmatch(line)
        self.once(match is not None, line)
        name, labels, value = match.groups()
        base = name
        if self.types.get(current) == "histogram":
            base = re.sub(r"_(bucket|sum|count)$", "", name)
        self.once(base == current and base in self.types and base not in closed, line)
        key = (name, tuple(sorted(re.findall(LABEL, labels or ""))))
        self.once(key not in self.samples, line)
        self.samples[key] = float(value)
        if self.types[base] == "counter":
            self.once(name.endswith("_total") and float(value) >= 0, line)

    def check_histogram(self, name):
        buckets = [
            (float(re.search(r'le="([^"]*)"', ",".join(labels))[1]), value)
            for (sample, labels), value in self.samples.items()
            if sample == name + "_bucket"
        ]
        self.once(buckets == sorted(buckets), name)
        self.once([v for _, v in buckets] == sorted(v for _, v in buckets), name)
        self.once(buckets[-1][0] == float("inf"), name)
        self.once(buckets[-1][1] == self.samples[name + "_count", ()], name)

    def __getitem__(self, name):
        match = SAMPLE.fullmatch(name + " 0")
        return self.samples[match[1], tuple(sorted(re.findall(LABEL, match[2] or "")))]


class AdminTestCase(harness.TestCase):
    """A scripted API server that answers any list, and watches until it is told to stop."""

    def setUp(self):
        super().setUp()
        self.stop = threading.Event()
        self.addCleanup(self.stop.set)
        self.server, self.kubeconfig = self.tls_upstream(upstream.always(self.answer))

    def answer(self, peer, request):
        if "watch=true" in request.target:
            peer.begin_watch()
            self.stop.wait(30)
            peer.end_chunks()
        elif "missing" in request.target:
            peer.respond(404)
        else:
            peer.respond(200, POD_LIST)

    def start(self, *args, rules=True):
        limits = [harness.limit(["pods"], "app=foo")]
        return self.scripted_proxy(limits if rules else None, self.kubeconfig, args)


class PagesTest(AdminTestCase):
    """Each page by itself."""

    def test_health(self):
        proxy = self.start()
        for page in ("/healthz", "/readyz", "/healthz?verbose", "/readyz?x=y"):
            answer = proxy.ask_admin(page)
            self.assertEqual((200, b"ok\n"), (answer.status, answer.body))
            self.assertTrue(answer.get("Content-Type").startswith("text/plain"))

    def test_methods_and_paths(self):
        proxy = self.start()
        for page in ("/healthz", "/readyz", "/metrics", "/status"):
            head = proxy.ask_admin(page, "HEAD")
            self.assertEqual((200, b""), (head.status, head.body))
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
                self.assertEqual(405, proxy.ask_admin(page, method).status)
        for page in ("/", "/healthz/", "/metricsx", "/debug/pprof", "/api/v1/pods", "/%6detrics"):
            answer = proxy.ask_admin(page)
            self.assertEqual(404, answer.status, page)
            self.assertIn(b"/status", answer.body)

    def test_status(self):
        proxy = self.start()
        status = proxy.status()
        self.assertEqual("localproxy", status["program"])
        self.assertTrue(status["ready"])
        self.assertEqual(proxy.listen, status["listen"])
        self.assertEqual(self.server.url, status["upstream"]["server"])
        self.assertTrue(status["upstream"]["credentials"])
        self.assertEqual(0, status["openWatches"])
        self.assertGreaterEqual(status["uptimeSeconds"], 0)
        with proxy.connect() as watch:
            watch.send_head("GET", "/api/v1/pods?watch=true")
            watch.read_head()
            status = proxy.status()
            self.assertEqual((1, 1), (status["openWatches"], status["requestsInFlight"]))
            self.assertEqual(1, status["upstream"]["connections"])

    def test_the_operators_side_serves_none_of_it(self):
        proxy = self.start()
        for page in ("/metrics", "/status", "/readyz"):
            self.assertEqual(POD_LIST, proxy.fetch(page).body)

    def test_connections_are_bounded(self):
        proxy = self.start()
        held = [wire.Connection(proxy.admin) for _ in range(64)]
        try:
            with wire.Connection(proxy.admin) as one_more:
                self.assertEqual(200, one_more.request("GET", "/healthz").status)
            self.assertTrue(held[0].closed_by_peer(), "it was idle longest")
        finally:
            for connection in held:
                connection.close()
        harness.wait_for(lambda: self.answers(proxy), "it serves again")

    @staticmethod
    def answers(proxy):
        try:
            return proxy.ask_admin("/healthz").status == 200
        except (wire.Cut, OSError):
            return False


class MetricsTest(AdminTestCase):
    """What is counted."""

    @staticmethod
    def read(proxy):
        answer = proxy.ask_admin("/metrics")
        if answer.get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8":
            raise AssertionError(answer)
        return Metrics(answer.body.decode())

    def test_format_and_figures(self):
        proxy = self.start()
        before = self.read(proxy)
        self.assertEqual(1, before["cmesh_proxy_ready"])
        self.assertEqual(0, before["cmesh_proxy_limited_requests_total"])
        with proxy.connect() as connection:
            for _ in range(5):
                connection.request("GET", "/api/v1/pods")
            connection.request("GET", "/api/v1/services")
            connection.request("GET", "/api/v1/namespaces/n/pods/missing")
            connection.request("POST", "/api/v1/namespaces/n/pods", body=b"{}")
            connection.request("GET", "/version")
        with proxy.connect() as rude:
            rude.send(b"garbage\r\n\r\n")
            rude.response()
        with proxy.connect() as watch:
            watch.send_head("GET", "/api/v1/pods?watch=true")
            watch.read_head()
            during = self.read(proxy)
        self.assertEqual(1, during["cmesh_proxy_open_watches"])
        harness.wait_for(lambda: self.read(proxy)["cmesh_proxy_open_watches"] == 0, "it is closed")
        after = self.read(proxy)
        for name, expected in (
            ('cmesh_proxy_requests_total{verb="list",code="200"}', 6),
            ('cmesh_proxy_requests_total{verb="get",code="404"}', 1),
            ('cmesh_proxy_requests_total{verb="create",code="200"}', 1),
            ('cmesh_proxy_requests_total{verb="watch",code="200"}', 1),
            ("cmesh_proxy_limited_requests_total", 6),
            ("cmesh_proxy_refused_requests_total", 1),
            ("cmesh_proxy_request_duration_seconds_count", 9),
            ("cmesh_proxy_upstream_requests_total", 10),
            ("cmesh_proxy_upstream_errors_total", 0),
            ("cmesh_proxy_rules_generation", 1),
            ("cmesh_proxy_rules_limits", 1),
            ("cmesh_proxy_client_connections_total", 3),
            ("cmesh_proxy_client_connections", 0),
            ("cmesh_proxy_open_tunnels", 0),
        ):
            self.assertEqual(expected, after[name], name)
        self.assertEqual(8 * len(POD_LIST) + 3, after["cmesh_proxy_response_bytes_total"])
        self.assertGreater(after["process_resident_memory_bytes"], 1 << 20)
        for key, kind in before.types.items():
            if kind == "counter":
                for sample, value in before.samples.items():
                    if sample[0] == key:
                        self.assertGreaterEqual(after.samples[sample], value)

    def test_many_codes_and_verbs_stay_well_formed(self):
        """More combinations than there is room for are gathered, not lost."""
        codes = iter(range(200, 600))

        def serve(peer, _):
            code = next(codes)
            body = b"" if code in (204, 304) else b"x"
            peer.respond(code, body)

        _, kubeconfig = self.plain_upstream(upstream.always(serve))
        proxy = self.scripted_proxy([], kubeconfig)
        for _ in range(100):
            proxy.fetch("/api/v1/pods")
        metrics = self.read(proxy)
        total = sum(
            value
            for (name, _), value in metrics.samples.items()
            if name == "cmesh_proxy_requests_total"
        )
        self.assertEqual(100, total)

    def test_without_rules(self):
        metrics = self.read(self.start(rules=False))
        self.assertEqual(0, metrics["cmesh_proxy_rules_generation"])
        self.assertEqual(1, metrics["cmesh_proxy_ready"])

    def test_names_of_shards_cannot_break_the_format(self):
        for name in ("a", "shard-with-a-long-name-0123456789"):
            document = harness.rules_document(shard=name)
            metrics = self.read(self.scripted_proxy(document, self.kubeconfig))
            checksum = next(
                labels for (sample, labels) in metrics.samples if sample == "cmesh_proxy_rules_info"
            )
            self.assertIn(f'shard="{name}"', checksum)


class SecretsTest(harness.TestCase):
    """No credential in a log line, a metric, a status or an error, not at debug level either."""

    MARK = "marked-secret"

    def assert_clean(self, *texts):
        encoded = base64.b64encode(self.MARK.encode()).decode()[:12]
        for text in texts:
            for mark in (self.MARK, encoded, "PRIVATE KEY"):
                self.assertNotIn(mark, text)

    def texts(self, proxy):
        pages = [proxy.ask_admin(page) for page in ("/status", "/metrics", "/readyz", "/nothing")]
        return [page.body.decode() for page in pages] + [proxy.log()]

    def use(self, proxy):
        """Requests of all kinds that hold secrets of the operator's."""
        bodies = []
        headers = [
            ("Authorization", f"Bearer {self.MARK}-1"),
            ("Cookie", f"session={self.MARK}-2"),
            ("Impersonate-User", "somebody"),
            ("X-Token", f"{self.MARK}-3"),
        ]
        for target in ("/api/v1/pods", "/api/v1/secrets?watch=true", "/version", "/api//v1/pods"):
            bodies.append(proxy.fetch(target, headers=headers).body.decode())
        secret = json.dumps({"data": {"password": self.MARK}}).encode()
        bodies.append(
            proxy.fetch("/api/v1/namespaces/n/secrets", "POST", headers, secret).body.decode()
        )
        with proxy.connect() as rude:
            rude.send(f"GET / HTTP/1.1\r\nAuthorization: Bearer {self.MARK}\x00\r\n\r\n".encode())
            bodies.append(rude.response().body.decode())
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), *headers]
        target = "/api/v1/namespaces/n/pods/p/exec"
        bodies.append(proxy.fetch(target, "POST", upgrade).body.decode())
        return bodies

    def kubeconfigs(self, server, authority):
        """With secrets in every way of giving them."""
        certificate, key = authority.client("client")
        token_file = self.path("token-file", f"{self.MARK}-5\n")
        helper = self.path(
            "helper",
            "#!/bin/sh\n"
            "echo 'what it says to people' >&2\n"
            'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
            f'"status":{{"token":"{self.MARK}-7"}}}}\'\n',
        )
        os.chmod(helper, 0o700)
        plugin = "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n"
        plugin += f"      command: {helper}\n      interactiveMode: Never\n"
        plugin += f"      env: [{{name: SECRET, value: {self.MARK}-8}}]\n"
        for number, user in enumerate((
            f"    token: {self.MARK}-9\n",
            f"    tokenFile: {token_file}\n",
            f"    username: admin\n    password: {self.MARK}-10\n",
            f"    client-certificate: {certificate}\n    client-key: {key}\n",
            plugin,
        )):  # fmt: skip
            yield upstream.write_kubeconfig(
                self.path(f"kubeconfig-{number}"), server,
                authority=authority.certificate, extra_user=user,
            )  # fmt: skip

    def test_when_all_is_well(self):
        sent = []

        def answer(peer, request):
            sent.append(request.get("Authorization"))
            peer.respond(200, POD_LIST)

        server, _ = self.tls_upstream(upstream.always(answer))
        guard = self.path("guard", f"{self.MARK}-1\n")
        for kubeconfig in self.kubeconfigs(server.url, self.authority()):
            args = ["--log-level=debug", "--token-file", guard]
            proxy = self.scripted_proxy([harness.limit(["pods"], "app=foo")], kubeconfig, args)
            harness.wait_for(lambda p=proxy: p.status()["ready"], f"{kubeconfig} {proxy.log()}")
            bodies = self.use(proxy)
            proxy.stop()
            self.assert_clean(*bodies, proxy.log())
        self.assertTrue(any(self.MARK + "-9" in (value or "") for value in sent))
        self.assertTrue(any(self.MARK + "-7" in (value or "") for value in sent))

    def test_when_all_goes_wrong(self):
        def answer(peer, request):
            if "secrets" in request.target:
                peer.send(f"HTTP/9.9 {self.MARK}\r\nX: {self.MARK}\r\n\r\n".encode())
            else:
                peer.respond(401, b'{"kind":"Status","code":401}')

        server, _ = self.tls_upstream(upstream.always(answer))
        other = self.authority("other")
        for authority in (self.authority(), other):
            for kubeconfig in self.kubeconfigs(server.url, authority):
                args = ["--log-level=debug", "--log-format=json"]
                proxy = self.scripted_proxy([], kubeconfig, args)
                harness.wait_for(lambda p=proxy: p.status()["upstream"]["credentials"], "they came")
                bodies = self.use(proxy)
                self.assert_clean(*bodies, *self.texts(proxy))

    def test_a_plugin_that_fails(self):
        helper = self.path("helper", f"#!/bin/sh\necho '{self.MARK}'\nexit 3\n")
        os.chmod(helper, 0o700)
        user = "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n"
        user += f"      command: {helper}\n      interactiveMode: Never\n"
        path = upstream.write_kubeconfig(
            self.path("kubeconfig"), "http://127.0.0.1:1", extra_user=user
        )
        proxy = self.scripted_proxy([], path, ["--log-level=debug"])
        harness.wait_for(lambda: "credentialsError" in proxy.status()["upstream"], "it failed")
        answer = proxy.fetch("/api/v1/pods")
        self.assert_status_error(answer, 503, "ServiceUnavailable", [helper])
        self.assertEqual(503, proxy.ask_admin("/readyz").status)
        self.assert_clean(answer.body.decode(), *self.texts(proxy))


if __name__ == "__main__":
    harness.main()
