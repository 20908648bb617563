# SPDX-License-Identifier: Apache-2.0
"""A machine with localproxy and its clients, and another one with what they reach: web servers that
count who comes, a company's proxy, what clouds tell about credentials. Both are network namespaces of
the test's own, so ports are those of the real world, and no address is one of this machine.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import threading

import harness
import island
import real_clients
import releases
import shard
import upstream
import wire

ADDRESS = "127.0.0.1:15002"  # as in an injected pod
URL = f"http://{ADDRESS}"
METADATA = "169.254.169.254"
ORIGIN, OTHER, INSIDE = "origin.example", "other.example", "inside.example"
HOSTS = {
    ORIGIN: island.FAR,
    OTHER: island.FAR,
    "api.partner.example": island.FAR,
    "proxy.company.example": island.FAR,
    INSIDE: "127.0.0.1",
    "metadata.example": METADATA,
}
SERVED = (ORIGIN, OTHER, "api.partner.example")
API_PORT = 6443


class Origin(upstream.Upstream):
    """Answers each request with what it asked for, and knows who has come."""

    def __init__(self, listener, context=None):
        self.accepted = 0
        self.requests = []
        super().__init__(upstream.always(self.answer), context=context, listener=listener)

    def run(self, sock):
        self.accepted += 1
        super().run(sock)

    def answer(self, peer, request):
        self.requests.append(request)
        body = json.dumps({"asked": request.target, "method": request.method}).encode()
        peer.respond(200, body)


class Echo(upstream.Upstream):
    """Sends back what comes."""

    def __init__(self, listener):
        super().__init__(self.echo, listener=listener)

    @staticmethod
    def echo(peer):
        while peer.fill():
            peer.send(peer.take(len(peer.input)))


class CompanyProxy(upstream.Upstream):
    """An HTTP proxy that wants to know who asks."""

    USER, PASSWORD = "operator", "s3cret-of-the-company"
    far = island.FAR  # where all names lead

    def __init__(self, listener):
        self.asked = []  # "CONNECT host:port", "GET http://..."
        super().__init__(self.serve_one, listener=listener)

    def serve_one(self, peer):
        while (request := peer.read_request()) is not None:
            right = "Basic " + upstream.basic(self.USER, self.PASSWORD)
            if request.get("Proxy-Authorization") != right:
                peer.respond(407, b"", headers=[("Proxy-Authenticate", "Basic realm=company")])
                continue
            self.asked.append(f"{request.method} {request.target}")
            if request.method == "CONNECT":
                self.tunnel(peer, int(request.target.rpartition(":")[2]))
                return
            peer.respond(200, json.dumps({"asked": request.target, "by": "company"}).encode())

    def tunnel(self, peer, port):
        with socket.create_connection((self.far, port), timeout=20) as there:
            peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")

            def copy_back():
                try:
                    while data := there.recv(65536):
                        peer.send(data)
                    peer.half_close()
                except OSError:
                    pass

            thread = threading.Thread(target=copy_back, daemon=True)
            thread.start()
            while peer.input or peer.fill():
                there.sendall(peer.take(len(peer.input)))
            there.shutdown(socket.SHUT_WR)
            thread.join(20)


# ---- what traffic documents have ----


def intercept(kind, *contents, name="hosts", content="Normal", methods=("*",)):
    return {"name": name, "interceptType": kind, "contentType": content,
            "contents": list(contents), "methods": list(methods)}  # fmt: skip


def guard(*intercepts, limitings=()):
    spec = {"selector": {}}
    if intercepts:
        spec["trafficInterceptRules"] = list(intercepts)
    if limitings:
        spec["rateLimitings"] = list(limitings)
    return {"name": "guard", "spec": spec}


def limiting(url, method="*", burst=1, **more):
    return {"name": "limit", "restRules": [{"url": url, "method": method}],
            "triggerPolicy": "LimiterOnly",
            "bucket": {"burst": burst, "limit": 1, "interval": "1h"}, **more}  # fmt: skip


def fault(match, **what):
    rule = {"name": "rule", "match": {"httpMatch": [match]}, **what}
    return {"name": "trouble", "spec": {"selector": {}, "httpFault": [rule]}}


ALWAYS = 100  # percent


class EgressCase(harness.TestCase):
    """Each test runs on the near machine."""

    @classmethod
    def setUpClass(cls):
        cls.cable = island.Cable(cls.addClassCleanup)
        cls.cable.far.shell(f"ip link set lo up; ip addr add {METADATA}/32 dev far")
        cls.cable.near.shell(f"ip route add {METADATA}/32 via {island.FAR}")

    def run(self, result=None):
        return self.cable.near.do(lambda: super(EgressCase, self).run(result))

    def setUp(self):
        super().setUp()
        lines = "".join(f"{address} {name}\n" for name, address in HOSTS.items())
        hosts = self.path("hosts", f"127.0.0.1 localhost\n::1 localhost\n{lines}")
        self.names = shard.mount_prefix(f"mount --bind '{hosts}' /etc/hosts")
        if self.names is None:
            self.skipTest("mount namespaces are not permitted here")
        context = upstream.server_context(*self.authority().server(alt=self.alternatives()))
        self.api = self.start_far(Origin, API_PORT)
        self.origin = self.start_far(Origin, 443, context=context)
        self.plain = self.start_far(Origin, 80)
        self.kubeconfig = upstream.write_kubeconfig(self.path("kubeconfig"), self.api.url)

    @staticmethod
    def alternatives():
        return ",".join(f"DNS:{name}" for name in SERVED) + f",IP:{island.FAR}"

    def start_far(self, kind, port, address=island.FAR, **more):
        """A server of that kind on the far machine."""
        listener = self.cable.far.do(lambda: socket.create_server((address, port), backlog=256))
        server = kind(listener=listener, **more)
        self.addCleanup(self.end_upstream, server)
        return server

    # ---- localproxy ----

    def egress(self, *args, policies=(), faults=(), **more):
        """With these breakers and faults in force."""
        args = ["--resume-doubt=0", "--egress", ADDRESS, *args]
        args += ["--egress-ca", self.authority().certificate]
        proxy = self.proxy(
            None, self.kubeconfig, args, prefix=self.names, control=True, **more
        )
        self.put(proxy, policies, faults)
        return proxy

    def put(self, proxy, policies=(), faults=()):
        """In force when this returns."""
        document = harness.traffic_document(policies, faults)
        code, body = proxy.control("PUT", document, "/v1/traffic")
        self.assertEqual(200, code, body)

    def counted(self, proxy, host, result):
        """What the metric says of a host."""
        name = f'cmesh_proxy_egress_requests_total{{host="{host}",result="{result}"}}'
        return proxy.metrics().get(name, 0)

    # ---- requests, to the byte ----

    def absolute(self, url, method="GET", headers=(), body=None):
        host = url.split("/")[2]
        return wire.fetch(ADDRESS, url, method, [("Host", host), *headers], body)

    def by_header(self, url, method="GET", headers=(), body=None):
        """As programs do that know of KusionStack's controller mesh."""
        more = [("Mesh-Real-Endpoint", url), *headers]
        return wire.fetch(ADDRESS, "/what/stands/here?means=nothing", method, more, body)

    def connect(self, host_port):
        """The connection, whose tunnel is open, or the answer that says why not."""
        connection = wire.Connection(ADDRESS)
        self.addCleanup(connection.close)
        connection.send_head("CONNECT", host_port, [("Host", host_port)])
        head = connection.read_head()
        if head.status == 200:
            return connection
        body, complete = connection.read_body()
        connection.close()
        return wire.Response(head, body, complete, [])

    def check_tunnel(self, host_port):
        """It is open, and an echo is behind it."""
        tunnel = self.connect(host_port)
        self.assertIsInstance(tunnel, wire.Connection, tunnel)
        self.check_echo(tunnel)
        return tunnel

    def check_echo(self, tunnel):
        tunnel.send(b"hello")
        tunnel.need(5)
        self.assertEqual(b"hello", tunnel.take(5))

    def check_refused(self, answer, code, kind, *mentions):
        """An answer of localproxy's own."""
        self.assertIsInstance(answer, wire.Response, "a tunnel is open")
        self.assertEqual((code, kind), (answer.status, answer.get("Cmesh-Egress")), answer)
        text = answer.body.decode()
        self.assertTrue(text.startswith("cmesh: "), text)
        for words in mentions:
            self.assertIn(words, text)


