# SPDX-License-Identifier: Apache-2.0
"""A manager whose webhooks the API server calls: the process, and the configurations of
k8s/base/webhooks.yaml with URLs in the place of a Service, for namespaces of the test's own.
"""

import base64
import json
import os
import signal
import ssl
import subprocess

import api
import harness
import mesh
import wire

WEBHOOKS = os.path.join(harness.ROOT, "k8s", "base", "webhooks.yaml")
GROUP = mesh.GROUP
API = mesh.API
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
KINDS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
CONTROL_LABEL = GROUP + "/control"
OURS = "cmesh-e2e"  # the label of namespaces that the webhooks look at
SECRET = "cmesh-webhook-cert"


def hash_of(name):
    number = 0
    for character in name:
        number = (number * 33 + ord(character)) % 32
    return str(number)


def control_labels(namespace):
    return {
        harness.NAMESPACE_LABEL: namespace,
        harness.HASH_LABEL: hash_of(namespace),
        CONTROL_LABEL: "true",
    }


def given_control_labels(thing):
    keys = control_labels("")
    return {k: v for k, v in thing["metadata"].get("labels", {}).items() if k in keys}


class Manager:
    """A manager process on free ports. It must end well, and without a sanitizer's report."""

    def __init__(self, folder, name, args):
        self.name = name
        self.expected = 0
        self.ready_file = os.path.join(folder, name + "-ready.json")
        self.log_path = os.path.join(folder, name + ".log")
        if os.path.exists(self.ready_file):
            os.unlink(self.ready_file)
        command = ["setpriv", "--pdeathsig", "KILL", harness.program("manager")]
        command += ["--kubeconfig", harness.cluster().kubeconfig, "--admin", "127.0.0.1:0"]
        command += ["--webhook-host", "127.0.0.1", "--ready-file", self.ready_file, *args]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=harness.clean_environment()
            )
        harness.wait_for(self.listens, f"{name} listens")
        with open(self.ready_file, encoding="utf-8") as f:
            bound = json.load(f)
        self.admin, self.webhook = bound["admin"], bound["webhook"]

    def listens(self):
        if self.process.poll() is not None:
            raise AssertionError(f"manager ended: {self.process.returncode}\n{self.log()}")
        return os.path.exists(self.ready_file)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ready(self):
        return wire.fetch(self.admin, "/readyz").status == 200

    def wait_ready(self):
        harness.wait_for(self.ready, f"{self.name} is ready")

    def status(self):
        return json.loads(wire.fetch(self.admin, "/status").body)["webhook"]

    def metrics(self):
        """name{labels} -> value."""
        text = wire.fetch(self.admin, "/metrics").body.decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    def requests(self, webhook, result):
        key = f'cmesh_webhook_requests_total{{webhook="{webhook}",result="{result}"}}'
        return self.metrics()[key]

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.expected = -signal.SIGKILL
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"manager does not end on SIGTERM:\n{self.log()}") from None
        if harness.SANITIZER_REPORT.search(self.log()):
            raise AssertionError(f"a sanitizer found something:\n{self.log()}")
        if code != self.expected:
            raise AssertionError(f"manager exited with {code}:\n{self.log()}")


