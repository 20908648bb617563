# SPDX-License-Identifier: Apache-2.0
"""Collections of a real API server are followed: what `reflect` (test/support) prints is always
enough to know what is there, whatever happens to the server, to etcd and to the way there.
"""

import json
import os
import random
import signal
import subprocess
import threading

import etcd
import harness
import relay

CHURN_OBJECTS = 60
CHURN_CHANGES = 600
SEED = int(os.environ.get("CMESH_E2E_SEED", random.randrange(1 << 30)))


class Follower:
    """A reflect process, and a cache that is kept as reflector.h says."""

    def __init__(self, folder, kubeconfig, path, *args):
        self.cache = {}
        self.stale = set()
        self.types = []
        self.objects = []
        self.errors = []
        self.stats = None
        self.lock = threading.Lock()
        self.log_path = os.path.join(folder, f"reflect-{next(harness.Run.counter)}.log")
        command = ["setpriv", "--pdeathsig", "KILL", harness.program("reflect", "test/support"), "--path", path]
        command += ["--kubeconfig", kubeconfig, *args]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=harness.clean_environment(), text=True,
            )  # fmt: skip
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.lock:
                self.take(json.loads(line))

    def take(self, event):
        kind = event["type"]
        self.types.append(kind)
        if kind == "list":
            self.stale = set(self.cache)
        elif kind == "synced":
            for key in self.stale:
                del self.cache[key]
            self.stale = set()
        elif kind == "state":
            self.errors.append(event["error"])
        elif kind == "stats":
            self.stats = event["stats"]
        else:
            self.take_object(kind, event["object"])

    def take_object(self, kind, item):
        metadata = item["metadata"]
        key = (metadata.get("namespace"), metadata["name"])
        self.objects.append((kind, item))
        self.stale.discard(key)
        if kind == "deleted":
            self.cache.pop(key, None)
        else:
            self.cache[key] = metadata["resourceVersion"]

    def view(self):
        with self.lock:
            return dict(self.cache)

    def count(self, kind):
        with self.lock:
            return self.types.count(kind)

    def error(self):
        with self.lock:
            return self.errors[-1] if self.errors else None

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Ends it as a program should, and returns what it counted."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("reflect does not end on SIGTERM") from None
        self.reader.join(20)
        self.process.stdout.close()
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            log = f.read()
        if code != 0 or harness.SANITIZER_REPORT.search(log):
            raise AssertionError(f"reflect exited with {code}:\n{log}")
        return self.stats


class ReflectorTestCase(harness.TestCase):
    def set_up_control_plane(self, control_plane):
        self.control_plane = control_plane
        self.kubectl = harness.Kubectl(self.folder, control_plane.kubeconfig)
        self.namespace = f"reflect-{os.getpid()}-{next(harness.Run.counter)}"
        namespaces = "/api/v1/namespaces"
        control_plane.json(namespaces, "POST", {"metadata": {"name": self.namespace}})
        self.addCleanup(control_plane.fetch, f"{namespaces}/{self.namespace}", "DELETE")
        self.path = f"{namespaces}/{self.namespace}/configmaps"

    def follow(self, *args, path=None, kubeconfig=None):
        kubeconfig = kubeconfig or self.control_plane.kubeconfig
        follower = Follower(self.folder, kubeconfig, path or self.path, *args)
        self.addCleanup(follower.stop)
        return follower

    def list(self, query=""):
        return self.control_plane.json(self.path + query)

    def truth(self, query=""):
        items = self.list(query)["items"]
        metadata = [item["metadata"] for item in items]
        return {(m["namespace"], m["name"]): m["resourceVersion"] for m in metadata}

    def expect_truth(self, follower, query=""):
        """The follower comes to know what is there, now that the test changes nothing any more."""

        def is_known():
            return follower.view() == self.truth(query)

        try:
            harness.wait_for(is_known, "the truth is known", 40, interval=0.05)
        except AssertionError:
            self.assertEqual(self.truth(query), follower.view())

    def create(self, *names, **labels):
        for name in names:
            thing = {"metadata": {"name": name, "labels": labels}, "data": {"n": "0"}}
            self.control_plane.json(self.path, "POST", thing)

    def change(self, name, value):
        self.control_plane.json(
            f"{self.path}/{name}", "PATCH", {"data": {"n": str(value)}},
            "application/merge-patch+json",
        )  # fmt: skip

    def delete(self, name):
        self.control_plane.json(f"{self.path}/{name}", "DELETE")

    def version(self):
        return self.list("?limit=1")["metadata"]["resourceVersion"]


