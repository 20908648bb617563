# SPDX-License-Identifier: Apache-2.0
"""The whole mesh on a machine without kubelets: managers, and pods of which the API server knows the
objects while their sidecars are processes here. Each pod has a loopback address of its own, so that
the sidecars listen where they do in a real one.
"""

import itertools
import json
import os
import re
import resource
import signal
import subprocess
import threading
import unittest

import api
import harness
import shard
import wire

BASE = os.path.join(harness.ROOT, "k8s", "base")
CRD = os.path.join(BASE, "crd.yaml")
POLICY_KINDS = ("circuitbreakers", "faultinjections")
CRDS = (CRD, *(os.path.join(BASE, f"crd_{kind}.yaml") for kind in POLICY_KINDS))
GROUP = "ctrlmesh.kusionstack.io"
API = f"/apis/{GROUP}/v1alpha1"
INJECTED = GROUP + "/sharding-config-injected"
CONFIG_MAP = "cmesh-rules-"
BUCKETS = GROUP + "/auto-sharding-buckets"

ADDRESSES = itertools.count(1)


def install(cleanup=unittest.addModuleCleanup):
    """The kinds are known until the clean-up; from setUpModule until the module's end."""
    kubectl = harness.Kubectl(harness.TestCase.make_folder(cleanup), harness.cluster().kubeconfig)
    cleanup(kubectl.run, "delete", *files(CRDS), "--ignore-not-found")
    define(harness.cluster(), kubectl)


def files(paths):
    """Arguments of kubectl."""
    return [word for path in paths for word in ("-f", path)]


def define(control_plane, kubectl):
    """Until the kinds are served, and known to who asks for all groups, as kubectl does, or for this
    one."""
    kubectl("apply", *files(CRDS))

    def served():
        groups = control_plane.json("/apis")["groups"]
        known = GROUP in (group["name"] for group in groups)
        paths = (API, *(f"{API}/{kind}" for kind in ("shardingconfigs", *POLICY_KINDS)))
        return known and all(control_plane.fetch(path).status == 200 for path in paths)

    harness.wait_for(served, "it is served")


def wait_webhooks(control_plane):
    """Until the API server reaches the webhooks of an installed mesh: the Service may lead to them
    some time after their pods are ready. What they must refuse is refused by them."""
    path = f"{API}/namespaces/default/shardingconfigs?dryRun=All"
    wrong = config("wrong", "any", limit({"matchLabels": {"a": "b"}}), selector={})
    body, kind = json.dumps(wrong).encode(), [("Content-Type", "application/json")]
    harness.wait_for(
        lambda: b"denied the request" in control_plane.fetch(path, "POST", kind, body).body,
        "the webhooks are reached",
        timeout=120,
        interval=0.2,
    )


def new_address():
    """Of this machine alone, and of this run: 127.P.P.N."""
    pid, number = os.getpid(), next(ADDRESSES)
    return f"127.{1 + (pid >> 8) % 250}.{pid & 255}.{number % 250 + 1}"


def limit(selector, resources=("configmaps",), groups=("",)):
    return {
        "relateResources": [{"apiGroups": list(groups), "resources": list(resources)}],
        "selector": selector,
    }


