# SPDX-License-Identifier: Apache-2.0
"""Namespaces and objects get their control labels from a running manager whose webhook is away: at
start, afterwards, after restarts; and `manager unlabel` takes them away again.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

import harness
import wire

PREFIX = "ctrlmesh.kusionstack.io"
SYSTEM = {"kube-system", "kube-public", "kube-node-lease"}
KINDS = {"v1": ["ConfigMap", "Secret"], "apps/v1": ["*"]}
MERGE = "application/merge-patch+json"
CREATED = 100

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.labels.example.com}
spec:
  group: labels.example.com
  names: {plural: things, singular: thing, kind: Thing}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def hash_of(namespace):
    number = 0
    for c in namespace:
        number = (number * 33 + ord(c)) % 32
    return str(number)


def labels_of(namespace, prefix=PREFIX, shard_hash="sharding-hash"):
    return {
        f"{prefix}/namespace": namespace,
        f"{prefix}/{shard_hash}": hash_of(namespace),
        f"{prefix}/control": "true",
    }


class Manager:
    """A manager process without webhooks and without election."""

    def __init__(self, test, *args, kinds=KINDS, kubeconfig=None):
        number = next(harness.Run.counter)
        self.ready_file = test.path(f"manager-{number}.json")
        self.log_path = test.path(f"manager-{number}.log")
        self.expected = 0
        resources = test.path(f"resources-{number}.json", json.dumps({"groupVersionKinds": kinds}))
        kubeconfig = kubeconfig or harness.cluster().kubeconfig
        command = ["setpriv", "--pdeathsig", "KILL", harness.program("manager")]
        command += ["--kubeconfig", kubeconfig, "--namespace", "cmesh-system", "--webhook", "off"]
        command += ["--leader-elect=false", "--admin", "127.0.0.1:0"]
        command += ["--ready-file", self.ready_file, "--sharding-resources", resources, *args]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=harness.clean_environment()
            )
        test.addCleanup(self.stop)
        self.admin = self.wait_listening()

    def wait_listening(self):
        def look():
            if self.process.poll() is not None:
                raise AssertionError(f"manager ended: {self.process.returncode}\n{self.log()}")
            return os.path.exists(self.ready_file)

        harness.wait_for(look, "the manager listens")
        with open(self.ready_file, encoding="utf-8") as f:
            return json.load(f)["admin"]

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def status(self):
        return json.loads(wire.fetch(self.admin, "/status").body).get("labels", {})

    def metrics(self):
        text = wire.fetch(self.admin, "/metrics").body.decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    def metric(self, name, **labels):
        inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
        found = self.metrics()
        return found.get(f"cmesh_manager_label_{name}{{{inside}}}" if inside else
                         f"cmesh_manager_label_{name}", 0)  # fmt: skip

    def wait_settled(self, timeout=120):
        """All is labelled and was checked, and nothing is to be done."""

        def look():
            status = self.status()
            return status.get("checked") and status["pending"] == 0 and status

        return harness.wait_for(look, f"all is labelled; {self.log()[-2000:]}", timeout)

    def kill(self):
        self.expected = -signal.SIGKILL
        self.process.kill()
        self.process.wait(20)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the manager does not end on SIGTERM:\n{self.log()}") from None
        if code != self.expected or harness.SANITIZER_REPORT.search(self.log()):
            raise AssertionError(f"the manager exited with {code}:\n{self.log()}")


class LabelsTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.addCleanup(self.unlabel, "--all-resources", "--label-qps", "10000")

    def manager(self, *args, **more):
        return Manager(self, *args, **more)

    def unlabel(self, *args):
        """Exit code and log of `manager unlabel`."""
        command = [harness.program("manager"), "unlabel", "--kubeconfig", self.cluster.kubeconfig]
        done = subprocess.run(
            [*command, *args], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120,
            env=harness.clean_environment(), text=True, check=False,
        )  # fmt: skip
        self.assertIsNone(harness.SANITIZER_REPORT.search(done.stderr), done.stderr)
        return done.returncode, done.stderr

    def namespace(self):
        return harness.make_namespace(self.cluster, "labels", self.addCleanup)

    def maps(self, namespace):
        return f"/api/v1/namespaces/{namespace}/configmaps"

    def create(self, namespace, name, labels=None, cluster=None):
        thing = {"metadata": {"name": name, "labels": labels or {}}}
        return (cluster or self.cluster).json(self.maps(namespace), "POST", thing)

    def create_many(self, namespace, count):
        body = {"metadata": {}}
        with wire.Connection(self.cluster.address, tls=self.cluster.tls) as connection:
            for n in range(count):
                body["metadata"]["name"] = f"map-{n}"
                answer = connection.request(
                    "POST", self.maps(namespace), [("Content-Type", "application/json")],
                    json.dumps(body).encode(),
                )  # fmt: skip
                self.assertEqual(201, answer.status, answer)

    def patch(self, path, patch):
        return self.cluster.json(path, "PATCH", patch, content_type=MERGE)

    def metadata(self, path):
        return self.cluster.json(path)["metadata"]

    def labels(self, path):
        labels = self.metadata(path).get("labels", {})
        labels.pop("kubernetes.io/metadata.name", None)  # API servers give it since 1.21
        return labels

    @staticmethod
    def keys_of(item):
        """Of the labels that a manager gives."""
        return [key for key in item["metadata"].get("labels", {}) if key.startswith(PREFIX)]

    def wait_labels(self, path, expected):
        harness.wait_for(lambda: self.labels(path) == expected, f"the labels of {path}")

    def items(self, path):
        return self.cluster.json(path)["items"]

    def unlabelled(self, path):
        return [
            item["metadata"]["name"]
            for item in self.items(path)
            if item["metadata"].get("labels", {}).get(f"{PREFIX}/control") != "true"
        ]

    def audit_mark(self):
        return os.path.getsize(self.cluster.env["CLUSTER_AUDIT_LOG"])

    def audit(self, mark):
        """What managers have asked for since then: (verb, URI) of each request that was answered;
        of a watch, that was ended."""
        with open(self.cluster.env["CLUSTER_AUDIT_LOG"], "rb") as f:
            f.seek(mark)
            events = [json.loads(line) for line in f.read().rpartition(b"\n")[0].splitlines()]
        return [
            (event["verb"], event["requestURI"])
            for event in events
            if event["stage"] == "ResponseComplete"
            and not event.get("userAgent", "").startswith(("kube-", "etcd"))
        ]


class StartTest(LabelsTestCase):
    def test_labels_what_is_there(self):
        namespace = self.namespace()
        self.create_many(namespace, 700)  # more than a page
        self.create(namespace, "wrong", {f"{PREFIX}/namespace": "x", f"{PREFIX}/control": "true"})
        self.create(namespace, "kept", {"app": "x"})
        manager = self.manager("--label-qps", "5000")
        status = manager.wait_settled()
        self.assertEqual(labels_of(namespace), self.labels(f"/api/v1/namespaces/{namespace}"))
        for item in self.items(self.maps(namespace)):
            labels = dict(item["metadata"]["labels"])
            labels.pop("app", None)
            self.assertEqual(labels_of(namespace), labels)
        self.assertEqual("x", self.labels(self.maps(namespace) + "/kept")["app"])
        self.assertEqual(0, status["failed"])
        for item in self.items("/api/v1/namespaces"):
            name = item["metadata"]["name"]
            labels = item["metadata"].get("labels", {})
            self.assertEqual(name not in SYSTEM, f"{PREFIX}/control" in labels, name)
        for name in SYSTEM:
            for kind in ("secrets", "configmaps"):
                for item in self.items(f"/api/v1/namespaces/{name}/{kind}"):
                    self.assertEqual([], self.keys_of(item))
        self.assertRegex(manager.log(), "all objects have their control labels .*labelled=")

    def test_what_is_right_is_not_touched(self):
        namespace = self.namespace()
        self.create_many(namespace, 20)
        self.manager().wait_settled()
        before = {item["metadata"]["name"]: item["metadata"]["resourceVersion"]
                  for item in self.items(self.maps(namespace))}  # fmt: skip
        mark = self.audit_mark()
        manager = self.manager()
        self.assertEqual(0, manager.wait_settled()["labelled"])
        after = {item["metadata"]["name"]: item["metadata"]["resourceVersion"]
                 for item in self.items(self.maps(namespace))}  # fmt: skip
        self.assertEqual(before, after)
        self.assertEqual(0, manager.metric("requests_total", verb="patch"))
        self.assertEqual([], [uri for verb, uri in self.audit(mark) if verb == "patch"])

    def test_only_what_is_not_labelled_travels(self):
        namespace = self.namespace()
        mark = self.audit_mark()
        manager = self.manager(kinds={"v1": ["ConfigMap"]})
        manager.wait_settled()
        self.create(namespace, "later")
        self.wait_labels(self.maps(namespace) + "/later", labels_of(namespace))
        manager.stop()

        def asked_of(verb):
            return [uri for v, uri in self.audit(mark) if v == verb and
                    "/api/v1/configmaps?" in uri and "control" in uri]  # fmt: skip

        harness.wait_for(lambda: asked_of("watch"), "the watch is logged")
        asked = asked_of("list") + asked_of("watch")
        unlabelled = [uri for uri in asked if "control%21%3Dtrue" in uri]
        checks = [uri for uri in asked if "control%3Dtrue" in uri]
        self.assertGreaterEqual(len(unlabelled), 2)  # the list and the watch
        self.assertEqual(1, len(checks))
        self.assertEqual(len(asked), len(unlabelled) + len(checks))
        for uri in asked:
            self.assertIn("metadata.namespace%21%3Dkube-system", uri)

    def test_system_namespaces_when_asked(self):
        self.manager("--label-system-namespaces", kinds={}).wait_settled()
        for name in SYSTEM:
            self.assertEqual(labels_of(name), self.labels(f"/api/v1/namespaces/{name}"))


class LaterTest(LabelsTestCase):
    def test_labels_what_comes(self):
        manager = self.manager("--label-qps", "1000")
        manager.wait_settled()
        namespace = self.namespace()
        self.wait_labels(f"/api/v1/namespaces/{namespace}", labels_of(namespace))
        taken = []
        for n in range(CREATED):
            path = f"{self.maps(namespace)}/{self.create(namespace, f'c{n}')['metadata']['name']}"
            began = time.monotonic()
            harness.wait_for(lambda p=path: self.labels(p), path, interval=0.001)
            taken.append((time.monotonic() - began) * 1000)
            self.assertEqual(labels_of(namespace), self.labels(path))
        ranks = statistics.quantiles(taken, n=100, method="inclusive")
        print(f"created to labelled without webhook: p50 {ranks[49]:.1f} ms, "
              f"p99 {ranks[98]:.1f} ms", file=sys.stderr)  # fmt: skip

    def test_slices_of_endpoints(self):
        """In the version that there is: the file of k8s/base names none."""
        namespace = self.namespace()
        groups = self.cluster.json("/apis")["groups"]
        (group,) = (g for g in groups if g["name"] == "discovery.k8s.io")
        path = f"/apis/{group['preferredVersion']['groupVersion']}/namespaces/{namespace}/endpointslices"
        thing = {"metadata": {"name": "before"}, "addressType": "IPv4", "endpoints": []}
        self.cluster.json(path, "POST", thing)
        manager = self.manager(kinds={"*": ["EndpointSlice"]})
        manager.wait_settled()
        self.assertEqual(labels_of(namespace), self.labels(f"{path}/before"))
        self.cluster.json(path, "POST", {**thing, "metadata": {"name": "later"}})
        self.wait_labels(f"{path}/later", labels_of(namespace))
        self.assertNotIn("does not serve", manager.log())

    def test_stragglers_of_a_time_without_manager(self):
        manager = self.manager()
        manager.wait_settled()
        manager.stop()
        namespace = self.namespace()
        self.create(namespace, "straggler")
        self.assertEqual({}, self.labels(self.maps(namespace) + "/straggler"))
        self.manager().wait_settled()
        self.assertEqual(labels_of(namespace), self.labels(f"/api/v1/namespaces/{namespace}"))
        self.assertEqual([], self.unlabelled(self.maps(namespace)))

    def test_a_definition_that_is_added(self):
        kubectl = harness.Kubectl(self.folder, self.cluster.kubeconfig)
        kinds = {"v1": ["ConfigMap"], "labels.example.com/v1": ["*"]}
        manager = self.manager(kinds=kinds)
        manager.wait_settled()
        what = "labels.example.com/v1/*: the API server does not serve this kind"
        self.assertIn(what, manager.log())
        namespace = self.namespace()
        self.addCleanup(kubectl.run, "delete", "-f", "-", stdin=CRD)
        kubectl("apply", "-f", "-", stdin=CRD)
        kubectl("wait", "--for=condition=Established", "crd/things.labels.example.com")
        path = f"/apis/labels.example.com/v1/namespaces/{namespace}/things"
        thing = {"apiVersion": "labels.example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
        harness.wait_for(lambda: self.cluster.fetch(path).status == 200, "it is served")
        self.cluster.json(path, "POST", thing)
        harness.wait_for(lambda: self.labels(path + "/x"), "the new kind is labelled", 60)
        self.assertEqual(labels_of(namespace), self.labels(path + "/x"))
        kubectl("delete", "-f", "-", stdin=CRD)
        harness.wait_for(
            lambda: manager.metric("resources", state="following") == 2, "it is forgotten", 60
        )
        self.create(namespace, "later")
        self.wait_labels(self.maps(namespace) + "/later", labels_of(namespace))

    def test_objects_that_change_all_the_time(self):
        """No write of another is lost, and they are labelled in the end."""
        namespace = self.namespace()
        names = [f"busy-{n}" for n in range(5)]
        for name in names:
            self.create(namespace, name)
        stop = threading.Event()
        counts = dict.fromkeys(names, 0)

        def write():
            with wire.Connection(self.cluster.address, tls=self.cluster.tls) as connection:
                while not stop.is_set():
                    for name in names:
                        counts[name] += 1
                        patch = {"data": {"count": str(counts[name])}}
                        connection.request("PATCH", f"{self.maps(namespace)}/{name}",
                                           [("Content-Type", MERGE)],
                                           json.dumps(patch).encode())  # fmt: skip

        thread = threading.Thread(target=write)
        thread.start()
        try:
            manager = self.manager("--label-qps", "1000")
            manager.wait_settled()
        finally:
            stop.set()
            thread.join()
        for name in names:
            thing = self.cluster.json(f"{self.maps(namespace)}/{name}")
            self.assertEqual(labels_of(namespace), thing["metadata"]["labels"])
            self.assertEqual(str(counts[name]), thing["data"]["count"])
        self.assertEqual(0, manager.status()["failed"])

    def test_objects_that_are_deleted_meanwhile(self):
        namespace = self.namespace()
        self.create_many(namespace, 300)
        manager = self.manager("--label-qps", "20", kinds={"v1": ["ConfigMap"]})
        harness.wait_for(lambda: manager.status().get("pending", 0) > 100, "much is to be done")
        self.cluster.json(self.maps(namespace), "DELETE")
        self.create(namespace, "map-7")  # made anew
        manager.wait_settled()
        self.wait_labels(self.maps(namespace) + "/map-7", labels_of(namespace))
        self.assertEqual(0, manager.status()["failed"])


class OwnersTest(LabelsTestCase):
    def test_another_owners_labels_stay(self):
        namespace = self.namespace()
        theirs = {f"{PREFIX}/sharding-hash": "their-own"}
        version = self.create(namespace, "theirs", theirs)["metadata"]["resourceVersion"]
        self.create(namespace, "off", {f"{PREFIX}/control": "false"})
        manager = self.manager(kinds={"v1": ["ConfigMap"]})
        self.assertEqual(2, manager.wait_settled()["foreign"])
        self.assertEqual(2, manager.metric("foreign", resource="configmaps"))
        self.assertIn(f"object={namespace}/theirs label={PREFIX}/sharding-hash value=their-own",
                      manager.log())  # fmt: skip
        lists = manager.metric("requests_total", verb="list")
        path = self.maps(namespace) + "/theirs"
        self.assertEqual(version, self.metadata(path)["resourceVersion"])
        self.patch(path, {"data": {"a": "b"}})
        self.create(namespace, "more", theirs)
        harness.wait_for(lambda: manager.metric("foreign", resource="configmaps") == 3, "counted")
        self.assertEqual(lists, manager.metric("requests_total", verb="list"))
        self.assertEqual(theirs, self.labels(path))

        self.patch(path, {"metadata": {"labels": {f"{PREFIX}/sharding-hash": None}}})
        self.wait_labels(path, labels_of(namespace))
        self.cluster.json(self.maps(namespace) + "/more", "DELETE")
        harness.wait_for(lambda: manager.metric("foreign", resource="configmaps") == 1, "counted")

    def test_what_says_so_is_left_alone(self):
        namespace = self.namespace()
        ignored = {f"{PREFIX}/ignore-webhook": "true"}
        version = self.create(namespace, "ignored", ignored)["metadata"]["resourceVersion"]
        wrong = {**ignored, **labels_of("other")}
        self.create(namespace, "wrong", wrong)
        manager = self.manager(kinds={"v1": ["ConfigMap"]})
        self.assertEqual(0, manager.wait_settled()["foreign"])
        path = self.maps(namespace) + "/ignored"
        self.create(namespace, "later", ignored)
        self.create(namespace, "last")
        self.wait_labels(self.maps(namespace) + "/last", labels_of(namespace))
        self.assertEqual(ignored, self.labels(self.maps(namespace) + "/later"))
        self.assertEqual(wrong, self.labels(self.maps(namespace) + "/wrong"))
        self.assertEqual(version, self.metadata(path)["resourceVersion"])
        self.patch(path, {"metadata": {"labels": {f"{PREFIX}/ignore-webhook": None}}})
        self.wait_labels(path, labels_of(namespace))
        self.patch(path, {"metadata": {"labels": ignored}})
        self.patch(path, {"metadata": {"labels": {f"{PREFIX}/control": None}}})
        self.create(namespace, "after")
        self.wait_labels(self.maps(namespace) + "/after", labels_of(namespace))
        self.assertNotIn(f"{PREFIX}/control", self.labels(path))

    def test_another_owners_labels_are_taken_over(self):
        namespace = self.namespace()
        self.create(namespace, "theirs", {f"{PREFIX}/namespace": "nobody", "app": "x"})
        self.create(namespace, "off", {f"{PREFIX}/control": "false"})
        manager = self.manager("--label-foreign=take", kinds={"v1": ["ConfigMap"]})
        self.assertEqual(0, manager.wait_settled()["foreign"])
        self.assertEqual({"app": "x", **labels_of(namespace)},
                         self.labels(self.maps(namespace) + "/theirs"))  # fmt: skip
        self.wait_labels(self.maps(namespace) + "/off", labels_of(namespace))
        self.create(namespace, "later", {f"{PREFIX}/sharding-hash": "32"})
        self.wait_labels(self.maps(namespace) + "/later", labels_of(namespace))

    def run_once(self, *args):
        manager = self.manager(*args, kinds={"v1": ["ConfigMap"]})
        manager.wait_settled()
        manager.stop()

    def strip(self, *prefixes):
        """Takes away what a change of the keys has left, and nobody's keys name any more."""
        for path in ("/api/v1/namespaces", "/api/v1/configmaps"):
            for item in self.items(path):
                metadata = item["metadata"]
                keys = [key for key in metadata.get("labels", {}) if key.startswith(prefixes)]
                base = self.maps(metadata["namespace"]) if "namespace" in metadata else path
                if keys:
                    patch = {"metadata": {"labels": dict.fromkeys(keys)}}
                    self.cluster.fetch(f"{base}/{metadata['name']}", "PATCH",
                                       [("Content-Type", MERGE)], json.dumps(patch).encode())  # fmt: skip

    def test_keys_of_other_installations(self):
        namespace = self.namespace()
        self.create(namespace, "x")
        path = self.maps(namespace) + "/x"
        self.addCleanup(self.strip, PREFIX, "kridge.kusionstack.io")
        self.run_once()
        ours = self.labels(path)
        self.assertEqual(labels_of(namespace), ours)

        self.run_once("--label-shard-hash", "shard-hash")
        kusionstack = labels_of(namespace, shard_hash="shard-hash")
        self.assertEqual({**ours, **kusionstack}, self.labels(path))  # the moved key too

        self.run_once("--label-prefix", "kridge.kusionstack.io")
        kridge = labels_of(namespace, prefix="kridge.kusionstack.io")
        self.assertEqual({**ours, **kusionstack, **kridge}, self.labels(path))
        code, log = self.unlabel("--label-prefix", "kridge.kusionstack.io")
        self.assertEqual(0, code, log)
        self.assertEqual({**ours, **kusionstack}, self.labels(path))

    def test_no_right_to_label_one_resource(self):
        namespace = self.namespace()
        self.create(namespace, "x")
        secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self.cluster.json(secrets, "POST", {"metadata": {"name": "x"}})
        kubectl = harness.Kubectl(self.folder, self.cluster.kubeconfig)
        user = f"labels-{os.getpid()}"
        rules = [
            {"apiGroups": [""], "resources": ["namespaces", "configmaps"],
             "verbs": ["get", "list", "watch", "patch"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
        ]  # fmt: skip
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": user}, "rules": rules}  # fmt: skip
        self.addCleanup(kubectl.run, "delete", "clusterrole,clusterrolebinding", user)
        kubectl("apply", "-f", "-", stdin=json.dumps(role))
        kubectl("create", "clusterrolebinding", user, "--clusterrole", user, "--user", user)
        config = self.cluster.user_kubeconfig(self.folder, user)
        kinds = {"v1": ["ConfigMap", "Secret", "Service"]}
        manager = self.manager(kinds=kinds, kubeconfig=config)
        self.wait_labels(self.maps(namespace) + "/x", labels_of(namespace))
        harness.wait_for(lambda: manager.metric("failed_total", resource="secrets"), "refused")
        harness.wait_for(lambda: "resource=services" in manager.log(), "services are told of")
        log = manager.log()
        needed = "the manager needs the verbs list, watch and patch"
        self.assertEqual(1, len(re.findall(f"cannot label an object.*secrets.*{needed}", log)), log)
        self.assertRegex(log, f"cannot watch a resource.*resource=services.*{needed}")
        self.assertEqual([], self.unlabelled(self.maps(namespace)))


class RestartTest(LabelsTestCase):
    def test_goes_on_where_it_was_killed(self):
        namespace = self.namespace()
        self.create_many(namespace, 600)
        mark = self.audit_mark()
        kills = 0
        while left := len(self.unlabelled(self.maps(namespace))):
            # Slow enough to be killed long before it has labelled all the rest.
            manager = self.manager("--label-qps", "60", kinds={"v1": ["ConfigMap"]})
            harness.wait_for(
                lambda m=manager: m.metric("labelled_total", resource="configmaps") > 120
                or m.status().get("checked"), "some are labelled")  # fmt: skip
            manager.kill()
            kills += 1
            self.assertLess(len(self.unlabelled(self.maps(namespace))), left)
        self.assertGreaterEqual(kills, 3)
        patches = [uri for verb, uri in self.audit(mark) if verb == "patch" and namespace in uri
                   and "/configmaps/map-" in uri]  # fmt: skip
        self.assertLessEqual(len(patches), 600 + 8 * kills)  # what was on its way, twice at most
        for item in self.items(self.maps(namespace)):
            if item["metadata"]["name"].startswith("map-"):
                self.assertEqual(labels_of(namespace), item["metadata"]["labels"])

    def test_the_api_server_is_away_meanwhile(self):
        cluster = harness.disposable_cluster()
        self.cluster = cluster
        namespace = self.namespace()
        self.create_many(namespace, 400)
        manager = self.manager(
            "--label-qps", "200", kinds={"v1": ["ConfigMap"]}, kubeconfig=cluster.kubeconfig
        )
        harness.wait_for(
            lambda: manager.metric("labelled_total", resource="configmaps") > 50, "it has begun"
        )
        cluster.stop_apiserver()
        cluster.start_apiserver()
        manager.wait_settled()
        self.assertEqual([], self.unlabelled(self.maps(namespace)))
        self.create(namespace, "later")
        harness.wait_for(
            lambda: not self.unlabelled(self.maps(namespace)), "it follows again", 60
        )


class UnlabelTest(LabelsTestCase):
    def test_takes_away_what_is_ours(self):
        namespace = self.namespace()
        self.create_many(namespace, 600)
        theirs = {f"{PREFIX}/namespace": "other", "app": "x"}
        self.create(namespace, "theirs", theirs)
        manager = self.manager("--label-qps", "5000")
        manager.wait_settled()
        manager.stop()

        labelled = f"/api/v1/configmaps?labelSelector={PREFIX}/control%3Dtrue"
        before = len(self.items(labelled))  # those of the tests before may still be going
        code, log = self.unlabel("--dry-run")
        self.assertEqual(0, code, log)
        told = re.search(r"control labels would be removed resource=configmaps objects=(\d+)", log)
        self.assertLessEqual(len(self.items(labelled)), int(told[1]), log)
        self.assertLessEqual(int(told[1]), before, log)
        self.assertGreaterEqual(before, 600)
        self.assertEqual(["theirs"], self.unlabelled(self.maps(namespace)))

        code, log = self.unlabel("--label-qps", "5000")
        self.assertEqual(0, code, log)
        self.assertIn("control labels removed", log)
        for path in (self.maps(namespace), "/api/v1/namespaces", "/api/v1/secrets"):
            for item in self.items(path):
                if item["metadata"]["name"] != "theirs":
                    self.assertEqual([], self.keys_of(item), item)
        self.assertEqual(theirs, self.labels(self.maps(namespace) + "/theirs"))
        code, log = self.unlabel()
        self.assertEqual(0, code, log)
        self.assertIn("removed=0", log)

    def test_a_manager_that_runs_still_is_noticed(self):
        self.create_many(self.namespace(), 700)  # so that it has time to label some again
        self.manager("--label-qps", "5000").wait_settled()
        code, log = self.unlabel("--label-qps", "5000")
        self.assertEqual(1, code, log)
        self.assertIn("is a manager, or its webhook, still installed?", log)

    def test_no_server_and_wrong_usage(self):
        def run(*args):
            done = subprocess.run([harness.program("manager"), "unlabel", *args],
                                  stderr=subprocess.PIPE, text=True, check=False, timeout=60,
                                  env=harness.clean_environment(HOME=self.folder))  # fmt: skip
            return done.returncode, done.stderr

        code, log = run("--kubeconfig", self.path("missing"))
        self.assertEqual(1, code)
        self.assertIn(self.path("missing"), log)
        code, log = run("--kubeconfig", self.cluster.kubeconfig, "--sharding-resources",
                        self.path("bad", "groupVersionKinds: [x]"))  # fmt: skip
        self.assertEqual(1, code)
        self.assertIn("groupVersionKinds: Invalid value", log)
        self.assertEqual(2, run("more")[0])


if __name__ == "__main__":
    harness.main()
