# SPDX-License-Identifier: Apache-2.0
"""k8s/admission-policy on an API server of today: what the manager's account may do, and what no
longer, asked in its name.
"""

import json
import os
import shlex
import subprocess
import unittest

import harness
import mesh
from installation import GROUP, K8S

POLICIES = os.path.join(K8S, "admission-policy")
ACCOUNT = "system:serviceaccount:cmesh-system:cmesh-manager"
KEYS = (f"{GROUP}/namespace", f"{GROUP}/sharding-hash", f"{GROUP}/control")


class PolicyTestCase(harness.TestCase):
    """The policies are in force in a cluster of the class's own."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.kubectl = cls.cluster.env["KUBECTL"]
        for args in (
            ("apply", "-k", POLICIES),
            ("apply", *mesh.files(mesh.CRDS)),
            ("create", "namespace", "cmesh-system"),
            ("create", "namespace", "demo"),
        ):
            code, text = cls.run_kubectl(*args)
            assert code == 0, text
        # Bindings are read after policies: the last one of the file is in force last.
        harness.wait_for(
            lambda: "of rules alone" in cls.as_manager("create", "configmap", "x", "-n", "demo")[1],
            "the policies are in force",
        )
        harness.wait_for(
            lambda: "of roots alone" in cls.as_manager("create", "-f", "-", stdin=cls.ordinary())[1],
            "the policies are in force",
        )
        harness.wait_for(
            lambda: "by the manager alone"
            in cls.run_kubectl("create", "configmap", "cmesh-rules-x", "-n", "demo", "--dry-run=server")[1],
            "the policies are in force",
        )
        harness.wait_for(
            lambda: cls.patched("namespaces", "demo", {"metadata": {"labels": {"x": "y"}}}, "")[0],
            "the policies are in force",
        )

    @staticmethod
    def ordinary():
        thing = {"apiVersion": GROUP + "/v1alpha1", "kind": "ShardingConfig"}
        thing["metadata"] = {"name": "x", "namespace": "demo"}
        thing["spec"] = {"selector": {"matchLabels": {"a": "b"}}, "limits": []}
        return json.dumps(thing)

    @classmethod
    def run_kubectl(cls, *args, stdin=None):
        result = subprocess.run(
            [cls.kubectl, "--kubeconfig", cls.cluster.kubeconfig, *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            input=stdin,
        )
        return result.returncode, result.stdout + result.stderr

    @classmethod
    def as_manager(cls, *args, stdin=None):
        return cls.run_kubectl(*args, f"--as={ACCOUNT}", stdin=stdin)

    @classmethod
    def patched(cls, kind, name, change, namespace="demo", user="manager"):
        """Exit code and what was said."""
        run = cls.as_manager if user == "manager" else cls.run_kubectl
        where = ["-n", namespace] if namespace else []
        return run("patch", kind, name, *where, "--type=merge", "-p", json.dumps(change))


@unittest.skipUnless(harness.modern(), "only an API server of --modern has admission policies")
class UninstallTest(PolicyTestCase):
    """What k8s/README.md says of the policies and of the ConfigMaps that they guard, in its order."""

    @staticmethod
    def commands():
        """Lines of the page's section that are indented as code, without their comments."""
        with open(os.path.join(K8S, "README.md"), encoding="utf-8") as f:
            section = f.read().split("\n## Uninstall\n")[1].split("\n## ")[0]
        lines = [line.split("#")[0].strip() for line in section.split("\n") if line[:4] == "    "]
        return [line for line in lines if "admission-policy" in line or "configmaps" in line]

    def test_as_the_page_says(self):
        rules = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "cmesh-rules-x"}}
        rules["metadata"]["labels"] = {f"{GROUP}/rules": "true"}
        code, text = self.as_manager("create", "-n", "demo", "-f", "-", stdin=json.dumps(rules))
        self.assertEqual(0, code, text)
        commands = self.commands()
        self.assertEqual(2, len(commands), commands)
        for command in commands:
            program, *args = shlex.split(command)
            self.assertEqual("kubectl", program)
            if "configmaps" in args:
                dry_run = (*args, "--dry-run=server")
                harness.wait_for(
                    lambda a=dry_run: self.run_kubectl(*a)[0] == 0, "the policies have no effect"
                )
            args = [os.path.join(harness.ROOT, a) if a.startswith("k8s/") else a for a in args]
            code, text = self.run_kubectl(*args)
            self.assertEqual(0, code, text)
        kinds = "configmaps,validatingadmissionpolicies,validatingadmissionpolicybindings"
        code, text = self.run_kubectl("get", kinds, "-A", "-o", "name")
        self.assertEqual(0, code, text)
        self.assertNotIn("cmesh", text)