def is_in(key, *values):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def config(name, pods, *limits, **spec):
    """A ShardingConfig of the pods with the label shard=`pods`."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ShardingConfig",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"shard": pods}}, "limits": list(limits), **spec},
    }


def condition(thing, kind):
    conditions = thing.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def buckets_of(child):
    """Of an automatic shard: a set of numbers, by its annotation."""
    found = set()
    text = child["metadata"].get("annotations", {}).get(BUCKETS, "")
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def rules_of(config_map):
    """The rules document of a ConfigMap; None when it cannot be read."""
    try:
        return json.loads(config_map["data"]["rules.json"])
    except (KeyError, TypeError, ValueError):
        return None


class Manager:
    """A manager process with its pages on a free port. It must end well."""

    def __init__(self, folder, name, kubeconfig, args, program=None):
        self.name = name
        self.ready_file = os.path.join(folder, name + "-ready.json")
        self.log_path = os.path.join(folder, name + ".log")
        self.expected = 0
        self.starved = False
        if os.path.exists(self.ready_file):
            os.unlink(self.ready_file)
        command = ["setpriv", "--pdeathsig", "KILL", program or harness.program("manager")]
        command += ["--kubeconfig", kubeconfig, "--admin", "127.0.0.1:0", "--webhook", "off"]
        command += ["--probe-any-address"]  # pods are played on loopback
        command += ["--ready-file", self.ready_file, *args]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=harness.clean_environment()
            )
        self.pid = self.process.pid
        self.admin = self.wait_listening()

    def wait_listening(self):
        def look():
            if self.process.poll() is not None:
                raise AssertionError(f"manager ended: {self.process.returncode}\n{self.log()}")
            return os.path.exists(self.ready_file)

        harness.wait_for(look, f"{self.name} listens")
        with open(self.ready_file, encoding="utf-8") as f:
            return json.load(f)["admin"]

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ask(self, target):
        return wire.fetch(self.admin, target)

    def ready(self):
        return self.ask("/readyz").status == 200

    def status(self):
        return json.loads(self.ask("/status").body)

    def metrics(self):
        """name{labels} -> value."""
        text = self.ask("/metrics").body.decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    def leads(self):
        try:
            return self.process.poll() is None and self.status()["leader"]["leading"]
        except (OSError, wire.Cut):
            return False

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """As a machine that fails."""
        if self.process.poll() is None:
            self.process.kill()
            self.expected = -signal.SIGKILL
        self.process.wait()

    def starve(self, more):
        """Its heap and stacks may grow by so many bytes."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as f:
            kib = int(re.search(r"VmData:\s*(\d+) kB", f.read())[1])
        _, most = resource.prlimit(self.pid, resource.RLIMIT_DATA)
        resource.prlimit(self.pid, resource.RLIMIT_DATA, ((kib << 10) + more, most))
        self.starved = True

    def has_said_why(self, code):
        """It ended as one does without memory: libuv aborts where it cannot start a thread."""
        lines = self.log().splitlines()
        return code == -signal.SIGABRT or (code == 1 and "out of memory" in lines[-1])

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"manager does not end on SIGTERM:\n{self.log()}") from None
        if harness.SANITIZER_REPORT.search(self.log()):
            raise AssertionError(f"a sanitizer found something:\n{self.log()}")
        if self.starved and self.has_said_why(code):
            return
        if code != self.expected:
            raise AssertionError(f"manager exited with {code}:\n{self.log()}")


