# SPDX-License-Identifier: Apache-2.0
"""What metrics-server would serve, for the controller of HorizontalPodAutoscalers: written, of a kind that stands
in for it."""

import os
import threading
import time

import harness

GROUP = "metrics.k8s.io/v1beta1"
KIND = os.path.join(harness.ROOT, "examples", "adoption", "metrics.yaml")


class MetricsServer(threading.Thread):
    """The pods with a label `app` share the load, in thousandths of a CPU and MiB, as long as this runs."""

    def __init__(self, case, namespace, app, load):
        super().__init__(daemon=True)
        self.cluster = case.cluster
        case.kubectl("apply", "-f", KIND)
        case.addCleanup(case.kubectl.run, "delete", "--ignore-not-found", "-f", KIND)
        case.kubectl("wait", "--for=condition=Established", "crd/pods.metrics.k8s.io")
        self.pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app={app}"
        self.metrics = f"/apis/{GROUP}/namespaces/{namespace}/pods"
        self.app = app
        self.load = load
        self.error = None
        self.over = threading.Event()
        case.addCleanup(self.end)
        self.start()

    def run(self):
        try:
            while not self.over.wait(0.5):
                self.measure()
        except Exception as e:  # pylint: disable=broad-except
            self.error = e

    def measure(self):
        names = {
            pod["metadata"]["name"]
            for pod in self.cluster.json(self.pods)["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }
        known = {item["metadata"]["name"] for item in self.cluster.json(self.metrics)["items"]}
        for name in known - names:
            self.cluster.fetch(f"{self.metrics}/{name}", "DELETE")
        for name in names:
            share = self.load // len(names)
            thing = {
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "window": "1s",
                "containers": [{"name": "operator", "usage": {"cpu": f"{share}m", "memory": f"{share}Mi"}}],
            }
            if name in known:
                kind = "application/merge-patch+json"
                self.cluster.json(f"{self.metrics}/{name}", "PATCH", thing, kind)
            else:
                meta = {"name": name, "labels": {"app": self.app}}
                thing.update(apiVersion=GROUP, kind="PodMetrics", metadata=meta)
                self.cluster.json(self.metrics, "POST", thing)

    def end(self):
        self.over.set()
        self.join(30)
        if self.error is not None:
            raise AssertionError(f"metrics cannot be written: {self.error}")
