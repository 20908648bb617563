# SPDX-License-Identifier: Apache-2.0
"""Operators that answer webhooks (examples/operator-go), where an API server reaches them: in a network
of this process's own, in which each pod has an address. A whole control plane asks the addresses that its
own controllers have written into Endpoints. The modern one has no controllers and knows services by name:
here their addresses stand in a file of hosts, and PlayedServices does what controllers and kube-proxy do.
"""

import base64
import ctypes
import dataclasses
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import unittest

import api
import audit
import harness
import island
import mesh
import operator_test
import pki
import shard
import wire
from webhook_case import CONFIGURATIONS, KINDS, control_labels

NAMESPACE, SERVICE = "report-operator", "report-operator-webhook"
HOST = f"{SERVICE}.{NAMESPACE}.svc"
NETWORK, SERVICE_ADDRESS = "10.199.0.1/16", "10.199.255.1"
ADDRESSES = itertools.count(1)
PORT = 9443  # of the operator's container
NODE = "node"
CONTROL = mesh.GROUP + "/control"
HOLD = "wh-hold"
UNLABELLED = "unlabelled"  # what the names of namespaces without control labels begin with
MUTATING, VALIDATING = KINDS
PATHS = {MUTATING: "/default", VALIDATING: "/validate"}
BASE = {kind: f"{path[1:]}.report-operator.example.com" for kind, path in PATHS.items()}


def port_name(of, namespace=NAMESPACE):
    """By which a shard's pods are told apart from those of others."""
    return "wh-" + hashlib.sha256(f"{namespace}/{of}".encode()).hexdigest()[:8]


# ---- the network ----


def enter_network(cleanup):
    """This thread, and what it starts from here on, is in a network of its own until the clean-up."""
    if shutil.which("ip") is None:
        raise unittest.SkipTest("ip(8) is not installed")
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(island.CLONE_NEWNET) != 0:
        os.close(before)
        raise unittest.SkipTest("no right to make a network namespace")

    def leave():
        libc.setns(before, island.CLONE_NEWNET)
        os.close(before)

    cleanup(leave)
    # All addresses of a network of `lo` are this machine's.
    for command in ("ip link set lo up", f"ip addr add {NETWORK} dev lo"):
        subprocess.run(command.split(), check=True)


def own_cluster(case):
    """From here on the tests of the class have a control plane in a network of their own."""
    subprocess.run(
        [harness.CLUSTER, "build", *([f"--modern={harness.modern()}"] if harness.modern() else [])],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    operator = operator_test.build_operator()  # while there is a network to get it from
    enter_network(case.addClassCleanup)
    if not harness.modern():
        case.own_cluster("--enable-aggregator-routing=true")
        return operator
    hosts = os.path.join(case.make_folder(case.addClassCleanup), "hosts")
    with open(hosts, "w", encoding="ascii") as f:
        f.write(f"127.0.0.1 localhost\n{SERVICE_ADDRESS} {HOST}\n")
    prefix = shard.mount_prefix(f"mount --bind '{hosts}' /etc/hosts")
    if prefix is None or shutil.which("iptables") is None:
        raise unittest.SkipTest("no right to make a mount namespace, or no iptables")
    case.own_cluster("", prefix)
    return operator


# ---- pods ----


class WebhookPod(mesh.Pod):
    """With the operator in it, which answers at the pod's address. `of`: its shard; None: it sees all."""

    def __init__(self, case, name, of, labels=None):
        super().__init__(case, name, {"app": NAMESPACE, **(labels or {"shard": of or "none"})}, of)
        number = next(ADDRESSES)
        self.address = self.reached_at = f"10.199.{number >> 7}.{(number & 127) + 2}"
        self.operator = None
        self.log_path = os.path.join(self.folder, "operator.log")

    def body(self):
        thing = super().body()
        names = ["webhook"] + [port_name(self.of)] * (self.of is not None)
        thing["spec"]["containers"][0]["ports"] = [
            {"name": name, "containerPort": PORT, "protocol": "TCP"} for name in names
        ]
        thing["spec"]["nodeName"] = NODE
        thing["spec"]["tolerations"] = [{"operator": "Exists"}]
        return thing

    def led(self):
        """The kubeconfig of the operator."""
        if self.proxy is None:
            return self.kubeconfig
        path = os.path.join(self.folder, "led.kubeconfig")
        command = [harness.program("kubeconfig-gen"), "--kubeconfig", self.kubeconfig]
        command += ["--proxy", f"http://{self.at('api')}", "-o", path]
        env = harness.clean_environment(XDG_STATE_HOME=self.folder, CMESH_TOKEN_FILE="")
        subprocess.run(command, check=True, capture_output=True, env=env)
        return path

    def start_operator(self):
        env = {"KUBECONFIG": self.led(), "POD_NAME": self.name, "POD_NAMESPACE": NAMESPACE}
        command = ["setpriv", "--pdeathsig", "KILL", self.case.operator]
        command += ["--webhook-cert-dir", self.case.certificates.path, "--webhook-drain", "2s"]
        command += ["--webhook-bind-address", f"{self.address}:{PORT}"]
        with open(self.log_path, "ab") as log:
            self.operator = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=harness.clean_environment(**env)
            )

    def answers(self):
        """As a readiness probe finds it."""
        if self.operator.poll() is not None:
            raise AssertionError(f"{self.name} ended: {self.log()[-2000:]}")
        try:
            socket.create_connection((self.address, PORT), 5).close()
        except OSError:
            return False
        return True

    def log(self):
        return text_of(self.log_path)

    def reviews(self):
        """What it was asked."""
        return reviews_of(self)

    def begin(self, proxied=True):
        self.create()
        self.case.started.append(self)
        if self.of is not None and proxied:
            self.start_proxy()
            self.start_sync()
        self.start_operator()

    def wait_ready(self):
        harness.wait_for(self.answers, f"{self.name} answers")
        self.set_status()

    def end(self):
        """As the kubelet ends a pod that was deleted: first it is no more in Endpoints."""
        self.set_status(ready=False)
        if self.operator is not None:
            self.operator.terminate()
            self.operator.wait(30)
        self.stop()
        self.delete()

    def stop(self):
        if self.operator is not None:
            harness.end_process(self.operator)
        super().stop()


