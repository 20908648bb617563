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
    """The program at our end of a socket, which it takes over."""

    def __init__(self, connection, *arguments):
        self.process = subprocess.Popen([ECHO, *arguments], stdin=connection, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        connection.close()

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

    def test_our_client_in_tls13(self):
        if not self.tls13:
            self.skipTest("our client does not offer TLS 1.3")
        ours, theirs = socket.socketpair()
        echo = self.our_client(ours)
        tls = self.server_context().wrap_socket(theirs, server_side=True)
        self.assertEqual(tls.version(), "TLSv1.3")
        self.exchange(tls, echo)

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

    def serve(self, *arguments):
        path = self.path("server.sock")
        server = Program("s_server", "-unix", path, "-unlink", "-cert", self.path("ec.crt"),
                         "-key", self.path("ec.key"), *arguments)
        self.addCleanup(server.close)
        server.wait_for("ACCEPT")
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        return server, self.our_client(connection)

    def test_new_keys(self):
        if not self.tls13:
            self.skipTest("our client does not offer TLS 1.3")
        for suite in TLS13_SUITES:
            with self.subTest(suite=suite):
                server, echo = self.serve("-tls1_3", "-ciphersuites", suite)
                server.tell("first")
                server.wait_for("first")
                for i in range(5):
                    server.tell("K" if i % 2 == 0 else "k")  # with a wish for one of ours
                    server.wait_for("SSL_do_handshake -> 1", i + 1)
                    server.tell(f"line {i}")
                    server.wait_for(f"line {i}")
                server.close()
                self.assertEqual(echo.end()[1], "own")

    def test_a_server_that_wants_to_renegotiate(self):
        server, echo = self.serve("-tls1_2")
        server.tell("first")
        server.wait_for("first")
        server.tell("r")
        server.wait_for("no renegotiation")
        server.close()
        self.assertEqual(echo.end()[1], "own")

    def test_a_client_that_wants_to_renegotiate(self):
        path = self.path("client.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        client = Program("s_client", "-unix", path, "-tls1_2", "-CAfile", self.path("ec.crt"),
                         "-servername", "localhost")
        self.addCleanup(client.close)
        connection, _ = listener.accept()
        listener.close()
        echo = self.our_server(connection)
        client.tell("first")
        client.wait_for("first")
        client.tell("R")
        client.wait_for("no renegotiation")
        self.assertEqual(echo.end()[1], "own")


if __name__ == "__main__":
    ECHO = sys.argv.pop(1)
    unittest.main()
