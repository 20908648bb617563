# SPDX-License-Identifier: Apache-2.0
"""The proxies under test, one class each: what it is configured with and how it is started.

To add a peer, write a class with `name`, `package`, `argv` and `version`, and put it into PROXIES.
Every one gets the same job: plain HTTP/1.1 in, TLS with a verified certificate out, a bearer token
added, a pool of kept connections, nothing logged, nothing held back; for the rows that say so TLS
in, too, on another port, with a P-256 certificate. What speaks HTTP/2 to servers is there in both
ways: a peer's better one is the peer.
"""

import json
import os
import subprocess

import debian13
from lab import find_binary
from server import NGINX_PATHS, connections_for, file_limit, nginx_argv, run_as


class Proxy:
    name = ""
    program = ""  # if it is not called as the proxy is here
    package = ""  # the Debian package that has it; empty: built here
    ours = False  # a build of localproxy
    has_process = True

    def __init__(self, binary=None):
        self.binary = binary or self.find()

    def find(self):
        return find_binary(self.program or self.name)

    @property
    def command(self):
        """What stands before its arguments."""
        return [self.binary]

    @property
    def available(self):
        return self.why_not() is None

    def why_not(self):
        """None, or why it cannot be measured here."""
        if self.binary is not None and os.access(self.binary, os.X_OK):
            return None
        return "no program " + (self.binary or f"(package {self.package})")

    def version(self):
        """The first line that the program prints when it is asked."""
        out = subprocess.run([*self.command, *self.version_flags], capture_output=True, text=True,
                             timeout=10, check=False)
        return ((out.stdout or out.stderr).strip().splitlines() or ["unknown"])[0]

    version_flags = ("-v",)

    # pylint: disable-next=too-many-arguments
    def argv(self, lab, upstream, port, tls_port=None, single=False):
        """Writes the configuration and returns the command line that listens on `port`, and with
        TLS on `tls_port` if it is given. `single` asks for one process without a master, for a
        profiler."""
        raise NotImplementedError

    def listens_with_tls(self):
        return True

    def authority(self, lab, upstream, port):
        """The path of the certificate of whoever signed what is shown on `tls_port`."""
        del lab, port
        return upstream.ca


class OfDebian13(Proxy):
    """A program that `peers` has unpacked."""

    def find(self):
        return debian13.program(self.program)

    @property
    def command(self):
        return debian13.command(self.binary)

    def why_not(self):
        return debian13.folder()[1] or super().why_not()


class Nginx(Proxy):
    name = "nginx"
    package = "nginx-light"

    CONFIG = """
{user}
daemon off;
master_process {master};
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/pid;
error_log stderr error;
events {{ worker_connections {connections}; }}
http {{
    {paths}
    tcp_nodelay on;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    upstream api {{
        server 127.0.0.1:{tls_port};
        keepalive 256;
        keepalive_requests 1000000000;
        keepalive_timeout 1h;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        {tls}
        location / {{
            proxy_pass https://api;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_set_header Authorization "Bearer {token}";
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_ssl_protocols TLSv1.2 TLSv1.3;
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate {ca};
            proxy_ssl_name {server_name};
            proxy_ssl_server_name on;
        }}
    }}
}}
"""

    TLS = """
        listen 127.0.0.1:{tls_port} ssl backlog=4096;
        ssl_certificate {pair};
        ssl_certificate_key {pair};
        ssl_protocols TLSv1.2 TLSv1.3;
"""

    # pylint: disable-next=too-many-arguments
    def argv(self, lab, upstream, port, tls_port=None, single=False):
        folder = lab.path(f"nginx-{port}")
        tls = self.TLS.format(tls_port=tls_port, pair=upstream.pair) if tls_port else ""
        # No more than needed: nginx sets their memory aside when it starts.
        connections = max(4096, connections_for(upstream.clients))
        config = lab.write(f"nginx-{port}/nginx.conf", self.CONFIG.format(
            folder=folder, user=run_as(), paths=NGINX_PATHS.format(folder=folder), port=port,
            tls=tls, master="off" if single else "on", tls_port=upstream.tls_port,
            token=upstream.token, ca=upstream.ca, server_name=upstream.server_name,
            connections=connections, files=min(file_limit(), max(8192, connections))))
        return nginx_argv(self.command, folder, config)


