# SPDX-License-Identifier: Apache-2.0
"""The examples' READMEs are followed word for word on a real node: their commands are run as they
stand there, and what they promise is looked for.

Only the images come by another way: they are imported, where the READMEs tell of kind and docker.
"""

import json
import os
import re
import subprocess

import harness
import images
import mesh
import node
import operator_test
from metrics_server import MetricsServer

EXAMPLES = os.path.join(harness.ROOT, "examples")
OPERATOR = "report-operator"
PROGRAMS = ("manager", "kubeconfig-gen")
GROUP = "/apis/ctrlmesh.kusionstack.io"
CONFIGS = f"{GROUP}/v1alpha1/namespaces/{OPERATOR}/shardingconfigs"

# What the kubelet has not seen when it is told to look it sees when it looks by itself: 60 to 90
# seconds later.
KUBELET = 240

DISAPPEARED = '"Namespace disappeared" namespace="team-3"'


def appeared(team):
    return f'"Namespace appeared" namespace="team-{team}"'


def blocks(name):
    """The commands of a README, in order: those in fences marked sh."""
    with open(os.path.join(EXAMPLES, name, "README.md"), encoding="utf-8") as f:
        return re.findall(r"^```sh\n(.*?)^```$", f.read(), re.M | re.S)


class ReadmeTestCase(node.TestCase):
    teams = operator_test.TEAMS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cluster = node.cluster()
        program = operator_test.build_operator()
        cls.cache = os.path.dirname(os.path.dirname(program))
        cluster.load_programs()
        image = os.path.join(cluster.folder, "report-operator.tar")
        subprocess.run([os.path.join(operator_test.EXAMPLE, "build"), "--image", image], check=True)
        cluster.load(image)

    def setUp(self):
        super().setUp()
        spaces = ["namespace/" + name for name in (OPERATOR, *self.teams)]
        self.addCleanup(self.kubectl.run, "delete", "--ignore-not-found", *spaces)

    def follow(self, command, **more):
        """Runs a block as a reader would: standard output and error."""
        # Another home, for what kubectl keeps there, but the operator is not built again.
        folders = [os.path.dirname(harness.program(name)) for name in PROGRAMS]
        folders += [os.path.dirname(self.cluster.env["KUBECTL"]), os.environ["PATH"]]
        env = harness.clean_environment(
            PATH=":".join(folders),
            HOME=self.folder,
            CMESH_CACHE=self.cache,
            KUBECONFIG=self.cluster.kubeconfig,
            **more,
        )
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=harness.ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        if result.returncode != 0:
            seen = self.describe(OPERATOR, "app")
            self.fail(f"exit {result.returncode} of\n{command}\n{result.stdout}\n{seen}")
        return result.stdout

    def report_of(self, team):
        answer = self.cluster.fetch(f"/api/v1/namespaces/{team}/configmaps/report")
        return json.loads(answer.body)["data"] if answer.status == 200 else {}

    def reporters(self):
        """team -> the pod that reported it."""
        return {
            team: self.report_of(team)["reportedBy"]
            for team in self.teams
            if self.report_of(team)
        }

    def wait_reporters(self, wanted):
        """`wanted`: team -> a pattern for the pod's name."""

        def right():
            found = self.reporters()
            return found.keys() == wanted.keys() and all(
                re.fullmatch(wanted[team], found[team]) for team in wanted
            )

        try:
            harness.wait_for(right, f"reports as {wanted}", KUBELET, 0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.reporters()}") from None

    def wait_logged(self, pod, *lines):
        """Until the operator in that pod, which may follow and not lead, has said them all."""

        def said():
            log = self.kubectl("-n", OPERATOR, "logs", pod, "-c", "operator")
            return all(line in log for line in lines)

        harness.wait_for(said, f"{pod} says {lines}", interval=0.2)

    def leases(self):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR}/leases"
        others = "?labelSelector=app.kubernetes.io/component!=localproxy"
        return {lease["metadata"]["name"] for lease in self.cluster.json(path + others)["items"]}

    def check_gone(self):
        for name in (OPERATOR, *self.teams):
            path = f"/api/v1/namespaces/{name}"
            harness.wait_for(
                lambda p=path: self.cluster.fetch(p).status == 404, f"{name} is gone", 300
            )

    def restarts(self, selector):
        return [
            status["restartCount"]
            for pod in self.pods(OPERATOR, selector)
            for status in pod["status"]["containerStatuses"]
        ]


