#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests to other places than the API server go through localproxy: of programs as they are, over
TLS to real sockets; what may be reached, what policies allow, limit and break, to the byte."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import harness
import island
import upstream
import wire
from egress_case import (
    ADDRESS,
    ALWAYS,
    API_PORT,
    INSIDE,
    METADATA,
    ORIGIN,
    OTHER,
    PROGRAMS,
    CompanyProxy,
    Echo,
    EgressCase,
    Origin,
    basic_url,
    fault,
    guard,
    intercept,
    limiting,
    secrets,
)

ECHO = f"{ORIGIN}:7777"


class ProgramsTest(EgressCase):
    """Nothing but their environment, or of Java their system properties, tells them of localproxy."""

    def programs(self):
        missing = []
        for kind in PROGRAMS:
            if kind.missing():
                missing.append(kind.missing())
            else:
                yield kind.__name__, kind(self)
        if missing:
            self.skipTest("; ".join(missing))

    def test_each_reaches_a_tls_server(self):
        proxy = self.egress()
        count = 0
        for name, program in self.programs():
            count += 1
            with self.subTest(program=name):
                told = program.fetch(f"https://{ORIGIN}/of/{name}")
                self.assertEqual(200, told.get("status"), told)
                self.assertIn(f'"asked": "/of/{name}"', told["body"])
                self.assertEqual(count, proxy.metrics()["cmesh_proxy_egress_tunnels_total"])
        self.assertEqual(count, self.origin.accepted)

    def test_a_whitelist_of_another_host(self):
        """The tunnel is refused with 403, and nothing is dialled."""
        proxy = self.egress(policies=[guard(intercept("Whitelist", OTHER))])
        for name, program in self.programs():
            with self.subTest(program=name):
                told = program.fetch(f"https://{ORIGIN}/of/{name}")
                self.assertRegex(told.get("error", ""), "403|Forbidden", told)
                told = program.fetch(f"https://{OTHER}/of/{name}")
                self.assertEqual(200, told.get("status"), told)
        self.assertEqual(len(self.origin.requests), self.origin.accepted)
        self.assertEqual({OTHER}, {request.get("Host") for request in self.origin.requests})
        self.assertEqual(0, self.counted(proxy, ORIGIN, "answered"))

    def test_plain_http(self):
        """In absolute form, by curl; NO_PROXY lets what it names go past."""
        self.egress()
        for variable, wanted in ((None, 1), (island.FAR, 1)):
            with self.subTest(no_proxy=variable):
                env = {"http_proxy": f"http://{ADDRESS}", "no_proxy": variable or ""}
                command = ["curl", "-sS", "--max-time", "20", f"http://{island.FAR}/plain"]
                done = subprocess.run(command, env=harness.clean_environment(**env), check=True,
                                      capture_output=True, text=True)  # fmt: skip
                self.assertIn('"asked": "/plain"', done.stdout)
                vias = [r for r in self.plain.requests if r.get("Via") is not None]
                self.assertEqual(wanted, len(vias))


