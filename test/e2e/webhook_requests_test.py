# SPDX-License-Identifier: Apache-2.0
"""Requests of every kind that an API server knows, before an operator's webhooks are routed and after, as
`manager compile` prints it: the same reviews are asked, with the same words, and a shard's of its pods alone.
"""

import collections
import json
import math
import re

import harness
import review_notes
import webhook_compile_test as compiled
import webhook_pods
from operator_test import report
from review_notes import CONVERT
from webhook_case import GROUP, hash_of
from webhook_pods import HOLD, MUTATING, NAMESPACE, NODE, PATHS, SERVICE, VALIDATING, port_name

PLAIN, JSON_PATCH = "application/json", "application/json-patch+json"
APPLY, MERGE = webhook_pods.api.APPLY, webhook_pods.api.MERGE
TEST_GROUP = "routes.example.com"
# Of the test's own requests: controllers are the administrator, too.
USER = "admin" if harness.modern() else "tester"
AS_USER = [] if harness.modern() else [("Impersonate-User", USER), ("Impersonate-Group", "system:masters")]
OWNERS = {"team-1": "a", "hash-b": "b", "other-1": None, "unlabelled": None}


# ---- webhooks ----


def rule(resources, groups=("",), versions=("*",), operations=("*",), scope="*"):
    return {"apiGroups": list(groups), "apiVersions": list(versions), "operations": list(operations),
            "resources": list(resources), "scope": scope}  # fmt: skip


def of_widgets(version, policy):
    return {"rules": [rule(["widgets", "widgets/*"], [TEST_GROUP], [version])], "matchPolicy": policy}


def webhooks_of(kind):
    """Name -> what the webhook has."""
    subresources = ["pods/exec", "pods/attach", "pods/eviction", "pods/status", "pods/binding"]
    found = {
        "any": {"rules": [rule(["*/*"], ["*"])]},
        "plain": {"rules": [rule(["*"], ["*"], scope="Namespaced")]},
        "pods": {"rules": [rule(["pods/*"])]},
        "named": {"rules": [rule(subresources)]},
        "scale": {"rules": [rule(["*/scale", "*/status"], ["*"])]},
        "spaces": {"rules": [rule(["namespaces", "namespaces/finalize", "secrets"])]},
        "v1-equivalent": of_widgets("v1", "Equivalent"),
        "v1-exact": of_widgets("v1", "Exact"),
        "v1beta1-equivalent": of_widgets("v1beta1", "Equivalent"),
        "v1beta1-exact": of_widgets("v1beta1", "Exact"),
        "chosen": {"rules": [rule(["configmaps"])], "objectSelector": {"matchLabels": {"x": "y"}},
                   "sideEffects": "NoneOnDryRun"},
        "events": {"rules": [rule(["events"], versions=["v1"])], "matchPolicy": "Equivalent"},
    }  # fmt: skip
    if harness.modern():
        condition = {"name": "some", "expression": "object == null || object.metadata.name != 'skipped'"}
        found["conditions"] = {"rules": [rule(["configmaps"])], "matchConditions": [condition]}
    if kind == MUTATING:
        marked = {"rules": [rule(["configmaps"], operations=["CREATE"])],
                  "objectSelector": {"matchLabels": {"marked": "yes"}}}  # fmt: skip
        found["mark-1"] = {**marked, "reinvocationPolicy": "IfNeeded"}
        found["mark-2"] = marked
    return found


# ---- requests: (what, method, path, body, content type) ----