class ByHandTest(ReadmeTestCase):
    def test_readme(self):
        apply, label, rules, deploy, look, page, change, away = blocks("fake-kubeconfig-by-hand")
        for command in (apply, label, rules, deploy):
            self.follow(command)
        self.wait_reporters({f"team-{i}": r"by-hand-.*" for i in (1, 2, 3)})
        shown = self.follow(look)
        self.assertIn("report-operator---hand", shown)
        self.assertRegex(shown, r"team-3 +1 +by-hand-")
        self.assertEqual({"report-operator---hand"}, self.leases())
        for pod in self.pods(OPERATOR, "app=by-hand"):
            self.wait_logged(pod["metadata"]["name"], *map(appeared, (1, 2, 3)))
        page = self.follow(page)
        self.assertRegex(page, r'"generation":\s*1,')
        self.assertIn(appeared(1), page)
        self.assertNotIn("team-4", page)

        self.follow(change)
        self.wait_reporters({f"team-{i}": r"by-hand-.*" for i in (1, 2, 3, 4)})
        for pod in self.pods(OPERATOR, "app=by-hand"):
            harness.wait_for(
                lambda p=pod: node.enforced_generation(p) == 2, "all enforce the new rules", KUBELET
            )
        old = self.report_of("team-3")
        self.kubectl("-n", "team-3", "create", "configmap", "unseen")
        self.kubectl("-n", "team-4", "create", "configmap", "seen")
        self.kubectl("-n", "team-4", "label", "configmap", "seen",
                     f"{harness.NAMESPACE_LABEL}=team-4")  # fmt: skip
        harness.wait_for(
            lambda: self.report_of("team-4")["configMaps"] == "2", "what comes is counted"
        )
        self.assertEqual(old, self.report_of("team-3"))
        self.assertEqual([0] * 6, self.restarts("app=by-hand"))
        self.follow(away)
        self.check_gone()


class InClusterByHandTest(ReadmeTestCase):
    """The same without a kubeconfig."""

    def setUp(self):
        super().setUp()
        for command in blocks("fake-kubeconfig-by-hand")[:3]:
            self.follow(command)
        self.variables, self.look, self.by_name, self.nat, self.away = blocks("in-cluster-by-hand")

    def reported(self):
        """Whether the pods of now have reported, and the namespaces of their shard alone."""
        pods = {pod["metadata"]["name"] for pod in self.pods(OPERATOR, "app=by-hand")}
        found = self.reporters()
        return found.keys() == {f"team-{i}" for i in (1, 2, 3)} and set(found.values()) <= pods

    def check(self, command, address):
        self.follow(command)
        self.wait_ready(OPERATOR, "app=by-hand", 2)
        harness.wait_for(self.reported, "the new pods report", KUBELET, 0.2)
        shown = self.follow(self.look)
        self.assertRegex(shown, r"team-3 +by-hand-")
        self.assertRegex(shown, f'"API server" address="{address}"')
        self.assertEqual({"report-operator---hand"}, self.leases())
        self.assertEqual([0] * 6, self.restarts("app=by-hand"))

    def test_readme(self):
        self.check(self.variables, "https://127.0.0.1:5446")
        self.check(self.by_name, "https://kubernetes.default.svc:443")
        self.follow(self.away)
        self.check_gone()

    def test_nat(self):
        service = self.cluster.json("/api/v1/namespaces/default/services/kubernetes")
        self.check(self.nat, f"https://{service['spec']['clusterIP']}:443")
        self.follow(self.away)
        self.check_gone()


