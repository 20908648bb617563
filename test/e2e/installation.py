# SPDX-License-Identifier: Apache-2.0
"""An installed mesh on a control plane without nodes: what its Deployment would run is run here, with
the rights that the installation gives it, and the cluster is the judge.
"""

import base64
import json
import os
import signal
import subprocess

import harness
import mesh
import upstream
import wire

K8S = os.path.join(harness.ROOT, "k8s")
ACCOUNT = "cmesh-manager"
GROUP = "ctrlmesh.kusionstack.io"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
DEMO = "operator-demo"
FINALIZER = "finalizer.ctrlmesh.kusionstack.io/protected"


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


def circuit_breaker():
    resources = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["delete"], "namespaces": ["*"]}
    limiting = {
        "name": "deletes",
        "resourceRules": [resources],
        "bucket": {"burst": 1, "limit": 1, "interval": "10s"},
        "triggerPolicy": "LimiterOnly",
    }
    return policy("CircuitBreaker", {"selector": {}, "rateLimitings": [limiting]})


def fault_injection():
    fault = {
        "name": "lists",
        "match": {"resources": [{"verbs": ["list"]}]},
        "delay": {"fixedDelay": "1s", "percent": "1"},
    }
    return policy("FaultInjection", {"selector": {}, "httpFault": [fault]})


