# SPDX-License-Identifier: Apache-2.0
"""How the manager begins and ends: its command line, what stands against it, signals, the Lease."""

import json
import os
import signal
import socket
import subprocess

import harness
import mesh
import wire

LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
ADMIN = ("--admin", "127.0.0.1:0")


class ManagerTestCase(harness.TestCase):
    """Runs managers that are expected to end by themselves, or to go on until they are told."""

    def run_to_end(self, *args):
        """Exit code and what was printed."""
        done = subprocess.run(
            [harness.program("manager"), *args],
            env=harness.clean_environment(HOME=self.folder),
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        self.assertIsNone(harness.SANITIZER_REPORT.search(done.stderr), done.stderr)
        return done.returncode, done.stderr + done.stdout

    def assert_fails(self, code, mentions, *args):
        actual, text = self.run_to_end(*args)
        self.assertEqual(code, actual, (args, text))
        for mention in mentions:
            self.assertIn(mention, text, args)
        self.assertLess(len(text), 1500, args)

    def start(self, kubeconfig, *args, name="manager"):
        """The process and what its ready file says."""
        ready = os.path.join(self.folder, name + ".ready")
        log = open(os.path.join(self.folder, name + ".log"), "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", harness.program("manager"),
             "--kubeconfig", kubeconfig, "--ready-file", ready, *ADMIN, *args],
            env=harness.clean_environment(HOME=self.folder), stderr=log,
        )  # fmt: skip
        self.addCleanup(harness.end_process, process)
        harness.wait_for(
            lambda: os.path.exists(ready) or process.poll() is not None, f"{name} listens"
        )
        self.assertIsNone(process.poll(), self.log(name))
        with open(ready, encoding="utf-8") as f:
            return process, json.load(f)

    def log(self, name="manager"):
        path = os.path.join(self.folder, name + ".log")
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ready(self, where):
        return wire.fetch(where["admin"], "/readyz").status == 200

    def leads(self, where):
        return json.loads(wire.fetch(where["admin"], "/status").body)["leader"]["leading"]

    def assert_ends_well(self, process, name="manager", within=20):
        self.assertEqual(0, process.wait(within), self.log(name))
        self.assertIsNone(harness.SANITIZER_REPORT.search(self.log(name)), self.log(name))


