#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Certificates of the webhooks that live for seconds, under a stream of requests of which none may
fail: two replicas (`test/support/admit`), the API server, and clients that trust what it was told
to trust at most a moment ago.
"""

import base64
import contextlib
import json
import os
import ssl
import subprocess
import threading
import time

import harness
import wire
from webhook_case import CONFIGURATIONS, SECRET

# A third of it is left when the next is made: a busy machine may take some seconds until all use it.
SHORT_LIVES = ["--authority-seconds", "72", "--serving-seconds", "24"]
LONG_LIVES = ["--authority-seconds", "7200", "--serving-seconds", "3600"]
SETTLE_MS = 3000
LATE_SECONDS = 2  # a client may be as late as this: less than SETTLE_MS
PAUSE = 0.15  # from one request to the next: what goes wrong does so for seconds
MUTATING = CONFIGURATIONS + "/mutatingwebhookconfigurations"


class Admit:
    """One replica."""

    def __init__(self, folder, name, namespace, lives):
        self.ready_file = os.path.join(folder, name + ".json")
        self.log_path = os.path.join(folder, name + ".log")
        command = ["setpriv", "--pdeathsig", "KILL", harness.program("admit", "test/support")]
        command += ["--kubeconfig", harness.cluster().kubeconfig, "--namespace", namespace]
        command += ["--host", "127.0.0.1", "--ready-file", self.ready_file]
        command += [*lives, "--settle-ms", str(SETTLE_MS)]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=harness.clean_environment()
            )
        harness.wait_for(lambda: os.path.exists(self.ready_file), f"{name} listens")
        with open(self.ready_file, encoding="utf-8") as f:
            self.webhook = json.load(f)["webhook"]

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self):
        self.process.terminate()
        code = self.process.wait(20)
        if code != 0 or harness.SANITIZER_REPORT.search(self.log()):
            raise AssertionError(f"admit exited with {code}:\n{self.log()}")


class RotationTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.home = harness.make_namespace(self.cluster, "cmesh-turn", self.addCleanup)
        label = {"metadata": {"labels": {"cmesh-e2e": self.home}}}
        path = f"/api/v1/namespaces/{self.home}"
        self.cluster.json(path, "PATCH", label, "application/merge-patch+json")
        self.failures = []
        self.ending = threading.Event()
        self.authorities = set()
        self.served = set()

    def start_replica(self, name, lives):
        replica = Admit(self.folder, name, self.home, lives)
        self.addCleanup(replica.stop)
        return replica

    def configure(self, lives):
        """Each change of a ConfigMap is sent to both replicas, and fails unless both answer."""
        self.replicas = [self.start_replica(f"admit-{i}", lives) for i in range(2)]
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }
        selector = {"matchLabels": {"cmesh-e2e": self.home}}
        webhooks = [
            {
                "name": f"replica-{i}.cmesh.test",
                "clientConfig": {"url": f"https://{replica.webhook}/mutate/namespaces"},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 30,
                "namespaceSelector": selector,
                "rules": [rule],
            }
            for i, replica in enumerate(self.replicas)
        ]
        name = self.home + "-turn"
        labels = {"app.kubernetes.io/part-of": "cmesh"}
        self.addCleanup(self.cluster.fetch, f"{MUTATING}/{name}", "DELETE")
        thing = {"metadata": {"name": name, "labels": labels}, "webhooks": webhooks}
        self.cluster.json(MUTATING, "POST", thing)
        self.path = f"{MUTATING}/{name}"
        harness.wait_for(lambda: all(self.bundles()), "the bundles are there")
        path = f"/api/v1/namespaces/{self.home}/configmaps?dryRun=All"
        body = json.dumps({"metadata": {"name": "x"}}).encode()
        headers = [("Content-Type", "application/json")]
        harness.wait_for(
            lambda: self.cluster.fetch(path, "POST", headers, body).status == 201,
            "the webhooks work",
        )

    def bundles(self):
        webhooks = self.cluster.json(self.path)["webhooks"]
        return [
            base64.b64decode(w["clientConfig"].get("caBundle", "")).decode() for w in webhooks
        ]

    def note(self, what):
        self.failures.append(f"{time.strftime('%H:%M:%S')} {what}")

    # ---- the stream ----

    def write(self):
        """Through the API server, on whatever connections it keeps."""
        path = f"/api/v1/namespaces/{self.home}/configmaps"
        body = json.dumps({"metadata": {"generateName": "x-"}}).encode()
        headers = [("Content-Type", "application/json")]
        while not self.ending.is_set():
            answer = self.cluster.fetch(path + "?dryRun=All", "POST", headers, body)
            if answer.status != 201:
                self.note(f"{answer.status} {answer.body[:300]}")
            self.written += 1
            self.ending.wait(PAUSE)

    def connect(self):
        """On connections of its own, trusting what was published up to LATE_SECONDS ago. Of `known`
        each was still published at its time."""
        known = []
        while not self.ending.is_set():
            asked = time.monotonic()
            bundle = self.bundles()[0]
            self.authorities.update(
                text.strip() for text in bundle.split("-----END CERTIFICATE-----")[:-1]
            )
            known.append((asked, bundle))
            while len(known) > 1 and known[0][0] < time.monotonic() - LATE_SECONDS:
                known.pop(0)
            for since, text in (known[0], known[-1]):
                for replica in self.replicas:
                    self.handshake(text, replica, since)
            self.ending.wait(PAUSE)

    def handshake(self, bundle, replica, since):
        """With a bundle that was published at `since`. On a busy machine it may take so long that
        more time has passed than anybody is promised: that is not judged."""
        context = ssl.create_default_context(cadata=bundle)
        try:
            with wire.Connection(replica.webhook, tls=context) as connection:
                self.served.add(connection.sock.getpeercert(True))
                answer = connection.request("GET", "/mutate/pods")
                self.handshakes += 1
            if answer.status != 405:
                self.note(f"answered {answer.status}")
        except ssl.SSLCertVerificationError as e:
            if time.monotonic() < since + SETTLE_MS / 1000:
                self.note(f"handshake: {e}")
        except (OSError, wire.Cut) as e:
            self.note(f"handshake: {e}")

    @contextlib.contextmanager
    def stream(self):
        """Requests while the body runs, of which none may fail."""
        self.written = self.handshakes = 0
        threads = [threading.Thread(target=t) for t in (self.write, self.connect)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.ending.set()
            for thread in threads:
                thread.join()
        self.assertEqual([], self.failures, self.logs()[-4000:])

    def logs(self):
        return "".join(replica.log() for replica in self.replicas)

    def secret(self):
        path = f"/api/v1/namespaces/{self.home}/secrets/{SECRET}"
        answer = self.cluster.fetch(path)
        return json.loads(answer.body)["data"] if answer.status == 200 else {}

    def test_nobody_notices(self):
        self.configure(SHORT_LIVES)
        with self.stream():
            harness.wait_for(
                lambda: len(self.authorities) >= 4 and len(self.served) >= 12 or self.failures,
                "there were enough of them",
                timeout=300,
            )
        print(
            f"{self.written} writes, {self.handshakes} handshakes, {len(self.authorities)} "
            f"authorities, {len(self.served)} serving certificates",
            flush=True,
        )
        self.assertGreater(self.written, 20)
        self.assertGreater(self.handshakes, 20)
        self.assertNotIn("repairing the webhooks", self.logs())

    def test_who_deletes_the_secret_gets_another_authority(self):
        self.configure(LONG_LIVES)
        first = self.secret()["ca.crt"]
        path = f"/api/v1/namespaces/{self.home}/secrets/{SECRET}"
        with self.stream():
            self.cluster.fetch(path, "DELETE")
            harness.wait_for(
                lambda: self.secret().get("ca.crt", first) != first, "another authority signs"
            )
            self.assertEqual(first, self.secret()["previous-ca.crt"])
            time.sleep(2 * LATE_SECONDS)
            patch = {"data": {"previous-ca.crt": None}}
            self.cluster.json(path, "PATCH", patch, "application/merge-patch+json")
            old = base64.b64decode(first).decode()
            harness.wait_for(lambda: old not in self.bundles()[0], "the first is trusted no more")
            time.sleep(2 * LATE_SECONDS)
        self.assertEqual(1, self.bundles()[0].count("BEGIN CERTIFICATE"))

    def test_a_replica_that_starts_late_shows_the_same(self):
        self.configure(LONG_LIVES)
        third = self.start_replica("admit-third", LONG_LIVES)

        def shown(replica):
            context = ssl.create_default_context(cadata=self.bundles()[0])
            with wire.Connection(replica.webhook, tls=context) as connection:
                return connection.sock.getpeercert(True)

        def same():
            try:
                return len({shown(r) for r in (*self.replicas, third)}) == 1
            except OSError:
                return False

        harness.wait_for(same, "all three show the same certificate")


if __name__ == "__main__":
    harness.main()
