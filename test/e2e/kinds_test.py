# SPDX-License-Identifier: Apache-2.0
"""An operator in shards changes the kind of these under load, without a stop: from shards by hand to
automatic ones and back, to another prefix of these, and to another lock. The API server's audit log
is the judge: at no time do two work on the same.

    test/e2e/run --reloads=NAMESPACES kinds_test
"""

import json

import harness
import mesh
import moving_operator


def setUpModule():
    mesh.install()


@harness.needs("StatefulSets and their controllers")
class KindsTest(moving_operator.Case):
    """Of a StatefulSet of four pods, two for each shard."""

    def setUp(self):
        super().setUp()
        self.manager("--bypass-wait", "0")
        self.deploy("StatefulSet", 4, podManagementPolicy="Parallel")

    def shards_by_hand(self):
        self.apply(*self.two_shards())
        return {space: name for name, spaces in self.shares().items() for space in spaces}

    def root(self, prefix, lock=None):
        auto = {"shardingSize": "auto", "everyShardReplicas": 2}
        root = {"prefix": prefix, "targetStatefulSet": "op", "auto": auto,
                "resourceSelector": [{"relateResources": mesh.limit({})["relateResources"]}]}  # fmt: skip
        thing = mesh.config("op", "op", controller={"leaderElectionName": lock or self.lock}, root=root)
        thing["spec"]["selector"] = {"matchLabels": {"app": "op"}}
        del thing["spec"]["limits"]
        self.apply(thing)
        return self.owners_of_root(prefix, 2)

    def owners_of_root(self, prefix, size):
        """When so many shards have a share."""
        names = [f"{prefix}-{number}-normal" for number in range(1, size + 1)]
        shares = {}

        def all_is_shared_out():
            shares.update((name, self.has_share(name) or set()) for name in names)
            return all(shares.values()) and sum(map(len, shares.values())) == 32

        harness.wait_for(all_is_shared_out, f"{size} shards have their shares", 90)
        return {
            space: next(name for name, buckets in shares.items() if self.bucket(space) in buckets)
            for space in self.spaces
        }

    def has_share(self, name):
        answer = self.cluster.fetch(f"{self.configs}/{name}")
        return answer.status == 200 and mesh.buckets_of(json.loads(answer.body))

    @staticmethod
    def bucket(space):
        return int(moving_operator.labels_test.hash_of(space))

    def into_the_mesh(self, shards):
        owners = shards()
        self.roll(True)
        self.rolled_out()
        self.begin()
        return owners

    def change(self, what, before, edit, restart=True):
        """The operator is restarted after the edit, as pods keep the sidecars of their shard."""
        self.step(what, {space: [before[space]] for space in self.spaces})
        after = edit()
        for space in self.spaces:
            self.steps[-1].planned[space].append(after[space])
        if restart:
            self.restart()
        self.rolled_out()
        self.settle()
        self.finish()
        return after

    def restart(self):
        annotations = {"restarted": str(len(self.steps))}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        self.cluster.json(self.workload, "PATCH", patch, moving_operator.MERGE[0][1])

    def finish(self):
        """All is worked on by the last of the planned ones."""
        self.measure()
        last = {write.namespace: write for write in self.writes() if write.ok()}
        for space, owners in self.steps[-1].planned.items():
            self.assertEqual(owners[-1], last[space].shard, last[space])

    def scale(self, replicas):
        self.cluster.json(self.workload, "PATCH", {"spec": {"replicas": replicas}}, moving_operator.MERGE[0][1])

    def test_rolled_and_scaled(self):
        """Not another kind, but what an operator does all the time; to compare with."""
        two = self.into_the_mesh(lambda: self.root("op"))
        self.change("rolling update", two, lambda: two)

        def sized(replicas):
            self.scale(replicas)
            return self.owners_of_root("op", replicas // 2)

        three = self.change("scaled from 2 shards to 3", two, lambda: sized(6), restart=False)
        self.change("scaled from 3 shards to 2", three, lambda: sized(4), restart=False)

    def remove(self, *names):
        for name in names:
            self.delete(name)

    def test_by_hand_to_a_root_and_back(self):
        by_hand = self.into_the_mesh(self.shards_by_hand)

        def to_root():
            self.remove("blue", "green")
            return self.root("op")

        def to_hand():
            self.remove("op")
            for name in ("op-1-normal", "op-2-normal"):
                harness.wait_for(lambda n=name: not self.has_share(n), f"{name} is gone", 90)
            return self.shards_by_hand()

        automatic = self.change("by hand to a root", by_hand, to_root)
        self.change("a root to by hand", automatic, to_hand)

    def test_no_shards_to_a_root_and_back(self):
        """Its children give up what they have when the root says so."""
        self.begin()
        self.step("no shards to a root", {space: [moving_operator.BARE] for space in self.spaces})
        after = self.root("op")
        for space in self.spaces:
            self.steps[-1].planned[space].append(after[space])
        self.roll(True)
        self.rolled_out()
        self.settle()
        self.finish()
        heir = "op-1-normal"
        self.step("a root, leaving", {space: [name, heir] for space, name in after.items()})
        self.patch("op", {"spec": {"leaving": heir}})
        for name in (heir, "op-2-normal"):
            harness.wait_for(lambda n=name: self.get(n)["spec"].get("leaving") == heir, "it is passed on")
            self.wait_condition(name, "Ready", "True")
        self.settle()
        self.finish()
        self.step("a root to no shards", {space: [heir, moving_operator.BARE] for space in self.spaces})
        self.roll(False)
        self.rolled_out()
        self.settle()
        self.finish()

    def another_workload(self, what, before, edit, *deployed):
        """The shards stay, and both have pods of them until the old one is deleted. `deployed`: what
        `deploy` is given, each time."""
        old = self.workloads()
        self.step(what, {space: [owner] for space, owner in before.items()})
        edit()
        for arguments, more in deployed:
            self.deploy(*arguments, labels={moving_operator.ENABLE: "true", **more},
                        **({"podManagementPolicy": "Parallel"} if arguments[0] == "StatefulSet" else {}))  # fmt: skip
        self.here("delete", *old)
        harness.wait_for(lambda: not self.pods_of_old(old), "the old pods are gone", moving_operator.SOON)
        self.settle()
        self.finish()

    def workloads(self):
        names = self.here("get", "statefulsets,deployments", "-o", "name").split()
        self.assertTrue(names)
        return names

    def pods_of_old(self, old):
        names = {name.partition("/")[2] for name in old}
        kinds = {"StatefulSet" if name.startswith("statefulset") else "ReplicaSet" for name in old}
        return [
            pod
            for pod in self.cluster.json(self.pods)["items"]
            if (owner := pod["metadata"]["ownerReferences"][0])["kind"] in kinds
            and any(owner["name"].startswith(name) for name in names)
        ]

    def target(self, **fields):
        self.patch("op", {"spec": {"root": {"targetStatefulSet": None, "targetDeployment": None, **fields}}})

    def test_a_root_of_a_stateful_set_to_a_deployment_and_back(self):
        owners = self.into_the_mesh(lambda: self.root("op"))
        self.another_workload("a root: StatefulSet to Deployment", owners,
                              lambda: self.target(targetDeployment="op"), (("Deployment", 4), {}))  # fmt: skip
        self.another_workload("a root: Deployment to StatefulSet", owners,
                              lambda: self.target(targetStatefulSet="op"), (("StatefulSet", 4), {}))  # fmt: skip

    def by_label(self):
        things = self.two_shards()
        for thing in things:
            thing["spec"]["selector"] = {"matchLabels": {"app": "op", "part": thing["metadata"]["name"]}}
        self.apply(*things)

    def test_by_hand_of_a_stateful_set_to_deployments_and_back(self):
        """One for each shard."""
        owners = self.into_the_mesh(self.shards_by_hand)
        self.another_workload("by hand: StatefulSet to Deployments", owners, self.by_label,
                              *((("Deployment", 2, f"op-{name}"), {"part": name}) for name in self.shares()))  # fmt: skip
        self.another_workload("by hand: Deployments to StatefulSet", owners, self.shards_by_hand,
                              (("StatefulSet", 4), {}))  # fmt: skip

    def test_another_prefix(self):
        before = self.into_the_mesh(lambda: self.root("old"))
        self.change("another prefix", before, lambda: self.root("new"))

    def test_another_lock(self):
        """Which the operator's new pods ask for: with other names of the shards, as pods of one shard
        would be elected by two locks otherwise."""
        before = self.into_the_mesh(self.shards_by_hand)

        def to_lock():
            self.remove("blue", "green")
            self.lock = "op-lock2"
            things = self.two_shards()
            for thing in things:
                thing["metadata"]["name"] += "-2"
            self.apply(*things)
            return {space: f"{name}-2" for space, name in before.items()}

        self.change("another lock", before, to_lock)

    def test_other_labels_of_namespaces(self):
        """What selects the same as before, by other labels."""
        for name, spaces in self.shares().items():
            for space in spaces:
                self.relabel(space, {"team": name})
        self.manage_labels("team")
        owners = {space: name for name, spaces in self.shares().items() for space in spaces}
        self.roll(True)
        self.rolled_out()
        self.begin()
        self.step("other labels of namespaces", {s: [owner] for s, owner in owners.items()})
        for space, owner in owners.items():
            self.relabel(space, {"squad": owner})
        self.manage_labels("squad")
        for name in self.shares():
            self.wait_condition(name, "Ready", "True")
        for space in owners:
            self.relabel(space, {"team": None})
        self.settle()
        self.finish()

    def relabel(self, space, labels):
        patch = {"metadata": {"labels": labels}}
        self.cluster.json(f"/api/v1/namespaces/{space}", "PATCH", patch, moving_operator.MERGE[0][1])

    def manage_labels(self, key):
        things = self.two_shards()
        for thing in things:
            limit = thing["spec"]["limits"][0]
            del limit["selector"]
            limit["namespaceSelector"] = {"matchLabels": {key: thing["metadata"]["name"]}}
        self.apply(*things)


if __name__ == "__main__":
    harness.main()
