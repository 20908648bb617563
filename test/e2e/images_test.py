#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images: what is in them, who takes them, and that the same input gives the same bytes."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import unittest

import harness
import images

LIMIT = 25_000_000  # bytes, of the image for the sidecars
PROGRAMS = {
    "localproxy": ["localproxy", "kubeconfig-gen", "rulesync"],
    "manager": ["manager"],
    "nat": ["nat-init"],
}
TOOLS = {"nat": ["nft"]}  # of the distribution's, that ours run
SANITIZED = harness.is_sanitized(harness.program("localproxy"))


def installed_version(package):
    return subprocess.run(
        images.there("dpkg-query", "-W", "-f", "${Version}", package),
        check=True,
        capture_output=True,
        text=True,
    ).stdout


class BuildTest(harness.TestCase):
    """What `k8s/images/build` writes."""

    @classmethod
    def setUpClass(cls):
        cls.shared = cls.make_folder(cls.addClassCleanup)
        cls.images = images.build(cls.shared)

    def test_same_input_same_bytes(self):
        """Whoever builds them, wherever, whenever."""
        again = images.build(self.path("again"), TZ="Asia/Tokyo", HOME=self.folder, LC_ALL="C")
        self.addCleanup(os.umask, os.umask(0o077))
        third = images.build(self.path("third"))
        for name, image in self.images.items():
            for other in (again[name], third[name]):
                with open(image.path, "rb") as one, open(other.path, "rb") as two:
                    self.assertEqual(one.read(), two.read(), name)
                self.assertEqual(image.digest, other.digest)

    def test_a_time_can_be_given(self):
        image = images.build(self.path("timed"), "manager", SOURCE_DATE_EPOCH="86400")["manager"]
        self.assertEqual("1970-01-02T00:00:00Z", image.config["created"])
        self.assertEqual({86400}, {member.mtime for member, _ in image.members()})

    def test_every_reference_holds(self):
        for name, image in self.images.items():
            self.assertEqual(2, len(image.layers), name)
            manifest = image.files[f"blobs/sha256/{image.digest.partition(':')[2]}"]
            self.assertEqual(image.manifest, json.loads(manifest))
            known = {"index.json", "oci-layout", "manifest.json"}
            known |= {
                "blobs/" + item["digest"].replace(":", "/")
                for item in (
                    {"digest": image.digest},
                    image.manifest["config"],
                    *image.manifest["layers"],
                )
            }
            self.assertEqual(known, set(image.files))

    def test_names(self):
        """As containerd, docker and kind look for them."""
        version = self.images["manager"].config["config"]["Labels"][
            "org.opencontainers.image.version"
        ]
        for name, image in self.images.items():
            self.assertEqual(f"localhost/cmesh/{name}:{version}", image.name)
            (descriptor,) = image.json("index.json")["manifests"]
            notes = descriptor["annotations"]
            self.assertEqual(image.name, notes["io.containerd.image.name"])
            self.assertEqual(version, notes["org.opencontainers.image.ref.name"])
            (entry,) = image.json("manifest.json")
            self.assertEqual([image.name], entry["RepoTags"])
            blobs = [entry["Config"], *entry["Layers"]]
            stored = [image.manifest["config"], *image.manifest["layers"]]
            self.assertEqual(["blobs/" + s["digest"].replace(":", "/") for s in stored], blobs)
        args = ("--repository", "registry.test:5000/a/b", "--tag", "next", "manager")
        other = images.build(self.path("named"), *args)["manager"]
        self.assertEqual("registry.test:5000/a/b/manager:next", other.name)
        notes = other.json("index.json")["manifests"][0]["annotations"]
        self.assertEqual(other.name, notes["io.containerd.image.name"])

    def test_they_share_the_lower_layer(self):
        lower = {image.manifest["layers"][0]["digest"] for image in self.images.values()}
        self.assertEqual(1, len(lower))

    def test_nothing_but_what_is_needed(self):
        """No other program, nothing of the machine it was made on, nothing that gives rights."""
        for name, image in self.images.items():
            programs = {f"usr/local/bin/{program}" for program in PROGRAMS[name]}
            programs |= {f"usr/sbin/{tool}" for tool in TOOLS.get(name, ())}
            executable = set()
            for member, _ in image.members():
                self.assertEqual((0, 0, ""), (member.uid, member.gid, member.uname))
                self.assertFalse(member.mode & 0o6000, member.name)
                if member.name != "tmp" and not member.issym():
                    self.assertFalse(member.mode & 0o022, member.name)
                if name == "manager" and re.match(r"usr/share/zoneinfo(/|$)", member.name):
                    continue
                self.assertRegex(
                    member.name,
                    r"^(usr(/local(/bin(/.*)?)?|/sbin(/nft)?|/lib.*|/share(/doc.*|/common-licenses.*)?)?"
                    r"|lib(64|32)?|tmp|var(/lib(/dpkg(/status\.d(/.*)?)?)?)?"
                    r"|etc(/(passwd|group|nsswitch\.conf|os-release|debian_version"
                    r"|ssl(/certs(/ca-certificates\.crt)?)?))?)$",
                )
                if member.isfile() and member.mode & 0o111 and "/lib" not in member.name:
                    executable.add(member.name)
            self.assertEqual(programs, executable)
            text = b"".join(data for _, data in image.members())
            self.assertNotIn(harness.ROOT.encode() + b"/build", text)

    def test_not_root(self):
        for name, image in self.images.items():
            user = image.config["config"]["User"]
            self.assertEqual("65532:65532", user)
            files = {member.name: data.decode() for member, data in image.members()
                     if member.name in ("etc/passwd", "etc/group")}  # fmt: skip
            self.assertIn("nonroot:x:65532:65532:", files["etc/passwd"])
            self.assertIn("nonroot:x:65532:", files["etc/group"])
            first = PROGRAMS[name][0]
            self.assertEqual([f"/usr/local/bin/{first}"], image.config["config"]["Entrypoint"])
            path = "/usr/local/bin:/usr/sbin" if name in TOOLS else "/usr/local/bin"
            self.assertEqual([f"PATH={path}"], image.config["config"]["Env"])

    @unittest.skipIf(SANITIZED, "programs with sanitizers are several times larger")
    def test_size(self):
        image = self.images["localproxy"]
        unpacked = sum(len(data) for data in image.layers)
        self.assertLess(os.path.getsize(image.path), LIMIT)
        self.assertLess(unpacked, LIMIT)
        print(f"image for the sidecars: {os.path.getsize(image.path) / 1e6:.1f} MB,"
              f" {unpacked / 1e6:.1f} MB unpacked", flush=True)  # fmt: skip

    def test_bill_of_materials(self):
        """Names the package of every library that is there, with its version, and no other."""
        for name, image in self.images.items():
            files = {member.name: data for member, data in image.members()}
            bill = files["usr/share/doc/cmesh/sbom.spdx.json"].decode()
            labels = image.config["config"]["Labels"]
            self.assertEqual(bill, labels["cmesh.sbom.spdx"])
            self.assertEqual(bill, image.manifest["annotations"]["cmesh.sbom.spdx"])
            document = json.loads(bill)
            self.assertEqual("SPDX-2.3", document["spdxVersion"])
            found = {p["name"]: p["versionInfo"] for p in document["packages"]}
            for program in [f"image-{name}", *PROGRAMS[name]]:
                self.assertRegex(found.pop(program), r"^\d+\.\d+\.\d+(-\w+)?$")
            for package, version in found.items():
                self.assertEqual(installed_version(package), version, package)
            self.assertEqual(self.packages_of(image), set(found) - self.linked_in(document))
            scanned = {os.path.basename(f) for f in files if "status.d/" in f}
            self.assertEqual(scanned, set(found) - self.linked_in(document))
            items = [*document["packages"], *document["files"]]
            identifiers = {p["SPDXID"] for p in items} | {"SPDXRef-DOCUMENT"}
            self.assertEqual(len(items) + 1, len(identifiers))
            for relation in document["relationships"]:
                self.assertIn(relation["spdxElementId"], identifiers)
                self.assertIn(relation["relatedSpdxElement"], identifiers)

    def test_bill_has_the_hash_of_each_file(self):
        for name, image in self.images.items():
            files = {m.name: data for m, data in image.members() if m.isfile()}
            document = json.loads(files.pop("usr/share/doc/cmesh/sbom.spdx.json"))
            sums = {}
            for item in document["files"]:
                sums[item["fileName"]] = {c["algorithm"]: c["checksumValue"] for c in item["checksums"]}
            self.assertEqual(
                {f"./{path}": hashlib.sha256(data).hexdigest() for path, data in files.items()},
                {path: found["SHA256"] for path, found in sums.items()},
            )
            whole = document["packages"][0]
            self.assertEqual((f"image-{name}", True), (whole["name"], whole["filesAnalyzed"]))
            ones = "".join(sorted(hashlib.sha1(data).hexdigest() for data in files.values()))
            self.assertEqual(
                hashlib.sha1(ones.encode()).hexdigest(),
                whole["packageVerificationCode"]["packageVerificationCodeValue"],
            )

    @staticmethod
    def linked_in(document):
        return {
            r["relatedSpdxElement"].removeprefix("SPDXRef-deb-")
            for r in document["relationships"]
            if r["relationshipType"] == "STATIC_LINK"
        }

    @staticmethod
    def packages_of(image):
        """Found by content: each library is, byte for byte, that of an installed package."""
        paths = []
        for member, data in image.members():
            ours = not re.match(r"usr/(lib\d*/.*\.so|sbin/|share/zoneinfo/)", member.name)
            if ours or member.isdir():
                continue
            if member.isfile():
                with open(os.path.join(images.root(), member.name), "rb") as f:
                    if hashlib.sha256(f.read()).digest() != hashlib.sha256(data).digest():
                        raise AssertionError(f"{member.name} is not the installed one")
            paths += ["/" + member.name, "/" + member.name.removeprefix("usr/")]
        # One of the two is not known.
        command = images.there("dpkg-query", "-S", *paths)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = {line.partition(":")[0] for line in done.stdout.splitlines()}
        return found | {"base-files", "ca-certificates"}

    def test_authorities(self):
        """openssl takes the bundle whole; nothing in it is of this machine alone."""
        files = {member.name: data for member, data in self.images["manager"].members()}
        bundle = files["etc/ssl/certs/ca-certificates.crt"]
        self.assertGreater(bundle.count(b"-----BEGIN CERTIFICATE-----"), 100)
        path = self.path("bundle.crt", bundle)
        command = ["openssl", "crl2pkcs7", "-nocrl", "-certfile", path, "-outform", "DER"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def test_zones(self):
        """The manager's image has every time zone by all of its names, and nothing besides."""
        zones = {}
        for member, data in self.images["manager"].members():
            if member.name.startswith("usr/share/zoneinfo/") and not member.isdir():
                zones[member.name.removeprefix("usr/share/zoneinfo/")] = (member, data)
        for name, (member, data) in zones.items():
            if member.issym():
                self.assertIn(os.path.normpath(os.path.join(os.path.dirname(name), member.linkname)), zones)
            else:
                self.assertEqual(b"TZif", data[:4], name)
        self.assertLess({"Europe/Berlin", "Asia/Shanghai", "America/New_York", "Etc/UTC", "UTC"}, set(zones))
        path = os.path.join(images.root(), "usr/share/zoneinfo/tzdata.zi")
        with open(path, encoding="ascii") as f:
            named = set(re.findall(r"^(?:Z|L \S+) (\S+)", f.read(), re.M))
        self.assertEqual(set(), {name for name in named if "/" in name} - set(zones))
        for name in ("localproxy", "nat"):
            there = [member.name for member, _ in self.images[name].members()]
            self.assertNotIn("usr/share/zoneinfo", there)

    @unittest.skipIf(SANITIZED, "sanitizers need /proc")
    @unittest.skipIf(os.geteuid() != 0, "chroot needs root")
    def test_programs_run_in_it(self):
        for name, image in self.images.items():
            root = self.path("root-" + name)
            image.unpack(root)
            for program in PROGRAMS[name]:
                self.assertRegex(self.version(root, program), rf"^{program} {re.escape(harness.VERSION)}\n$")
            for tool in TOOLS.get(name, ()):
                self.assertIn(tool, self.version(root, tool))

    def version(self, root, program):
        """Of one that the image's own PATH finds."""
        env = {"PATH": "/usr/local/bin:/usr/sbin"}
        command = ["/usr/sbin/chroot", "--userspec=65532:65532", root, program, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout


class RootfsTest(harness.TestCase):
    """`--rootfs`, which the Dockerfile uses."""

    def test_same_files_as_the_image(self):
        image = images.build(self.path("out"), "localproxy")["localproxy"]
        root = self.path("root")
        images.build(self.path("unused"), "--rootfs", root, "localproxy")
        expected = {}
        for member, data in image.members():
            content = member.linkname.encode() if member.issym() else data
            expected[member.name] = (member.issym() or member.mode, content)
        found = {}
        for folder, folders, files in os.walk(root):
            for name in folders + files:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, root)] = self.described(path)
        self.assertEqual(set(expected), set(found))
        self.assertEqual(expected, found)

    @staticmethod
    def described(path):
        if os.path.islink(path):
            return True, os.readlink(path).encode()
        content = b""
        if os.path.isfile(path):
            with open(path, "rb") as f:
                content = f.read()
        return os.stat(path).st_mode & 0o7777, content

    def test_misuse_is_explained(self):
        for args, mentions in (
            (["--build", self.folder], "cmake --preset release"),
            (["nothing"], "no such image"),
            (["--rootfs", self.path("r")], "name it"),
            (["--rootfs", self.path("full", b"") and self.folder, "manager"], "not empty"),
        ):
            options = ["--build", images.build_folder(), "-o", self.path("o")]
            done = subprocess.run(
                images.there(images.BUILD, *options, *args), capture_output=True, text=True
            )
            self.assertNotEqual(0, done.returncode, args)
            self.assertIn(mentions, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


@unittest.skipUnless(shutil.which("containerd") and shutil.which("ctr"), "containerd not installed")
@unittest.skipIf(os.geteuid() != 0, "containerd needs root")
class ContainerdTest(harness.TestCase):
    """The real ctr takes the files, as OCI layout and as docker's kind of archive."""

    def setUp(self):
        super().setUp()
        self.socket = self.path("containerd.sock")
        config = self.path(
            "containerd.toml",
            f'version = 2\nroot = "{self.path("root")}"\nstate = "{self.path("state")}"\n'
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\n  address = "{self.socket}"\n',
        )
        with open(self.path("log"), "wb") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "containerd", "-c", config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.addCleanup(process.wait, 20)
        self.addCleanup(process.terminate)
        harness.wait_for(lambda: self.try_ctr("version").returncode == 0, "containerd answers")

    def try_ctr(self, *args):
        command = ["ctr", "-a", self.socket, "-n", "k8s.io", *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def ctr(self, *args):
        done = self.try_ctr(*args)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_import(self):
        for image in images.build(self.path("images")).values():
            self.ctr("images", "import", "--snapshotter", "native", image.path)
            self.assert_complete(image.name, image.digest)

    def test_import_of_docker_archive(self):
        """What older versions of docker look at, and nothing else."""
        image = images.build(self.path("images"), "localproxy")["localproxy"]
        path = self.path("docker.tar")
        with tarfile.open(image.path) as old, tarfile.open(path, "w") as new:
            for member in old:
                if member.name not in ("index.json", "oci-layout"):
                    new.addfile(member, old.extractfile(member) if member.isfile() else None)
        self.ctr("images", "import", "--snapshotter", "native", path)
        self.assert_complete(image.name)

    def assert_complete(self, name, digest=None):
        """It is there under its name, whole and unpacked."""
        lines = self.ctr("images", "check", "--snapshotter", "native").splitlines()[1:]
        (fields,) = [line.split() for line in lines if line.startswith(name + " ")]
        self.assertIn("complete", fields)
        self.assertEqual("true", fields[-1])
        if digest is not None:
            self.assertEqual(digest, fields[2])


if __name__ == "__main__":
    harness.main()
