# SPDX-License-Identifier: Apache-2.0
"""Several managers, one of which leads: whatever happens to the leader, nothing is lost, no
generation goes back, and what leads no more writes nothing.
"""

import collections
import datetime
import json
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

import audit
import harness
import mesh

LEASE = 3  # seconds, the least that there is
KILLS = 6
SHARDS = 6
WITH_PODS = "shard-0"
PARTS = ("a", "b", "c", "d")
LABELLED = "groupVersionKinds:\n  v1: [ConfigMap, Secret]\n"


def setUpModule():
    mesh.install()


def report(text):
    print(text, file=sys.stderr, flush=True)


def sharding_hash(name):
    value = 0
    for character in name:
        value = (value * 33 + ord(character)) % 32
    return str(value)


def config(name, *limits):
    """Of an operator of its own: what two of them see is no concern here."""
    made = mesh.config(name, name, *limits, controller={"leaderElectionName": name})
    made["metadata"]["annotations"] = {f"{mesh.GROUP}/shares-with": "*"}
    return made


class Editor(threading.Thread):
    """Somebody who changes ShardingConfigs, and deletes them and makes them again, and makes
    objects that are to be labelled. What follows from the seed; when, from the machine."""

    def __init__(self, case, pick):
        super().__init__(daemon=True)
        self.case = case
        self.pick = pick
        self.over = threading.Event()
        self.done = collections.Counter()
        self.namespaces = []
        self.failure = None

    def run(self):
        try:
            while not self.over.wait(self.pick.uniform(0, 0.1)):
                self.step()
        except Exception as error:  # pylint: disable=broad-except
            self.failure = repr(error)

    def limits(self):
        return [
            mesh.limit(mesh.is_in("part", *self.pick.sample(PARTS, self.pick.randint(0, 3))))
            for _ in range(self.pick.randint(1, 2))
        ]

    def step(self):
        case, name = self.case, f"shard-{self.pick.randrange(SHARDS)}"
        dice = self.pick.random()
        if dice < 0.05:
            case.cluster.fetch(f"{case.configs}/{name}", "DELETE")
            self.done["deleted"] += 1
        elif dice < 0.1:
            # A mistake, which is put right by the next edit.
            self.put(name, [mesh.limit({})])
        elif dice < 0.7:
            self.put(name, self.limits())
        elif dice < 0.73 and len(self.namespaces) < 40:
            made = harness.make_namespace(case.cluster, "labelled", case.addCleanup)
            self.namespaces.append(made)
        else:
            self.make_object()

    def put(self, name, limits):
        case = self.case
        thing = config(name, *limits)
        path = f"{case.configs}/{name}"
        kind = [("Content-Type", "application/merge-patch+json")]
        body = json.dumps({"spec": thing["spec"]}).encode()
        answer = case.cluster.fetch(path, "PATCH", kind, body)
        if answer.status == 404:
            case.cluster.json(case.configs, "POST", thing)
        elif answer.status != 200:
            raise AssertionError(answer)
        self.done["edited"] += 1

    def make_object(self):
        namespace = self.pick.choice([*self.namespaces, self.case.namespace])
        plural = self.pick.choice(["configmaps", "secrets"])
        name = f"made-{self.pick.getrandbits(40):010x}"
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        self.case.cluster.json(path, "POST", {"metadata": {"name": name}})
        self.done["made"] += 1

    def end(self):
        self.over.set()
        self.join(60)
        if self.failure is not None:
            raise AssertionError(self.failure)


