# SPDX-License-Identifier: Apache-2.0
"""The Helm chart k8s/chart under Helm 3 and 4: by default it means what k8s/base means, and what it
renders with other values is taken by a real API server and by the manager; it is installed,
upgraded and uninstalled.
"""

import json
import os
import re
import subprocess
import unittest

import harness
import manifests
import releases
from installation import K8S, InstallationCase

CHART = os.path.join(K8S, "chart")
HELM_LABELS = {"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"}
SETTINGS = "cmesh-manager-settings"
WEBHOOKS = (
    "pods",
    "namespaces",
    "resources",
    "shardingconfigs",
    "trafficpolicies",
    "deletions",
)

DIGEST = "sha256:" + 4 * "0123456789abcdef"

EVERYTHING = {
    "imagePullSecrets": [{"name": "regcred"}],
    "manager": {
        "replicas": 3,
        "image": {
            "repository": "r.example/manager",
            "tag": "1.2",
            "digest": DIGEST,
            "pullPolicy": "Always",
        },
        "resources": {"limits": {"memory": "1Gi", "cpu": 1}, "requests": {"cpu": "100m"}},
        "takeover": True,
        "routes": {"namespaces": ["default"], "validating": ["checks"], "mutating": ["defaults", "x.y"]},
        "extraArgs": ["--probe-interval=30", "--watch-namespace=a"],
        "logLevel": "debug",
        "logFormat": "json",
        "podAnnotations": {"a.example/b": "c"},
        "podLabels": {"team": "x"},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"pool": "control"},
        "tolerations": [{"key": "control", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "clientCA": {"configMap": "clients", "key": "bundle.pem", "name": "kube-apiserver"},
    },
    "proxy": {
        "image": {
            "repository": "r.example/proxy",
            "tag": "1.3",
            "digest": DIGEST,
            "pullPolicy": "IfNotPresent",
        },
        "natImage": {"repository": "r.example/nat", "tag": "1.4", "digest": DIGEST},
        "resources": {
            "requests": {"cpu": 1, "memory": "64Mi"},
            "limits": {"cpu": 2, "memory": "1Gi"},
        },
        "rulesyncResources": {
            "requests": {"cpu": "6m", "memory": "17Mi"},
            "limits": {"cpu": "100m", "memory": "65Mi"},
        },
        "pullSecrets": ["regcred", "other"],
        "runAsUser": 0,
        "rulesLease": 30,
        "extraArgs": ["--write-fence=audit", "--log-level=debug"],
        "extraEnv": {"NO_PROXY": "a,b", "WHERE": "$(POD_NAME)"},
    },
    "labels": {
        "prefix": "mesh.example.com",
        "namespace": "ns",
        "shardHash": "other.example.com/hash",
        "control": "ours",
        "foreign": "take",
        "qps": 0,
    },
    "shardingResources": {"groupVersionKinds": {"batch/v1": None, "example.com/v1": ["*"]}},
    "labelledResources": [{"apiGroups": ["example.com"], "resources": ["databases"]}],
    "webhooks": {
        "pods": {"failurePolicy": "Ignore", "timeoutSeconds": 30},
        "namespaces": {"failurePolicy": "Fail", "timeoutSeconds": 29},
        "resources": {"failurePolicy": "Fail", "timeoutSeconds": 28},
        "shardingconfigs": {"failurePolicy": "Ignore", "timeoutSeconds": 27},
        "trafficpolicies": {"failurePolicy": "Ignore", "timeoutSeconds": 25},
        "deletions": {"failurePolicy": "Fail", "timeoutSeconds": 26},
    },
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "networkPolicy": {
        "enabled": True,
        "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.1/32"}}],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    },
    "admissionPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
}

# All of it that an API server before 1.30 takes.
ON_OLD = {**EVERYTHING, "admissionPolicy": {"enabled": False}}

# What stands above as it does by default, or is Helm's.
UNCHANGED = {("podDisruptionBudget", "enabled"), ("networkPolicy", "enabled"), ("global",)}

