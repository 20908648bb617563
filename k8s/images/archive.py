# SPDX-License-Identifier: Apache-2.0
"""An image as one tar file: an OCI image layout, with docker's manifest.json in it as well.

Sources: OCI image-spec v1.1 (image-layout.md, manifest.md, config.md, annotations.md), the docker
image specification v1.2 (manifest.json as `docker save` writes it), and what containerd and kind
look at to find an image's name.
"""

import hashlib
import json

import tree

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"


def to_json(thing):
    return json.dumps(thing, sort_keys=True, separators=(",", ":")).encode()


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def full_name(name):
    """As container runtimes write it: with the registry, which is docker's if none is named."""
    first, _, rest = name.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return name
    return "docker.io/" + (name if rest else "library/" + name)


class Archive:
    """Blobs by their digest."""

    def __init__(self, epoch=0):
        self.files = tree.Tree(epoch)

    def blob(self, data, media_type):
        """Returns the descriptor."""
        digest = digest_of(data)
        path = "blobs/" + digest.replace(":", "/")
        if path not in self.files:
            self.files.file(path, data)
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def image(self, name, tag, config, layers, annotations):
        """Adds everything and returns the digest that the image is known by. `layers` are trees,
        the lowest first; `config` lacks only rootfs and history."""
        descriptors, diff_ids = [], []
        for layer in layers:
            data = layer.tar()
            diff_ids.append(digest_of(data))
            descriptors.append(self.blob(tree.compress(data), LAYER))
        history = [{"created": config["created"], "created_by": "cmesh k8s/images/build"}]
        config = {
            **config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history * len(layers),
        }
        stored = self.blob(to_json(config), CONFIG)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": stored,
            "layers": descriptors,
            "annotations": annotations,
        }
        descriptor = self.blob(to_json(manifest), MANIFEST)
        digest = descriptor["digest"]
        descriptor["annotations"] = {
            "io.containerd.image.name": f"{full_name(name)}:{tag}",
            "org.opencontainers.image.ref.name": tag,
        }
        descriptor["platform"] = {key: config[key] for key in ("architecture", "os")}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]}
        self.files.file("index.json", to_json(index))
        self.files.file("oci-layout", to_json({"imageLayoutVersion": "1.0.0"}))
        self._docker_manifest(f"{name}:{tag}", stored, descriptors)
        return digest

    def _docker_manifest(self, tagged, config, layers):
        paths = ["blobs/" + item["digest"].replace(":", "/") for item in (config, *layers)]
        entry = {"Config": paths[0], "RepoTags": [tagged], "Layers": paths[1:]}
        self.files.file("manifest.json", to_json([entry]))

    def tar(self):
        return self.files.tar()
