# SPDX-License-Identifier: Apache-2.0
"""A pod that nobody reaches, and that keeps to a lease on its rules: it shows nothing after a stated time,
another shard gets what it had only after that, and when it comes back it shows nothing until it has the
rules that take it away. Judged by an operator that lists and writes through it all the time, and by the
audit log.
"""

import json
import os
import signal
import threading
import time

import audit
import harness
import mesh
import relay
import wire

LEASE = 10  # seconds
MARGIN = 5  # of the manager, for what was on its way: nothing is on its way for long here
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FAR = 60  # what no step takes, on however busy a machine


def setUpModule():
    mesh.install()


class Worker(threading.Thread):
    """An operator without a cache: it lists what it is shown, and writes to each of it."""

    def __init__(self, pod):
        super().__init__(daemon=True)
        self.pod = pod
        self.looks = []  # when one was asked for, when it was answered, and the names or the status
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.02):
            try:
                self.work()
            except (OSError, wire.Cut, ValueError):
                pass  # broken off

    def work(self):
        asked = time.time()
        shown = self.pod.shown()
        self.looks.append((asked, time.time(), shown))
        for name in shown if isinstance(shown, set) else ():
            body = json.dumps({"data": {"at": str(time.time())}}).encode()
            kind = [("Content-Type", "application/merge-patch+json")]
            self.pod.proxy.fetch(f"{self.pod.case.maps}/{name}", "PATCH", kind, body)

    def end(self):
        self.over.set()
        self.join(30)

    def shown(self, name, since):
        """Answers that showed it, of those that were asked for later."""
        return [look for look in self.looks
                if look[0] > since and isinstance(look[2], set) and name in look[2]]  # fmt: skip


class LeasePod(mesh.Pod):
    """Each with a user of its own, and a network that can be lost: a relay before the API server."""

    def __init__(self, case, name, of):
        super().__init__(case, name, {"shard": of}, of)
        self.tells = True
        self.proxy_args = [f"--rules-lease={LEASE}"]
        self.user = f"{name}.{os.getpid()}.{next(harness.Run.counter)}"
        self.network = relay.Relay(case.cluster.address)
        case.addCleanup(self.network.close)
        with open(case.cluster.user_kubeconfig(self.folder, self.user), encoding="utf-8") as direct:
            text = direct.read()
        self.kubeconfig = os.path.join(self.folder, "relayed.kubeconfig")
        with open(self.kubeconfig, "w", encoding="utf-8") as relayed:
            relayed.write(text.replace(case.cluster.env["APISERVER"], "https://" + self.network.address))
        case.allow(self.user)

    def start(self):
        super().start()
        self.worker = Worker(self)
        self.case.addCleanup(self.worker.end)
        return self

    def cut_off(self):
        """Nothing passes any more, and nobody is told."""
        self.network.lock.acquire()
        self.case.addCleanup(self.join_again)
        self.sync.signal(signal.SIGSTOP)
        self.case.addCleanup(self.sync.signal, signal.SIGCONT)

    def join_again(self):
        """What was on its way is lost, as it is in a network."""
        if self.network.lock.locked():
            self.network.drop_all()
            self.network.lock.release()

    def lease_said(self):
        return self.proxy.status()["lease"]


