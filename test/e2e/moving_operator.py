# SPDX-License-Identifier: Apache-2.0
"""An operator that works while it is moved into the mesh, out of it, or from one kind of shards to
another: pods that real controllers make and a kubelet that runs them, without sidecars or with real
ones; users who change objects all the time; and the API server's audit log as the judge.
"""

import bisect
import dataclasses
import datetime
import json
import math
import os
import random
import re
import ssl
import statistics
import threading
import time

import audit
import harness
import labels_test
import mesh
import wire
import working_pod
from working_pod import KEY

MERGE = [("Content-Type", "application/merge-patch+json")]
JSON = [("Content-Type", "application/json")]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
LOCK = "op-lock"
LEASE_S, RENEW_S = 3, 2  # of the operator's election: for so long it holds, and may fail to renew
POD_NAME = "statefulset.kubernetes.io/pod-name"
ENABLE = f"{mesh.GROUP}/enable-proxy"
SHARD = f"{mesh.GROUP}/shard"
BARE = "no shard"  # whose pods without sidecars are
SOON = 120


class Client:
    """Connections of one thread, used again."""

    def __init__(self, address, tls=None):
        self.address = address
        self.tls = tls
        self.kept = None

    def ask(self, method, target, headers=(), body=None):
        connection, self.kept = self.kept or self.connect(), None
        try:
            answer = connection.request(method, target, headers, body)
        except BaseException:
            connection.close()
            raise
        if answer.complete and answer.get("Connection") is None and connection.left == 0:
            self.kept = connection
        else:
            connection.close()
        return answer

    def close(self):
        if self.kept is not None:
            self.kept.close()

    def connect(self):
        return wire.Connection(self.address, tls=self.tls, timeout=10)


