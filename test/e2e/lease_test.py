# SPDX-License-Identifier: Apache-2.0
"""One Lease is shared by replicas of ours (`test/support/elect`) and of client-go: one leads at a
time, whatever happens to it, and nobody writes what is another's to write.
"""

import datetime
import json
import os
import random
import signal
import time
import unittest

import harness
import real_clients
import reflector_test

LEASE = 5.0  # seconds a lock holds that is not renewed
RENEW = 4.0
RETRY = 0.5
SLACK = 15  # of a busy machine
LOCK = "operator"
MAP = "written-by-the-leader"
CHURN_STEPS = 14

# System calls in which a process waits for events and does nothing: epoll_wait and epoll_pwait of
# x86-64, epoll_pwait of aarch64.
WAITING = {"232", "281", "22"}


def parse_time(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


class LeaseTestCase(harness.TestCase):
    def set_up_control_plane(self, control_plane):
        self.control_plane = control_plane
        self.namespace = harness.make_namespace(control_plane, "lease", self.addCleanup)
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        self.maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.duration, self.renew = LEASE, RENEW
        control_plane.json(self.maps, "POST", {"metadata": {"name": MAP}})
        self.replicas = []

    def keep(self, replica):
        self.addCleanup(replica.close)
        self.replicas.append(replica)
        return replica

    def ours(self, identity):
        command = [
            harness.program("elect", "test/support"),
            f"--kubeconfig={self.control_plane.kubeconfig}",
            f"--namespace={self.namespace}", f"--name={LOCK}", f"--identity={identity}",
            f"--duration-ms={self.duration * 1000:.0f}",
            f"--renew-deadline-ms={self.renew * 1000:.0f}",
            f"--retry-period-ms={RETRY * 1000:.0f}", f"--map={MAP}",
        ]  # fmt: skip
        return self.keep(real_clients.Client(identity, command, env=harness.clean_environment()))

    def theirs(self, identity):
        return self.keep(
            real_clients.go_elector(
                identity, "", kubeconfig=self.control_plane.kubeconfig,
                namespace=self.namespace, name=LOCK, lease_duration=f"{self.duration}s",
                renew_deadline=f"{self.renew}s", retry_period=f"{RETRY}s",
            )  # fmt: skip
        )

    def lease(self):
        return self.control_plane.json(f"{self.leases}/{LOCK}")["spec"]

    @staticmethod
    def leads(replica):
        changes = [e.kind for e in list(replica.events) if e.kind in ("leading", "stopped")]
        return replica.process.poll() is None and changes[-1:] == ["leading"]

    def wait_leads(self, replica, timeout):
        try:
            harness.wait_for(lambda: self.leads(replica), f"{replica.name} leads", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{replica.stderr()}\n{replica.events}") from None

    def wait_knows(self, replica, leader):
        def knows():
            told = [e.fields["leader"] for e in list(replica.events) if e.kind == "leader"]
            return told[-1:] == [leader]

        harness.wait_for(knows, f"{replica.name} knows that {leader} leads")

    def end(self, replica):
        """As a program should."""
        replica.signal(signal.SIGTERM)
        self.assertEqual(0, replica.process.wait(20), replica.stderr())
        self.assertIsNone(harness.SANITIZER_REPORT.search(replica.stderr()))

    def check_lease(self, holder, transitions):
        spec = self.lease()
        self.assertEqual(holder, spec["holderIdentity"])
        self.assertEqual(int(self.duration), spec["leaseDurationSeconds"])
        self.assertEqual(transitions, spec["leaseTransitions"])
        self.assertLessEqual(parse_time(spec["acquireTime"]), parse_time(spec["renewTime"]))
        self.assertLess(abs(time.time() - parse_time(spec["renewTime"])), SLACK)

    def stop_while_waiting(self, replica):
        """SIGSTOP, but not between the question whether it leads and a write."""
        while True:
            replica.signal(signal.SIGSTOP)
            harness.wait_for(lambda: self.status(replica) == "T", "it stands still")
            with open(f"/proc/{replica.pid}/syscall", encoding="ascii") as f:
                if f.read().split(" ")[0] in WAITING:
                    return
            replica.signal(signal.SIGCONT)

    @staticmethod
    def status(replica):
        with open(f"/proc/{replica.pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(") ")[2][0]


class SharedLeaseTest(LeaseTestCase):
    def setUp(self):
        super().setUp()
        _, missing = real_clients.go_folder()
        if missing:
            raise unittest.SkipTest(missing)
        self.set_up_control_plane(harness.cluster())

    def test_taken_from_the_dead(self):
        theirs = self.theirs("go-1")
        self.wait_leads(theirs, 60)
        ours = self.ours("c-1")
        self.wait_knows(ours, "go-1")
        self.check_lease("go-1", 0)
        self.assertFalse(self.leads(ours))

        renewed = parse_time(self.lease()["renewTime"])
        theirs.kill()
        self.wait_leads(ours, LEASE + SLACK)
        taken = parse_time(self.lease()["acquireTime"]) - renewed
        self.assertGreater(taken, LEASE)
        self.check_lease("c-1", 1)

        theirs = self.theirs("go-2")
        self.wait_knows(theirs, "c-1")
        renewed = parse_time(self.lease()["renewTime"])
        ours.kill()
        self.wait_leads(theirs, LEASE + 2.2 * RETRY + SLACK)
        self.assertGreater(parse_time(self.lease()["acquireTime"]) - renewed, LEASE)
        self.check_lease("go-2", 2)
        print(f"ours took over {taken:.2f} s after the last renewal that was seen")

    def test_given_back(self):
        # Nobody leads so soon who waits for its end, and nobody fails to renew it in time.
        self.duration, self.renew = 10 * SLACK, 5 * SLACK
        ours = self.ours("c-1")
        self.wait_leads(ours, 60)
        theirs = self.theirs("go-1")
        self.wait_knows(theirs, "c-1")
        self.end(ours)
        self.assertEqual(["leading", "stopped"], [
            e.kind for e in ours.events if e.kind in ("leading", "stopped")
        ])  # fmt: skip
        self.wait_leads(theirs, 2.2 * RETRY + SLACK)
        ours = self.ours("c-2")
        self.wait_knows(ours, "go-1")
        theirs.signal(signal.SIGTERM)
        theirs.process.wait(20)
        self.wait_leads(ours, 2.2 * RETRY + SLACK)
        self.check_lease("c-2", 2)
        self.end(ours)
        spec = self.lease()
        self.assertEqual("", spec["holderIdentity"])
        self.assertEqual(1, spec["leaseDurationSeconds"])

    def test_a_leader_that_stood_still(self):
        ours = self.ours("c-1")
        self.wait_leads(ours, 60)
        theirs = self.theirs("go-1")
        self.wait_knows(theirs, "c-1")
        self.stop_while_waiting(ours)
        self.wait_leads(theirs, LEASE + 2.2 * RETRY + SLACK)
        written = self.control_plane.json(f"{self.maps}/{MAP}")
        self.assertEqual("c-1", written["data"]["writer"])
        ours.signal(signal.SIGCONT)
        harness.wait_for(lambda: not self.leads(ours), "it knows that it leads no more")
        self.wait_knows(ours, "go-1")
        after = self.control_plane.json(f"{self.maps}/{MAP}")
        self.assertEqual(written["metadata"]["resourceVersion"],
                         after["metadata"]["resourceVersion"])  # fmt: skip
        self.assertTrue(self.leads(theirs))

    def test_churn(self):
        """Replicas are killed, ended, stopped and started: each write of ours is a leader's, by
        the versions that the API server gave to Leases and writes."""
        pick = random.Random(harness.seed())
        paths = (self.leases, self.maps)
        leases, maps = [self.follow(path) for path in paths]
        names = (f"{kind}-{i}" for i in range(1000) for kind in ("c", "go"))
        running = [self.start(next(names)) for _ in range(4)]
        steps = 0
        while steps < CHURN_STEPS or self.elections(maps) < 2:
            steps += 1
            self.assertLess(steps, 10 * CHURN_STEPS, "ours is never elected after another of ours")
            time.sleep(pick.uniform(0, 1.5))
            victim = pick.choice([r for r in running if self.leads(r)] or running)
            self.disturb(pick, victim)
            if victim.process.poll() is not None:
                running.remove(victim)
                running.append(self.start(next(names)))
        harness.wait_for(
            lambda: len([r for r in running if self.leads(r)]) == 1, "one leads"
        )
        self.check_writes(leases, maps)

    def start(self, name):
        return self.ours(name) if name.startswith("c-") else self.theirs(name)

    def disturb(self, pick, replica):
        what = pick.choice(["kill", "end", "stop"])
        if what == "kill":
            replica.kill()
        elif what == "end" or replica.name.startswith("go-"):
            replica.signal(signal.SIGTERM)
            replica.process.wait(20)
        else:
            self.stop_while_waiting(replica)
            time.sleep(pick.uniform(0, 2 * LEASE))
            replica.signal(signal.SIGCONT)

    def follow(self, path):
        follower = reflector_test.Follower(self.folder, self.control_plane.kubeconfig, path)
        self.addCleanup(follower.stop)
        harness.wait_for(lambda: follower.count("synced"), "it follows")
        return follower

    def check_writes(self, leases, maps):
        holders = self.story(leases, LOCK, lambda item: item["spec"]["holderIdentity"])
        writers = self.writers(maps)
        for version, writer in writers:
            if writer is None:
                continue
            holder = [h for v, h in holders if v < version][-1:]
            self.assertEqual([writer], holder, f"the write {version}: {json.dumps(holders)}")
        elections = self.elections(maps)
        print(f"{len(writers)} writes, {elections} elections of ours, {len(holders)} versions")

    def writers(self, maps):
        return self.story(maps, MAP, lambda item: item.get("data", {}).get("writer"))

    def elections(self, maps):
        """How often another of ours wrote than the one before."""
        names = [name for _, name in self.writers(maps)]
        return sum(before != name for before, name in zip(names, names[1:]))

    @staticmethod
    def story(follower, name, value):
        with follower.lock:
            items = [item for _, item in follower.objects if item["metadata"]["name"] == name]
        return [(int(item["metadata"]["resourceVersion"]), value(item)) for item in items]


class ServerAwayTest(LeaseTestCase):
    def setUp(self):
        super().setUp()
        self.set_up_control_plane(harness.disposable_cluster())

    def test_a_leader_without_server_stops(self):
        replicas = [self.ours("c-1"), self.ours("c-2")]

        def leaders():
            return [r for r in replicas if self.leads(r)]

        harness.wait_for(lambda: len(leaders()) == 1, "one leads")
        self.control_plane.stop_apiserver()
        try:
            harness.wait_for(lambda: not leaders(), "nobody leads", RENEW + SLACK)
            stopped = [e.at for r in replicas for e in list(r.events) if e.kind == "stopped"]
            renewed = time.time()
        finally:
            self.control_plane.start_apiserver()
        self.assertEqual(1, len(stopped))
        self.assertLess(stopped[0] / 1e9, renewed + RENEW)
        harness.wait_for(lambda: len(leaders()) == 1, "one leads again")
        for replica in replicas:
            self.end(replica)


if __name__ == "__main__":
    harness.main()