class TakeoverTest(mesh.MeshTestCase):
    """shard-a has part a, shard-b part b; then shard-b is to have both."""

    def setUp(self):
        super().setUp()
        self.log = audit.Log(self.cluster.env["CLUSTER_AUDIT_LOG"], f".{os.getpid()}.")
        self.lead = self.manager(f"--takeover-margin={MARGIN}", "--handover-wait=1")
        for part in ("a", "b"):
            name = f"shard-{part}"
            self.apply(mesh.config(name, name, mesh.limit(mesh.is_in("part", part)),
                                   controller={"leaderElectionName": "owner"}))  # fmt: skip
        self.gone, self.other = (LeasePod(self, f"{name}-0", name).start() for name in ("shard-a", "shard-b"))
        for name in ("shard-a", "shard-b"):
            self.wait_enforced(name, pods=1)
        for pod, part in ((self.gone, "a"), (self.other, "b")):
            harness.wait_for(lambda p=pod, n=f"object-{part}": self.written(p, n), f"it works on {part}")

    def allow(self, user):
        if self.cluster.fetch(RBAC).status == 404:
            return  # an API server that lets everybody do everything
        binding = {
            "metadata": {"name": f"takeover-{user}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "cluster-admin"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        }  # fmt: skip
        self.cluster.json(f"{RBAC}/clusterrolebindings", "POST", binding)
        self.addCleanup(
            self.cluster.fetch, f"{RBAC}/clusterrolebindings/takeover-{user}", "DELETE"
        )

    def written(self, pod, name):
        """Writes to the object by the pod's operator that were executed."""
        writes = [
            audit.write_of(entry, pod.user, pod.of)
            for entry in self.log.entries()
            if entry["user"]["username"] == pod.user
            and entry["verb"] == "patch"
            and entry["objectRef"].get("name") == name
            and entry["objectRef"]["resource"] == "configmaps"
        ]
        return [write for write in writes if write.ok()]

    def move(self):
        self.show("shard-a", "none")
        self.show("shard-b", "a", "b")
        self.wait_condition("shard-b", "Published", "False", "WaitingForHandover")

    def says(self, words):
        """Of whom shard-b waits for."""
        def look():
            return words in mesh.condition(self.get("shard-b"), "Published").get("message", "")

        harness.wait_for(look, f"it says {words}")

    def wait_taken(self):
        self.wait_condition("shard-b", "Published", "True", timeout=FAR)
        harness.wait_for(lambda: self.other.shown() == {"object-a", "object-b"}, "it has both")
        harness.wait_for(lambda: self.written(self.other, "object-a"), "it works on both")
        return time.time()

    def required(self):
        return self.gone.lease()["metadata"]["annotations"].get("cmesh.kusionstack.io/required-generation")

    def check_one_at_a_time(self):
        before, after = (self.written(pod, "object-a") for pod in (self.gone, self.other))
        self.assertTrue(before and after)
        self.assertLess(max(w.done for w in before), min(w.came for w in after), "two writers")

    def check_returns(self):
        """With its old rules, of which it shows nothing; then with those that take it away."""
        harness.wait_for(
            lambda: "generation 2 of its rules is required" in self.gone.proxy.ask_admin("/readyz").body.decode(),
            "it knows what is required",
        )
        self.assertTrue(self.gone.lease_said()["expired"])
        self.assertEqual(503, self.gone.shown())
        self.assertEqual("2", self.required())
        self.gone.sync.signal(signal.SIGCONT)
        harness.wait_for(lambda: self.gone.shown() == set(), "it is back")
        self.assertFalse(self.gone.lease_said()["expired"])
        self.assertIsNone(self.required())
        self.wait_enforced("shard-a", pods=1)
        self.wait_enforced("shard-b", pods=1)
        self.check_one_at_a_time()

    def test_cut_off(self):
        self.gone.cut_off()
        cut = time.time()
        self.move()
        harness.wait_for(lambda: self.gone.lease_said()["expired"], "it has expired", LEASE + 5)
        expired = time.time()
        self.assertEqual([], self.gone.worker.shown("object-a", cut + LEASE))
        self.assertEqual([], self.written(self.other, "object-a"))
        taken = self.wait_taken()
        self.assertGreater(taken, expired)
        self.assertEqual("2", self.required())
        self.assertEqual(1, self.lead.metrics()["cmesh_manager_pods_given_up_total"])
        self.gone.join_again()
        self.check_returns()
        self.assertEqual([], self.gone.worker.shown("object-a", cut + LEASE))
        metrics = self.gone.proxy.ask_admin("/metrics").body.decode()
        self.assertIn("cmesh_proxy_rules_lease_expired_total 1\n", metrics)

    def test_frozen(self):
        """Its clock goes on, and its operator, whose requests wait for it to be thawed."""
        for process in (self.gone.sync, self.gone.proxy):
            process.signal(signal.SIGSTOP)
        frozen = time.time()
        self.addCleanup(self.gone.sync.signal, signal.SIGCONT)
        self.move()
        self.says("does not respond; its rules will have expired for certain at 20")
        self.wait_taken()
        self.assertGreater(time.time() - frozen, LEASE)
        self.gone.proxy.signal(signal.SIGCONT)
        thawed = time.time()
        harness.wait_for(lambda: any(look[1] > thawed for look in self.gone.worker.looks), "it answers")
        self.check_returns()
        late = [look for look in self.gone.worker.looks if look[1] > thawed and look[2]]
        self.assertTrue(late)
        self.assertEqual({503}, {look[2] for look in late})

    def test_one_that_renews_is_not_given_up(self):
        """Its rulesync does not take the new rules: it is waited for, however long."""
        self.gone.sync.signal(signal.SIGSTOP)
        self.addCleanup(self.gone.sync.signal, signal.SIGCONT)
        self.move()
        end = time.time() + LEASE * 1.25 + MARGIN + 3
        while time.time() < end:
            self.assertEqual({"object-a"}, self.gone.shown())
            self.assertEqual({"object-b"}, self.other.shown())
            time.sleep(0.2)
        self.assertIsNone(self.required())
        self.gone.sync.signal(signal.SIGCONT)
        self.wait_taken()
        self.check_one_at_a_time()