class Operator:
    """As client-go would have it: it is elected if it has a lock, follows objects with one list and a
    watch, and writes into each what it has seen of it."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, address, tls, identity, namespace, lock):
        self.address, self.tls = address, tls
        self.identity = identity
        self.leases = LEASES.format(namespace)
        self.lock = lock
        self.leading = lock is None
        self.until = math.inf if lock is None else 0  # it leads, at most
        self.retry = 0.2  # seconds, until it renews, or asks again
        self.over = threading.Event()
        self.due = threading.Condition()
        self.objects = {}  # by namespace, as they were seen last
        self.queue = []
        self.lists = 0
        self.refused = 0
        self.synced = threading.Event()
        jobs = [self.follow, self.work] + ([self.stand] if lock else [])
        self.threads = [threading.Thread(target=self.run, args=(job,), daemon=True) for job in jobs]
        for thread in self.threads:
            thread.start()

    def run(self, job):
        client = Client(self.address, self.tls)
        while not self.over.is_set():
            try:
                job(client)
            except (OSError, wire.Cut, ValueError):
                self.over.wait(0.1)
        client.close()

    def end(self):
        """As on SIGTERM: it works on nothing more, and gives its lock back."""
        self.over.set()
        with self.due:
            self.due.notify_all()
        for thread in self.threads:
            thread.join(30)
        if self.lock and self.leading:
            self.leading = False
            client = Client(self.address, self.tls)
            try:
                lease = self.read(client)
                if lease and lease["spec"].get("holderIdentity") == self.identity:
                    self.write(client, lease, "")
            except (OSError, wire.Cut):
                pass
            client.close()

    # ---- election ----

    def stand(self, client):
        seen, since, renewed = None, 0, 0
        while not self.over.wait(self.retry):
            asked = time.monotonic()
            try:
                lease = self.read(client)
                if lease is not None and lease["spec"] != seen:
                    seen, since = lease["spec"], asked
                holder = (seen or {}).get("holderIdentity")
                free = not holder or asked - since > LEASE_S
                if (free or holder == self.identity) and self.write(client, lease, self.identity):
                    renewed = asked
                    self.until = asked + RENEW_S
                    self.lead(True)
            except (OSError, wire.Cut):
                pass
            if time.monotonic() - renewed > RENEW_S:
                self.lead(False)

    def lead(self, leading):
        if leading and not self.leading:
            with self.due:
                self.leading = True
                self.queue = list(self.objects)
                self.due.notify_all()
        self.leading = leading

    def leads(self):
        """Not for longer than it may, however long an answer to its renewal takes."""
        return self.leading and time.monotonic() < self.until

    def read(self, client):
        answer = client.ask("GET", f"{self.leases}/{self.lock}")
        if answer.status not in (200, 404):
            raise wire.Cut(f"the lock: {answer.status}")
        return json.loads(answer.body) if answer.status == 200 else None

    def write(self, client, lease, holder):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": LEASE_S, "renewTime": now}
        if lease is None:
            body = json.dumps({"metadata": {"name": self.lock}, "spec": spec}).encode()
            return client.ask("POST", self.leases, JSON, body).status == 201
        lease["spec"].update(spec)
        path = f"{self.leases}/{self.lock}"
        return client.ask("PUT", path, JSON, json.dumps(lease).encode()).status == 200

    # ---- what it follows ----

    def follow(self, client):
        query = "labelSelector=owned"
        answer = client.ask("GET", f"/api/v1/configmaps?{query}&resourceVersion=0")
        if answer.status != 200 or not answer.complete:
            raise wire.Cut(f"a list: {answer.status}")
        listed = json.loads(answer.body)
        self.lists += 1
        self.objects = {}
        for item in listed["items"]:
            self.note("ADDED", item)
        self.synced.set()
        version = listed["metadata"]["resourceVersion"]
        while not self.over.is_set():
            version = self.watch(f"{query}&watch=1&allowWatchBookmarks=1&resourceVersion={version}",
                                 version)  # fmt: skip

    def watch(self, query, version):
        with wire.Connection(self.address, tls=self.tls, timeout=1) as connection:
            connection.send_head("GET", f"/api/v1/configmaps?{query}")
            if connection.read_head().status != 200:
                raise wire.Cut("a watch")
            rest = b""
            while not self.over.is_set():
                try:
                    data = connection.read_some()
                except TimeoutError:
                    continue
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise wire.Cut("a watch has expired")
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.note(event["type"], event["object"])
        return version

    def note(self, change, item):
        space = item["metadata"]["namespace"]
        with self.due:
            if change == "DELETED":
                self.objects.pop(space, None)
            else:
                self.objects[space] = item.get("data", {})
                self.queue.append(space)
                self.due.notify_all()

    # ---- what it does ----

    def work(self, client):
        while not self.over.is_set():
            with self.due:
                self.due.wait_for(lambda: self.over.is_set() or (self.queue and self.leads()), 1)
                if self.over.is_set() or not self.queue or not self.leads():
                    continue
                space = self.queue.pop(0)
                data = self.objects.get(space, {})
            if data.get("wanted") != data.get("seen"):
                body = json.dumps({"data": {"seen": data["wanted"]}}).encode()
                path = f"/api/v1/namespaces/{space}/configmaps/object"
                status = client.ask("PATCH", path, MERGE, body).status
                self.refused += status >= 300


class OperatorPod(mesh.Pod):
    """A pod that a controller has made. `lock`: of its operator's election; None: it has none."""

    def __init__(self, case, thing, of, lock):
        meta = thing["metadata"]
        self.operator = None
        super().__init__(case, meta["name"], {}, of)
        self.uid = meta["uid"]
        self.lock = lock
        self.user = f"{self.name}.{self.uid[:8]}.{os.getpid()}.{next(harness.Run.counter)}"
        self.folder = case.path(self.user)
        os.makedirs(self.folder)
        self.kubeconfig = case.cluster.user_kubeconfig(self.folder, self.user)
        working_pod.allow(case, self.user)
        case.users[self.user] = of or BARE

    def create(self):
        """It is there; what the webhook says of its sidecars comes a moment later here."""
        if self.of is not None:
            patch = {"metadata": {"annotations": {mesh.INJECTED: self.of}}}
            self.case.cluster.json(f"{self.path}/{self.name}", "PATCH", patch, MERGE[0][1])

    def place(self):
        """Where its operator finds the API server."""
        if self.proxy is not None:
            return self.at("api"), None
        with open(self.kubeconfig, encoding="utf-8") as f:
            text = f.read()
        found = [re.search(rf"{key}: (\S+)", text)[1] for key in ("client-certificate", "client-key")]
        tls = ssl.create_default_context(cafile=self.case.cluster.env["CLUSTER_CA"])
        tls.load_cert_chain(*found)
        return self.case.cluster.address, tls

    def start(self):
        """As its kubelet: the operator starts when there are rules, and the pod is Ready when the
        operator has seen all that it follows."""
        self.create()
        if self.of is not None:
            self.start_proxy()
            self.start_sync()
            self.set_status(ready=False, phase="Pending")
            harness.wait_for(self.has_rules, f"{self.name} has rules", SOON)
        address, tls = self.place()
        self.operator = Operator(address, tls, f"{self.name}_{self.uid}", self.case.namespace,
                                 self.lock)  # fmt: skip
        harness.wait_for(self.operator.synced.is_set, f"{self.name} has its caches", SOON)
        self.set_status()
        return self

    def has_rules(self):
        return self.case.over or self.proxy.ask_admin("/readyz").status == 200

    def stop(self):
        if self.operator is not None:
            self.operator.end()
        super().stop()


