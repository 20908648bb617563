# SPDX-License-Identifier: Apache-2.0
"""A real API server to measure: what it was asked, and the CPU that it took.

The control plane and the real clients are those of the end-to-end tests.
"""

import contextlib
import json
import os
import sys
import threading

from build import ROOT
from lab import BenchError
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
TICKS = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 4


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
    """Started for this run, or the one that CMESH_E2E_CLUSTER_DIR names. A context manager."""

    def __init__(self):
        self.cleanups = contextlib.ExitStack()
        self.cluster = harness.Cluster(os.environ.get("CMESH_E2E_CLUSTER_DIR"))
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

    def cpu_seconds(self, name):
        """User and system, of "kube-apiserver" or "etcd"."""
        with open(os.path.join(self.cluster.directory, f"{name}.pid"), encoding="ascii") as f:
            pid = f.read().split()[0]
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