def of_maps(space):
    path = f"/api/v1/namespaces/{space}/configmaps"
    one, applied = f"{path}/thing", f"{path}/applied?fieldManager=test&force=true"

    def thing(name="thing", data=None, **meta):
        metadata = {"name": name, **meta}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"a": "b"}}

    def labels(found):
        return {"metadata": {"labels": found}}

    yield "create", "POST", path, thing(), PLAIN
    yield "generateName", "POST", path, {"metadata": {"generateName": "made-", "labels": {"many": "yes"}}}, PLAIN
    yield "create, dry run", "POST", f"{path}?dryRun=All", thing("dry"), PLAIN
    yield "create, dry run, chosen", "POST", f"{path}?dryRun=All", thing("dry", labels={"x": "y"}), PLAIN
    yield "create by apply", "PATCH", applied, thing("applied", labels={"many": "yes"}), APPLY
    yield "apply", "PATCH", applied, thing("applied", {"c": "d"}, labels={"many": "yes"}), APPLY
    yield "apply, dry run", "PATCH", f"{applied}&dryRun=All", thing("applied"), APPLY
    yield "merge patch", "PATCH", one, {"data": {"b": "c"}}, MERGE
    yield "JSON patch", "PATCH", one, [{"op": "add", "path": "/data/d", "value": "e"}], JSON_PATCH
    yield "update", "PUT", one, thing(), PLAIN
    yield "update, dry run", "PUT", f"{one}?dryRun=All", thing(data={"x": "y"}), PLAIN
    yield "update of none", "PUT", f"{path}/none", thing("none"), PLAIN
    yield "chosen", "PATCH", one, labels({"x": "y"}), MERGE
    yield "chosen still", "PATCH", one, {"data": {"l": "m"}}, MERGE
    yield "chosen no more", "PATCH", one, labels({"x": None}), MERGE
    yield "labelled for another shard", "PATCH", one, labels({harness.NAMESPACE_LABEL: "hash-b"}), MERGE
    yield "ignored", "PATCH", one, labels({harness.IGNORE_LABEL: "true"}), MERGE
    yield "delete, dry run", "DELETE", f"{one}?dryRun=All", None, PLAIN
    yield "delete", "DELETE", one, None, PLAIN
    yield "delete of none", "DELETE", f"{path}/none", None, PLAIN
    yield "create with finalizer", "POST", path, thing("final", finalizers=["example.com/x"]), PLAIN
    yield "delete with finalizer", "DELETE", f"{path}/final", None, PLAIN
    yield "delete again", "DELETE", f"{path}/final", None, PLAIN
    yield "end of finalizer", "PATCH", f"{path}/final", {"metadata": {"finalizers": None}}, MERGE
    yield "skipped", "POST", path, thing("skipped", labels={"many": "yes"}), PLAIN
    yield "marked", "POST", path, thing("marked", labels={"many": "yes", "marked": "yes"}), PLAIN
    yield "deletecollection", "DELETE", f"{path}?labelSelector=many", None, PLAIN
    yield "deletecollection of none", "DELETE", f"{path}?labelSelector=many", None, PLAIN


def of_pods(space):
    core = f"/api/v1/namespaces/{space}"
    one = f"{core}/pods/thing"
    pod = {"metadata": {"name": "thing"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    binding = {"metadata": {"name": "thing"}, "target": {"kind": "Node", "name": NODE}}
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "thing"}}
    yield "pod", "POST", f"{core}/pods", pod, PLAIN
    yield "status", "PATCH", f"{one}/status", {"status": {"phase": "Running"}}, MERGE
    yield "exec", "POST", f"{one}/exec?command=ls&stdout=1", None, PLAIN
    yield "exec by GET", "GET", f"{one}/exec?command=ls&stdout=1", None, PLAIN
    yield "attach", "POST", f"{one}/attach?stdout=1", None, PLAIN
    yield "port-forward", "POST", f"{one}/portforward", None, PLAIN
    yield "proxy", "GET", f"{one}/proxy/x", None, PLAIN
    yield "proxied DELETE", "DELETE", f"{one}/proxy/x", None, PLAIN
    yield "binding", "POST", f"{one}/binding", binding, PLAIN
    yield "bindings", "POST", f"{core}/bindings", binding, PLAIN
    dry = {**eviction, "deleteOptions": {"dryRun": ["All"]}}
    yield "eviction, dry run", "POST", f"{one}/eviction", dry, PLAIN
    yield "eviction", "POST", f"{one}/eviction", eviction, PLAIN
    yield "end", "DELETE", f"{one}?gracePeriodSeconds=0", None, PLAIN


def of_core(space):
    core = f"/api/v1/namespaces/{space}"
    service = {"metadata": {"name": "thing"}, "spec": {"ports": [{"port": 80}]}}
    yield "service", "POST", f"{core}/services", service, PLAIN
    yield "service's status", "PATCH", f"{core}/services/thing/status", {"status": {}}, MERGE
    yield "service's proxy", "GET", f"{core}/services/thing/proxy/x", None, PLAIN
    yield "service's end", "DELETE", f"{core}/services/thing", None, PLAIN
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["x"]}}
    yield "token", "POST", f"{core}/serviceaccounts/default/token", token, PLAIN
    access = {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
              "metadata": {"namespace": space},
              "spec": {"user": "x", "resourceAttributes": {"namespace": space, "verb": "get", "resource": "pods"}}}  # fmt: skip
    path = f"/apis/authorization.k8s.io/v1/namespaces/{space}/localsubjectaccessreviews"
    yield "access review", "POST", path, access, PLAIN


