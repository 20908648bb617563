# SPDX-License-Identifier: Apache-2.0
"""The API server of the benchmark: nginx with TLS in front of recorded answers and watch_source.

Besides pods it has any number of resources of a group of its own, for reloads: each is a collection
of the same few objects, of which every list at an exact version gives the same two: so whatever a
change of the rules concerns, it gains two objects and loses two.
"""

import dataclasses
import gzip
import json
import os
import pwd
import random
import resource
import socket
import uuid

from build import HERE
from lab import BenchError, connections_to, find_binary

SERVER_NAME = "kubernetes.default.svc"
# As long as a service account's.
TOKEN = "bench-token-of-a-service-account" * 34
POD = "/api/v1/namespaces/default/pods/web-0"
LIST = "/api/v1/pods?limit=500&resourceVersion=0"
LIST_BYTES = 1_000_000
LARGE_LIST = "/api/v1/pods?resourceVersion=0"
LARGE_LIST_ITEMS = 10_000
HUGE_LIST = "/api/v1/pods?limit=50000&resourceVersion=0"
HUGE_LIST_BYTES = 50_000_000
STREAMS = 100  # of one HTTP/2 connection, as kube-apiserver has it
GROUP = "bench.cmesh.example"
COLLECTION_ITEMS = 20
DIFFERENCE_ITEMS = 2


def watch_target(events_per_second, events=0):
    """From after the list: localproxy lets go on from there who has listed before. Of so many events,
    until the server is asked for more, if a number is given."""
    return ("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=184214"
            f"&timeoutSeconds=600&eventsPerSecond={events_per_second}"
            + (f"&events={events}" if events else ""))


@dataclasses.dataclass
class Target:
    """What a proxy must know of a server that it stands before."""

    tls_port: int
    ca: str  # the path of its authority
    token: str
    server_name: str
    pair: str = None  # certificate and key in one file, for proxies that listen over TLS, too
    certificate: str = None
    key: str = None
    clients: int = 0  # connections from clients at a time, where it is more than a thousand


def file_limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_for(clients):
    """nginx's worker_connections: two for each, and so many that it does not begin to close those
    that wait for a request, which it does when a sixteenth is left."""
    return clients * 9 // 4 + 512


def run_as():
    """nginx started by root would give its workers to another user, who cannot read our files."""
    return f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""


# Temporary files of nginx must not land in /var, which only root may write.
NGINX_PATHS = """
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
"""

CONFIG = """
{user}
daemon off;
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/pid;
error_log stderr error;
events {{ worker_connections {connections}; }}
http {{
    {paths}
    http2_max_concurrent_streams {streams};
    http2_chunk_size 16k;
    tcp_nodelay on;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    etag off;
    max_ranges 0;
    types {{ }}
    default_type application/json;
    add_header Last-Modified "";
    add_header Audit-Id "c3f5e3f2-58c5-4b0c-a8ff-52b0d80f6f7e";
    add_header Cache-Control "no-cache, private";
    add_header X-Kubernetes-Pf-Flowschema-Uid "7d1c3f0e-4b1d-4a55-9a52-0f7f1b1d6a10";
    add_header X-Kubernetes-Pf-Prioritylevel-Uid "2a8f6f6b-7a0e-4c39-8f4e-3f6a0c9f5f21";
    map $arg_watch:$arg_limit $pods {{
        default /_list;
        ~^(true|1): /_watch;
        : /_large_list;
        :50000 /_huge_list;
    }}
    map $arg_watch:$arg_resourceVersionMatch $objects {{
        default /_collection;
        true: /_watch;
        :Exact /_difference;
    }}
    upstream source {{ server {source}; }}
    ssl_certificate {folder}/server.crt;
    ssl_certificate_key {folder}/server.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:tls:4m;
    ssl_session_timeout 1h;
    server {{
        listen 127.0.0.1:{tls_port} ssl http2 backlog=4096;
        if ($http_authorization != "Bearer {token}") {{ return 401; }}
        include {folder}/locations;
    }}
    map $connection_requests $is_first {{ 1 1; }}
    log_format handshakes "$connection $ssl_session_reused";
    server {{
        listen 127.0.0.1:{counted_port} ssl http2 backlog=4096;
        if ($http_authorization != "Bearer {token}") {{ return 401; }}
        access_log {folder}/handshakes handshakes if=$is_first;
        include {folder}/locations;
    }}
    server {{
        listen 127.0.0.1:{plain_port} backlog=4096;
        include {folder}/locations;
    }}
}}
"""

