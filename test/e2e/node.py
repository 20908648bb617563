# SPDX-License-Identifier: Apache-2.0
"""A control plane with a node that runs pods (test/cluster, up --node), and images for it."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import harness
import images
import wire

sys.path.insert(0, os.path.dirname(images.BUILD))
# pylint: disable=wrong-import-position
import archive  # of k8s/images
import tree

UNABLE = 3  # exit code of `cluster`: no node on this machine
NODE = "--node=ipv6" if os.environ.get("CMESH_E2E_IPV6") else "--node"  # run --ipv6
TOOLS = "cmesh.test/tools:1"


class NodeCluster(harness.Cluster):
    """One that runs pods. Skips the tests that ask for it, with the reason, where it cannot."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="cmesh-e2e-node.")
        super().__init__()

    def start(self):
        build = subprocess.run(
            [harness.CLUSTER, "build", NODE], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        if build.returncode == UNABLE:
            shutil.rmtree(self.folder)
            raise unittest.SkipTest(build.stderr.decode().strip())
        command = [harness.CLUSTER, "run", NODE, "--"]
        command += ["sh", "-c", 'echo "$CLUSTER_DIR"; exec cat >/dev/null']
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, start_new_session=True, **pipes)
        directory = self.process.stdout.readline().strip()
        if not directory:
            raise RuntimeError(f"no node: exit {self.process.wait()}")
        return directory

    def stop(self):
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, *paths):
        subprocess.run([harness.CLUSTER, "load", self.directory, *paths], check=True)

    def load_programs(self):
        """Images of the programs under test: name -> Image."""
        made = images.build(os.path.join(self.folder, "images"))
        self.load(*(image.path for image in made.values()))
        return made

    def load_tools(self):
        """TOOLS: busybox and kubectl."""
        root = tree.Tree()
        busybox = shutil.which("busybox")
        root.copy(busybox, "/bin/busybox", 0o755)
        listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
        for name in listed.stdout.split():
            if name != "busybox":
                root.link(f"/bin/{name}", "busybox")
        root.copy(self.env["KUBECTL"], "/bin/kubectl", 0o755)
        root.directory("/tmp", 0o1777)
        machine = subprocess.run(
            ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
        ).stdout.strip()
        config = {
            "architecture": machine,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Env": ["PATH=/bin", "HOME=/tmp"]},
        }
        made = archive.Archive()
        made.image(*TOOLS.split(":"), config, [root], {})
        path = os.path.join(self.folder, "tools.tar")
        with open(path, "wb") as f:
            f.write(made.tar())
        self.load(path)

    def inside(self, *command):
        """Runs it in the node's namespaces: standard output."""
        return subprocess.run(
            [harness.CLUSTER, "inside", self.directory, *command],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def crash(self, name, process):
        """One of the cluster's processes is killed, and starts again."""
        pid, running = self.process_of(process)
        os.kill(pid, signal.SIGKILL)
        harness.wait_for(lambda: self.process_of(process)[1] != running, f"{name} is gone")
        subprocess.run([harness.CLUSTER, f"start-{name}", self.directory], check=True)

    def process_of(self, name):
        """Its id, and what tells it from all others; None when it has ended."""
        with open(os.path.join(self.directory, f"{name}.pid"), encoding="ascii") as f:
            pid = int(f.read().split()[0])
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
            threads = len(os.listdir(f"/proc/{pid}/task"))  # the last one gives up its ports
        except (FileNotFoundError, ProcessLookupError):
            return pid, None
        return pid, None if fields[0] == "Z" and threads <= 1 else fields[19]


class Exits:
    """How containers end, as containerd tells. The kubelet may remove one before it has looked at
    it, and then tells nothing, or 137."""

    SCRIPT = "ctr -a /run/containerd/containerd.sock -n k8s.io events & read -r _; kill $!"

    def __init__(self):
        command = [harness.CLUSTER, "inside", cluster().directory, "sh", "-c", self.SCRIPT]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        self.seen = 0
        self.codes = {}  # id of the container -> exit code
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            topic, _, event = line.partition(" k8s.io ")[2].partition(" ")
            if topic == "/tasks/exit":
                event = json.loads(event)
                if event["id"] == event["container_id"]:  # not of an exec
                    self.codes[event["id"]] = event.get("exit_status", 0)
            self.seen += 1

    def stop(self):
        self.process.stdin.close()
        self.thread.join(30)
        self.process.wait(30)
        self.process.stdout.close()


class Once:
    """What lives as long as the test process."""

    cluster = None


def cluster():
    if Once.cluster is None:
        Once.cluster = NodeCluster()
        atexit.register(Once.cluster.stop)
    return Once.cluster


class Kubectl(harness.Kubectl):
    """kubectl as administrator of the cluster with a node."""

    def __init__(self, folder):  # pylint: disable=super-init-not-called
        self.folder = folder
        self.program = cluster().env["KUBECTL"]
        self.base = ["--cache-dir", os.path.join(folder, "cache")]
        self.base += ["--kubeconfig", cluster().kubeconfig]


class TestCase(harness.TestCase):
    """With the cluster, kubectl, and a look at what failed."""

    def setUp(self):
        super().setUp()
        self.cluster = cluster()
        self.kubectl = Kubectl(self.folder)

    def apply(self, *manifests):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
        self.kubectl("apply", "-f", "-", stdin=text)

    def pods(self, namespace, selector):
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
        return self.cluster.json(path)["items"]

    def wait_ready(self, namespace, selector, count, timeout=240):
        """All of them, and no other that is about to go."""

        def ready():
            found = self.pods(namespace, selector)
            return len(found) == count and all(map(is_ready, found)) and found

        try:
            return harness.wait_for(ready, f"{count} pods of {selector} are ready", timeout, 0.2)
        except AssertionError as error:
            raise AssertionError(f"{self.describe(namespace, selector)}\n{error}") from None

    def describe(self, namespace, selector):
        """What a person would look at."""
        text = self.kubectl("-n", namespace, "describe", "pods", "-l", selector)[-6000:]
        for pod in self.pods(namespace, selector):
            for status in pod["status"].get("initContainerStatuses", []) + pod["status"].get(
                "containerStatuses", []
            ):
                name = pod["metadata"]["name"]
                args = ("-n", namespace, "logs", "--tail=15", name, "-c", status["name"])
                text += f"\n--- {name} {status['name']}\n" + "".join(self.kubectl.run(*args)[1:])
        return text


def is_ready(pod):
    conditions = pod["status"].get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def proxy_status(pod):
    """/status of the localproxy in a pod, which this machine can reach."""
    return json.loads(wire.fetch(f"{pod['status']['podIP']}:5441", "/status").body)


def enforced_generation(pod):
    return (proxy_status(pod).get("rules") or {}).get("generation", 0)


def kill_in_pod(namespace, pod, name):
    """The process of that name in a pod, once there is one and no other: what starts a container
    may run the same program."""
    uid = cluster().json(f"/api/v1/namespaces/{namespace}/pods/{pod}")["metadata"]["uid"]
    script = 'for p in $(pgrep -x "$0"); do ! grep -qs "$1" "/proc/$p/cgroup" || echo "$p"; done'

    def found():
        pids = cluster().inside("sh", "-c", script, name, uid).split()
        return len(pids) == 1 and pids

    (pid,) = harness.wait_for(found, f"one {name} in {pod}", interval=0.1)
    cluster().inside("kill", "-KILL", pid)


def container_ids(pod):
    """name -> id, as containerd has it."""
    return {
        status["name"]: status["containerID"].rpartition("/")[2]
        for status in pod["status"]["containerStatuses"]
    }


def percentile(values, share):
    """The smallest that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]
