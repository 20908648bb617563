#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinition on a real API server: what is taken, refused, shown, explained."""

import json
import os
import re
import subprocess
import unittest

import harness

CRD = os.path.join(harness.ROOT, "k8s", "base", "crd.yaml")
NAME = "shardingconfigs.ctrlmesh.kusionstack.io"
API = "/apis/ctrlmesh.kusionstack.io/v1alpha1"

DOCUMENTED = """
apiVersion: ctrlmesh.kusionstack.io/v1alpha1
kind: ShardingConfig
metadata:
  name: sharding-demo
spec:
  controller:
    leaderElectionName: operator-leader
  webhook:
    certDir: /tmp/webhook-certs
    port: 9443
  limits:
  - relateResources:
    - apiGroups:
      - '*'
      resources:
      - pods
      - services
    selector:
      matchExpressions:
      - key: ctrlmesh.kusionstack.io/namespace
        operator: In
        values:
        - ns-a
        - ns-b
      matchLabels:
        app: foo
  selector:
    matchExpressions:
    - key: statefulset.kubernetes.io/pod-name
      operator: In
      values:
      - operator-demo-0
"""

# As Kridge spells limits, with matchLabels left empty.
WRAPPED = """
apiVersion: ctrlmesh.kusionstack.io/v1alpha1
kind: ShardingConfig
metadata:
  name: wrapped
spec:
  limits:
    - objectSelector:
        relateResources:
          - apiGroups:
              - '*'
            resources:
              - pods
              - services
        selector:
          matchExpressions:
            - key: ctrlmesh.kusionstack.io/namespace
              operator: In
              values:
                - ns-a
                - ns-b
          matchLabels:
          # ...
  selector:
    matchExpressions:
      - key: statefulset.kubernetes.io/pod-name
        operator: In
        values:
          - operator-demo-0
"""

ROOT = """
apiVersion: ctrlmesh.kusionstack.io/v1alpha1
kind: ShardingConfig
metadata:
  name: sharding-root
spec:
  root:
    prefix: operator-demo
    targetStatefulSet: operator-demo
    canary:
      replicas: 1
      inNamespaces:
      - ns-canary
    auto:
      everyShardReplicas: 2
      shardingSize: 2
    resourceSelector:
    - relateResources:
      - apiGroups:
        - '*'
        resources:
        - pods
        - services
  controller:
    leaderElectionName: operator-leader
"""

PODS = {"apiGroups": [""], "resources": ["pods"]}
SELECTOR = {"matchLabels": {"app": "demo"}}
LIMIT = {"relateResources": [PODS], "selector": SELECTOR}


def limit(**more):
    return {**LIMIT, **more}


def expression(**fields):
    return {"matchExpressions": [fields]}


# What stands in a good spec, and what the API server says to it.
REFUSED = (
    ({"selector": "app=demo"}, "spec.selector"),
    ({"selector": {"matchLabels": ["a"]}}, "spec.selector.matchLabels"),
    ({"selector": {"matchLabels": {"a": 1}}}, "spec.selector.matchLabels.a"),
    ({"selector": expression(key="a", operator="Equals")}, "operator: Unsupported value"),
    ({"selector": expression(operator="Exists")}, "key: Required value"),
    ({"selector": expression(key="a")}, "operator: Required value"),
    ({"selector": expression(key="a", operator="In", values="b")}, "matchExpressions.values"),
    ({"limits": LIMIT}, "spec.limits"),
    ({"limits": ["pods"]}, "spec.limits"),
    ({"limits": [limit(relateResources=[])]}, "relateResources"),
    ({"limits": [limit(relateResources=PODS)]}, "relateResources"),
    ({"limits": [limit(relateResources=[{"resources": ["pods"]}])]}, "apiGroups: Required value"),
    ({"limits": [limit(relateResources=[{"apiGroups": [""]}])]}, "resources: Required value"),
    ({"limits": [limit(relateResources=[{**PODS, "apiGroups": []}])]}, "apiGroups"),
    ({"limits": [limit(relateResources=[{**PODS, "resources": []}])]}, "resources"),
    ({"limits": [limit(relateResources=[{**PODS, "resources": [""]}])]}, "resources"),
    ({"limits": [{"objectSelector": [LIMIT]}]}, "objectSelector"),
    ({"limits": [{"objectSelector": limit(relateResources=[{}])}]}, "objectSelector"),
    ({"controller": "leader"}, "spec.controller"),
    ({"controller": {"leaderElectionName": 5}}, "leaderElectionName"),
    ({"controller": {"leaderElectionName": "a" * 254}}, "leaderElectionName"),
    ({"controller": {"leaderElectionNamespace": 5}}, "leaderElectionNamespace"),
    ({"controller": {"leaderElectionNamespace": "a" * 64}}, "leaderElectionNamespace"),
    ({"webhook": {"port": 0}}, "spec.webhook.port"),
    ({"webhook": {"port": 65536}}, "spec.webhook.port"),
    ({"webhook": {"port": "9443"}}, "spec.webhook.port"),
    ({"webhook": {"port": 94.5}}, "spec.webhook.port"),
    ({"webhook": {"certDir": 1}}, "spec.webhook.certDir"),
    ({"webhook": {"duringHandover": "hold"}}, "spec.webhook.duringHandover: Unsupported value"),
    ({"root": {"prefix": "a", "targetStatefulSet": 5}}, "spec.root.targetStatefulSet"),
    ({"root": {"prefix": "a", "targetDeployment": 5}}, "spec.root.targetDeployment"),
    ({"root": {"targetStatefulSet": "a"}}, "prefix: Required value"),
    (
        {"root": {"prefix": "a", "targetStatefulSet": "a", "auto": {"shardingSize": 33}}},
        "everyShardReplicas: Required value",
    ),
    (
        {
            "root": {
                "prefix": "a",
                "targetStatefulSet": "a",
                "auto": {"shardingSize": 33, "everyShardReplicas": 1},
            }
        },
        "shardingSize",
    ),
    (
        {
            "root": {
                "prefix": "a",
                "targetStatefulSet": "a",
                "auto": {"shardingSize": "3", "everyShardReplicas": 1},
            }
        },
        "shardingSize",
    ),
)