class FollowTest(ReflectorTestCase):
    """On a server that works."""

    def setUp(self):
        super().setUp()
        self.set_up_control_plane(harness.cluster())
        # The controllers put a ConfigMap of their own into each namespace.
        harness.wait_for(self.truth, "the namespace is ready")

    def test_what_kubectl_does(self):
        self.create(*[f"c{i:03}" for i in range(30)])
        follower = self.follow("--page-size", "7")
        self.expect_truth(follower)
        self.kubectl("-n", self.namespace, "create", "configmap", "made", "--from-literal=a=b")
        self.expect_truth(follower)
        patch = '{"data":{"n":"7"}}'
        self.kubectl("-n", self.namespace, "patch", "configmap", "c003", "-p", patch)
        self.expect_truth(follower)
        self.kubectl("-n", self.namespace, "delete", "configmap", "c004", "c005", "made")
        self.expect_truth(follower)
        stats = follower.stop()
        self.assertEqual(1, stats["start"])
        self.assertGreaterEqual(stats["pages"], 5)
        self.assertEqual(1, stats["watches"])
        self.assertEqual(5, stats["events"])
        self.assertEqual(0, stats["failures"])

    def test_one_object(self):
        """By a user who may read nothing else."""
        user = f"reader-{self.namespace}"
        kubeconfig = self.control_plane.user_kubeconfig(self.folder, user)
        follower = self.follow("--name", "mine", kubeconfig=kubeconfig)
        harness.wait_for(lambda: "403 Forbidden" in (follower.error() or ""), "it is refused")
        role = ["create", "role", "r", "--verb=get,list,watch", "--resource=configmaps"]
        self.kubectl("-n", self.namespace, *role, "--resource-name=mine")
        binding = ["create", "rolebinding", "r", "--role=r", f"--user={user}"]
        self.kubectl("-n", self.namespace, *binding)
        query = "?fieldSelector=metadata.name%3Dmine"
        harness.wait_for(lambda: follower.count("synced"), "it is allowed")
        self.create("mine", "other")
        self.expect_truth(follower, query)
        self.assertEqual([(self.namespace, "mine")], list(follower.view()))
        self.delete("other")
        self.delete("mine")
        self.expect_truth(follower, query)
        harness.wait_for(lambda: follower.error() is None, "all is well")

    def test_labels(self):
        self.create("a", "b", app="foo")
        self.create("c", app="bar")
        follower = self.follow("--labels", "app in (foo)")
        query = "?labelSelector=app%3Dfoo"
        self.expect_truth(follower, query)
        self.kubectl("-n", self.namespace, "label", "--overwrite", "configmap", "a", "app=bar")
        self.kubectl("-n", self.namespace, "label", "--overwrite", "configmap", "c", "app=foo")
        self.expect_truth(follower, query)
        self.assertIn("deleted", follower.types)

    def test_metadata_only(self):
        self.create("a", "b")
        follower = self.follow("--metadata-only")
        self.expect_truth(follower)
        self.change("a", 1)
        self.expect_truth(follower)
        for _, item in follower.objects:
            self.assertNotIn("data", item)
            self.assertEqual("PartialObjectMetadata", item["kind"])

    def test_a_collection_that_is_not_there_yet(self):
        """As of a custom resource that is defined later."""
        group = f"g{os.getpid()}{next(harness.Run.counter)}.example.com"
        path = f"/apis/{group}/v1/things"
        follower = self.follow(path=path)
        harness.wait_for(lambda: "404" in (follower.error() or ""), "it is missing")
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [
                    {
                        "name": "v1", "served": True, "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                    }  # fmt: skip
                ],
            },
        }
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.control_plane.json(definitions, "POST", definition)
        self.addCleanup(self.control_plane.fetch, f"{definitions}/things.{group}", "DELETE")
        harness.wait_for(lambda: follower.count("synced"), "it is there", 60)
        thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}}
        harness.wait_for(
            lambda: self.control_plane.fetch(
                path, "POST", [("Content-Type", "application/json")], json.dumps(thing).encode()
            ).status == 201,
            "a thing is made",
        )  # fmt: skip
        harness.wait_for(lambda: (None, "t") in follower.view(), "the thing is known")