class PlayedServices(threading.Thread):
    """What the endpoints controller and kube-proxy do for one Service."""

    def __init__(self, case):
        super().__init__(daemon=True)
        self.case = case
        self.over = threading.Event()
        self.written = None
        self.start()

    def run(self):
        while not self.over.wait(0.1):
            try:
                self.look()
            except (OSError, wire.Cut):
                pass  # the API server is away

    def look(self):
        found = self.case.cluster.fetch(self.case.service)
        ports = json.loads(found.body)["spec"]["ports"] if found.status == 200 else []
        pods = self.case.cluster.json(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        rows = [(p["name"], p["port"], self.addresses(pods, p["targetPort"])) for p in ports]
        if rows != self.written:
            self.write_rules(rows)
            self.write_endpoints(rows)
            self.written = rows

    @staticmethod
    def addresses(pods, target):
        """Of ready pods that have the port, with its number."""
        found = []
        for pod in pods:
            ready = mesh.condition(pod, "Ready").get("status") == "True"
            if not ready or pod["metadata"]["labels"].get("app") != NAMESPACE:
                continue
            for port in pod["spec"]["containers"][0].get("ports", []):
                if target in (port["name"], port["containerPort"]):
                    found.append((pod["status"]["podIP"], port["containerPort"]))
                    break
        return sorted(found)

    @staticmethod
    def write_rules(rows):
        lines = ["*nat", ":OUTPUT ACCEPT [0:0]"]
        for _, number, pods in rows:
            for i, (address, port) in enumerate(pods):
                chance = f"-m statistic --mode random --probability {1 / (len(pods) - i):.6f}"
                lines.append(f"-A OUTPUT -d {SERVICE_ADDRESS} -p tcp --dport {number} {chance} "
                             f"-j DNAT --to-destination {address}:{port}")  # fmt: skip
        text = "\n".join([*lines, "COMMIT", ""])
        subprocess.run(["iptables-restore"], input=text, text=True, check=True)

    def write_endpoints(self, rows):
        ports = {}  # of each pod; those with the same ones are a subset
        for name, _, pods in rows:
            for address, number in pods:
                ports.setdefault(address, []).append((name, number))
        ports = {address: tuple(of) for address, of in ports.items()}
        subsets = [
            {"addresses": [{"ip": address} for address in ports if ports[address] == of],
             "ports": [{"name": name, "port": number, "protocol": "TCP"} for name, number in of]}
            for of in sorted(set(ports.values()))
        ]  # fmt: skip
        thing = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": SERVICE}}
        self.case.api.apply({**thing, "subsets": subsets})

    def end(self):
        self.over.set()
        self.join(30)


# ---- what was asked ----


@dataclasses.dataclass
class Review:
    """A line of an operator's log."""

    at: float
    pod: str
    of: str
    webhook: str
    operation: str
    namespace: str
    name: str
    resource: str
    allowed: bool
    known: bool  # the pod's cache has the namespace
    had: bool  # or it has had it
    uid: str = ""

    def key(self):
        return self.webhook, self.operation, self.resource, self.namespace, self.name


LINE = re.compile(r'^I(\d{4}) ([\d:]+)(\.\d+) .*\] "(Reviewed|Namespace appeared)" (.*)\n', re.M)
WORD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


def reviews_of(pod):
    found, had = [], set()
    for day, clock, fraction, what, rest in LINE.findall(pod.log()):
        told = {key: value.strip('"') for key, value in WORD.findall(rest)}
        if what != "Reviewed":
            had.add(told["namespace"])
            continue
        stamp = time.strptime(f"{time.strftime('%Y')}{day} {clock}", "%Y%m%d %H:%M:%S")
        fields = {key: told[key] for key in ("webhook", "operation", "namespace", "name", "resource")}
        flags = {key: told[key] == "true" for key in ("allowed", "known")}
        at = time.mktime(stamp) + float(fraction)
        found.append(Review(at, pod.name, pod.of, **fields, **flags, had=told["namespace"] in had, uid=told["uid"]))
    return found


# ---- what is written ----


@dataclasses.dataclass
class Written:
    """A request of the test, and what came of it. The status is 0 when there was no answer."""

    operation: str
    namespace: str
    name: str
    came: float
    took: float
    status: int
    said: str


def labels_of(namespace):
    """Those that an object there has: the mesh's webhook sets them."""
    return {} if namespace.startswith(UNLABELLED) else control_labels(namespace)


def write(control, operation, namespace, name, data=None):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    method = {"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE"}[operation]
    thing = {"metadata": {"name": name, "labels": labels_of(namespace)}}
    thing["data"] = {"host": f"{name}.test", **(data or {})}
    body = None if operation == "DELETE" else json.dumps(thing).encode()
    came = time.time()
    try:
        target = path if operation == "CREATE" else f"{path}/{name}"
        answer = control.fetch(target, method, [("Content-Type", "application/json")], body)
        status, said = answer.status, "" if answer.status < 300 else answer.body.decode()
    except (OSError, wire.Cut) as error:
        status, said = 0, repr(error)
    return Written(operation, namespace, name, came, time.time() - came, status, said)


class Load:
    """Creates ConfigMaps, so many a second, one namespace after the other, from a few threads."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, case, spaces, rate=50, threads=3, control=None):
        """`control`: another API server than the case's."""
        self.control, self.spaces, self.rate = control or case.cluster, spaces, rate
        self.written = []
        self.numbers = itertools.count()
        self.over = threading.Event()
        self.began = time.time()
        self.run_id = next(harness.Run.counter)
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()
        case.addCleanup(self.end)

    def run(self):
        while True:
            number = next(self.numbers)
            if self.over.wait(max(0, self.began + number / self.rate - time.time())):
                return
            space = self.spaces[number % len(self.spaces)]
            self.written.append(write(self.control, "CREATE", space, f"load-{self.run_id}-{number}"))

    def end(self):
        """Returns all that was written, in order."""
        self.over.set()
        for thread in self.threads:
            thread.join(60)
        return sorted(self.written, key=lambda w: w.came)


def percentiles(written):
    """Of what it took, in ms: the half, 9 of 10, 99 of 100, all."""
    took = sorted(1000 * w.took for w in written)
    return [round(took[min(len(took) - 1, int(len(took) * part))], 1) for part in (0.5, 0.9, 0.99, 1)]


# ---- test cases ----


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Certificates:
    """A serving certificate for the Service, as a Secret is mounted in all pods, and who signed it."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "serving")
        self.volume = shard.Volume(self.path)
        self.count = 0
        self.renew()

    def renew(self, keep=False):
        """Another authority; `keep`: the bundle has the last one too, and the certificate stays until
        `serve`."""
        self.count += 1
        folder = os.path.join(self.folder, f"authority-{self.count}")
        os.mkdir(folder)
        self.authority = pki.Authority(folder)
        self.bundle = text_of(self.authority.certificate) + (self.bundle if keep else "")
        if not keep:
            self.serve()

    def serve(self):
        certificate, key = self.authority.server("webhook", f"DNS:{HOST}")
        self.volume.put({"tls.crt": text_of(certificate), "tls.key": text_of(key)})

    def encoded(self):
        return base64.b64encode(self.bundle.encode()).decode()


class WebhookPodsCase(mesh.MeshTestCase):
    """The control plane and its network are the class's, everything else a test's."""

    @classmethod
    def setUpClass(cls):
        cls.operator = own_cluster(cls)
        mesh.install(cls.addClassCleanup)
        if not harness.modern():
            harness.cluster().json("/api/v1/nodes", "POST", {"metadata": {"name": NODE}})

    def setUp(self):  # pylint: disable=super-init-not-called
        harness.TestCase.setUp(self)
        self.cluster = harness.cluster()
        self.namespace = self.home = NAMESPACE
        self.configs = f"{mesh.API}/namespaces/{NAMESPACE}/shardingconfigs"
        self.maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        self.service = f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}"
        self.kubectl = harness.Kubectl(self.path("."), self.cluster.kubeconfig)
        self.api = api.Api(self.cluster, NAMESPACE)
        self.certificates = Certificates(self.folder)
        self.started = []  # all pods that ever were
        self.spaces = []
        self.make_space(NAMESPACE)
        harness.wait_for_pods(self.cluster, NAMESPACE)
        self.addCleanup(self.forget)
        self.api.create(self.service_object())
        if harness.modern():
            services = PlayedServices(self)
            self.addCleanup(services.end)

    def forget(self):
        """The webhooks first, since they refuse that anything is deleted when no pod is left."""
        for kind in KINDS.values():
            for item in self.cluster.json(f"{CONFIGURATIONS}/{kind}")["items"]:
                self.cluster.fetch(f"{CONFIGURATIONS}/{kind}/{item['metadata']['name']}", "DELETE")
        for pod in self.started:
            pod.delete()  # no kubelet lets a pod go
        for space in self.spaces:
            self.cluster.fetch(f"/api/v1/namespaces/{space}", "DELETE")
        for space in self.spaces:
            path = f"/api/v1/namespaces/{space}"
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 404, f"{space} is gone", 120)

    def write_all(self, spaces, rounds):
        """An object is created, updated and deleted in each namespace, so often."""
        return [
            write(self.cluster, operation, space, f"thing-{i}", {"round": operation})
            for i in range(rounds)
            for space in spaces
            for operation in ("CREATE", "UPDATE", "DELETE")
        ]

    def make_space(self, name):
        metadata = {"name": name, "labels": labels_of(name)}
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.spaces.append(name)
        return name

    @staticmethod
    def service_object():
        port = {"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": "webhook"}
        spec = {"selector": {"app": NAMESPACE}, "ports": [port], "type": "ClusterIP"}
        metadata = {"name": SERVICE, "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    def webhook(self, kind, **more):
        """Of the operator's configuration."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["configmaps"], "scope": "*"}  # fmt: skip
        where = {"namespace": NAMESPACE, "name": SERVICE, "path": PATHS[kind], "port": 443}
        return {
            "name": BASE[kind],
            "clientConfig": {"service": where, "caBundle": self.certificates.encoded()},
            "rules": [rule],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 10,
            **more,
        }

    def configure(self, kind, name, webhooks, labels=None):
        """Returns its path."""
        metadata = {"name": name, "labels": labels or {}}
        version = "admissionregistration.k8s.io/v1"
        thing = {"apiVersion": version, "kind": kind, "metadata": metadata, "webhooks": webhooks}
        self.api.apply(thing)
        return f"{CONFIGURATIONS}/{KINDS[kind]}/{name}"

    def start(self, pods, proxied=True):
        """All of them: most of what a pod does at its start is to wait."""
        for pod in pods:
            pod.begin(proxied)
        for pod in pods:
            pod.wait_ready()

    # ---- what is so ----

    def wait_endpoints(self, name, count):
        """Until so many pods stand under a port of the Service."""

        def addresses():
            answer = self.cluster.fetch(f"/api/v1/namespaces/{NAMESPACE}/endpoints/{SERVICE}")
            subsets = json.loads(answer.body).get("subsets", []) if answer.status == 200 else []
            return {
                a["ip"] for s in subsets for a in s.get("addresses", [])
                if name in (p["name"] for p in s["ports"])
            }  # fmt: skip

        harness.wait_for(lambda: len(addresses()) == count, f"{count} pods of {name}")

    def reviews(self):
        return sorted((r for pod in self.started for r in pod.reviews()), key=lambda r: r.at)

    def check_once(self, written, owners, kinds=("validate", "default")):
        """Each of these writes was done, and asked of one pod of its shard by each webhook. `owners`:
        namespace -> shards that may have been asked; None for a namespace of which anybody may."""
        asked = {}
        for review in self.reviews():
            asked.setdefault(review.key(), []).append(review)
        for w in written:
            self.assertIn(w.status, (200, 201), w)
            for kind in kinds:
                found = asked.get((kind, w.operation, "configmaps", w.namespace, w.name), [])
                self.assertEqual(1, len(found), f"{kind} of {w}: {found}")
                owner = owners[w.namespace]
                if owner is not None:
                    self.assertIn(found[0].of, owner, f"{kind} of {w}: {found}")

    def audited(self, since):
        """By the audit log, which mutating webhooks were asked of each create: (namespace, name) ->
        names."""
        found = {}
        for entry in audit.entries(self.cluster.env["CLUSTER_AUDIT_LOG"], '"configmaps"'):
            if entry["verb"] != "create" or audit.arrival(entry) < since:
                continue
            notes = entry.get("annotations", {})
            asked = [json.loads(text)["webhook"] for key, text in sorted(notes.items())
                     if key.startswith("mutation.webhook.admission.k8s.io/round_")]  # fmt: skip
            found[entry["objectRef"]["namespace"], entry["objectRef"].get("name")] = asked
        return found