class Nginx13(Nginx, OfDebian13):
    name = "nginx13"
    program = "nginx"


class Haproxy(Proxy):
    name = "haproxy"
    program = "haproxy"
    package = "haproxy"
    protocol = "http/1.1"

    # http-no-delay: without it HAProxy holds watch events back by up to 200 ms.
    CONFIG = """
global
    nbthread 1
    maxconn {clients}
defaults
    mode http
    option http-no-delay
    http-reuse always
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout http-keep-alive 1h
frontend operator
    bind 127.0.0.1:{port} backlog 4096
    {tls}
    default_backend api
backend api
    http-request set-header Authorization "Bearer {token}"
    server api 127.0.0.1:{tls_port} ssl verify required ca-file {ca} verifyhost {server_name} \
sni str({server_name}) alpn {protocol} ssl-min-ver TLSv1.2 pool-purge-delay 1h
"""

    # pylint: disable-next=too-many-arguments
    def argv(self, lab, upstream, port, tls_port=None, single=False):
        tls = (f"bind 127.0.0.1:{tls_port} backlog 4096 ssl crt {upstream.pair} "
               "ssl-min-ver TLSv1.2" if tls_port else "")
        config = lab.write(f"haproxy-{port}.cfg", self.CONFIG.format(
            port=port, tls=tls, token=upstream.token, ca=upstream.ca,
            server_name=upstream.server_name, tls_port=upstream.tls_port, protocol=self.protocol,
            clients=max(2500, upstream.clients + 50)))
        return [*self.command, "-db", "-q", "-f", config]


class HaproxyH2(Haproxy):
    name = "haproxy-h2"
    protocol = "h2"


class Haproxy13(Haproxy, OfDebian13):
    name = "haproxy13"


class Haproxy13H2(Haproxy13):
    name = "haproxy13-h2"
    protocol = "h2"


class Nghttpx(OfDebian13):
    """One worker; the token is added to what the client sends, which has none."""

    name = "nghttpx"
    program = "nghttpx"
    version_flags = ("--version",)
    protocol = "http/1.1"

    # pylint: disable-next=too-many-arguments
    def argv(self, lab, upstream, port, tls_port=None, single=False):
        tls = ([f"--frontend=127.0.0.1,{tls_port};tls", upstream.key, upstream.certificate]
               if tls_port else [])
        return [*self.command, "--conf=/dev/null", "--workers=1", "--backlog=4096",
                *["--single-process"] * single,
                f"--frontend=127.0.0.1,{port};no-tls",
                f"--backend=127.0.0.1,{upstream.tls_port};;tls;sni={upstream.server_name};"
                f"proto={self.protocol}",
                f"--cacert={upstream.ca}", f"--add-request-header=authorization: Bearer {upstream.token}",
                "--no-via", "--no-server-rewrite", "--no-location-rewrite", "--no-ocsp",
                "--accesslog-file=/dev/null", "--errorlog-file=/dev/stderr", "--log-level=ERROR",
                *[f"--{what}-timeout=1h" for what in (
                    "frontend-read", "frontend-keep-alive", "backend-read", "backend-keep-alive")],
                *tls]


class NghttpxH2(Nghttpx):
    name = "nghttpx-h2"
    protocol = "h2"


class Kubectl(OfDebian13):
    """`kubectl proxy`, which many a developer has: it uses as many cores as there are, as programs
    in Go do, speaks HTTP/2 to servers that have it, and does not listen over TLS."""

    name = "kubectl"
    program = "kubectl"
    version_flags = ("version", "--client")

    def listens_with_tls(self):
        return False

    # pylint: disable-next=too-many-arguments
    def argv(self, lab, upstream, port, tls_port=None, single=False):
        kubeconfig = write_kubeconfig(lab, upstream, f"kubectl-{port}")
        return [*self.command, "--kubeconfig", kubeconfig, "proxy", "--address=127.0.0.1",
                f"--port={port}"]


