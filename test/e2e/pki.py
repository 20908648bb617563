# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made with openssl(1). P-256, because handshakes with it are fast."""

import os
import subprocess
import time

CONFIG = "[req]\ndistinguished_name = dn\n[dn]\n"

DATED_CONFIG = """[ca]
default_ca = here
[here]
database = {path}/index.txt
serial = {path}/serial
new_certs_dir = {path}
default_md = sha256
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = IP:127.0.0.1,DNS:localhost
"""


class Authority:
    """A certificate authority in the folder `path`, made there or found there (ca.crt, ca.key)."""

    def __init__(self, path, certificate=None, key=None, extensions=()):
        self.path = path
        self.config = os.path.join(path, "openssl.cnf")
        with open(self.config, "w", encoding="ascii") as f:
            f.write(CONFIG)
        self.certificate = certificate or os.path.join(path, "ca.crt")
        self.key = key or os.path.join(path, "ca.key")
        if certificate is None:
            self.openssl("-subj", "/CN=e2e-ca", "-keyout", self.key, "-out", self.certificate,
                         "-addext", "basicConstraints=critical,CA:TRUE",
                         "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                         *(word for text in extensions for word in ("-addext", text)))  # fmt: skip

    def openssl(self, *args, days=30):
        command = ["openssl", "req", "-x509", "-config", self.config, "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:P-256", "-nodes", "-sha256", "-days", str(days)]  # fmt: skip
        subprocess.run([*command, *args], check=True, capture_output=True)

    def issue(self, name, subject, extensions=(), days=30):
        """Returns the paths of a new certificate and its key."""
        certificate = os.path.join(self.path, name + ".crt")
        key = os.path.join(self.path, name + ".key")
        args = ["-subj", subject, "-keyout", key, "-out", certificate, "-CA", self.certificate]
        args += ["-CAkey", self.key, "-addext", "basicConstraints=critical,CA:FALSE"]
        for extension in extensions:
            args += ["-addext", extension]
        self.openssl(*args, days=days)
        return certificate, key

    def server(self, name="server", alt="IP:127.0.0.1,DNS:localhost", days=30):
        usage = "extendedKeyUsage=serverAuth"
        return self.issue(name, "/CN=e2e-server", [usage, f"subjectAltName={alt}"], days)

    def client(self, user, groups=()):
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self.issue(user, subject, ["extendedKeyUsage=clientAuth"])

    def expired_server(self):
        """As server(), but no longer valid."""
        _, key = self.server("expired")
        return self.dated("expired", key, "20200101000000Z", "20200201000000Z"), key

    def ending(self, name, days, life):
        """A server's or a client's, of a life of so many days, of which so many are left."""
        _, key = self.server(name)
        now = time.time()
        form = "%Y%m%d%H%M%SZ"
        start = time.strftime(form, time.gmtime(now - (life - days) * 86400))
        return self.dated(name, key, start, time.strftime(form, time.gmtime(now + days * 86400))), key

    def dated(self, name, key, start, end):
        """Only openssl-ca takes dates of the past."""
        csr = os.path.join(self.path, name + ".csr")
        certificate = os.path.join(self.path, name + ".crt")
        config = os.path.join(self.path, "ca.cnf")
        with open(config, "w", encoding="ascii") as f:
            f.write(DATED_CONFIG.format(path=self.path))
        with open(os.path.join(self.path, "index.txt"), "w", encoding="ascii"):
            pass
        with open(os.path.join(self.path, "serial"), "w", encoding="ascii") as f:
            f.write("1000\n")
        request = ["openssl", "req", "-new", "-config", self.config, "-key", key, "-subj"]
        subprocess.run(request + ["/CN=e2e-" + name, "-out", csr], check=True, capture_output=True)
        sign = ["openssl", "ca", "-batch", "-config", config, "-in", csr, "-out", certificate]
        sign += ["-cert", self.certificate, "-keyfile", self.key, "-notext"]
        sign += ["-startdate", start, "-enddate", end]
        subprocess.run(sign, check=True, capture_output=True)
        return certificate
