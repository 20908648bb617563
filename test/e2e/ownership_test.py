# SPDX-License-Identifier: Apache-2.0
"""No object is ever two shards': an operator whose shards and pods come, go and change at random, judged
by the API server's audit log.

Each pod has the real sidecars, a user of its own, and works all the time: it lists what it is shown and
writes to each of it. Between two steps all is settled; in each step namespaces move between shards,
shards are made and deleted, edits are taken back, pods die, and so does the manager. In a step what is
written in a namespace is written by its old shard, then by its new one, and not at the same time.
"""

import itertools
import json
import os
import random
import signal
import threading
import time

import audit
import harness
import mesh
import wire

SEED = harness.seed()
STEPS = harness.reloads(12)
SPACES = 6
SHARDS_MAX = 4
KEY = mesh.GROUP + "/namespace"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SOON = 60  # seconds in which a shard works on what it has, on however busy a machine


def setUpModule():
    mesh.install()


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

    def __init__(self, case, name, of):
        super().__init__(case, name, {"shard": of}, of)
        self.tells, reachable = case.pick.choice(((True, True), (True, False), (False, True)))
        if not reachable:
            self.reached_at = mesh.new_address()  # nobody is there
        self.user = f"{name}.{os.getpid()}.{next(harness.Run.counter)}"
        self.kubeconfig = case.cluster.user_kubeconfig(self.folder, self.user)
        self.worker = None
        case.allow(self.user)

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


