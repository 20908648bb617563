# SPDX-License-Identifier: Apache-2.0
"""k8s/base on a real API server: it is rendered and applied, and with the rights that it gives the
manager can do all that it does, and has no right that it does not use.
"""

import base64
import json
import os
import shutil
import signal
import subprocess

import audit
import harness
import upstream
import wire

K8S = os.path.join(harness.ROOT, "k8s")
NAMESPACE = "cmesh-system"
ACCOUNT = "cmesh-manager"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
GROUP = "ctrlmesh.kusionstack.io"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
DEMO = "operator-demo"

# (resource, verb): needed only after a conflict or where no garbage collector runs.
SELDOM = {
    ("configmaps", "delete"),
    ("namespaces", "get"),
    ("shardingconfigs", "get"),
    ("events", "patch"),
}


def sharding_config(*namespaces, name="blue"):
    selector = {
        "matchExpressions": [
            {"key": harness.NAMESPACE_LABEL, "operator": "In", "values": list(namespaces)}
        ]
    }
    resources = [{"apiGroups": [""], "resources": ["configmaps"]}]
    return {
        "apiVersion": GROUP + "/v1alpha1",
        "kind": "ShardingConfig",
        "metadata": {"name": name, "namespace": DEMO},
        "spec": {
            "selector": {"matchLabels": {"shard": name}},
            "limits": [{"relateResources": resources, "selector": selector}],
        },
    }


def pod():
    labels = {"shard": "blue", GROUP + "/enable-proxy": "true"}
    container = {"name": "operator", "image": "example.com/operator", "command": ["/operator"]}
    return {"metadata": {"name": "blue-0", "labels": labels}, "spec": {"containers": [container]}}


