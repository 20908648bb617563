# SPDX-License-Identifier: Apache-2.0
"""The operator of examples/operator-go as two shards of two pods: the real operator, four times,
each beside its own localproxy and rulesync and with the kubeconfig that kubeconfig-gen writes; the
real manager; the example's manifests. Who did what is told by the API server's audit log, in which
each pod has a user of its own.
"""

import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time

import audit
import harness
import mesh

EXAMPLE = os.path.join(harness.ROOT, "examples", "operator-go")
NAMESPACE = "report-operator"
TEAMS = [f"team-{i}" for i in range(1, 7)]
SHARDS = {
    "blue": ["report-operator-0", "report-operator-1"],
    "green": ["report-operator-2", "report-operator-3"],
}
POD_NAME = "statefulset.kubernetes.io/pod-name"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASE = 15
OWN_WORK = 40  # reports that a leader may write elsewhere before: as many as in two seconds


def report(text):
    print(text, file=sys.stderr, flush=True)


def build_operator():
    """The path of the program."""
    build = subprocess.run(
        [os.path.join(EXAMPLE, "build")], stdout=subprocess.PIPE, text=True, check=False
    )
    if build.returncode != 0:
        raise AssertionError(f"{EXAMPLE}/build: exit {build.returncode}")
    return build.stdout.strip()


def setUpModule():
    mesh.install()


class OperatorPod(mesh.Pod):
    """With the operator in it, and a user of its own."""

    def __init__(self, case, name, of):
        super().__init__(case, name, {POD_NAME: name, "app": NAMESPACE}, of)
        self.user = f"{name}.{os.getpid()}.{next(harness.Run.counter)}"
        self.kubeconfig = case.cluster.user_kubeconfig(self.folder, self.user)
        self.operator = None
        self.log_path = os.path.join(self.folder, "operator.log")
        case.addCleanup(self.stop_operator)

    def start_proxy(self):
        kept = os.path.join(self.folder, "rules.json")
        args = ["--kubeconfig", self.kubeconfig, "--rules", kept]
        args += ["--pod-namespace", NAMESPACE, "--shutdown-grace", "2"]
        args += ["--state", os.path.join(self.folder, "state")]
        args += ["--listen", f"{self.address}:5443", "--admin", f"{self.address}:5441"]
        self.proxy = harness.LocalProxy(self.folder, args, env=self.own_token(), control=True)

    def own_token(self):
        """What both programs find the pod's token by."""
        return {"XDG_STATE_HOME": self.folder, "CMESH_TOKEN_FILE": ""}

    def start_operator(self):
        led = os.path.join(self.folder, "led.kubeconfig")
        command = [harness.program("kubeconfig-gen"), "--kubeconfig", self.kubeconfig]
        command += ["--proxy", f"http://{self.address}:5443", "-o", led]
        env = harness.clean_environment(**self.own_token())
        subprocess.run(command, check=True, capture_output=True, env=env)
        env = {"KUBECONFIG": led, "POD_NAME": self.name, "POD_NAMESPACE": NAMESPACE}
        command = ["setpriv", "--pdeathsig", "KILL", self.case.program]
        with open(self.log_path, "ab") as log:
            self.operator = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=harness.clean_environment(**env)
            )

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def runs(self):
        return self.operator.poll() is None

    def stop_operator(self):
        """As the kubelet does it."""
        if self.operator is not None and self.runs():
            self.operator.send_signal(signal.SIGTERM)
            try:
                self.operator.wait(20)
            except subprocess.TimeoutExpired:
                self.operator.kill()
                self.operator.wait()
                raise AssertionError(f"{self.name} does not end: {self.log()[-2000:]}") from None
        return self.operator and self.operator.returncode


