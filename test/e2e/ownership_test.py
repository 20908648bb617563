# SPDX-License-Identifier: Apache-2.0
"""No object is ever two shards': an operator whose shards and pods come, go and change at random, judged
by the API server's audit log.

Each pod has the real sidecars, a user of its own, and works all the time: it lists what it is shown and
writes to each of it. Between two steps all is settled; in each step namespaces move between shards,
shards are made and deleted, edits are taken back, pods die, and so does the manager. In a step what is
written in a namespace is written by its old shard, then by its new one, and not at the same time.
"""

import random
import signal
import time

import audit
import harness
import mesh
import working_pod

SEED = harness.seed()
STEPS = harness.reloads(12)
SPACES = 6
SHARDS_MAX = 4
KEY = working_pod.KEY
SOON = 60  # seconds in which a shard works on what it has, on however busy a machine


def setUpModule():
    mesh.install()


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
        self.writes = working_pod.Writes(self, self.users)
        self.lead = self.manager("--probe-interval", "1")

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
        tells, reachable = self.pick.choice(((True, True), (True, False), (False, True)))
        name = f"{shard}-{self.serial}"
        pod = working_pod.WorkingPod(self, name, shard, tells=tells, reachable=reachable)
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
            self.writes.soon(space, users, self.steps[-1].begun, SOON)

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
        gaps = audit.judge_steps(self, self.steps, self.writes.all())
        writes = len(self.writes.all())
        print(f"seed {SEED}: {STEPS} steps, {writes} writes by {len(self.users)} pods, {len(gaps)} "
              f"hand-overs, nobody's for {max(gaps, default=0):.2f} s at most", flush=True)  # fmt: skip
        self.assertGreater(len(gaps), 0)
        self.assertLess(max(gaps), audit.NOBODYS, "nobody's for too long")
