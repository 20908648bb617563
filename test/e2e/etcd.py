# SPDX-License-Identifier: Apache-2.0
"""What only the store behind the API server can do."""

import json
import os

import harness


def compact(control_plane, revision):
    """Makes etcd forget all that was before; revisions are the API server's resourceVersions."""
    connection = harness.UnixConnection(os.path.join(control_plane.directory, "etcd:0"))
    try:
        body = json.dumps({"revision": revision, "physical": True})
        connection.request("POST", "/v3/kv/compaction", body)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200 and b"has been compacted" not in text:
        raise AssertionError(f"compaction: {answer.status} {text}")


def compact_all(control_plane):
    """Up to now, as kube-apiserver has it do every 5 minutes for what is older than that."""
    version = control_plane.json("/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"]
    compact(control_plane, int(version))
