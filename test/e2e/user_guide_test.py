# SPDX-License-Identifier: Apache-2.0
"""What the user guide says to type works as it stands there, but for the ports: others are used."""

import json
import os
import pwd
import re
import shutil
import subprocess
import unittest

import harness
import inputs
import manifests
import mesh
import real_clients

GUIDE = os.path.join(harness.ROOT, "docs", "user-guide.md")
PROGRAMS = ("localproxy", "rulesync")
FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
NAMESPACES = [f"demo-{n}" for n in range(1, 5)]


def blocks(heading):
    """The commands below a heading, in order: those in fences marked sh."""
    with open(GUIDE, encoding="utf-8") as f:
        section = f.read().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)


def manifests_of(heading):
    """Those below a heading, in order: in fences marked yaml."""
    with open(GUIDE, encoding="utf-8") as f:
        section = f.read().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return manifests.parse("---\n".join(re.findall(r"^```yaml\n(.*?)^```$", section, re.M | re.S)))


def merged(thing, change):
    """As a merge patch does it."""
    if not isinstance(change, dict):
        return change
    thing = thing if isinstance(thing, dict) else {}
    return {**thing, **{key: merged(thing.get(key), value) for key, value in change.items()}}


class Shell:
    """One that the reader types into."""

    END = "--- end of block ---"

    def __init__(self, folder, env, prefix=()):
        self.process = subprocess.Popen(
            [*prefix, "bash"], cwd=folder, env=env, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def type(self, text):
        """What is printed until the prompt would come again."""
        print(text, f"echo '{self.END}'", sep="\n", file=self.process.stdin, flush=True)
        printed = []
        for line in self.process.stdout:
            if line == self.END + "\n":
                break
            printed.append(line)
        return "".join(printed)

    def close(self):
        self.type("kill $(jobs -p); wait")
        self.process.communicate()


class ByHandTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.admin = harness.Kubectl(self.folder, self.cluster.kubeconfig)
        self.addCleanup(self.admin.run, "delete", "namespace", "--ignore-not-found", *NAMESPACES)
        for name in ("examples", "k8s"):
            os.symlink(os.path.join(harness.ROOT, name), os.path.join(self.folder, name))
        self.listen = f"127.0.0.1:{harness.free_port()}"
        self.admins = {name: f"127.0.0.1:{harness.free_port()}" for name in PROGRAMS}
        self.shell = Shell(self.folder, self.environment())
        self.addCleanup(self.shell.close)

    def environment(self):
        programs = ("manager", "localproxy", "rulesync", "kubeconfig-gen")
        folders = [os.path.dirname(harness.program(name)) for name in programs]
        folders += [os.path.dirname(self.cluster.env["KUBECTL"]), os.environ["PATH"]]
        return harness.clean_environment(
            PATH=":".join(folders),
            HOME=self.folder,
            XDG_STATE_HOME=self.folder,
            KUBECONFIG=self.cluster.kubeconfig,
            CMESH_LISTEN=self.listen,
            CMESH_PROXY=f"https://{self.listen}",
        )

    def type(self, text):
        for name, admin in self.admins.items():
            text = text.replace(f"{name} --", f"{name} --admin={admin} --")
        return self.shell.type(text)

    def shown(self):
        printed = self.type("kubectl --kubeconfig fake.kubeconfig get namespaces --no-headers")
        return sorted(line.split()[0] for line in printed.splitlines())

    def wait_shown(self, *names):
        harness.wait_for(lambda: self.shown() == list(names), f"{names} are seen")

    def test_by_hand(self):
        label, start, look, manager, change, *_ = blocks("By hand")
        self.assertIn("manager --namespace", manager)  # labels everything: manager_start_test
        self.type(label)
        self.assertRegex(self.type(start), r"kubeconfig-gen: written path=fake.kubeconfig")
        self.wait_shown("demo-1", "demo-2", "demo-3")
        self.assertRegex(self.type(look), r"demo-1 +Active")
        self.type("kill %1; wait %1\n" + start.replace("--rules", "--control=control.sock --rules"))
        self.wait_shown("demo-1", "demo-2", "demo-3")
        self.type(change)
        self.wait_shown("demo-1", "demo-2", "demo-4")


LIST = """
from kubernetes import client, config
config.load_incluster_config()
print(*sorted(n.metadata.name for n in client.CoreV1Api().list_namespace().items))
"""


@unittest.skipUnless(os.getuid() == 0, "needs root, to become the reader and to be asked by sudo")
class PodsServiceAccountTest(harness.TestCase):
    """Typed by a user, with a /run of the test's own."""

    READER = pwd.getpwnam("nobody")
    PROGRAMS = ("manager", "localproxy", "kubeconfig-gen")

    def setUp(self):
        super().setUp()
        if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no mount namespaces here")
        self.cluster = harness.cluster()
        self.admin = harness.Kubectl(self.make_folder(self.addCleanup), self.cluster.kubeconfig)
        self.addCleanup(self.admin.run, "delete", "namespace", "--ignore-not-found", *NAMESPACES)
        os.makedirs(self.path("examples/quickstart"))
        example = "examples/quickstart/shard-blue.yaml"
        shutil.copy(os.path.join(harness.ROOT, example), self.path(example))
        self.path("kubeconfig", self.admin("config", "view", "--raw", "--flatten"))
        for place, folders, files in os.walk(self.folder):
            for name in (".", *folders, *files):
                os.chown(os.path.join(place, name), self.READER.pw_uid, self.READER.pw_gid)
        self.port = harness.free_port()
        self.shell = self.become_reader()
        self.addCleanup(self.shell.close)
        label, rules = blocks("By hand")[:2]
        self.start, self.look, self.without = blocks("By hand")[-3:]
        self.type(label)
        self.type("\n".join(rules.splitlines()[:2]) + "\n")  # and localproxy
        self.wait_for_proxy()

    def become_reader(self):
        """A shell of the reader's, in a mount namespace. Until then it is root's, who types what
        stands behind sudo. The programs may be where only root looks."""
        env = harness.clean_environment(
            PATH="/run/programs:" + os.environ["PATH"],
            HOME=self.folder,
            XDG_STATE_HOME=self.path("state"),
            USER=self.READER.pw_name,
            KUBECONFIG=self.path("kubeconfig"),
            CMESH_LISTEN=f"127.0.0.1:{self.port}",
            CMESH_ADMIN="127.0.0.1:0",
            CMESH_READY_FILE=self.path("ready"),
            CMESH_PROXY=f"https://127.0.0.1:{self.port}",
        )
        shell = Shell(self.folder, env, ["unshare", "-m"])
        shell.type("set -e\nmount -t tmpfs -o mode=755 tmpfs /run\nmkdir /run/programs")
        programs = {name: harness.program(name) for name in self.PROGRAMS}
        for name, path in {**programs, "kubectl": self.cluster.env["KUBECTL"]}.items():
            where = f"/run/programs/{name}"
            shell.type(f"touch {where}\nmount --bind {os.path.realpath(path)} {where}")
        shell.type('sudo() { "$@"; }\n' + blocks("By hand")[-4])
        ids = f"--reuid={self.READER.pw_uid} --regid={self.READER.pw_gid} --clear-groups"
        print(f"exec setpriv {ids} --inh-caps=-all bash", file=shell.process.stdin, flush=True)
        return shell

    def type(self, text):
        return self.shell.type(re.sub(r" &(?= |\n)", " 2>log &", text))

    def wait_for_proxy(self):
        harness.wait_for(lambda: os.path.exists(self.path("ready")), "localproxy listens")

    def assert_shown(self, printed):
        rows = [line.split()[0] for line in printed.partition("NAME ")[2].splitlines()[1:]]
        self.assertEqual(["demo-1", "demo-2", "demo-3"], rows, printed)

    def test_with_root_once(self):
        self.type(self.start)
        self.assert_shown(self.type(self.look))
        owners = self.type(f"stat -c '%n %U %a' {FOLDER} {FOLDER}/*").splitlines()
        name = self.READER.pw_name
        wanted = [f"{FOLDER} {name} 755"]
        wanted += [f"{FOLDER}/{file} {name} 600" for file in ("ca.crt", "namespace", "token")]
        self.assertEqual(wanted, owners)
        if not real_clients.have_python_client():
            self.skipTest("python3-kubernetes is not installed")
        self.path("list.py", LIST)
        run = f"env $(cat operator.env) {real_clients.PYTHON} list.py"
        self.assertEqual("demo-1 demo-2 demo-3\n", self.type(run))

    def test_without_root(self):
        if "may" not in self.type("unshare -Urm echo may"):
            self.skipTest("the kernel lets users make no namespaces")
        self.assert_shown(self.type(self.without))
        self.assertEqual("", self.type(f"ls -A {FOLDER}"), "it stays in a place of its own")


class RecipeTest(mesh.MeshTestCase):
    def test_which_shard_has_a_namespace(self):
        """What a shard does not have is not taken for what it has."""
        mesh.install(self.addCleanup)
        names = ["demo-1", "demo-2"]
        others = mesh.is_in(harness.NAMESPACE_LABEL, *names)
        others["matchExpressions"][0]["operator"] = "NotIn"
        self.apply(mesh.config("blue", "blue", mesh.limit(mesh.is_in(harness.NAMESPACE_LABEL, *names))))
        self.apply(mesh.config("green", "green", mesh.limit(others)))
        recipe = blocks("Move a namespace")[0].splitlines()[0]
        command = recipe.replace("kubectl", self.kubectl.program + " " + " ".join(self.kubectl.base), 1)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        rows = [re.split(" {2,}", row.strip()) for row in done.stdout.splitlines()]
        self.assertEqual(["OPERATOR", "SHARD", "IN", "NOT IN"], rows[0])
        self.assertIn([self.namespace, "blue", "[demo-1 demo-2]", "<none>"], rows)
        self.assertIn([self.namespace, "green", "<none>", "[demo-1 demo-2]"], rows)


class AutomaticShardsTest(harness.TestCase):
    """What the guide says of roots, by `manager compile`."""

    def children(self, root, replicas, kind="StatefulSet"):
        target = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": "my-operator", "namespace": "my-namespace"},
            "spec": {"replicas": replicas},
        }
        files = [self.path(name, json.dumps(thing)) for name, thing in (("r", root), ("s", target))]
        done = subprocess.run(
            [harness.program("manager"), "compile", "-f", files[0], "-f", files[1]],
            capture_output=True, text=True, check=False, env=harness.clean_environment(),
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        return re.findall(r'"name": "(my-operator-\d+-\w+)"', done.stdout)

    def test_manifests(self):
        whole, deployment, canary, takeover, rebalance = manifests_of("Automatic shards")
        three = [f"my-operator-{number}-normal" for number in (1, 2, 3)]
        self.assertEqual(three, self.children(whole, 6))
        self.assertEqual(three, self.children(whole, 5))
        self.assertEqual(three[:2], self.children(whole, 4))
        for change in (takeover, rebalance):
            self.assertEqual(three, self.children(merged(whole, change), 6))
        shards = ["my-operator-0-canary", *three]
        self.assertEqual(shards, self.children(merged(whole, canary), 7))
        of_deployment = merged(whole, deployment)
        del of_deployment["spec"]["root"]["targetStatefulSet"]
        self.assertEqual(three, self.children(of_deployment, 7, "Deployment"))


KRIDGE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shardingconfigs.kridge.kusionstack.io}
spec:
  group: kridge.kusionstack.io
  names: {plural: shardingconfigs, singular: shardingconfig, kind: ShardingConfig}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

