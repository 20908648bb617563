# SPDX-License-Identifier: Apache-2.0
"""The proxies under test, one class each: what it is configured with and how it is started.

To add a peer, write a class with `name`, `package`, `argv` and `version`, and put it into PROXIES.
Every one gets the same job: plain HTTP/1.1 in, TLS with a verified certificate out, a bearer token
added, a pool of kept connections, nothing logged, nothing held back; for the rows that say so TLS
in, too, on another port, with a P-256 certificate.
"""

import json
import os
import subprocess

from lab import find_binary
from server import NGINX_PATHS, SERVER_NAME, TOKEN, nginx_argv, run_as


class Proxy:
    name = ""
    package = ""  # the Debian package that has it; empty: built here

    def __init__(self, binary=None):
        self.binary = binary or find_binary(self.name)

    @property
    def available(self):
        return self.binary is not None and os.access(self.binary, os.X_OK)

    def version(self):
        """The first line that the program prints when it is asked."""
        out = subprocess.run([self.binary, self.version_flag], capture_output=True, text=True,
                             timeout=10, check=False)
        return ((out.stdout or out.stderr).strip().splitlines() or ["unknown"])[0]

    version_flag = "-v"

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


class Nginx(Proxy):
    name = "nginx"
    package = "nginx-light"

    CONFIG = """
{user}
daemon off;
master_process {master};
worker_processes 1;
worker_rlimit_nofile 8192;
pid {folder}/pid;
error_log stderr error;
events {{ worker_connections 4096; }}
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
        config = lab.write(f"nginx-{port}/nginx.conf", self.CONFIG.format(
            folder=folder, user=run_as(), paths=NGINX_PATHS.format(folder=folder), port=port,
            tls=tls, master="off" if single else "on", tls_port=upstream.tls_port, token=TOKEN,
            ca=upstream.ca, server_name=SERVER_NAME))
        return nginx_argv(folder, config)


class Haproxy(Proxy):
    name = "haproxy"
    package = "haproxy"

    # http-no-delay: without it HAProxy holds watch events back by up to 200 ms.
    CONFIG = """
global
    nbthread 1
    maxconn 2500
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
sni str({server_name}) ssl-min-ver TLSv1.2 pool-purge-delay 1h
"""

    # pylint: disable-next=too-many-arguments
    def argv(self, lab, upstream, port, tls_port=None, single=False):
        tls = (f"bind 127.0.0.1:{tls_port} backlog 4096 ssl crt {upstream.pair} "
               "ssl-min-ver TLSv1.2" if tls_port else "")
        config = lab.write(f"haproxy-{port}.cfg", self.CONFIG.format(
            port=port, tls=tls, token=TOKEN, ca=upstream.ca, server_name=SERVER_NAME,
            tls_port=upstream.tls_port))
        return [self.binary, "-db", "-q", "-f", config]


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
    version_flag = "--version"

    @staticmethod
    def write_kubeconfig(lab, upstream, folder):
        """Its path."""
        # JSON is YAML, and needs no library to write.
        kubeconfig = {
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {
                "server": f"https://127.0.0.1:{upstream.tls_port}",
                "certificate-authority": upstream.ca}}],
            "users": [{"name": "bench", "user": {"token": TOKEN}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}]}
        return lab.write(f"{folder}/kubeconfig", json.dumps(kubeconfig))

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
        return [self.binary,
                "--kubeconfig", self.write_kubeconfig(lab, upstream, folder),
                "--rules", lab.write(f"{folder}/rules.json", json.dumps(rules)),
                "--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0", *tls,
                "--state", lab.path(folder, "state"),  # as every installation has it
                "--ready-file", lab.path(folder, "ready.json"), *no_token(self.binary)]


class Baseline(Localproxy):
    """Another build of localproxy, an older one say."""

    name = "baseline"


# The first one that is measured is what the others are compared with.
PROXIES = [Nginx, Haproxy, Baseline, Localproxy]
