# SPDX-License-Identifier: Apache-2.0
"""A real API server to measure: what it was asked, and the CPU that it took.

The control plane and the real clients are those of the end-to-end tests.
"""

import contextlib
import json
import os
import sys
import threading
import time

from build import ROOT
from lab import BenchError, connections_to, status_kib
from reloading import NAMESPACE_LABEL

# Behind this folder: no module of one has the name of one of the other.
sys.path.append(os.path.join(ROOT, "test", "e2e"))

# pylint: disable=wrong-import-position,import-error
import harness
import real_clients
import resources
import wire

__all__ = ["ControlPlane", "each", "real_clients", "resources"]

LOCALPROXY = "cmesh-localproxy"
RBAC = "rbac.authorization.k8s.io"
TICKS = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 4
SETTLE_LIMIT = 30
SETTLED = 0.005  # of the memory, from one second to the next


def each(cluster, requests):
    """Sends (method, path, headers, thing) over several connections at a time."""
    pending, lock, failures = iter(requests), threading.Lock(), []

    def work():
        with wire.Connection(cluster.address, tls=cluster.tls) as connection:
            while not failures:
                with lock:
                    request = next(pending, None)
                if request is None:
                    return
                method, path, headers, thing = request
                answer = connection.request(method, path, headers, json.dumps(thing).encode())
                if answer.status >= 300:
                    failures.append(f"{method} {path}: {answer}")

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise BenchError(failures[0])


class ControlPlane:
    """Started for this run, or the one that CMESH_E2E_CLUSTER_DIR names, unless it must be one's
    `own`. A context manager."""

    def __init__(self, own=False):
        self.cleanups = contextlib.ExitStack()
        self.cluster = harness.Cluster(None if own else os.environ.get("CMESH_E2E_CLUSTER_DIR"))
        self.cleanups.callback(self.cluster.stop)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.cleanups.close()

    @property
    def kubeconfig(self):
        return self.cluster.kubeconfig

    def fill(self, kinds, namespaces, count, size):
        """New namespaces with `count` objects of `size` bytes of each kind in each; their names."""
        names = [harness.make_namespace(self.cluster, f"bench-{n}", self.cleanups.callback)
                 for n in range(namespaces)]
        with wire.Connection(self.cluster.address, tls=self.cluster.tls) as connection:
            for name in names:
                for kind in kinds:
                    for n in range(count):
                        self.create(connection, kind, name, f"thing-{n}", size)
        return names

    @staticmethod
    def create(connection, kind, namespace, name, size):
        thing = resources.body(kind, name, {NAMESPACE_LABEL: namespace})
        thing["metadata"]["annotations"] = {"text": "x" * size}
        answer = connection.request("POST", resources.path(kind, namespace),
                                    [("Content-Type", "application/json")],
                                    json.dumps(thing).encode())
        if answer.status != 201:
            raise AssertionError(f"cannot create {namespace}/{name}: {answer}")

    # ---- who asks it, and for what ----

    @property
    def port(self):
        return int(self.cluster.address.rpartition(":")[2])

    @property
    def authority(self):
        return self.cluster.env["CLUSTER_CA"]

    def new_token(self):
        """Of a service account that may do all."""
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self.cluster.json(accounts, "POST", {"metadata": {"name": "bench"}})
        self.cluster.json(f"/apis/{RBAC}/v1/clusterrolebindings", "POST", {
            "metadata": {"name": "bench"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "bench", "namespace": "default"}]})
        return self.cluster.json(f"{accounts}/bench/token", "POST",
                                 {"spec": {"expirationSeconds": 7200}})["status"]["token"]

    def watchable(self, count):
        """As many of its resources as the Go clients name them: GROUP/VERSION/RESOURCE."""
        groups = self.cluster.json("/apis")["groups"]
        versions = ["", *(group["preferredVersion"]["groupVersion"] for group in groups)]
        found = []
        for version in versions:
            path = f"/apis/{version}" if version else "/api/v1"
            found += [f"{version}/{resource['name']}".lstrip("/")
                      for resource in self.cluster.json(path)["resources"]
                      if {"list", "watch"} <= set(resource["verbs"])]
        if len(found) < count:
            raise BenchError(f"the API server has {len(found)} resources to watch, not {count}")
        return found[:count]

    # ---- what it was asked ----

    def audit_mark(self):
        return os.path.getsize(self.cluster.env["CLUSTER_AUDIT_LOG"])

    def requests(self, mark, plurals):
        """verb -> how many requests for these resources came since `mark`; under "own" those of
        them that localproxy made by itself."""
        found = {"list": 0, "watch": 0, "own": 0}
        with open(self.cluster.env["CLUSTER_AUDIT_LOG"], "rb") as f:
            f.seek(mark)
            for line in f:
                event = json.loads(line)
                verb, agent = event["verb"], event.get("userAgent", "")
                # A watch is told of when it begins, others when they end.
                stage = "ResponseStarted" if verb == "watch" else "ResponseComplete"
                if (event["stage"] == stage and verb in found and
                        event.get("objectRef", {}).get("resource") in plurals and
                        not agent.startswith(("kube-", "etcd"))):
                    found[verb] += 1
                    found["own"] += agent.startswith(LOCALPROXY)
        return found

    # ---- what it took ----

    def pid(self, name):
        with open(os.path.join(self.cluster.directory, f"{name}.pid"), encoding="ascii") as f:
            return int(f.read().split()[0])

    def cpu_seconds(self, name):
        """User and system, of "kube-apiserver" or "etcd"."""
        with open(f"/proc/{self.pid(name)}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def collect_garbage(self):
        answer = self.cluster.fetch("/debug/pprof/heap?gc=1")
        if answer.status != 200:
            raise BenchError(f"the API server does not collect its garbage: {answer.status}")

    def settle(self):
        """Until its memory is what it needs, or for half a minute: Go gives it back bit by bit."""
        last, still = 0, 0
        for _ in range(SETTLE_LIMIT):
            self.collect_garbage()
            time.sleep(1)
            now = status_kib(self.pid("kube-apiserver"), "VmRSS:")
            still = still + 1 if abs(now - last) < last * SETTLED else 0
            last = now
            if still == 3:
                return

    def state(self):
        """Of the API server: KiB, connections, seconds of CPU."""
        used = self.cpu_seconds("kube-apiserver")
        lines = self.cluster.fetch("/metrics").body.decode().splitlines()
        values = dict(line.split() for line in lines if line.startswith("go_"))
        return {"cpu": used, "connections": connections_to(self.port),
                "goroutines": float(values["go_goroutines"]),
                "heap": float(values["go_memstats_heap_alloc_bytes"]) / 1024,
                "stacks": float(values["go_memstats_stack_inuse_bytes"]) / 1024,
                "rss": status_kib(self.pid("kube-apiserver"), "VmRSS:")}