class ManagedTestCase(ReadmeTestCase):
    """With the manager in the cluster."""

    @property
    def base(self):
        minor = self.cluster.json("/version")["minor"].rstrip("+")
        return "k8s/before-1.21" if int(minor) < 21 else "k8s/base"

    def install(self):
        self.follow(f"kubectl apply -k {self.base}")
        self.addCleanup(self.follow, f"kubectl delete --ignore-not-found -k {self.base}")
        self.follow("kubectl -n cmesh-system rollout status deploy/cmesh-manager --timeout=300s")
        mesh.wait_webhooks(self.cluster)

    def wait_enforced(self, shard, generation=1):
        def enforced():
            status = self.cluster.json(f"{CONFIGS}/{shard}").get("status", {})
            return (status.get("generation"), status.get("enforced")) == (generation, "2/2")

        what = f"both pods enforce generation {generation} of {shard}"
        harness.wait_for(enforced, what, KUBELET, 0.2)

    def check_uninstalled(self):
        """The API server forgets the group some time after its last kind."""
        for path in ("/api/v1/namespaces/cmesh-system", GROUP):
            harness.wait_for(
                lambda p=path: self.cluster.fetch(p).status == 404, f"{path} is gone", 300
            )


class ByHandManagedTest(ManagedTestCase):
    """The sidecars are written by hand; labels and rules are the manager's."""

    def test_readme(self):
        self.install()
        shard = "examples/fake-kubeconfig-by-hand/shard.yaml"
        apply, _, _, kubeconfig, deploy, *_ = blocks("fake-kubeconfig-by-hand")
        for command in (apply, f"kubectl apply -f {shard}", kubeconfig, deploy):
            self.follow(command)
        self.wait_enforced("hand", 1)
        self.wait_reporters({f"team-{i}": r"by-hand-.*" for i in (1, 2, 3)})
        self.follow(f"sed s/team-3/team-4/ {shard} | kubectl apply -f -")
        self.wait_enforced("hand", 2)
        self.wait_reporters({f"team-{i}": r"by-hand-.*" for i in (1, 2, 3, 4)})


class OperatorGoTest(ManagedTestCase):
    def setUp(self):
        super().setUp()
        self.install()

    def revisions(self):
        return {
            pod["metadata"]["name"]: pod["metadata"]["labels"]["controller-revision-hash"]
            for pod in self.pods(OPERATOR, "app=report-operator")
        }

    def test_readme(self):
        apply, look, log, move, moved, first, others, away = blocks("operator-go")
        self.follow(apply)
        self.wait_reporters(teams(3))
        # What the page shows comes with the pods, but not in this very moment.
        for shard in ("blue", "green"):
            self.wait_enforced(shard)
        harness.wait_for(
            lambda: all(self.report_of(team).get("configMaps") == "2" for team in teams(3)),
            "all is labelled and counted",
        )
        self.wait_logged("report-operator-0", *map(appeared, (1, 2, 3)))
        self.assertEqual({"report-operator---blue", "report-operator---green"}, self.leases())
        shown = self.follow(look)
        self.assertRegex(shown, r"shardingconfig\S*/blue +2 +1 +2/2")
        self.assertRegex(shown, r"pod/report-operator-3 +3/3 +Running")
        self.assertRegex(shown, r"team-3 +2 +report-operator-[01]")
        shown = self.follow(log)
        self.assertEqual(
            {"team-1", "team-2", "team-3"},
            set(re.findall(r'"Namespace appeared" namespace="(.*?)"', shown)),
        )

        self.follow(move)
        self.assertRegex(self.follow(moved), r"report-operator-[23]")
        self.wait_reporters(teams(2))
        self.assertEqual([0] * 12, self.restarts("app=report-operator"))
        self.wait_logged("report-operator-0", DISAPPEARED)
        self.assertIn(DISAPPEARED, self.follow(log))

        before = self.revisions()
        self.follow(first)
        after = self.revisions()
        changed = {name for name in after if after[name] != before[name]}
        self.assertEqual({"report-operator-2", "report-operator-3"}, changed)
        self.wait_reporters(teams(2))
        self.follow(others)
        self.assertEqual(1, len(set(self.revisions().values())))
        self.wait_reporters(teams(2))
        self.follow(away)
        self.check_gone()


