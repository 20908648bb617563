#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pod with the sidecars written by hand, on a real node: images, mounts, and rules that follow
their ConfigMap."""

import json
import time

import harness
import node

EDITS = 20
LABEL = "part"
SIDECAR = {
    "image": "localhost/cmesh/localproxy:0.2.0-dev",
    "imagePullPolicy": "IfNotPresent",
    "securityContext": {
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    },
}


def mount(name, path, **more):
    return {"name": name, "mountPath": path, **more}


RUN = mount("run", "/run/cmesh")
STATE = mount("state", "/var/lib/cmesh")
RULES = mount("rules", "/etc/cmesh", readOnly=True)


def deployment(namespace):
    """As examples of the documentation have it."""
    containers = [
        {
            **SIDECAR,
            "name": "localproxy",
            "command": ["localproxy", "--in-cluster", "--rules=/var/lib/cmesh/rules.json"],
            "args": ["--control=/run/cmesh/control.sock", "--token-file=/run/cmesh/token"],
            "volumeMounts": [RUN, {**STATE, "readOnly": True}],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 5441}, "periodSeconds": 1},
        },
        {
            **SIDECAR,
            "name": "rulesync",
            "command": ["rulesync", "--from=/etc/cmesh", "--to=/var/lib/cmesh/rules.json"],
            "args": ["--control=/run/cmesh/control.sock"],
            "volumeMounts": [RUN, STATE, RULES],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 5442}, "periodSeconds": 1},
        },
        {
            "name": "operator",
            "image": node.TOOLS,
            "command": ["sleep", "100000"],
            "env": [{"name": "KUBECONFIG", "value": "/run/cmesh/kubeconfig"}],
            "volumeMounts": [{**RUN, "readOnly": True}],
        },
    ]
    first = {
        **SIDECAR,
        "name": "kubeconfig",
        "command": ["kubeconfig-gen", "--in-cluster", "--shared", "-o", "/run/cmesh/kubeconfig"],
        "args": ["--token-file=/run/cmesh/token"],
        "volumeMounts": [RUN],
    }
    memory = {"medium": "Memory"}
    spec = {
        "terminationGracePeriodSeconds": 5,
        "serviceAccountName": "default",
        "initContainers": [first],
        "containers": containers,
        "volumes": [
            {"name": "run", "emptyDir": memory},
            {"name": "state", "emptyDir": memory},
            {"name": "rules", "configMap": {"name": "rules"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "operator", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "operator"}},
            "template": {"metadata": {"labels": {"app": "operator"}}, "spec": spec},
        },
    }


def rights(namespace):
    """What the operator's own service account may: localproxy speaks as that."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "operator", "namespace": namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "operator", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    }
    return [role, binding]


def shown(generation):
    return "ab"[generation % 2]


class PodTest(node.TestCase):
    """One pod, and what goes on in it."""

    @classmethod
    def setUpClass(cls):
        node.cluster().load_programs()
        node.cluster().load_tools()

    def setUp(self):
        super().setUp()
        self.namespace = harness.make_namespace(self.cluster, "by-hand", self.addCleanup)
        self.apply(*rights(self.namespace), *map(self.bystander, "ab"))
        self.publish(1)
        self.apply(deployment(self.namespace))
        (self.pod,) = self.wait_ready(self.namespace, "app=operator", 1)
        self.name = self.pod["metadata"]["name"]

    def bystander(self, part):
        """Nothing has to run in it: it is there to be listed."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"bystander-{part}",
                "namespace": self.namespace,
                "labels": {LABEL: part},
            },
            "spec": {
                "nodeSelector": {"cmesh.test/nowhere": "true"},
                "containers": [{"name": "none", "image": "none.test/none:1"}],
            },
        }

    def publish(self, generation):
        rules = harness.rules_document(
            harness.limit(["pods"], f"{LABEL} in ({shown(generation)})"), generation=generation
        )
        name = {"name": "rules", "namespace": self.namespace}
        data = {"rules.json": json.dumps(rules)}
        self.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": data})

    def nudge(self):
        """The kubelet looks at the pod's volumes now."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        patch = {"metadata": {"annotations": {"test/nudged": str(time.time_ns())}}}
        self.cluster.json(path, "PATCH", patch, "application/merge-patch+json")

    def wait_enforced(self, generation):
        """It looks in vain when it has not heard of the ConfigMap yet, and then not for a minute or
        more by itself: it is told again."""
        what = f"generation {generation} is enforced"
        deadline = time.monotonic() + 240
        while True:
            self.nudge()
            try:
                harness.wait_for(
                    lambda: node.enforced_generation(self.pod) == generation, what, timeout=10
                )
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def inside(self, container, *command):
        return self.kubectl("-n", self.namespace, "exec", self.name, "-c", container, "--", *command)

    def listed(self):
        """What kubectl in the operator's container finds."""
        return self.inside("operator", "kubectl", "get", "pods", "-o", "name").split()

    def test_edits_are_enforced(self):
        self.assertEqual([f"pod/bystander-{shown(1)}"], self.listed())
        times = []
        for generation in range(2, 2 + EDITS):
            began = time.monotonic()
            self.publish(generation)
            self.wait_enforced(generation)
            times.append(time.monotonic() - began)
            if generation < 4:
                self.assertEqual([f"pod/bystander-{shown(generation)}"], self.listed())
        print(
            f"{EDITS} edits of a mounted ConfigMap, from kubectl apply to enforced:"
            f" p50 {node.percentile(times, 50):.2f} s, p99 {node.percentile(times, 99):.2f} s",
            flush=True,
        )
        logs = "".join(
            self.kubectl("-n", self.namespace, "logs", self.name, "-c", name)
            for name in ("localproxy", "rulesync")
        )
        self.assertIsNone(harness.SANITIZER_REPORT.search(logs), logs)

    def test_restarts_lose_nothing(self):
        """localproxy is killed; the kubelet starts it again; the rules are those of before."""
        self.publish(2)
        self.wait_enforced(2)
        self.kubectl("-n", self.namespace, "delete", "configmap", "rules")
        node.kill_in_pod(self.namespace, self.name, "localproxy")

        def restarted():
            (pod,) = self.pods(self.namespace, "app=operator")
            counts = {s["name"]: s["restartCount"] for s in pod["status"]["containerStatuses"]}
            return counts["localproxy"] == 1 and node.is_ready(pod)

        harness.wait_for(restarted, "localproxy is there again", timeout=180)
        self.assertEqual(2, node.enforced_generation(self.pod))
        self.assertEqual([f"pod/bystander-{shown(2)}"], self.listed())

    def test_it_ends_well(self):
        """On SIGTERM, by itself: not because the kubelet lost patience."""
        exits = node.Exits()
        self.addCleanup(exits.stop)
        harness.wait_for(
            lambda: self.inside("operator", "true") == "" and exits.seen, "events are told", 60, 0.1
        )
        ids = node.container_ids(self.pod)
        self.kubectl("-n", self.namespace, "scale", "--replicas=0", "deployment/operator")
        harness.wait_for(
            lambda: set(ids.values()) <= exits.codes.keys(), "all containers end", 120
        )
        codes = {name: exits.codes[number] for name, number in ids.items()}
        self.assertEqual(137, codes["operator"], "it was killed: the others had time to be")
        self.assertEqual((0, 0), (codes["localproxy"], codes["rulesync"]), codes)


if __name__ == "__main__":
    harness.main()