class TroubleTest(ReflectorTestCase):
    """On a server that restarts, before an etcd that forgets."""

    def setUp(self):
        super().setUp()
        self.set_up_control_plane(harness.disposable_cluster())

    def restart(self):
        self.control_plane.stop_apiserver()
        self.control_plane.start_apiserver()

    def test_the_server_restarts(self):
        self.create("a", "b", "c")
        follower = self.follow()
        self.expect_truth(follower)
        self.control_plane.stop_apiserver()
        harness.wait_for(follower.error, "the loss is told")
        self.assertIn("cannot watch https://", follower.error())
        self.control_plane.start_apiserver()
        self.delete("a")
        self.create("d")
        self.expect_truth(follower)
        harness.wait_for(lambda: follower.error() is None, "all is well again")

    def test_versions_that_are_forgotten(self):
        """While it is away: changes, a compaction, and a restart, after which the API server knows
        only what etcd does."""
        self.create("a", "b", "c")
        follower = self.follow()
        self.expect_truth(follower)
        follower.signal(signal.SIGSTOP)
        self.delete("a")
        self.change("b", 1)
        self.create("d")
        etcd.compact(self.control_plane, self.version())
        self.restart()
        self.change("c", 1)
        follower.signal(signal.SIGCONT)
        self.expect_truth(follower)
        stats = follower.stop()
        self.assertGreaterEqual(stats["expired"], 1)
        self.assertEqual(0, stats["malformed"])
        self.assertEqual(0, stats["refused"])

    def test_a_list_that_is_forgotten_half_way(self):
        self.create(*[f"c{i:03}" for i in range(120)])
        # A page takes about 1200 bytes.
        gate = relay.Gate(self.control_plane.address, 20_000)
        self.addCleanup(gate.close)
        with open(self.control_plane.kubeconfig, encoding="utf-8") as f:
            kubeconfig = f.read().replace(self.control_plane.address, gate.address)
        gated = os.path.join(self.folder, "gated")
        with open(gated, "w", encoding="utf-8") as f:
            f.write(kubeconfig)
        follower = self.follow("--page-size", "1", kubeconfig=gated)
        harness.wait_for(lambda: follower.count("listed") >= 3, "the list has begun")
        self.delete("c000")
        self.delete("c119")
        etcd.compact(self.control_plane, self.version())
        self.assertEqual(0, follower.count("synced"))
        gate.opened.set()
        self.expect_truth(follower)
        stats = follower.stop()
        self.assertGreaterEqual(stats["expired"], 1)
        self.assertGreaterEqual(follower.count("list"), 2)

    def test_churn(self):
        """Objects come, change and go, while the server restarts and etcd forgets."""
        pick = random.Random(SEED)
        print(f"CMESH_E2E_SEED={SEED}")
        followers = [self.follow(), self.follow("--page-size", "3", "--metadata-only")]
        there = set()
        trouble = sorted(pick.sample(range(50, CHURN_CHANGES), 4))
        for i in range(CHURN_CHANGES):
            name = f"c{pick.randrange(CHURN_OBJECTS):03}"
            if name not in there:
                self.create(name)
                there.add(name)
            elif pick.random() < 0.4:
                self.delete(name)
                there.remove(name)
            else:
                self.change(name, i)
            if i in trouble:
                etcd.compact(self.control_plane, self.version())
                self.restart()
        for follower in followers:
            self.expect_truth(follower)
            self.assertGreaterEqual(len(follower.errors), 1)
            stats = follower.stop()
            self.assertEqual(0, stats["malformed"])


if __name__ == "__main__":
    harness.main()