class WebhookRoutingTest(ManagedTestCase):
    def setUp(self):
        super().setUp()
        self.install()
        configurations = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
        self.addCleanup(self.kubectl.run, "delete", "--ignore-not-found", configurations, OPERATOR)

    def test_readme(self):
        shards, pods, routed, sites, logs, move, away = blocks("webhook-routing")
        self.follow(shards)
        self.follow(pods)
        shown = self.follow(routed)
        self.assertRegex(shown, r"20443/TCP")
        self.assertRegex(shown, r"20444/TCP")
        shown = self.follow(sites)
        self.assertEqual(12, shown.count("denied the request"), shown)
        self.assertTrue(shown.endswith("443\n"), shown)
        asked = re.findall(r'namespace="?([-\w]+)"? .* pod="?([-\w]+)', self.follow(logs))
        self.assertEqual({"team-1", "team-4"}, {team for team, _ in asked})
        for team, pod in asked:
            self.assertRegex(pod, teams(3)[team])
        shown = self.follow(move)
        self.assertRegex(shown, r'namespace="?team-3.* known=true')
        self.follow(away)
        self.check_gone()


def teams(blues):
    """Who is to report, when blue has the first `blues` of the teams."""
    return {
        team: "report-operator-[01]" if i < blues else "report-operator-[23]"
        for i, team in enumerate(operator_test.TEAMS)
    }


class AutomaticShardsTest(ManagedTestCase):
    COLOURS = "blue cyan gold gray green ivory navy olive orange red silver white"
    teams = [f"team-{colour}" for colour in COLOURS.split()]

    def setUp(self):
        super().setUp()
        self.install()

    def shards(self):
        """The pod of each bucket, by the shards that have any."""
        owners = {}
        for shard in self.cluster.json(CONFIGS)["items"]:
            found = re.fullmatch(r"report-(\d+)-normal", shard["metadata"]["name"])
            for bucket in mesh.buckets_of(shard) if found else ():
                owners[bucket] = f"{OPERATOR}-{int(found[1]) - 1}"
        return owners

    def check_spread(self, count):
        """Each team is worked on by the pod of its shard, and each shard has a leader."""
        owners = self.shards()
        self.assertEqual(32, len(owners))
        self.assertEqual({f"{OPERATOR}-{i}" for i in range(count)}, set(owners.values()))
        self.wait_reporters({team: owners[mesh_hash(team)] for team in self.teams})
        locks = {f"{OPERATOR}---report-{i + 1}-normal" for i in range(count)}
        self.assertLessEqual(locks, self.leases())

    def check_log(self, shown):
        """Of the first pod: of what it has now it was told once more that it came than that it went."""
        owners = self.shards()
        for team in self.teams:
            came, went = (
                shown.count(f'"Namespace {what}" namespace="{team}"')
                for what in ("appeared", "disappeared")
            )
            has = owners[mesh_hash(team)] == f"{OPERATOR}-0"
            self.assertEqual(has, came - went, (team, came, went))
        self.assertIn('"Namespace disappeared"', shown)

    def test_readme(self):
        demo, start, look, more, fewer, log, away = blocks("automatic-shards")
        self.assertEqual("examples/automatic-shards/demo\n", demo)
        self.follow(start)
        shown = self.follow(look)
        self.assertRegex(shown, r"report-1-normal +0-15\n")
        self.assertRegex(shown, r"report-2-normal +16-31\n")
        self.check_spread(2)
        self.assertIn("5/5 True", self.follow(more))
        self.check_spread(5)
        self.assertIn("3/3 True", self.follow(fewer))
        self.check_spread(3)
        names = [shard["metadata"]["name"] for shard in self.cluster.json(CONFIGS)["items"]]
        shards = [f"report-{i}-normal" for i in (1, 2, 3)]
        self.assertEqual([*shards, OPERATOR], sorted(names))
        self.assertEqual([0] * 9, self.restarts("app=report-operator"))
        self.check_log(self.follow(log))
        self.follow(away)
        self.check_gone()


class DeploymentTestCase(ManagedTestCase):
    teams = AutomaticShardsTest.teams
    every = None  # pods of each shard

    def setUp(self):
        super().setUp()
        self.install()

    def check_spread(self, shown, count):
        """Each shard has its pods, of which one reports for the teams of the shard."""
        shards = dict(re.findall(r"^(report-operator-\S+) .* (report-\d+-normal)$", shown, re.M))
        names = [f"report-{i + 1}-normal" for i in range(count)]
        self.assertEqual(sorted(names * self.every), sorted(shards.values()), shown)
        owners = {}
        for shard in self.cluster.json(CONFIGS)["items"]:
            for bucket in mesh.buckets_of(shard):
                owners[bucket] = shard["metadata"]["name"]
        self.assertEqual(32, len(owners))
        wanted = {}
        for team in self.teams:
            pods = [pod for pod, shard in shards.items() if shard == owners[mesh_hash(team)]]
            wanted[team] = "|".join(pods)
        self.wait_reporters(wanted)