@unittest.skipUnless(harness.modern(), "only an API server of --modern has admission policies")
class AdmissionPolicyTest(PolicyTestCase):
    """Each test makes objects of its own."""

    def create(self, thing):
        thing.setdefault("apiVersion", "v1")
        thing["metadata"].setdefault("namespace", "demo")
        code, text = self.run_kubectl("create", "-f", "-", stdin=json.dumps(thing))
        self.assertEqual(0, code, text)
        name = thing["metadata"]["name"]
        space = thing["metadata"]["namespace"]
        self.addCleanup(self.run_kubectl, "delete", thing["kind"], name, "-n", space, "--wait=false")

    def allowed(self, *args, **more):
        code, text = self.patched(*args, **more)
        self.assertEqual(0, code, text)

    def denied(self, message, *args, **more):
        code, text = self.patched(*args, **more)
        self.assertEqual(1, code, text)
        self.assertIn("ValidatingAdmissionPolicy", text)
        self.assertIn(message, text)

    def check_labels(self, kind, name, namespace="demo"):
        """Control labels are set, changed and taken away; others are not."""
        for value in ("a", "b", None):
            labels = dict.fromkeys(KEYS, value)
            self.allowed(kind, name, {"metadata": {"labels": labels}}, namespace)
        message = "changes control labels, and one of StatefulSets and Deployments, alone"
        for labels in ({"app": "x"}, {"keep": None}, {"keep": "no"}, {f"{GROUP}/enable-proxy": "x"}):
            self.denied(message, kind, name, {"metadata": {"labels": labels}}, namespace)

    def test_labels(self):
        self.create({"kind": "ConfigMap", "metadata": {"name": "c", "labels": {"keep": "it"}}})
        self.check_labels("configmaps", "c")
        self.run_kubectl("label", "namespace", "demo", "keep=it")
        self.check_labels("namespaces", "demo", namespace="")

    def test_nothing_else_changes(self):
        self.create({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})
        self.create({"kind": "Secret", "metadata": {"name": "s"}})
        self.create({"kind": "Secret", "metadata": {"name": "s", "namespace": "cmesh-system"}})
        alone = "changes labels and annotations alone"
        for change in ({"data": {"a": "2"}}, {"data": {"b": "2"}}, {"data": None}, {"immutable": True}):
            self.denied(alone, "configmaps", "c", change)
            self.assertEqual(0, self.patched("configmaps", "c", {"data": {"z": "9"}}, user="admin")[0])
        for change in (
            {"finalizers": ["a.io/b"]},
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
        ):
            self.denied(alone, "configmaps", "c", {"metadata": change})
        note = {"metadata": {"annotations": {f"{GROUP}/rules-generation": "1"}}}
        self.denied("one of Leases and two of StatefulSets and Deployments alone", "configmaps", "c", note)
        for namespace in ("demo", "cmesh-system"):
            self.denied(alone, "secrets", "s", {"data": {"a": "eA=="}}, namespace)

    def test_pods(self):
        container = {"name": "a", "image": "example.com/a"}
        annotations = {"keep": "it"}
        metadata = {"name": "p", "labels": {"keep": "it"}, "annotations": annotations}
        self.create({"kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
        self.check_labels("pods", "p")
        for name in ("rules-generation", "traffic-generation"):
            for value in ("1", "2", None):
                note = {"annotations": {f"{GROUP}/{name}": value}}
                self.allowed("pods", "p", {"metadata": note})
        for note in ({"a": "b"}, {"keep": None}, {"keep": "no"}):
            self.denied("two annotations of pods", "pods", "p", {"metadata": {"annotations": note}})
        image = {"spec": {"containers": [{**container, "image": "evil"}]}}
        self.denied("labels and annotations alone", "pods", "p", image)

    def apply_policies(self, group):
        """Those of workloads are for Deployments of that group."""
        with open(os.path.join(POLICIES, "policies.yaml"), encoding="utf-8") as f:
            text = f.read().replace("resource.group == 'apps'", f"resource.group == '{group}'")
        code, text = self.run_kubectl("apply", "-f", "-", stdin=text)
        self.assertEqual(0, code, text)

    def test_deployments(self):
        """Those that are rolled it may pause and resume, and nothing else. This API server has none, so
        a kind of another group plays them."""
        group = "apps.example.com"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"deployments.{group}"},
            "spec": {
                "group": group,
                "names": {"plural": "deployments", "singular": "deployment", "kind": "Deployment"},
                "scope": "Namespaced",
                "versions": [version],
            },
        }
        self.create(definition)
        kind = f"deployments.{group}"
        served = lambda: self.run_kubectl("get", kind, "-n", "demo")[0] == 0  # noqa: E731
        harness.wait_for(served, "Deployments are served")
        labels = {"app": "d"}
        template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "good"}}
        for name, more in (("d", {f"{GROUP}/rolling": "all"}), ("other", {})):
            self.create({
                "apiVersion": f"{group}/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "labels": {"keep": "it", **more}},
                "spec": {"selector": {"matchLabels": labels}, "replicas": 3, "template": template},
            })
        self.addCleanup(self.apply_policies, "apps")
        self.apply_policies(group)
        pause = {"spec": {"paused": True}}
        harness.wait_for(lambda: self.patched(kind, "d", pause)[0] == 0, "the policies are in force")
        for paused in (False, True, None):
            meta = {"annotations": {f"{GROUP}/roll-status": str(paused)}, "labels": {f"{GROUP}/roll-progress": "x"}}
            self.allowed(kind, "d", {"metadata": meta, "spec": {"paused": paused}})
        alone = "labels and annotations alone, whether Deployments are paused"
        self.denied(alone, kind, "other", pause)
        evil = {"template": {"spec": {"serviceAccountName": "evil"}}}
        for spec in ({"replicas": 7}, {"replicas": None}, evil, {**evil, "paused": True}, {"minReadySeconds": 5}):
            self.denied(alone, kind, "d", {"spec": spec})
        for labels in ({f"{GROUP}/rolling": None}, {"keep": "no"}):
            self.denied("one of StatefulSets and Deployments, alone", kind, "d", {"metadata": {"labels": labels}})
        # One that it labels itself is none.
        both = {"metadata": {"labels": {f"{GROUP}/rolling": "all"}}, **pause}
        self.assertNotEqual(0, self.patched(kind, "other", both)[0])
        note = {"metadata": {"annotations": {"a": "b"}}}
        self.denied("two of StatefulSets and Deployments alone", kind, "d", note)

    def test_services(self):
        """It may add the ports by which shards are asked, change and take them away, and no others."""
        own = {"name": "hooks", "port": 443, "protocol": "TCP", "targetPort": "hooks"}
        spec = {"selector": {"app": "operator"}, "ports": [own]}
        labels = {"keep": "it"}
        self.create({"kind": "Service", "metadata": {"name": "s", "labels": labels}, "spec": spec})
        self.create({"kind": "Service", "metadata": {"name": "bare"}, "spec": {"clusterIP": "None"}})
        self.check_labels("services", "s")

        def route(name, number, **more):
            return {"name": name, "port": number, "protocol": "TCP", "targetPort": name, **more}

        def apply(*ports):
            thing = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}}
            return self.as_manager(
                *("apply", "--server-side", "--field-manager=cmesh-routes", "-n", "demo", "-f", "-"),
                stdin=json.dumps(thing),
            )

        first, second, hold = route("wh-00000001", 20443), route("wh-00000002", 20444), route("wh-hold", 20445)
        for ports in ([first], [first, second, hold], [second], []):
            code, text = apply(*ports)
            self.assertEqual(0, code, text)
            code, text = self.run_kubectl("get", "service", "s", "-n", "demo", "-o", "json")
            found = [port["name"] for port in json.loads(text)["spec"]["ports"]]
            self.assertEqual(["hooks", *(port["name"] for port in ports)], found)
        alone = "ports of Services that begin with wh-"
        evil = {"app": "evil"}
        for change in (
            {"ports": []},
            {"ports": [{**own, "targetPort": 1}, first]},
            {"ports": [{**own, "name": "wh-00000001"}]},
            {"ports": [own, {**own, "name": "mine", "port": 444}]},
            {"ports": [own, {"port": 444}]},
            {"ports": [own, {**first, "targetPort": 22}]},
            {"ports": [own, {**first, "targetPort": "hooks"}]},
            {"ports": [own, {"name": "wh-00000001", "port": 20443}]},
            {"ports": [own, first], "selector": evil},
            {"selector": evil},
            {"externalIPs": ["10.0.0.1"]},
            {"selector": None},
        ):
            self.denied(alone, "services", "s", {"spec": change})
        self.allowed("services", "bare", {"spec": {"ports": [first]}})
        self.allowed("services", "bare", {"spec": {"ports": None}})
        # The same fields of another kind are not ports of a Service.
        self.create({"kind": "Endpoints", "metadata": {"name": "e"}, "subsets": []})
        subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "wh-00000001", "port": 1}]}]
        self.denied(alone, "endpoints", "e", {"subsets": subsets})

    def test_leases(self):
        """It may say what is required of a pod, and take no lock."""
        for namespace in ("demo", "cmesh-system"):
            self.create({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "lock", "namespace": namespace},
                "spec": {"holderIdentity": "a"},
            })
        steal = {"spec": {"holderIdentity": "b"}}
        self.denied("labels and annotations alone", "leases", "lock", steal)
        self.denied("one of Leases and two of StatefulSets and Deployments alone", "leases", "lock", {"metadata": {"annotations": {"a": "b"}}})
        self.denied("control labels, and one of StatefulSets and Deployments, alone", "leases", "lock", {"metadata": {"labels": {"a": "b"}}})
        for value in ("7", "8", None):
            note = {"cmesh.kusionstack.io/required-generation": value}
            self.allowed("leases", "lock", {"metadata": {"annotations": note}})
        self.allowed("leases", "lock", steal, "cmesh-system")

    def test_what_is_its_own(self):
        code, text = self.as_manager("create", "configmap", "cmesh-rules-a", "-n", "demo")
        self.assertEqual(0, code, text)
        self.allowed("configmaps", "cmesh-rules-a", {"data": {"rules.json": "{}"}})
        self.assertEqual(
            0, self.as_manager("delete", "configmap", "cmesh-rules-a", "-n", "demo")[0]
        )
        self.create({"kind": "ConfigMap", "metadata": {"name": "c"}})
        code, text = self.as_manager("delete", "configmap", "c", "-n", "demo")
        self.assertEqual(1, code)
        self.assertIn("creates and deletes ConfigMaps of rules alone", text)
        secret = {"name": "cmesh-webhook-cert", "namespace": "cmesh-system"}
        self.create({"kind": "Secret", "metadata": secret})
        change = {"data": {"tls.crt": "eA=="}}
        self.allowed("secrets", "cmesh-webhook-cert", change, "cmesh-system")

    def denied_rules(self, code, text):
        self.assertEqual(1, code, text)
        self.assertIn("ConfigMaps of rules are written by the manager alone", text)

    def test_rules_are_the_managers(self):
        code, text = self.as_manager("create", "configmap", "cmesh-rules-mine", "-n", "demo")
        self.assertEqual(0, code, text)
        self.addCleanup(self.as_manager, "delete", "configmap", "cmesh-rules-mine", "-n", "demo")
        where = ("-n", "demo")
        self.denied_rules(*self.run_kubectl("create", "configmap", "cmesh-rules-b", *where))
        self.denied_rules(*self.run_kubectl("delete", "configmap", "cmesh-rules-mine", *where))
        for change in (
            {"data": {"rules.json": "{}"}},
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"ownerReferences": None, "annotations": {"a": "b"}}},
        ):
            self.denied_rules(
                *self.patched("configmaps", "cmesh-rules-mine", change, user="admin")
            )
        label = {"metadata": {"labels": {f"{GROUP}/rules": "true"}}}
        self.create({"kind": "ConfigMap", "metadata": {"name": "other"}})
        self.denied_rules(*self.patched("configmaps", "other", label, user="admin"))
        for value in ("false", None):
            label["metadata"]["labels"][f"{GROUP}/rules"] = value
            self.assertEqual(0, self.patched("configmaps", "other", label, user="admin")[0])

    def test_the_end_of_a_namespace(self):
        for name in ("namespace-controller", "generic-garbage-collector"):
            self.as_manager("create", "configmap", "cmesh-rules-end", "-n", "demo")
            account = f"--as=system:serviceaccount:kube-system:{name}"
            group = "--as-group=system:masters"
            args = ("configmap", "cmesh-rules-end", "-n", "demo", account, group)
            self.denied_rules(*self.run_kubectl("annotate", *args, "a=b"))
            code, text = self.run_kubectl("delete", *args)
            self.assertEqual(0, code, text)

    def test_sharding_configs(self):
        self.create(
            {
                "apiVersion": GROUP + "/v1alpha1",
                "kind": "ShardingConfig",
                "metadata": {"name": "s", "finalizers": ["finalizer.example.com/x"]},
                "spec": {"selector": {"matchLabels": {"a": "b"}}},
            }
        )
        selector = {"selector": {"matchLabels": {"a": "c"}}}
        self.denied("labels and annotations alone", "shardingconfigs", "s", {"spec": selector})
        self.allowed("shardingconfigs", "s", {"metadata": {"finalizers": None}})
        status = {"status": {"podCount": 1}}
        self.assertEqual(
            0,
            self.as_manager(
                *("patch", "shardingconfigs", "s", "-n", "demo", "--subresource=status"),
                *("--type=merge", "-p", json.dumps(status)),
            )[0],
        )

    def test_shards_of_a_root(self):
        """Those that it makes are its own: it creates, changes and deletes them, and no other."""
        owner = {"apiVersion": GROUP + "/v1alpha1", "kind": "ShardingConfig", "name": "r", "uid": "u"}
        child = {
            "apiVersion": GROUP + "/v1alpha1",
            "kind": "ShardingConfig",
            "metadata": {
                "name": "r-1-normal",
                "namespace": "demo",
                "labels": {f"{GROUP}/auto-sharding-root": "r"},
                "annotations": {f"{GROUP}/auto-sharding-buckets": "0-31"},
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "limits": []},
        }
        meta = child["metadata"]
        ordinary = {**child, "metadata": {"name": "s", "namespace": "demo"}}
        unlabelled = {**child, "metadata": {**meta, "labels": {}}}
        unowned = {**child, "metadata": {**meta, "ownerReferences": [owner]}}

        def apply(thing, *args):
            return self.as_manager(
                *("apply", "--server-side", "--field-manager=cmesh-root", "-f", "-", *args),
                stdin=json.dumps(thing),
            )

        for thing in (ordinary, unlabelled, unowned):
            code, text = apply(thing)
            self.assertEqual(1, code, text)
            self.assertIn("shards of roots alone", text)
        self.create(ordinary)
        self.assertEqual(0, apply(child)[0])
        meta["annotations"] = {f"{GROUP}/auto-sharding-buckets": "0-15"}
        child["spec"]["selector"] = {"matchLabels": {"a": "c"}}
        code, text = apply(child)
        self.assertEqual(0, code, text)
        # An ordinary one is not made a shard of a root.
        code, text = apply({**child, "metadata": {**meta, "name": "s"}}, "--force-conflicts")
        self.assertEqual(1, code, text)
        self.assertIn("labels and annotations alone", text)
        code, text = self.as_manager("delete", "shardingconfig", "s", "-n", "demo")
        self.assertEqual(1, code, text)
        self.assertIn("shards of roots alone", text)
        code, text = self.as_manager("delete", "shardingconfig", "r-1-normal", "-n", "demo")
        self.assertEqual(0, code, text)

    def test_traffic_policies(self):
        limiting = {
            "name": "deletes",
            "triggerPolicy": "ForceOpened",
            "resourceRules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["delete"], "namespaces": ["*"]}
            ],
        }
        self.create(
            {
                "apiVersion": GROUP + "/v1alpha1",
                "kind": "CircuitBreaker",
                "metadata": {"name": "p", "finalizers": ["finalizer.example.com/x"]},
                "spec": {"selector": {}, "rateLimitings": [limiting]},
            }
        )
        other = {"spec": {"rateLimitings": []}}
        self.denied("labels and annotations alone", "circuitbreakers", "p", other)
        annotation = {"circuitbreaker.ctrlmesh.kusionstack.io/recover": "*=1"}
        self.denied("one of Leases and two of StatefulSets and Deployments alone", "circuitbreakers", "p",
                    {"metadata": {"annotations": annotation}})  # fmt: skip
        label = {"circuitbreaker.ctrlmesh.kusionstack.io/disable": ""}
        self.denied("control labels, and one of StatefulSets and Deployments, alone", "circuitbreakers", "p", {"metadata": {"labels": label}})
        self.allowed("circuitbreakers", "p", {"metadata": {"finalizers": None}})


if __name__ == "__main__":
    harness.main()