class InterceptTest(EgressCase):
    def allowed(self, host=ORIGIN):
        """The answers of the three ways, as status codes."""
        tunnel = self.connect(f"{host}:443")
        if isinstance(tunnel, wire.Connection):
            tunnel.close()
        answers = [tunnel, self.absolute(f"http://{host}/"), self.by_header(f"https://{host}/")]
        return [getattr(answer, "status", 200) for answer in answers]

    def test_the_last_whitelist_is_removed(self):
        """It is open again, without a restart."""
        proxy = self.egress()
        self.assertEqual([200, 200, 200], self.allowed())
        for _ in range(3):
            self.put(proxy, [guard(intercept("Whitelist", OTHER))])
            before = self.origin.accepted + self.plain.accepted
            self.assertEqual([403, 403, 403], self.allowed())
            self.assertEqual(before, self.origin.accepted + self.plain.accepted)
            self.assertEqual([200, 200, 200], self.allowed(OTHER))
            self.put(proxy)
            self.assertEqual([200, 200, 200], self.allowed())
            self.put(proxy, [guard(intercept("Whitelist", OTHER))])
            self.assertEqual(200, proxy.control("DELETE", target="/v1/traffic")[0])
            self.assertEqual([200, 200, 200], self.allowed())

    def test_all_rules_are_asked(self):
        """One that forbids wins, in whatever order they stand; messages name the rule."""
        white = intercept("Whitelist", r"\.example(:\d+)?$", name="ours", content="Regexp")
        black = intercept("Blacklist", ORIGIN, name="not-this-one")
        for rules in ([white, black], [black, white]):
            proxy = self.egress(policies=[guard(*rules)])
            self.assertEqual([403, 403, 403], self.allowed())
            self.check_refused(self.connect(f"{ORIGIN}:443"), 403, "refused", "guard",
                               '"not-this-one"')  # fmt: skip
            self.assertEqual([200, 200, 200], self.allowed(OTHER))
            answer = self.absolute(f"http://{island.FAR}/")
            self.check_refused(answer, 403, "refused", "guard", "no Whitelist rule names it")
            refusals = 'cmesh_proxy_intercepts_refused_total{policy="guard",rule="not-this-one"}'
            self.assertEqual(4, proxy.metrics()[refusals])
            self.end_proxy(proxy)

    def test_a_tunnel_ends_that_is_not_allowed_any_more(self):
        self.start_far(Echo, 7777)
        proxy = self.egress()
        tunnel = self.check_tunnel(ECHO)
        other = self.check_tunnel(f"{OTHER}:7777")
        self.put(proxy, [guard(intercept("Blacklist", ECHO))])
        self.assertTrue(tunnel.closed_by_peer())
        self.check_echo(other)

    def test_another_name_in_a_tunnel(self):
        """Both are served at one address; only one of them may be asked for, by TLS too."""
        self.egress(policies=[guard(intercept("Whitelist", OTHER))])
        context = ssl.create_default_context(cafile=self.authority().certificate)
        answers = []
        for name in (OTHER, ORIGIN):
            tunnel = self.connect(f"{OTHER}:443")
            try:
                tunnel.sock = context.wrap_socket(tunnel.sock, server_hostname=name)
                answers.append(tunnel.request("GET", f"/{name}", [("Host", name)]).status)
            except OSError:
                answers.append(None)
        self.assertEqual([200, None], answers)
        self.assertEqual([f"/{OTHER}"], [request.target for request in self.origin.requests])

    def test_expressions_that_take_for_ever(self):
        """Such a request is refused, at the cost of any other."""
        bomb = intercept("Whitelist", "(a+)+$", content="Regexp")
        proxy = self.egress(policies=[guard(bomb)])
        host = f"{'a' * 60}.{'a' * 60}b"
        count = 500

        def cpu_seconds():
            with open(f"/proc/{proxy.pid}/stat", encoding="ascii") as f:
                fields = f.read().rpartition(")")[2].split()
            return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")

        before = cpu_seconds()
        for _ in range(count):
            self.check_refused(self.connect(f"{host}:443"), 403, "refused", "guard", '"hosts"')
        each = 1000 * (cpu_seconds() - before) / count
        print(f"a request that an expression does not let through takes {each:.3f} ms of CPU")
        if not harness.is_sanitized(harness.program("localproxy")):
            self.assertLess(each, 1)
        self.assertEqual(count, proxy.metrics()["cmesh_proxy_patterns_exhausted_total"])