# ---- programs that know a proxy by their environment ----


def proxied(**more):
    """The environment of an injected pod."""
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    own = dict.fromkeys(names, URL)
    return harness.clean_environment(**own, NO_PROXY="localhost,127.0.0.1", **more)


class Program:
    """One that fetches a URL: `fetch` tells the status and the body, or the error."""

    def __init__(self, case):
        self.case = case
        self.authority = case.authority().certificate

    @staticmethod
    def missing():
        return None

    def run(self, command, **env):
        return subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", *command],
            env=proxied(HOME=self.case.folder, **env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def run_json(self, command, **env):
        done = self.run(command, **env)
        if done.returncode != 0:
            raise AssertionError(f"{command}: exit {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)


class Curl(Program):
    def fetch(self, url):
        command = ["curl", "-sS", "--max-time", "20", "--cacert", self.authority, url]
        done = self.run([*command, "-w", "\n%{http_code}"])
        body, _, code = done.stdout.rpartition("\n")
        if done.returncode != 0:
            return {"error": done.stderr}
        return {"status": int(code), "body": body}


class Kubectl(Program):
    """Go's net/http."""

    @staticmethod
    def missing():
        return releases.folders()[1]

    def fetch(self, url):
        scheme, _, host, path = url.split("/", 3)
        command = [os.path.join(releases.folders()[0][-1], "kubectl"), "--kubeconfig", os.devnull]
        command += ["--server", f"{scheme}//{host}", "--certificate-authority", self.authority]
        done = self.run([*command, "--token=none", "get", "--raw", f"/{path}"])
        if done.returncode != 0:
            return {"error": done.stderr}
        return {"status": 200, "body": done.stdout}


class Python(Program):
    way = "urllib"

    @staticmethod
    def missing():
        return None if real_clients.have_python_client() else "python3-kubernetes is not here"

    def fetch(self, url):
        command = [*real_clients.python_script("fetch.py"), self.way, url]
        trust = {"SSL_CERT_FILE": self.authority, "REQUESTS_CA_BUNDLE": self.authority}
        return self.run_json(command, **trust)


class Requests(Python):
    way = "requests"


class Node(Program):
    @staticmethod
    def missing():
        return None if shutil.which("node") else "node is not installed"

    def fetch(self, url):
        command = ["node", os.path.join(real_clients.PROGRAMS, "fetch.mjs"), url]
        return self.run_json(command, NODE_EXTRA_CA_CERTS=self.authority)


class Java(Program):
    @staticmethod
    def missing():
        return None if real_clients.have_java() else "there is no JDK"

    def fetch(self, url):
        host, _, port = ADDRESS.partition(":")
        options = [f"-Dhttps.proxyHost={host}", f"-Dhttps.proxyPort={port}"]
        program = real_clients.java_program(self.case.folder, "Fetch", *options)
        return self.run_json([*program, url, self.authority])


PROGRAMS = (Curl, Kubectl, Python, Requests, Node, Java)


def basic_url(host_port):
    """Of the company's proxy, with its password."""
    return f"http://{CompanyProxy.USER}:{CompanyProxy.PASSWORD}@{host_port}"


def secrets():
    """What must stand nowhere."""
    whole = f"{CompanyProxy.USER}:{CompanyProxy.PASSWORD}".encode()
    return (CompanyProxy.PASSWORD, base64.b64encode(whole).decode())