class Kubelet:
    """Runs the pods of the namespace, each in a thread that lives as long as its processes."""

    def __init__(self, case):
        self.case = case
        self.pods = {}  # by uid, each one that there ever was
        self.ended = {}  # likewise: when it is to end
        self.threads = []
        self.errors = []
        self.watched = mesh.Watched(case.cluster, case.pods, self.look)

    def look(self, change, thing):
        uid = thing["metadata"]["uid"]
        if uid not in self.ended and self.case.over:
            return  # a controller makes pods for as long as it is there
        if uid not in self.ended:
            self.ended[uid] = threading.Event()
            thread = threading.Thread(target=self.run, args=(thing,), daemon=True)
            self.threads.append(thread)
            thread.start()
        if change == "DELETED" or "deletionTimestamp" in thing["metadata"]:
            self.ended[uid].set()

    def run(self, thing):
        uid = thing["metadata"]["uid"]
        try:
            sharded = thing["metadata"]["labels"].get(ENABLE) == "true"
            of = self.shard_of(thing) if sharded else None
            self.pods[uid] = OperatorPod(self.case, thing, of, self.case.lock)
            self.pods[uid].start()
            self.ended[uid].wait()
            self.pods[uid].stop()
            self.pods[uid].finalize()
        except Exception as e:  # pylint: disable=broad-except
            self.errors.append(f"{thing['metadata']['name']}: {e!r}")

    def shard_of(self, thing):
        """A controller makes a pod again and again until a shard selects it."""
        found = []

        def look():
            found[:] = [self.case.shard_of(self.case.assigned(thing))]
            return found[0] or self.case.over

        harness.wait_for(look, "a shard selects the pod", SOON)
        return found[0]

    def all(self):
        return list(self.pods.values())

    def stop(self):
        self.watched.end()
        for ended in self.ended.values():
            ended.set()
        for thread in self.threads:
            thread.join(60)