class HeaderTest(EgressCase):
    """As KusionStack's programs send it: plain, with the URL in a header."""

    def test_the_origin_gets_what_the_url_says(self):
        self.egress()
        answer = self.by_header(f"https://{ORIGIN}/a/b?c=d", "POST", [("X-Own", "1")], b"body")
        self.assertEqual(200, answer.status, answer)
        request = self.origin.requests[0]
        self.assertEqual(("POST", "/a/b?c=d"), (request.method, request.target))
        self.assertEqual((ORIGIN, "1"), (request.get("Host"), request.get("X-Own")))
        self.assertEqual(b"body", request.body)
        self.assertIsNone(request.get("Mesh-Real-Endpoint"))
        self.assertNotIn("15002", str(request.headers))
        self.assertEqual(200, self.by_header(f"http://{ORIGIN}/plain").status)
        self.assertEqual("/plain", self.plain.requests[0].target)

    def test_traffic_off(self):
        """Their demo: hosts that may be reached, and how often something may be posted."""
        off = limiting(f"https://{ORIGIN}/api/trafficOff", "POST", burst=2, name="trafficOffLimit")
        only = intercept("Whitelist", rf".*({ORIGIN}).*", name="trafficIntercept", content="Regexp")
        self.egress(policies=[guard(only, limitings=[off])])

        def post(path="/api/trafficOff", method="POST", **more):
            return self.by_header(f"https://{ORIGIN}{path}", method, **more)

        self.assertEqual([200, 200], [post().status for _ in range(2)])
        self.check_refused(post(), 429, "limited", "guard", '"trafficOffLimit"')
        self.check_refused(post("/api/trafficOff?query=x"), 429, "limited")
        self.assertEqual(200, post(method="GET").status)
        self.assertEqual(200, post("/api/trafficOn").status)
        answer = self.by_header(f"https://{OTHER}/")
        self.check_refused(answer, 403, "refused", "guard", "no Whitelist rule names it")
        self.assertEqual(4, len(self.origin.requests))

    def test_tls_is_verified(self):
        """A false authority, and a name that is another's: 502, and no request is sent."""
        false = self.authority("false")
        context = upstream.server_context(*false.server(alt=self.alternatives()))
        liar = self.start_far(Origin, 8443, context=context)
        context = upstream.server_context(*self.authority().server("named", "DNS:else.example"))
        stranger = self.start_far(Origin, 9443, context=context)
        self.egress()
        for port in (8443, 9443):
            answer = self.by_header(f"https://{ORIGIN}:{port}/", headers=[("Authorization", "x")])
            self.check_refused(answer, 502, "failed")
            answer = self.absolute(f"https://{ORIGIN}:{port}/")
            self.check_refused(answer, 502, "failed")
        self.assertEqual([], liar.requests + stranger.requests)

    def test_a_page_cannot_send_it(self):
        self.egress()
        for header in (("Origin", "https://page.example"), ("Host", "page.example:15002")):
            answer = self.by_header(f"https://{ORIGIN}/", headers=[header])
            self.check_refused(answer, 403, "refused")
        self.assertEqual(0, self.origin.accepted)


class LimitTest(EgressCase):
    def test_what_holds_for_all_of_a_tunnel(self):
        """A limit without a path counts tunnels, one with a path counts none."""
        self.start_far(Echo, 7777)
        whole = limiting(f"http://{ORIGIN}:7777/*", burst=2)
        part = limiting(f"http://{OTHER}:7777/path", burst=1, name="part")
        proxy = self.egress(policies=[guard(limitings=[whole, part])])
        for _ in range(2):
            self.check_tunnel(ECHO)
        self.check_refused(self.connect(ECHO), 429, "limited", '"limit"')
        for _ in range(3):
            self.check_tunnel(f"{OTHER}:7777")
        self.assertEqual(1, proxy.breaker("limit")["refused"])
        self.assertEqual(1, self.counted(proxy, ORIGIN, "limited"))

    def test_so_many_tunnels(self):
        self.start_far(Echo, 7777)
        proxy = self.egress("--egress-max-tunnels=2")
        tunnels = [self.check_tunnel(ECHO) for _ in range(2)]
        self.check_refused(self.connect(ECHO), 503, "limited", "--egress-max-tunnels")
        self.assertEqual(2, proxy.metrics()["cmesh_proxy_egress_tunnels"])
        tunnels[0].close()
        harness.wait_for(lambda: proxy.metrics()["cmesh_proxy_egress_tunnels"] == 1, "it is over")
        self.check_tunnel(ECHO)
        self.check_echo(tunnels[1])

    def test_an_idle_tunnel(self):
        self.start_far(Echo, 7777)
        self.egress("--egress-idle=2")
        begun = time.monotonic()
        tunnel = self.check_tunnel(ECHO)
        self.assertTrue(tunnel.closed_by_peer())
        self.assertGreaterEqual(time.monotonic() - begun, 2)


