#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nat-init in a network namespace of its own: whose connections go where, and what else is there."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import unittest

import harness
import island

PORT = 6443  # of the API server
TLS = 5446  # of localproxy
PROXY_USER, USER = 5443, 65532
FAR6 = "fd00:5443::2"
CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) as s:
    sys.stdout.write(s.recv(100).decode())
"""
OTHERS = """
table inet filter {
	chain output {
		type filter hook output priority filter; policy accept;
		tcp dport 9 drop
	}
}
table ip nat {
	chain output {
		type nat hook output priority -100; policy accept;
		tcp dport 7 redirect to :8
	}
}
"""


def serve(machine, address, port, answer):
    """Answers each connection with its own word."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = machine.do(lambda: socket.create_server((address, port), family=family))

    def run():
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                peer.sendall(answer.encode())

    threading.Thread(target=run, daemon=True).start()
    return server


@unittest.skipIf(os.geteuid() != 0, "not root")
@unittest.skipIf(shutil.which("nft") is None, "nft(8) is not installed")
class NatInitTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.cable = island.Cable(self.addCleanup)
        self.pod = self.cable.near
        self.pod.shell("ip -6 addr add fd00:5443::1/64 dev near nodad")
        self.cable.far.shell(f"ip -6 addr add {FAR6}/64 dev far nodad")
        for machine, address, port, answer in (
            (self.pod, "127.0.0.1", TLS, "localproxy"),
            (self.pod, "::1", TLS, "localproxy"),
            (self.cable.far, island.FAR, PORT, "API server"),
            (self.cable.far, FAR6, PORT, "API server"),
            (self.cable.far, island.FAR, PORT + 1, "another port"),
        ):
            server = serve(machine, address, port, answer)
            self.addCleanup(server.close)
            self.addCleanup(server.shutdown, socket.SHUT_RDWR)

    def run_in_pod(self, *command, env=None, stdin=None):
        def run():
            return subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=60, check=False,
                env=harness.clean_environment(**(env or {})),
            )  # fmt: skip

        return self.pod.do(run)

    def nft(self, *args, stdin=None):
        done = self.run_in_pod("nft", *args, stdin=stdin)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def init(self, *args, code=0, before=(), env=None):
        done = self.run_in_pod(*before, harness.program("nat-init"), *args, env=env)
        self.assertIsNone(harness.SANITIZER_REPORT.search(done.stderr), done.stderr)
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stderr

    def install(self):
        return self.init(
            f"--except-user={PROXY_USER}",
            f"--server={island.FAR}:{PORT}",
            f"--server=[{FAR6}]:{PORT}",
        )

    def reached(self, address, port=PORT, user=USER):
        """Whom a program of that user talks to when it connects there."""
        who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        done = self.run_in_pod(*who, sys.executable, "-c", CONNECT, address, str(port))
        return done.stdout or done.stderr

    def test_whose_connections_go_where(self):
        for address in (island.FAR, FAR6):
            self.assertEqual("API server", self.reached(address))
        self.install()
        for address in (island.FAR, FAR6):
            for user in (0, 1, USER):
                self.assertEqual("localproxy", self.reached(address, user=user))
            self.assertEqual("API server", self.reached(address, user=PROXY_USER))
        self.assertEqual("another port", self.reached(island.FAR, PORT + 1))
        self.init("--remove")
        for address in (island.FAR, FAR6):
            self.assertEqual("API server", self.reached(address))

    def test_rules_of_others_stay(self):
        self.nft("-f", "-", stdin=OTHERS)
        before = self.nft("list", "ruleset")
        self.install()
        once = self.nft("list", "ruleset")
        self.assertIn(before, once)
        self.install()
        self.assertEqual(once, self.nft("list", "ruleset"))
        self.init("--remove")
        self.assertEqual(before, self.nft("list", "ruleset"))
        self.init("--remove")  # there is nothing
        self.assertEqual(before, self.nft("list", "ruleset"))

    def test_what_is_printed_is_what_is_done(self):
        args = (f"--except-user={PROXY_USER}", f"--server={island.FAR}:{PORT}")
        printed = self.run_in_pod(harness.program("nat-init"), *args, "--print")
        self.assertEqual("", self.nft("list", "ruleset"))
        self.nft("-f", "-", stdin=printed.stdout)
        wanted = self.nft("list", "ruleset")
        self.nft("flush", "ruleset")
        self.init(*args)
        self.assertEqual(wanted, self.nft("list", "ruleset"))

    def test_the_servers_of_the_variables(self):
        for host in (island.FAR, FAR6):
            env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(PORT)}
            self.init(f"--except-user={PROXY_USER}", env=env)
            self.assertEqual("localproxy", self.reached(host))
        self.assertEqual("API server", self.reached(island.FAR), "the second one replaces the first")

    def test_without_the_right_nothing_is_changed(self):
        dropped = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
        other = ("setpriv", f"--reuid={USER}", "--clear-groups")
        for before in (dropped, other):
            said = self.init(
                "--except-user=1", f"--server={island.FAR}:{PORT}", before=before, code=1
            )
            self.assertIn("NET_ADMIN", said)
        self.assertEqual("", self.nft("list", "ruleset"))

    def kernel(self, *refused):
        """A folder with an nft that refuses these words, as one does on a kernel that lacks something,
        and keeps what it was given otherwise."""
        lines = ["#!/bin/sh", "case $1 in"]
        for words, said in refused:
            lines.append(f"""*'{words}'*) echo 'Error: Could not process rule: {said}' >&2; exit 1;;""")
        lines += ["esac", f"printf '%s' \"$1\" >>{self.path('given')}"]
        script = self.path("nft", "\n".join(lines) + "\n")
        os.chmod(script, 0o755)
        return {"PATH": self.folder}

    def test_a_kernel_without_nat_for_both_families_in_one_table(self):
        """Before 5.2. Each then has a table of its own."""
        env = self.kernel(("table inet cmesh {", "No such file or directory"))
        args = (f"--except-user={PROXY_USER}", f"--server={island.FAR}:{PORT}", f"--server=[{FAR6}]:{PORT}")
        self.init(*args, env=env)
        with open(self.path("given"), encoding="ascii") as f:
            given = f.read()
        self.nft("-f", "-", stdin=given)
        for address in (island.FAR, FAR6):
            self.assertEqual("localproxy", self.reached(address))
        self.assertIn("table ip6 cmesh {", self.nft("list", "ruleset"))
        self.init("--remove")
        self.assertEqual("", self.nft("list", "ruleset"))

    def test_a_kernel_without_nat(self):
        args = (f"--except-user={PROXY_USER}", f"--server={island.FAR}:{PORT}")
        for said, words in (
            ("No such file or directory", "the kernel has no nat by nftables: its modules"),
            ("Operation not supported", "the kernel has no nat by nftables: its modules"),
            ("Protocol not supported", "the kernel has no nftables: its module nf_tables"),
            ("Device or resource busy", "Device or resource busy"),
        ):
            env = self.kernel(("", said))
            self.assertIn(words, self.init(*args, env=env, code=1))
        self.assertIn("nft is not in PATH", self.init(*args, env={"PATH": "/nonexistent"}, code=1))

    def test_wrong_usage(self):
        for args, code, words in (
            ((), 2, "--except-user is missing"),
            (("--except-user=0",), 2, "--except-user"),
            (("--except-user=1",), 1, "KUBERNETES_SERVICE_HOST"),
            (("--except-user=1", "--server=a b:1"), 1, "is not HOST:PORT"),
            (("--except-user=1", "--server=1.2.3.4:443/x"), 1, "is not HOST:PORT"),
            (("--except-user=1", "--server=none.invalid:443"), 1, "cannot look up none.invalid"),
            (("--except-user=1", "--to-port=0"), 2, "--to-port"),
            (("--remove", "--print"), 2, "--print"),
        ):
            with self.subTest(args=args):
                self.assertIn(words, self.init(*args, code=code))
        self.assertEqual("", self.nft("list", "ruleset"))


if __name__ == "__main__":
    harness.main()
