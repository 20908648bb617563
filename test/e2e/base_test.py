# SPDX-License-Identifier: Apache-2.0
"""k8s/base on a real API server: it is rendered and applied, and with the rights that it gives the
manager can do all that it does, and has no right that it does not use.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess

import audit
import harness
import manifests
import mesh
import releases
from installation import (
    ACCOUNT,
    ADMISSION,
    CONFIGURATIONS,
    DEMO,
    GROUP,
    K8S,
    RBAC,
    InstallationCase,
    sharding_config,
)

NAMESPACE = InstallationCase.home
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

# (resource, verb): needed only after a conflict or where no garbage collector runs; and to create is
# asked for by an apply, which the log calls a patch.
SELDOM = {
    ("configmaps", "delete"),
    ("namespaces", "get"),
    ("shardingconfigs", "create"),
    ("shardingconfigs", "get"),
    ("events", "patch"),
}


class BaseTest(InstallationCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        minor = cls.cluster.json("/version")["minor"].rstrip("+")
        cls.folder_to_apply = os.path.join(K8S, "before-1.21" if int(minor) < 21 else "base")

    # ---- rendering ----

    def kubectls(self):
        """{version: path}, one for each minor version, and why some are missing, if so."""
        folders, why = releases.folders()
        paths = [self.kubectl_program]
        paths += [os.path.join(folder, "kubectl") for folder in folders or ()]
        paths += [shutil.which("kubectl")]
        found = {}
        for path in filter(None, paths):
            version = json.loads(self.kubectl("version", "--client", "-o", "json", program=path))
            number = version["clientVersion"]["gitVersion"]
            found.setdefault(".".join(number.split(".")[:2]), path)
        return found, why

    def rendered(self, program, folder):
        """Objects by kind and name, those of ConfigMaps without hashes."""
        result = subprocess.run(
            [program, "kustomize", folder], capture_output=True, text=True, check=False, timeout=180
        )
        self.assertEqual(0, result.returncode, result.stderr)
        things = {}
        for thing in manifests.parse(result.stdout):
            if thing["kind"] in ("ConfigMap", "Deployment"):  # nothing else refers to them
                text = re.sub(r'"(cmesh-[a-z-]+)-[0-9a-z]{10}"', r'"\1"', json.dumps(thing))
                thing = json.loads(text)
            name = (thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"])
            self.assertNotIn(name, things)
            things[name] = thing
        return things, result.stderr

    def test_every_kubectl_renders_the_same(self):
        found, why = self.kubectls()
        for name in ("base", "before-1.21"):
            usual, _ = self.rendered(self.kubectl_program, os.path.join(K8S, name))
            self.assertIn(("PodDisruptionBudget", NAMESPACE, "cmesh-manager"), usual)
            for version, program in found.items():
                with self.subTest(name, kubectl=version):
                    things, warnings = self.rendered(program, os.path.join(K8S, name))
                    self.assertEqual(set(usual), set(things))
                    for key, thing in usual.items():
                        self.assertEqual(thing, things[key], key)
                    if name == "base":
                        self.assertEqual("", warnings)
        if why is not None:
            self.skipTest(why)

    def overlay(self, for_old):
        """The example of the README, in a folder beside ours."""
        with open(os.path.join(K8S, "README.md"), encoding="utf-8") as f:
            text = re.search(r"```yaml\n(# kustomization.yaml.*?)```", f.read(), re.S).group(1)
        if for_old:
            text, count = re.subn(r"(resources:\n)(- \.\./cmesh/.*\n)", r"bases:\n\2\1", text)
            self.assertEqual(1, count, text)
        parent = self.make_folder(self.addCleanup)
        os.makedirs(os.path.join(parent, "cmesh"))
        shutil.copytree(K8S, os.path.join(parent, "cmesh", "k8s"))
        folder = os.path.join(parent, "mine")
        os.makedirs(folder)
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "cmesh-labels-databases"},
        }
        for name, content in (
            ("kustomization.yaml", text),
            ("labelled_databases.yaml", json.dumps(role)),
            ("sharding-resources.yaml", "groupVersionKinds: {example.com/v1: [Database]}\n"),
        ):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(content)
        return folder

    def test_the_overlay_of_the_readme(self):
        found, why = self.kubectls()
        for version, program in found.items():
            with self.subTest(kubectl=version):
                old = version == "v1.20"
                things, warnings = self.rendered(program, self.overlay(for_old=old))
                self.assertEqual("", warnings)
                pod = things["Deployment", NAMESPACE, ACCOUNT]["spec"]["template"]["spec"]
                container = pod["containers"][0]
                self.assertEqual("registry.example.com/cmesh/manager:0.2.0-dev", container["image"])
                settings = things["ConfigMap", NAMESPACE, "cmesh-manager-settings"]["data"]
                self.assertEqual("50", settings["CMESH_LABEL_QPS"])
                resources = things["ConfigMap", NAMESPACE, "cmesh-sharding-resources"]["data"]
                self.assertIn("Database", resources["sharding-resources.yaml"])
                self.assertIn(("ClusterRole", None, "cmesh-labels-databases"), things)
        if why is not None:
            self.skipTest(why)

    # ---- what is not applied with it ----

    def test_network_policies(self):
        things, _ = self.rendered(self.kubectl_program, os.path.join(K8S, "base"))
        spec = things["NetworkPolicy", NAMESPACE, "cmesh-manager"]["spec"]
        pod = things["Deployment", NAMESPACE, ACCOUNT]["spec"]["template"]
        selected = spec["podSelector"]["matchLabels"]
        self.assertLessEqual(set(selected.items()), set(pod["metadata"]["labels"].items()))
        # All that the manager serves can be reached, by whomever: nothing breaks where it is applied.
        ports = [p["name"] for p in pod["spec"]["containers"][0]["ports"]]
        self.assertEqual([{"ports": [{"port": p, "protocol": "TCP"}]} for p in ports], spec["ingress"])
        self.assertEqual(["Ingress"], spec["policyTypes"])
        path = os.path.join(K8S, "network-policy", "operators.yaml")
        self.kubectl("apply", "-n", "default", "-f", path)
        self.addCleanup(self.kubectl, "delete", "-n", "default", "-f", path)
        policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
        spec = self.cluster.json(f"{policies}/cmesh-sidecars")["spec"]
        self.assertEqual([5441, 5442], [p["port"] for p in spec["ingress"][0]["ports"]])
        with open(os.path.join(K8S, "base", "deployment.yaml"), encoding="utf-8") as f:
            template = manifests.parse(f.read())[0]["spec"]["template"]
        wanted = spec["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        self.assertLessEqual(set(wanted.items()), set(template["metadata"]["labels"].items()))

    # ---- applying ----

    def apply(self, *more):
        return self.kubectl("apply", "-k", self.folder_to_apply, *more).splitlines()

    def install(self):
        self.apply()

    def install_tried(self):
        """What a dry run says is done; a second time to no effect."""
        self.kubectl("apply", "-f", os.path.join(K8S, "base", "namespace.yaml"))
        self.kubectl("apply", *mesh.files(mesh.CRDS))
        tried = self.apply("--dry-run=server")
        done = self.apply()
        self.assertEqual(
            [line.split()[0] for line in done], [line.split()[0] for line in tried], tried
        )
        self.assertEqual([], [line for line in self.apply() if not line.endswith(" unchanged")])

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
            path = "/api/v1"
            if group:  # discovery.k8s.io has no v1 before 1.21
                named = self.cluster.json(f"/apis/{group}")["preferredVersion"]
                path = f"/apis/{named['groupVersion']}"
            served = {r["name"] for r in self.cluster.json(path)["resources"]}
            for resource in served & set(rule["resources"]):
                yield resource, "list"
                yield resource, "watch"

    def may(self, user, verb, resource, namespace=DEMO, group=GROUP, name=""):
        """Whether the API server would let a user do it."""
        what = {"namespace": namespace, "verb": verb, "group": group, "name": name}
        what["resource"], _, what["subresource"] = resource.partition("/")
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": what},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return self.cluster.json(path, "POST", review)["status"]["allowed"]

    def check_rights_of_users(self):
        """Those who may view, edit or administer the namespace may do so with ShardingConfigs;
        traffic policies are written by administrators alone."""
        bindings = f"{RBAC}/namespaces/{DEMO}/rolebindings"
        for role in ("view", "edit", "admin"):
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role}
            reference = {"apiGroup": subject["apiGroup"], "kind": "ClusterRole", "name": role}
            binding = {"metadata": {"name": role}, "subjects": [subject], "roleRef": reference}
            self.cluster.json(bindings, "POST", binding)
            harness.wait_for(
                lambda user=role: self.may(user, "list", "shardingconfigs"),
                f"who may {role} may list ShardingConfigs",
            )
            for verb in ("create", "update", "patch", "delete", "deletecollection"):
                self.assertEqual(
                    role != "view", self.may(role, verb, "shardingconfigs"), (role, verb)
                )
            harness.wait_for(
                lambda user=role: (user == "admin") == self.may(user, "create", "circuitbreakers"),
                "administrators may create CircuitBreakers, and others may not",
            )
            for verb in ("create", "update", "patch", "delete", "deletecollection"):
                for kind in ("circuitbreakers", "faultinjections"):
                    self.assertEqual(role == "admin", self.may(role, verb, kind), (role, verb))
            for kind in ("shardingconfigs", "circuitbreakers", "faultinjections"):
                self.assertTrue(self.may(role, "watch", kind))
                self.assertTrue(self.may(role, "get", kind + "/status"))
                self.assertFalse(self.may(role, "patch", kind + "/status"))
                self.assertFalse(self.may(role, "list", kind, namespace="default"))
        self.assertFalse(self.may("nobody", "list", "shardingconfigs"))

    def test_rights_for_the_webhooks_of_operators(self):
        """By the commands that user_roles.yaml names, and no more than they say."""
        path = os.path.join(K8S, "base", "user_roles.yaml")
        with open(path, encoding="utf-8") as f:
            text = f.read().replace("\\\n#", "")
        commands = [line.split() for line in re.findall(r"^# +kubectl (create .*cmesh-manager-[wn].*)$", text, re.M)]
        self.assertEqual(["rolebinding", "clusterrole", "clusterrolebinding"], [c[1] for c in commands])
        self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": DEMO}})
        self.addCleanup(self.cluster.fetch, f"/api/v1/namespaces/{DEMO}", "DELETE")
        self.kubectl("apply", "-f", path)
        self.addCleanup(self.kubectl, "delete", "-f", path)
        for command in commands:
            command = [word.replace("NAME", "checks") if "NAME" in word else word for word in command]
            self.kubectl(*[DEMO if word == "NS" else word for word in command])
            if command[1] != "rolebinding":
                self.addCleanup(self.kubectl, "delete", *command[1:3])
        wanted = {("", "services"): ("get", "list", "watch", "patch")}
        wanted |= dict.fromkeys([("", "endpoints"), ("discovery.k8s.io", "endpointslices")], ("list", "watch"))
        verbs = ("get", "list", "watch", "patch", "update", "create", "delete")
        harness.wait_for(lambda: self.may(USER, "patch", "services", group=""), "the roles are known")
        for (group, resource), allowed in wanted.items():
            found = tuple(verb for verb in verbs if self.may(USER, verb, resource, group=group))
            self.assertEqual(allowed, found, resource)
            self.assertFalse(self.may(USER, "list", resource, group=group, namespace="default"))
        for kind in CONFIGURATIONS:
            may = lambda verb, name, k=kind: self.may(USER, verb, k, "", ADMISSION.split("/")[2], name)  # noqa: E731
            harness.wait_for(lambda m=may: m("patch", "checks"), "the roles are known")
            self.assertFalse(may("patch", "others"))
            self.assertFalse(may("update", "checks"))

    def test_install_upgrade_and_uninstall_with_every_kubectl(self):
        """As k8s/README.md says, and judged by what the cluster does."""
        found, why = self.kubectls()
        for version, program in found.items():
            with self.subTest(kubectl=version):
                self.kubectl_program = program
                self.folder = self.make_folder(self.addCleanup)
                self.live_through()
        if why is not None:
            self.skipTest(why)

    def upgrade(self):
        """To the same with another setting, which restarts the managers."""
        folder = self.make_folder(self.addCleanup)
        base = os.path.relpath(self.folder_to_apply, os.path.realpath(folder))
        setting = {"name": "cmesh-manager-settings", "namespace": NAMESPACE, "behavior": "merge"}
        overlay = {
            "bases": [base],
            "configMapGenerator": [{**setting, "literals": ["CMESH_LABEL_QPS=50"]}],
        }
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as f:
            json.dump(overlay, f)
        self.kubectl("apply", "-k", folder)
        self.assertEqual("50", self.deployed()[1]["CMESH_LABEL_QPS"])

    def test_the_rights_are_enough_and_not_more(self):
        self.install_tried()
        port = harness.free_port()
        self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": DEMO}})
        harness.wait_for(
            lambda: self.cluster.json(f"{RBAC}/clusterroles/cmesh-manager-labels").get("rules"),
            "the rights to label are put together",
        )
        self.check_rights_of_users()
        first = self.start_manager("first", port)
        self.lead_webhooks_to(port)
        harness.wait_for(self.webhooks_are_trusted, "the webhooks are trusted")
        mesh.wait_webhooks(self.cluster)
        self.let_repair()
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
        self.route()
        self.assertEqual([], [line for line in self.apply() if not line.endswith(" unchanged")])
        self.assertTrue(self.webhooks_are_trusted())
        self.check_routes()
        self.apply("--server-side", "--force-conflicts")
        self.apply("--server-side", "--force-conflicts")
        self.assertTrue(self.webhooks_are_trusted())
        self.check_routes()
        self.uninstall()
        self.cluster.json(f"/api/v1/namespaces/{DEMO}", "DELETE")
        path = f"/api/v1/namespaces/{DEMO}"
        harness.wait_for(lambda: self.cluster.fetch(path).status == 404, f"{DEMO} is gone")

    def let_repair(self):
        """The manager writes to its Secret when what is in it is to be renewed, or was damaged."""
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/cmesh-webhook-cert"
        damaged = base64.b64encode(b"garbage").decode()
        change = {"data": {"tls.crt": damaged}}
        self.cluster.json(path, "PATCH", change, "application/merge-patch+json")
        harness.wait_for(
            lambda: self.cluster.json(path)["data"]["tls.crt"] != damaged, "it is repaired"
        )

    def unlabel(self):
        """As the Job does it, with the rights that it has."""
        path = os.path.join(K8S, "unlabel-job.yaml")
        self.kubectl("apply", "-f", path)
        job = self.cluster.json(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/cmesh-unlabel")
        args = job["spec"]["template"]["spec"]["containers"][0]["args"]
        access = f"--kubeconfig={self.account_kubeconfig('cmesh-unlabel')}"
        command = [harness.program("manager")]
        command += [access if arg == "--in-cluster" else arg for arg in args]
        self.assertIn(access, command)
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            env=harness.clean_environment(HOME=self.folder),
        )
        self.assertEqual(0, result.returncode, result.stderr)
        self.kubectl("delete", "-f", path)

    def uninstall(self):
        """The rest: nothing of ours stays."""
        self.kubectl("delete", "-f", os.path.join(K8S, "base", "webhooks.yaml"))
        self.kubectl("-n", NAMESPACE, "delete", "deployment", "cmesh-manager")
        self.unlabel()
        self.kubectl("delete", "-k", self.folder_to_apply, "--ignore-not-found", "--timeout=150s")
        gone = [f"{ADMISSION}/{kind}/{name}" for kind in CONFIGURATIONS for name in ("cmesh", "cmesh-routes")]
        for path in (f"/api/v1/namespaces/{NAMESPACE}", f"/apis/{GROUP}", *gone):
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 404, f"{path} is gone")
        namespace = f"/api/v1/namespaces/{DEMO}"
        for path in (f"{namespace}/configmaps/mine", namespace):
            self.assertNotIn(harness.HASH_LABEL, self.labels_of(path))


if __name__ == "__main__":
    harness.main()