class FaultTest(EgressCase):
    def test_a_delay(self):
        slow = fault({"host": {"exact": ORIGIN}}, delay={"fixedDelay": "1s", "percent": ALWAYS})
        proxy = self.egress(faults=[slow])
        for ask in (
            lambda host: self.connect(f"{host}:443"),
            lambda host: self.absolute(f"http://{host}/"),
            lambda host: self.by_header(f"https://{host}/"),
        ):
            begun = time.monotonic()
            ask(ORIGIN)
            self.assertGreaterEqual(time.monotonic() - begun, 1)
        row = proxy.status()["traffic"]["faults"][0]
        self.assertEqual(("trouble", 3, 0), (row["policy"], row["delayed"], row["aborted"]))
        ask(OTHER)
        self.assertEqual(3, proxy.status()["traffic"]["faults"][0]["delayed"])

    def test_an_abort(self):
        """Where a host is named alone, tunnels too; where more is named, what nobody sees is not
        met."""
        whole = fault({"host": {"exact": ORIGIN}}, abort={"httpStatus": 503, "percent": ALWAYS})
        proxy = self.egress(faults=[whole])
        before = self.origin.accepted
        for answer in (
            self.connect(f"{ORIGIN}:443"),
            self.absolute(f"http://{ORIGIN}/"),
            self.by_header(f"https://{ORIGIN}/"),
        ):
            self.check_refused(answer, 503, "fault", "trouble", '"rule"')
        self.assertEqual(before, self.origin.accepted)
        self.assertEqual(3, self.counted(proxy, ORIGIN, "aborted"))
        tenant = {"name": "X-Tenant", "value": "blue"}
        match = {"host": {"regex": r"^origin\."}, "path": {"regex": "^/upload/"}, "method": "PUT",
                 "headers": [tenant]}  # fmt: skip
        self.put(proxy, faults=[fault(match, abort={"httpStatus": 418, "percent": ALWAYS})])
        blue = [("X-Tenant", "blue")]
        url = f"http://{ORIGIN}/upload/x"
        self.check_refused(self.absolute(url, "PUT", blue, b""), 418, "fault")
        self.check_refused(self.by_header(f"https://{ORIGIN}/upload/", "PUT", blue, b""), 418, "fault")
        for method, headers, path in (
            ("POST", blue, "/upload/x"),
            ("PUT", [("X-Tenant", "green")], "/upload/x"),
            ("PUT", (), "/upload/x"),
            ("PUT", blue, "/download/x"),
        ):
            self.assertEqual(200, self.absolute(f"http://{ORIGIN}{path}", method, headers, b"").status)
        self.assertIsInstance(self.connect(f"{ORIGIN}:443"), wire.Connection)