def of_two_groups(space):
    about = {"kind": "Pod", "namespace": space, "name": "x"}
    old = {"metadata": {"name": "old"}, "involvedObject": about, "type": "Normal", "reason": "x"}
    new = {"metadata": {"name": "new"}, "regarding": about, "type": "Normal", "reason": "x", "action": "y",
           "eventTime": "2024-05-01T10:00:00.000000Z", "reportingController": "x/y", "reportingInstance": "z"}  # fmt: skip
    yield "event", "POST", f"/api/v1/namespaces/{space}/events", old, PLAIN
    yield "event of events.k8s.io", "POST", f"/apis/events.k8s.io/v1/namespaces/{space}/events", new, PLAIN
    yield "events' end", "DELETE", f"/api/v1/namespaces/{space}/events", None, PLAIN
    new = {"metadata": {"name": "new"}, "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}}
    old = {"metadata": {"name": "old"}, "spec": {"backend": {"serviceName": "x", "servicePort": 80}}}
    path = f"/apis/networking.k8s.io/v1/namespaces/{space}/ingresses"
    yield "ingress", "POST", path, new, PLAIN
    yield "ingress of extensions", "POST", f"/apis/extensions/v1beta1/namespaces/{space}/ingresses", old, PLAIN
    yield "ingresses' end", "DELETE", path, None, PLAIN


def of_two_versions(space):
    for version, other in (("v1", "v1beta1"), ("v1beta1", "v1")):
        here, there = (f"/apis/{TEST_GROUP}/{v}/namespaces/{space}" for v in (version, other))
        name = f"thing-{version}"

        def thing(kind, name=name, version=version):
            version = f"{TEST_GROUP}/{version}"
            return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {"replicas": 1}}

        yield f"{version}", "POST", f"{here}/widgets", thing("Widget"), PLAIN
        yield f"{version} patched as {other}", "PATCH", f"{there}/widgets/{name}", {"spec": {"more": 1}}, MERGE
        yield f"{version}, scale", "PATCH", f"{here}/widgets/{name}/scale", {"spec": {"replicas": 2}}, MERGE
        yield f"{version}, status", "PATCH", f"{here}/widgets/{name}/status", {"status": {"replicas": 2}}, MERGE
        yield f"{version} deleted as {other}", "DELETE", f"{there}/widgets/{name}", None, PLAIN
        yield f"{version} converted", "POST", f"{here}/gadgets", thing("Gadget"), PLAIN
        yield f"{version} read as {other}", "GET", f"{there}/gadgets/{name}", None, PLAIN
        yield f"{version} converted, deleted", "DELETE", f"{here}/gadgets/{name}", None, PLAIN


def of_namespace(prefix):
    """About the Namespace itself, which is in none; a new one each time."""
    name = f"{prefix}-{next(harness.Run.counter)}"
    path = f"/api/v1/namespaces/{name}"
    metadata = {"name": name, "labels": webhook_pods.labels_of(name)}
    thing = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    change = {"metadata": {"annotations": {"a": "b"}}}
    yield "Namespace", "POST", "/api/v1/namespaces", thing, PLAIN
    yield "apply", "PATCH", f"{path}?fieldManager=test&force=true", thing, APPLY
    yield "patch, dry run", "PATCH", f"{path}?dryRun=All", change, MERGE
    yield "patch", "PATCH", path, change, MERGE
    yield "status", "PATCH", f"{path}/status", {"status": {"phase": "Active"}}, MERGE
    yield "end", "DELETE", path, None, PLAIN


