# SPDX-License-Identifier: Apache-2.0
"""--local-tls: clients verify localproxy and send it the token, and print it nowhere."""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading

import harness
import island
import real_clients
import upstream
import wire

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = harness.rules_document(harness.limit(["pods"], "app=foo"))


class LocalTlsTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.asked = []
        self.answering = None  # an event for which answers wait
        _, self.kubeconfig = self.plain_upstream(upstream.always(self.answer))
        self.env = {"XDG_STATE_HOME": self.folder, "CMESH_TOKEN_FILE": ""}
        self.fake = self.path("fake")

    def answer(self, peer, request):
        self.asked.append(request)
        if self.answering is not None and request.target.startswith("/api/v1/pods"):
            self.answering.wait(30)
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
        peer.respond(200, json.dumps({**body, "items": [], "major": "1", "minor": "36"}).encode())

    def start(self, *args):
        return self.proxy(RULES, self.kubeconfig, ["--resume-doubt=0", *args], env=self.env)

    def generate(self, *args):
        command = [harness.program("kubeconfig-gen"), "--kubeconfig", self.kubeconfig]
        subprocess.run(
            [*command, "--output", self.fake, *args], capture_output=True, check=True,
            env=harness.clean_environment(**self.env),
        )  # fmt: skip
        with open(self.fake, encoding="utf-8") as f:
            return f.read()

    def both(self, folder="auto"):
        """A localproxy, and a kubeconfig that leads to it; the token."""
        proxy = self.start(f"--local-tls={folder}")
        text = self.generate(f"--local-tls={folder}", f"--proxy=https://{proxy.listen}")
        token = re.search(r"^ +token: \"?([\w-]+)", text, re.M)[1]
        self.assertEqual(1, text.count(token), "it is in no URL")
        self.assertRegex(text, rf"server: \"?https://{proxy.listen}\"?\n")
        self.assertIn("certificate-authority-data: ", text)
        self.assertNotIn("insecure", text)
        return proxy, token

    def kubectl(self, home):
        """That of the machine: there is no control plane here."""
        return harness.Kubectl(self.path(home), self.fake, program="kubectl")

    def passed(self):
        return [r for r in self.asked if r.target.startswith("/api/v1/pods")]

    def test_it_is_the_default(self):
        """A kubeconfig of this release leads over TLS, and one of an earlier release is served."""
        proxy = self.start()
        text = self.generate(f"--proxy=https://{proxy.listen}")
        with open(self.path("cmesh/token"), encoding="ascii") as f:
            token = f.read().strip()
        self.assertRegex(text, rf"server: \"?https://{proxy.listen}\"?\n")
        self.assertEqual(1, text.count(token), "it is in no URL")
        self.assertIn("certificate-authority-data: ", text)
        self.kubectl("home")("get", "--raw", "/api/v1/pods")
        for place, folders, files in os.walk(self.path("home")):
            for name in (*folders, *files):
                self.assertNotIn(token, name, f"what kubectl keeps in {place}")
        self.assertRegex(self.generate(), r"server: \"?https://127.0.0.1:5443\"?\n")
        text = self.generate(f"--proxy=http://{proxy.listen}")
        self.assertEqual(2, text.count(token), "as it was")
        self.kubectl("other")("get", "--raw", "/api/v1/pods")
        self.assertEqual(2, len(self.passed()))

    def test_another_release_of_the_manager(self):
        """What it lets the containers of a pod do: kubeconfig-gen is told where to lead, or not."""
        os.mkdir(self.path("run"))
        shared = f"--token-file={self.path('run/token')}"
        local = {"CMESH_LOCAL_TLS": self.path("run")}
        account = {"CMESH_SERVICE_ACCOUNT": self.path("account"), "CMESH_NAMESPACE": "x"}
        port = harness.free_port()
        also = {"CMESH_LISTEN_TLS": f"localhost:{port}"}
        plain = ["--proxy=http://127.0.0.1:5443"]
        for name, told, of_kubeconfig, of_proxy in (
            ("0.1.0", plain, {}, {}),
            ("before", plain, {**account, **local}, {**local, **also}),
            ("before, with its own service account", plain, {}, {}),
            ("this", [], {**account, **local}, {**local, **also}),
            ("this, with its own service account", [], local, local),
        ):
            with self.subTest(manager=name):
                self.env = {"XDG_STATE_HOME": self.folder, **of_kubeconfig}
                text = self.generate(shared, "--shared", *told)
                self.assertIn("http:" if told else "https:", text)
                self.env = {"XDG_STATE_HOME": self.folder, **of_proxy}
                proxy = self.start(shared)
                self.path("fake", text.replace("127.0.0.1:5443", proxy.listen))
                self.asked.clear()
                self.kubectl("home")("get", "--raw", "/api/v1/pods")
                self.assertEqual(1, len(self.passed()))
                proxy.stop()

    def test_no_room_for_an_authority(self):
        """The folder of a token that was given may be read alone, as that of a mounted Secret."""
        folder = self.path("secret")
        os.mkdir(folder)
        self.path("secret/token", "a-token-of-the-users-own")
        mount = ["unshare", "-m", "sh", "-c",
                 f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} && exec \"$@\"",
                 "sh"]  # fmt: skip
        if subprocess.run([*mount, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("mount namespaces are not permitted here")
        shared = f"--token-file={folder}/token"
        generate = [harness.program("kubeconfig-gen"), "--kubeconfig", self.kubeconfig, shared]
        env = harness.clean_environment(**self.env)

        def run(*args):
            done = subprocess.run([*mount, *generate, *args], capture_output=True, text=True,
                                  env=env, check=False)  # fmt: skip
            return done.returncode, done.stdout, done.stderr

        code, text, said = run()
        self.assertEqual(0, code, said)
        self.assertIn("server: http://cmesh:a-token-of-the-users-own.", text)
        self.assertIn("the kubeconfig is for plain HTTP", said)
        self.assertIn("--proxy=https://", said)
        for asked in (["--local-tls=" + folder], [f"--service-account={self.path('account')}"]):
            code, text, said = run(*asked)
            self.assertEqual(1, code, said)
            self.assertIn("--local-tls: ", said)
        command = [harness.program("localproxy"), "--kubeconfig", self.kubeconfig, shared,
                   "--no-rules=passthrough", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0"]  # fmt: skip
        ready = self.path("ready.json")
        process = subprocess.Popen([*mount, *command, f"--ready-file={ready}"], text=True, env=env,
                                   stderr=subprocess.PIPE)  # fmt: skip
        self.addCleanup(process.kill)
        harness.wait_for(lambda: os.path.exists(ready), "it has begun")
        with open(ready, encoding="utf-8") as f:
            address = json.load(f)["listen"]
        right = [("Authorization", "Bearer a-token-of-the-users-own")]
        self.assertEqual(200, wire.fetch(address, "/version", headers=right).status)
        process.terminate()
        self.assertIn("TLS is left out", process.communicate(timeout=30)[1])
        done = subprocess.run([*mount, *command, "--listen-tls=127.0.0.1:0"], capture_output=True,
                              text=True, timeout=30, env=env, check=False)  # fmt: skip
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("--local-tls: ", done.stderr)
        # One that is there needs no room.
        subprocess.run([*generate, "--output=" + self.fake], capture_output=True, env=env, check=True)
        code, text, said = run()
        self.assertEqual((0, True), (code, "server: https://127.0.0.1:5443" in text), said)

    def test_kubectl_prints_no_token(self):
        """Over plain HTTP it does, which is what this is for."""
        proxy, token = self.both()
        commands = (["get", "--raw", "/api/v1/pods"], ["cluster-info"], ["config", "view"],
                    ["version"], ["get", "pods"])  # fmt: skip
        kubectl = self.kubectl("home")
        for command in commands:
            said = "".join(map(str, kubectl.run("-v=8", *command)[1:]))
            self.assertNotIn(token, said, command)
            self.assertTrue(command == ["config", "view"] or proxy.listen in said, said)
        self.assertTrue(self.passed())
        plain = self.start()
        self.generate(f"--proxy={plain.url}")
        _, _, said = self.kubectl("other").run("-v=8", *commands[0])
        self.assertIn(token, said)

    def test_other_clients(self):
        self.both()
        runs = [[real_clients.PYTHON, os.path.join(HERE, "clients", "list_pods.py")]]
        if folder := real_clients.install_js_client():
            script = shutil.copy(os.path.join(HERE, "clients", "list_pods.mjs"), self.folder)
            os.symlink(os.path.join(folder, "node_modules"), self.path("node_modules"))
            runs.append(["node", "--preserve-symlinks-main", script])
        for command in runs:
            self.asked.clear()
            done = subprocess.run(
                [*command, self.fake], env=harness.clean_environment(HOME=self.folder),
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(0, json.loads(done.stdout)["pods"])
            self.assertEqual(["/api/v1/pods"], [r.target.split("?")[0] for r in self.passed()])

    def test_files(self):
        """The authority is the user's alone, and stays; no other key is written."""
        self.both()
        for name in ("ca.crt", "ca.key", "token"):
            found = os.stat(self.path("cmesh/" + name))
            self.assertEqual(0o600, found.st_mode & 0o7777, name)
        self.assertEqual({"ca.crt", "ca.key", "token"}, set(os.listdir(self.path("cmesh"))))
        before = self.generate("--local-tls=auto")
        self.assertRegex(before, r"server: \"?https://127.0.0.1:5443\"?\n")
        self.start("--local-tls=auto")
        self.assertEqual(before, self.generate("--local-tls=auto"))

    def test_a_folder_of_a_pod(self):
        os.mkdir(self.path("run"))
        proxy, token = self.both(self.path("run"))
        self.assertEqual({"ca.crt", "ca.key"}, set(os.listdir(self.path("run"))))
        context = ssl.create_default_context(cafile=self.path("run/ca.crt"))
        headers = [("Authorization", "Bearer " + token)]
        self.assertEqual(200, proxy.fetch("/api/v1/pods", headers=headers, tls=context).status)
        self.assertEqual(401, proxy.fetch("/api/v1/pods", tls=context).status)

    def test_plain_and_tls(self):
        """--listen takes both, --listen-tls TLS alone; who comes asks for the same, with the same token."""
        port = harness.free_port()
        args = ("--local-tls=auto", f"--listen-tls=localhost:{port}", "--listen-tls=127.0.0.1:0")
        proxy = self.start(*args)
        self.assertEqual(f"127.0.0.1:{port}", proxy.listen_tls)
        self.assertEqual(proxy.listen_tls, proxy.status()["listenTLS"])
        self.generate(f"--proxy=https://{proxy.listen_tls}", "--local-tls=auto")
        with open(self.path("cmesh/token"), encoding="ascii") as f:
            right = [("Authorization", "Bearer " + f.read().strip())]
        context = ssl.create_default_context(cafile=self.path("cmesh/ca.crt"))
        for address, tls in (
            (proxy.listen, None), (proxy.listen, context), (f"127.0.0.1:{port}", context),
        ):  # fmt: skip
            for headers, status in ((right, 200), ([], 401)):
                answer = wire.fetch(address, "/api/v1/pods", headers=headers, tls=tls)
                self.assertEqual(status, answer.status, address)
        if harness.has_ipv6():
            answer = wire.fetch(f"[::1]:{port}", "/api/v1/pods", headers=right, tls=context)
            self.assertEqual(200, answer.status)
        # What is said in the clear to where TLS alone is spoken is no request.
        self.asked.clear()
        with self.assertRaises((wire.Cut, OSError)):
            wire.fetch(f"127.0.0.1:{port}", "/api/v1/pods", headers=right)
        self.assertEqual([], self.asked)
        proxy.process.terminate()
        self.assertEqual(0, proxy.process.wait(20))
        for host in ("127.0.0.1", "::1"):
            with self.assertRaises(OSError):
                socket.create_connection((host, port)).close()

    def ask_and_end(self, address, context, token, ended):
        """As `nc -N` does: what there is to say, and then the end, before which close_notify is said
        over TLS. All that comes back."""
        asked = f"GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\n{token}\r\n".encode()
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as sock:
            if context is None:
                sock.sendall(asked)
                sock.shutdown(socket.SHUT_WR)
                ended()
                return b"".join(iter(lambda: sock.recv(65536), b""))
            coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = context.wrap_bio(coming, going, server_hostname="localhost")
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    sock.sendall(going.read())
                    coming.write(sock.recv(65536))
            session.write(asked)
            with self.assertRaises(ssl.SSLWantReadError):
                session.unwrap()  # its half of it
            sock.sendall(going.read())
            sock.shutdown(socket.SHUT_WR)
            ended()
            for data in iter(lambda: sock.recv(65536), b""):
                coming.write(data)
            coming.write_eof()
            got = []
            try:
                while True:
                    got.append(session.read(65536))
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b"".join(got)

    def test_who_says_no_more_is_answered(self):
        port = harness.free_port()
        args = ("--local-tls=auto", "--listen-tls=127.0.0.1:0", f"--listen-tls=[::]:{port}")
        proxy = self.start(*args)
        context = ssl.create_default_context(cafile=self.path("cmesh/ca.crt"))
        with open(self.path("cmesh/token"), encoding="ascii") as f:
            right = f"Authorization: Bearer {f.read().strip()}\r\n"

        def ended():
            proxy.status()  # whoever is answered that is behind the end
            self.answering.set()

        places = [(proxy.listen, None), (proxy.listen_tls, context), (f"127.0.0.1:{port}", context)]
        places += [(f"::1:{port}", context)] if harness.has_ipv6() else []
        for address, tls in places:
            for token, status in ((right, b"200"), ("", b"401")):
                for slow in (False, True):
                    with self.subTest(address=address, status=status, slow=slow):
                        self.answering = threading.Event()
                        if not slow:
                            self.answering.set()
                        got = self.ask_and_end(address, tls, token, ended)
                        self.assertEqual(b"HTTP/1.1 " + status, got[:12])
                        self.assertTrue(got.rstrip().endswith(b"}"), got)

    def test_who_does_not_come_through_is_told(self):
        """On localproxy's side, for the client may be silent: it does not trust the authority, or has
        no version of TLS in common."""
        proxy = self.start("--local-tls=auto", "--listen-tls=127.0.0.1:0")
        count = "cmesh_proxy_client_tls_failures_total"
        self.assertEqual(0, proxy.metrics()[count])
        context = ssl.create_default_context()
        with self.assertRaises((wire.Cut, OSError)):
            wire.fetch(proxy.listen_tls, "/api/v1/pods", tls=context)
        harness.wait_for(lambda: proxy.metrics()[count] == 1, "it is counted")
        self.assertRegex(proxy.log(), "a client failed at TLS: .*ca.crt.* error=.*alert")
        harness.wait_for(lambda: proxy.log().count("a client failed at TLS") == 1, "once")
        for _ in range(30):
            with self.assertRaises((wire.Cut, OSError)):
                wire.fetch(proxy.listen_tls, "/api/v1/pods", tls=context)
        harness.wait_for(lambda: proxy.metrics()[count] == 31, "all are counted")
        self.assertLess(proxy.log().count("a client failed at TLS"), 31)

    def test_what_is_for_another_cluster(self):
        """A kubeconfig and a service account's folder that were written for one cluster do not lead
        to another, to which localproxy talks after a change of the current context."""
        account = self.path("account")
        more = ("--local-tls=auto", f"--service-account={account}", "--namespace=x")
        proxy = self.start("--local-tls=auto", "--listen-tls=127.0.0.1:0")
        self.generate(f"--proxy=https://{proxy.listen_tls}", *more)
        kubectl = self.kubectl("home")
        kubectl("get", "--raw", "/api/v1/pods")
        with open(account + "/token", encoding="ascii") as f:
            token = f.read()
        _, other = self.plain_upstream(upstream.always(self.answer))
        proxy.process.terminate()
        proxy.process.wait(20)
        self.asked.clear()
        listen = f"--listen-tls={proxy.listen_tls}"
        moved = self.proxy(RULES, other, ["--local-tls=auto", listen], env=self.env)
        context = ssl.create_default_context(cafile=account + "/ca.crt")
        for text in (token, token[:-1] + ("0" if token[-1] != "0" else "1")):
            headers = [("Authorization", "Bearer " + text)]
            answer = wire.fetch(moved.listen_tls, "/api/v1/pods", headers=headers, tls=context)
            self.assert_status_error(answer, 401, mentions=["for another cluster", "--context"])
        code, _, said = kubectl.run("get", "--raw", "/api/v1/pods")
        self.assertNotEqual(0, code, said)
        self.assertEqual([], self.passed())

    def test_a_machine_without_ipv6(self):
        """As many nodes are: localhost is 127.0.0.1 alone then, and the log says so."""
        machine = island.Machine()
        self.addCleanup(machine.stop)
        machine.enter()
        machine.shell("ip link set lo up; ip -6 addr del ::1/128 dev lo 2>/dev/null || true")
        args = ("--local-tls=auto", "--listen-tls=localhost:5446")
        proxy = machine.do(lambda: self.start(*args))
        self.assertEqual("127.0.0.1:5446", proxy.listen_tls)
        self.assertIn("the kernel has no such address listenTLS=[::1]:5446", proxy.log())
        context = ssl.create_default_context(cafile=self.path("cmesh/ca.crt"))
        answer = machine.do(lambda: wire.fetch(proxy.listen_tls, "/api/v1/pods", tls=context))
        self.assertEqual(401, answer.status)

    def test_an_address_of_two_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            args = ("--local-tls=auto", "--listen-tls=127.0.0.1:0", f"--listen-tls=localhost:{port}")
            done = subprocess.run(
                [harness.program("localproxy"), "--kubeconfig", self.kubeconfig, "--listen=127.0.0.1:0",
                 "--admin=127.0.0.1:0", "--no-rules=passthrough", *args],
                capture_output=True, text=True, timeout=30, check=False,
                env=harness.clean_environment(**self.env),
            )  # fmt: skip
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn(f"127.0.0.1:{port}", done.stderr)
        self.assertIn("address already in use", done.stderr)

    def test_somebody_else_at_the_port_gets_no_token(self):
        """Who listens there before localproxy does."""
        heard = {"https": b"", "http": b""}
        for scheme in heard:
            with socket.create_server(("127.0.0.1", 0)) as server:
                where = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
                tls = ["--local-tls=auto"] if scheme == "https" else []
                text = self.generate(*tls, f"--proxy={where}")
                token = re.search(r"^ +token: \"?([\w.-]+)", text, re.M)[1]
                listening = threading.Thread(target=self.pretend, args=(server, scheme, heard))
                listening.start()
                self.assertNotEqual(0, self.kubectl(scheme).run("get", "--raw", "/version")[0])
                listening.join(60)
        sent = upstream.basic("cmesh", token).encode()
        self.assertIn(sent, heard["http"], "this is what TLS is for")
        self.assertEqual(b"", heard["https"])

    def pretend(self, server, scheme, heard):
        """Hears what the first client that comes says; others find nobody."""
        sock, _ = server.accept()
        server.close()
        with sock:
            sock.settimeout(60)
            try:
                if scheme == "https":
                    context = upstream.server_context(*self.authority().server())
                    sock = upstream.TlsSocket(sock, context)
                heard[scheme] = sock.recv(1 << 16)
            except (OSError, ssl.SSLError):
                pass

    def test_wrong_usage(self):
        certificate, key = self.authority().server()
        pair = ["--listen-tls-cert", certificate, "--listen-tls-key", key]
        unlimited = ["--no-rules=passthrough"]
        for program, args, words in (
            ("localproxy", [*unlimited, "--local-tls=auto", *pair], "--listen-tls-cert"),
            ("localproxy", [*unlimited, "--listen-tls=127.0.0.1:1", "--local-tls=off"],
             "--listen-tls needs a certificate"),
            ("localproxy", [*unlimited, "--listen-tls=127.0.0.1:1", "--token-file=off"],
             "--listen-tls needs a certificate"),
            ("localproxy", [*unlimited, "--local-tls=auto", "--listen-tls=localhost:0"], "two ports"),
            ("localproxy", [*unlimited, "--local-tls=auto", "--listen-tls=x"], "--listen-tls: "),
            ("kubeconfig-gen", ["--local-tls=auto", "--proxy-ca", certificate], "--proxy-ca"),
            ("kubeconfig-gen", ["--local-tls=auto", "--proxy=http://127.0.0.1:1"], "https://"),
        ):
            done = subprocess.run(
                [harness.program(program), "--kubeconfig", self.kubeconfig, *args],
                capture_output=True, text=True, timeout=30, check=False,
                env=harness.clean_environment(**self.env),
            )  # fmt: skip
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertFalse(os.path.exists(self.path("cmesh")))


if __name__ == "__main__":
    harness.main()
