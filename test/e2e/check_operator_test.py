#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`manager check-operator` on a real API server: an operator as people install it, and somebody who may
read little."""

import json
import subprocess

import harness
import upstream

NAME = "op"
LABELS = {"app": NAME}


class CheckOperatorTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.namespace = harness.make_namespace(self.cluster, "check", self.addCleanup)
        self.cluster_wide = f"check-operator-{self.namespace}"
        harness.wait_for_pods(self.cluster, self.namespace)

    def create(self, path, spec, cluster_wide=False):
        meta = {"name": self.cluster_wide if cluster_wide else NAME}
        group = path if cluster_wide else path.replace("/NS/", f"/namespaces/{self.namespace}/")
        self.cluster.json(group, "POST", {"metadata": meta, **spec})
        if cluster_wide:
            self.addCleanup(self.cluster.fetch, f"{path}/{self.cluster_wide}", "DELETE")

    def create_operator(self, **container):
        account = {"kind": "ServiceAccount", "name": NAME, "namespace": self.namespace}
        group = "rbac.authorization.k8s.io"
        rbac = f"/apis/{group}/v1"
        role = {"apiGroup": group, "kind": "ClusterRole", "name": self.cluster_wide}
        rules = [
            {"apiGroups": [""], "resources": ["nodes", "secrets"], "verbs": ["list", "patch"]},
            {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
        ]
        container = {"name": "manager", "image": "op:1", **container}
        pod = {"serviceAccountName": NAME, "containers": [container]}
        template = {"metadata": {"labels": LABELS}, "spec": pod}
        spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
        self.create("/api/v1/NS/serviceaccounts", {})
        self.create("/apis/apps/v1/NS/deployments", {"spec": spec})
        self.create(f"{rbac}/clusterroles", {"rules": rules}, cluster_wide=True)
        self.create(
            f"{rbac}/clusterrolebindings", {"roleRef": role, "subjects": [account]}, cluster_wide=True
        )

    def create_webhook(self):
        service = {"namespace": self.namespace, "name": NAME}
        webhook = {
            "name": "check.example.com",
            "clientConfig": {"service": service},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
            "namespaceSelector": {"matchLabels": {"no": "namespace"}},
        }
        configuration = "validatingwebhookconfigurations"
        self.create("/api/v1/NS/services", {"spec": {"selector": LABELS, "ports": [{"port": 443}]}})
        self.create(
            f"/apis/admissionregistration.k8s.io/v1/{configuration}",
            {"webhooks": [webhook]},
            cluster_wide=True,
        )

    def pods(self):
        pods = self.cluster.json(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return [pod["metadata"]["name"] for pod in pods]

    def hold_lock(self):
        harness.wait_for(lambda: len(self.pods()) == 2, "the operator has its pods")
        self.create(
            "/apis/coordination.k8s.io/v1/NS/leases",
            {"spec": {"holderIdentity": f"{self.pods()[0]}_1b2c"}},
        )

    def check(self, *args, kubeconfig=None):
        """The exit code, what it printed, and its log."""
        command = [harness.program("manager"), "check-operator", *args, "-n", self.namespace,
                   "--kubeconfig", kubeconfig or self.cluster.kubeconfig]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120,
                              env=harness.clean_environment())  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def findings(self, *args, **more):
        code, out, log = self.check(f"deployment/{NAME}", "-o", "json", *args, **more)
        self.assertIn(code, (0, 1), log)
        found = json.loads(out)["findings"]
        return code, {(one["level"], one["topic"]): one["text"] for one in found}

    def test_an_operator(self):
        self.create_operator()
        self.create_webhook()
        self.hold_lock()
        code, found = self.findings()
        self.assertEqual(0, code, found)
        self.assertIn(("fine", "injection"), found)
        self.assertIn(f"the lock {NAME}", found["fine", "leader election"])
        self.assertIn("it may list secrets", found["fine", "control labels"])
        self.assertIn("poddisruptionbudgets.policy", found["look", "control labels"])
        self.assertIn("it may write nodes", found["look", "cluster-scoped objects"])
        self.assertIn("check.example.com", found["look", "webhooks"])
        self.assertFalse([key for key in found if key[0] == "unknown"], found)

    def test_one_that_would_break(self):
        self.create_operator(args=["--kubeconfig=/in/the/image"])
        code, out, log = self.check(f"deploy/{NAME}")
        self.assertEqual(1, code, log)
        self.assertRegex(out, r"^Deployment \S+/op: \d pods, 0 of them in the mesh\n")
        self.assertRegex(out, r"\nbreaks +injection: .*/in/the/image")
        self.assertRegex(out, r"\n1 would break, ")

    def test_one_that_is_not_there(self):
        code, out, log = self.check("statefulset/none")
        self.assertEqual((2, ""), (code, out))
        self.assertIn("404 NotFound", log)

    def test_who_may_read_little(self):
        self.create_operator()
        group = "rbac.authorization.k8s.io"
        rule = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}
        user = {"apiGroup": group, "kind": "User", "name": "reader"}
        self.create(f"/apis/{group}/v1/NS/roles", {"rules": [rule]})
        self.create(
            f"/apis/{group}/v1/NS/rolebindings",
            {"roleRef": {"apiGroup": group, "kind": "Role", "name": NAME}, "subjects": [user]},
        )
        kubeconfig = self.cluster.user_kubeconfig(self.make_folder(self.addCleanup), "reader")
        code, found = self.findings(kubeconfig=kubeconfig)
        self.assertEqual(0, code)
        for topic in ("Pods", "Leases", "ClusterRoles", "CustomResourceDefinitions"):
            self.assertIn("403", found["unknown", topic])

    def test_no_server(self):
        port = harness.free_port()
        path = upstream.write_kubeconfig(self.path("kubeconfig"), f"http://127.0.0.1:{port}")
        code, _, log = self.check("deploy/op", kubeconfig=path)
        self.assertEqual(2, code, log)
        self.assertIn("connection refused", log)


if __name__ == "__main__":
    harness.main()