class Users(threading.Thread):
    """Change objects, so many in a second: of each namespace one, in any order, then again."""

    def __init__(self, case, rate):
        super().__init__(daemon=True)
        self.case = case
        self.rate = rate
        self.client = Client(case.cluster.address, case.cluster.tls)
        self.over = threading.Event()
        self.serial = 0
        self.changes = []  # when, and in which namespace
        self.pick = random.Random(1)
        self.start()

    def run(self):
        due, left = time.monotonic(), []
        while not self.over.wait(max(0, due - time.monotonic())):
            due = max(due + 1 / self.rate, time.monotonic() - 1)
            left = left or self.pick.sample(self.case.spaces, len(self.case.spaces))
            self.change(left.pop())

    def change(self, space):
        self.serial += 1
        body = json.dumps({"data": {"wanted": str(self.serial)}}).encode()
        path = f"/api/v1/namespaces/{space}/configmaps/object"
        answer = self.client.ask("PATCH", path, MERGE, body)
        if answer.status == 200:
            self.changes.append((time.time(), space))

    def end(self):
        self.over.set()
        self.join(30)
        self.client.close()


@dataclasses.dataclass
class Measured:
    """One row of the table, of a move. Times are in seconds."""

    what: str
    writes: int  # of the operator, which were judged
    moved: int  # how often another owner wrote next
    back: int  # how often a pod wrote again after another one of the same owner
    waits: dict  # namespace -> from each change to the operator's write: so long it was nobody's, at most
    refused: int
    again: int

    COLUMNS = ("writes", "moved", "back", "seen after", "nobody's: median", "longest", "refused", "lists")
    HEAD = f"{'':48}" + " ".join(f"{column:>7}" for column in COLUMNS)

    def longest(self):
        """Of each object the longest time."""
        return [max(waits) for waits in self.waits.values() if waits] or [0]

    def __str__(self):
        every = [wait for waits in self.waits.values() for wait in waits] or [0]
        values = (
            *(self.writes, self.moved, self.back, f"{statistics.median(every):.3f}"),
            *(f"{statistics.median(self.longest()):.3f}", f"{max(self.longest()):.3f}"),
            *(self.refused, self.again),
        )
        cells = (f"{value:>{max(7, len(column))}}" for value, column in zip(values, self.COLUMNS))
        return f"{self.what:48}" + " ".join(cells)


