# SPDX-License-Identifier: Apache-2.0
"""An operator is moved into the mesh and out of it by one rolling update of a real controller, under
load, judged by the API server's audit log: at no time do two work on the same, and rollouts end.

    test/e2e/run --reloads=NAMESPACES adoption_test
"""

import harness
import mesh
import moving_operator
from moving_operator import BARE


def setUpModule():
    mesh.install()


def itself(shard):
    return shard


class Case(moving_operator.Case):
    def setUp(self):
        super().setUp()
        self.manager("--bypass-wait", "0")

    def check(self, *wanted):
        """The last step: rolled out, and worked on by whom it is to be."""
        self.rolled_out()
        self.settle()
        measured = self.measure()
        for space, owner in self.owners(*wanted).items():
            last = [w for w in self.writes() if w.namespace == space and w.ok()][-1]
            self.assertEqual(owner[-1], last.shard, last)
        return measured


@harness.needs("StatefulSets and their controllers")
class InTest(Case):
    def test_a_stateful_set_with_election(self):
        self.deploy("StatefulSet", 4, podManagementPolicy="Parallel")
        self.begin()
        self.step("in, StatefulSet, elected", self.owners(BARE, itself))
        self.apply(*self.two_shards())
        self.roll(True)
        self.check(itself)

    def test_a_deployment_with_election(self):
        """One shard, of which new pods come before old ones go."""
        self.deploy("Deployment", 2)
        self.begin()
        self.step("in, Deployment, elected", self.owners(BARE, "all"))
        self.apply(self.shard("all", self.spaces, {"matchLabels": {"app": "op"}}))
        self.roll(True)
        self.check("all")

    def test_back_when_half_of_the_pods_are_in(self):
        """And in again. Pods without sidecars work all the time."""
        self.deploy("StatefulSet", 4)
        self.begin()
        self.step("in by half and back", self.owners(BARE))
        self.apply(*self.two_shards())
        self.roll(True, updateStrategy={"rollingUpdate": {"partition": 2}})
        self.rolled_out()
        self.settle()
        self.here("rollout", "undo", "statefulset/op")
        self.check(BARE)
        self.step("in again", self.owners(BARE, itself))
        self.roll(True, updateStrategy={"rollingUpdate": {"partition": 0}})
        self.check(itself)


@harness.needs("StatefulSets and their controllers")
class InWithoutElectionTest(Case):
    lock = None

    def test_a_stateful_set(self):
        """Of one pod, which becomes one shard of two."""
        self.deploy("StatefulSet", 1)
        self.begin()
        self.step("in, StatefulSet, not elected", self.owners(BARE, itself))
        blue, green = self.shares().values()
        self.apply(
            self.shard("blue", blue, self.of_pods("op-0")),
            self.shard("green", green, self.of_pods("op-1")),
        )
        self.roll(True, replicas=2)
        self.check(itself)


@harness.needs("StatefulSets and their controllers")
class OutTest(Case):
    """Of two shards of two pods each."""

    def setUp(self):
        super().setUp()
        self.deploy("StatefulSet", 4, podManagementPolicy="Parallel")
        self.apply(*self.two_shards())
        self.roll(True)
        self.rolled_out()
        self.begin()

    def holder(self, shard=None):
        """Of the lock of a shard; or of the operator's own."""
        lock = self.lock if shard is None else f"{self.lock}---{shard}"
        path = f"{moving_operator.LEASES.format(self.namespace)}/{lock}"
        return self.cluster.json(path)["spec"]["holderIdentity"].partition("_")[0]

    def slow_leader(self, shard):
        """Another pod of the shard is the first to ask for another lock."""
        name = self.holder(shard)
        for pod in self.kubelet.all():
            if pod.name == name:
                pod.operator.retry = 1.5

    def check_elected(self, *wanted):
        """Pods of one shard have worked one after the other, too."""
        measured = self.check(*wanted)
        self.assertEqual(0, measured.back, measured)

    def leave(self, name):
        """The shards, for that one; when all is ready to leave."""
        for shard in self.shares():
            self.patch(shard, {"spec": {"leaving": name}})
        for shard in self.shares():
            self.wait_condition(shard, "Ready", "True")
        if name in self.shares():
            harness.wait_for(lambda: self.holder() in ("op-0", "op-1"), f"{name} is elected")

    def test_by_a_shard_that_has_everything(self):
        self.step("out, StatefulSet, elected: leaving", self.owners(itself, "blue"))
        self.slow_leader("blue")
        self.leave("blue")
        self.check_elected("blue")
        self.step("out, StatefulSet, elected: rolling update", self.owners("blue", BARE))
        self.roll(False)
        self.check(BARE)
        for shard in self.shares():
            self.delete(shard)

    def test_leaving_is_taken_back(self):
        self.leave("blue")
        self.settle()
        self.slow_leader(None)
        self.step("leaving is taken back", self.owners("blue", itself))
        self.leave(None)
        self.check_elected(itself)

    def test_by_the_rolling_update_alone(self):
        """The first pod without sidecars has everything when it starts."""
        self.step("out, StatefulSet, without leaving", self.owners(itself, BARE))
        self.roll(False)
        self.check(BARE)


@harness.needs("Deployments and their controllers")
class OutOfDeploymentTest(Case):
    def test_by_a_shard_that_there_is_not(self):
        """As a shard of two pods is not to be named."""
        self.deploy("Deployment", 2)
        self.apply(self.shard("all", self.spaces, {"matchLabels": {"app": "op"}}))
        self.roll(True)
        self.rolled_out()
        self.begin()
        self.step("out, Deployment, elected: nobody, then a pod", self.owners("all", BARE))
        self.patch("all", {"spec": {"leaving": "nobody"}})
        self.wait_condition("all", "Ready", "True")
        self.roll(False)
        self.check(BARE)


@harness.needs("StatefulSets and their controllers")
class OutWithoutElectionTest(OutTest):
    """Of two shards of one pod, to one pod: which of all would work together, without a mesh."""

    lock = None

    def setUp(self):
        # pylint: disable-next=bad-super-call
        super(OutTest, self).setUp()
        blue, green = self.shares().values()
        self.deploy("StatefulSet", 1)
        self.apply(
            self.shard("blue", blue, self.of_pods("op-0")),
            self.shard("green", green, self.of_pods("op-1")),
        )
        self.roll(True, replicas=2)
        self.rolled_out()
        self.begin()

    def roll(self, sharded, **spec):
        super().roll(sharded, **({} if sharded else {"replicas": 1}), **spec)

    def test_by_a_shard_that_has_everything(self):
        """All give up what they have, and then pods are replaced."""
        self.step("out, StatefulSet, not elected: nobody, then the pod", self.owners(itself, BARE))
        self.leave("nobody")
        self.roll(False)
        self.check(BARE)

    test_leaving_is_taken_back = None


if __name__ == "__main__":
    harness.main()
