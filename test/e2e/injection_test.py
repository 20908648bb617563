#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Injected pods are pods to a real API server, and their commands are those of our programs.

The pods are those that the unit test of manager/inject compares its results with. This API server
knows no native sidecars; of those only the commands are tried. What a kubelet does with ordinary
ones is played.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import time

import harness
import manifests
import played_pod
import real_clients
import releases
import wire

PROGRAMS = ("kubeconfig-gen", "localproxy", "nat-init", "rulesync")
WRONG_USAGE = 2


class ApiServerTest(harness.TestCase):
    """What the API server says."""

    def test_pods_are_taken(self):
        cluster = harness.cluster()
        namespace = harness.make_namespace(cluster, "injection", self.addCleanup)
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        cluster.json(accounts, "POST", {"metadata": {"name": "operator-demo"}})
        harness.wait_for_pods(cluster, namespace, "operator-demo")
        count = 0
        for name, pod in played_pod.injected("ordinary"):
            with self.subTest(pod=name):
                made = cluster.json(f"/api/v1/namespaces/{namespace}/pods", "POST", pod)
                for kind in ("initContainers", "containers", "volumes"):
                    wanted = [item["name"] for item in pod["spec"][kind]]
                    stored = [item["name"] for item in made["spec"][kind]]
                    self.assertEqual(wanted, [name for name in stored if name in wanted])
                self.assertEqual([], manifests.lost(pod["spec"], made["spec"]))
                count += 1
        self.assertGreater(count, 0)


