#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A manager that answers nobody but the API server, by the certificate that its
AdmissionConfiguration has it show (--webhook-client-ca).
"""

import json
import os
import ssl
import subprocess

import harness
import pki
import upstream
import wire
from webhook_case import WebhookCase, control_labels, given_control_labels
from webhook_test import config_map, operator, sharding_config

NAME = "kube-apiserver-webhooks"
PLUGINS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")


def replace_file(source, path):
    """In one step, as the kubelet does."""
    with open(source, "rb") as f, open(path + ".new", "wb") as new:
        new.write(f.read())
    os.rename(path + ".new", path)


class ClientCase(WebhookCase):
    """With a control plane of its own, whose API server has such a configuration."""

    @classmethod
    def setUpClass(cls):
        folder = cls.make_folder(cls.addClassCleanup)
        for name in ("clients", "others"):
            os.mkdir(os.path.join(folder, name))
        cls.clients = pki.Authority(os.path.join(folder, "clients"))
        cls.others = pki.Authority(os.path.join(folder, "others"))
        cls.trusted = os.path.join(folder, "trusted.crt")
        replace_file(cls.clients.certificate, cls.trusted)
        cls.manager_args = ("--webhook-client-ca", cls.trusted, "--webhook-client-name", NAME)
        configuration = cls.configuration_file(folder)
        cls.own_cluster(f"--admission-control-config-file={configuration}")
        super().setUpClass()

    @classmethod
    def configuration_file(cls, folder):
        """As docs/manager.md has it; for webhooks by URL, all of which are meant by "*"."""
        certificate, key = cls.clients.client(NAME)
        kubeconfig = os.path.join(folder, "webhooks.kubeconfig")
        user = {"client-certificate": certificate, "client-key": key}
        with open(kubeconfig, "w", encoding="ascii") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}, f)
        group = "apiserver.config.k8s.io/v1"
        what = {
            "apiVersion": group,
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": kubeconfig,
        }
        path = os.path.join(folder, "admission.json")
        with open(path, "w", encoding="ascii") as f:
            plugins = [{"name": name, "configuration": what} for name in PLUGINS]
            json.dump({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}, f)
        return path

    def ask(self, authority=None, name=NAME):
        """The status of an answer; None: the handshake failed."""
        tls = self.tls()
        if authority is not None:
            tls.load_cert_chain(*authority.client(name))
        headers = [("Content-Type", "application/json")]
        try:
            return wire.fetch(self.webhook, "/mutate/pods", "POST", headers, b"{}", tls=tls).status
        except (ssl.SSLError, ConnectionResetError, BrokenPipeError, wire.Cut):
            return None


class ClientCertificateTest(ClientCase):
    def test_the_api_server_is_answered(self):
        ns = self.namespace()
        self.create(sharding_config(ns))
        thing = harness.wait_for(lambda: self.try_pod(operator(ns)), "the shard is known")
        names = [c["name"] for c in thing["spec"]["containers"] + thing["spec"]["initContainers"]]
        self.assertIn("cmesh-localproxy", names)
        self.assertEqual(control_labels(ns), given_control_labels(self.create(config_map(ns))))

    def test_nobody_else_is(self):
        key = 'cmesh_webhook_dropped_total{reason="unverified"}'
        before = self.manager.metrics()[key]
        self.assertEqual(400, self.ask(self.clients))
        self.assertIsNone(self.ask())
        self.assertIsNone(self.ask(self.clients, "kubelet"))
        self.assertIsNone(self.ask(self.others))
        self.assertEqual(before + 3, self.manager.metrics()[key])

    def test_the_api_server_may_tell_names(self):
        """Nobody else gets a refusal, so it has the name of the other shard."""
        ns = self.namespace()
        self.create(sharding_config(ns))
        harness.wait_for(
            lambda: self.is_refused(sharding_config(ns, "shard-b")),
            "the first shard is known",
        )
        self.refused(sharding_config(ns, "shard-b"), '"shard-a"')

    def test_other_authorities_are_taken_without_a_restart(self):
        self.addCleanup(self.trust, self.clients)
        self.trust(self.others)
        self.assertIsNone(self.ask(self.clients))
        with open(self.trusted, "w", encoding="ascii") as f:
            f.write("nothing of use")
        harness.wait_for(lambda: "cannot be used" in self.manager.log(), "it is read")
        self.assertEqual(400, self.ask(self.others))

    def trust(self, authority):
        replace_file(authority.certificate, self.trusted)
        harness.wait_for(lambda: self.ask(authority) == 400, "the file was read", interval=0.2)


class StartTest(harness.TestCase):
    """What is wrong at the start is said at once."""

    def start(self, *args):
        kubeconfig = upstream.write_kubeconfig(self.path("kubeconfig"), "http://127.0.0.1:1")
        command = [harness.program("manager"), "--kubeconfig", kubeconfig, "--admin=127.0.0.1:0",
                   "--namespace=x", "--webhook=127.0.0.1:0", *args]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                              env=harness.clean_environment())  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def test_a_file_that_is_of_no_use(self):
        for content, says in ((None, "No such file"), ("", "no certificate"), ("x", "certificate")):
            with self.subTest(content=content):
                path = self.path("none") if content is None else self.path("some", content)
                code, _, err = self.start(f"--webhook-client-ca={path}")
                self.assertEqual(1, code, err)
                self.assertIn("--webhook-client-ca", err)
                self.assertIn(says.lower(), err.lower())

    def test_a_name_without_a_file(self):
        code, _, err = self.start("--webhook-client-name=x")
        self.assertEqual(2, code, err)
        self.assertIn("--webhook-client-ca", err)
