#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An API server that speaks TLS 1.3 alone, as that of Talos 1.14 does, and clients of one version alone: all
programs work with them where their library has TLS 1.3, and name the remedy where it has not.
"""

import json
import ssl
import subprocess
import unittest

import harness
import shard
import upstream
import wire
from webhook_case import Manager, WebhookCase, control_labels, given_control_labels
from webhook_test import config_map

HAS_TLS13 = harness.has_tls13()
ONLY_TLS13 = "--tls-min-version=VersionTLS13"
OFFERED = "TLS 1.2 was offered; TLS 1.3 needs a build on Debian 13"
JSON = [("Content-Type", "application/json")]
V = ssl.TLSVersion


def negotiated(address, context, version):
    """What a server speaks with a client of this version alone; None: it refuses."""
    context.minimum_version = context.maximum_version = version
    try:
        with wire.Connection(address, tls=context) as connection:
            return connection.sock.version()
    except (OSError, wire.Cut):
        return None


def rulesync_once(path, namespace, name):
    """Its exit code and what it says."""
    command = [harness.program("rulesync"), "--once", "--from-configmap", f"{namespace}/{name}"]
    command += ["--kubeconfig", harness.cluster().kubeconfig, "--to", path, "--timeout=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=harness.clean_environment())  # fmt: skip
    return done.returncode, done.stderr


@unittest.skipUnless(HAS_TLS13, "the programs have no TLS 1.3")
class WithTls13Test(WebhookCase):
    @classmethod
    def setUpClass(cls):
        cls.own_cluster(ONLY_TLS13)
        super().setUpClass()

    def test_the_api_server_speaks_nothing_else(self):
        context = ssl.create_default_context(cafile=self.cluster.env["CLUSTER_CA"])
        self.assertIsNone(negotiated(self.cluster.address, context, V.TLSv1_2))
        self.assertEqual("TLSv1.3", negotiated(self.cluster.address, context, V.TLSv1_3))

    def events(self, proxy, path):
        """Lines of a watch."""
        connection = proxy.connect()
        self.addCleanup(connection.close)
        connection.send_head("GET", f"{path}?watch=true")
        self.assertEqual(200, connection.read_head().status)
        text = b""
        while True:
            while b"\n" in text:
                line, _, text = text.partition(b"\n")
                yield json.loads(line)
            text += connection.read_some()

    def test_localproxy(self):
        ns = self.namespace()
        path = f"/api/v1/namespaces/{ns}/configmaps"
        for protocol in ("http1", "auto"):
            with self.subTest(protocol=protocol):
                args = [f"--upstream-protocol={protocol}", "--write-fence=off"]
                proxy = self.proxy([], args=args)
                events = self.events(proxy, path)
                name = f"made-by-{protocol}"
                thing = {"metadata": {"name": name}, "data": {"x": "y" * 300_000}}
                answer = proxy.fetch(path, "POST", JSON, json.dumps(thing).encode())
                self.assertEqual(201, answer.status, answer)
                event = next(e for e in events if e["object"]["metadata"]["name"] == name)
                self.assertEqual("ADDED", event["type"])
                listed = json.loads(proxy.fetch(path).body)
                self.assertIn(name, [i["metadata"]["name"] for i in listed["items"]])
                self.assertEqual(200, proxy.fetch(f"{path}/{name}", "DELETE").status)

    def test_the_webhook_is_called(self):
        """The API server is its client; others may be older."""
        ns = self.namespace()
        self.assertEqual(control_labels(ns), given_control_labels(self.create(config_map(ns))))
        for version, name in ((V.TLSv1_2, "TLSv1.2"), (V.TLSv1_3, "TLSv1.3")):
            self.assertEqual(name, negotiated(self.manager.webhook, self.tls(), version))

    def test_rulesync(self):
        thing = {"metadata": {"name": "rules"}, "data": {"rules.json": json.dumps(shard.document(1))}}
        ns = self.namespace()
        self.cluster.json(f"/api/v1/namespaces/{ns}/configmaps", "POST", thing)
        code, said = rulesync_once(self.path("rules.json"), ns, "rules")
        self.assertEqual(0, code, said)
        with open(self.path("rules.json"), encoding="utf-8") as f:
            self.assertEqual(1, json.load(f)["generation"])


@unittest.skipIf(HAS_TLS13, "the programs have TLS 1.3")
class WithoutTls13Test(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.own_cluster(ONLY_TLS13)

    def test_localproxy(self):
        answer = self.proxy([]).fetch("/api/v1/pods")
        self.assert_status_error(answer, 503, "ServiceUnavailable", [OFFERED])

    def test_manager(self):
        manager = Manager(self.folder, "manager", ["--webhook=off", "--namespace=cmesh-system"])
        self.addCleanup(manager.stop)
        harness.wait_for(lambda: OFFERED in manager.log(), "the manager says what to do")

    def test_rulesync(self):
        code, said = rulesync_once(self.path("rules.json"), "default", "rules")
        self.assertEqual(1, code)
        self.assertIn(OFFERED, said)


class ListenerTest(harness.TestCase):
    """Of localproxy."""

    def test_versions(self):
        _, kubeconfig = self.plain_upstream(upstream.always(lambda peer, _: peer.respond(200, b"{}")))
        certificate, key = self.authority().server()
        args = [f"--listen-tls-cert={certificate}", f"--listen-tls-key={key}"]
        proxy = self.proxy([], kubeconfig, args)
        for version, expected in ((V.TLSv1_2, "TLSv1.2"),
                                  (V.TLSv1_3, "TLSv1.3" if HAS_TLS13 else None)):  # fmt: skip
            context = ssl.create_default_context(cafile=self.authority().certificate)
            self.assertEqual(expected, negotiated(proxy.listen, context, version))
        if not HAS_TLS13:
            words = "the client offers no version or no cipher of TLS that is spoken here"
            harness.wait_for(lambda: words in proxy.log(), "the log says why")
            self.assertIn("TLS 1.3 needs a build on Debian 13", proxy.log())


if __name__ == "__main__":
    unittest.main()
