#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pod that asks for it, end to end: the webhook tells the operator of localproxy as its proxy,
policies come from `kubectl apply`, and their status says what is in force. The containers of the pod
are run here, with the environment and the commands that its object has."""

import json
import os
import socket
import subprocess

import harness
import mesh
import played_pod
import shard
import upstream
import wire
from egress_case import CompanyProxy, Origin, basic_url
from webhook_case import API, GROUP, WebhookCase

DEMO = os.path.join(
    harness.ROOT, "test", "unit", "manager", "policy", "kusionstack_circuitbreaker.yaml"
)
PARTNER, ELSE = "partner.example", "else.example"
MERGE = "application/merge-patch+json"
POLICIES = {"CircuitBreaker": "circuitbreakers", "FaultInjection": "faultinjections"}
URL = "http://127.0.0.1:15002"


def breaker(*intercepts, limitings=(), name="guard"):
    spec = {"selector": {"matchLabels": {"app": "operator-demo"}}}
    if intercepts:
        spec["trafficInterceptRules"] = list(intercepts)
    if limitings:
        spec["rateLimitings"] = list(limitings)
    kind = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "CircuitBreaker"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def only(*hosts, name="only"):
    return {"name": name, "interceptType": "Whitelist", "contentType": "Normal",
            "contents": list(hosts), "methods": ["*"]}  # fmt: skip


class PodCase(WebhookCase):
    versions = ["v1"]
    manager_args = ("--leader-elect=false", "--probe-interval", "1", "--probe-any-address")

    def setUp(self):
        super().setUp()
        hosts = self.path("hosts", f"127.0.0.1 localhost {PARTNER} {ELSE}\n")
        self.names = shard.mount_prefix(f"mount --bind '{hosts}' /etc/hosts")
        if self.names is None:
            self.skipTest("mount namespaces are not permitted here")
        authority = self.authority()
        alternatives = f"DNS:{PARTNER},DNS:{ELSE},IP:127.0.0.1"
        self.context = upstream.server_context(*authority.server(alt=alternatives))
        self.origin = self.start(Origin, context=self.context)
        self.ns = self.namespace()
        config = mesh.config("shard-a", "a", mesh.limit({"matchLabels": {"mine": "yes"}}))
        config["metadata"]["namespace"] = self.ns
        self.taken(config)
        self.maps = f"/api/v1/namespaces/{self.ns}/configmaps/{mesh.CONFIG_MAP}shard-a"
        self.data = None

    def start(self, kind, **more):
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        server = kind(listener=listener, **more)
        self.addCleanup(self.end_upstream, server)
        return server

    # ---- the pod ----

    def injected(self, annotations, env=()):
        """The object of a pod that was created."""
        labels = {f"{GROUP}/enable-proxy": "true", "shard": "a", "app": "operator-demo"}
        metadata = {"name": "operator-0", "namespace": self.ns, "labels": labels}
        metadata["annotations"] = {f"{GROUP}/{key}": value for key, value in annotations.items()}
        container = {"name": "manager", "image": "operator", "command": ["/op"], "env": list(env)}
        spec = {"containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        made = harness.wait_for(lambda: self.try_pod(pod), "the manager knows the shard")
        self.assertEqual("shard-a", made["metadata"]["annotations"][mesh.INJECTED])
        return made

    def environment(self, pod, container):
        """Of a container of the pod: name -> variable."""
        containers = pod["spec"]["initContainers"] + pod["spec"]["containers"]
        (found,) = (c for c in containers if c["name"] == container)
        return {variable["name"]: variable for variable in found.get("env", ())}

    def run_pod(self, annotations, env=()):
        """Its sidecars run, and a kubelet says so."""
        made = self.injected(annotations, env)
        self.pod = played_pod.PlayedPod(
            self.addCleanup, self.folder, self.ns, kubeconfig=self.cluster.kubeconfig, pod=made
        )
        harness.wait_for(self.deliver, "the rules are there")
        self.pod.start_all(self.names)
        path = f"/api/v1/namespaces/{self.ns}/pods/operator-0/status"
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                  "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}  # fmt: skip
        self.cluster.json(path, "PATCH", {"status": status}, MERGE)
        return made

    def deliver(self):
        """As a kubelet does with a ConfigMap that is mounted."""
        answer = self.cluster.fetch(self.maps)
        data = json.loads(answer.body)["data"] if answer.status == 200 else None
        if data is not None and data != self.data:
            self.pod.mount.put(data)
            self.data = data
        return data

    # ---- policies ----

    def apply(self, thing, reason="Enforced"):
        """By kubectl; returns when the status says that it is enforced on the pod, or why not."""
        self.kubectl("-n", self.ns, "apply", "-f", "-", stdin=json.dumps(thing))
        return self.wait_enforced(thing["kind"], thing["metadata"]["name"], reason)

    def wait_enforced(self, kind, name, reason="Enforced"):
        path = f"{API}/namespaces/{self.ns}/{POLICIES[kind]}/{name}"
        found = []

        def look():
            self.deliver()
            found[:] = [self.cluster.json(path)]
            c = mesh.condition(found[0], "Enforced")
            current = c.get("observedGeneration") == found[0]["metadata"]["generation"]
            return current and c.get("reason") == reason and found[0]["status"]["pods"] == 1

        try:
            harness.wait_for(look, f"{name}: Enforced has the reason {reason}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(found)}") from None
        return found[0]

    def remove(self, thing):
        kind, name = thing["kind"], thing["metadata"]["name"]
        self.kubectl("-n", self.ns, "delete", POLICIES[kind], name)

    def events(self, reason):
        """How often it was told."""
        found = self.cluster.json(f"/api/v1/namespaces/{self.ns}/events")["items"]
        return sum(e.get("count", 1) for e in found if e["reason"] == reason)

    # ---- the operator ----

    def curl(self, url, *args):
        """The status; of a refused tunnel that of the proxy."""
        prefix, env = self.pod.operator_place()
        command = [*prefix, "curl", "-sS", "--max-time", "20", "-o", os.devnull, *args]
        command += ["--cacert", self.authority().certificate, "-w", "%{http_code} %{http_connect}"]
        done = subprocess.run(
            [*command, url], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        code, tunnel = (int(word) for word in done.stdout.split())
        return code or tunnel

    def partner(self, host=PARTNER):
        return f"{host}:{self.origin.port}"

    def wait_answer(self, code, url):
        def look():
            self.deliver()
            return self.curl(url) == code

        harness.wait_for(look, f"{url} is answered with {code}")


class InjectedTest(PodCase):
    def test_from_the_webhook_to_the_status(self):
        made = self.run_pod({"egress": "proxy"})
        env = self.environment(made, "manager")
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            self.assertEqual(URL, env[name]["value"])
        self.assertIn("kubernetes.default.svc", env["NO_PROXY"]["value"])
        self.assertEqual("127.0.0.1:15002",
                         self.environment(made, "cmesh-localproxy")["CMESH_EGRESS"]["value"])
        url = f"https://{self.partner()}/"
        # A loopback address, which nothing but a rule opens.
        self.assertEqual(403, self.curl(url))
        self.assertEqual(0, self.origin.accepted)
        hosts = only(self.partner(), self.partner("127.0.0.1"))
        self.apply(breaker(hosts))
        self.assertEqual(200, self.curl(url))
        self.assertEqual(403, self.curl(f"https://{self.partner(ELSE)}/"))
        self.assertEqual(1, self.origin.accepted)
        harness.wait_for(lambda: self.events("RequestsRefused") == 1, "it is told")
        table = self.kubectl("-n", self.ns, "get", "cbk")
        self.assertRegex(table, r"guard +1 +0 +1/1 ")
        self.check_breaker(url, hosts)
        self.remove(breaker())
        self.wait_answer(403, url)

    def check_breaker(self, url, hosts):
        """One that opens is told of as those for the API server are."""
        limit = {"name": "partner", "triggerPolicy": "Normal", "recoverPolicy": {"type": "Manual"},
                 "bucket": {"burst": 1, "limit": 1, "interval": "1h"},
                 "restRules": [{"url": f"https://{self.partner()}/*", "method": "*"}]}  # fmt: skip
        self.apply(breaker(hosts, limitings=[limit]))
        self.assertEqual(200, self.curl(url))
        self.assertEqual(429, self.curl(url))

        def told():
            table = self.kubectl("-n", self.ns, "get", "cbk")
            return "guard   1      1" in table and self.events("BreakerOpened") == 1

        harness.wait_for(told, "it is told that it is open")

    def test_a_pod_that_does_not_ask_for_it(self):
        """Such policies are in no force there, and their status says what to do."""
        made = self.run_pod({"egress": "off"})
        self.assertNotIn("HTTPS_PROXY", self.environment(made, "manager"))
        found = self.apply(breaker(only(PARTNER)), "NoEgress")
        message = mesh.condition(found, "Enforced")["message"]
        self.assertIn(f"{GROUP}/egress: proxy", message)
        self.assertIn("operator-0", message)

    def test_the_api_server_is_reached_as_before(self):
        """Clients that read these variables do not ask the proxy for it."""
        self.run_pod({"egress": "proxy"})
        prefix, env = self.pod.operator_place()
        command = [*prefix, self.cluster.env["KUBECTL"], "get", "configmaps", "-n", self.ns]
        env["KUBECONFIG"] = self.pod.path("etc/kubeconfig/config")
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        answer = wire.fetch(f"127.0.0.1:{self.pod.ports['5441']}", "/status")
        self.assertEqual(0, json.loads(answer.body)["egress"]["requests"])

    def test_faults(self):
        self.run_pod({"egress": "proxy"})
        self.apply(breaker(only(self.partner(), self.partner("127.0.0.1"))))
        url = f"https://{self.partner()}/"
        self.assertEqual(200, self.curl(url))
        rule = {"name": "partner-down", "abort": {"httpStatus": 503, "percent": "100"},
                "match": {"httpMatch": [{"host": {"exact": self.partner()}}]}}  # fmt: skip
        kind = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "FaultInjection"}
        spec = {"selector": {"matchLabels": {"app": "operator-demo"}}, "httpFault": [rule]}
        thing = {**kind, "metadata": {"name": "down"}, "spec": spec}
        self.apply(thing)
        self.assertEqual(503, self.curl(url))
        self.remove(thing)
        self.wait_answer(200, url)

    def test_as_another_mesh_has_it(self):
        """KusionStack's variable, its demo, and its header: no other program is led anywhere."""
        made = self.run_pod({}, [{"name": "ENABLE_REST_BREAKER", "value": "true"}])
        self.assertNotIn("HTTPS_PROXY", self.environment(made, "manager"))
        with open(DEMO, encoding="utf-8") as f:
            self.kubectl("-n", self.ns, "apply", "-f", "-", stdin=f.read())
        self.wait_enforced("CircuitBreaker", "breaker-demo")
        plain = self.start(Origin)

        def ask(host, method="GET"):
            address = f"127.0.0.1:{self.pod.ports['15002']}"
            headers = [("Mesh-Real-Endpoint", f"http://{host}:{plain.port}/healthz")]
            return wire.fetch(address, "/", method, headers, None if method == "GET" else b"")

        self.assertEqual(200, ask("127.0.0.1").status)
        self.assertEqual(403, ask(PARTNER).status)
        self.assertEqual(403, ask("127.0.0.1", "POST").status)  # it is for GET alone
        self.assertEqual(["/healthz"], [request.target for request in plain.requests])

    def test_a_proxy_that_is_chained(self):
        company = self.start(CompanyProxy)
        company.far = "127.0.0.1"
        url = basic_url(f"127.0.0.1:{company.port}")
        own = [{"name": name, "value": url} for name in ("HTTP_PROXY", "HTTPS_PROXY")]
        made = self.run_pod({"egress": "chain"}, own)
        self.assertEqual(URL, self.environment(made, "manager")["HTTPS_PROXY"]["value"])
        via = self.environment(made, "cmesh-localproxy")["CMESH_EGRESS_VIA"]
        self.assertEqual(url, via["value"])
        self.assertEqual(200, self.curl(f"https://{self.partner()}/"))
        self.assertEqual([f"CONNECT {self.partner()}"], company.asked)
        self.apply(breaker(only(ELSE)))
        self.assertEqual(403, self.curl(f"https://{self.partner()}/"))
        self.assertEqual(1, len(company.asked))


