# SPDX-License-Identifier: Apache-2.0
"""Everything that k8s/dashboards refers to is what the running programs tell."""

import json
import os
import re
import subprocess

import harness
import mesh
import wire

FOLDER = os.path.join(harness.ROOT, "k8s", "dashboards")

# What a histogram is read by.
SUFFIXES = ("_bucket", "_sum", "_count")

NAME = re.compile(r"\b(?:cmesh|workqueue|process)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:cmesh|workqueue|process)_[a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'([a-z_]+)(=~|!~|!=|=)"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|without) \(([^)]*)\)")
SAMPLE = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')

# Labels that Prometheus puts on what it scrapes.
SCRAPED = {"instance", "job"}

# In every program, told of above the tables.
EVERYWHERE = ("process_", "cmesh_build_info")

# Of a series for each shard only what shards are; these have the values of those that count them.
COUNTED = {"cmesh_manager_shard_state": "cmesh_manager_shards"}


# For all pods of the namespace; no request of the test's meets them.
POLICIES = {
    "circuitbreakers": {
        "kind": "CircuitBreaker",
        "spec": {
            "selector": {},
            "rateLimitings": [
                {
                    "name": "deletes",
                    "triggerPolicy": "ForceOpened",
                    "resourceRules": [
                        {
                            "apiGroups": ["*"],
                            "resources": ["*"],
                            "verbs": ["delete"],
                            "namespaces": ["*"],
                        }
                    ],
                }
            ],
            "trafficInterceptRules": [
                {
                    "name": "nowhere",
                    "interceptType": "Blacklist",
                    "contentType": "Normal",
                    "contents": ["nowhere.example"],
                    "methods": ["*"],
                }
            ],
        },
    },
    "faultinjections": {
        "kind": "FaultInjection",
        "spec": {
            "selector": {},
            "httpFault": [
                {
                    "name": "creates",
                    "match": {"resources": [{"verbs": ["create"]}]},
                    "abort": {"httpStatus": 503, "percent": "100"},
                }
            ],
        },
    },
}


def setUpModule():  # pylint: disable=invalid-name
    mesh.install()


class Metric:
    """One metric of a program's page."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        self.kind = None
        self.values = {}  # label -> the values that it has

    def row(self):
        labels = ", ".join(f"`{label}`" for label in self.values)
        return f"| `{self.name}` | {self.kind} | {labels} | {self.text} |"


def read_metrics(page):
    """name -> Metric, in the order of the page."""
    metrics = {}
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name, text = line[7:].split(" ", 1)
            metrics[name] = Metric(name, text)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            metrics[name].kind = kind
        else:
            name, _, labels = line.partition(" ")[0].partition("{")
            metric = metrics[base_name(name, metrics)]
            for label, value in SAMPLE.findall(labels if "{" in line else ""):
                if label != "le":
                    metric.values.setdefault(label, set()).add(value)
    return metrics


def base_name(name, metrics):
    """Of a histogram's series that of the histogram."""
    for suffix in SUFFIXES:
        short = name.removesuffix(suffix)
        if short != name and short in metrics and metrics[short].kind == "histogram":
            return short
    return name


def dashboard_expressions():
    with open(os.path.join(FOLDER, "cmesh.json"), encoding="utf-8") as f:
        board = json.load(f)
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def alert_expressions():
    """Of a file that is simple enough to be read by lines."""
    with open(os.path.join(FOLDER, "alerts.yaml"), encoding="utf-8") as f:
        text = f.read()
    for name, rest in re.findall(r"- alert: (\w+)\n(.*?)(?=\n    (?:for|labels):)", text, re.S):
        yield name, rest.replace("expr:", "").replace(">-", "")