# As its README has it, and one that its manager would have made of a root.
KRIDGE_CONFIG = inputs.KRIDGE.replace(
    "  name: sharding-demo\n  namespace: operator-demo\n",
    """\
  name: NAME
  namespace: NAMESPACE
  labels: LABELS
  finalizers: [finalizer.kridge.kusionstack.io/protected]
""",
)

KRIDGE_ROOT = """
apiVersion: kridge.kusionstack.io/v1alpha1
kind: ShardingConfig
metadata: {name: root, namespace: NAMESPACE}
spec:
  root:
    prefix: demo
    targetStatefulSet: demo
    canary: {replicas: 1, inNamespaces: [ns-a]}
    auto: {shardingSize: 2, everyShardReplicas: 1}
    resourceSelector:
    - relateResources: [{apiGroups: [""], resources: [pods]}]
      selector: {matchExpressions: [{key: kridge.kusionstack.io/control, operator: Exists}]}
"""


class KridgeTest(mesh.MeshTestCase):
    KIND = "shardingconfigs.kridge.kusionstack.io"

    def setUp(self):
        super().setUp()
        mesh.install(self.addCleanup)
        self.addCleanup(self.clean)
        self.kubectl("apply", "-f", "-", stdin=KRIDGE)
        path = "/apis/kridge.kusionstack.io/v1alpha1/shardingconfigs"
        harness.wait_for(lambda: self.cluster.fetch(path).status == 200, "it is served")

    def clean(self):
        """Finalizers would hold the objects."""
        for kind in (self.KIND, "shardingconfigs.ctrlmesh.kusionstack.io"):
            for name in self.here("get", kind, "-o", "name", "--ignore-not-found").split():
                self.here("patch", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        self.kubectl.run("delete", "crd", self.KIND)

    def create(self, name, labels="{}"):
        text = KRIDGE_CONFIG.replace("NAMESPACE", self.namespace)
        text = text.replace("NAME", name).replace("LABELS", labels)
        self.kubectl("apply", "-f", "-", stdin=text)
        path = f"/apis/kridge.kusionstack.io/v1alpha1/namespaces/{self.namespace}/shardingconfigs/{name}"
        status = {"status": {"root": {"childShardingConfigs": []}}}
        self.cluster.json(path + "/status", "PATCH", status, "application/merge-patch+json")

    def type(self, text):
        """As it stands there, with the kubectl of the server."""
        function = f'kubectl() {{ {self.kubectl.program} {" ".join(self.kubectl.base)} "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", function + text], capture_output=True, text=True, check=False
        )
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def compiled(self, kind):
        """What `manager compile` makes of them: rules, one after the other."""
        shards = "!kridge.kusionstack.io/auto-sharding-root"
        things = self.here("get", kind, "-l", shards, "-o", "yaml")
        done = subprocess.run(
            [harness.program("manager"), "compile", "-f", "-"], input=things,
            capture_output=True, text=True, check=False, env=harness.clean_environment(),
        )  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_its_objects_are_copied(self):
        self.create("shard-a")
        self.create("demo-1-normal", "{kridge.kusionstack.io/auto-sharding-root: root}")
        self.here("apply", "-f", "-", stdin=KRIDGE_ROOT.replace("NAMESPACE", self.namespace))
        convert, pods, clean = blocks("Coming from Kridge")
        self.assertIn("shard-a created", self.type(convert))
        self.type(convert)  # once more does no harm
        names = self.here("get", "shardingconfigs.ctrlmesh.kusionstack.io", "-o", "name").split()
        kind = "shardingconfig.ctrlmesh.kusionstack.io"
        self.assertEqual([f"{kind}/root", f"{kind}/shard-a"], names)
        theirs = self.compiled(self.KIND)
        ours = self.compiled("shardingconfigs.ctrlmesh.kusionstack.io")
        self.assertEqual(4, theirs.count('"kind": "ShardRules"'))
        # The checksum is that of what stands there.
        theirs, ours = (re.sub('"checksum": ".*"', "", text) for text in (theirs, ours))
        self.assertEqual(theirs.replace("kridge.kusionstack.io", mesh.GROUP), ours)
        self.start_manager()
        self.wait_condition("shard-a", "Compiled", "True")
        harness.wait_for(
            lambda: "finalizers" not in self.get("shard-a")["metadata"], "the finalizer is taken off"
        )
        for shard in ("demo-0-canary", "demo-1-normal", "demo-2-normal"):
            path = f"{self.configs}/{shard}"
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 200, f"{shard} is made")
        self.assertIn("enable-proxy", pods)  # an operator as in examples_test
        self.assertIn(f"delete crd {self.KIND}", clean)


if __name__ == "__main__":
    harness.main()
