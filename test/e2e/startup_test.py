# SPDX-License-Identifier: Apache-2.0
"""What localproxy makes of its flags, files and environment: a clear error, or it works."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess

import harness
import upstream

GOOD_RULES = harness.rules_document(harness.limit(["pods"], "app=foo"))

# Root can read everything, unless it lacks these capabilities.
WITHOUT_PRIVILEGE = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]


def rules_with(**changes):
    """The good document with changes: spec__limits=... sets ["spec"]["limits"]; None deletes."""
    document = json.loads(json.dumps(GOOD_RULES))
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = document
        for key in parents:
            inner = inner[key]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return json.dumps(document, indent=1)


def limit_with(**changes):
    limit = harness.limit(["pods"], "app=foo")
    limit.update(changes)
    return rules_with(spec__limits=[limit])


class StartupTestCase(harness.TestCase):
    """Runs localproxy where it is expected to end by itself, or to run with a complaint."""

    def setUp(self):
        super().setUp()
        self.asked = []
        scripted, self.kubeconfig = self.plain_upstream(upstream.always(self.answer))
        self.server = scripted.url
        self.rules = self.path("good.json", json.dumps(GOOD_RULES))

    def answer(self, peer, request):
        """`asked` is what is passed on; localproxy asks for something by itself, too."""
        if request.target != "/api/v1/namespaces?limit=1":
            self.asked.append(request)
        peer.respond(200, b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}\n')

    def run_to_end(self, *args, **env):
        """Exit code and what was printed on standard error."""
        done = subprocess.run(
            [harness.program("localproxy"), *args],
            env=harness.clean_environment(**{"HOME": self.folder, "CMESH_TOKEN_FILE": "off", **env}),
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        self.assertIsNone(harness.SANITIZER_REPORT.search(done.stderr), done.stderr)
        return done.returncode, done.stderr + done.stdout

    def ports(self):
        return ["--listen=127.0.0.1:0", "--admin=127.0.0.1:0"]

    def assert_fails(self, code, mentions, *args, **env):
        """It ends with that code, and says why in few lines."""
        actual, text = self.run_to_end(*args, **env)
        self.assertEqual(code, actual, (args, text))
        for mention in mentions:
            self.assertIn(mention, text, args)
        self.assertLess(len(text), 3000, args)
        return text


class FlagsTest(StartupTestCase):
    """Exit code 2 and a pointer to --help."""

    def test_wrong_usage(self):
        rules = "--rules=" + self.rules
        for args, mention in (
            ([], "--rules"),
            (["--no-such-flag"], "--no-such-flag"),
            ([rules, "--rulez=x"], "--rulez"),
            (["--rules"], "--rules"),
            ([rules, "surplus"], 'unexpected argument "surplus"'),
            ([rules, ""], 'unexpected argument ""'),
            (["--help=1"], "--help takes no value"),
            ([rules, "--control=/" + "x" * 200], "--control: /xxx"),
            ([rules, "--no-rules=maybe"], "maybe"),
            ([rules, "--log-level=loud"], "loud"),
            ([rules, "--log-format=xml"], "xml"),
            ([rules, "--shutdown-grace=soon"], "soon"),
            ([rules, "--shutdown-grace=-1"], "-1"),
            ([rules, "--shutdown-grace=3601"], "3600"),
            ([rules, "--shutdown-grace=99999999999999999999"], "99999999999999999999"),
            ([rules, "--max-connections=0"], "--max-connections"),
            ([rules, "--rules-lease=30"], "--status-lease"),
            ([rules, "--status-lease", "--rules-lease=9"], "--rules-lease must be 0, or from 10 to 3600"),
            ([rules, "--status-lease", "--rules-lease=3601"], "3600"),
            ([rules, "--egress=localhost:15002"], "--egress"),
            ([rules, "--egress-idle=0"], "--egress-idle"),
            ([rules, "--egress-max-tunnels=0"], "--egress-max-tunnels"),
            ([rules, "--egress-via=socks5://proxy.example"], "--egress-via"),
            ([rules, "--in-cluster=perhaps"], "perhaps"),
            ([rules, "--pod-namespace=A_B"], "--pod-namespace must be"),
            ([rules, "--accept-host=http://proxy.example:5443"], "--accept-host"),
            ([rules, "--accept-host="], "--accept-host"),
            ([rules, "--accept-origin=evil.example"], "--accept-origin"),
            ([rules, "--accept-origin=http://a/"], "--accept-origin"),
            ([rules, "--api-prefix=/api/v1"], "--api-prefix=/api/v1: it goes into the API itself"),
            ([rules, "--api-prefix=/apis/g/v1/*/*/proxy"], "RESOURCE is not *"),
            ([rules, "--api-prefix="], "--api-prefix="),
            ([rules, "--user-agent=a\r\nX: y"], "--user-agent: must be of visible ASCII"),
            ([rules, "--user-agent=" + 257 * "a"], "--user-agent: must have 1 to 256 characters"),
            ([rules, "--user-agent=/"], "--user-agent: must have a name before the slash"),
            ([rules, "--in-cluster", "--kubeconfig=x"], "--in-cluster"),
            ([rules, "--in-cluster", "--context=x"], "--in-cluster"),
            ([rules, "--listen-tls-cert=x"], "--listen-tls-key"),
            ([rules, "--listen-tls-key=x"], "--listen-tls-cert"),
        ):
            self.assert_fails(2, [mention, "--help"], *args)

    def test_help_and_version(self):
        code, text = self.run_to_end("--help")
        self.assertEqual(0, code)
        for flag in ("--rules", "--listen", "--token-file", "--shutdown-grace", "--log-level"):
            self.assertIn(flag, text)
        code, text = self.run_to_end("--version")
        self.assertEqual(0, code)
        self.assertRegex(text, r"^localproxy \d+\.\d+\.\d+(-\w+)?\n$")

    def test_flags_from_the_environment(self):
        env = {
            "CMESH_KUBECONFIG": self.kubeconfig,
            "CMESH_RULES": self.rules,
            "CMESH_LISTEN": "127.0.0.1:0",
            "CMESH_ADMIN": "127.0.0.1:0",
            "CMESH_LOG_FORMAT": "json",
            "CMESH_LOG_LEVEL": "debug",
        }
        proxy = self.start_proxy(self.addCleanup, [], env=env)
        self.assertEqual(200, proxy.fetch("/api/v1/pods").status)
        self.assertIn("app%3Dfoo", self.asked[-1].target)
        written = proxy.log()
        for line in written[: written.rindex("\n")].splitlines():  # the last one may be under way
            self.assertIsInstance(json.loads(line), dict)
        self.assertIn('"debug"', proxy.log().lower())

    def test_the_command_line_wins_over_the_environment(self):
        env = {"CMESH_RULES": "/does/not/exist", "CMESH_LOG_LEVEL": "error"}
        args = ["--kubeconfig", self.kubeconfig, "--rules", self.rules, *self.ports()]
        proxy = self.start_proxy(self.addCleanup, [*args, "--log-level", "info"], env=env)
        self.assertEqual(200, proxy.fetch("/api/v1/pods").status)
        self.assertIn("listening", proxy.log())

    def test_bad_values_in_the_environment(self):
        args = ["--kubeconfig", self.kubeconfig, "--rules", self.rules, *self.ports()]
        for name, value in (
            ("CMESH_LOG_LEVEL", "loud"),
            ("CMESH_SHUTDOWN_GRACE", "soon"),
            ("CMESH_NO_RULES", "perhaps"),
        ):
            self.assert_fails(2, [name, "--help"], *args, **{name: value})

    def test_kubeconfig_variable(self):
        args = ["--rules", self.rules, *self.ports()]
        env = {"KUBECONFIG": f"/does/not/exist:{self.kubeconfig}"}
        proxy = self.start_proxy(self.addCleanup, args, env=env)
        self.assertEqual(200, proxy.fetch("/api/v1/pods").status)


class AddressTest(StartupTestCase):
    """Ports in use, and addresses that are none."""

    def base(self):
        return ["--kubeconfig", self.kubeconfig, "--rules", self.rules]

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            for flag, other in (("--listen", "--admin"), ("--admin", "--listen")):
                args = [f"{flag}={address}", f"{other}=127.0.0.1:0"]
                self.assert_fails(1, [flag, address, "in use"], *self.base(), *args)

    def test_bad_addresses(self):
        for address in ("", "x", "localhost:80", "127.0.0.1", "127.0.0.1:99999", "1.2.3:80", ":-1"):
            for flag, other in (("--listen", "--admin"), ("--admin", "--listen")):
                args = [f"{flag}={address}", f"{other}=127.0.0.1:0"]
                self.assert_fails(2, [f'{flag}: "', "--help"], *self.base(), *args)

    def test_address_of_another_machine(self):
        args = ["--listen=192.0.2.1:0", "--admin=127.0.0.1:0"]
        self.assert_fails(1, ["--listen", "192.0.2.1"], *self.base(), *args)

    def test_its_own_address_as_that_of_the_api_server(self):
        """As when KUBECONFIG is the file that kubeconfig-gen has written for the operator."""
        port = harness.free_port()
        for host, listen in (
            ("127.0.0.1", "127.0.0.1"),
            ("localhost", "127.0.0.1"),
            ("127.0.0.1", "0.0.0.0"),
            ("127.0.0.1", "[::]"),
        ):
            url = f"http://{host}:{port}"
            kubeconfig = upstream.write_kubeconfig(self.path("own.kubeconfig"), url)
            args = ["--rules", self.rules, f"--listen={listen}:{port}", "--admin=127.0.0.1:0"]
            mentions = ["cannot start", url, f"--listen={listen}:{port}", "itself", "--kubeconfig"]
            text = self.assert_fails(1, mentions, *args, KUBECONFIG=kubeconfig)
            self.assertNotIn("listening", text)

    def test_a_kubeconfig_that_was_written_for_the_operator(self):
        """Whatever address is in it."""
        fake = self.path("fake.kubeconfig")
        env = {"CMESH_TOKEN_FILE": self.path("token"), "KUBECONFIG": self.kubeconfig}
        for proxy in ("http://127.0.0.1:1", "https://127.0.0.1:1"):
            subprocess.run(
                [harness.program("kubeconfig-gen"), f"--proxy={proxy}", "-o", fake], check=True,
                capture_output=True, env=harness.clean_environment(**env),
            )  # fmt: skip
            with open(self.path("token"), encoding="ascii") as f:
                token = f.read().strip()
            args = ["--rules", self.rules, *self.ports()]
            text = self.assert_fails(
                1, ["cannot start", "kubeconfig-gen wrote this kubeconfig for the operator"],
                *args, **{**env, "KUBECONFIG": fake},
            )  # fmt: skip
            self.assertNotIn(token, text)

    def test_an_address_that_others_reach(self):
        token = self.path("token", "secret")
        for listen, token, warned in (
            ("0.0.0.0:0", "off", True),
            ("127.0.0.1:0", "off", True),
            ("0.0.0.0:0", token, False),
        ):
            base = [*self.base(), "--admin=127.0.0.1:0", "--listen", listen, "--token-file", token]
            proxy = self.start_proxy(self.addCleanup, base)
            self.assertEqual(warned, "--token-file=off" in proxy.log(), proxy.log())
            proxy.stop()

    def test_pages_are_for_this_machine_outside_of_pods(self):
        for env, address in (
            ({}, "127.0.0.1:5441"),
            ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "[::]:5441"),
        ):
            # Taken, so that each way of listening there fails with the address.
            with socket.create_server(("127.0.0.1", 5441)):
                args = [*self.base(), "--listen=127.0.0.1:0"]
                self.assert_fails(1, ["--admin", address, "in use"], *args, **env)

    def test_ready_file_that_cannot_be_written(self):
        for path, reason in (
            (self.path("no-such-folder/ready"), "its folder: No such file"),
            (self.folder, "not a regular file"),
        ):
            args = [*self.base(), *self.ports(), "--ready-file", path]
            text = self.assert_fails(1, [f"--ready-file: {path}: {reason}"], *args)
            self.assertNotIn("listening", text)

    def test_state_that_cannot_be_kept(self):
        path = self.path("no-such-folder/state")
        self.assert_fails(1, ["--state", path], *self.base(), *self.ports(), "--state", path)
        path = self.path("state")
        self.start_proxy(self.addCleanup, [*self.base(), *self.ports(), "--state", path])
        reasons = ["--state", path, "another localproxy"]
        self.assert_fails(1, reasons, *self.base(), *self.ports(), "--state", path)

    def test_ready_file(self):
        proxy = self.start_proxy(self.addCleanup, [*self.base(), *self.ports()])
        with open(proxy.ready_file, encoding="utf-8") as f:
            bound = json.load(f)
        self.assertEqual({"listen", "listenTLS", "egress", "admin"}, set(bound))
        self.assertEqual("", bound.pop("listenTLS"))
        self.assertEqual("", bound.pop("egress"))
        for address in bound.values():
            self.assertRegex(address, r"^127\.0\.0\.1:[1-9]\d+$")
            self.assertIn(address, proxy.log())


    def test_tunnels_and_open_files(self):
        for limit, tunnels in ((4000, 2000), (20000, 2000), (4000, 10)):
            with self.subTest(limit=limit, tunnels=tunnels):
                args = ["--egress=127.0.0.1:0", f"--egress-max-tunnels={tunnels}"]
                proxy = self.start_proxy(
                    self.addCleanup,
                    [*self.base(), *self.ports(), *args],
                    prefix=["prlimit", f"--nofile={limit}"],
                )
                warned = "lower --egress-max-tunnels" in proxy.log()
                self.assertEqual((limit, tunnels) == (4000, 2000), warned, proxy.log())


class RulesTest(StartupTestCase):
    """Without valid rules localproxy runs, shows nothing, and says why wherever one looks."""

    DEEP = "[" * 200000 + "]" * 200000

    BAD = {
        # name: content, what the message says beside the path
        "empty": ("", ""),
        "blank": ("  \n\n", ""),
        "truncated": (rules_with()[:200], ""),
        "truncated-string": ('{"apiVersion": "cmesh/v1', ""),
        "not-json": ("apiVersion: cmesh/v1\nkind: ShardRules\n", ""),
        "no-object": ("[]", ""),
        "null": ("null", ""),
        "trailing": (rules_with() + "\n}", ""),
        "two": (rules_with() + rules_with(), ""),
        "comment": ("// rules\n" + rules_with(), ""),
        "binary": (bytes(range(256)) * 64, ""),
        "nul": (rules_with().encode().replace(b"app=foo", b"app=\0foo"), ""),
        "latin-1": (rules_with(spec__limits=[]).encode() + b"\xff", ""),
        "deep": (DEEP, ""),
        "deep-inside": (rules_with().replace('"app=foo"', DEEP), ""),
        "huge": (b" " * (9 << 20), ""),
        "version": (rules_with(apiVersion="cmesh/v9"), "apiVersion"),
        "no-version": (rules_with(apiVersion=None), "apiVersion"),
        "kind": (rules_with(kind="Pod"), "kind"),
        "no-generation": (rules_with(generation=None), "generation"),
        "negative": (rules_with(generation=-1), "generation"),
        "fraction": (rules_with(generation=1.5), "generation"),
        "huge-number": (rules_with().replace('"generation": 1', '"generation": 1e400'), ""),
        "string": (rules_with(generation="1"), "generation"),
        "no-spec": (rules_with(spec=None), "spec"),
        "unknown": (rules_with(spec__throttle={"qps": 1}), "throttle"),
        "unknown-in-limit": (limit_with(namespaces=["a"]), "namespaces"),
        "limits": (rules_with(spec__limits={}), "limits"),
        "limit": (rules_with(spec__limits=["pods"]), "limits"),
        "no-selector": (limit_with(selector=None), "selector"),
        "selector": (limit_with(selector="app in (foo"), "selector"),
        "selector-object": (limit_with(selector={"matchLabels": {}}), "selector"),
        "resources": (limit_with(resources=[]), "resources"),
        "resource": (limit_with(resources=["pods", ""]), "resources"),
        "groups": (limit_with(apiGroups="*"), "apiGroups"),
        "checksum": (rules_with(checksum="sha256:" + "0" * 64), "checksum"),
        "checksum-form": (rules_with(checksum="md5:0"), "checksum"),
        "twice": (rules_with().replace('"kind"', '"generation": 2, "kind"'), "generation"),
        "shard": (rules_with(shard="a"), "shard"),
    }

    def start(self, path, *args):
        base = ["--kubeconfig", self.kubeconfig, "--rules", path, *self.ports()]
        return self.start_proxy(self.addCleanup, [*base, *args])

    def assert_shows_nothing(self, proxy, *mentions):
        for method, target in (
            ("GET", "/api/v1/pods"),
            ("GET", "/api/v1/secrets?watch=true"),
            ("GET", "/api/v1/namespaces/a/pods/b"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments"),
            ("DELETE", "/api/v1/namespaces/a/pods"),
            ("GET", "/api/v1/watch/pods"),
        ):
            answer = proxy.fetch(target, method)
            self.assert_status_error(answer, 503, "ServiceUnavailable", mentions)
            self.assertIsNone(answer.get("Retry-After"))
        self.assertEqual([], self.asked)
        ready = proxy.ask_admin("/readyz")
        self.assertEqual(503, ready.status)
        status = proxy.status()
        self.assertFalse(status["ready"])
        self.assertFalse(status["rules"]["inForce"])
        self.assertEqual(0, proxy.metrics()["cmesh_proxy_ready"])
        for mention in mentions:
            self.assertIn(mention, ready.body.decode())
            self.assertIn(mention, status["message"])
            self.assertIn(mention, proxy.log())
        self.assertEqual(200, proxy.ask_admin("/healthz").status)

    def test_bad_documents(self):
        for name, (content, mention) in self.BAD.items():
            with self.subTest(name):
                path = self.path(name + ".json", content)
                proxy = self.start(path)
                self.assert_shows_nothing(proxy, path, mention)
                proxy.stop()

    def test_messages_name_line_and_path(self):
        good = rules_with().split("\n")
        line = next(i for i, text in enumerate(good) if "selector" in text)
        good[line] = good[line].replace("app=foo", "app in (foo")
        path = self.path("line.json", "\n".join(good))
        proxy = self.start(path)
        self.assert_shows_nothing(proxy, path, f"line {line + 1}", "limits[0].selector")

    def test_missing_and_odd_files(self):
        os.mkdir(self.path("folder"))
        os.symlink("loop", self.path("loop"))
        for name, mention in (("missing", "No such file"), ("folder", ""), ("loop", "")):
            proxy = self.start(self.path(name))
            self.assert_shows_nothing(proxy, self.path(name), mention)
            proxy.stop()

    def test_hangup_reads_the_file_again(self):
        path = self.path("later.json")
        proxy = self.start(path)
        self.assert_shows_nothing(proxy, path, "SIGHUP")
        for content, said, status in (
            ("{", "no valid rules", 503),
            (rules_with(), "new rules are in force", 200),
            (rules_with(), "the rules have not changed", 200),
            (rules_with(generation=2), "generation=2", 200),
            (rules_with(), "generation 1 is older", 200),
            ("{", "refused new rules, keeping those in force", 200),
        ):
            self.path("later.json", content)
            before = len(proxy.log())
            proxy.process.send_signal(signal.SIGHUP)
            harness.wait_for(lambda: said in proxy.log()[before:], said)
            self.assertEqual(status, proxy.fetch("/api/v1/pods").status, proxy.log())

    def test_hangup_without_a_file(self):
        base = ["--kubeconfig", self.kubeconfig, "--no-rules=passthrough", *self.ports()]
        proxy = self.start_proxy(self.addCleanup, base)
        proxy.process.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: "no rules to read again" in proxy.log(), "it says so")
        self.assertEqual(200, proxy.fetch("/api/v1/pods").status)

    def test_unreadable(self):
        os.chmod(self.rules, 0)
        args = ["--kubeconfig", self.kubeconfig, "--rules", self.rules, *self.ports()]
        proxy = self.start_proxy(self.addCleanup, args, prefix=WITHOUT_PRIVILEGE)
        self.assert_shows_nothing(proxy, self.rules, "ermission denied")

    def test_non_resource_requests_need_no_rules(self):
        proxy = self.start(self.path("missing"))
        self.assertEqual(200, proxy.fetch("/version").status)
        self.assertEqual(200, proxy.fetch("/api/v1").status)

    def test_passthrough_for_development(self):
        proxy = self.start(self.path("missing"), "--no-rules=passthrough")
        self.assertEqual(200, proxy.fetch("/api/v1/pods").status)
        self.assertEqual("/api/v1/pods", self.asked[-1].target)
        self.assertIn("not filtered", proxy.log())

    def test_good_rules_are_reported(self):
        proxy = self.start(self.rules)
        self.assertEqual((200, b"ok\n"), (proxy.ask_admin("/readyz").status,
                                          proxy.ask_admin("/readyz").body))  # fmt: skip
        rules = proxy.status()["rules"]
        self.assertEqual({"namespace": "cmesh-e2e", "name": "shard-a"}, rules["shard"])
        self.assertEqual((1, 1, self.rules), (rules["generation"], rules["limits"], rules["path"]))
        self.assertRegex(rules["checksum"], r"^sha256:[0-9a-f]{64}$")
        document = dict(GOOD_RULES, checksum=rules["checksum"])
        again = self.start(self.path("checked.json", json.dumps(document)))
        self.assertTrue(again.status()["ready"])


class KubeconfigTest(StartupTestCase):
    """Without a usable kubeconfig localproxy does not start, and names file and field."""

    BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
    )

    def fails(self, content, *mentions, args=()):
        path = self.path("bad-kubeconfig", content)
        base = ["--kubeconfig", path, "--rules", self.rules, *self.ports()]
        return self.assert_fails(1, [path, *mentions], *base, *args)

    def config(self, cluster="", user="", **more):
        server = more.pop("server", self.server)
        path = self.path("made")
        upstream.write_kubeconfig(path, server, extra_cluster=cluster, extra_user=user, **more)
        with open(path, encoding="utf-8") as f:
            return f.read()

    def test_bad_files(self):
        good = self.config(token="marked-secret-1")
        for content in (
            "",
            " \n",
            "---\n",
            good[: len(good) // 2],
            bytes(range(256)) * 16,
            "{" * 10000,
            "[" * 100000,
            self.BOMB,
            "x: '" + "y" * (20 << 20) + "'",
            good.replace("kind: Config", "kind: Pod"),
            "just a text",
            "- a\n- list\n",
            "apiVersion: v1\nkind: Config\nclusters: 7\n",
            "apiVersion: v1\n\tkind: Config\n",
        ):
            text = self.fails(content)
            self.assertNotIn("marked-secret", text)

    def test_missing(self):
        os.mkdir(self.path("folder"))
        for name in ("nothing-here", "folder"):
            path = self.path(name)
            args = ["--kubeconfig", path, "--rules", self.rules, *self.ports()]
            self.assert_fails(1, [f"--kubeconfig: {path}"], *args)

    def test_nothing_at_all(self):
        text = self.assert_fails(1, [], "--rules", self.rules, *self.ports())
        self.assertIn("kubeconfig", text)

    def test_not_in_a_cluster(self):
        text = self.assert_fails(1, [], "--in-cluster", "--rules", self.rules, *self.ports())
        self.assertIn("KUBERNETES_SERVICE_HOST", text)

    def test_bad_fields(self):
        good = self.config()
        bad_pem = "bm90IGEgY2VydGlmaWNhdGU="
        for content, *mentions in (
            (good.replace("current-context: scripted", "current-context: other"), "other"),
            (good.replace("current-context: scripted\n", ""), "context"),
            (good.replace("{cluster: scripted,", "{cluster: gone,"), "gone"),
            (good.replace("user: scripted}", "user: gone}"), "gone"),
            (self.config(server="ftp://127.0.0.1"), "http://"),
            (self.config(server="https://"), "server"),
            (self.config(server="'https://127.0.0.1:99999'"), "65535"),
            (self.config(server="https://user:marked-secret-2@127.0.0.1"), "server"),
            (self.config("    proxy-url: https://u:marked-secret-3@127.0.0.1:1\n"), "proxy-url"),
            (self.config("    certificate-authority: /does/not/exist\n",
                         server="https://127.0.0.1:1"), "/does/not/exist"),
            (self.config("    certificate-authority-data: '%%%'\n",
                         server="https://127.0.0.1:1"), "certificate-authority-data"),
            (self.config(f"    certificate-authority-data: {bad_pem}\n",
                         server="https://127.0.0.1:1"), "certificate-authority-data"),
            (self.config(user=f"    client-certificate-data: {bad_pem}\n",
                         server="https://127.0.0.1:1"), "client"),
            (self.config(user="    client-certificate: /does/not/exist\n"
                              "    client-key: /does/not/exist\n",
                         server="https://127.0.0.1:1"), "/does/not/exist"),
            (self.config("    insecure-skip-tls-verify: maybe\n"), "insecure-skip-tls-verify"),
        ):  # fmt: skip
            text = self.fails(content, *mentions)
            self.assertNotIn("marked-secret", text)

    def test_context_flag(self):
        self.fails(self.config(), "no-such-context", args=["--context=no-such-context"])


class SecretFilesTest(StartupTestCase):
    """--token-file, --listen-tls-cert and --listen-tls-key."""

    def base(self):
        return ["--kubeconfig", self.kubeconfig, "--rules", self.rules, *self.ports()]

    def test_bad_token_files(self):
        for name, content in (("missing", None), ("empty", ""), ("blank", " \n\n")):
            path = self.path(name, content)
            self.assert_fails(1, ["--token-file", path], *self.base(), "--token-file", path)

    def test_bad_certificates(self):
        authority = self.authority()
        certificate, key = authority.server()
        _, other_key = authority.server("other")
        garbage = self.path("garbage", "not PEM at all\n")
        for cert_path, key_path, mention in (
            ("/does/not/exist", key, "--listen-tls-cert: /does/not/exist"),
            (certificate, "/does/not/exist", "--listen-tls-key: /does/not/exist"),
            (garbage, key, f"--listen-tls-cert={garbage}"),
            (certificate, garbage, f"--listen-tls-key={garbage}"),
            (key, certificate, f"--listen-tls-cert={key}"),
            (certificate, other_key, f"--listen-tls-key={other_key} does not belong"),
        ):
            args = ["--listen-tls-cert", cert_path, "--listen-tls-key", key_path]
            self.assert_fails(1, [mention], *self.base(), *args)

    def test_serving_over_tls(self):
        authority = self.authority()
        certificate, key = authority.server()
        args = ["--listen-tls-cert", certificate, "--listen-tls-key", key]
        proxy = self.start_proxy(self.addCleanup, [*self.base(), *args])
        context = ssl.create_default_context(cafile=authority.certificate)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with proxy.connect(tls=context) as connection:
            self.assertEqual("http/1.1", connection.sock.selected_alpn_protocol())
            for _ in range(3):
                self.assertEqual(200, connection.request("GET", "/api/v1/pods").status)
        self.assertIn("app%3Dfoo", self.asked[-1].target)
        with proxy.connect() as plain:
            plain.send_head("GET", "/api/v1/pods")
            self.assertTrue(plain.closed_by_peer() or b"HTTP/1.1 2" not in plain.input)
        self.assertEqual(200, proxy.fetch("/api/v1/pods", tls=context).status)


class TokenTest(StartupTestCase):
    """--token-file: who does not know the token gets nothing."""

    TOKEN = "e2e-token-0123456789abcdef"

    def setUp(self):
        super().setUp()
        token = self.path("token", self.TOKEN + "\n")
        args = ["--kubeconfig", self.kubeconfig, "--rules", self.rules, *self.ports()]
        args += ["--resume-doubt=0"]  # nothing is asked but what clients ask
        self.guarded = self.start_proxy(self.addCleanup, [*args, "--token-file", token])

    def ask(self, *authorization, target="/api/v1/pods"):
        headers = [("Authorization", value) for value in authorization]
        return self.guarded.fetch(target, headers=headers)

    def test_without_or_with_a_wrong_token(self):
        for values in (
            [],
            ["Bearer"],
            ["Bearer "],
            ["Bearer wrong"],
            ["Bearer " + self.TOKEN[:-1]],
            ["Bearer " + self.TOKEN + "x"],
            ["Bearer  " + self.TOKEN],
            [self.TOKEN],
            ["Basic " + self.TOKEN],
            ["Basic"],
            ["Basic "],
            ["Basic !!!"],
            ["Basic " + upstream.basic("user", "wrong")],
            ["Basic " + upstream.basic(self.TOKEN, "")],
            ["Negotiate " + self.TOKEN],
        ):
            for target in ("/api/v1/pods", "/version", "/api/v1/namespaces/a/pods/b/exec"):
                answer = self.ask(*values, target=target)
                self.assert_status_error(answer, 401, "Unauthorized")
                self.assertEqual("Bearer", answer.get("WWW-Authenticate"))
        self.assertEqual([], self.asked)

    def test_with_the_token(self):
        for value in (
            "Bearer " + self.TOKEN,
            "bearer " + self.TOKEN,
            "Basic " + upstream.basic("cmesh", self.TOKEN),
            "Basic " + upstream.basic("", self.TOKEN),
        ):
            self.assertEqual(200, self.ask(value).status, value)
            seen = self.asked[-1]
            self.assertIsNone(seen.get("Authorization"), "it is not passed on")
        log = self.guarded.log()
        self.assertIsNone(re.search(self.TOKEN, log))


class OwnTokenTest(StartupTestCase):
    """Without --token-file there is one, of the user's own."""

    def setUp(self):
        super().setUp()
        self.token_path = self.path("cmesh/token")
        self.env = {"XDG_STATE_HOME": self.folder, "CMESH_TOKEN_FILE": ""}
        self.base = ["--kubeconfig", self.kubeconfig, "--rules", self.rules, *self.ports()]

    def start(self, *args):
        return self.start_proxy(self.addCleanup, [*self.base, *args], env=self.env)

    def token(self):
        with open(self.token_path, encoding="ascii") as f:
            return f.read().strip()

    def status(self, proxy, *authorization):
        headers = [("Authorization", value) for value in authorization]
        return proxy.fetch("/api/v1/pods", headers=headers).status

    def generate(self, *args):
        """The token in the kubeconfig that kubeconfig-gen writes; None: there is none."""
        command = [harness.program("kubeconfig-gen"), "--kubeconfig", self.kubeconfig, *args]
        done = subprocess.run(
            command, env=harness.clean_environment(HOME=self.folder, **self.env),
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        found = set(re.findall(r"^ +token: \"?([\w-]*)", done.stdout, re.M))
        self.assertNotIn("@", done.stdout)
        return found.pop() if found else None

    def assert_private(self, path, mode):
        found = os.stat(path)
        self.assertEqual((mode, os.geteuid()), (found.st_mode & 0o7777, found.st_uid))

    def test_localproxy_comes_first(self):
        proxy = self.start()
        self.assert_private(self.path("cmesh"), 0o700)
        self.assert_private(self.token_path, 0o600)
        self.assertIn(self.token_path, proxy.log())
        self.assertNotIn(self.token(), proxy.log())
        self.assertEqual(401, self.status(proxy))
        self.assertEqual([], [r for r in self.asked if r.target == "/api/v1/pods"])
        self.assertEqual(200, self.status(proxy, "Bearer " + self.token()))
        self.assertEqual(self.token(), self.generate())

    def test_kubeconfig_gen_comes_first(self):
        token = self.generate()
        self.assert_private(self.token_path, 0o600)
        self.assertEqual(self.token(), token)
        for proxy in (self.start(), self.start()):  # both have the same one
            self.assertEqual(401, self.status(proxy))
            self.assertEqual(200, self.status(proxy, "Basic " + upstream.basic("cmesh", token)))
            proxy.stop()
        self.assertEqual(200, self.status(self.start(), "Bearer " + token))

    def test_off(self):
        proxy = self.start("--token-file=off")
        self.assertEqual(200, self.status(proxy))
        self.assertIn("no token is asked for", proxy.log())
        self.assertIsNone(self.generate("--token-file=off"))
        self.assertFalse(os.path.exists(self.path("cmesh")))

    def test_nobody_elses_is_used(self):
        """Of whom others can write or read the token, or a folder that somebody else has put there."""
        self.generate()
        for path, mode, words in (
            (self.token_path, 0o644, "others may use it"),
            (self.path("cmesh"), 0o770, "others may use it"),
        ):
            before = os.stat(path).st_mode & 0o7777
            os.chmod(path, mode)
            self.assert_fails(1, [path, words, "--token-file=PATH"], *self.base, **self.env)
            os.chmod(path, before)
        os.rename(self.path("cmesh"), self.path("elsewhere"))
        os.symlink("elsewhere", self.path("cmesh"))
        mentions = [self.path("cmesh"), "is not a folder", "--token-file=PATH"]
        self.assert_fails(1, mentions, *self.base, **self.env)

    def test_no_place_for_it(self):
        self.env["XDG_STATE_HOME"] = self.path("file", "") + "/below"
        mentions = ["--token-file=PATH", self.env["XDG_STATE_HOME"]]
        self.assert_fails(1, mentions, *self.base, **self.env)
        command = [harness.program("kubeconfig-gen"), "--kubeconfig", self.kubeconfig]
        env = harness.clean_environment(**self.env)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("--token-file=PATH", done.stderr)


if __name__ == "__main__":
    harness.main()