class PlayedPodTest(harness.TestCase):
    """The commands of an injected pod, in their order."""

    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.namespace = harness.make_namespace(self.cluster, "played", self.addCleanup)
        access = {"kubeconfig": self.cluster.kubeconfig}
        self.pod = played_pod.PlayedPod(self.addCleanup, self.folder, self.namespace, **access)

    def publish(self, generation=1):
        limit = harness.limit(["configmaps"], "mine=yes")
        self.pod.publish(harness.rules_document(limit, generation=generation))

    def test_the_operator_starts_after_its_proxy(self):
        self.pod.make_kubeconfig()
        rules = self.pod.start_container("cmesh-rules")
        time.sleep(1)
        self.assertIsNone(rules.poll(), "it waits for rules")
        self.publish()
        self.assertEqual(0, rules.wait(20))
        gate = self.pod.start_gate()
        time.sleep(1)
        self.assertIsNone(gate.poll(), "it waits for localproxy")
        self.pod.start_container("cmesh-localproxy")
        self.pod.start_container("cmesh-rulesync")
        self.assertEqual(0, gate.wait(20))
        answer = wire.fetch(f"127.0.0.1:{self.pod.ports['5441']}", "/readyz")
        self.assertEqual(200, answer.status)
        for name, labels in (("mine", {"mine": "yes"}), ("other", {})):
            path = f"/api/v1/namespaces/{self.namespace}/configmaps"
            self.cluster.json(path, "POST", {"metadata": {"name": name, "labels": labels}})
        out = self.pod.kubectl()("get", "configmaps", "-n", self.namespace, "-o", "name")
        self.assertEqual("configmap/mine\n", out)

    def test_the_operator_ends_before_its_proxy(self):
        self.publish()
        proxy, rulesync = self.pod.start_all()
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        lease = {"metadata": {"name": "operator"}, "spec": {"holderIdentity": "me"}}
        self.cluster.json(path, "POST", lease)
        address = f"127.0.0.1:{self.pod.ports['5443']}"
        watch = wire.Connection(address)
        self.addCleanup(watch.close)
        watch.send_head("GET", "/api/v1/configmaps?watch=true", self.pod.credentials())
        self.assertEqual(200, watch.read_head().status)
        for process in (proxy, rulesync):
            process.send_signal(signal.SIGTERM)
        rulesync.wait(20)
        time.sleep(3)  # the operator does what it was at
        body = json.dumps({"spec": {"holderIdentity": ""}}).encode()
        headers = [("Content-Type", "application/merge-patch+json"), *self.pod.credentials()]
        answer = wire.fetch(address, f"{path}/operator", "PATCH", headers, body)
        self.assertEqual(200, answer.status, answer)
        watch.close()
        self.assertEqual(0, proxy.wait(8))

    def test_who_has_no_token_gets_nothing(self):
        """Neither an SSRF of the operator nor another container; but probes and metrics go on. The
        token's file is the sidecars' own, and a pod that starts again keeps the token."""
        self.publish()
        self.pod.start_all()
        address = f"127.0.0.1:{self.pod.ports['5443']}"
        for target in ("/version", "/api/v1/secrets", "/api/v1/pods?watch=true"):
            self.assertEqual(401, wire.fetch(address, target).status, target)
        wrong = [("Authorization", "Bearer " + "x" * 43)]
        self.assertEqual(401, wire.fetch(address, "/version", headers=wrong).status)
        right = self.pod.credentials()
        self.assertEqual(200, wire.fetch(address, "/version", headers=right).status)
        for port, target in (("5441", "/readyz"), ("5441", "/metrics"), ("5442", "/healthz")):
            answer = wire.fetch(f"127.0.0.1:{self.pod.ports[port]}", target)
            self.assertEqual(200, answer.status, target)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.path("run/token")).st_mode))
        self.pod.make_kubeconfig()
        self.assertEqual(right, self.pod.credentials())

    def kubectls(self):
        """Of each release that is here: the older ones have another client-go."""
        folders, _ = releases.folders()
        yield self.pod.kubectl()
        for folder in folders or ():
            kubectl = self.pod.kubectl()
            kubectl.program = os.path.join(folder, "kubectl")
            yield kubectl

    def test_real_clients_send_the_token(self):
        """They are given the operator's kubeconfig, and nothing else."""
        self.publish()
        self.pod.start_all()
        kubeconfig = self.path("etc/kubeconfig/config")
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        mine = {"metadata": {"name": "mine", "labels": {"mine": "yes"}}}
        self.cluster.json(path, "POST", mine)
        for kubectl in self.kubectls():
            out = kubectl("get", "configmaps", "-n", self.namespace, "-o", "name")
            self.assertEqual("configmap/mine\n", out, kubectl.program)
        if real_clients.have_python_client():
            self.run_lister([real_clients.PYTHON, "list_pods.py"], kubeconfig)
        if real_clients.install_js_client():
            modules = os.path.join(real_clients.install_js_client(), "node_modules")
            os.symlink(modules, self.path("node_modules"))
            self.run_lister(["node", "--preserve-symlinks-main", "list_pods.mjs"], kubeconfig)
        folder, missing = real_clients.go_folder()
        if missing:
            self.skipTest(missing)
        watches = [f"{form}:configmaps@{self.namespace}" for form in ("typed", "json", "metadata")]
        command = [os.path.join(folder, "informer"), f"--kubeconfig={kubeconfig}"]
        client = real_clients.Client("go", command, watches)
        self.addCleanup(client.close)
        real_clients.wait_synced([client])
        self.cluster.json(path, "POST", {"metadata": {"name": "later", "labels": {"mine": "yes"}}})
        for watch in watches:
            seen = f"{self.namespace}/later"
            harness.wait_for(
                lambda w=watch: any(e.key == seen for e in client.of(w, "add")), "it is seen"
            )

    def run_lister(self, command, kubeconfig):
        """One of those in clients/. Node finds packages beside the script."""
        shutil.copy(os.path.join(real_clients.PROGRAMS, command[-1]), self.folder)
        done = subprocess.run(
            [*command[:-1], self.path(command[-1]), kubeconfig],
            env=harness.clean_environment(HOME=self.folder),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("pods", json.loads(done.stdout), command)

    def test_the_pod_starts_again_without_its_configmap(self):
        self.publish(3)
        for process in self.pod.start_all():
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        shutil.rmtree(self.pod.mount.path)
        self.pod.start_all()
        answer = wire.fetch(f"127.0.0.1:{self.pod.ports['5441']}", "/status")
        self.assertEqual(3, json.loads(answer.body)["rules"]["generation"])


    # ---- traffic policies ----

    TRAFFIC = {
        "apiVersion": "cmesh/v1",
        "kind": "ShardTraffic",
        "generation": 1,
        "spec": {
            "breakers": [
                {
                    "name": "guard",
                    "uid": "g",
                    "spec": {
                        "selector": {"matchLabels": {"control-plane": "controller-manager"}},
                        "rateLimitings": [
                            {
                                "name": "configmaps",
                                "triggerPolicy": "Normal",
                                "bucket": {"burst": 1, "limit": 1, "interval": "1h"},
                                "recoverPolicy": {"type": "Manual"},
                                "resourceRules": [
                                    {
                                        "apiGroups": [""],
                                        "resources": ["configmaps"],
                                        "verbs": ["*"],
                                        "namespaces": ["*"],
                                    }
                                ],
                            }
                        ],
                    },
                }
            ],
            "faults": [
                {
                    "name": "canary",
                    "uid": "c",
                    "spec": {
                        "selector": {"matchLabels": {"canary": "yes"}},
                        "httpFault": [
                            {
                                "name": "secrets",
                                "match": {"resources": [{"resources": ["secrets"]}]},
                                "abort": {"httpStatus": 503, "percent": 100},
                            }
                        ],
                    },
                }
            ],
        },
    }

    def ask(self, resource):
        path = f"/api/v1/namespaces/{self.namespace}/{resource}"
        address = f"127.0.0.1:{self.pod.ports['5443']}"
        return wire.fetch(address, path, headers=self.pod.credentials())

    def is_kept(self):
        with open(self.pod.path("run/breakers.json"), encoding="utf-8") as f:
            return "configmaps" in f.read()

    def check_open(self):
        answer = self.ask("configmaps")
        self.assertEqual(429, answer.status)
        self.assertIn(b'rule \\"configmaps\\": is open since', answer.body)

    def test_traffic_policies(self):
        """They are in force from the first request on, a breaker stays open when localproxy's
        container is started again, and labels that change choose others."""
        limit = harness.limit(["configmaps"], "mine=yes")
        self.pod.publish(harness.rules_document(limit, generation=1), self.TRAFFIC)
        proxy, _ = self.pod.start_all()
        self.assertEqual(200, self.ask("configmaps").status)
        answer = self.ask("configmaps")
        self.assertEqual(429, answer.status)
        self.assertIn(b"over the limit of 1 in 1h", answer.body)
        self.check_open()
        harness.wait_for(self.is_kept, "the open breaker is written down")
        proxy.kill()
        proxy.wait()
        self.pod.start_container("cmesh-localproxy")
        self.pod.wait_done(self.pod.start_gate(), "the gate")
        self.check_open()
        self.assertEqual(200, self.ask("secrets").status)
        self.pod.put_labels({"canary": "yes"})
        harness.wait_for(lambda: self.ask("secrets").status == 503, "the pod is a canary")
        self.assertEqual(200, self.ask("configmaps").status, "the breaker is for others")


class CommandTest(harness.TestCase):
    """What the programs say. Here they cannot do their work, but must know every flag."""

    def run_command(self, command):
        if "--once" in command:
            command = [*command, "--timeout=1"]
        # Which whoever has used localproxy as root has on this machine, too.
        command = [word.replace("/var/lib/cmesh", self.path("nothing")) for word in command]
        program = harness.program(command[0])
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", program, *command[1:]],
            env=harness.clean_environment(HOME=self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(harness.end_process, process)
        return process.wait(20), process.stderr.read()

    def commands(self, container):
        yield container["command"] + container["args"]
        hook = container.get("lifecycle", {}).get("postStart", {})
        if hook:
            yield hook["exec"]["command"]

    def test_flags(self):
        seen = set()
        for kind in ("ordinary", "native"):
            for _, pod in played_pod.injected(kind):
                spec = pod["spec"]
                for container in spec["initContainers"] + spec["containers"]:
                    if not container["name"].startswith("cmesh-"):
                        continue
                    for command in self.commands(container):
                        seen.add(tuple(command))
        self.assertEqual(set(PROGRAMS), {command[0] for command in seen})
        for command in sorted(seen):
            with self.subTest(command=command):
                code, err = self.run_command(command)
                self.assertNotEqual(WRONG_USAGE, code, err)
                self.assertNotEqual(0, code, "it was to fail for want of a pod")


if __name__ == "__main__":
    harness.main()
