# SPDX-License-Identifier: Apache-2.0
"""What only the store behind the API server can do."""

import base64
import json
import os

import harness


def ask(control_plane, call, question):
    """Status and JSON answer of etcd's API."""
    connection = harness.UnixConnection(os.path.join(control_plane.directory, "etcd:0"))
    try:
        connection.request("POST", "/v3/kv/" + call, json.dumps(question))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def keys(control_plane):
    """Of all that is stored: /registry/KIND/NAMESPACE/NAME."""
    first, end = (base64.b64encode(key).decode() for key in (b"/registry/", b"/registry0"))
    status, answer = ask(
        control_plane, "range", {"key": first, "range_end": end, "keys_only": True}
    )
    if status != 200:
        raise AssertionError(f"range: {status} {answer}")
    return {base64.b64decode(pair["key"]).decode() for pair in answer["kvs"]}


def compact(control_plane, revision):
    """Makes etcd forget all that was before; revisions are the API server's resourceVersions."""
    status, answer = ask(control_plane, "compaction", {"revision": revision, "physical": True})
    if status != 200 and "has been compacted" not in json.dumps(answer):
        raise AssertionError(f"compaction: {status} {answer}")


def compact_all(control_plane):
    """Up to now, as kube-apiserver has it do every 5 minutes for what is older than that."""
    version = control_plane.json("/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"]
    compact(control_plane, int(version))
