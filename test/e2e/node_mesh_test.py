#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole mesh on a real node, installed from k8s/: an operator that knows nothing of it runs as
two shards of two pods each, and follows ShardingConfigs that are edited under load."""

import json
import os
import subprocess
import threading
import time
import unittest

import harness
import images
import node

EXAMPLE = os.path.join(harness.ROOT, "examples", "operator-go")
GROUP = "ctrlmesh.kusionstack.io"
SYSTEM = "cmesh-system"
MANAGER = "system:serviceaccount:cmesh-system:cmesh-manager"
OPERATOR = "report-operator"
SELECTOR = "app=" + OPERATOR
CONFIGS = f"/apis/{GROUP}/v1alpha1/namespaces/{OPERATOR}/shardingconfigs"
PODS = f"/api/v1/namespaces/{OPERATOR}/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
MERGE = "application/merge-patch+json"
TEAMS = [f"team-{i}" for i in range(1, 7)]
BLUE, GREEN = TEAMS[:3], TEAMS[3:]
MOVING = TEAMS[2]  # goes from blue to green and back
PODS_OF = {"blue": (0, 1), "green": (2, 3)}
EDITS = 20


def shard_of(pod):
    number = int(pod.rpartition("-")[2])
    return next(shard for shard, numbers in PODS_OF.items() if number in numbers)


def audit_time(stamp):
    """Seconds since 1970."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    at = time.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return time.mktime(at) - time.timezone + float("0." + (fraction or "0"))


class Churn:
    """Gives work in all teams' namespaces, all the time, and notes how long each took to be done.

    The operator reports how many bytes the ConfigMaps of a namespace hold: each piece of work is one
    ConfigMap of another size.
    """

    def __init__(self, cluster):
        self.cluster = cluster
        self.given = {}  # namespace -> (bytes that the report should tell, when)
        self.slowest = 0.0
        self.count = 0
        self.number = 0
        self.error = None
        self.others = {team: self.bytes_besides(team) for team in TEAMS}
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def bytes_besides(self, team):
        maps = self.cluster.json(f"/api/v1/namespaces/{team}/configmaps")["items"]
        counted = (m for m in maps if m["metadata"]["name"] not in ("report", "work"))
        return sum(len(text.encode()) for m in counted for text in m.get("data", {}).values())

    def report(self, team):
        return self.cluster.json(f"/api/v1/namespaces/{team}/configmaps/report")["data"]

    def run(self):
        try:
            while not self.ending.wait(0.1):
                for team in TEAMS:
                    try:
                        self.step(team)
                    except (OSError, AssertionError):
                        pass  # the API server is away
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def step(self, team):
        """The next piece once the last is done."""
        if team in self.given:
            wanted, since = self.given[team]
            if self.report(team)["bytes"] != wanted:
                return
            self.slowest = max(self.slowest, time.monotonic() - since)
            self.count += 1
        self.number += 1
        size = 1 + self.number % 97
        data = {"data": {"work": "x" * size}}
        path = f"/api/v1/namespaces/{team}/configmaps"
        if self.cluster.fetch(f"{path}/work").status == 404:
            self.cluster.json(path, "POST", {"metadata": {"name": "work"}, **data})
        else:
            self.cluster.json(f"{path}/work", "PATCH", data, MERGE)
        self.given[team] = (str(self.others[team] + size), time.monotonic())

    def stop(self):
        self.ending.set()
        self.thread.join()
        if self.error:
            raise self.error