class Pod:
    """A pod object and its sidecars. `of`: the shard for which it was injected; None: none."""

    def __init__(self, case, name, labels, of):
        self.case = case
        self.name = name
        self.labels = labels
        self.of = of
        self.address = new_address()
        self.path = f"/api/v1/namespaces/{case.namespace}/pods"
        self.folder = case.path(name)
        if os.path.exists(self.folder):  # an earlier pod's of this name, which had files of its own
            self.folder = case.path(f"{name}.{next(harness.Run.counter)}")
        self.finalizers = []
        self.kubeconfig = case.cluster.kubeconfig  # of its localproxy
        self.proxy_args = []  # more of them
        self.tells = False  # by a Lease what it enforces
        self.reached_at = self.address  # where the manager asks it
        self.ports = {"api": 5443, "admin": 5441, "sync": 5442}
        self.proxy = None
        self.sync = None
        os.makedirs(self.folder, exist_ok=True)
        case.addCleanup(self.stop)

    def body(self):
        containers = [{"name": "operator", "image": "operator"}]
        if self.of is not None:
            admin = [{"name": "cmesh-admin", "containerPort": self.ports["admin"]}]
            sync = [{"name": "cmesh-rulesync", "containerPort": self.ports["sync"]}]
            containers += [{"name": "cmesh-localproxy", "image": "cmesh", "ports": admin}]
            containers += [{"name": "cmesh-rulesync", "image": "cmesh", "ports": sync}]
        annotations = {} if self.of is None else {INJECTED: self.of}
        metadata = {"name": self.name, "labels": self.labels, "annotations": annotations}
        metadata["finalizers"] = self.finalizers
        return {"metadata": metadata, "spec": {"containers": containers}}

    def create(self):
        self.case.cluster.json(self.path, "POST", self.body())

    def set_status(self, ready=True, phase="Running", since=None):
        """As the kubelet would, but for the time if `since` is None."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        if since is not None:
            condition["lastTransitionTime"] = since
        status = {"phase": phase, "conditions": [condition], "podIP": self.reached_at}
        status["podIPs"] = [{"ip": self.reached_at}]
        kind = "application/merge-patch+json"
        path = f"{self.path}/{self.name}/status"
        self.case.cluster.json(path, "PATCH", {"status": status}, kind)

    def delete(self, grace=0):
        target = f"{self.path}/{self.name}?gracePeriodSeconds={grace}"
        self.case.cluster.fetch(target, "DELETE")

    def finalize(self):
        """It may be gone now."""
        patch = json.dumps({"metadata": {"finalizers": None}}).encode()
        kind = [("Content-Type", "application/merge-patch+json")]
        self.case.cluster.fetch(f"{self.path}/{self.name}", "PATCH", kind, patch)

    def object(self):
        return self.case.cluster.json(f"{self.path}/{self.name}")

    def use_ipv6(self):
        """There is one address for all pods: each has ports of its own."""
        self.address = self.reached_at = "::1"
        self.ports = {name: harness.free_port() for name in self.ports}

    # ---- its sidecars ----

    def at(self, port):
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.ports[port]}"

    def start_proxy(self):
        kept = os.path.join(self.folder, "rules.json")
        ready_file = os.path.join(self.folder, "ready.json")
        if os.path.exists(ready_file):
            os.unlink(ready_file)
        args = ["--kubeconfig", self.kubeconfig, "--rules", kept]
        args += ["--listen", self.at("api"), "--admin", self.at("admin")]
        args += ["--state", os.path.join(self.folder, "state")]
        args += ["--shutdown-grace", "2", *self.proxy_args]
        env = {}
        if self.tells:
            args += ["--status-lease"]
            env = {"POD_NAME": self.name, "POD_NAMESPACE": self.case.namespace}
            env["POD_UID"] = self.object()["metadata"]["uid"]
        self.proxy = harness.LocalProxy(self.folder, args, env=env, control=True)

    def start_sync(self, of=None):
        """`of`: whose rules come, instead of its own."""
        source = f"{self.case.namespace}/{CONFIG_MAP}{of or self.of}"
        args = ["--from-configmap", source, "--kubeconfig", self.case.cluster.kubeconfig]
        args += ["--shard", f"{self.case.namespace}/{self.of}"]
        args += ["--to", os.path.join(self.folder, "rules.json")]
        args += ["--control", os.path.join(self.folder, "control.sock")]
        self.sync = shard.RuleSync(self.folder, args, admin=self.at("sync"))

    def start(self):
        """The pod as it is once it runs."""
        self.create()
        if self.of is not None:
            self.start_proxy()
            self.start_sync()
        self.set_status()
        return self

    def stop_proxy(self, how=signal.SIGTERM):
        if self.proxy is not None:
            if how == signal.SIGKILL:
                self.proxy.kill()
            else:
                self.proxy.signal(signal.SIGCONT)
                self.case.end_proxy(self.proxy)
            self.proxy = None

    def stop_sync(self):
        if self.sync is not None:
            self.sync.stop()
            self.sync = None

    def stop(self):
        self.stop_sync()
        self.stop_proxy()

    def lease(self):
        """By which it tells; None: there is none."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.case.namespace}/leases"
        answer = self.case.cluster.fetch(f"{path}/cmesh-{self.name}")
        return json.loads(answer.body) if answer.status == 200 else None

    def enforced(self):
        """Generation and checksum of what localproxy enforces, by its own word; None: nothing."""
        rules = self.proxy.status()["rules"]
        if not rules["inForce"] or not rules["settled"]:
            return None
        return rules["generation"], rules["checksum"]

    def shown(self):
        """The names of the ConfigMaps with the label part that its operator sees. None: the answer
        was cut, as new rules came."""
        path = f"/api/v1/namespaces/{self.case.namespace}/configmaps?labelSelector=part"
        try:
            answer = self.proxy.fetch(path)
        except wire.Cut:
            return None
        if answer.status != 200:
            return answer.status
        if not answer.complete:
            return None
        return {item["metadata"]["name"] for item in json.loads(answer.body)["items"]}


