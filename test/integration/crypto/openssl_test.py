#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our TLS at one end, OpenSSL's at the other: as Python's ssl module, and as openssl s_server and
s_client, which can be told to ask for a new key or for renegotiation.

Usage: openssl_test.py TLS_ECHO [unittest arguments]"""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

ECHO = ""
LIMIT = 60
SUITES = {
    "ec": ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
           "ECDHE-ECDSA-CHACHA20-POLY1305"),
    "rsa": ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384",
            "ECDHE-RSA-CHACHA20-POLY1305"),
}
TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
SIZES = (*range(1, 100), *range(100, 16300, 487), *range(16340, 16420), 32768, 60000)
DATA = os.urandom(60000)


class Echo:
    """The program at our end of a socket, which it takes over; and of a second one afterwards."""

    def __init__(self, connection, *arguments, again=None, alpn=None):
        environment = {**os.environ, **({"TLS_ECHO_ALPN": alpn} if alpn else {})}
        if again:
            environment["TLS_ECHO_AGAIN"] = str(again.fileno())
        self.process = subprocess.Popen([ECHO, *arguments], stdin=connection, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment, pass_fds=[again.fileno()] if again else [])
        for end in (connection, again):
            if end:
                end.close()

    def end(self):
        """The exit code, whose records it had, and what it complained of."""
        try:
            said, complaint = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, said.strip(), complaint.strip()


class Program:
    """openssl s_server or s_client at a Unix socket, with lines to it and from it."""

    def __init__(self, *arguments):
        self.serves = arguments[0] == "s_server"
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["stdbuf", "-oL", "openssl", *arguments],
                                        stdin=subprocess.PIPE, stdout=self.output,
                                        stderr=subprocess.STDOUT)

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def said(self):
        return os.pread(self.output.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait_for(self, words, times=1):
        deadline = time.monotonic() + LIMIT
        while self.said().count(words) < times:
            if time.monotonic() > deadline:
                raise AssertionError(f"openssl has not said {words!r}: {self.said()}")
            time.sleep(0.01)

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.output.close()


class OpensslTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for kind, new in (("ec", ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")),
                          ("rsa", ("rsa:2048",))):
            subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", *new, "-days", "2",
                            "-subj", "/CN=test", "-addext", "subjectAltName=DNS:localhost",
                            "-keyout", cls.path(f"{kind}.key"), "-out", cls.path(f"{kind}.crt")],
                           check=True, capture_output=True)
        cls.tls13 = cls.offers_tls13()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def client_context(cls, kind="ec"):
        return ssl.create_default_context(cafile=cls.path(f"{kind}.crt"))

    @classmethod
    def server_context(cls, kind="ec"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cls.path(f"{kind}.crt"), cls.path(f"{kind}.key"))
        return context

    @classmethod
    def our_client(cls, connection, kind="ec"):
        return Echo(connection, "client", cls.path(f"{kind}.crt"), "localhost")

    @classmethod
    def our_server(cls, connection, kind="ec"):
        return Echo(connection, "server", cls.path(f"{kind}.crt"), cls.path(f"{kind}.key"))

    @classmethod
    def offers_tls13(cls):
        ours, theirs = socket.socketpair()
        echo = cls.our_client(ours)
        context = cls.server_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        theirs.settimeout(LIMIT)
        try:
            with context.wrap_socket(theirs, server_side=True) as tls:
                tls.unwrap()
            return True
        except ssl.SSLError:
            return False
        finally:
            theirs.close()
            echo.end()

    def exchange(self, tls, echo, sizes=SIZES):
        """All sizes there and back; then the orderly end."""
        tls.settimeout(LIMIT)
        for size in sizes:
            tls.sendall(DATA[:size])
            back = b""
            while len(back) < size:
                piece = tls.recv(size - len(back))
                self.assertTrue(piece, "the connection ended")
                back += piece
            self.assertEqual(back, DATA[:size])
        tls.unwrap().close()
        self.assertEqual(echo.end(), (0, "own", ""))

    def test_our_client_with_each_cipher(self):
        for kind, suites in SUITES.items():
            for suite in suites:
                with self.subTest(suite=suite):
                    ours, theirs = socket.socketpair()
                    context = self.server_context(kind)
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                    context.set_ciphers(suite)
                    # mbedTLS 3.6 offers RSA-PSS, last, and does not take it in TLS 1.2.
                    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
                    echo = self.our_client(ours, kind)
                    tls = context.wrap_socket(theirs, server_side=True)
                    self.assertEqual(tls.cipher()[0], suite)
                    self.exchange(tls, echo)

    def test_our_server_with_each_cipher(self):
        for kind, suites in SUITES.items():
            for suite in suites:
                with self.subTest(suite=suite):
                    ours, theirs = socket.socketpair()
                    context = self.client_context(kind)
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                    context.set_ciphers(suite)
                    echo = self.our_server(ours, kind)
                    tls = context.wrap_socket(theirs, server_hostname="localhost")
                    self.assertEqual(tls.cipher()[0], suite)
                    self.exchange(tls, echo)

    def need_tls13(self):
        if not self.tls13:
            self.skipTest("our library has no TLS 1.3")

    def test_each_cipher_of_tls13(self):
        self.need_tls13()
        for kind in SUITES:
            for suite in TLS13_SUITES:
                with self.subTest(kind=kind, suite=suite):
                    path = self.path("suite.sock")
                    listener = self.listen(path)
                    client = Program("s_client", "-unix", path, "-tls1_3", "-ciphersuites", suite,
                                     "-CAfile", self.path(f"{kind}.crt"), "-servername", "localhost")
                    connection, _ = listener.accept()
                    listener.close()
                    echo = self.our_server(connection, kind)
                    client.wait_for(f"Cipher is {suite}")
                    client.tell("there and back")
                    client.wait_for("there and back")
                    client.close()
                    self.assertEqual(echo.end()[1], "own")
                    server, echo = self.serve("-tls1_3", "-ciphersuites", suite, kind=kind)
                    server.wait_for(f"CIPHER is {suite}")
                    server.tell("there and back")
                    server.wait_for("there and back")
                    server.close()
                    self.assertEqual(echo.end()[1], "own")

    def test_data_of_all_sizes_in_tls13(self):
        self.need_tls13()
        ours, theirs = socket.socketpair()
        echo = self.our_client(ours)
        tls = self.server_context().wrap_socket(theirs, server_side=True)
        self.assertEqual(tls.version(), "TLSv1.3")
        self.exchange(tls, echo)
        ours, theirs = socket.socketpair()
        echo = self.our_server(ours)
        tls = self.client_context().wrap_socket(theirs, server_hostname="localhost")
        self.assertEqual(tls.version(), "TLSv1.3")
        self.exchange(tls, echo)

    # ---- versions ----

    def negotiate(self, we_serve, lowest, highest):
        """The version, or who refused it with which words."""
        ours, theirs = socket.socketpair()
        context = self.client_context() if we_serve else self.server_context()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning) # of versions before 1.2
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version, context.maximum_version = lowest, highest
        echo = self.our_server(ours) if we_serve else self.our_client(ours)
        side = {"server_hostname": "localhost"} if we_serve else {"server_side": True}
        theirs.settimeout(LIMIT)
        try:
            with context.wrap_socket(theirs, **side) as tls:
                version = tls.version()
                tls.sendall(b"hello")
                self.assertEqual(tls.recv(5), b"hello")
                tls.unwrap().close()
        except ssl.SSLError:
            version = None
        theirs.close()
        code, _, complaint = echo.end()
        self.assertEqual(code == 0, version is not None, complaint)
        return version or complaint

    def test_versions(self):
        v = ssl.TLSVersion
        refusals = {
            "client": r"the server ended TLS with an alert: "
                      r"(protocol version not supported \(TLS 1.2 (was|and 1.3 were) offered"
                      r"|handshake failure)",
            "server": "the client offers no version or no cipher of TLS that is spoken here"}
        print(f"\n{'peer':22} {'our client':12} our server", file=sys.stderr)
        for name, lowest, highest, with13, without in (
                ("1.0 and 1.1", v.TLSv1, v.TLSv1_1, None, None),
                ("1.2 alone", v.TLSv1_2, v.TLSv1_2, "TLSv1.2", "TLSv1.2"),
                ("1.2 and 1.3", v.TLSv1_2, v.TLSv1_3, "TLSv1.3", "TLSv1.2"),
                ("1.3 alone", v.TLSv1_3, v.TLSv1_3, "TLSv1.3", None)):
            row = []
            for role, refusal in refusals.items():
                with self.subTest(peer=name, role=role):
                    expected = with13 if self.tls13 else without
                    got = self.negotiate(role == "server", lowest, highest)
                    row.append(got if expected else "refused")
                    if expected:
                        self.assertEqual(got, expected)
                    else:
                        self.assertRegex(got, refusal)
            print(f"{name:22} {row[0]:12} {row[1]}", file=sys.stderr)

    # ---- sessions ----

    def test_sessions_are_resumed(self):
        for version in self.versions():
            with self.subTest(version=version, role="client"):
                context = self.server_context()
                context.minimum_version = context.maximum_version = version
                pairs = [socket.socketpair(), socket.socketpair()]
                echo = Echo(pairs[0][0], "client", self.path("ec.crt"), "localhost",
                            again=pairs[1][0])
                for reused, (_, theirs) in zip((False, True), pairs):
                    theirs.settimeout(LIMIT)
                    tls = context.wrap_socket(theirs, server_side=True)
                    self.assertEqual(tls.session_reused, reused)
                    self.echo_once(tls)
                self.assertEqual(echo.end(), (0, "own\nown", ""))
            with self.subTest(version=version, role="server"):
                context = self.client_context()
                context.minimum_version = context.maximum_version = version
                pairs = [socket.socketpair(), socket.socketpair()]
                echo = Echo(pairs[0][0], "server", self.path("ec.crt"), self.path("ec.key"),
                            again=pairs[1][0])
                session = None
                for reused, (_, theirs) in zip((False, True), pairs):
                    theirs.settimeout(LIMIT)
                    tls = context.wrap_socket(theirs, server_hostname="localhost", session=session)
                    self.assertEqual(tls.session_reused, reused)
                    session = self.echo_once(tls)
                self.assertEqual(echo.end(), (0, "own\nown", ""))

    def versions(self):
        return [ssl.TLSVersion.TLSv1_2] + ([ssl.TLSVersion.TLSv1_3] if self.tls13 else [])

    def echo_once(self, tls):
        """The session, which in TLS 1.3 there is once something has been read."""
        tls.sendall(b"hello")
        self.assertEqual(tls.recv(5), b"hello")
        session = tls.session
        tls.unwrap().close()
        return session

    def test_there_is_no_early_data(self):
        self.need_tls13()
        client, echo = self.connect("-tls1_3")
        client.tell("first")
        client.wait_for("Max Early Data: 0")
        client.close()
        echo.end()

    def test_a_group_that_is_asked_for_by_a_retry(self):
        self.need_tls13()
        server, echo = self.serve("-tls1_3", "-groups", "P-384", "-msg")
        server.tell("first")
        server.wait_for("first")
        self.assertIn("ServerHello", server.said())
        self.assertEqual(server.said().count(", ClientHello"), 2) # the second after the retry
        server.close()
        self.assertEqual(echo.end()[1], "own")
        client, echo = self.connect("-tls1_3", "-groups", "ffdhe2048:P-256", "-msg")
        client.tell("first")
        client.wait_for("first")
        self.assertEqual(client.said().count(", ClientHello"), 2)
        client.close()
        self.assertEqual(echo.end()[1], "own")

    def test_protocols_are_agreed_on(self):
        for version in self.versions():
            for we_serve in (False, True):
                with self.subTest(version=version, we_serve=we_serve):
                    ours, theirs = socket.socketpair()
                    context = self.client_context() if we_serve else self.server_context()
                    context.minimum_version = context.maximum_version = version
                    context.set_alpn_protocols(["http/1.1", "h2"])
                    files = ((self.path("ec.crt"), self.path("ec.key")) if we_serve
                             else (self.path("ec.crt"), "localhost"))
                    echo = Echo(ours, "server" if we_serve else "client", *files, alpn="h2")
                    theirs.settimeout(LIMIT)
                    side = {"server_hostname": "localhost"} if we_serve else {"server_side": True}
                    tls = context.wrap_socket(theirs, **side)
                    self.assertEqual(tls.selected_alpn_protocol(), "h2")
                    self.echo_once(tls)
                    self.assertEqual(echo.end(), (0, "own", ""))

    # ---- certificates that are refused ----

    def test_a_server_that_we_refuse_learns_why(self):
        for version in self.versions():
            with self.subTest(version=version):
                ours, theirs = socket.socketpair()
                context = self.server_context()
                context.minimum_version = context.maximum_version = version
                echo = Echo(ours, "client", self.path("rsa.crt"), "localhost")
                theirs.settimeout(LIMIT)
                with self.assertRaisesRegex(ssl.SSLError, "(?i)alert.*(unknown|ca)"):
                    context.wrap_socket(theirs, server_side=True)
                theirs.close()
                self.assertIn("is signed by an unknown authority", echo.end()[2])

    def test_a_client_that_we_refuse_learns_why(self):
        for version in self.versions():
            for kind, words, ours_says in (
                    (None, "(?i)alert.*(certificate.required|handshake.failure)",
                     "the client showed no certificate"),
                    ("rsa", "(?i)alert.*(unknown|ca)", "is signed by an unknown authority")):
                with self.subTest(version=version, kind=kind):
                    ours, theirs = socket.socketpair()
                    context = self.client_context()
                    context.minimum_version = context.maximum_version = version
                    if kind:
                        context.load_cert_chain(self.path(f"{kind}.crt"), self.path(f"{kind}.key"))
                    echo = Echo(ours, "server", self.path("ec.crt"), self.path("ec.key"),
                                self.path("ec.crt"))
                    theirs.settimeout(LIMIT)
                    with self.assertRaisesRegex(ssl.SSLError, words):
                        with context.wrap_socket(theirs, server_hostname="localhost") as tls:
                            tls.recv(1) # in TLS 1.3 the handshake is over before
                    theirs.close()
                    self.assertIn(ours_says, echo.end()[2])

    def test_we_learn_why_a_client_refuses_us(self):
        for version in self.versions():
            with self.subTest(version=version):
                ours, theirs = socket.socketpair()
                context = self.client_context("rsa")
                context.minimum_version = context.maximum_version = version
                echo = self.our_server(ours)
                theirs.settimeout(LIMIT)
                with self.assertRaisesRegex(ssl.SSLError, "(?i)certificate.verify.failed"):
                    context.wrap_socket(theirs, server_hostname="localhost")
                theirs.close()
                self.assertRegex(echo.end()[2], "the client ended TLS with an alert: .*(authority|unknown)")

    def test_we_learn_why_a_server_refuses_us(self):
        for version in self.versions():
            for kind, words in ((None, "(certificate is required|handshake failure)"),
                                ("rsa", "certificate of an unknown authority")):
                with self.subTest(version=version, kind=kind):
                    ours, theirs = socket.socketpair()
                    context = self.server_context()
                    context.minimum_version = context.maximum_version = version
                    context.load_verify_locations(self.path("ec.crt"))
                    context.verify_mode = ssl.CERT_REQUIRED
                    own = (self.path(f"{kind}.crt"), self.path(f"{kind}.key")) if kind else ()
                    echo = Echo(ours, "client", self.path("ec.crt"), "localhost", *own)
                    theirs.settimeout(LIMIT)
                    with self.assertRaises(ssl.SSLError):
                        context.wrap_socket(theirs, server_side=True)
                    theirs.close()
                    self.assertRegex(echo.end()[2], f"the server ended TLS with an alert: .*{words}")

    def test_what_was_changed_on_the_way_is_refused(self):
        ours, theirs = socket.socketpair()
        context = self.client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        echo = self.our_server(ours)
        theirs.settimeout(LIMIT)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                theirs.sendall(outgoing.read())
                incoming.write(theirs.recv(65536))
        tls.write(b"hello")
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        theirs.sendall(record)
        incoming.write(theirs.recv(65536))
        with self.assertRaisesRegex(ssl.SSLError, "(?i)bad.record.mac"):
            tls.read(100)
        theirs.close()
        code, _, complaint = echo.end()
        self.assertEqual((code, complaint), (1, "TLS: a record is not authentic"))

    # ---- openssl s_server and s_client ----

    def listen(self, path):
        if os.path.exists(path):
            os.remove(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        return listener

    def connect(self, *arguments):
        """OpenSSL's client, and our server that it is connected to."""
        path = self.path("client.sock")
        listener = self.listen(path)
        client = Program("s_client", "-unix", path, "-CAfile", self.path("ec.crt"),
                         "-servername", "localhost", *arguments)
        self.addCleanup(client.close)
        connection, _ = listener.accept()
        listener.close()
        return client, self.our_server(connection)

    def serve(self, *arguments, kind="ec"):
        path = self.path("server.sock")
        server = Program("s_server", "-unix", path, "-unlink", "-cert", self.path(f"{kind}.crt"),
                         "-key", self.path(f"{kind}.key"), *arguments)
        self.addCleanup(server.close)
        server.wait_for("ACCEPT")
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        return server, self.our_client(connection, kind)

    def test_new_keys(self):
        self.need_tls13()
        for suite in TLS13_SUITES:
            for early in (False, True):
                with self.subTest(suite=suite, early=early):
                    server, echo = self.serve("-tls1_3", "-ciphersuites", suite)
                    self.renew_keys(server, early)
                    server.close()
                    self.assertEqual(echo.end()[1], "own")
                    client, echo = self.connect("-tls1_3", "-ciphersuites", suite)
                    self.renew_keys(client, early)
                    client.close()
                    self.assertEqual(echo.end()[1], "own")

    def renew_keys(self, program, early):
        """The peer takes new keys, and with "K" wants one of ours; early: before there was any data."""
        program.wait_for("CIPHER is" if program.serves else "Max Early Data")
        if not early:
            program.tell("first")
            program.wait_for("first")
        for i in range(5):
            program.tell("K" if i % 2 == 0 else "k")
            program.wait_for("KEYUPDATE" if not program.serves else "SSL_do_handshake -> 1", i + 1)
            program.tell(f"line {i}")
            program.wait_for(f"line {i}")

    def test_a_server_that_wants_to_renegotiate(self):
        server, echo = self.serve("-tls1_2")
        server.tell("first")
        server.wait_for("first")
        server.tell("r")
        server.wait_for("no renegotiation")
        server.close()
        self.assertEqual(echo.end()[1], "own")

    def test_a_client_that_wants_to_renegotiate(self):
        client, echo = self.connect("-tls1_2")
        client.tell("first")
        client.wait_for("first")
        client.tell("R")
        client.wait_for("no renegotiation")
        self.assertEqual(echo.end()[1], "own")


if __name__ == "__main__":
    ECHO = sys.argv.pop(1)
    unittest.main()