class DashboardsTest(mesh.MeshTestCase):
    """The metrics are read once, of a manager, a localproxy and a rulesync that work."""

    def setUp(self):
        super().setUp()
        manager = self.manager("--webhook", "127.0.0.1:0", "--label-qps", "100")
        # Each of an operator of its own: none waits for another.
        lock = {"leaderElectionName": "a"}
        self.apply(mesh.config("a", "a", mesh.limit(mesh.is_in("part", "a")), controller=lock))
        self.add_root()
        by_namespace = mesh.limit(mesh.is_in(f"{mesh.GROUP}/namespace", self.namespace))
        self.apply(mesh.config("b", "b", by_namespace, controller={"leaderElectionName": "b"}))
        pod = self.pod("a-0", "a")
        egress = f"{pod.address}:15002"
        pod.proxy_args += ["--egress", egress, "--count-load"]
        pod.start()
        self.wait_condition("a", "Enforced", "True", "Enforced")
        self.add_policies()
        # Only then it tells of namespaces by operator, and of each resource.
        harness.wait_for(lambda: mesh.condition(self.get("b"), "Covered"), "b is looked at")
        harness.wait_for(lambda: manager.status()["labels"].get("checked"), "all is labelled")
        self.wait_condition("r", "Ready", "False")
        self.assertEqual(200, pod.proxy.fetch("/api/v1/namespaces").status)
        self.assertEqual(403, wire.fetch(egress, "http://nowhere.example/").status)
        pages = {
            "manager": manager.admin,
            "localproxy": pod.proxy.admin,
            "rulesync": f"{pod.address}:5442",
        }
        self.pages = {
            name: read_metrics(wire.fetch(address, "/metrics").body.decode())
            for name, address in pages.items()
        }
        self.metrics = {k: v for page in self.pages.values() for k, v in page.items()}

    def add_root(self):
        """Only then the manager tells of roots by their names."""
        root = {
            "prefix": "r",
            "targetStatefulSet": "none",
            "auto": {"shardingSize": 1, "everyShardReplicas": 1},
            "resourceSelector": [
                {"relateResources": [{"apiGroups": [""], "resources": ["pods"]}]},
            ],
        }
        thing = mesh.config("r", "r")
        spec = {"selector": thing["spec"]["selector"], "root": root}
        self.apply({**thing, "spec": {**spec, "controller": {"leaderElectionName": "r"}}})

    def add_policies(self):
        """Only then a proxy tells of its rules."""
        for plural, thing in POLICIES.items():
            path = f"{mesh.API}/namespaces/{self.namespace}/{plural}"
            whole = {"apiVersion": f"{mesh.GROUP}/v1alpha1", "metadata": {"name": "p"}, **thing}
            self.cluster.json(path, "POST", whole)
            harness.wait_for(
                lambda p=path: self.cluster.json(f"{p}/p").get("status", {}).get("enforced") == "1/1",
                f"{plural} are enforced",
            )

    def check(self, where, expression):
        names = set(NAME.findall(re.sub(r'"[^"]*"', "", expression)))
        self.assertTrue(names, (where, expression))
        known = set(SCRAPED) | {"le"}
        for name in names:
            base = base_name(name, self.metrics)
            self.assertIn(base, self.metrics, where)
            self.assertEqual(
                base != name, self.metrics[base].kind == "histogram", f"{where}: {name}"
            )
            known |= set(self.metrics[base].values)
        for name, matchers in SELECTOR.findall(expression):
            values = self.metrics[COUNTED.get(name, base_name(name, self.metrics))].values
            for label, _, wanted in MATCHER.findall(matchers):
                self.assertIn(label, values, where)
                if label in ("state", "result"):
                    self.assertLessEqual(set(wanted.split("|")), values[label], where)
        for group in GROUPING.findall(expression):
            for label in group.split(","):
                self.assertIn(label.strip(), known, where)

    def test_all_that_is_asked_for_exists(self):
        for where, expression in [*dashboard_expressions(), *alert_expressions()]:
            with self.subTest(where=where):
                self.check(where, expression)

    def test_panels_show_nobody_elses_processes(self):
        """Metrics that others have too are asked for of cmesh's processes alone."""
        for where, expression in dashboard_expressions():
            names = NAME.findall(expression)
            if not all(name.startswith("cmesh_") for name in names):
                self.assertRegex(expression, r"\bon \(job, instance\) .*\bcmesh_", where)

    def test_the_table_is_right(self):
        with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as f:
            text = f.read()
        for program, metrics in self.pages.items():
            with self.subTest(program=program):
                wanted = [m.row() for m in metrics.values() if not m.name.startswith(EVERYWHERE)]
                found = re.search(rf"### {program}\n\n.*?\n\|-.*?\n(.*?)\n\n", text, re.S)
                self.assertIsNotNone(found, program)
                self.assertEqual(
                    "\n".join(wanted), found.group(1), "README.md must have:\n" + "\n".join(wanted)
                )


class AlertsTest(harness.TestCase):
    """Prometheus' own tool reads the alerts and tries them on series that alerts_test.yaml has."""

    def test_alerts(self):
        tool = subprocess.run(
            [os.path.join(harness.ROOT, "test", "e2e", "promtool")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(0, tool.returncode, tool.stderr)
        for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
            done = subprocess.run(
                [tool.stdout.strip(), *command], cwd=FOLDER,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main()