class Direct(Proxy):
    """No proxy at all: the client speaks HTTP/1.1 over TLS to the server, and adds the token. There
    are figures of the client and the server alone."""

    name = "direct"
    has_process = False

    def why_not(self):
        return None

    def version(self):
        return "direct: wrk over TLS"

    def listens_with_tls(self):
        return False


def write_kubeconfig(lab, upstream, folder):
    """Its path."""
    # JSON is YAML, and needs no library to write.
    kubeconfig = {
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {
            "server": f"https://127.0.0.1:{upstream.tls_port}",
            "certificate-authority": upstream.ca}}],
        "users": [{"name": "bench", "user": {"token": upstream.token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}]}
    return lab.write(f"{folder}/kubeconfig", json.dumps(kubeconfig))


def has_in_help(binary, words):
    """Whether --help has these words: an older build may do without what they say."""
    command = [binary, "--help"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    return words in " ".join(told.split())


def no_token(binary):
    """So that a localproxy asks for none, as other proxies do."""
    return ["--token-file=off"] if has_in_help(binary, "off: ask for none") else []


class Localproxy(Proxy):
    name = "localproxy"
    ours = True
    version_flags = ("--version",)
    flags = ()

    def listens_with_tls(self):
        return has_in_help(self.binary, "--listen-tls=ADDR:PORT")

    def authority(self, lab, upstream, port):
        return lab.path(f"localproxy-{port}", "authority", "ca.crt")

    # pylint: disable-next=too-many-arguments
    def argv(self, lab, upstream, port, tls_port=None, single=False):
        namespaces = ",".join(f"team-{n:02d}" for n in range(20))
        rules = {
            "apiVersion": "cmesh/v1", "kind": "ShardRules", "generation": 7,
            "shard": {"namespace": "operator-demo", "name": "sharding-demo"},
            "spec": {
                "leaderElection": {"name": "operator-leader"},
                "limits": [{
                    "apiGroups": ["*"], "resources": ["pods", "services"],
                    "selector": f"app=foo,ctrlmesh.kusionstack.io/namespace in ({namespaces})"}],
                "labels": {"namespace": "ctrlmesh.kusionstack.io/namespace",
                           "shardHash": "ctrlmesh.kusionstack.io/sharding-hash"}}}
        folder = f"localproxy-{port}"
        tls = []
        if tls_port:
            authority = os.path.dirname(self.authority(lab, upstream, port))
            os.makedirs(authority, mode=0o700)
            tls = ["--listen-tls", f"127.0.0.1:{tls_port}", "--local-tls", authority]
        # Its default takes the watches that are always opened.
        room = ["--max-connections", str(upstream.clients + 50)] if upstream.clients else []
        return [self.binary,
                "--kubeconfig", write_kubeconfig(lab, upstream, folder),
                "--rules", lab.write(f"{folder}/rules.json", json.dumps(rules)),
                "--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0", *tls,
                "--state", lab.path(folder, "state"),  # as every installation has it
                "--ready-file", lab.path(folder, "ready.json"), *no_token(self.binary),
                *room, *self.flags]


class LocalproxyH1(Localproxy):
    """The same build, told to speak HTTP/1.1 to the server."""

    name = "localproxy-h1"
    flags = ("--upstream-protocol=http1",)

    def why_not(self):
        reason = super().why_not()
        if reason is None and not has_in_help(self.binary, "--upstream-protocol="):
            return "this build speaks HTTP/1.1 only, as localproxy"
        return reason


class Baseline(Localproxy):
    """Another build of localproxy, an older one say."""

    name = "baseline"


# The first one that is measured is what the others are compared with.
PROXIES = [Nginx, Haproxy, HaproxyH2, Nginx13, Haproxy13, Haproxy13H2, Nghttpx, NghttpxH2, Kubectl,
           Direct, Baseline, LocalproxyH1, Localproxy]