class CommandLineTest(ManagerTestCase):
    """Exit code 2, the word that is wrong, and where help is."""

    def test_wrong_usage(self):
        cases = (
            (["publish"], ['no command "publish"', "compile, coverage, unlabel", "manager --help"]),
            ([""], ['no command ""']),
            (["help"], ['no command "help"', 'is "manager --help" meant?']),
            (["version"], ['is "manager --version" meant?']),
            (["compil"], ['is "manager compile" meant?']),
            (["--lable-qps=5"], ["unknown flag --lable-qps; is --label-qps meant?"]),
            (["--kubeconfig=x", "compile"], ["compile must come first", "manager compile"]),
            (["--admin=127.0.0.1:99999"], ['--admin: "127.0.0.1:99999"']),
            (["--webhook=localhost:0"], ["--webhook: ", "localhost"]),
            (["--no-such-flag"], ["--no-such-flag"]),
            (["--in-cluster", "--context=x"], ["--in-cluster cannot be combined"]),
            (["--namespace=No_Name"], ["--namespace must be the name of a namespace"]),
            (["--watch-namespace=a.b"], ["--watch-namespace"]),
            (["--lease=A"], ["--lease"]),
            (["--identity="], ["--identity must not be empty"]),
            (["--webhook-host=a b"], ['--webhook-host: "a b" is neither a host name']),
            (["--shareable-namespaces=a b"], ['--shareable-namespaces: Invalid value: "a b"']),
            (["--sidecar-pull-policy=never"], ["--sidecar-pull-policy must be Always"]),
            (["--sidecar-image="], ["--sidecar-image: "]),
            (["--proxy-cpu=many"], ['--proxy-cpu: "many" is not a quantity']),
            (["--proxy-memory=64Mi", "--proxy-memory-limit=32Mi"], ["--proxy-memory: 64Mi is more"]),
            (["--proxy-arg=write-fence=audit"], ["--proxy-arg", "must be --FLAG=VALUE"]),
            (["--sidecar-env=CMESH_LISTEN=:1"], ["--sidecar-env: CMESH_LISTEN is given by the"]),
            (["--sidecar-env=A"], ['--sidecar-env: "A" must be NAME=VALUE']),
            (["--proxy-arg=--nonsense=1"], ["--proxy-arg", "unknown flag --nonsense"]),
            (["--webhook-service=a/b"], ["--webhook-service"]),
            (["--webhook-secret=-"], ["--webhook-secret"]),
            (["--lease-duration=1"], ["--lease-duration", "3"]),
            (["--native-sidecars=perhaps"], ["--native-sidecars", "auto"]),
            (["--label-prefix=a b"], ["--label-prefix: ", "a b"]),
            (["--label-qps=-1"], ["--label-qps"]),
            (["--admin=127.0.0.1:0", "more"], ['unexpected argument "more"']),
            (["compile"], ["-f FILE is missing", "manager compile --help"]),
            (["compile", "-f", "x", "--label-prefix=a b"], ['--label-prefix: Invalid value: "a b"']),
            (["coverage", "-f", "x"], ["--namespaces FILE is missing", "manager coverage --help"]),
            (["coverage", "--namespaces=x"], ["-f FILE is missing"]),
            (["coverage", "-f", "-", "--namespaces=-"], ["cannot both be standard input"]),
            (["coverage", "-f", "x", "--namespaces=x", "-o", "yaml"], ["text, json"]),
            (["check-operator"], ["which operator?", "manager check-operator --help"]),
            (["check-operator", "op"], ['"op" is not deployment/NAME']),
            (["check-operator", "deploy/A"], ['"deploy/A" is not deployment/NAME']),
            (["check-operator", "deploy/a", "b"], ['unexpected argument "b"']),
            (["check-operator", "sts/a", "-n", "A"], ['--namespace: "A" is not']),
            (["unlabel", "x"], ['unexpected argument "x"', "manager unlabel --help"]),
            (["unlabel", "--all-resources", "--sharding-resources=x"], ["cannot be combined"]),
        )
        for args, mentions in cases:
            with self.subTest(args=args):
                self.assert_fails(2, mentions, *args)

    def test_hosts_are_called_in_many_ways_and_an_empty_policy_is_none(self):
        hosts = ("My-Host.example.com", "cmesh_manager", "*.Example.com", "1.2.3.4", "::1")
        args = [f"--webhook-host={host}" for host in hosts]
        # What is checked last is all that is wrong.
        self.assert_fails(2, ['--webhook: "x"'], *args, "--sidecar-pull-policy=", "--webhook=x")

    def test_flags_that_do_nothing(self):
        for flag in ("--webhook-host=a", "--webhook-service=a", "--certificate-days=9"):
            args = (flag, "--webhook=off", "--kubeconfig=/no/such")
            self.assert_fails(1, ["no effect", "flag=" + flag.partition("=")[0]], *args)
        _, text = self.run_to_end("--webhook=off", "--kubeconfig=/no/such")
        self.assertNotIn("no effect", text)

    def test_help_and_version(self):
        for command in ([], ["check-operator"], ["compile"], ["coverage"], ["unlabel"]):
            with self.subTest(command=command):
                code, text = self.run_to_end(*command, "--help")
                self.assertEqual(0, code)
                self.assertIn("Usage:\n    manager", text)
                self.assertIn("--label-prefix", text)
                code, text = self.run_to_end(*command, "--version")
                self.assertEqual(0, code)
                self.assertRegex(text, r"^manager \d+\.\d+\.\d+(-\w+)?\n$")


