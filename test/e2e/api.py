# SPDX-License-Identifier: Apache-2.0
"""What tests that are not about kubectl write, as kubectl would: it takes half a second of a
processor each time, and they write thousands of times.
"""

import collections
import json
import re

import harness

# `said`: why it was refused, or the warnings.
Answer = collections.namedtuple("Answer", "status thing said")

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Api:
    """As the administrator, or as a user who is named. Objects without a namespace are in the one
    given, if they are in any."""

    def __init__(self, control_plane, namespace="default", user=None):
        self.control_plane = control_plane
        self.namespace = namespace
        self.headers = [] if user is None else [("Impersonate-User", user)]
        self.kinds = {}  # apiVersion and kind -> what the API server says of the resource

    # ---- paths ----

    @staticmethod
    def root(version):
        return f"/apis/{version}" if "/" in version else f"/api/{version}"

    def resource(self, version, kind):
        """As the API server describes it."""
        if (version, kind) not in self.kinds:
            for found in self.control_plane.json(self.root(version))["resources"]:
                if "/" not in found["name"]:
                    self.kinds[version, found["kind"]] = found
        return self.kinds[version, kind]

    def collection(self, thing):
        version = thing["apiVersion"]
        resource = self.resource(version, thing["kind"])
        inside = ""
        if resource["namespaced"]:
            inside = f"/namespaces/{thing['metadata'].get('namespace', self.namespace)}"
        return f"{self.root(version)}{inside}/{resource['name']}"

    def path(self, thing):
        return f"{self.collection(thing)}/{thing['metadata']['name']}"

    # ---- what may be refused ----

    def ask(self, method, target, body=None, content_type="application/json"):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = [("Content-Type", content_type), *self.headers]
        answer = self.control_plane.fetch(target, method, headers, body)
        found = json.loads(answer.body)
        warnings = [value for name, value in answer.head.headers if name.lower() == "warning"]
        said = [re.sub(r"\\(.)", r"\1", warning) for warning in warnings]
        if answer.status >= 300:
            said.append(found["message"])
        return Answer(answer.status, found, "\n".join(said))

    def try_create(self, thing, dry_run=False):
        return self.ask("POST", self.collection(thing) + ("?dryRun=All" if dry_run else ""), thing)

    def try_apply(self, thing, dry_run=False):
        """Whoever else wrote what it says."""
        query = "?force=true&fieldManager=test" + ("&dryRun=All" if dry_run else "")
        return self.ask("PATCH", self.path(thing) + query, thing, APPLY)

    # ---- what must not ----

    def must(self, what, *args, **more):
        answer = what(*args, **more)
        if answer.status >= 300:
            raise AssertionError(f"{answer.status}: {answer.said}")
        return answer.thing

    def create(self, thing, dry_run=False):
        return self.must(self.try_create, thing, dry_run)

    def apply(self, *things):
        """What becomes of the last."""
        return [self.must(self.try_apply, thing) for thing in things][-1]

    def merge(self, path, change):
        """Changes what is there."""
        return self.must(self.ask, "PATCH", path, change, MERGE)

    def label(self, path, labels):
        """Those that are None are taken away."""
        return self.merge(path, {"metadata": {"labels": labels}})

    def annotate(self, path, annotations):
        return self.merge(path, {"metadata": {"annotations": annotations}})

    def delete(self, path, query=""):
        """Returns when it is gone."""
        self.must(self.ask, "DELETE", path + query)
        harness.wait_for(lambda: self.control_plane.fetch(path).status == 404, f"{path} is gone", 240)