def policy(kind, spec):
    """As another controller mesh leaves it."""
    metadata = {"name": "guard", "finalizers": [FINALIZER]}
    return {"apiVersion": GROUP + "/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def pod():
    labels = {"shard": "blue", GROUP + "/enable-proxy": "true"}
    container = {"name": "operator", "image": "example.com/operator", "command": ["/operator"]}
    return {"metadata": {"name": "blue-0", "labels": labels}, "spec": {"containers": [container]}}


class InstallationCase(harness.TestCase):
    """On a control plane that others do not use, for the webhooks concern all namespaces."""

    home = "cmesh-system"  # the manager's namespace

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.kubectl_program = cls.cluster.env["KUBECTL"]

    def kubectl(self, *args, program=None):
        """Standard output; the command must succeed."""
        command = [program or self.kubectl_program, *args]
        command += ["--kubeconfig", self.cluster.kubeconfig]
        env = harness.clean_environment(HOME=self.folder)
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=180, env=env
        )
        self.assertEqual(0, result.returncode, f"{command}: {result.stderr}")
        return result.stdout

    def deployed(self):
        """The flags and variables of the Deployment's container."""
        path = f"/apis/apps/v1/namespaces/{self.home}/deployments/cmesh-manager"
        container = self.cluster.json(path)["spec"]["template"]["spec"]["containers"][0]
        env = {}
        for source in container["envFrom"]:
            name = source["configMapRef"]["name"]
            path = f"/api/v1/namespaces/{self.home}/configmaps/{name}"
            env.update(self.cluster.json(path)["data"])
        return container["args"], env

    def account_kubeconfig(self, account=ACCOUNT):
        path = f"/api/v1/namespaces/{self.home}/serviceaccounts/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.cluster.json(path, "POST", request)["status"]["token"]
        return upstream.write_kubeconfig(
            self.path(account + ".kubeconfig"),
            self.cluster.env["APISERVER"],
            authority=self.cluster.env["CLUSTER_CA"],
            token=token,
        )

    def start_manager(self, name, webhook_port, shutdown_delay=15):
        """As deployed, but for what needs a pod around it, and with more time to see it go, or less
        of it to wait for."""
        args, env = self.deployed()
        instead = {
            "--in-cluster": f"--kubeconfig={self.account_kubeconfig()}",
            "--shutdown-delay=5": f"--shutdown-delay={shutdown_delay}",
            "--sharding-resources=/etc/cmesh/sharding-resources.yaml": "--sharding-resources="
            + os.path.join(K8S, "base", "sharding-resources.yaml"),
        }
        self.assertLessEqual(set(instead), set(args))
        command = [instead.get(arg, arg) for arg in args]
        command += [f"--namespace={self.home}", "--admin=127.0.0.1:0", "--lease-duration=3"]
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
                self.assertEqual(self.home, service["namespace"])
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
                service = {"namespace": self.home, "name": "cmesh-webhook", "path": target}
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
        green = sharding_config("c", name="green")
        green["metadata"]["finalizers"] = [FINALIZER]
        self.cluster.json(configs, "POST", green)
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
        harness.wait_for(
            lambda: "finalizers" not in self.cluster.json(f"{configs}/green")["metadata"],
            "the finalizer of another controller mesh is taken off",
        )
        self.work_with_policies()
        self.work_with_a_roll()
        self.work_with_a_root(configs)
        injected = self.cluster.json(f"/api/v1/namespaces/{DEMO}/pods/blue-0")
        native = self.cluster.behaves_as() >= (1, 29)  # sidecars are init containers
        where = {kind: [c["name"] for c in injected["spec"][kind]] for kind in ("initContainers", "containers")}
        sidecars = ["cmesh-localproxy", "cmesh-rulesync"]
        self.assertEqual(["operator"] if native else [*sidecars, "operator"], where["containers"])
        self.assertEqual(sidecars if native else [], [n for n in where["initContainers"] if n in sidecars])
        harness.wait_for(
            lambda: any("cmesh" in k for k in self.annotations_of_pod()), "the pod was told"
        )

    def work_with_policies(self):
        for kind, thing in (
            ("circuitbreakers", circuit_breaker()),
            ("faultinjections", fault_injection()),
        ):
            path = f"/apis/{GROUP}/v1alpha1/namespaces/{DEMO}/{kind}"
            self.cluster.json(path, "POST", thing)

            def settled(path=f"{path}/guard"):
                now = self.cluster.json(path)
                return "finalizers" not in now["metadata"] and now.get("status", {}).get("conditions")

            harness.wait_for(settled, f"the finalizer of {kind} is taken off, and a status is there")

    def work_with_a_roll(self):
        """Its pod is not Ready, for there is no kubelet, and so waits for nothing."""
        path = f"/apis/apps/v1/namespaces/{DEMO}/statefulsets"
        pod_path = f"/api/v1/namespaces/{DEMO}/pods/rolled-0"
        labels = {"app": "rolled"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "c"}]},
        }
        spec = {
            "replicas": 1,
            "serviceName": "rolled",
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "OnDelete"},
            "template": template,
        }
        meta = {"name": "rolled", "labels": {f"{GROUP}/rolling": "all"}}
        self.cluster.json(path, "POST", {"metadata": meta, "spec": spec})

        def uid():
            answer = self.cluster.fetch(pod_path)
            return answer.status == 200 and json.loads(answer.body)["metadata"]["uid"]

        harness.wait_for(uid, "the StatefulSet has a pod")
        first = uid()
        change = {"spec": {"template": {"metadata": {"annotations": {"edit": "1"}}}}}
        self.cluster.json(f"{path}/rolled", "PATCH", change, "application/merge-patch+json")
        harness.wait_for(lambda: uid() not in (False, first), "its pod is replaced")
        self.cluster.json(f"{path}/rolled", "DELETE")

    def annotations_of_pod(self):
        path = f"/api/v1/namespaces/{DEMO}/pods/blue-0"
        annotations = self.cluster.json(path)["metadata"].get("annotations", {})
        return [k for k in annotations if not k.endswith("sharding-config-injected")]

    def end(self, manager):
        manager.send_signal(signal.SIGTERM)
        self.assertEqual(0, manager.wait(60))

    def left(self):
        """Of all objects those that have to do with us."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        kinds = [k for k in kinds if not k.startswith(("events", "componentstatuses"))]
        result = subprocess.run(
            [self.kubectl_program, "--kubeconfig", self.cluster.kubeconfig]
            + ["get", ",".join(kinds), "-A", "-o", "json"],
            capture_output=True,
            check=False,
            timeout=180,
        )
        if result.returncode != 0:
            return None  # kinds go while they are asked for
        found = []
        for thing in json.loads(result.stdout)["items"]:
            meta = thing["metadata"]
            told = [meta.get("namespace", ""), meta["name"], *meta.get("labels", {})]
            if any(word in text for text in told for word in ("cmesh", GROUP, DEMO)):
                found.append((thing["kind"], *told))
        return found

    def second_leads(self):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.home}/leases/cmesh-manager"
        lease = self.cluster.json(path)
        return lease["spec"].get("leaseTransitions", 0) >= 1 and lease["spec"].get("holderIdentity")

    def work_with_a_root(self, configs):
        """Shards are made of it, and one is deleted when it is not to be any more."""
        limit = {"relateResources": [{"apiGroups": [""], "resources": ["configmaps"]}]}
        limit["selector"] = {"matchLabels": {"auto": "yes"}}
        auto = {"shardingSize": 2, "everyShardReplicas": 1}
        root = {"prefix": "auto", "targetStatefulSet": "auto", "resourceSelector": [limit]}
        thing = {"apiVersion": GROUP + "/v1alpha1", "kind": "ShardingConfig"}
        thing.update(metadata={"name": "auto"}, spec={"root": {**root, "auto": auto}})
        self.cluster.json(configs, "POST", thing)
        last = f"{configs}/auto-2-normal"
        harness.wait_for(lambda: self.cluster.fetch(last).status == 200, "there are two shards")
        change = {"spec": {"root": {"auto": {"shardingSize": 1}}}}
        self.cluster.json(f"{configs}/auto", "PATCH", change, "application/merge-patch+json")
        harness.wait_for(lambda: self.cluster.fetch(last).status == 404, "one is deleted")
        self.cluster.json(f"{configs}/auto", "DELETE")

    def retire(self):
        """What k8s/README.md says is to be done first. The rules go with the last pod that mounts
        them."""
        self.kubectl("delete", "pods", "--all", "--namespace", DEMO, "--grace-period=0", "--force")
        for kinds in ("circuitbreakers,faultinjections", "shardingconfigs"):
            self.kubectl("delete", kinds, "--all", "--all-namespaces")
        path = f"/api/v1/namespaces/{DEMO}/configmaps/cmesh-rules-blue"
        harness.wait_for(lambda: self.cluster.fetch(path).status == 404, "no rules stay", 180)

    def unlabel(self):
        command = [harness.program("manager"), "unlabel", "--kubeconfig", self.cluster.kubeconfig]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        self.assertEqual(0, result.returncode, result.stderr)

    # ---- the webhooks of operators ----

    def route(self):
        """Writes entries, as the manager does where a configuration has the label."""
        webhook = {
            "name": "entry.example.com",
            "clientConfig": {"service": {"namespace": DEMO, "name": "hooks", "port": 20443}},
            "namespaceSelector": {"matchLabels": {"nobody": "has-this"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for kind in CONFIGURATIONS:
            path = f"{ADMISSION}/{kind}/cmesh-routes"
            self.assertEqual([], self.cluster.json(path).get("webhooks", []))
            change = {"webhooks": [webhook]}
            self.cluster.json(path, "PATCH", change, "application/merge-patch+json")

    def check_routes(self):
        """They are still there."""
        for kind in CONFIGURATIONS:
            webhooks = self.cluster.json(f"{ADMISSION}/{kind}/cmesh-routes").get("webhooks", [])
            self.assertEqual(["entry.example.com"], [webhook["name"] for webhook in webhooks])

    # ---- from the beginning to the end ----

    def live_through(self):
        """By install(), upgrade() and uninstall() of who derives from this."""
        self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": DEMO}})
        self.install()
        port = harness.free_port()
        first = self.start_manager("first", port, shutdown_delay=0)
        harness.wait_for(self.webhooks_are_trusted, "the webhooks are trusted")
        self.lead_webhooks_to(port)
        mesh.wait_webhooks(self.cluster)  # the API server has read what it is to trust
        self.work()
        self.lead_webhooks_back()
        self.route()
        self.upgrade()
        self.check_routes()
        second = self.start_manager("second", 0, shutdown_delay=0)
        self.end(first)
        harness.wait_for(self.second_leads, "the upgraded manager leads")
        self.assertTrue(self.webhooks_are_trusted())
        self.retire()
        self.end(second)
        self.uninstall()
        self.cluster.json(f"/api/v1/namespaces/{DEMO}", "DELETE")
        harness.wait_for(lambda: self.left() == [], "nothing is left", 120, 0.2)