class ObstacleTest(ManagerTestCase):
    """What keeps it from starting is one line with exit code 1; what may pass is waited for."""

    def setUp(self):
        super().setUp()
        closed = f"http://127.0.0.1:{harness.free_port()}"
        self.kubeconfig = self.path("kubeconfig", json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": closed}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip

    def taken(self):
        """A port that somebody else listens on."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return f"127.0.0.1:{listener.getsockname()[1]}"

    def test_what_it_cannot_start_with(self):
        taken = self.taken()
        resources = self.path("resources.yaml", "groupVersionKinds:\n  v1: [Pod]\n  apps: Pod\n")
        cases = (
            (["--kubeconfig", "/no/such"], ["--kubeconfig: /no/such", "No such file"]),
            (["--kubeconfig", self.kubeconfig, "--context", "d"], ["no context", "d"]),
            (["--kubeconfig", self.kubeconfig, "--admin", taken], [taken, "in use"]),
            (["--kubeconfig", self.kubeconfig, *ADMIN, "--webhook", taken], [taken, "in use"]),
            (["--kubeconfig", self.kubeconfig, "--sharding-resources", "/no/such"], ["--sharding-resources: /no/such"]),
            (["--kubeconfig", self.kubeconfig, "--sharding-resources", resources], [":3"]),
            (["--in-cluster"], ["not running in a pod", "--kubeconfig"]),
        )
        for args, mentions in cases:
            with self.subTest(args=args):
                self.assert_fails(1, ["cannot start", *mentions], *args)

    def test_an_api_server_that_is_away(self):
        process, where = self.start(
            self.kubeconfig, "--webhook", "127.0.0.1:0", "--lease-duration", "3"
        )
        harness.wait_for(
            lambda: b"refused" in wire.fetch(where["admin"], "/readyz").body, "it says so"
        )
        self.assertEqual(503, wire.fetch(where["admin"], "/readyz").status)
        self.assertEqual(200, wire.fetch(where["admin"], "/healthz").status)
        self.assertFalse(self.leads(where))
        harness.wait_for(lambda: "no manager leads" in self.log(), "it says what that means")
        self.assertIn('needed="an API server that answers"', self.log())
        process.send_signal(signal.SIGTERM)
        self.assert_ends_well(process)


class LeaderlessTest(ManagerTestCase):
    """A mesh in which nobody can lead does nothing, so it is not ready."""

    def setUp(self):
        super().setUp()
        mesh.install(self.addCleanup)

    def told(self):
        return self.log().count("no manager leads")

    def test_a_namespace_that_is_missing(self):
        cluster = harness.cluster()
        name = harness.make_namespace(cluster, "missing", self.addCleanup)
        path = f"/api/v1/namespaces/{name}"
        cluster.json(path, "DELETE")
        harness.wait_for(lambda: cluster.fetch(path).status == 404, f"{name} is gone")
        process, where = self.start(
            cluster.kubeconfig, "--namespace", name, "--watch-namespace", name, "--label-qps", "0",
            "--webhook", "127.0.0.1:0", "--lease-duration", "3",
        )  # fmt: skip
        answer = harness.wait_for(lambda: self.refuses(where), "it is not ready, and says why")
        missing = "404 NotFound: "  # and the API server's words
        self.assertIn(f"cannot create the lease {name}/cmesh-manager: {missing}", answer)
        self.assertIn("k8s/base/role.yaml", answer)
        status = json.loads(wire.fetch(where["admin"], "/status").body)
        self.assertGreaterEqual(status["leader"]["leaderlessSeconds"], 12)
        self.assertIn(missing, status["leader"]["error"])
        self.assertIn(missing, status["webhook"]["error"])
        harness.wait_for(lambda: self.told() >= 2, "it says so again")
        text = self.log().replace('\\"', '"')
        self.assertIn(f"cannot write Secret cmesh-webhook-cert: {missing}", text)
        cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": name}})
        harness.wait_for(lambda: self.leads(where) and self.ready(where), "it leads, and is ready")
        process.send_signal(signal.SIGTERM)
        self.assert_ends_well(process)

    def refuses(self, where):
        answer = wire.fetch(where["admin"], "/readyz")
        text = answer.body.decode()
        return text if answer.status == 503 and "no manager leads: none for" in text else None


class EndTest(ManagerTestCase):
    """With a real API server."""

    def setUp(self):
        super().setUp()
        cluster = harness.cluster()
        self.kubeconfig = cluster.kubeconfig
        self.namespace = harness.make_namespace(cluster, "manager", self.addCleanup)
        self.args = ("--namespace", self.namespace, "--watch-namespace", self.namespace)
        self.args += ("--webhook", "off", "--label-qps", "0", "--lease", "here")

    def holder(self):
        lease = harness.cluster().json(LEASE.format(self.namespace, "here"))
        return lease["spec"].get("holderIdentity") or ""

    def test_the_lease_is_given_back(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                process, where = self.start(self.kubeconfig, *self.args, "--identity", "one")
                harness.wait_for(lambda: self.leads(where), "it leads")
                self.assertEqual("one", self.holder())
                process.send_signal(number)
                self.assert_ends_well(process)
                self.assertEqual("", self.holder())
                os.unlink(os.path.join(self.folder, "manager.ready"))

    def test_one_of_two_leads(self):
        first, at_first = self.start(self.kubeconfig, *self.args, "--identity", "one", name="one")
        harness.wait_for(lambda: self.leads(at_first), "the first one leads")
        second, at_second = self.start(self.kubeconfig, *self.args, "--identity", "two", name="two")
        harness.wait_for(
            lambda: "identity=one" in self.log("two"), "the second one knows who leads"
        )
        self.assertFalse(self.leads(at_second))
        first.send_signal(signal.SIGTERM)
        self.assert_ends_well(first, "one")
        harness.wait_for(lambda: self.leads(at_second), "the second one leads")
        second.send_signal(signal.SIGTERM)
        self.assert_ends_well(second, "two")

    def test_without_election(self):
        process, where = self.start(self.kubeconfig, *self.args, "--leader-elect=false")
        harness.wait_for(lambda: self.leads(where), "it leads")
        leases = harness.cluster().fetch(LEASE.format(self.namespace, "here"))
        self.assertEqual(404, leases.status)
        process.send_signal(signal.SIGTERM)
        self.assert_ends_well(process)


if __name__ == "__main__":
    harness.main()