LOCATIONS = """
location = {pod} {{ alias {folder}/pod.json; }}
location = /api/v1/pods {{ rewrite ^ $pods last; }}
location = /_list {{
    internal;
    gzip_static on;
    gzip_proxied any;
    alias {folder}/list.json;
}}
location = /_large_list {{
    internal;
    gzip_static on;
    gzip_proxied any;
    alias {folder}/large_list.json;
}}
location = /_huge_list {{ internal; alias {folder}/huge_list.json; }}
location ^~ /apis/{group}/ {{ rewrite ^ $objects last; }}
location = /_collection {{ internal; alias {folder}/collection.json; }}
location = /_difference {{ internal; alias {folder}/difference.json; }}
location = /_watch {{
    internal;
    proxy_pass http://source/api/v1/pods;
    proxy_http_version 1.1;
    proxy_buffering off;
    proxy_read_timeout 1h;
}}
"""


def make_certificates(lab, folder):
    """A P-256 authority and a server certificate that it signed, good for two days."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    lab.write("upstream/extensions",
              f"subjectAltName=DNS:{SERVER_NAME},IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"
              "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n")
    lab.run(["openssl", "req", "-x509", *curve, "-days", "2", "-subj", "/CN=bench authority",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign",
             "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.crt"])
    lab.run(["openssl", "req", "-new", *curve, "-subj", "/CN=bench server",
             "-keyout", f"{folder}/server.key", "-out", f"{folder}/server.csr"])
    lab.run(["openssl", "x509", "-req", "-days", "2", "-in", f"{folder}/server.csr",
             "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key", "-CAcreateserial",
             "-extfile", f"{folder}/extensions", "-out", f"{folder}/server.crt"])
    pair = []
    for name in ("server.crt", "server.key"):
        with open(f"{folder}/{name}", encoding="ascii") as f:
            pair.append(f.read())
    lab.write("upstream/server.pem", "".join(pair))


def make_list(pod, least_bytes=LIST_BYTES, least_items=0):
    """Pods that differ in what differs in a cluster, until there are so many bytes and so many
    pods; always the same bytes."""
    rng = random.Random(1)
    text = json.dumps(pod)
    uid, ip = pod["metadata"]["uid"], pod["status"]["podIP"]
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    items, size = [], 0
    while size < least_bytes or len(items) < least_items:
        n = len(items)
        item = json.loads(text.replace("web-0", f"web-{n}")
                          .replace(uid, str(uuid.UUID(int=rng.getrandbits(128), version=4)))
                          .replace(container, "%064x" % rng.getrandbits(256))
                          .replace(ip, f"198.51.{n // 250}.{n % 250 + 1}")
                          .replace("node-1", f"node-{rng.randrange(50)}")
                          .replace("T08:21:", "T%02d:%02d:" % (n // 60 % 24, n % 60)))
        del item["kind"], item["apiVersion"]
        item["metadata"]["resourceVersion"] = str(rng.randrange(100000, 184213))
        items.append(item)
        size += len(json.dumps(item, separators=(",", ":"))) + 1
    return json.dumps({"kind": "PodList", "apiVersion": "v1",
                       "metadata": {"resourceVersion": "184213"}, "items": items},
                      separators=(",", ":")).encode() + b"\n"


def compress(text):
    """As kube-apiserver does it: with level 1."""
    return gzip.compress(text, 1, mtime=0)


def make_collection(pod, count):
    """`count` objects of one KB, as a list."""
    items = []
    for n in range(count):
        item = {"metadata": {**pod["metadata"], "name": f"thing-{n}",
                             "resourceVersion": str(100000 + n)}, "spec": {"text": "x" * 300}}
        items.append(item)
    return json.dumps({"kind": "ThingList", "apiVersion": f"{GROUP}/v1",
                       "metadata": {"resourceVersion": "184213"}, "items": items},
                      separators=(",", ":")).encode() + b"\n"


class Upstream:
    """Started once; every proxy and every round talks to the same one. It is a Target, and has
    another one, which notes the handshake of each connection on which something is asked."""

    token = TOKEN
    server_name = SERVER_NAME
    clients = 0

    def __init__(self, lab, tools):
        self.folder = lab.path("upstream")
        self.ca = f"{self.folder}/ca.crt"
        self.pair = f"{self.folder}/server.pem"
        self.certificate = f"{self.folder}/server.crt"
        self.key = f"{self.folder}/server.key"
        self.tls_port = lab.free_port()
        self.counted_port = lab.free_port()
        self.plain_port = lab.free_port()
        with open(f"{HERE}/data/pod.json", encoding="utf-8") as f:
            self.pod = f.read()
        pod = json.loads(self.pod)
        self.list = make_list(pod)
        self.large_list = self.large_list_gzip = self.huge_list = b""
        lab.write("upstream/collection.json", make_collection(pod, COLLECTION_ITEMS))
        lab.write("upstream/difference.json", make_collection(pod, DIFFERENCE_ITEMS))
        lab.write("upstream/pod.json", self.pod)
        lab.write("upstream/list.json", self.list)
        self.list_gzip = compress(self.list)
        lab.write("upstream/list.json.gz", self.list_gzip)
        make_certificates(lab, self.folder)
        source = lab.spawn("watch_source",
                           [f"{tools}/watch_source", "--event", f"{HERE}/data/event.json"])
        self.source = source.next_json(5)["listen"]
        self.start_nginx(lab)

    def more_events(self, count):
        """So many for each open watch that was promised a number of them."""
        host, port = self.source.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=10) as s:
            s.sendall(f"GET /more?events={count} HTTP/1.1\r\nHost: source\r\n\r\n".encode())
            if not s.recv(64).startswith(b"HTTP/1.1 200"):
                raise BenchError("watch_source gives no more events")

    def add_large_list(self, lab):
        """Takes a second or two to make: for those only who ask for LARGE_LIST."""
        self.large_list = make_list(json.loads(self.pod), least_items=LARGE_LIST_ITEMS)
        self.large_list_gzip = compress(self.large_list)
        lab.write("upstream/large_list.json", self.large_list)
        lab.write("upstream/large_list.json.gz", self.large_list_gzip)

    def add_huge_list(self, lab):
        """The same pods again and again: for those only who ask for HUGE_LIST."""
        head, items = self.list.rstrip()[:-2].split(b"[", 1)
        times = HUGE_LIST_BYTES // len(items) + 1
        self.huge_list = head + b"[" + b",".join([items] * times) + b"]}\n"
        lab.write("upstream/huge_list.json", self.huge_list)

    def target(self, port=None, clients=0):
        """As a Target; on another port than `tls_port`, and of so many clients."""
        return Target(port or self.tls_port, self.ca, TOKEN, SERVER_NAME, self.pair,
                      self.certificate, self.key, clients)

    def handshakes(self):
        """Of connections to `counted_port`, one word for each: "." for a full one, "r" for a resumed
        one. A connection counts once its first request is answered."""
        with open(f"{self.folder}/handshakes", encoding="ascii") as f:
            return [line.split()[1] for line in f]

    def connections(self, port=None):
        """How many are open to the server."""
        return connections_to(port or self.tls_port)

    def start_nginx(self, lab):
        folder = self.folder
        lab.write("upstream/locations", LOCATIONS.format(folder=folder, pod=POD, group=GROUP))
        config = lab.write("upstream/nginx.conf", CONFIG.format(
            folder=folder, user=run_as(), paths=NGINX_PATHS.format(folder=folder), token=TOKEN,
            source=self.source, tls_port=self.tls_port, plain_port=self.plain_port,
            counted_port=self.counted_port, streams=STREAMS, files=file_limit(),
            connections=connections_for(file_limit() // 2)))
        binary = find_binary("nginx")
        if binary is None:
            raise BenchError("nginx is missing")
        self.process = lab.spawn("upstream", nginx_argv([binary], folder, config))

    def cpu_ns(self):
        """Of the server's processes: a proxy has got an answer before."""
        if len(self.process.pids) == 1:
            self.process.find_workers()
        return self.process.cpu_ns()


def nginx_argv(command, folder, config):
    return [*command, "-p", folder, "-e", "stderr", "-c", config]