class Watched(threading.Thread):
    """All that happens to a collection: each version of each object, in the order of the API
    server. Only an API server that was started again may know no more what came before: then it is
    listed anew."""

    def __init__(self, control, path, on_event=None):
        super().__init__(daemon=True)
        self.control = control
        self.path = path
        self.on_event = on_event
        self.events = []
        self.over = threading.Event()
        self.error = None
        self.version = None
        self.list()
        self.start()

    def list(self):
        listed = self.control.json(self.path)
        self.version = listed["metadata"]["resourceVersion"]
        self.events += [("ADDED", item) for item in listed["items"]]

    def run(self):
        while not self.over.is_set() and self.error is None:
            try:
                if self.version is None:
                    self.list()
                self.watch()
            except (OSError, wire.Cut, AssertionError):
                self.over.wait(0.05)

    def watch(self):
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self.version}"
        with wire.Connection(self.control.address, tls=self.control.tls, timeout=1) as connection:
            connection.send_head("GET", f"{self.path}?{query}")
            head = connection.read_head()
            if head.status != 200:
                raise wire.Cut(f"{self.path}: {head.status}")
            rest = b""
            while not self.over.is_set():
                try:
                    data = connection.read_some()
                except TimeoutError:
                    continue
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.take(json.loads(line))

    def take(self, event):
        if event["type"] == "ERROR":
            if event["object"].get("code") != 410:
                self.error = f"{self.path}: {event['object']}"
            self.version = None
            return
        self.version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self.events.append((event["type"], event["object"]))
            if self.on_event is not None:
                try:
                    self.on_event(event["type"], event["object"])
                except Exception as e:  # pylint: disable=broad-except
                    self.error = f"{self.path}: {e!r}"

    def end(self):
        self.over.set()
        self.join(30)
        if self.error is not None:
            raise AssertionError(self.error)


class Kubelet:
    """Runs the pods of the case's namespace, for as long as they are there. `begin` makes a running pod of
    what the API server has of it; None: it does not run."""

    def __init__(self, case, begin):
        self.begin = begin
        self.running = {}
        self.pods = Watched(case.cluster, case.pods, self.look)
        case.addCleanup(self.pods.end)

    def look(self, change, thing):
        uid = thing["metadata"]["uid"]
        if change == "ADDED":
            self.running[uid] = self.begin(thing)
        pod = self.running.pop(uid, None) if change == "DELETED" else None
        if pod is not None:
            pod.stop()


class Seen(Watched):
    """What a pod's operator sees of a collection: `shown` has the newest version of each object with
    the label, by namespace and name. A list that is as old as the rules may have to be made again
    before it can be watched from."""

    def __init__(self, pod, path, label):
        self.address, self.tls, self.pod, self.label = pod.at("api"), None, pod, label
        self.shown = {}
        self.opened = 0
        super().__init__(self, path, self.note)

    def json(self, path):
        answer = self.pod.proxy.fetch(f"{path}?labelSelector={self.label}")
        if answer.status != 200:
            raise wire.Cut(f"{path}: {answer.status}")
        listed = json.loads(answer.body)
        self.shown = {}
        for item in listed["items"]:
            self.note("ADDED", item)
        return listed

    def watch(self):
        self.opened += 1
        super().watch()

    def note(self, kind, item):
        meta = item["metadata"]
        if self.label in meta.get("labels", {}):
            if kind == "DELETED":
                self.shown.pop((meta["namespace"], meta["name"]), None)
            else:
                self.shown[meta["namespace"], meta["name"]] = item