class BaseTest(harness.TestCase):
    """On a control plane that others do not use, for the webhooks concern all namespaces."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.kubectl_program = cls.cluster.env["KUBECTL"]
        minor = cls.cluster.json("/version")["minor"].rstrip("+")
        cls.folder_to_apply = os.path.join(K8S, "before-1.21" if int(minor) < 21 else "base")

    def kubectl(self, *args, program=None):
        """Standard output; the command must succeed."""
        command = [program or self.kubectl_program, *args]
        if args[0] != "kustomize":
            command += ["--kubeconfig", self.cluster.kubeconfig]
        env = harness.clean_environment(HOME=self.folder)
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=180, env=env
        )
        self.assertEqual(0, result.returncode, f"{command}: {result.stderr}")
        return result.stdout

    # ---- rendering ----

    def test_old_and_new_kubectl_render_the_same(self):
        kinds = set()
        for program in {self.kubectl_program, shutil.which("kubectl") or self.kubectl_program}:
            text = self.kubectl("kustomize", os.path.join(K8S, "base"), program=program)
            self.assertIn("image: cmesh/manager:", text)
            kinds.add(tuple(sorted(k for k in text.splitlines() if k.startswith("kind: "))))
        self.assertEqual(1, len(kinds), kinds)
        self.assertIn("kind: PodDisruptionBudget", kinds.pop())

    # ---- applying ----

    def apply(self, *more):
        return self.kubectl("apply", "-k", self.folder_to_apply, *more).splitlines()

    def install(self):
        """Twice, the second time to no effect."""
        self.kubectl("apply", "-f", os.path.join(K8S, "base", "namespace.yaml"))
        self.kubectl("apply", "-k", os.path.join(K8S, "crds"))
        tried = self.apply("--dry-run=server")
        done = self.apply()
        self.assertEqual(
            [line.split()[0] for line in done], [line.split()[0] for line in tried], tried
        )
        self.assertEqual([], [line for line in self.apply() if not line.endswith(" unchanged")])

    def deployed(self):
        """The flags and variables of the Deployment's container."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/cmesh-manager"
        container = self.cluster.json(path)["spec"]["template"]["spec"]["containers"][0]
        env = {}
        for source in container["envFrom"]:
            name = source["configMapRef"]["name"]
            path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
            env.update(self.cluster.json(path)["data"])
        return container["args"], env

    # ---- running ----

    def account_kubeconfig(self):
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.cluster.json(path, "POST", request)["status"]["token"]
        return upstream.write_kubeconfig(
            self.path("account"),
            self.cluster.env["APISERVER"],
            authority=self.cluster.env["CLUSTER_CA"],
            token=token,
        )

    def start_manager(self, name, webhook_port):
        """As deployed, but for what needs a pod around it, and with more time to see it go."""
        args, env = self.deployed()
        instead = {
            "--in-cluster": f"--kubeconfig={self.account_kubeconfig()}",
            "--shutdown-delay=5": "--shutdown-delay=15",
            "--sharding-resources=/etc/cmesh/sharding-resources.yaml": "--sharding-resources="
            + os.path.join(K8S, "base", "sharding-resources.yaml"),
        }
        self.assertLessEqual(set(instead), set(args))
        command = [instead.get(arg, arg) for arg in args]
        command += [f"--namespace={NAMESPACE}", "--admin=127.0.0.1:0", "--lease-duration=3"]
        command += [f"--webhook=127.0.0.1:{webhook_port}", "--webhook-host=127.0.0.1"]
        ready_file = self.path(name + ".json")
        command.append(f"--ready-file={ready_file}")
        log = self.path(name + ".log")
        with open(log, "wb") as f:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", harness.program("manager"), *command],
                env=harness.clean_environment(HOME=self.folder, **env),
                stdin=subprocess.DEVNULL,
                stderr=f,
            )
        self.addCleanup(harness.end_process, process)
        harness.wait_for(lambda: self.is_ready(ready_file), f"{name} is ready")
        return process

    @staticmethod
    def is_ready(ready_file):
        if not os.path.exists(ready_file):
            return False
        with open(ready_file, encoding="utf-8") as f:
            return wire.fetch(json.load(f)["admin"], "/readyz").status == 200

    def lead_webhooks_to(self, port):
        """The API server runs beside the manager, and knows no Services."""
        for kind in CONFIGURATIONS:
            path = f"{ADMISSION}/{kind}/cmesh"
            thing = self.cluster.json(path)
            changes = []
            for i, webhook in enumerate(thing["webhooks"]):
                service = webhook["clientConfig"]["service"]
                self.assertEqual(NAMESPACE, service["namespace"])
                self.assertEqual("cmesh-webhook", service["name"])
                url = f"https://127.0.0.1:{port}{service['path']}"
                where = f"/webhooks/{i}/clientConfig"
                changes.append({"op": "replace", "path": where, "value": {"url": url}})
            self.cluster.json(path, "PATCH", changes, "application/json-patch+json")

    def lead_webhooks_back(self):
        for kind in CONFIGURATIONS:
            path = f"{ADMISSION}/{kind}/cmesh"
            changes = []
            for i, webhook in enumerate(self.cluster.json(path)["webhooks"]):
                where = f"/webhooks/{i}/clientConfig"
                target = "/" + webhook["clientConfig"]["url"].split("/", 3)[3]
                service = {"namespace": NAMESPACE, "name": "cmesh-webhook", "path": target}
                changes.append({"op": "remove", "path": where + "/url"})
                changes.append({"op": "add", "path": where + "/service", "value": service})
            self.cluster.json(path, "PATCH", changes, "application/json-patch+json")

    def webhooks_are_trusted(self):
        for kind in CONFIGURATIONS:
            for webhook in self.cluster.json(f"{ADMISSION}/{kind}/cmesh")["webhooks"]:
                if not base64.b64decode(webhook["clientConfig"].get("caBundle", "")):
                    return False
        return True

    def labels_of(self, path):
        return self.cluster.json(path)["metadata"].get("labels", {})

    def work(self):
        """What makes the manager use all its rights."""
        configs = f"/apis/{GROUP}/v1alpha1/namespaces/{DEMO}/shardingconfigs"
        maps = f"/api/v1/namespaces/{DEMO}/configmaps"
        for name in ("mine", "cmesh-rules-green"):  # the second is in the way
            self.cluster.json(maps, "POST", {"metadata": {"name": name}})
        self.cluster.json(configs, "POST", sharding_config("a"))
        self.cluster.json(configs, "POST", sharding_config("c", name="green"))
        self.cluster.json(f"/api/v1/namespaces/{DEMO}/pods", "POST", pod())

        def generation(number):
            config = self.cluster.json(f"{configs}/blue")
            return config.get("status", {}).get("generation") == number

        harness.wait_for(lambda: generation(1), "the status tells generation 1")
        change = {"spec": sharding_config("a", "b")["spec"]}
        self.cluster.json(f"{configs}/blue", "PATCH", change, "application/merge-patch+json")
        harness.wait_for(lambda: generation(2), "the status tells generation 2")
        for path in (f"/api/v1/namespaces/{DEMO}", f"{maps}/mine"):
            harness.wait_for(lambda p=path: harness.HASH_LABEL in self.labels_of(p), path)
        injected = self.cluster.json(f"/api/v1/namespaces/{DEMO}/pods/blue-0")
        names = [c["name"] for c in injected["spec"]["containers"]]
        self.assertEqual(["cmesh-localproxy", "cmesh-rulesync", "operator"], names)
        harness.wait_for(
            lambda: any("cmesh" in k for k in self.annotations_of_pod()), "the pod was told"
        )

    def annotations_of_pod(self):
        path = f"/api/v1/namespaces/{DEMO}/pods/blue-0"
        annotations = self.cluster.json(path)["metadata"].get("annotations", {})
        return [k for k in annotations if not k.endswith("sharding-config-injected")]

    # ---- rights ----

    def asked(self):
        """Of each request of the manager: code, (resource, verb), where."""
        for entry in audit.entries(self.cluster.env["CLUSTER_AUDIT_LOG"], USER):
            if entry["user"].get("username") == USER:
                ref = entry.get("objectRef", {})
                parts = (ref.get("resource"), ref.get("subresource"))
                resource = "/".join(part for part in parts if part)
                code = entry.get("responseStatus", {}).get("code")
                yield code, (resource, entry["verb"]), entry["requestURI"]

    def granted(self):
        """What the roles allow, but for the labels, which are the same for each resource."""
        roles = (f"{RBAC}/clusterroles/{ACCOUNT}", f"{RBAC}/namespaces/{NAMESPACE}/roles/{ACCOUNT}")
        for path in roles:
            for rule in self.cluster.json(path)["rules"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        yield resource, verb

    def granted_for_labels(self):
        """Of resources that this API server has. That they can be patched needs one without labels,
        and that they can be read a conflict."""
        for rule in self.cluster.json(f"{RBAC}/clusterroles/cmesh-labels-default")["rules"]:
            group = rule["apiGroups"][0]
            path = f"/apis/{group}/v1" if group else "/api/v1"
            served = {r["name"] for r in self.cluster.json(path)["resources"]}
            for resource in served & set(rule["resources"]):
                yield resource, "list"
                yield resource, "watch"

    def test_the_rights_are_enough_and_not_more(self):
        self.install()
        port = harness.free_port()
        self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": DEMO}})
        harness.wait_for(
            lambda: self.cluster.json(f"{RBAC}/clusterroles/cmesh-manager-labels").get("rules"),
            "the rights to label are put together",
        )
        first = self.start_manager("first", port)
        self.lead_webhooks_to(port)
        harness.wait_for(self.webhooks_are_trusted, "the webhooks are trusted")
        self.work()
        second = self.start_manager("second", 0)
        first.send_signal(signal.SIGTERM)
        harness.wait_for(self.second_leads, "the second manager leads")
        # The API server may not know yet that the first is going.
        self.assertIsNone(first.poll())
        configs = f"/apis/{GROUP}/v1alpha1/namespaces/{DEMO}/shardingconfigs"
        self.cluster.json(f"{configs}?dryRun=All", "POST", sharding_config("x", name="late"))
        self.assertEqual(0, first.wait(60))
        self.retire()
        harness.wait_for(
            lambda: set(self.granted_for_labels()) <= {what for _, what, _ in self.asked()},
            "the manager has looked at all that it labels",
            interval=0.2,
        )
        second.send_signal(signal.SIGTERM)
        self.assertEqual(0, second.wait(60))

        asked = list(self.asked())
        self.assertEqual([], [a for a in asked if a[0] in (401, 403)])
        used = {what for _, what, _ in asked}
        unused = set(self.granted()) - used - SELDOM
        self.assertEqual(set(), unused, "rights that nothing needs")
        self.lead_webhooks_back()
        # What the manager keeps right, an upgrade leaves alone.
        self.assertEqual([], [line for line in self.apply() if not line.endswith(" unchanged")])
        self.assertTrue(self.webhooks_are_trusted())
        self.uninstall()

    def retire(self):
        """What k8s/README.md says is to be done first. The rules go with the configs."""
        self.kubectl("delete", "shardingconfigs", "--all", "--all-namespaces")
        path = f"/api/v1/namespaces/{DEMO}/configmaps/cmesh-rules-blue"
        harness.wait_for(lambda: self.cluster.fetch(path).status == 404, "no rules stay", 180)

    def uninstall(self):
        """The rest: nothing of ours stays."""
        self.kubectl("delete", "-k", os.path.join(K8S, "webhooks"))
        self.kubectl("-n", NAMESPACE, "delete", "deployment", "cmesh-manager")
        command = [harness.program("manager"), "unlabel", "--kubeconfig", self.cluster.kubeconfig]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        self.assertEqual(0, result.returncode, result.stderr)
        self.kubectl("delete", "-k", self.folder_to_apply, "--ignore-not-found", "--timeout=150s")
        gone = [f"{ADMISSION}/{kind}/cmesh" for kind in CONFIGURATIONS]
        for path in (f"/api/v1/namespaces/{NAMESPACE}", f"/apis/{GROUP}", *gone):
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 404, f"{path} is gone")
        namespace = f"/api/v1/namespaces/{DEMO}"
        for path in (f"{namespace}/configmaps/mine", namespace):
            self.assertNotIn(harness.HASH_LABEL, self.labels_of(path))

    def second_leads(self):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/cmesh-manager"
        lease = self.cluster.json(path)
        return lease["spec"].get("leaseTransitions", 0) >= 1 and lease["spec"].get("holderIdentity")


if __name__ == "__main__":
    harness.main()