class Churn(threading.Thread):
    """Changes what is counted in each namespace, all the time."""

    def __init__(self, control, every=0.3):
        super().__init__(daemon=True)
        self.control = control
        self.every = every
        self.over = threading.Event()
        self.rounds = 0
        self.error = None

    def run(self):
        while not self.over.wait(self.every):
            self.rounds += 1
            for team in TEAMS:
                path = f"/api/v1/namespaces/{team}/configmaps/settings"
                change = {"data": {"greeting": "x" * self.rounds}}
                try:
                    self.control.json(path, "PATCH", change, "application/merge-patch+json")
                except Exception as error:  # pylint: disable=broad-except
                    self.error = repr(error)
                    return

    def end(self):
        self.over.set()
        self.join(30)
        if self.error:
            raise AssertionError(self.error)


class OperatorTest(mesh.MeshTestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = build_operator()

    def setUp(self):  # pylint: disable=super-init-not-called
        harness.TestCase.setUp(self)
        self.cluster = harness.cluster()
        self.namespace = self.home = NAMESPACE
        self.configs = f"{mesh.API}/namespaces/{NAMESPACE}/shardingconfigs"
        self.maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        self.kubectl = harness.Kubectl(self.path("."), self.cluster.kubeconfig)
        self.apply_example("account.yaml", "teams.yaml", "shard-blue.yaml", "shard-green.yaml")
        resources = self.path("resources", json.dumps({"groupVersionKinds": {"v1": ["ConfigMap"]}}))
        self.manager("--sharding-resources", resources, "--label-qps", "1000",
                     "--handover-wait", "120")  # fmt: skip
        harness.wait_for_pods(self.cluster, NAMESPACE)
        self.pods = {
            name: OperatorPod(self, name, shard)
            for shard, names in SHARDS.items()
            for name in names
        }
        self.bind()
        for pod in self.pods.values():
            pod.start()
        for shard in SHARDS:
            self.wait_enforced(shard)
        for pod in self.pods.values():
            pod.start_operator()

    def apply_example(self, *names):
        paths = [os.path.join(EXAMPLE, name) for name in names]
        for path in reversed(paths):
            self.addCleanup(self.kubectl.run, "delete", "--ignore-not-found", "-f", path)
        self.kubectl("apply", *(word for path in paths for word in ("-f", path)))

    def wait_enforced(self, name):
        self.wait_condition(name, "Enforced", "True")
        for pod in (self.pods[pod] for pod in SHARDS[name]):
            harness.wait_for(pod.enforced, f"{pod.name} has rules")

    def bind(self):
        """Each pod's user may do what the example's service account may, and nothing else."""
        subjects = [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": pod.user}
            for pod in self.pods.values()
        ]
        for place, kind in (("", "ClusterRole"), (f"/namespaces/{NAMESPACE}", "Role")):
            path = f"{RBAC}{place}/{kind.lower()}bindings/{NAMESPACE}"
            binding = self.cluster.json(path)
            binding["subjects"] = subjects
            self.cluster.json(path, "PUT", binding)

    # ---- what is so ----

    def holder(self, shard):
        answer = self.cluster.fetch(f"{LEASES}/{NAMESPACE}---{shard}")
        return json.loads(answer.body)["spec"]["holderIdentity"] if answer.status == 200 else None

    def wait_leader(self, shard, among=None):
        among = among or SHARDS[shard]
        harness.wait_for(lambda: self.holder(shard) in among, f"{shard} has a leader", 120)
        return self.holder(shard)

    def report_of(self, team):
        answer = self.cluster.fetch(f"/api/v1/namespaces/{team}/configmaps/report")
        return json.loads(answer.body)["data"] if answer.status == 200 else {}

    def wait_reports(self, owners):
        """Until each namespace is reported by its shard's leader: team -> shard."""
        leaders = {shard: self.wait_leader(shard) for shard in SHARDS}

        def right():
            return all(
                self.report_of(team).get("reportedBy") == leaders[shard]
                for team, shard in owners.items()
            )

        try:
            harness.wait_for(right, "all namespaces are reported", 120, 0.05)
        except AssertionError as error:
            found = {team: self.report_of(team) for team in TEAMS}
            logs = "".join(pod.log()[-1500:] for pod in self.pods.values())
            raise AssertionError(f"{error}: {leaders} {found}\n{logs}") from None

    def audit(self):
        """What the pods' users asked, in order: (pod, entry)."""
        users = {pod.user: pod for pod in self.pods.values()}
        entries = audit.entries(self.cluster.env["CLUSTER_AUDIT_LOG"], f".{os.getpid()}.")
        named = ((users.get(entry["user"]["username"]), entry) for entry in entries)
        return [(pod, entry) for pod, entry in named if pod is not None]

    def report_writes(self):
        """All reports that were written."""
        writes = [
            audit.write_of(entry, pod.name, pod.of)
            for pod, entry in self.audit()
            if entry["verb"] in audit.WRITES and entry["objectRef"]["resource"] == "configmaps"
        ]
        return list(filter(audit.Write.ok, writes))

    def check_narrowed(self):
        """No list or watch of what is limited went to the API server without the selector. Watches
        are logged when they end."""
        for pod in self.pods.values():
            pod.stop_operator()
        harness.wait_for(lambda: len(self.asked()) == 4 * 2 * 2, "all lists and watches are logged")
        for (pod, verb, resource), queries in self.asked().items():
            for query in queries:
                self.assertIn("labelSelector=", query, f"{pod}: {verb} {resource}")

    def asked(self):
        """(pod, list or watch, limited resource) -> what the API server was asked for an operator.
        localproxy itself asks how old it is at its start."""
        found = collections.defaultdict(list)
        for pod, entry in self.audit():
            resource = entry.get("objectRef", {}).get("resource")
            if entry["requestURI"] == "/api/v1/namespaces?limit=1":
                continue
            if entry["verb"] in ("list", "watch") and resource in ("namespaces", "configmaps"):
                found[pod.name, entry["verb"], resource].append(entry["requestURI"])
        return found

    # ---- tests ----

    def test_each_shard_works_on_its_own(self):
        owners = {team: "blue" if i < 3 else "green" for i, team in enumerate(TEAMS)}
        self.wait_reports(owners)
        for team in TEAMS:
            path = f"/api/v1/namespaces/{team}/configmaps"
            harness.wait_for(
                lambda t=team, p=path: self.report_of(t)["configMaps"]
                == str(len(self.cluster.json(p)["items"]) - 1),
                f"all ConfigMaps of {team} are counted",
            )
        self.assertEqual(404, self.cluster.fetch(f"{LEASES}/{NAMESPACE}").status)
        for write in self.report_writes():
            self.assertEqual(owners[write.namespace], write.shard, write)
        for shard, names in SHARDS.items():
            lines = [name for name in names if "Started leading" in self.pods[name].log()]
            self.assertEqual([self.holder(shard)], lines)
        self.check_narrowed()

    # ---- moves ----

    def edited(self, name, teams):
        """The example's ShardingConfig with these teams."""
        config = self.get(name)
        thing = {key: config[key] for key in ("apiVersion", "kind", "spec")}
        thing["metadata"] = {"name": name, "namespace": NAMESPACE}
        thing["spec"]["limits"][0]["selector"]["matchExpressions"][0]["values"] = teams
        return thing

    def apply_teams(self, names, owners, together):
        """As a user does it: all with one command, in this order, or one after the other."""
        things = [
            self.edited(name, [team for team in TEAMS if owners[team] == name]) for name in names
        ]
        lists = [things] if together else [[thing] for thing in things]
        for items in lists:
            listed = {"apiVersion": "v1", "kind": "List", "items": items}
            self.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def move(self, owners, to, names, together=True):
        """Gives these teams to their new shards; returns (team, loser, gainer, begun, enforced) of
        each when all is enforced and worked on."""
        begun = time.time()
        moves = [(team, owners[team], gainer, begun) for team, gainer in to.items()]
        owners.update(to)
        self.apply_teams(names, owners, together)
        for name in names:
            self.wait_enforced(name)
        enforced = time.time()
        self.wait_reports(owners)
        return [(*move, enforced) for move in moves]

    def move_under_churn(self, steps):
        """(to, names, together), one after the other, and what must hold of all of them."""
        owners = {team: "blue" if i < 3 else "green" for i, team in enumerate(TEAMS)}
        self.wait_reports(owners)
        churn = Churn(self.cluster, every=0.1)
        churn.start()
        moves = []
        for step in steps:
            time.sleep(1)
            moves += self.move(owners, *step)
        time.sleep(1)
        churn.end()
        moving = {team for team, *_ in moves}
        self.check_moves(moves)
        for write in self.report_writes():
            if write.namespace not in moving:
                self.assertEqual(owners[write.namespace], write.shard, write)
        for pod in self.pods.values():
            self.assertTrue(pod.runs(), pod.log()[-2000:])
        for name in SHARDS:
            self.assertFalse(self.told(name, "HandoverTimedOut"))
        self.check_narrowed()

    def told(self, name, reason):
        items = self.cluster.json(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
        return [
            e["message"]
            for e in items
            if e["involvedObject"]["name"] == name and e["reason"] == reason
        ]

    def test_a_namespace_moves(self):
        """Both edits at once, the loser's or the gainer's first; or one some time after the other."""
        there, back = {"team-3": "green"}, {"team-3": "blue"}
        self.move_under_churn(
            [
                (there, ("blue", "green"), True),
                (back, ("green", "blue"), True),
                (there, ("green", "blue"), True),
                (back, ("blue", "green"), True),
                (there, ("green", "blue"), False),
                (back, ("green", "blue"), False),
            ]
        )

    def test_two_namespaces_change_places(self):
        there = {"team-3": "green", "team-4": "blue"}
        back = {"team-3": "blue", "team-4": "green"}
        self.move_under_churn(
            [
                (there, ("blue", "green"), True),
                (back, ("blue", "green"), True),
                (there, ("green", "blue"), True),
                (back, ("green", "blue"), False),
            ]
        )

    def check_moves(self, moves):
        """Of each that moved: the one has ended before the other begins, and soon after."""
        writes = self.report_writes()
        gaps, times = [], []
        for team, loser, gainer, begun, enforced in moves:
            here = [write for write in writes if write.namespace == team]
            last = max(w.came for w in here if w.shard == loser and w.came < enforced)
            first = min(w.came for w in here if w.shard == gainer and w.came > begun)
            self.assertLess(last, first, f"{team}: two shards wrote at the same time")
            # Nobody's while the one confirms and the other takes it up, and the operator's own time.
            audit.check_soon(self, writes, gainer, team, enforced, first, OWN_WORK, team)
            gaps.append(first - last)
            times.append(enforced - begun)
        report(f"between the last write of one and the first of the other: "
               f"{', '.join(f'{gap * 1000:.0f}' for gap in gaps)} ms; from kubectl apply to enforced: "
               f"{', '.join(f'{took * 1000:.0f}' for took in times)} ms")  # fmt: skip

    def test_a_leader_ends(self):
        owners = {team: "blue" if i < 3 else "green" for i, team in enumerate(TEAMS)}
        self.wait_reports(owners)
        leader = self.pods[self.wait_leader("blue")]
        other = next(name for name in SHARDS["blue"] if name != leader.name)
        greens = self.holder("green")
        begun = time.monotonic()
        self.assertEqual(0, leader.stop_operator())
        self.assertIn(self.holder("blue"), ("", other), "the lease was not given back")
        self.wait_leader("blue", [other])
        took = time.monotonic() - begun
        self.wait_reports(owners)
        self.assertEqual(greens, self.holder("green"))
        self.assertIn("Stopped", leader.log())
        report(f"after SIGTERM the other one leads in {took:.1f} s; the lease is for {LEASE} s")

        begun = time.monotonic()
        self.pods[other].operator.kill()  # the lease is not given back
        leader.start_operator()
        self.wait_leader("blue", [leader.name])
        self.assertGreater(time.monotonic() - begun, LEASE / 4)
        self.assertEqual(greens, self.holder("green"))


if __name__ == "__main__":
    harness.main()