class MeshTest(node.TestCase):
    """Tests of one installation; each leaves it as it found it: in order."""

    @classmethod
    def setUpClass(cls):
        cls.shared = node.cluster()
        cls.class_folder = cls.make_folder(cls.addClassCleanup)
        cls.load_operator()
        cls.shared.load_programs()
        cls.install()
        cls.start_operator()

    @classmethod
    def load_operator(cls):
        path = os.path.join(cls.class_folder, "operator.tar")
        command = [os.path.join(EXAMPLE, "build"), "--image", path]
        code = subprocess.run(command, check=False).returncode
        if code == 3:
            raise unittest.SkipTest("the operator is not built when KUBEBUILDER_ASSETS is set")
        if code != 0:
            raise RuntimeError("examples/operator-go/build failed (output above)")
        cls.shared.load(path)

    @classmethod
    def admin(cls):
        return node.Kubectl(cls.class_folder)

    @classmethod
    def manifests(cls):
        """As for users of an API server that is as old."""
        return cls.admin()("kustomize", os.path.join(harness.ROOT, "k8s", "before-1.21"))

    @classmethod
    def install(cls):
        cls.before = cls.cluster_wide()
        cls.admin()("apply", "-f", "-", stdin=cls.manifests())
        cls.admin()("-n", SYSTEM, "rollout", "status", "deployment/cmesh-manager", "--timeout=120s")

        def trusted():
            path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/cmesh"
            webhooks = cls.shared.json(path)["webhooks"]
            return all(w["clientConfig"].get("caBundle") and w.get("rules") for w in webhooks)

        harness.wait_for(trusted, "the API server knows the manager", timeout=60)

    @classmethod
    def cluster_wide(cls):
        """Names of all that an installation could leave behind outside of namespaces."""
        kinds = "crd,clusterrole,clusterrolebinding,mutatingwebhookconfiguration"
        kinds += ",validatingwebhookconfiguration,namespace"
        return set(cls.admin()("get", kinds, "-o", "name").split())

    @classmethod
    def start_operator(cls):
        """As the example's README has it."""
        names = ("account", "teams", "shard-blue", "shard-green", "statefulset")
        files = [f"--filename={os.path.join(EXAMPLE, name)}.yaml" for name in names]
        cls.admin()("apply", *files)

    # ---- looking ----

    def status(self, shard):
        return self.cluster.json(f"{CONFIGS}/{shard}").get("status", {})

    def enforced(self, shard, generation):
        status = self.status(shard)
        conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
        return (
            status.get("observedGeneration", 0) >= generation
            and conditions.get("Enforced") == "True"
            and status.get("enforced") == "2/2"
        )

    def move(self, to_green=None):
        """Has the team that moves go to a shard (None: leaves all as it is), with kubectl, the one
        that loses it first; returns how long it took until both are enforced, as a user sees it."""
        teams = {"blue": BLUE[:-1] if to_green else BLUE, "green": GREEN}
        if to_green:
            teams["green"] = [MOVING, *GREEN]
        shards = [self.sharding_config(s, teams[s]) for s in ("blue", "green")]
        began = time.monotonic()
        if to_green is not None:
            self.apply(*(shards if to_green else reversed(shards)))
        for shard in teams:
            generation = self.cluster.json(f"{CONFIGS}/{shard}")["metadata"]["generation"]
            harness.wait_for(
                lambda s=shard, g=generation: self.enforced(s, g),
                f"{shard} is enforced on 2/2: {self.status(shard)}",
                timeout=120,
                interval=0.05,
            )
        return time.monotonic() - began

    def sharding_config(self, shard, teams):
        """The example's, with these teams."""
        path = os.path.join(EXAMPLE, f"shard-{shard}.yaml")
        text = self.kubectl("create", "--dry-run=client", "-o", "json", "-f", path)
        thing = json.loads(text)
        for limit in thing["spec"]["limits"]:
            for requirement in limit["selector"]["matchExpressions"]:
                requirement["values"] = teams
        return thing

    def wait_operator(self):
        return self.wait_ready(OPERATOR, SELECTOR, 4)

    def wait_done(self, churn, what):
        """In all namespaces work is done that was given from now on."""
        now = time.monotonic()
        seen = set()

        def look():
            for team, (_, since) in list(churn.given.items()):
                if since > now and (team, since) not in seen:
                    seen.add((team, since))
            # The second one is given when the first is done.
            return churn.error or all(sum(t == team for t, _ in seen) >= 2 for team in TEAMS)

        try:
            harness.wait_for(look, f"{what}: the work goes on everywhere", timeout=120)
        except AssertionError as error:
            text = self.describe(OPERATOR, SELECTOR)
            raise AssertionError(f"{error}: {churn.given} {now}\n{text}") from None

    def audit(self):
        with open(self.cluster.env["CLUSTER_AUDIT_LOG"], encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("}\n")]

    def churn(self):
        churn = Churn(self.cluster)
        self.addCleanup(churn.stop)
        return churn

    # ---- tests, in this order ----

    def test_1_injected_and_sharded(self):
        """Each pod has its sidecars, and started after them; each shard has a leader of its own and
        works in its own namespaces only."""
        for pod in self.wait_operator():
            name = pod["metadata"]["name"]
            notes = pod["metadata"]["annotations"]
            self.assertEqual(shard_of(name), notes[f"{GROUP}/sharding-config-injected"])
            states = {s["name"]: s for s in pod["status"]["containerStatuses"]}
            self.assertEqual({"cmesh-localproxy", "cmesh-rulesync", "operator"}, set(states))
            started = {n: s["state"]["running"]["startedAt"] for n, s in states.items()}
            self.assertGreaterEqual(started["operator"], started["cmesh-localproxy"])
            self.assertEqual(0, states["operator"]["restartCount"], name)
        self.move()
        churn = self.churn()
        self.wait_done(churn, "after the start")
        for team in TEAMS:
            by = shard_of(churn.report(team)["reportedBy"])
            self.assertEqual("blue" if team in BLUE else "green", by, team)
        leases = self.cluster.json(LEASES % OPERATOR)["items"]
        holders = {x["metadata"]["name"]: x["spec"]["holderIdentity"] for x in leases}
        self.assertEqual({f"{OPERATOR}---{shard}" for shard in PODS_OF}, set(holders))
        for lock, holder in holders.items():
            self.assertTrue(lock.endswith("---" + shard_of(holder)), holders)
        printed = self.kubectl("-n", OPERATOR, "get", "shardingconfigs")
        self.assertEqual(2, printed.count("2/2"), printed)

    def test_2_edits_under_load(self):
        """One team goes to and fro: enforced soon, never worked on by who has lost it, always worked
        on by somebody."""
        shards = {
            pod["status"]["podIP"]: shard_of(pod["metadata"]["name"])
            for pod in self.wait_operator()
        }
        churn = self.churn()
        self.wait_done(churn, "before the edits")
        churn.slowest = 0.0
        times, lost, begun = [], [], []
        for number in range(EDITS):
            to_green = number % 2 == 0
            begun.append(time.time())
            times.append(self.move(to_green))
            lost.append(("blue" if to_green else "green", time.time()))
            self.wait_done(churn, f"edit {number}")
        churn.stop()
        print(
            f"{EDITS} edits of ShardingConfigs under load, from kubectl apply to enforced on all"
            f" pods: p50 {node.percentile(times, 50):.2f} s, p99 {node.percentile(times, 99):.2f} s;"
            f" the slowest of {churn.count} pieces of work took {churn.slowest:.2f} s",
            flush=True,
        )
        self.assert_nobody_works_on_what_it_lost(shards, lost, begun[1:])

    def assert_nobody_works_on_what_it_lost(self, shards, lost, begun):
        """By the audit log: from the moment when new rules are enforced until the next edit begins,
        the shard that lost the team writes nothing there, and the other one does."""
        writes = [
            (audit_time(event["requestReceivedTimestamp"]), shards[event["sourceIPs"][0]])
            for event in self.audit()
            if event["verb"] in ("create", "update", "patch")
            and event.get("objectRef", {}).get("namespace") == MOVING
            and event["sourceIPs"][0] in shards
            and event["responseStatus"].get("code", 0) < 300
        ]
        for (loser, since), until in zip(lost, begun):
            between = {shard for at, shard in writes if since < at < until}
            self.assertEqual({"blue", "green"} - {loser}, between)

    def test_3_kills_under_load(self):
        """One part after the other is lost. All goes on by itself, and edits are enforced."""
        self.wait_operator()
        churn = self.churn()
        self.wait_done(churn, "before")
        to_green = True
        for what, kill in (
            ("localproxy", lambda: self.kill_in_leader("localproxy")),
            ("rulesync", lambda: self.kill_in_leader("rulesync")),
            ("operator", lambda: self.kill_in_leader(OPERATOR)),
            ("manager", self.kill_leading_manager),
            ("kubelet", lambda: self.cluster.control("restart", "kubelet")),
            ("API server", lambda: self.cluster.control("restart", "apiserver")),
        ):
            with self.subTest(killed=what):
                kill()
                began = time.monotonic()
                self.retry_move(to_green)
                self.wait_done(churn, what)
                self.wait_operator()
                print(f"{what} was lost: whole again after {time.monotonic() - began:.1f} s", flush=True)
                to_green = not to_green

    def retry_move(self, to_green):
        """The webhook may be away for a moment, and with it the right to edit."""

        def moved():
            try:
                return self.move(to_green)
            except AssertionError as error:
                if "webhook" in str(error) or "connect" in str(error):
                    return False
                raise

        harness.wait_for(moved, "an edit is enforced", timeout=180, interval=1)

    def kill_in_leader(self, name):
        """The process of that name in the pod that leads blue."""
        lease = self.cluster.json(f"{LEASES % OPERATOR}/{OPERATOR}---blue")
        pod = lease["spec"]["holderIdentity"]
        uid = self.cluster.json(f"{PODS}/{pod}")["metadata"]["uid"]
        pids = [
            pid
            for pid in self.cluster.inside("pgrep", "-x", name).split()
            if uid in self.cluster.inside("cat", f"/proc/{pid}/cgroup")
        ]
        self.assertEqual(1, len(pids), name)
        self.cluster.inside("kill", "-KILL", *pids)

    def kill_leading_manager(self):
        lease = self.cluster.json(f"{LEASES % SYSTEM}/cmesh-manager")
        pod = lease["spec"]["holderIdentity"].partition("_")[0]
        arguments = ("--grace-period=0", "--force", "--wait=false")
        self.kubectl("-n", SYSTEM, "delete", "pod", pod, *arguments)

    def test_4_sidecars_are_upgraded_under_load(self):
        """A new image for the sidecars, first in the pods of one shard: the StatefulSet's partition
        keeps the others. Each operator gives its lock back, as its proxy outlives it."""
        self.wait_operator()
        made = images.build(os.path.join(self.folder, "next"), "--tag=next", "localproxy")
        self.cluster.load(made["localproxy"].path)
        image = made["localproxy"].name
        flag = f"CMESH_SIDECAR_IMAGE={image}"
        self.kubectl("-n", SYSTEM, "set", "env", "deployment/cmesh-manager", flag)
        self.kubectl("-n", SYSTEM, "rollout", "status", "deployment/cmesh-manager", "--timeout=55s")
        churn = self.churn()
        self.wait_done(churn, "before")
        churn.slowest = 0.0
        began = time.monotonic()
        for partition in (2, 0):
            update = {"rollingUpdate": {"partition": partition}}
            self.cluster.json(
                f"/apis/apps/v1/namespaces/{OPERATOR}/statefulsets/{OPERATOR}",
                "PATCH",
                {"spec": {"updateStrategy": update}},
                MERGE,
            )
            if partition == 2:
                self.kubectl("-n", OPERATOR, "rollout", "restart", f"statefulset/{OPERATOR}")
            self.wait_sidecars({f"{OPERATOR}-{i}": i >= partition for i in range(4)}, image)
        took = time.monotonic() - began
        self.wait_done(churn, "after the upgrade")
        print(
            f"sidecars of 4 pods upgraded one by one in {took:.0f} s;"
            f" the slowest of {churn.count} pieces of work took {churn.slowest:.2f} s",
            flush=True,
        )

    def wait_sidecars(self, wanted, image):
        """`wanted`: for each pod, whether it has the new image, and the others not."""

        def look():
            found = self.pods(OPERATOR, SELECTOR)
            images_of = {
                pod["metadata"]["name"]: {
                    c["image"] for c in pod["spec"]["containers"] if c["name"].startswith("cmesh-")
                }
                for pod in found
            }
            return all(map(node.is_ready, found)) and wanted == {
                name: used == {image} for name, used in images_of.items()
            }

        harness.wait_for(look, f"{wanted} have {image}", timeout=300, interval=0.5)

    def test_5_rights(self):
        """The manager was refused nothing."""
        mine = [event for event in self.audit() if event["user"].get("username") == MANAGER]
        self.assertGreater(len(mine), 100)
        refused = [
            (event["verb"], event["requestURI"])
            for event in mine
            if event.get("responseStatus", {}).get("code") == 403
        ]
        self.assertEqual([], refused)

    def test_6_uninstalled(self):
        """Nothing is left but labels, which `manager unlabel` would have removed."""
        self.kubectl("delete", "namespace", OPERATOR, *TEAMS, "--wait=false")
        self.kubectl("delete", "clusterrole,clusterrolebinding", OPERATOR)
        self.kubectl("delete", "-f", "-", "--wait=false", stdin=self.manifests())
        try:
            harness.wait_for(lambda: self.cluster_wide() == self.before, "all is gone", timeout=120)
        except AssertionError:
            self.assertEqual(self.before, self.cluster_wide())


if __name__ == "__main__":
    harness.main()