class LeaderTestCase(mesh.MeshTestCase):
    def setUp(self):
        super().setUp()
        self.home = harness.make_namespace(self.cluster, "managers", self.addCleanup)
        self.pick = random.Random(harness.seed())
        self.numbers = iter(range(1000))
        self.resources = self.path("resources.yaml", LABELLED)
        self.users = {}

    def new_manager(self):
        """With a user of its own, so that the audit log tells who wrote."""
        name = f"manager-{next(self.numbers)}-{self.namespace}"
        kubeconfig = self.cluster.user_kubeconfig(self.folder, name)
        self.grant(name)
        manager = self.start_manager(
            "--leader-elect", "--lease-duration", str(LEASE), "--identity", name,
            "--probe-interval", "1", "--label-qps", "200",
            "--sharding-resources", self.resources, name=name, kubeconfig=kubeconfig,
        )  # fmt: skip
        return manager

    def grant(self, user):
        binding = {
            "metadata": {"name": user},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        self.cluster.json(path, "POST", binding)
        self.addCleanup(self.cluster.fetch, f"{path}/{user}", "DELETE")

    def unlabel(self):
        """Objects of others are as they were."""
        command = [harness.program("manager"), "unlabel", "--kubeconfig", self.cluster.kubeconfig]
        command += ["--sharding-resources", self.resources]
        subprocess.run(command, capture_output=True, check=False)

    @staticmethod
    def leader(managers):
        leading = [manager for manager in managers if manager.leads()]
        return leading[0] if len(leading) == 1 else None

    def wait_leader(self, managers):
        return harness.wait_for(lambda: self.leader(managers), "one leads", 90, 0.05)

    # ---- what must hold ----

    def check_history(self, watched):
        """All versions of all ConfigMaps that ever were: no generation goes back, and none ever
        means two things. Of a ConfigMap that was deleted before any pod enforced it nobody knows
        any more."""
        newest, meant, seen = {}, {}, 0
        for kind, thing in watched.events:
            name = thing["metadata"]["name"]
            if kind == "DELETED" or not name.startswith(mesh.CONFIG_MAP):
                continue
            rules = mesh.rules_of(thing)
            self.assertIsNotNone(rules, thing)
            generation, checksum = rules["generation"], rules["checksum"]
            key = thing["metadata"]["uid"]
            self.assertGreaterEqual(generation, newest.get(key, 0), name)
            newest[key] = generation
            self.assertEqual(meant.setdefault((key, generation), checksum), checksum, name)
            seen += 1
        return seen

    def check_end(self):
        """Every ConfigMap is what `manager compile` makes of its config, and the status says so. Not
        at once: a pod that answers late may know the generation by other rules, of a ConfigMap that
        was deleted, and then there is one more."""
        for thing in self.cluster.json(self.configs)["items"]:
            name = thing["metadata"]["name"]
            harness.wait_for(lambda n=name: self.is_told(n), f"the status of {name} has its rules")
            self.check_map(name)

    def is_told(self, name):
        status = self.wait_condition(name, "Published", "True")["status"]
        rules = mesh.rules_of(self.map_of(name))
        told = status["generation"], status["checksum"]
        return rules is not None and told == (rules["generation"], rules["checksum"])

    def is_labelled(self, thing, namespace):
        labels = thing["metadata"].get("labels") or {}
        want = {
            "ctrlmesh.kusionstack.io/namespace": namespace,
            "ctrlmesh.kusionstack.io/sharding-hash": sharding_hash(namespace),
            "ctrlmesh.kusionstack.io/control": "true",
        }
        return {key: labels.get(key) for key in want} == want

    def check_labels(self, namespaces):
        def missing():
            left = []
            for namespace in namespaces:
                path = f"/api/v1/namespaces/{namespace}"
                things = [self.cluster.json(path)]
                for plural in ("configmaps", "secrets"):
                    things += self.cluster.json(f"{path}/{plural}")["items"]
                left += [
                    f"{namespace}/{thing['metadata']['name']}"
                    for thing in things
                    if not self.is_labelled(thing, namespace)
                ]
            return left

        try:
            harness.wait_for(lambda: not missing(), "all is labelled", 60, 0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {missing()}") from None


class KillTest(LeaderTestCase):
    """kill -9 at random moments, during edits and labelling."""

    def test_the_leader_is_killed_again_and_again(self):
        kills = harness.reloads(KILLS)
        self.addCleanup(self.unlabel)
        watched = mesh.Watched(self.cluster, self.maps)
        managers = [self.new_manager(), self.new_manager()]
        for i in range(SHARDS):
            name = f"shard-{i}"
            self.apply(config(name, mesh.limit(mesh.is_in("part", "a"))))
        pods = self.shard_of_two(WITH_PODS)
        editor = Editor(self, self.pick)
        editor.start()
        taken = []
        for _ in range(kills):
            leader = self.wait_leader(managers)
            time.sleep(self.pick.uniform(0, 2))
            leader.kill()
            since = time.monotonic()
            managers.remove(leader)
            managers.append(self.new_manager())
            self.wait_leader(managers)
            taken.append(time.monotonic() - since)
        editor.end()
        # They may have been deleted, or be wrong.
        for i in range(SHARDS):
            editor.put(f"shard-{i}", editor.limits())
        self.check_end()
        self.wait_enforced(WITH_PODS, pods=2)
        rules = self.check_map(WITH_PODS)
        for pod in pods:
            self.assertEqual((rules["generation"], rules["checksum"]), pod.enforced())
        self.check_labels([self.namespace, *editor.namespaces])
        watched.end()
        versions = self.check_history(watched)
        report(
            f"{kills} kills, {dict(editor.done)}, {len(editor.namespaces)} namespaces, {versions} "
            f"versions of rules; the next led after {min(taken):.1f} to {max(taken):.1f} s"
        )
        self.assertGreater(editor.done["edited"], kills)

    def test_a_leader_that_ends_well_is_followed_at_once(self):
        managers = [self.new_manager(), self.new_manager()]
        leader = self.wait_leader(managers)
        leader.stop()
        since = time.monotonic()
        managers.remove(leader)
        # Given back, and perhaps taken: who waits for its end finds the name of the one that ended.
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.home}/leases/cmesh-manager"
        holder = self.cluster.json(path)["spec"].get("holderIdentity", "")
        self.assertIn(holder, ("", managers[0].name))
        self.wait_leader(managers)
        self.apply(config("shard-0", mesh.limit(mesh.is_in("part", "a"))))
        self.wait_condition("shard-0", "Published", "True")
        report(f"the next one led after {time.monotonic() - since:.2f} s")


@unittest.skipIf(harness.is_sanitized(harness.program("manager")), "a sanitizer takes terabytes")
class WithoutMemoryTest(mesh.MeshTestCase):
    """One that gets no more memory says so and ends, and the next one does what it left."""

    def end_one(self, name, log_format):
        """One that leads, by a shard for which there is no memory; returns its last line."""
        manager = self.start_manager("--leader-elect=false", "--log-format", log_format)
        self.apply(config("small", mesh.limit(mesh.is_in(f"{mesh.GROUP}/namespace", name))))
        self.wait_condition("small", "Covered", "False")  # threads have looked: they need stacks
        manager.starve(0)
        limits = [mesh.limit(mesh.is_in("part", "a", "b"), (f"r{i}",)) for i in range(2000)]
        self.apply(config(name, *limits))
        manager.expected = 1
        self.assertEqual(1, manager.process.wait(60), manager.log())
        return manager.log().splitlines()[-1]

    def test_it_ends_and_the_next_one_goes_on(self):
        text = self.end_one("large", "text")
        self.assertRegex(text, r'Z ERROR manager: out of memory effect="the process exits"$')
        line = json.loads(self.end_one("larger", "json"))
        self.assertEqual(("error", "out of memory"), (line["level"], line["msg"]))
        self.start_manager("--leader-elect=false")
        for name in ("large", "larger"):
            self.wait_condition(name, "Published", "True")


class AwayTest(LeaderTestCase):
    """An API server that is away for longer than a lease."""

    control_plane = staticmethod(harness.disposable_cluster)

    def setUp(self):
        super().setUp()
        if self.cluster is not harness.cluster():
            kubectl = harness.Kubectl(self.path("."), self.cluster.kubeconfig)
            mesh.define(self.cluster, kubectl)

    def test_nobody_leads_meanwhile_and_nothing_is_lost(self):
        for i in range(SHARDS):
            name = f"shard-{i}"
            self.apply(config(name, mesh.limit(mesh.is_in("part", "a"))))
        pods = self.shard_of_two(WITH_PODS)
        managers = [self.new_manager(), self.new_manager()]
        self.addCleanup(self.unlabel)
        self.wait_leader(managers)
        self.wait_enforced(WITH_PODS, pods=2)
        watched = mesh.Watched(self.cluster, self.maps)
        editor = Editor(self, self.pick)
        for _ in range(harness.reloads(2)):
            for i in range(SHARDS):
                editor.put(f"shard-{i}", editor.limits())
            self.cluster.stop_apiserver()
            try:
                harness.wait_for(
                    lambda: not any(manager.leads() for manager in managers),
                    "nobody leads",
                    LEASE + 5,
                )
                shown = [pod.enforced() for pod in pods]
                time.sleep(self.pick.uniform(0, LEASE))
                self.assertEqual(shown, [pod.enforced() for pod in pods])
            finally:
                self.cluster.start_apiserver()
            for i in range(SHARDS):
                editor.put(f"shard-{i}", editor.limits())
            self.wait_leader(managers)
            self.check_end()
            self.wait_enforced(WITH_PODS, pods=2)
        watched.end()
        versions = self.check_history(watched)
        report(f"{versions} versions of rules, {len(watched.events)} of all ConfigMaps")


class PauseTest(LeaderTestCase):
    """A leader that stands still for longer than its lease, as on a machine that is suspended."""

    def test_it_writes_nothing_after_another_has_begun(self):
        for i in range(SHARDS):
            name = f"shard-{i}"
            self.apply(config(name, mesh.limit(mesh.is_in("part", "a"))))
        managers = [self.new_manager(), self.new_manager()]
        self.addCleanup(self.unlabel)
        old = self.wait_leader(managers)
        managers.remove(old)
        self.check_end()
        editor = Editor(self, self.pick)
        for step in range(harness.reloads(3)):
            for i in range(SHARDS):
                editor.put(f"shard-{i}", editor.limits())
            old.signal(signal.SIGSTOP)
            # What it will want to do when it goes on. Never what stands in a ConfigMap: the next
            # leader would have nothing to write there, and a write that was half sent when the old
            # one was stopped would still name the version that is there.
            for i in range(SHARDS):
                editor.put(f"shard-{i}", [mesh.limit(mesh.is_in("part", f"step-{step}"))])
            new = self.wait_leader(managers)
            self.check_end()
            self.check_labels([self.namespace])  # or the new one may write them after it
            after = self.cluster.json(self.maps)["metadata"]["resourceVersion"]
            watched = mesh.Watched(self.cluster, self.maps)
            resumed = time.time()
            old.signal(signal.SIGCONT)
            harness.wait_for(lambda o=old: o.ready() and not o.leads(), "it knows")
            time.sleep(1)
            watched.end()
            late = [t for k, t in watched.events if int(t["metadata"]["resourceVersion"]) > int(after)]
            self.assertEqual([], late)
            self.check_audit_log(old.name, resumed)
            old, managers = new, [old]

    def check_audit_log(self, user, since):
        """Nothing that this user sent after `since` has changed anything, though it did ask."""
        moment = datetime.datetime.fromtimestamp(since, datetime.timezone.utc)
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        late, asked = [], collections.Counter()
        for entry in audit.entries(self.cluster.env["CLUSTER_AUDIT_LOG"], user):
            place = entry.get("objectRef", {})
            if entry["user"]["username"] != user or entry["requestReceivedTimestamp"] < stamp:
                continue
            asked[f"{entry['verb']} {place.get('resource')}"] += 1
            if entry["verb"] not in audit.WRITES:
                continue
            if entry["responseStatus"]["code"] >= 400:
                # It named a version that is replaced by now, or was half sent when it was stopped.
                continue
            if place.get("resource") == "events":
                continue  # of what it did when it led
            late.append(entry)
        report(f"after it had been stopped: {dict(asked)}")
        self.assertEqual([], late)
        self.assertTrue(asked)


if __name__ == "__main__":
    harness.main()