def config(name, **spec):
    return {
        "apiVersion": "ctrlmesh.kusionstack.io/v1alpha1",
        "kind": "ShardingConfig",
        "metadata": {"name": name},
        "spec": {"selector": SELECTOR, "limits": [LIMIT], **spec},
    }


def setUpModule():
    """The definition is applied once: the published schema follows it seconds later."""
    folder = harness.TestCase.make_folder(unittest.addModuleCleanup)
    kubectl = harness.Kubectl(folder, harness.cluster().kubeconfig)
    unittest.addModuleCleanup(kubectl.run, "delete", "-f", CRD, "--ignore-not-found")
    kubectl("apply", "-f", CRD)
    kubectl("wait", "--for=condition=Established", f"crd/{NAME}", "--timeout=30s")
    harness.wait_for(
        lambda: kubectl.run("explain", "shardingconfigs.spec")[0] == 0, "the schema is published"
    )


class CrdTestCase(harness.TestCase):
    """With a namespace."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = harness.cluster()
        cls.kubectl = harness.Kubectl(cls.make_folder(cls.addClassCleanup), cls.cluster.kubeconfig)
        cls.namespace = harness.make_namespace(cls.cluster, "crd", cls.addClassCleanup)

    def run_here(self, *args, stdin=None):
        return self.kubectl.run("-n", self.namespace, *args, stdin=stdin)

    def here(self, *args, stdin=None):
        return self.kubectl("-n", self.namespace, *args, stdin=stdin)

    def path_of(self, name=""):
        return f"{API}/namespaces/{self.namespace}/shardingconfigs/{name}".rstrip("/")

    def set_status(self, name, status):
        thing = self.cluster.json(self.path_of(name))
        thing["status"] = status
        self.cluster.json(self.path_of(name) + "/status", "PUT", thing)


class DefinitionTest(CrdTestCase):
    """The definition itself."""

    def test_it_is_structural(self):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
        conditions = {c["type"]: c for c in self.cluster.json(path)["status"]["conditions"]}
        self.assertNotIn("NonStructuralSchema", conditions)
        self.assertEqual("True", conditions["NamesAccepted"]["status"])

    def test_applying_again_changes_nothing(self):
        self.assertIn("unchanged", self.kubectl("apply", "-f", CRD))

    def test_names(self):
        shown = self.kubectl("api-resources", "--api-group=ctrlmesh.kusionstack.io")
        self.assertRegex(shown, r"shardingconfigs +shard +ctrlmesh\S+ +true +ShardingConfig")

    def test_explain(self):
        """Where kubectl is told of it: older API servers leave out what may have unknown fields."""
        for path, words in (
            ("", "A shard of an operator"),
            (".spec", "What the shard is"),
            (".status.pods.generation", "its proxy enforces"),
            (".status.conditions", "confirmed them"),
        ):
            self.assertIn(words, " ".join(self.kubectl("explain", "shard" + path).split()), path)
        if not harness.modern():
            return
        for path, words in (
            (".spec.selector", "The pods of the shard"),
            (".spec.controller.leaderElectionName", "leader election lock"),
            (".spec.controller.leaderElectionNamespace", "Namespace of that lock"),
            (".spec.limits", "What the shard sees"),
            (".spec.limits.objectSelector.selector.matchExpressions.operator", "DoesNotExist"),
        ):
            self.assertIn(words, " ".join(self.kubectl("explain", "shard" + path).split()), path)

    def test_every_field_is_explained(self):
        with open(CRD, encoding="utf-8") as f:
            manifest = self.kubectl("create", "--dry-run=client", "-o", "json", "-f", f.name)
        schema = json.loads(manifest)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        silent = []

        def visit(node, path):
            for name, field in node.get("properties", {}).items():
                if not field.get("description"):
                    silent.append(f"{path}.{name}")
                visit(field, f"{path}.{name}")
            if "items" in node:
                visit(node["items"], path)

        visit(schema, "")
        self.assertEqual([], silent)


class AcceptTest(CrdTestCase):
    """What is taken, and how it is shown."""

    def test_examples(self):
        for text in (DOCUMENTED, WRAPPED, ROOT):
            self.assertIn("created", self.here("apply", "-f", "-", stdin=text))
            self.here("apply", "-f", "-", stdin=text)
        spec = self.cluster.json(self.path_of("sharding-demo"))["spec"]
        self.assertEqual(9443, spec["webhook"]["port"])
        self.assertEqual({"app": "foo"}, spec["limits"][0]["selector"]["matchLabels"])
        spec = self.cluster.json(self.path_of("wrapped"))["spec"]
        self.assertEqual(
            ["ns-a", "ns-b"],
            spec["limits"][0]["objectSelector"]["selector"]["matchExpressions"][0]["values"],
        )
        spec = self.cluster.json(self.path_of("sharding-root"))["spec"]
        self.assertEqual({"everyShardReplicas": 2, "shardingSize": 2}, spec["root"]["auto"])

    def test_an_empty_list_stays_one(self):
        """It means nothing; if it got lost it would be refused, or mean everything."""
        selector = expression(key="a", operator="In", values=[])
        thing = config("empty-list", limits=[limit(selector=selector)])
        self.here("create", "-f", "-", stdin=json.dumps(thing))
        stored = self.cluster.json(self.path_of("empty-list"))
        self.assertEqual(selector, stored["spec"]["limits"][0]["selector"])

    def test_what_is_left_empty(self):
        """As Go's encoder writes fields that are not set, and YAML those without a value."""
        for i, spec in enumerate(
            (
                {"controller": None, "webhook": None, "root": None, "limits": None},
                {"controller": {}, "webhook": {}, "limits": []},
                {"limits": [limit(objectSelector=None)]},
                {"limits": [limit(selector={"matchLabels": None, "matchExpressions": None})]},
            )
        ):
            self.cluster.json(self.path_of(), "POST", config(f"left-empty-{i}", **spec))

    def test_table(self):
        self.here("create", "-f", "-", stdin=json.dumps(config("shown")))
        wanted = r"NAME +PODS +RULES +ENFORCED +READY +STATE +AGE\nshown +\d+s\n"
        self.assertRegex(self.here("get", "shardingconfig", "shown"), wanted)
        now = "2026-01-02T03:04:05Z"
        condition = {"status": "True", "reason": "Fine", "message": "ok", "lastTransitionTime": now}
        late = {"status": "False", "reason": "Silent", "message": "pod-2 is late"}
        status = {
            "observedGeneration": 1,
            "generation": 7,
            "checksum": "sha256:" + "0" * 64,
            "podCount": 3,
            "enforced": "2/3",
            "conditions": [
                {**condition, "type": "Compiled"},
                {**condition, "type": "Published"},
                {**condition, **late, "type": "Enforced"},
                {**condition, **late, "type": "Ready"},
            ],
            "pods": [
                {"name": "pod-0", "generation": 7, "checksum": "sha256:1", "since": now},
                {"name": "pod-2", "message": "does not answer"},
            ],
        }
        self.set_status("shown", status)
        self.assertEqual(status, self.cluster.json(self.path_of("shown"))["status"])
        shown = self.here("get", "shard", "shown", "--no-headers")
        self.assertRegex(shown, r"^shown +3 +7 +2/3 +False +Silent +\d+s\n$")
        wide = self.here("get", "shardingconfigs", "shown", "-o", "wide", "--no-headers")
        columns = r"3 +7 +2/3 +False +Silent +\d+s +sha256:0+ +ok +pod-2 is late"
        self.assertRegex(wide, rf"^shown +{columns}\n$")

    def test_status_is_a_subresource(self):
        thing = config("two-writers")
        thing["status"] = {"generation": 5}
        made = self.cluster.json(self.path_of(), "POST", thing)
        self.assertNotIn("status", made)
        self.assertEqual(1, made["metadata"]["generation"])
        self.set_status("two-writers", {"generation": 5})
        patch = {"spec": {"limits": []}, "status": {"generation": 6}}
        merge = "application/merge-patch+json"
        stored = self.cluster.json(self.path_of("two-writers"), "PATCH", patch, merge)
        self.assertEqual({"generation": 5}, stored["status"])
        self.assertEqual(2, stored["metadata"]["generation"])


