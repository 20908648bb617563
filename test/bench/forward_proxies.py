# SPDX-License-Identifier: Apache-2.0
"""The forward proxies that `egress` compares, one class each.

Every one gets the same job: plain HTTP/1.1 in, requests in absolute form to whatever address they
name, over kept connections where it can, CONNECT where it can, nothing cached and nothing logged.
Each is at its defaults otherwise, and has as many connections as the machine's file limit lets."""

import json

import proxies
from lab import BenchError


class Squid(proxies.Proxy):
    """One process: workers would be more of them, each with a core."""

    name = "squid"
    package = "squid"
    tunnels = True

    # memory_pools and the rest stay as they are: what counts is what is used for tunnels.
    CONFIG = """
http_port 127.0.0.1:{port}
http_access allow all
cache deny all
access_log none
cache_store_log none
cache_log stdio:/dev/stderr
pid_filename none
netdb_filename none
coredump_dir /
pinger_enable off
via off
forwarded_for delete
max_filedescriptors {files}
shutdown_lifetime 0 seconds
visible_hostname bench
"""

    def forward_argv(self, lab, origins, port):
        config = lab.write(f"squid-{port}.conf", self.CONFIG.format(port=port, files=origins.files))
        return [self.binary, "-N", "-d", "0", "-f", config]


class Tinyproxy(proxies.Proxy):
    """A thread for each connection, and one for each request: it keeps none."""

    name = "tinyproxy"
    package = "tinyproxy"
    tunnels = True

    CONFIG = """
Port {port}
Listen 127.0.0.1
Timeout 600
MaxClients {clients}
LogLevel Critical
DisableViaHeader Yes
"""

    def forward_argv(self, lab, origins, port):
        config = lab.write(f"tinyproxy-{port}.conf",
                           self.CONFIG.format(port=port, clients=origins.files // 2))
        return [self.binary, "-d", "-c", config]


class Haproxy(proxies.Haproxy):
    """It has no CONNECT: it would pass it on to the server, which answers it. In absolute form it
    can be told to go where the URL says, as long as that is an address (names need a resolvers
    section)."""

    tunnels = False

    CONFIG = """
global
    nbthread 1
    maxconn 4000
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
    http-request set-dst url_ip
    http-request set-dst-port url_port
    http-request set-uri %[pathq]
    default_backend anywhere
backend anywhere
    server any 0.0.0.0:0 pool-purge-delay 1h
"""

    def forward_argv(self, lab, origins, port):
        del origins
        config = lab.write(f"haproxy-{port}.cfg", self.CONFIG.format(port=port))
        return [self.binary, "-db", "-q", "-f", config]


class Localproxy(proxies.Localproxy):
    """With rules and a traffic document, as an operator's has; one of its rules allows loopback,
    which is not reached otherwise."""

    tunnels = True

    def can_forward(self):
        return proxies.has_in_help(self.binary, "--egress=ADDR:PORT")

    @staticmethod
    def traffic(origins):
        allowed = {"name": "origins", "interceptType": "Whitelist", "contentType": "Normal",
                   "contents": origins.addresses, "methods": ["*"]}
        spec = {"selector": {}, "trafficInterceptRules": [allowed]}
        return {"apiVersion": "cmesh/v1", "kind": "ShardTraffic", "generation": 7,
                "shard": {"namespace": "operator-demo", "name": "sharding-demo"},
                "spec": {"breakers": [{"name": "bench", "spec": spec}], "faults": []}}

    def forward_argv(self, lab, origins, port):
        traffic = lab.write(f"traffic-{port}.json", json.dumps(self.traffic(origins)))
        return [*self.argv(lab, origins.upstream, lab.free_port()), "--traffic", traffic,
                "--egress", f"127.0.0.1:{port}",
                "--egress-max-tunnels", str(origins.tunnels + 100)]


class Baseline(Localproxy):
    """Another build of localproxy."""

    name = "baseline"


# The first one that is measured is what the others are compared with.
FORWARD_PROXIES = [Squid, Tinyproxy, Haproxy, Baseline, Localproxy]


def check_can_forward(proxy):
    if isinstance(proxy, Localproxy) and not proxy.can_forward():
        raise BenchError(f"{proxy.binary} has no --egress")