def of_the_cluster(_):
    node = f"/api/v1/nodes/{NODE}"
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    yield "role", "POST", roles, {"metadata": {"name": "some-role"}, "rules": []}, PLAIN
    yield "role's end", "DELETE", f"{roles}/some-role", None, PLAIN
    yield "node", "PATCH", node, {"metadata": {"labels": {"a": "b"}}}, MERGE
    yield "node's status", "PATCH", f"{node}/status", {"status": {"phase": "Running"}}, MERGE
    yield "node's proxy", "GET", f"{node}/proxy/x", None, PLAIN


# ---- what was asked ----

Words = collections.namedtuple("Words", "path operation resource sub came_as came_sub namespace dry old new")


def words_of(path, asked):
    """All that a webhook may go by, but for names, which differ, and objects."""
    space = None if asked["resource"]["resource"] == "namespaces" else asked.get("namespace")
    resource, came_as = (tuple(asked.get(key, {}).values()) for key in ("resource", "requestResource"))
    return Words(
        path, asked["operation"], resource, asked.get("subResource"), came_as, asked.get("requestSubResource"),
        space, asked["dryRun"], bool(asked.get("oldObject")), bool(asked.get("object")),
    )  # fmt: skip


def counts(asked):
    """How often each was asked. An API server begins again when an object has changed meanwhile: then all
    are asked twice."""
    found = collections.Counter(words for words, _ in asked)
    times = math.gcd(*found.values())
    return {words: count // times for words, count in found.items()}


class RequestsTest(compiled.CompileCase):
    """A shard of names, one of a hash, and a pod of none."""

    places = ["team-1"]

    def setUp(self):
        super().setUp()
        pods = [review_notes.NotingPod(self, f"pod-{of}".lower(), of) for of in ("a", "b", None)]
        self.start(pods, proxied=False)
        for space in self.places:
            self.make_space(space)
        self.define("widgets", {"strategy": "None"})
        where = {"namespace": NAMESPACE, "name": SERVICE, "path": CONVERT, "port": 443}
        config = {"service": where, "caBundle": self.certificates.encoded()}
        webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
        self.define("gadgets", {"strategy": "Webhook", "webhook": webhook})

    def define(self, plural, conversion):
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"served": True, "subresources": {"status": {}, "scale": scale}, "schema": schema}
        kind, name = plural[:-1].title(), f"{plural}.{TEST_GROUP}"
        spec = {
            "group": TEST_GROUP, "scope": "Namespaced", "conversion": conversion,
            "names": {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"},
            "versions": [{**version, "name": name, "storage": name == "v1"} for name in ("v1", "v1beta1")],
        }  # fmt: skip
        thing = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                 "metadata": {"name": name}, "spec": spec}  # fmt: skip
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.addCleanup(self.cluster.fetch, f"{path}/{name}", "DELETE")
        self.cluster.json(path, "POST", thing)
        harness.wait_for(lambda: self.cluster.fetch(f"/apis/{TEST_GROUP}/v1beta1/{plural}").status == 200, name)

    # ---- what is compiled ----

    def shards(self):
        leave_out = compiled.by_label(harness.NAMESPACE_LABEL, "NotIn", "team-1")
        by_name = compiled.by_label(harness.NAMESPACE_LABEL, "In", "team-1")
        by_hash = compiled.by_label(harness.HASH_LABEL, "In", hash_of("hash-b"))
        found = [compiled.shard_of("a", by_name), compiled.shard_of("b", by_hash, leave_out)]
        for thing in found:
            thing["spec"]["limits"][0]["relateResources"] = [{"apiGroups": ["*"], "resources": ["*"]}]
        return found

    def originals(self):
        found = []
        for kind in (MUTATING, VALIDATING):
            webhooks = []
            for name, more in webhooks_of(kind).items():
                webhooks.append(self.webhook(kind, name=f"{name}.example.com", **more))
                webhooks[-1]["clientConfig"]["service"]["path"] = f"{PATHS[kind]}/{name}"
            metadata = {"name": compiled.ORIGINAL, "labels": {f"{GROUP}/route": "true"}}
            version = "admissionregistration.k8s.io/v1"
            found.append({"apiVersion": version, "kind": kind, "metadata": metadata, "webhooks": webhooks})
        return found

    # ---- asking ----

    def ask(self, method, path, body, kind):
        """The status, and who was asked what: (words, shard)."""
        before = {pod: len(pod.asked()) for pod in self.started}
        text = None if body is None else json.dumps(body).encode()
        answer = self.cluster.fetch(path, method, [("Content-Type", kind), *AS_USER], text)
        self.wait_cached(path, answer)
        asked = [(pod.of, *more) for pod in self.started for _, *more in pod.asked()[before[pod]:]]
        return answer.status, [(words_of(path, request), of) for of, path, request in asked
                        if path != CONVERT and request["userInfo"]["username"] == USER]  # fmt: skip

    def wait_cached(self, path, answer):
        """Until the API server's cache has what was written: it begins an update with what is there."""
        version = re.search(rb'"resourceVersion":"(\d+)"', answer.body)
        collection = re.match("/api.*/namespaces/[^/]+/[a-z]+", path)
        if version is not None and collection is not None and answer.status in (200, 201):
            self.cluster.fetch(f"{collection[0]}?resourceVersion={version[1].decode()}")

    def ask_all(self):
        kinds = of_maps, of_pods, of_core, of_two_groups, of_two_versions
        todo = [(space, requests) for space in self.places for requests in kinds]
        todo += [("new", of_namespace), ("unlabelled", of_namespace), ("", of_the_cluster)]
        return {
            (where, requests.__name__, what): self.ask(*request)
            for where, requests in todo
            for what, *request in requests(where)
        }

    def wait_asked(self, *shards):
        """Until these alone are asked about a namespace of `a`, once by each webhook; of any if none is
        named."""

        def asked():
            name = f"probe-{next(harness.Run.counter)}"
            body = {"metadata": {"name": name, "labels": {"many": "yes"}}}
            _, found = self.ask("POST", "/api/v1/namespaces/team-1/configmaps", body, PLAIN)
            right = not shards or {of for _, of in found} == set(shards)
            return found and right and len(found) == len(set(found))

        harness.wait_for(asked, "the webhooks are in force", interval=0.1)

    # ---- tests ----

    def test_requests(self):
        """Whatever is asked for, by whatever webhook."""
        for thing in self.originals():
            self.api.apply({**thing, "metadata": {"name": compiled.ORIGINAL}})
        self.wait_asked()
        before = self.ask_all()
        found, said = self.compile()
        self.assertNotIn("cannot be routed", said)
        self.apply_ports([(port_name(of), 20443 + i) for i, of in enumerate("ab")] + [(HOLD, 20445)])
        for of in "ab":
            self.wait_endpoints(port_name(of), 1)
        for thing in found:
            self.api.apply(thing)
        self.wait_asked("a")
        self.check(before, self.ask_all())
        self.check_end()

    def check(self, before, after):
        for what, (status, asked) in after.items():
            was, was_asked = before[what]
            self.assertEqual(was, status, what)
            self.assertEqual(counts(was_asked), counts(asked), what)
            owner = OWNERS.get(what[0])
            if owner is not None:
                self.assertLessEqual({of for _, of in asked}, {owner}, f"{what}: {asked}")
        reviews = [len(asked) for _, asked in after.values()]
        self.assertGreater(sum(map(bool, reviews)), 40)
        self.assertEqual(201, after["team-1", "of_two_versions", "v1 converted"][0])
        self.assertEqual(200, after["team-1", "of_two_versions", "v1 read as v1beta1"][0])
        converted = [pod.of for pod in self.started for _, path, _ in pod.asked() if path == CONVERT]
        self.assertGreater(len(converted), 3)
        report(f"{len(reviews)} requests, {reviews.count(0)} of them without a review, {sum(reviews)} reviews")

    def check_end(self):
        """What a namespace takes with it at its end is reviewed by its shard, too."""
        since = {pod: len(pod.asked()) for pod in self.started}
        for name in ("last-1", "last-2"):
            webhook_pods.write(self.cluster, "CREATE", "team-1", name)
        self.api.delete("/api/v1/namespaces/team-1")
        found = [
            (request["operation"], request["resource"]["resource"], pod.of)
            for pod in self.started for _, path, request in pod.asked()[since[pod]:]
            if path != CONVERT and request.get("namespace") == "team-1"
        ]  # fmt: skip
        found = collections.Counter(asked for asked in found if asked[1] != "namespaces")
        self.assertEqual({"a"}, {of for _, _, of in found}, found)
        if not harness.modern():
            self.assertGreaterEqual(found["DELETE", "configmaps", "a"], 2, found)


if __name__ == "__main__":
    harness.main()