class RefuseTest(CrdTestCase):
    """What the schema refuses, with the field named."""

    def test_bad_specs(self):
        for spec, words in REFUSED:
            with self.subTest(spec=spec):
                thing = json.dumps(config("bad", **spec)).encode()
                headers = [("Content-Type", "application/json")]
                answer = self.cluster.fetch(self.path_of(), "POST", headers, thing)
                self.assertEqual(422, answer.status, answer.body)
                # Which element of a list is at fault, only later versions tell.
                message = re.sub(r"\[\d+\]", "", json.loads(answer.body)["message"])
                self.assertIn(words, message)

    def test_without_spec(self):
        thing = config("bad")
        del thing["spec"]
        args = ["create", "--validate=false", "-f", "-"]
        code, _, err = self.run_here(*args, stdin=json.dumps(thing))
        self.assertEqual(1, code)
        self.assertIn("spec: Required value", err)

    def test_misspelt_fields(self):
        """They are kept for the manager, which refuses what it does not know: dropped, they would
        leave a spec that means something else."""
        misspelt = {"matchLabels": {"app": "demo"}, "matchExpression": [{"key": "a"}]}
        pods = {**PODS, "verbs": ["get"]}
        one = expression(key="a", operator="Exists", value="b")
        size = {"shardingSize": 2, "everyShardReplicas": 2}
        root = {"prefix": "a", "targetStatefulSet": "b", "auto": size, "resourceSelector": [LIMIT]}
        for i, spec in enumerate(
            (
                {"limit": [LIMIT]},
                {"selector": misspelt},
                {"selector": one},
                {"controller": {"leaderElection": "x"}},
                {"webhook": {"ports": 1}},
                {"limits": [limit(selector=misspelt)]},
                {"limits": [limit(selector=one)]},
                {"limits": [limit(relateResources=[pods], selectors={})]},
                {"limits": [{"objectSelector": limit(selector=misspelt, selectors={})}]},
                {"limits": [{"objectSelector": limit(relateResources=[pods], selector=one)}]},
                {"limits": [], "root": {**root, "misspelt": 1}},
                {"limits": [], "root": {**root, "canary": {"replica": 1}}},
                {"limits": [], "root": {**root, "auto": {**size, "takeOver": {}}}},
                {"limits": [], "root": {**root, "resourceSelector": [limit(selectors={})]}},
            )
        ):
            thing = json.dumps(config(f"misspelt-{i}", **spec))
            self.here("create", "-f", "-", stdin=thing)
            stored = self.cluster.json(self.path_of(f"misspelt-{i}"))
            self.assertEqual(json.loads(thing)["spec"], stored["spec"])
            compiled = self.compile(json.dumps(stored))
            self.assertEqual(1, compiled.returncode)
            self.assertRegex(compiled.stderr, r"spec\.\S+: Forbidden: unknown field")

    def compile(self, text):
        command = [harness.program("manager"), "compile", "-f", "-"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def test_what_is_misspelt_elsewhere_is_dropped(self):
        """As ever: it says nothing to the manager."""
        thing = config("dropped")
        thing["specs"] = {}
        args = ["create", "--validate=false", "-f", "-"]
        self.here(*args, stdin=json.dumps(thing))
        stored = self.cluster.json(self.path_of("dropped"))
        self.assertNotIn("specs", stored)

    def test_bad_status(self):
        self.here("create", "-f", "-", stdin=json.dumps(config("bad-status")))
        for status in (
            {"generation": "7"},
            {"conditions": [{"type": "Compiled", "status": "true"}]},
            {"pods": [{"generation": 1}]},
        ):
            patch = json.dumps({"status": status}).encode()
            headers = [("Content-Type", "application/merge-patch+json")]
            path = self.path_of("bad-status") + "/status"
            answer = self.cluster.fetch(path, "PATCH", headers, patch)
            self.assertEqual(422, answer.status, status)


if __name__ == "__main__":
    harness.main()