class MeshTestCase(harness.TestCase):
    """A namespace with objects of the parts a and b, one of each, and what else a test starts."""

    control_plane = staticmethod(harness.cluster)

    def setUp(self):
        super().setUp()
        self.cluster = self.control_plane()
        self.namespace = harness.make_namespace(self.cluster, "mesh", self.addCleanup)
        self.home = self.namespace  # the managers' own
        self.configs = f"{API}/namespaces/{self.namespace}/shardingconfigs"
        self.maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.kubectl = harness.Kubectl(self.path("."), self.cluster.kubeconfig)
        self.api = api.Api(self.cluster, self.namespace)
        for part in ("a", "b"):
            thing = {"metadata": {"name": f"object-{part}", "labels": {"part": part}}}
            self.cluster.json(self.maps, "POST", thing)

    # ---- managers ----

    def start_manager(self, *args, name="manager", kubeconfig=None, program=None):
        """Of this namespace's shards alone, labelling nothing, unless `args` say otherwise."""
        base = ["--namespace", self.home, "--watch-namespace", self.namespace]
        base += ["--label-qps", "0"]
        kubeconfig = kubeconfig or self.cluster.kubeconfig
        manager = Manager(self.folder, name, kubeconfig, [*base, *args], program)
        self.addCleanup(manager.stop)
        return manager

    def manager(self, *args):
        """One that leads by itself and asks often."""
        return self.start_manager("--leader-elect=false", "--probe-interval", "1", *args)

    # ---- pods ----

    def pod(self, name, of, labels=None):
        """Not started yet."""
        return Pod(self, name, {"shard": of} if labels is None else labels, of)

    def shard_of_two(self, name):
        """Two running pods of a shard of that name."""
        return [self.pod(f"{name}-{i}", name).start() for i in range(2)]

    # ---- configs ----

    def here(self, *args, stdin=None):
        return self.kubectl("-n", self.namespace, *args, stdin=stdin)

    def apply(self, *things):
        return self.api.apply(*things)

    def delete(self, name):
        """The config; returns when it is gone."""
        self.api.delete(f"{self.configs}/{name}")

    def get(self, name):
        return self.cluster.json(f"{self.configs}/{name}")

    def patch(self, name, change):
        path, kind = f"{self.configs}/{name}", "application/merge-patch+json"
        return self.cluster.json(path, "PATCH", change, kind)

    def show(self, name, *parts):
        """Changes the limits: these parts are shown."""
        return self.patch(name, {"spec": {"limits": [limit(is_in("part", *parts))]}})

    def map_of(self, name):
        """None: there is none."""
        answer = self.cluster.fetch(f"{self.maps}/{CONFIG_MAP}{name}")
        return json.loads(answer.body) if answer.status == 200 else None

    def wait_condition(self, name, kind, status, reason=None, timeout=90):
        """Until the condition, of the spec as it is now, is so; returns the config."""
        found = []

        def look():
            found[:] = [self.get(name)]
            c = condition(found[0], kind)
            return (
                c.get("status") == status
                and reason in (None, c.get("reason"))
                and c.get("observedGeneration") == found[0]["metadata"]["generation"]
            )

        try:
            harness.wait_for(look, f"{name}: {kind} is {status} {reason or ''}", timeout, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(found[0].get('status'))}") from None
        return found[0]

    def wait_enforced(self, name, pods=None, timeout=90):
        """On all that are ready; or on so many pods, with nothing to be said of any."""

        def look():
            status = self.get(name)["status"]
            quiet = not any("message" in row for row in status["pods"])
            return pods is None or (quiet and status["enforced"] == f"{pods}/{pods}")

        self.wait_condition(name, "Enforced", "True", "Enforced", timeout)
        harness.wait_for(look, f"{name} is enforced on {pods} pods", timeout, 0.05)
        return self.get(name)

    def compiled(self, thing, generation):
        """What `manager compile` makes of a config."""
        command = [harness.program("manager"), "compile", "-f", "-"]
        command += ["--generation", str(generation)]
        done = subprocess.run(
            command, input=json.dumps(thing), capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    def check_map(self, name):
        """The ConfigMap has what `manager compile` makes of the config; returns its rules."""
        rules = rules_of(self.map_of(name))
        self.assertIsNotNone(rules, name)
        self.assertEqual(self.compiled(self.get(name), rules["generation"]), rules)
        return rules