class Case(mesh.MeshTestCase):
    """An operator `op` without sidecars, of which the namespaces are shared by blue and green."""

    SPACES = 16
    lock = LOCK
    measured = 0  # rows of the table

    def setUp(self):
        super().setUp()
        self.over = False
        self.assigning = threading.Lock()
        self.users = {}
        self.steps = []
        count = harness.reloads(self.SPACES)
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.apps = f"/apis/apps/v1/namespaces/{self.namespace}"
        self.log = audit.Log(self.cluster.env["CLUSTER_AUDIT_LOG"], f".{os.getpid()}.")
        self.judged, self.found = 0, []
        self.spaces = [self.make_space() for _ in range(count)]
        self.owned = set(self.spaces)
        self.half = count // 2
        self.kubelet = Kubelet(self)
        self.addCleanup(self.kubelet.stop)
        self.rate = max(8, count // 4)

    def make_space(self):
        name = f"moved-{os.getpid()}-{next(harness.Run.counter)}"
        self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": name}})
        self.addCleanup(self.cluster.fetch, f"/api/v1/namespaces/{name}", "DELETE")
        labels = {"owned": "yes", KEY: name}
        labels[harness.HASH_LABEL] = labels_test.hash_of(name)
        thing = {"metadata": {"name": "object", "labels": labels}}
        self.cluster.json(f"/api/v1/namespaces/{name}/configmaps", "POST", thing)
        return name

    def tearDown(self):
        self.over = True
        self.assertEqual([], self.kubelet.errors)
        super().tearDown()

    # ---- shards ----

    def shares(self):
        return {"blue": self.spaces[: self.half], "green": self.spaces[self.half :]}

    def shard(self, name, spaces, selector, **spec):
        """`spec`: more of it."""
        if self.lock:
            spec.setdefault("controller", {"leaderElectionName": self.lock})
        limit = mesh.limit(mesh.is_in(KEY, *spaces))
        return mesh.config(name, name, limit, selector=selector, **spec)

    @staticmethod
    def of_pods(*names):
        term = {"key": POD_NAME, "operator": "In", "values": list(names)}
        return {"matchLabels": {"app": "op"}, "matchExpressions": [term]}

    def two_shards(self, **spec):
        """Of two pods each."""
        names = {"blue": ("op-0", "op-1"), "green": ("op-2", "op-3")}
        return [
            self.shard(name, spaces, self.of_pods(*names[name]), **spec)
            for name, spaces in self.shares().items()
        ]

    def assigned(self, thing):
        """Its labels, with that of a shard if a root has its Deployment, as the webhook would have it:
        the shard with the fewest pods."""
        meta = thing["metadata"]
        configs = self.cluster.json(self.configs)["items"]
        roots = {c["metadata"]["uid"] for c in configs if "targetDeployment" in c["spec"].get("root", {})}
        if not roots or SHARD in meta["labels"] or meta["ownerReferences"][0]["kind"] != "ReplicaSet":
            return meta["labels"]
        shards = sorted(
            c["metadata"]["name"]
            for c in configs
            if roots & {owner["uid"] for owner in c["metadata"].get("ownerReferences", [])}
        )
        with self.assigning:
            pods = [pod["metadata"] for pod in self.cluster.json(self.pods)["items"]]
            given = {pod["name"]: pod["labels"].get(SHARD) for pod in pods}
            shard = given.get(meta["name"]) or min(shards, key=list(given.values()).count)
            patch = {"metadata": {"labels": {SHARD: shard}}}
            path = f"{self.pods}/{meta['name']}"
            return self.cluster.json(path, "PATCH", patch, MERGE[0][1])["metadata"]["labels"]

    def shard_of(self, labels):
        """The one that the webhook would find; None: there is none yet."""
        for thing in self.cluster.json(self.configs)["items"]:
            selector = thing["spec"].get("selector", {})
            terms = selector.get("matchExpressions", [])
            right = all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())
            right = right and "root" not in thing["spec"]
            if right and all(labels.get(term["key"]) in term["values"] for term in terms):
                return thing["metadata"]["name"]
        return None

    # ---- the operator ----

    @staticmethod
    def template(sharded):
        """What the webhook would add is there."""
        containers = [{"name": "operator", "image": "operator"}]
        labels = {"app": "op", ENABLE: "true" if sharded else None}
        if sharded:
            for name, port, number in (("cmesh-localproxy", "cmesh-admin", 5441),
                                       ("cmesh-rulesync", "cmesh-rulesync", 5442)):  # fmt: skip
                ports = [{"name": port, "containerPort": number}]
                containers.append({"name": name, "image": "cmesh", "ports": ports})
        return {
            "metadata": {"labels": labels, "finalizers": ["cmesh.test/works"]},
            "spec": {"containers": containers},
        }

    def deploy(self, kind, replicas, name="op", labels=None, **spec):
        """`labels`: further ones of its pods; with ENABLE among them they have sidecars. `spec`: more
        of it."""
        self.workload = f"{self.apps}/{kind.lower()}s/{name}"
        labels = labels or {}
        template = self.template(ENABLE in labels)
        template["metadata"]["labels"] = {"app": "op", **labels}
        spec.update(replicas=replicas, selector={"matchLabels": {"app": "op"}}, template=template)
        if kind == "StatefulSet":
            spec["serviceName"] = name
        path = self.workload.removesuffix(f"/{name}")
        self.cluster.json(path, "POST", {"metadata": {"name": name}, "spec": spec})
        self.addCleanup(self.undeploy)
        self.rolled_out()

    def undeploy(self):
        for kind in ("statefulsets", "deployments"):
            self.cluster.fetch(f"{self.apps}/{kind}", "DELETE")
        sets = f"{self.apps}/replicasets"

        def gone():
            """A ReplicaSet makes pods anew until the garbage collector has it; the kubelet, which is over,
            does not know of these."""
            self.cluster.fetch(f"{self.pods}?gracePeriodSeconds=0", "DELETE")
            left = self.cluster.json(self.pods)["items"]
            for pod in left:
                if pod["metadata"]["uid"] not in self.kubelet.ended:
                    path = f"{self.pods}/{pod['metadata']['name']}"
                    self.cluster.fetch(path, "PATCH", MERGE, b'{"metadata":{"finalizers":null}}')
            return not left and not self.cluster.json(sets)["items"]

        harness.wait_for(gone, "the operator is gone")

    def roll(self, sharded, **spec):
        patch = {"spec": {"template": self.template(sharded), **spec}}
        self.cluster.json(self.workload, "PATCH", patch, MERGE[0][1])

    def rolled_out(self):
        """As a user, or Helm, waits for it."""
        self.here("rollout", "status", self.workload.removeprefix(self.apps + "/"), f"--timeout={SOON}s")

    # ---- what happened ----

    def begin(self):
        """Users change objects from now on."""
        self.load = Users(self, self.rate)
        self.addCleanup(self.load.end)
        self.settle()

    def settle(self):
        """Until the operator has written in each namespace from now on."""
        since = time.time()

        def seen():
            return {w.namespace for w in self.writes() if w.ok() and w.came > since} >= all_spaces

        all_spaces = set(self.spaces)
        harness.wait_for(seen, "all namespaces are worked on", SOON, 0.3)

    def writes(self):
        for entry in self.log.entries()[self.judged :]:
            self.judged += 1
            user, about = entry["user"]["username"], entry.get("objectRef", {})
            if (entry["verb"] in audit.WRITES and user in self.users
                    and about.get("namespace") in self.owned):  # fmt: skip
                self.found.append(audit.write_of(entry, user, self.users[user]))
        self.found.sort(key=lambda write: write.came)
        return self.found

    def step(self, what, owners):
        """From now on the namespaces are to have these owners, in this order."""
        self.steps.append(audit.Step(time.time(), what, owners))
        self.counted = self.counts()

    def counts(self):
        operators = [pod.operator for pod in self.kubelet.all() if pod.operator is not None]
        return sum(o.refused for o in operators), sum(max(0, o.lists - 1) for o in operators)

    def measure(self):
        """Of the last step: never were there two, and not for too long nobody."""
        step, writes = self.steps[-1], [w for w in self.writes() if w.came >= self.steps[-1].begun]
        gaps = audit.judge_steps(self, [step], writes)
        refused, again = (now - then for now, then in zip(self.counts(), self.counted))
        waits = self.waits(step.begun, writes)
        done = sum(map(audit.Write.ok, writes))
        measured = Measured(step.what, done, len(gaps), self.back(writes), waits, refused, again)
        if not Case.measured:
            print(Measured.HEAD)
        Case.measured += 1
        print(measured, flush=True)
        self.assertLess(max(measured.longest()), audit.NOBODYS, measured)
        return measured

    @staticmethod
    def back(writes):
        """Elected pods of one owner work one after the other."""
        found, order = 0, {}
        for write in filter(audit.Write.ok, writes):
            pods = order.setdefault(write.shard, [])
            if not pods or pods[-1] != write.pod:
                found += write.pod in pods
                pods.append(write.pod)
        return found

    def waits(self, since, writes):
        there = {space: [] for space in self.spaces}
        for write in filter(audit.Write.ok, writes):
            there[write.namespace].append(write.came)
        found = {space: [] for space in self.spaces}
        for at, space in self.load.changes:
            after = bisect.bisect(there[space], at - 0.05)
            if at >= since and after < len(there[space]):
                found[space].append(max(0, there[space][after] - at))
        return found

    def owners(self, *rest):
        """Of each namespace, in order: BARE, or a function from the shard to one."""
        return {
            space: [one(name) if callable(one) else one for one in rest]
            for name, spaces in self.shares().items()
            for space in spaces
        }
