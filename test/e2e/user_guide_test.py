# SPDX-License-Identifier: Apache-2.0
"""What the user guide says to type works as it stands there, but for the ports: others are used."""

import os
import re
import subprocess

import harness
import mesh

GUIDE = os.path.join(harness.ROOT, "docs", "user-guide.md")
PROGRAMS = ("localproxy", "rulesync")
NAMESPACES = [f"demo-{n}" for n in range(1, 5)]


def blocks(heading):
    """The commands below a heading, in order: those in fences marked sh."""
    with open(GUIDE, encoding="utf-8") as f:
        section = f.read().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)


class Shell:
    """One that the reader types into."""

    END = "--- end of block ---"

    def __init__(self, folder, env):
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, env=env, text=True, start_new_session=True,
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
            CMESH_PROXY=f"http://{self.listen}",
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
        label, start, look, manager, change = blocks("By hand")
        self.assertIn("manager --namespace", manager)  # labels everything: manager_start_test
        self.type(label)
        self.assertRegex(self.type(start), r"kubeconfig-gen: written path=fake.kubeconfig")
        self.wait_shown("demo-1", "demo-2", "demo-3")
        self.assertRegex(self.type(look), r"demo-1 +Active")
        self.type("kill %1; wait %1\n" + start.replace("--rules", "--control=control.sock --rules"))
        self.wait_shown("demo-1", "demo-2", "demo-3")
        self.type(change)
        self.wait_shown("demo-1", "demo-2", "demo-4")


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


if __name__ == "__main__":
    harness.main()