class ReachTest(EgressCase):
    """What is reached by no way."""

    def setUp(self):
        super().setUp()
        self.metadata = self.start_far(Origin, 80, address=METADATA)

    def ask(self, host_port, wanted):
        """By all ways."""
        self.check_refused(self.connect(host_port), wanted, *KINDS[wanted])
        for answer in (
            self.absolute(f"http://{host_port}/"),
            self.by_header(f"http://{host_port}/"),
            self.by_header(f"https://{host_port}/"),
        ):
            self.check_refused(answer, wanted, *KINDS[wanted])

    def test_this_machine_and_what_knows_credentials(self):
        proxy = self.egress()
        admin = proxy.admin.rpartition(":")[2]
        for host in (
            f"127.0.0.1:{admin}",
            f"127.8.8.8:{admin}",
            f"localhost:{admin}",
            f"{INSIDE}:{admin}",
            f"[::1]:{admin}",
            f"[::ffff:127.0.0.1]:{admin}",
            f"0.0.0.0:{admin}",
            f"[::]:{admin}",
            f"{METADATA}:80",
            "metadata.example:80",
            "[::ffff:169.254.169.254]:80",
            "[fe80::1]:80",
            "[fd00:ec2::254]:80",
            "100.100.100.200:80",
        ):
            with self.subTest(host=host):
                self.ask(host, 403)
        for host in ("127.1:80", "2130706433:80", "0x7f.0.0.1:80", "0177.0.0.1:80"):
            with self.subTest(host=host):
                self.ask(host, 400)
        self.assertEqual(0, self.metadata.accepted)

    def test_a_rule_may_name_it(self):
        """But no rule opens localproxy itself, nor the way around it."""
        proxy = self.egress(policies=[guard(intercept("Whitelist", METADATA, "127.0.0.1:1"))])
        self.assertEqual(200, self.absolute(f"http://{METADATA}/").status)
        self.assertEqual(1, self.metadata.accepted)
        self.check_refused(self.absolute("http://127.0.0.1:1/"), 502, "failed")
        own = [ADDRESS, proxy.listen, proxy.admin, f"{island.FAR}:{API_PORT}"]
        rules = [intercept("Whitelist", *own), intercept("Whitelist", ".*", name="all",
                                                         content="Regexp")]  # fmt: skip
        self.put(proxy, [guard(*rules)])
        before = self.api.accepted
        for host in own:
            with self.subTest(host=host):
                self.ask(host, 403)
        self.assertEqual(before, self.api.accepted)

    def test_the_api_server(self):
        self.egress()
        before = self.api.accepted
        for host in (
            f"{island.FAR}:{API_PORT}",
            f"{ORIGIN}:{API_PORT}",
            "kubernetes.default.svc:443",
            "kubernetes.default.svc.cluster.local:443",
        ):
            with self.subTest(host=host):
                self.ask(host, 403)
        self.assertEqual(before, self.api.accepted)
        self.assertEqual(200, self.absolute(f"http://{island.FAR}/").status)

    def test_what_is_not_there(self):
        proxy = self.egress()
        self.check_refused(self.connect(f"{ORIGIN}:9"), 502, "failed")
        self.check_refused(self.connect("nobody.example:443"), 502, "failed")
        self.check_refused(wire.fetch(ADDRESS, "/"), 400, "invalid", "HTTP_PROXY")
        self.assertEqual(1, self.counted(proxy, ORIGIN, "failed"))


KINDS = {400: ("invalid",), 403: ("refused",)}


