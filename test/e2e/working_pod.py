# SPDX-License-Identifier: Apache-2.0
"""Pods that work all the time: real sidecars, a user of their own, and an operator that lists what it is
shown and writes to each of it, so that the API server's audit log tells who worked on what."""

import itertools
import json
import os
import signal
import threading
import time

import audit
import harness
import mesh
import wire

KEY = mesh.GROUP + "/namespace"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Worker(threading.Thread):
    """An operator: no cache, so that what it does was shown to it a moment ago."""

    def __init__(self, proxy):
        super().__init__(daemon=True)
        self.proxy = proxy
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.02):
            try:
                self.work()
            except (OSError, wire.Cut, ValueError):
                pass  # it ends, or has no rules

    def work(self):
        answer = self.proxy.fetch("/api/v1/configmaps?labelSelector=owned")
        items = json.loads(answer.body)["items"] if answer.status == 200 else []
        for item in items:
            meta = item["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/configmaps/{meta['name']}"
            body = json.dumps({"data": {"at": str(time.time())}}).encode()
            kind = [("Content-Type", "application/merge-patch+json")]
            if not self.over.is_set():
                self.proxy.fetch(path, "PATCH", kind, body)

    def end(self):
        self.over.set()
        self.join(30)


class WorkingPod(mesh.Pod):
    """Some tell what they enforce by a Lease; of these some cannot be asked."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, case, name, of, labels=None, tells=False, reachable=True):
        super().__init__(case, name, {"shard": of} if labels is None else labels, of)
        self.tells = tells
        if not reachable:
            self.reached_at = mesh.new_address()  # nobody is there
        self.user = f"{name}.{os.getpid()}.{next(harness.Run.counter)}"
        self.kubeconfig = case.cluster.user_kubeconfig(self.folder, self.user)
        self.worker = None
        allow(case, self.user)

    def start(self):
        super().start()
        self.worker = Worker(self.proxy)
        return self

    def stop(self):
        if self.worker is not None:
            self.worker.end()
            self.worker = None
        super().stop()

    def die(self):
        """As with its node, which is then known to be gone."""
        if self.proxy is not None:
            self.stop_proxy(signal.SIGKILL)
        self.stop()
        self.delete()


def allow(case, user):
    """It may do everything, for as long as the test runs."""
    name = f"owned-{user}"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }  # fmt: skip
    if case.cluster.fetch(RBAC).status == 404:
        return  # an API server that lets everybody do everything
    case.cluster.json(f"{RBAC}/clusterrolebindings", "POST", binding)
    case.addCleanup(case.cluster.fetch, f"{RBAC}/clusterrolebindings/{name}", "DELETE")


class Writes:
    """What pods wrote, by the audit log. `shards`: of each pod's user the shard, by that time."""

    def __init__(self, case, shards):
        self.log = audit.Log(case.cluster.env["CLUSTER_AUDIT_LOG"], f".{os.getpid()}.")
        self.shards = shards
        self.seen = []  # of each entry there, the write that it is

    def all(self):
        """The pod of each is its user here."""
        for entry in self.log.entries()[len(self.seen):]:
            user = entry["user"]["username"]
            write = entry["verb"] in audit.WRITES and user in self.shards
            self.seen.append(audit.write_of(entry, user, self.shards[user]) if write else None)
        return sorted(filter(None, self.seen), key=lambda write: write.came)

    def soon(self, space, users, since, seconds):
        """Waits until one of them wrote there since then."""

        def works():
            recent = itertools.takewhile(lambda w: w.came > since, reversed(self.all()))
            return any(w.pod in users and w.namespace == space and w.ok() for w in recent)

        harness.wait_for(works, f"{sorted(users)} work in {space}", seconds, 0.2)
