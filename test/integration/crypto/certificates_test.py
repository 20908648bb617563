#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What our client makes of certificates that openssl made, shown by a server of Python's ssl module:
name constraints, with `openssl verify` as the judge, critical extensions, and algorithms.

Usage: certificates_test.py TLS_ECHO [unittest arguments]"""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

ECHO = ""
LIMIT = 60
EC = ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")
LOCAL = "DNS:localhost"

# constraints, names of the server's certificate, whether they fit
NAMES = (
    # DNS
    ("permitted;DNS:localhost", "DNS:localhost", True),
    ("permitted;DNS:LOCALHOST", "DNS:localhost", True),
    ("permitted;DNS:example.com", "DNS:localhost,DNS:a.example.com", False),
    ("permitted;DNS:example.com,permitted;DNS:localhost", "DNS:localhost,DNS:a.b.example.com", True),
    ("permitted;DNS:example.com,permitted;DNS:localhost", "DNS:localhost,DNS:example.com", True),
    ("permitted;DNS:example.com,permitted;DNS:localhost", "DNS:localhost,DNS:badexample.com", False),
    ("permitted;DNS:example.com,permitted;DNS:localhost", "DNS:localhost,DNS:example.com.org", False),
    ("permitted;DNS:.example.com,permitted;DNS:localhost", "DNS:localhost,DNS:a.example.com", True),
    ("permitted;DNS:.example.com,permitted;DNS:localhost", "DNS:localhost,DNS:example.com", False),
    ("permitted;DNS:example.com,permitted;DNS:localhost", "DNS:localhost,DNS:*.example.com", True),
    ("permitted;DNS:a.example.com,permitted;DNS:localhost", "DNS:localhost,DNS:*.example.com", False),
    ("excluded;DNS:example.com", "DNS:localhost", True),
    ("excluded;DNS:example.com", "DNS:localhost,DNS:example.com", False),
    ("excluded;DNS:example.com", "DNS:localhost,DNS:A.EXAMPLE.COM", False),
    ("excluded;DNS:example.com", "DNS:localhost,DNS:badexample.com", True),
    ("excluded;DNS:example.com", "DNS:localhost,DNS:*.example.com", False),
    ("excluded;DNS:localhost", "DNS:localhost", False),
    ("permitted;DNS:localhost,excluded;DNS:localhost", "DNS:localhost", False),
    ("permitted;DNS:example.com,excluded;DNS:a.example.com,permitted;DNS:localhost",
     "DNS:localhost,DNS:b.example.com", True),
    ("permitted;DNS:example.com,excluded;DNS:a.example.com,permitted;DNS:localhost",
     "DNS:localhost,DNS:x.a.example.com", False),
    # Addresses
    ("permitted;IP:127.0.0.0/255.0.0.0", "DNS:localhost,IP:127.0.0.1", True),
    ("permitted;IP:127.0.0.0/255.0.0.0", "DNS:localhost,IP:127.255.255.255", True),
    ("permitted;IP:127.0.0.0/255.0.0.0", "DNS:localhost,IP:128.0.0.1", False),
    ("permitted;IP:10.32.0.0/255.224.0.0", "DNS:localhost,IP:10.63.255.255", True),
    ("permitted;IP:10.32.0.0/255.224.0.0", "DNS:localhost,IP:10.64.0.0", False),
    ("permitted;IP:10.32.0.0/255.224.0.0", "DNS:localhost,IP:10.31.255.255", False),
    ("permitted;IP:127.0.0.0/255.0.0.0", "DNS:localhost,IP:::1", False),
    ("permitted;IP:127.0.0.0/255.0.0.0", "DNS:localhost", True),
    ("excluded;IP:10.0.0.0/255.0.0.0", "DNS:localhost,IP:10.1.2.3", False),
    ("excluded;IP:10.0.0.0/255.0.0.0", "DNS:localhost,IP:11.1.2.3", True),
    ("excluded;IP:0.0.0.0/0.0.0.0", "DNS:localhost,IP:11.1.2.3", False),
    ("permitted;IP:fd00::/ff00::", "DNS:localhost,IP:fd12::1", True),
    ("permitted;IP:fd00::/ff00::", "DNS:localhost,IP:fe12::1", False),
    ("excluded;IP:fd00::/ff00::", "DNS:localhost,IP:fd12::1", False),
    ("excluded;IP:::/::", "DNS:localhost,IP:127.0.0.1", True),
    ("permitted;DNS:localhost,permitted;IP:127.0.0.0/255.0.0.0",
     "DNS:localhost,IP:127.0.0.1", True),
    ("permitted;DNS:localhost", "DNS:localhost,IP:127.0.0.1", True),
    # Of other kinds, for certificates that have none of these
    ("permitted;email:example.com", "DNS:localhost", True),
    ("permitted;URI:.example.com", "DNS:localhost", True),
)

# The same where we refuse, fail closed, what openssl can check or reads otherwise.
STRICTER = (
    ("permitted;email:example.com", "DNS:localhost,email:a@example.com", "an email address"),
    ("excluded;email:example.org", "DNS:localhost,email:a@example.com", "an email address"),
    ("permitted;URI:.example.com", "DNS:localhost,URI:https://a.example.com/", "a URI"),
    ("permitted;dirName:subtree", "DNS:localhost", "a directory name"),
    ("excluded;dirName:subtree", "DNS:localhost", "a directory name"),
    # "*.example.com" is good for a.example.com too.
    ("excluded;DNS:a.example.com", "DNS:localhost,DNS:*.example.com",
     r"\*\.example\.com, which the name constraints of its authority"),
)

ALGORITHMS = (
    ("Ed25519", ("ED25519",)),
    ("Ed448", ("ED448",)),
    ("RSA-PSS", ("RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048")),
)


class Authority:
    """A certificate with its key, in files, that signs others."""

    def __init__(self, folder, name, new=EC, issuer=None, extensions=(), leaf=False, sections=""):
        self.base = os.path.join(folder, name)
        self.crt, self.key = f"{self.base}.crt", f"{self.base}.key"
        config = f"{self.base}.cnf"
        usage = [] if leaf else ["basicConstraints=critical,CA:TRUE"]
        lines = [*usage, "subjectKeyIdentifier=hash", *extensions]
        with open(config, "w", encoding="ascii") as f:
            f.write("[req]\ndistinguished_name=dn\nprompt=no\n[dn]\n"
                    f"CN={name}\n[ext]\n" + "\n".join(lines) + f"\n{sections}\n")
        run("openssl", "genpkey", "-algorithm", *new, "-out", self.key)
        command = ["openssl", "req", "-new", "-x509", "-days", "2", "-config", config,
                   "-extensions", "ext", "-key", self.key, "-out", self.crt]
        if issuer:
            command += ["-CA", issuer.crt, "-CAkey", issuer.key]
        run(*command)

    def text(self):
        with open(self.crt, encoding="ascii") as f:
            return f.read()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}")


class CertificatesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def authority(self, name, **how):
        return Authority(self.folder, name, **how)

    def limited(self, constraints, critical=True, **how):
        section = "[subtree]\nO=Example\n"
        extension = f"nameConstraints={'critical,' if critical else ''}{constraints}"
        return self.authority("limited CA", extensions=[extension], sections=section, **how)

    def leaf(self, issuer, names=LOCAL, **how):
        extensions = [f"subjectAltName={names}", *how.pop("extensions", ())]
        return self.authority("leaf", issuer=issuer, extensions=extensions, leaf=True, **how)

    def file(self, name, *authorities):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as f:
            f.write("".join(a.text() for a in authorities))
        return path

    def visit(self, trust, server, between=(), version=None):
        """Our client's exit code and what it says, of a server with that chain."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file("chain.crt", server, *between), server.key)
        if version:
            context.minimum_version = context.maximum_version = version
        ours, theirs = socket.socketpair()
        trusted = trust if isinstance(trust, str) else trust.crt
        client = subprocess.Popen([ECHO, "client", trusted, "localhost"], stdin=ours,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ours.close()
        theirs.settimeout(LIMIT)
        try:
            with context.wrap_socket(theirs, server_side=True) as tls:
                tls.sendall(b"hello")
                self.assertEqual(tls.recv(5), b"hello")
                tls.unwrap()
        except (ssl.SSLError, OSError):
            pass # which the client speaks of
        theirs.close()
        _, says = client.communicate(timeout=LIMIT)
        return client.returncode, says.strip()

    def receive(self, client, client_ca):
        """The same of our server, which wants a certificate, and of a client that has one."""
        server_ca = self.authority("server CA")
        server = self.authority("server", issuer=server_ca, leaf=True,
                                extensions=[f"subjectAltName={LOCAL}"])
        context = ssl.create_default_context(cafile=server_ca.crt)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT # which newer Python asks for
        context.load_cert_chain(client.crt, client.key)
        ours, theirs = socket.socketpair()
        echo = subprocess.Popen([ECHO, "server", server.crt, server.key, client_ca.crt], stdin=ours,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ours.close()
        theirs.settimeout(LIMIT)
        try:
            with context.wrap_socket(theirs, server_hostname="localhost") as tls:
                tls.sendall(b"hello")
                self.assertEqual(tls.recv(5), b"hello")
                tls.unwrap()
        except (ssl.SSLError, OSError):
            pass # which the server speaks of
        theirs.close()
        _, says = echo.communicate(timeout=LIMIT)
        return echo.returncode, says.strip()

    def verify(self, trust, server, between=()):
        command = ["openssl", "verify", "-CAfile", trust.crt]
        if between:
            command += ["-untrusted", self.file("between.crt", *between)]
        return subprocess.run([*command, server.crt], capture_output=True).returncode == 0

    def assert_accepts(self, answer):
        self.assertEqual(answer, (0, ""))

    def assert_refuses(self, answer, words):
        code, says = answer
        self.assertEqual(code, 1)
        self.assertRegex(says, words)

    def test_names_that_constraints_permit(self):
        for constraints, names, fits in NAMES:
            with self.subTest(constraints=constraints, names=names):
                root = self.limited(constraints)
                server = self.leaf(root, names)
                self.assertEqual(self.verify(root, server), fits, "openssl sees it otherwise")
                answer = self.visit(root, server)
                if fits:
                    self.assert_accepts(answer)
                else:
                    self.assert_refuses(answer, 'certificate of "leaf" is for .*, which the name '
                                        'constraints of its authority "limited CA" do not permit')

    def test_what_cannot_be_checked_is_refused(self):
        for constraints, names, words in STRICTER:
            with self.subTest(constraints=constraints, names=names):
                root = self.limited(constraints)
                self.assert_refuses(self.visit(root, self.leaf(root, names)),
                                    f'certificate of "leaf" (has|is for) {words}')

    def test_constraints_that_are_not_critical_count_too(self):
        root = self.limited("permitted;DNS:example.com", critical=False)
        self.assert_refuses(self.visit(root, self.leaf(root)), "do not permit")

    def test_an_authority_that_the_server_sends(self):
        root = self.authority("root CA")
        for constraints, fits in (("permitted;DNS:localhost", True),
                                  ("permitted;DNS:example.com", False)):
            with self.subTest(constraints=constraints):
                middle = self.limited(constraints, issuer=root)
                server = self.leaf(middle)
                self.assertEqual(self.verify(root, server, [middle]), fits)
                answer = self.visit(root, server, [middle])
                if fits:
                    self.assert_accepts(answer)
                else:
                    self.assert_refuses(answer, 'is for localhost, which the name constraints of '
                                        'its authority "limited CA" do not permit')

    def test_the_root_limits_what_is_two_steps_below(self):
        root = self.limited("permitted;DNS:example.com")
        middle = self.authority("middle CA", issuer=root)
        server = self.leaf(middle)
        self.assertFalse(self.verify(root, server, [middle]))
        self.assert_refuses(self.visit(root, server, [middle]),
                            'its authority "limited CA" do not permit')

    def test_a_limited_authority_beside_another(self):
        root = self.limited("permitted;DNS:localhost")
        other = self.authority("other CA")
        server = self.leaf(root)
        for bundle in ((root, other), (other, root)):
            self.assert_accepts(self.visit(self.file("bundle.crt", *bundle), server))

    def test_clients_are_held_to_the_same(self):
        for constraints, names, words in (
                ("permitted;DNS:localhost", "DNS:localhost", None),
                ("permitted;DNS:example.com", "DNS:localhost", "do not permit"),
                ("permitted;DNS:example.com", "email:me@example.com", None),
                ("permitted;email:example.com", "email:me@example.com", "an email address")):
            with self.subTest(constraints=constraints, names=names):
                root = self.limited(constraints)
                answer = self.receive(self.leaf(root, names), root)
                if words:
                    self.assert_refuses(answer, words)
                else:
                    self.assert_accepts(answer)

    def test_critical_certificate_policies(self):
        root = self.authority("root CA", extensions=["certificatePolicies=critical,1.2.3.4"])
        server = self.leaf(root, extensions=["certificatePolicies=critical,1.2.3.4"])
        self.assert_accepts(self.visit(root, server))

    def test_unknown_critical_extensions_are_named(self):
        for extension, name in (
                ("policyConstraints=critical,requireExplicitPolicy:0", "policy constraints"),
                ("1.3.6.1.4.1.99999.1=critical,DER:0500", r"1\.3\.6\.1\.4\.1\.99999\.1")):
            with self.subTest(extension=extension):
                root = self.authority("odd CA", extensions=[extension])
                words = ('the certificate of "odd CA" has a critical extension that is not '
                         f"supported: {name}")
                self.assert_refuses(self.visit(root, self.leaf(root)),
                                    f"limited.crt|odd CA.crt: no certificate could be read: {words}")
                plain = self.authority("root CA")
                middle = self.authority("odd CA", issuer=plain, extensions=[extension])
                self.assert_refuses(self.visit(plain, self.leaf(middle), [middle]), words)

    def test_constraints_that_cannot_be_read(self):
        # A mask with a hole in it, and no subtree at all.
        for value in ("30:0e:a0:0c:30:0a:87:08:0a:00:00:00:ff:00:ff:00", "30:00"):
            with self.subTest(value=value):
                root = self.authority("odd CA", extensions=[f"2.5.29.30=critical,DER:{value}"])
                self.assert_refuses(self.visit(root, self.leaf(root)),
                                    'the certificate of "odd CA" has a critical extension that '
                                    "cannot be read: name constraints")
                root = self.authority("odd CA", extensions=[f"2.5.29.30=DER:{value}"])
                self.assert_refuses(self.visit(root, self.leaf(root)),
                                    'the name constraints of the authority "odd CA" cannot be read')

    def test_what_a_bundle_has_besides_is_logged(self):
        root = self.authority("root CA")
        server = self.leaf(root)
        odd = self.authority("odd CA", extensions=["1.3.6.1.4.1.99999.1=critical,DER:0500"])
        modern = self.authority("modern CA", new=("ED25519",))
        bundle = self.file("bundle.crt", odd, root, modern)
        code, says = self.visit(bundle, server)
        self.assertEqual(code, 0)
        lines = says.splitlines()
        self.assertEqual(len(lines), 2, says)
        for line, words in zip(lines, ('the certificate of .*odd CA.* 1.3.6.1.4.1.99999.1',
                                       'the certificate of .*modern CA.* Ed25519')):
            self.assertIn("WARN", line)
            self.assertRegex(line, f"a certificate authority is left out from=.*bundle.crt .*{words}")

    def test_authorities_with_other_algorithms_are_named(self):
        for name, new in ALGORITHMS:
            with self.subTest(algorithm=name):
                root = self.authority("modern CA", new=new)
                server = self.leaf(root)
                words = (f'the certificate of "modern CA" (is signed with|has a key for) {name}, '
                         "which mbedTLS .* does not support: use one .* an ECDSA")
                self.assert_refuses(self.visit(root, server), words)
                # Between the leaf and a root that is known.
                plain = self.authority("root CA")
                middle = self.authority("modern CA", new=new, issuer=plain)
                self.assert_refuses(self.visit(plain, self.leaf(middle), [middle]), name)

    def test_a_certificate_of_our_own_that_we_cannot_use(self):
        root = self.authority("root CA")
        for name, new in ALGORITHMS:
            own = self.leaf(root, new=new)
            for arguments in (("server", own.crt, own.key),
                              ("client", root.crt, "localhost", own.crt, own.key)):
                with self.subTest(algorithm=name, arguments=arguments):
                    done = subprocess.run([ECHO, *arguments], stdin=subprocess.DEVNULL,
                                          capture_output=True, text=True)
                    self.assert_refuses(
                        (done.returncode, done.stderr),
                        f'leaf.crt: no certificate could be read: the certificate of "leaf" has a '
                        f"key for {name}, which mbedTLS .* does not support: use one with an ECDSA")

    def test_a_server_whose_key_we_cannot_use(self):
        root = self.authority("root CA")
        for name, new in ALGORITHMS[:2]:
            with self.subTest(algorithm=name):
                self.assert_refuses(self.visit(root, self.leaf(root, new=new)),
                                    "alert: handshake failure.*Ed25519.*ECDSA")


if __name__ == "__main__":
    ECHO = sys.argv.pop(1)
    unittest.main()
