# SPDX-License-Identifier: Apache-2.0
"""What the distribution's installed packages give to an image: shared libraries, certificates of
authorities, licences, and who they are."""

import glob
import os
import re
import subprocess


def output(*command):
    env = dict(os.environ, LC_ALL="C")
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env, text=True).stdout


class Package:
    """An installed package. `linked`: its code is in our programs, no file of it in the image."""

    FIELDS = ("Package", "Architecture", "Version", "Maintainer", "Homepage")

    def __init__(self, name, linked=False):
        form = "".join("${%s}\\n" % f for f in (*self.FIELDS, "source:Package", "source:Version"))
        lines = output("dpkg-query", "-W", "-f", form, name).splitlines()
        self.fields = dict(zip(self.FIELDS, lines))
        self.source, self.source_version = lines[len(self.FIELDS) :][:2]
        self.name, self.version = self.fields["Package"], self.fields["Version"]
        self.architecture = self.fields["Architecture"]
        self.linked = linked

    def status(self):
        """As in dpkg's database, so that scanners for vulnerabilities know the package."""
        lines = [f"{key}: {value}" for key, value in self.fields.items() if value]
        lines.insert(1, "Status: install ok installed")
        lines.insert(3, f"Source: {self.source} ({self.source_version})")
        return "\n".join(lines) + "\n"

    def copyright(self):
        with open(f"/usr/share/doc/{self.name}/copyright", encoding="utf-8") as f:
            return f.read()


def owner(path):
    """The name of the package that a file came with. With merged /usr the database may know it by
    the path that it had before."""
    other = path.removeprefix("/usr") if path.startswith("/usr/") else "/usr" + path
    for name in (path, other):
        found = subprocess.run(
            ["dpkg-query", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for line in found.stdout.splitlines():
            packages, _, _ = line.partition(": ")
            if found.returncode == 0 and not line.startswith("diversion "):
                return packages.split(",")[0]
    raise ValueError(f"{path} belongs to no installed package: it may not go into an image")


def libraries(programs):
    """Paths by which the loader finds what the programs need, itself included."""
    paths = set()
    for program in programs:
        for line in output("ldd", program).splitlines():
            if "not found" in line:
                raise ValueError(f"{program}: {line.strip()}")
            if match := re.search(r"(?:=> )?(/\S+) \(0x", line):
                paths.add(match[1])
    return sorted(paths)


def add_file(tree, path):
    """Adds a library or program with the links that lead to it; returns the file itself."""
    parent, name = os.path.split(path)
    top = "/" + parent.split("/")[1]
    if os.path.islink(top):  # /lib and /lib64, where /usr is merged
        tree.link(top, os.readlink(top))
    path = os.path.join(os.path.realpath(parent), name)
    if not os.path.islink(path):
        tree.copy(path, path, 0o755)
        return path
    target = os.readlink(path)
    tree.link(path, target)
    return add_file(tree, os.path.join(os.path.dirname(path), target))


def authorities():
    """Those that the package has and this machine trusts, without what was added to the machine."""
    with open("/etc/ca-certificates.conf", encoding="utf-8") as f:
        refused = {line[1:].strip() for line in f if line.startswith("!")}
    folder = "/usr/share/ca-certificates/"
    bundle = []
    for path in sorted(glob.glob(folder + "mozilla/*.crt")):
        if path.removeprefix(folder) not in refused:
            with open(path, encoding="ascii") as f:
                bundle.append(f.read().strip() + "\n")
    if not bundle:
        raise ValueError("no certificates of authorities: apt-get install ca-certificates")
    return "".join(bundle)


ZONES = "/usr/share/zoneinfo/"


def zone_packages():
    """Those that time zones come with. Debian 13 has older names of them in a package of its own."""
    if not os.path.lexists(ZONES + "UTC"):
        raise ValueError("no time zones: apt-get install tzdata")
    if not os.path.lexists(ZONES + "US/Eastern"):
        raise ValueError("no older names of time zones: apt-get install tzdata-legacy")
    return sorted({owner(ZONES + "UTC"), owner(ZONES + "US/Eastern")})


def add_zones(tree):
    """Adds the time zones of the distribution, each once and with the names that lead to it: without
    leap seconds, which nobody counts, and without this machine's own. Returns the packages' names."""
    packages = zone_packages()
    for path in sorted(output("dpkg-query", "-L", *packages).splitlines()):
        name = path.removeprefix(ZONES)
        if name == path or name.startswith(("posix/", "right/")) or name == "localtime":
            continue
        if os.path.islink(path):
            tree.link(path, os.readlink(path))
        elif os.path.isfile(path):
            with open(path, "rb") as f:
                content = f.read()
            if content.startswith(b"TZif"):
                tree.file(path, content)
    return packages


def common_licences(texts):
    """The files that these copyright texts refer to."""
    found = set()
    for text in texts:
        for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text):
            path = os.path.join("/usr/share/common-licenses", name)
            if os.path.exists(path):
                found.add(path)
    return sorted(found)