class ChainTest(EgressCase):
    """The company's proxy, which localproxy goes through."""

    def setUp(self):
        super().setUp()
        self.company = self.start_far(CompanyProxy, 3128)

    def chained(self, *args, **more):
        env = {"CMESH_EGRESS_VIA": basic_url(f"{island.FAR}:3128")}
        return self.egress(*args, env=env, **more)

    def tls(self, tunnel, host):
        """The answer to a request over TLS in a tunnel."""
        context = ssl.create_default_context(cafile=self.authority().certificate)
        tunnel.sock = context.wrap_socket(tunnel.sock, server_hostname=host)
        return tunnel.request("GET", "/in/a/tunnel", [("Host", host)])

    def test_all_goes_through_it(self):
        proxy = self.chained()
        answer = self.tls(self.connect(f"{ORIGIN}:443"), ORIGIN)
        self.assertIn(b"/in/a/tunnel", answer.body)
        self.assertIn(b"company", self.absolute(f"http://{ORIGIN}/x?y").body)
        self.assertEqual(200, self.by_header(f"https://{ORIGIN}/header").status)
        self.assertEqual(
            [f"CONNECT {ORIGIN}:443", f"GET http://{ORIGIN}/x?y", f"CONNECT {ORIGIN}:443"],
            self.company.asked,
        )
        self.assertEqual(0, self.plain.accepted)
        with open(f"/proc/{proxy.pid}/cmdline", encoding="utf-8") as f:
            told = f.read() + str(proxy.status()) + str(proxy.metrics())
        for secret in secrets():
            self.assertNotIn(secret, told + proxy.log())
        self.assertIn(f"http://{island.FAR}:3128", told)
        for request in self.origin.requests:
            self.assertIsNone(request.get("Proxy-Authorization"))

    def test_policies_come_first(self):
        self.chained(policies=[guard(intercept("Whitelist", OTHER))])
        self.check_refused(self.connect(f"{ORIGIN}:443"), 403, "refused")
        self.check_refused(self.absolute(f"http://{ORIGIN}/"), 403, "refused")
        self.check_refused(self.absolute(f"http://{METADATA}/"), 403, "refused")
        self.assertEqual([], self.company.asked)

    def test_what_is_excepted(self):
        self.chained(f"--egress-no-proxy=.partner.example,{OTHER}")
        for host in (OTHER, "api.partner.example"):
            self.assertEqual(200, self.absolute(f"http://{host}/").status)
            self.assertEqual(200, self.by_header(f"https://{host}/").status)
        self.assertEqual([], self.company.asked)
        self.assertIn(b"company", self.absolute(f"http://{ORIGIN}/").body)

    def test_a_wrong_password(self):
        env = {"CMESH_EGRESS_VIA": f"http://operator:wrong@{island.FAR}:3128"}
        proxy = self.egress(env=env)
        self.check_refused(self.connect(f"{ORIGIN}:443"), 502, "failed")
        self.check_refused(self.by_header(f"https://{ORIGIN}/"), 502, "failed")
        self.assertEqual([], self.company.asked)
        self.assertNotIn("wrong", proxy.log() + str(proxy.status()))

    def test_a_proxy_that_is_away(self):
        self.egress(env={"CMESH_EGRESS_VIA": f"http://{island.FAR}:9"})
        for answer in (
            self.connect(f"{ORIGIN}:443"),
            self.absolute(f"http://{ORIGIN}/"),
            self.by_header(f"https://{ORIGIN}/"),
        ):
            self.check_refused(answer, 502, "failed")
        self.assertEqual(0, self.origin.accepted + self.plain.accepted)

    def test_tinyproxy(self):
        """One that many have."""
        if shutil.which("tinyproxy") is None:
            self.skipTest("tinyproxy is not installed")
        config = self.path(
            "tinyproxy.conf",
            f"Port 8888\nListen {island.FAR}\nTimeout 60\nMaxClients 20\nLogLevel Connect\n"
            f"BasicAuth {CompanyProxy.USER} {CompanyProxy.PASSWORD}\nConnectPort 443\n",
        )
        log = self.path("tinyproxy.log", "")

        def start():
            command = ["setpriv", "--pdeathsig", "KILL", *self.names, "tinyproxy", "-d", "-c", config]
            with open(log, "wb") as out:
                return subprocess.Popen(command, stdout=out, stderr=out)

        process = self.cable.far.do(start)
        self.addCleanup(harness.end_process, process)

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex((island.FAR, 8888)) == 0

        harness.wait_for(listens, "tinyproxy listens")
        self.egress(env={"CMESH_EGRESS_VIA": basic_url(f"{island.FAR}:8888")})
        answer = self.tls(self.connect(f"{ORIGIN}:443"), ORIGIN)
        self.assertIn(b"/in/a/tunnel", answer.body)
        self.assertEqual(200, self.by_header(f"https://{ORIGIN}/header").status)
        answer = self.absolute(f"http://{ORIGIN}/plain")
        self.assertEqual(200, answer.status)
        self.assertIn("tinyproxy", self.plain.requests[0].get("Via"))


