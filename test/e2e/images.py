# SPDX-License-Identifier: Apache-2.0
"""Container images of the programs under test, and a look into the files they come in."""

import functools
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

import harness

BUILD = os.path.join(harness.ROOT, "k8s", "images", "build")
# What was compiled on Debian 13 (k8s/images/make), if images are to be made of that.
OF_DEBIAN13 = os.environ.get("CMESH_IMAGES_BUILD")
DEBIAN13 = os.path.join(harness.ROOT, "test", "debian13")


def build_folder():
    """Where CMake built the programs under test."""
    return OF_DEBIAN13 or os.path.dirname(os.path.dirname(harness.program("localproxy")))


def there(*command):
    """The command, on the system whose packages are in the images."""
    return [DEBIAN13, "-n", *command] if OF_DEBIAN13 else [*command]


@functools.cache
def root():
    """The top folder of that system."""
    if not OF_DEBIAN13:
        return "/"
    done = subprocess.run([DEBIAN13, "-n"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def build(output, *args, **env):
    """Makes images in the folder `output`: name -> Image."""
    command = there(BUILD, "--build", build_folder(), "--output", output, *args)
    if OF_DEBIAN13:
        env["CMESH_CACHE"] = os.path.dirname(root())  # whatever HOME is
    done = subprocess.run(
        command, env=dict(os.environ, **env), capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    made = [Image(*line.split("  ")) for line in done.stdout.splitlines()]
    return {image.name.rpartition(":")[0].rpartition("/")[2]: image for image in made}


class Image:
    """One tar file. What it refers to must be there, with size and digest as told."""

    def __init__(self, path, _size, name, digest):
        self.path, self.name, self.digest = path, name, digest

    @functools.cached_property
    def files(self):
        with tarfile.open(self.path) as tar:
            return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}

    def json(self, name):
        return json.loads(self.files[name])

    def blob(self, descriptor):
        algorithm, _, digest = descriptor["digest"].partition(":")
        data = self.files[f"blobs/{algorithm}/{digest}"]
        actual = hashlib.new(algorithm, data).hexdigest()
        if (actual, len(data)) != (digest, descriptor["size"]):
            raise AssertionError(f"{self.path}: {descriptor} is {actual} of {len(data)} bytes")
        return data

    @functools.cached_property
    def manifest(self):
        (descriptor,) = self.json("index.json")["manifests"]
        return json.loads(self.blob(descriptor))

    @functools.cached_property
    def config(self):
        return json.loads(self.blob(self.manifest["config"]))

    @functools.cached_property
    def layers(self):
        """The tar archives, decompressed; the lowest first."""
        found = []
        for descriptor, diff_id in zip(
            self.manifest["layers"], self.config["rootfs"]["diff_ids"], strict=True
        ):
            data = gzip.decompress(self.blob(descriptor))
            if "sha256:" + hashlib.sha256(data).hexdigest() != diff_id:
                raise AssertionError(f"{self.path}: not what the configuration says: {diff_id}")
            found.append(data)
        return found

    def members(self):
        """Everything in the image's file system: (member, content)."""
        for data in self.layers:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for member in tar:
                    yield member, tar.extractfile(member).read() if member.isfile() else b""

    def unpack(self, folder):
        os.mkdir(folder)
        for data in self.layers:
            command = ["tar", "-xpf", "-", "--same-owner", "-C", folder]
            subprocess.run(command, input=data, check=True)