class DeploymentTest(DeploymentTestCase):
    every = 2

    def test_readme(self):
        demo, start, look, more, roll, away = blocks("deployment")
        self.assertEqual("examples/deployment/demo\n", demo)
        self.follow(start)
        self.check_spread(self.follow(look), 2)
        self.check_spread(self.follow(more), 3)
        self.check_spread(self.follow(roll), 3)
        self.assertEqual([0] * 18, self.restarts("app=report-operator"))
        self.follow(away)
        self.check_gone()


class AdoptionTest(DeploymentTestCase):
    """The autoscaler is the real one; what metrics-server would serve is written."""

    every = 1

    def check_without(self):
        """All teams are reported by pods that are there, and these have no sidecars."""
        pods = self.wait_ready(OPERATOR, "app=report-operator", 2)
        self.assertEqual([1, 1], [len(pod["spec"]["containers"]) for pod in pods])
        names = "|".join(pod["metadata"]["name"] for pod in pods)
        self.wait_reporters({team: names for team in self.teams})

    def autoscale(self, load, count):
        self.metrics.load = load
        self.wait_ready(OPERATOR, "app=report-operator", count)

        def settled():
            status = self.cluster.json(f"{CONFIGS}/{OPERATOR}").get("status", {})
            ready = any(
                c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])
            )
            return ready and status.get("enforced") == f"{count}/{count}"

        harness.wait_for(settled, f"{count} pods enforce", KUBELET, 0.2)
        self.check_spread(self.look(), count)

    def look(self):
        return self.kubectl("-n", OPERATOR, "get", "pods", "-L", f"{mesh.GROUP}/shard")

    def test_readme(self):
        demo, start, adopt, upgrade, leave, away = blocks("adoption")
        self.assertEqual("examples/adoption/demo\n", demo)
        self.follow(start)
        self.check_without()
        self.check_spread(self.follow(adopt), 2)
        self.metrics = MetricsServer(self, OPERATOR, OPERATOR, 200)
        self.follow(
            "sed -e s,autoscaling/v2,autoscaling/v2beta2, -e s/600/0/ examples/adoption/hpa.yaml |"
            " kubectl apply -f -"
        )
        self.autoscale(400, 4)
        self.autoscale(200, 2)
        old = self.revisions()
        self.follow(upgrade)
        self.wait_ready(OPERATOR, "app=report-operator", 2)
        self.assertFalse(old & self.revisions())
        self.check_spread(self.look(), 2)
        self.follow(leave)
        self.check_without()
        self.assertEqual([0, 0], self.restarts("app=report-operator"))
        self.follow(away)
        self.check_gone()

    def revisions(self):
        pods = self.pods(OPERATOR, "app=report-operator")
        return {pod["metadata"]["labels"]["pod-template-hash"] for pod in pods}


def mesh_hash(namespace):
    """As the control label has it."""
    number = 0
    for character in namespace:
        number = (number * 33 + ord(character)) % 32
    return number


class KindTest(ManagedTestCase):
    def test_demo(self):
        """All steps but those that need kind, with images that are imported."""
        more = {
            "LOAD": f"{harness.CLUSTER} load {self.cluster.directory}",
            "BUILD": images.build_folder(),
            "WORK": self.path("kind"),
        }
        for step in ("images", "install", "operator"):
            self.follow(f"examples/kind/demo {step}", **more)
        self.wait_reporters(teams(3))
        told = self.follow("examples/kind/demo edit", **more)
        self.wait_reporters(teams(2))
        self.assertIn(DISAPPEARED, told)
        self.follow("examples/kind/demo delete", **more)
        self.check_gone()
        self.check_uninstalled()
        self.assertFalse(os.path.exists(more["WORK"]))


if __name__ == "__main__":
    harness.main()