# Values that are wrong -> what is said, in which the two write paths in their own ways.
WRONG = (
    ({"webhooks": {"pods": {"failurePolicy": "ignore"}}}, "webhooks.pods.failurePolicy"),
    ({"replicas": 3}, "replicas"),
    ({"manager": {"replicas": "three"}}, "manager.replicas"),
    ({"manager": {"image": {"pullPolicy": "Sometimes"}}}, "manager.image.pullPolicy"),
    ({"manager": {"extraArgs": ["probe-interval=3"]}}, "manager.extraArgs.0"),
    ({"proxy": {"resources": {"limits": {"gpu": 1}}}}, "gpu"),
    ({"proxy": {"rulesyncResources": {"request": {}}}}, "request"),
    ({"proxy": {"pullSecrets": ["a b"]}}, "proxy.pullSecrets.0"),
    ({"proxy": {"runAsUser": -1}}, "proxy.runAsUser"),
    ({"proxy": {"extraEnv": {"A": 1}}}, "proxy.extraEnv.A"),
    ({"proxy": {"rulesLease": 9}}, "proxy.rulesLease"),
    ({"manager": {"takeover": "yes"}}, "manager.takeover"),
    ({"manager": {"routes": {"validating": "checks"}}}, "manager.routes.validating"),
    ({"manager": {"routes": {"namespaces": ["a.b"]}}}, "manager.routes.namespaces.0"),
    ({"proxy": {"resources": {"requests": {"cpu": "much"}}}}, "proxy.resources.requests.cpu"),
    ({"labels": {"qps": -1}}, "labels.qps"),
    ({"labels": {"prefix": "a/b"}}, "labels.prefix"),
    ({"labels": {"foreign": "keep"}}, "labels.foreign"),
    ({"namespace": {"name": "mesh"}}, "namespace"),
)


def setUpModule():  # pylint: disable=invalid-name
    folders, why = releases.folders()
    if folders is None:
        raise unittest.SkipTest(why)


def helm(number):
    """Of version 3 or 4."""
    return os.path.join(releases.folders()[0][number - 3], "helm")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def parsed(text):
    """Of YAML that is one document."""
    return manifests.parse(text)[0]


def identity(thing):
    return thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"]


def by_identity(things):
    return {identity(thing): thing for thing in things}