class OwnershipTest(mesh.MeshTestCase):
    def setUp(self):
        super().setUp()
        self.pick = random.Random(SEED)
        self.spaces = [
            harness.make_namespace(self.cluster, f"owned-{i}", self.addCleanup) for i in range(SPACES)
        ]
        for space in self.spaces:
            thing = {"metadata": {"name": "object", "labels": {"owned": "yes", KEY: space}}}
            self.cluster.json(f"/api/v1/namespaces/{space}/configmaps", "POST", thing)
        self.serial = 0
        self.pods = {}  # of each shard
        self.users = {}  # user -> shard
        self.owner = {}  # namespace -> shard
        self.steps = []
        self.log = audit.Log(self.cluster.env["CLUSTER_AUDIT_LOG"], f".{os.getpid()}.")
        self.seen = []  # of each entry there, the write that it is
        self.lead = self.manager("--probe-interval", "1")

    def allow(self, user):
        name = f"owned-{user}"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "cluster-admin"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        }  # fmt: skip
        if self.cluster.fetch(RBAC).status == 404:
            return  # an API server that lets everybody do everything
        self.cluster.json(f"{RBAC}/clusterrolebindings", "POST", binding)
        self.addCleanup(self.cluster.fetch, f"{RBAC}/clusterrolebindings/{name}", "DELETE")

    # ---- shards ----

    def item(self, shard, owner):
        spaces = [space for space in self.spaces if owner[space] == shard]
        limit = mesh.limit(mesh.is_in(KEY, *spaces) if spaces else mesh.is_in(KEY, f"none-{shard}"))
        thing = mesh.config(shard, shard, limit, controller={"leaderElectionName": "owner"})
        thing["metadata"]["namespace"] = self.namespace
        return thing

    def apply_all(self, owner, shards):
        items = [self.item(shard, owner) for shard in shards]
        self.pick.shuffle(items)
        self.apply(*items)

    def new_pod(self, shard):
        self.serial += 1
        pod = WorkingPod(self, f"{shard}-{self.serial}", shard)
        self.users[pod.user] = shard
        self.pods[shard].append(pod)
        pod.start()

    def new_name(self):
        self.serial += 1
        return f"shard-{self.serial}"

    def settled(self):
        """All that there is enforces what is wanted, and works on it."""
        for shard, pods in self.pods.items():
            self.wait_enforced(shard, pods=len(pods), timeout=120)
            self.assertIsNone(mesh.condition(self.get(shard), "Stalled").get("reason"))
        for space in self.spaces:
            owner = self.owner[space]
            users = {user for user, shard in self.users.items() if shard == owner}
            since = self.steps[-1].begun

            def works(space=space, users=users, since=since):
                recent = itertools.takewhile(lambda w: w.came > since, reversed(self.writes()))
                return any(w.pod in users and w.namespace == space and w.ok() for w in recent)

            harness.wait_for(works, f"{owner} works in {space}", SOON, 0.2)

    def writes(self):
        """The pod of each is its user here."""
        for entry in self.log.entries()[len(self.seen):]:
            user = entry["user"]["username"]
            write = entry["verb"] in audit.WRITES and user in self.users
            self.seen.append(audit.write_of(entry, user, self.users[user]) if write else None)
        return sorted(filter(None, self.seen), key=lambda write: write.came)

    # ---- steps ----

    def random_owners(self, shards):
        return {space: self.pick.choice(shards) for space in self.spaces}

    def move(self):
        new = self.random_owners(list(self.pods))
        self.apply_all(new, self.pods)
        return [new]

    def edit_and_revert(self):
        old, other = dict(self.owner), self.random_owners(list(self.pods))
        self.apply_all(other, self.pods)
        time.sleep(self.pick.choice((0, 0.05, 0.3, 1)))
        self.apply_all(old, self.pods)
        return [other, old]

    def scale_out(self):
        shard = self.new_name()
        new = self.random_owners([*self.pods, shard])
        self.pods[shard] = []
        self.apply_all(new, self.pods)
        for _ in range(self.pick.choice((1, 2))):
            self.new_pod(shard)
        return [new]

    def scale_in(self):
        """What the shard had is given to others at once, while its pods still run."""
        shard = self.pick.choice(list(self.pods))
        pods = self.pods.pop(shard)
        new = {space: owner if owner != shard else self.pick.choice(list(self.pods))
               for space, owner in self.owner.items()}  # fmt: skip
        self.delete(shard)
        self.apply_all(new, self.pods)
        time.sleep(self.pick.choice((0, 0.5, 2)))
        for pod in pods:
            pod.stop()
            pod.delete()
        return [new]

    def kill_a_pod(self):
        shard = self.pick.choice(list(self.pods))
        new = self.random_owners(list(self.pods))
        pod = self.pods[shard].pop(self.pick.randrange(len(self.pods[shard])))
        self.apply_all(new, self.pods)
        pod.die()
        self.new_pod(shard)
        return [new]

    def freeze_a_pod(self):
        """It does not answer, and what it lost is held back, until it does."""
        pod = self.pick.choice(self.pick.choice(list(self.pods.values())))
        new = self.random_owners(list(self.pods))
        pod.sync.signal(signal.SIGSTOP)
        self.apply_all(new, self.pods)
        time.sleep(self.pick.choice((0.2, 1, 3)))
        pod.sync.signal(signal.SIGCONT)
        return [new]

    def kill_the_manager(self):
        new = self.random_owners(list(self.pods))
        self.apply_all(new, self.pods)
        time.sleep(self.pick.choice((0, 0.02, 0.1, 0.5)))
        self.lead.kill()
        self.lead = self.manager("--probe-interval", "1")
        return [new]

    def step(self):
        steps = [self.move, self.edit_and_revert, self.kill_a_pod, self.freeze_a_pod,
                 self.kill_the_manager]  # fmt: skip
        steps += [self.scale_out] if len(self.pods) < SHARDS_MAX else []
        steps += [self.scale_in] if len(self.pods) > 2 else []
        chosen = self.pick.choice(steps)
        self.begin(chosen.__name__)
        for owners in chosen():
            self.owner = owners
            for space, shards in self.steps[-1].planned.items():
                shards.append(owners[space])
        self.settled()

    def begin(self, what):
        planned = {space: [self.owner[space]] for space in self.spaces}
        self.steps.append(audit.Step(time.time(), f"seed {SEED}: {what}", planned))

    def test_shards_and_pods_come_go_and_change(self):
        first, second = self.new_name(), self.new_name()
        self.pods = {first: [], second: []}
        self.owner = self.random_owners([first, second])
        self.begin("begin")
        self.apply_all(self.owner, self.pods)
        for shard in (first, second):
            self.new_pod(shard)
            self.new_pod(shard)
        self.settled()
        for _ in range(STEPS):
            self.step()
        gaps = audit.judge_steps(self, self.steps, self.writes())
        writes = len(self.writes())
        print(f"seed {SEED}: {STEPS} steps, {writes} writes by {len(self.users)} pods, {len(gaps)} "
              f"hand-overs, nobody's for {max(gaps, default=0):.2f} s at most", flush=True)  # fmt: skip
        self.assertGreater(len(gaps), 0)
        self.assertLess(max(gaps), audit.NOBODYS, "nobody's for too long")