class WebhookTest(PodCase):
    """What creating a pod says."""

    def try_egress(self, value, **spec):
        labels = {f"{GROUP}/enable-proxy": "true", "shard": "a"}
        metadata = {"generateName": "operator-", "namespace": self.ns, "labels": labels}
        metadata["annotations"] = {f"{GROUP}/egress": value}
        container = {"name": "manager", "image": "operator", "command": ["/op"]}
        container.update(spec.pop("container", {}))
        thing = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        return self.api.try_create({**thing, "spec": {"containers": [container], **spec}}, True)

    def test_refusals_and_warnings(self):
        harness.wait_for(lambda: self.try_egress("off").status == 201, "the shard is known")
        for value, spec, words in (
            ("yes", {}, 'must be "proxy", "chain" or "off"'),
            ("proxy", {"hostNetwork": True}, "on the host's network"),
            ("proxy", {"container": {"ports": [{"containerPort": 15002}]}}, "15002: is a port of"),
            ("chain", {"container": {"env": [{"name": "HTTPS_PROXY", "value": "socks5://p:1"}]}},
             "SOCKS is not"),
        ):  # fmt: skip
            answer = self.try_egress(value, **spec)
            self.assertGreaterEqual(answer.status, 400)
            self.assertIn(words, answer.said)
        own = {"env": [{"name": "HTTPS_PROXY", "value": "http://p:3128"}]}
        for value, words in (("proxy", "has a proxy of its own"), ("chain", "lead to localproxy now")):
            answer = self.try_egress(value, container=own)
            self.assertEqual(201, answer.status, answer.said)
            self.assertIn(words, answer.said)


if __name__ == "__main__":
    harness.main()