class EndTest(EgressCase):
    def setUp(self):
        super().setUp()
        self.start_far(Echo, 7777)

    def is_closed(self):
        """Whether nobody listens any more."""
        with socket.socket() as probe:
            host, _, port = ADDRESS.partition(":")
            return probe.connect_ex((host, int(port))) != 0

    def test_open_tunnels_go_on(self):
        """Until they end, and then localproxy ends, before its grace is over."""
        proxy = self.egress("--shutdown-grace=60")
        tunnel = self.check_tunnel(ECHO)
        begun = time.monotonic()
        proxy.signal(signal.SIGTERM)
        harness.wait_for(self.is_closed, "no more are accepted")
        self.check_echo(tunnel)
        self.assertIsNone(proxy.process.poll())
        tunnel.close()
        self.assertEqual(0, proxy.wait())
        self.assertLess(time.monotonic() - begun, 60)

    def test_no_longer_than_the_grace(self):
        proxy = self.egress("--shutdown-grace=2")
        tunnels = [self.check_tunnel(ECHO) for _ in range(20)]
        begun = time.monotonic()
        proxy.signal(signal.SIGTERM)
        for tunnel in tunnels:
            self.assertTrue(tunnel.closed_by_peer())
        self.assertGreaterEqual(time.monotonic() - begun, 2)
        self.assertEqual(0, proxy.wait())

    def test_half_closed(self):
        """What one side still has to say comes after the other one has ended."""
        self.egress()
        tunnel = self.check_tunnel(ECHO)
        tunnel.send(b"x" * 100000)
        tunnel.sock.shutdown(socket.SHUT_WR)
        while tunnel.fill():
            pass
        self.assertEqual(b"x" * 100000, tunnel.input)


class ListenerTest(EgressCase):
    def test_on_another_address_it_asks_for_the_token(self):
        token = self.path("token", "t" * 43)
        os.chmod(token, 0o600)
        address = f"{island.NEAR}:15002"
        base = self.proxy_args(self.folder, None, self.kubeconfig)
        args = [*base, "--resume-doubt=0", "--egress", address]
        proxy = self.start_proxy(self.addCleanup, args, env={"CMESH_TOKEN_FILE": "off"}, wait=False)
        self.assertNotEqual(0, proxy.wait())
        self.assertIn("--egress", proxy.log())
        self.start_proxy(self.addCleanup, args, env={"CMESH_TOKEN_FILE": token}, prefix=self.names)
        url = f"http://{ORIGIN}/"
        answer = wire.fetch(address, url, headers=[("Host", ORIGIN)])
        self.check_refused(answer, 407, "invalid")
        self.assertEqual('Basic realm="cmesh"', answer.get("Proxy-Authenticate"))
        for password, wanted in (("x" * 43, 407), ("t" * 43, 200)):
            value = "Basic " + upstream.basic("cmesh", password)
            headers = [("Host", ORIGIN), ("Proxy-Authorization", value)]
            self.assertEqual(wanted, wire.fetch(address, url, headers=headers).status)
        self.assertIsNone(self.plain.requests[0].get("Proxy-Authorization"))

    def test_what_it_tells(self):
        proxy = self.egress()
        self.absolute(f"http://{ORIGIN}/")
        self.connect(f"{ORIGIN}:443")
        told = proxy.status()["egress"]
        self.assertEqual(ADDRESS, told["address"])
        self.assertEqual((2, 0, 1), (told["requests"], told["refused"], told["tunnels"]))
        self.assertEqual(2, self.counted(proxy, ORIGIN, "answered"))
        # Hosts that are made up take no place.
        self.put(proxy, [guard(intercept("Whitelist", ORIGIN))])
        for i in range(300):
            self.absolute(f"http://made-up-{i}.example/")
        names = [name for name in proxy.metrics() if "egress_requests_total" in name]
        self.assertEqual([], [name for name in names if "made-up" in name])


if __name__ == "__main__":
    harness.main()