def find(things, kind, name="cmesh-manager"):
    found = [t for t in things if (t["kind"], t["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, (kind, name, [identity(t) for t in things])
    return found[0]


def container_of(things):
    return find(things, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def schema_paths(node, definitions, path=()):
    """Of all values that have names in the schema."""
    node = definitions.get(node.get("$ref", "").rpartition("/")[2], node)
    if "properties" not in node:
        yield path
    for name, below in node.get("properties", {}).items():
        yield from schema_paths(below, definitions, (*path, name))


def without(values, path):
    below = {k: v for k, v in values.items() if k != path[0]}
    return below if len(path) == 1 else {**below, path[0]: without(values[path[0]], path[1:])}


def policies(value):
    return {"webhooks": {name: {"failurePolicy": value} for name in WEBHOOKS}}


class ChartTestCase(harness.TestCase):
    program = None  # Helm

    def run_helm(self, *args, values=None, kubeconfig=os.devnull):
        """What it printed, and its exit code."""
        path = self.path("values.yaml", json.dumps(values or {}))
        command = [self.program, *args, "--kubeconfig", kubeconfig]
        if values is not None:
            command += ["--values", path]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            env=harness.clean_environment(HOME=self.folder),
        )

    def helm(self, *args, **more):
        """Standard output; it must succeed."""
        result = self.run_helm(*args, **more)
        self.assertEqual(0, result.returncode, (args, result.stderr))
        return result.stdout

    def tried(self, *args, values=None):
        """In cmesh-system, unless the arguments say otherwise."""
        return self.run_helm(
            "template", "cmesh", CHART, "--namespace=cmesh-system", *args, values=values
        )

    def rendered(self, *args, values=None):
        """Standard output; it must succeed."""
        result = self.tried(*args, values=values)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def objects(self, *args, values=None):
        return manifests.parse(self.rendered(*args, values=values))


class Rendering:
    """By each Helm."""

    def test_lint(self):
        for values in ({}, EVERYTHING):
            self.assertIn("0 chart(s) failed", self.helm("lint", CHART, values=values))

    # ---- the same as the base ----

    def base(self):
        kubectl = os.path.join(os.path.dirname(self.program), "kubectl")
        command = [kubectl, "kustomize", os.path.join(K8S, "base")]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return manifests.parse(text)

    def without_hashes(self, things):
        """ConfigMaps by the names that they have in the chart, and what is in them parsed."""
        generated = r'"(cmesh-(?:manager-settings|sharding-resources))-[0-9a-z]{10}"'
        things = json.loads(re.sub(generated, r'"\1"', json.dumps(things)))
        resources = find(things, "ConfigMap", "cmesh-sharding-resources")["data"]
        resources["sharding-resources.yaml"] = parsed(resources["sharding-resources.yaml"])
        return things

    def without_helm(self, things):
        for thing in things:
            labels = thing["metadata"].get("labels", {})
            for label in HELM_LABELS & set(labels):
                del labels[label]
        annotations = find(things, "Deployment")["spec"]["template"]["metadata"]["annotations"]
        for name in [name for name in annotations if name.startswith("checksum/")]:
            del annotations[name]
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            routes = find(things, kind, "cmesh-routes")["metadata"]
            self.assertEqual({"helm.sh/resource-policy": "keep"}, routes.pop("annotations"))
        # The base's generated ConfigMaps have no labels.
        for thing in things:
            if thing["kind"] == "ConfigMap":
                del thing["metadata"]["labels"]
        return things

    def test_the_default_means_what_the_base_means(self):
        ours = by_identity(self.without_helm(self.without_hashes(self.objects("--include-crds"))))
        base = by_identity(self.without_hashes(self.base()))
        del base["Namespace", None, "cmesh-system"]  # helm install --create-namespace
        self.assertEqual(set(base), set(ours))
        for name, thing in base.items():
            with self.subTest(name):
                self.assertEqual(thing, ours[name])

    # ---- values ----

    def test_failure_policies(self):
        for name in WEBHOOKS:
            for policy in ("Fail", "Ignore"):
                things = self.objects(values={"webhooks": {name: {"failurePolicy": policy}}})
                found = {
                    w["name"]: w["failurePolicy"]
                    for kind in ("Mutating", "Validating")
                    for w in find(things, kind + "WebhookConfiguration", "cmesh")["webhooks"]
                }
                usual = dict.fromkeys(("pods", "shardingconfigs", "trafficpolicies"), "Fail")
                wanted = {
                    f"{n}.webhook.cmesh.kusionstack.io": usual.get(n, "Ignore") for n in WEBHOOKS
                }
                wanted[f"{name}.webhook.cmesh.kusionstack.io"] = policy
                self.assertEqual(wanted, found)

    def test_the_network_policy_is_that_of_the_other_way(self):
        things = self.objects()
        theirs = parsed(read(K8S, "base", "network_policy.yaml"))
        self.assertEqual(theirs["spec"], find(things, "NetworkPolicy")["spec"])

    def test_who_may_ask_the_webhooks(self):
        pod = find(self.objects(), "Deployment")["spec"]["template"]["spec"]
        self.assertNotIn("client-ca", [v["name"] for v in pod["volumes"]])
        pod = find(self.objects(values=EVERYTHING), "Deployment")["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertIn("--webhook-client-name=kube-apiserver", container["args"])
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        self.assertIn(f"--webhook-client-ca={mounts['client-ca']}/ca.crt", container["args"])
        volume = {v["name"]: v for v in pod["volumes"]}["client-ca"]["configMap"]
        items = [{"key": "bundle.pem", "path": "ca.crt"}]
        self.assertEqual({"name": "clients", "items": items}, volume)

    def test_the_admission_policies_are_those_of_the_other_way(self):
        things = self.objects(values={"admissionPolicy": {"enabled": True}})
        for theirs in manifests.parse(read(K8S, "admission-policy", "policies.yaml")):
            ours = find(things, theirs["kind"], theirs["metadata"]["name"])
            self.assertEqual(theirs["spec"], ours["spec"])

    def test_the_admission_policies_know_the_keys(self):
        text = json.dumps(find(self.objects("--namespace=mesh", values=EVERYTHING),
                               "ValidatingAdmissionPolicy", "cmesh-manager-labels")["spec"])
        for key in ("mesh.example.com/ns", "other.example.com/hash", "mesh.example.com/ours"):
            self.assertIn(f"'{key}'", text)
        for name in ("rules-generation", "traffic-generation"):
            self.assertIn(f"'mesh.example.com/{name}'", text)
        self.assertIn("'system:serviceaccount:mesh:cmesh-manager'", text)

    def test_every_namespace_is_that_of_the_release(self):
        for values in ({}, EVERYTHING):
            things = self.objects("--namespace=mesh", values=values)
            self.assertNotIn("cmesh-system", json.dumps(things))
            self.assertNotIn("Namespace", [t["kind"] for t in things])
            of_operators = values.get("manager", {}).get("routes", {}).get("namespaces", ())
            self.assertEqual(
                {"mesh", None, *of_operators}, {thing["metadata"].get("namespace") for thing in things}
            )

    def test_rights_for_the_webhooks_of_operators(self):
        routes = {"namespaces": ["a", "b"], "validating": ["checks"]}
        things = self.objects("--namespace=mesh", values={"manager": {"routes": routes}})
        account = [{"kind": "ServiceAccount", "name": "cmesh-manager", "namespace": "mesh"}]
        bindings = [t for t in things if t["metadata"]["name"] == "cmesh-manager-webhooks" and "roleRef" in t]
        self.assertEqual(["a", "b"], [t["metadata"]["namespace"] for t in bindings])
        narrow = "cmesh-manager-narrow"
        for binding in (*bindings, find(things, "ClusterRoleBinding", narrow)):
            self.assertEqual(account, binding["subjects"])
            role = find(things, "ClusterRole", binding["roleRef"]["name"])
            self.assertTrue(role["rules"])
        rules = find(things, "ClusterRole", narrow)["rules"]
        self.assertEqual([(["validatingwebhookconfigurations"], ["checks"], ["patch"])],
                         [(r["resources"], r["resourceNames"], r["verbs"]) for r in rules])
        self.assertNotIn(narrow, [t["metadata"]["name"] for t in self.objects()])

    def test_a_change_of_settings_restarts_the_managers(self):
        def template(values):
            return find(self.objects(values=values), "Deployment")["spec"]["template"]

        usual = template({})
        self.assertNotEqual(usual, template({"labels": {"qps": 5}}))
        self.assertNotEqual(
            usual, template({"shardingResources": {"groupVersionKinds": {"a.example/v1": ["*"]}}})
        )
        self.assertEqual(usual, template({"webhooks": {"pods": {"failurePolicy": "Ignore"}}}))

    def test_each_value_is_of_effect(self):
        schema = json.loads(read(CHART, "values.schema.json"))
        everything = self.objects(values=EVERYTHING)
        for path in set(schema_paths(schema, schema["definitions"])) - UNCHANGED:
            with self.subTest(path=path):
                same = everything == self.objects(values=without(EVERYTHING, path))
                self.assertFalse(same, "it does nothing")

    def test_all_values_arrive(self):
        things = self.objects(values=EVERYTHING)
        self.assertEqual(
            {
                "CMESH_SIDECAR_IMAGE": f"r.example/proxy:1.3@{DIGEST}",
                "CMESH_NAT_IMAGE": f"r.example/nat:1.4@{DIGEST}",
                "CMESH_SIDECAR_PULL_POLICY": "IfNotPresent",
                "CMESH_PROXY_CPU": "1",
                "CMESH_PROXY_MEMORY": "64Mi",
                "CMESH_PROXY_MEMORY_LIMIT": "1Gi",
                "CMESH_PROXY_CPU_LIMIT": "2",
                "CMESH_RULESYNC_CPU": "6m",
                "CMESH_RULESYNC_MEMORY": "17Mi",
                "CMESH_RULESYNC_CPU_LIMIT": "100m",
                "CMESH_RULESYNC_MEMORY_LIMIT": "65Mi",
                "CMESH_SIDECAR_PULL_SECRET": "regcred,other",
                "CMESH_SIDECAR_USER": "0",
                "CMESH_RULES_LEASE": "30",
                "CMESH_LABEL_PREFIX": "mesh.example.com",
                "CMESH_LABEL_NAMESPACE": "ns",
                "CMESH_LABEL_SHARD_HASH": "other.example.com/hash",
                "CMESH_LABEL_CONTROL": "ours",
                "CMESH_LABEL_FOREIGN": "take",
                "CMESH_LABEL_QPS": "0",
                "CMESH_LOG_LEVEL": "debug",
                "CMESH_LOG_FORMAT": "json",
            },
            find(things, "ConfigMap", SETTINGS)["data"],
        )
        data = find(things, "ConfigMap", "cmesh-sharding-resources")["data"]
        labelled = parsed(data["sharding-resources.yaml"])["groupVersionKinds"]
        self.assertEqual({"v1", "apps/v1", "*", "example.com/v1"}, set(labelled))
        webhook = find(things, "MutatingWebhookConfiguration", "cmesh")["webhooks"][0]
        self.assertEqual(
            {"matchLabels": {"mesh.example.com/enable-proxy": "true"}}, webhook["objectSelector"]
        )
        self.assertEqual(30, webhook["timeoutSeconds"])
        self.assertEqual("50%", find(things, "PodDisruptionBudget")["spec"]["maxUnavailable"])
        self.check_deployment(find(things, "Deployment")["spec"])

    def check_deployment(self, spec):
        wanted = EVERYTHING["manager"]
        self.assertEqual(3, spec["replicas"])
        meta, pod = spec["template"]["metadata"], spec["template"]["spec"]
        self.assertEqual("c", meta["annotations"]["a.example/b"])
        self.assertEqual("x", meta["labels"]["team"])
        for name in ("priorityClassName", "tolerations", "affinity"):
            self.assertEqual(wanted[name], pod[name])
        self.assertEqual("control", pod["nodeSelector"]["pool"])
        self.assertEqual([{"name": "regcred"}], pod["imagePullSecrets"])
        container = pod["containers"][0]
        usual = container_of(self.objects())["args"]
        self.assertEqual(f"r.example/manager:1.2@{DIGEST}", container["image"])
        self.assertEqual("Always", container["imagePullPolicy"])
        self.assertEqual({"memory": "1Gi", "cpu": 1}, container["resources"]["limits"])
        self.assertEqual(
            [
                "--proxy-arg=--write-fence=audit",
                "--proxy-arg=--log-level=debug",
                "--sidecar-env=NO_PROXY=a,b",
                "--sidecar-env=WHERE=$$(POD_NAME)",
                "--webhook-client-ca=/etc/cmesh-clients/ca.crt",
                "--webhook-client-name=kube-apiserver",
                "--probe-interval=30",
                "--watch-namespace=a",
            ],
            [a for a in container["args"] if a not in usual],
        )

    def test_monitoring(self):
        things = self.objects(values=EVERYTHING)
        groups = parsed(read(K8S, "dashboards", "alerts.yaml"))["groups"]
        self.assertEqual({"groups": groups}, find(things, "PrometheusRule", "cmesh")["spec"])
        monitor = find(things, "ServiceMonitor")
        service = find(things, "Service", "cmesh-manager-metrics")
        self.assertEqual("prometheus", monitor["metadata"]["labels"]["release"])
        for name, value in monitor["spec"]["selector"]["matchLabels"].items():
            self.assertEqual(value, service["metadata"]["labels"][name])
        self.assertEqual(
            [e["port"] for e in monitor["spec"]["endpoints"]],
            [p["name"] for p in service["spec"]["ports"]],
        )
        pods = find(things, "PodMonitor", "cmesh-sidecars")["spec"]
        self.assertEqual({"mesh.example.com/enable-proxy": "true"}, pods["selector"]["matchLabels"])

    def test_the_example_of_the_readme(self):
        example = re.search(r"```yaml\n(.*?)```", read(CHART, "README.md"), re.S).group(1)
        things = self.objects(values=parsed(example))
        data = find(things, "ConfigMap", "cmesh-sharding-resources")["data"]
        labelled = parsed(data["sharding-resources.yaml"])["groupVersionKinds"]
        self.assertEqual({"v1", "apps/v1", "*", "example.com/v1"}, set(labelled))
        rules = find(things, "ClusterRole", "cmesh-labels-default")["rules"]
        groups = ["", "apps", "discovery.k8s.io", "example.com"]
        self.assertEqual(groups, [r["apiGroups"][0] for r in rules])

    def test_wrong_values_are_refused(self):
        for values, message in WRONG:
            with self.subTest(values=values):
                result = self.tried(values=values)
                self.assertEqual(1, result.returncode, result.stdout)
                # "a.b.c: ..." or "at '/a/b/c': ...", "property x" or "properties 'x'"
                said = result.stderr.replace("/", ".")
                self.assertRegex(said, rf"ropert(y|ies) '?{message}\b|\b{message}\b")

    def test_old_api_servers(self):
        budget = find(self.objects("--kube-version=1.20.2"), "PodDisruptionBudget")
        self.assertEqual("policy/v1beta1", budget["apiVersion"])
        result = self.tried("--kube-version=1.29.9", values={"admissionPolicy": {"enabled": True}})
        self.assertIn("admissionPolicy.enabled", result.stderr)
        result = self.tried("--kube-version=1.15.0")
        self.assertIn("incompatible with Kubernetes v1.15.0", result.stderr)

    # ---- the manager knows what it is told ----

    def start(self, values, *more):
        """It cannot run outside of a pod: 1. Wrong usage would be 2."""
        things = self.objects(values=values)
        args = container_of(things)["args"]
        result = subprocess.run(
            [harness.program("manager"), *args, *more],
            env=harness.clean_environment(
                HOME=self.folder, **find(things, "ConfigMap", SETTINGS)["data"]
            ),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return result.returncode, result.stderr

    def test_the_manager_knows_the_flags(self):
        help_text = subprocess.run(
            [harness.program("manager"), "--help"], check=True, capture_output=True, text=True
        ).stdout
        for variable in find(self.objects(values=EVERYTHING), "ConfigMap", SETTINGS)["data"]:
            flag = variable.removeprefix("CMESH_").lower().replace("_", "-")
            self.assertIn(f"--{flag}=", help_text)
        for values in ({}, EVERYTHING):
            code, message = self.start(values)
            self.assertEqual(1, code, message)
        self.assertEqual(2, self.start(EVERYTHING, "--no-such-flag")[0])


class Helm3RenderTest(Rendering, ChartTestCase):
    @property
    def program(self):
        return helm(3)


class Helm4RenderTest(Rendering, ChartTestCase):
    @property
    def program(self):
        return helm(4)


def stand_in(kind):
    """A definition that takes anything: the Prometheus operator's own are not here."""
    plural = kind.lower() + "s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.monitoring.coreos.com",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


class InstallTest(ChartTestCase, InstallationCase):
    """On a control plane that others do not use, for the webhooks concern all namespaces."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.version = cls.cluster.json("/version")["gitVersion"].lstrip("v")
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule"):
            cls.cluster.json(definitions, "POST", stand_in(kind))
        cls.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": "mesh"}})

    def release(self, *args, values=None):
        return self.helm(*args, "-n", self.home, values=values, kubeconfig=self.cluster.kubeconfig)

    # ---- from the beginning to the end ----

    def install(self):
        self.release("install", "cmesh", CHART, "--create-namespace")

    def upgrade(self):
        self.kubectl("apply", "-f", os.path.join(CHART, "crds"))
        self.release("upgrade", "cmesh", CHART, values={"labels": {"qps": 50}})
        self.assertEqual("50", self.deployed()[1]["CMESH_LABEL_QPS"])

    def uninstall(self):
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            self.kubectl("delete", kind, "cmesh")
        self.kubectl("-n", self.home, "delete", "deployment", "cmesh-manager")
        self.unlabel()
        self.release("uninstall", "cmesh")
        self.check_routes()  # Helm deletes nothing by which operators may be asked
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            self.kubectl("delete", kind, "cmesh-routes")
        self.kubectl("delete", "-f", os.path.join(CHART, "crds"))
        self.kubectl("delete", "namespace", self.home)

    def test_install_upgrade_and_uninstall_with_every_helm(self):
        """As k8s/chart/README.md says, and judged by what the cluster does."""
        for number, home in ((3, "cmesh-system"), (4, "cmesh-other")):
            with self.subTest(helm=number, namespace=home):
                self.program, self.home = helm(number), home
                self.folder = self.make_folder(self.addCleanup)
                self.live_through()

    # ---- other values ----

    def test_notes(self):
        for number in (3, 4):
            self.program, self.home = helm(number), "mesh"
            args = ("install", "cmesh", CHART, "--dry-run=client")
            notes = self.release(*args, values=ON_OLD)
            self.assertIn("kubectl -n mesh rollout", notes)
            self.assertIn("mesh.example.com/enable-proxy", notes)

    def test_it_is_taken_with_other_values(self):
        self.program = helm(4)
        for values in (
            policies("Fail"),
            policies("Ignore"),
            {"podDisruptionBudget": {"enabled": False}, "networkPolicy": {"enabled": False}},
            {"podMonitor": {"enabled": True}},
            {"prometheusRule": {"enabled": True}},
            {"manager": {"nodeSelector": None, "podAnnotations": None, "resources": None}},
            ON_OLD,
        ):
            with self.subTest(values=values):
                text = self.rendered(
                    "--namespace=mesh", f"--kube-version={self.version}", values=values
                )
                path = self.path("rendered.yaml", text)
                done = self.kubectl("apply", "-f", path, "--dry-run=server")
                self.assertIn("deployment.apps/cmesh-manager", done)


if __name__ == "__main__":
    harness.main()