class WebhookCase(harness.TestCase):
    """Tests of a class share a manager, and namespaces with the label OURS are its own."""

    versions = ["v1", "v1beta1"]
    manager_args = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        cls.class_folder = cls.make_folder(cls.addClassCleanup)
        cls.kubectl = harness.Kubectl(cls.class_folder, cls.cluster.kubeconfig)
        cls.api = api.Api(cls.cluster)
        mesh.install(cls.addClassCleanup)
        cls.home = harness.make_namespace(cls.cluster, "cmesh-home", cls.addClassCleanup)
        cls.webhook = f"127.0.0.1:{harness.free_port()}"
        cls.manager = cls.start_manager("manager", cls.addClassCleanup, cls.webhook)
        cls.configure(cls.webhook)

    @classmethod
    def start_manager(cls, name, cleanup, webhook="127.0.0.1:0", args=()):
        args = ["--namespace", cls.home, "--sidecar-image", "cmesh.test/sidecars:1", *args]
        manager = Manager(
            cls.class_folder, name, ["--webhook", webhook, *args, *cls.manager_args]
        )
        cleanup(manager.stop)
        return manager

    # ---- configurations ----

    @classmethod
    def skeletons(cls):
        text = cls.kubectl("create", "--dry-run=client", "-o", "json", "-f", WEBHOOKS)
        decoder = json.JSONDecoder()
        things, text = [], text.strip()
        while text:
            thing, end = decoder.raw_decode(text)
            things += thing.get("items", [thing])
            text = text[end:].strip()
        return [thing for thing in things if "webhooks" in thing]  # not those of operators' webhooks

    @classmethod
    def configuration_name(cls):
        return f"{cls.home}-webhooks"

    @classmethod
    def configure(cls, address):
        """Creates what k8s/base/webhooks.yaml has, for our namespaces, and waits until it works."""
        for thing in cls.skeletons():
            thing["metadata"]["name"] = cls.configuration_name()
            for webhook in thing["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://{address}{path}"}
                webhook["admissionReviewVersions"] = cls.versions
                selector = webhook.setdefault("namespaceSelector", {})
                selector.setdefault("matchExpressions", []).append(
                    {"key": OURS, "operator": "In", "values": [cls.home]}
                )
            cls.create_configuration(thing)
        cls.wait_working()

    @classmethod
    def create_configuration(cls, thing):
        path = f"{CONFIGURATIONS}/{KINDS[thing['kind']]}"
        cls.addClassCleanup(cls.cluster.fetch, f"{path}/{thing['metadata']['name']}", "DELETE")
        return cls.cluster.json(path, "POST", thing)

    @classmethod
    def wait_working(cls):
        """Until the API server trusts the manager and knows what to send, by all configurations."""

        def all_have_bundle():
            webhooks = [w for kind in KINDS for w in cls.configuration(kind)["webhooks"]]
            return all(w["clientConfig"].get("caBundle") for w in webhooks)

        harness.wait_for(
            lambda: given_control_labels(cls.try_namespace("probe")) != {}
            and all(w.get("rules") for w in cls.configuration()["webhooks"])
            and all_have_bundle(),
            "the webhooks work",
        )

    @classmethod
    def configuration(cls, kind="MutatingWebhookConfiguration"):
        return cls.cluster.json(f"{CONFIGURATIONS}/{KINDS[kind]}/{cls.configuration_name()}")

    @classmethod
    def bundle(cls):
        """PEM: what the API server trusts."""
        client = cls.configuration()["webhooks"][0]["clientConfig"]
        return base64.b64decode(client.get("caBundle", "")).decode()

    # ---- objects ----

    @classmethod
    def namespace_object(cls, name, labels=None):
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {OURS: cls.home, **(labels or {})}},
        }

    @classmethod
    def try_namespace(cls, name):
        """What would become of one."""
        thing = cls.namespace_object(f"{cls.home}-{name}")
        return cls.cluster.json("/api/v1/namespaces?dryRun=All", "POST", thing)

    @classmethod
    def new_namespace_name(cls):
        return f"{cls.home}-{next(harness.Run.counter)}"

    def namespace(self, labels=None):
        """A new one, of which the name is returned."""
        name = self.new_namespace_name()
        self.addCleanup(self.cluster.fetch, f"/api/v1/namespaces/{name}", "DELETE")
        self.create(self.namespace_object(name, labels))
        harness.wait_for_pods(self.cluster, name)
        return name

    def get_namespace(self, name):
        return self.cluster.json(f"/api/v1/namespaces/{name}")

    def create(self, thing, dry_run=False):
        """The object as the server answers it."""
        return self.api.create(thing, dry_run)

    def is_refused(self, thing):
        return self.api.try_apply(thing, dry_run=True).status >= 400

    def try_pod(self, thing):
        answer = self.api.try_create(thing)
        return answer.thing if answer.status == 201 else None

    def taken(self, thing, dry_run=False):
        """Applies it; returns the warnings."""
        answer = self.api.try_apply(thing, dry_run)
        self.assertIn(answer.status, (200, 201), answer.said)
        return answer.said

    def refused(self, thing, *mentions, dry_run=False):
        """Tries to apply it; returns why it is refused."""
        answer = self.api.try_apply(thing, dry_run)
        self.assertGreaterEqual(answer.status, 400, answer.thing)
        for text in mentions:
            self.assertIn(text, answer.said)
        return answer.said

    # ---- the manager's own TLS ----

    def tls(self, bundle=None):
        """A client that trusts what the API server is told to trust, and no more."""
        return ssl.create_default_context(cadata=bundle or self.bundle())

    def post(self, path, body, method="POST", headers=(("Content-Type", "application/json"),)):
        return wire.fetch(self.webhook, path, method, headers, body, tls=self.tls())
