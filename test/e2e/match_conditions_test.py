#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which writes the API server asks the webhooks for labels about: by the manager's own count, with the
labels that come of it. Where the server evaluates match conditions (1.28 and later, so on the one of
--modern) only those that may need something; elsewhere each. The labels are the same.
"""

import base64
import json
import os
import time
import unittest

import harness
import upstream
from webhook_case import (
    CONFIGURATIONS,
    CONTROL_LABEL,
    OURS,
    WebhookCase,
    control_labels,
    given_control_labels,
    hash_of,
)

CONDITION = "needs-labels.cmesh.kusionstack.io"
GROUP = "conditions.cmesh.test"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVALUATED = (1, 28)
RESOURCES = f"groupVersionKinds:\n  v1: [ConfigMap, Secret, Pod]\n  {GROUP}/v1: [Widget]\n"
MERGE = "application/merge-patch+json"


def thing(kind, namespace, name="thing", labels=None, **meta):
    api_version = f"{GROUP}/v1" if kind == "Widget" else "v1"
    meta = {"name": name, "namespace": namespace, **meta}
    if labels is not None:
        meta["labels"] = labels
    made = {"apiVersion": api_version, "kind": kind, "metadata": meta}
    if kind == "Pod":
        made["spec"] = {"containers": [{"name": "c", "image": "example.test/c:1"}]}
    return made


def setUpModule():  # pylint: disable=invalid-name
    """Widgets, a custom resource, are served."""
    cluster = harness.cluster()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": f"widgets.{GROUP}"}, "spec": spec}
    unittest.addModuleCleanup(cluster.fetch, f"{DEFINITIONS}/widgets.{GROUP}", "DELETE")
    cluster.json(DEFINITIONS, "POST", definition)
    widgets = f"/apis/{GROUP}/v1/widgets"
    harness.wait_for(lambda: cluster.fetch(widgets).status == 200, "widgets are served")


class ConditionCase(WebhookCase):
    """Nothing but the tests writes in their namespaces, and nobody but the webhook labels."""

    versions = ["v1"]

    @classmethod
    def setUpClass(cls):
        cls.evaluates = harness.cluster().behaves_as() >= EVALUATED
        super().setUpClass()

    @classmethod
    def start_manager(cls, name, cleanup, webhook="127.0.0.1:0", args=()):
        path = os.path.join(cls.class_folder, "resources.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(RESOURCES)
        args = ["--sharding-resources", path, "--label-qps=0", *args]
        return super().start_manager(name, cleanup, webhook, args)

    @classmethod
    def wait_working(cls):
        super().wait_working()
        harness.wait_for(cls.is_settled, "the conditions are written, and the resources known")
        ns = harness.make_namespace(cls.cluster, "cmesh-settled", cls.addClassCleanup)
        label = {"metadata": {"labels": {OURS: cls.home}}}
        cls.cluster.json(f"/api/v1/namespaces/{ns}", "PATCH", label, MERGE)
        harness.wait_for(lambda: cls.knows_all(ns), "the API server has read them")

    @classmethod
    def is_settled(cls):
        rules = json.dumps(cls.configuration()["webhooks"][2].get("rules"))
        state = cls.manager.status()["matchConditions"]
        wanted = "in use" if cls.evaluates else "not supported by the API server"
        return GROUP in rules and state == wanted

    @classmethod
    def knows_all(cls, ns):
        """It labels the last of the resources, and does not ask about an update if it need not."""
        widgets = f"/apis/{GROUP}/v1/namespaces/{ns}/widgets"
        cls.cluster.fetch(f"{widgets}/probe", "DELETE")
        made = cls.cluster.json(widgets, "POST", thing("Widget", ns, "probe"))
        if not cls.labels_of(made):
            return False
        before = cls.calls()
        cls.cluster.json(f"{widgets}/probe", "PATCH", {"x": "y"}, MERGE)
        return (cls.calls() == before) == cls.evaluates

    @classmethod
    def labels_of(cls, made):
        return given_control_labels(made)

    @classmethod
    def wanted(cls, ns):
        return control_labels(ns)

    def setUp(self):
        super().setUp()
        self.places = set()  # of what the test writes

    # ---- counting ----

    @classmethod
    def calls(cls, webhook="resources"):
        count = f'cmesh_webhook_duration_seconds_count{{webhook="{webhook}"}}'
        return cls.manager.metrics()[count]

    def quiet_namespace(self, labels=None):
        """In which the controllers of a whole control plane have made all that they make."""
        name = self.namespace(labels)
        if harness.has_authority(self.cluster, "default"):
            harness.wait_for(lambda: harness.has_authority(self.cluster, name), "it is complete")
        self.places.add(f"/api/v1/namespaces/{name}")
        return name

    def version(self, path, query=""):
        """None: there is no such object."""
        answer = self.cluster.fetch(path + query)
        found = json.loads(answer.body) if answer.status == 200 else {"metadata": {}}
        return found["metadata"].get("resourceVersion")

    def await_caches(self):
        """From an older one in its cache the API server would begin a write, and then anew, and ask
        twice."""
        for path in sorted(self.places):
            harness.wait_for(
                lambda path=path: self.version(path, "?resourceVersion=0") == self.version(path),
                f"the API server's cache has {path}",
            )

    def expect_calls(self, count, write, *args, webhook="resources", **more):
        """`count` where conditions are evaluated, elsewhere at least one: an old API server asks again
        when it was refused. What the write returns."""
        self.await_caches()
        before = self.calls(webhook)
        result = write(*args, **more)
        calls = self.calls(webhook) - before
        if self.evaluates:
            self.assertEqual(count, calls, (args, more))
        else:
            self.assertGreaterEqual(calls, 1, (args, more))
        return result

    # ---- writes ----

    def place(self, kind, ns, name="thing"):
        base = f"/apis/{GROUP}/v1" if kind == "Widget" else "/api/v1"
        path = f"{base}/namespaces/{ns}/{kind.lower()}s/{name}"
        self.places.add(path)
        return path

    def patch(self, kind, ns, change):
        return self.cluster.json(self.place(kind, ns), "PATCH", change, MERGE)

    def get(self, kind, ns):
        return self.cluster.json(self.place(kind, ns))

    def foreign(self, kind, ns, labels):
        """An object that the webhooks have not seen."""
        self.unwatch(ns)
        made = self.cluster.json(
            self.place(kind, ns).rpartition("/")[0], "POST", thing(kind, ns, labels=labels)
        )
        self.watch(ns)
        return made

    def unwatch(self, ns):
        self.api.label(f"/api/v1/namespaces/{ns}", {OURS: None})
        harness.wait_for(lambda: not self.is_watched(ns), "the webhooks pass it over")

    def watch(self, ns):
        self.api.label(f"/api/v1/namespaces/{ns}", {OURS: self.home})
        harness.wait_for(lambda: self.is_watched(ns), "the webhooks look at it")

    def is_watched(self, ns):
        path = f"/api/v1/namespaces/{ns}/configmaps?dryRun=All"
        made = self.cluster.json(path, "POST", thing("ConfigMap", ns, "probe"))
        return self.labels_of(made) != {}


class Writes:
    """Of one kind."""

    kind = None

    def label(self, ns, labels):
        return self.api.label(self.place(self.kind, ns), labels)

    def annotate(self, ns, annotations):
        return self.api.annotate(self.place(self.kind, ns), annotations)

    def remove(self, ns):
        """At once."""
        self.api.delete(self.place(self.kind, ns), "?gracePeriodSeconds=0")

    def expect_right(self, ns):
        self.assertEqual(control_labels(ns), given_control_labels(self.get(self.kind, ns)))

    def test_labelled(self):
        ns = self.quiet_namespace()
        self.expect_calls(1, self.create, thing(self.kind, ns, labels={"app": "x"}))
        self.expect_right(ns)
        for write in (
            ("annotate", "note=1"),
            ("label", "tier=web"),
            ("label", "tier=db", "--overwrite"),
            ("patch", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/tier"}]'),
        ):
            with self.subTest(write=write):
                verb, *rest = write
                place = (f"{self.kind.lower()}/thing", "-n", ns)
                self.expect_calls(0, self.kubectl, verb, *place, *rest)
                self.expect_right(ns)
        for write in (
            (self.annotate, {"note": "2"}),
            (self.annotate, {"note": None}),
            (self.label, {"tier": "web"}),
            (self.label, {"tier": None}),
        ):
            with self.subTest(write=write):
                self.expect_calls(0, write[0], ns, write[1])
                self.expect_right(ns)
        for finalizers in (["cmesh.test/x"], None):
            self.expect_calls(0, self.patch, self.kind, ns, {"metadata": {"finalizers": finalizers}})
            self.expect_right(ns)

    def test_labels_that_are_changed(self):
        ns = self.quiet_namespace()
        self.create(thing(self.kind, ns, labels={"app": "x"}))
        wrong = str((int(hash_of(ns)) + 1) % 32)
        for labels in (
            {harness.NAMESPACE_LABEL: None},
            {harness.HASH_LABEL: None},
            {CONTROL_LABEL: None},
            {harness.NAMESPACE_LABEL: "other"},
            {harness.HASH_LABEL: wrong},
            {harness.NAMESPACE_LABEL: None, harness.HASH_LABEL: None, CONTROL_LABEL: None},
            None,
        ):
            with self.subTest(labels=labels):
                self.expect_calls(1, self.label, ns, labels)
                self.expect_right(ns)
        for labels in (
            {CONTROL_LABEL: "false"},
            {CONTROL_LABEL: None, harness.NAMESPACE_LABEL: "other"},
            {CONTROL_LABEL: "no", harness.HASH_LABEL: wrong},
        ):
            with self.subTest(labels=labels):
                change = {"metadata": {"labels": labels}}
                path = self.place(self.kind, ns)
                answer = self.expect_calls(1, self.api.ask, "PATCH", path, change, MERGE)
                self.assertIn("denied the request", answer.said)
                self.expect_right(ns)

    def test_replaced(self):
        ns = self.quiet_namespace()
        self.create(thing(self.kind, ns))
        path = self.place(self.kind, ns)
        same = self.get(self.kind, ns)
        same["metadata"]["annotations"] = {"a": "b"}
        bare = self.expect_calls(0, self.cluster.json, path, "PUT", same)
        del bare["metadata"]["labels"]
        made = self.expect_calls(1, self.cluster.json, path, "PUT", bare)
        self.assertEqual(control_labels(ns), given_control_labels(made))

    def test_not_labelled_yet(self):
        ns = self.quiet_namespace()
        self.foreign(self.kind, ns, None)
        self.expect_calls(1, self.annotate, ns, {"note": "1"})
        self.expect_right(ns)
        self.expect_calls(0, self.annotate, ns, {"note": None})
        self.expect_right(ns)

    def test_some_labels_are_missing(self):
        ns = self.quiet_namespace()
        for missing in control_labels(ns):
            with self.subTest(missing=missing):
                labels = {k: v for k, v in control_labels(ns).items() if k != missing}
                self.foreign(self.kind, ns, labels)
                self.expect_calls(1, self.annotate, ns, {"note": "1"})
                self.expect_right(ns)
                self.remove(ns)

    def test_foreign_labels(self):
        """Each time: it may be edited, with a warning."""
        ns = self.quiet_namespace()
        for theirs in ({harness.NAMESPACE_LABEL: "other"}, {**control_labels(ns), CONTROL_LABEL: "no"}):
            with self.subTest(theirs=theirs):
                self.foreign(self.kind, ns, theirs)
                for number in range(3):
                    self.expect_calls(1, self.annotate, ns, {f"note-{number}": "1"})
                    self.assertEqual(theirs, given_control_labels(self.get(self.kind, ns)))
                self.remove(ns)

    def test_ignored(self):
        """Neither labelled nor asked about, until a label is changed."""
        ns = self.quiet_namespace()
        ignored = {harness.IGNORE_LABEL: "true"}
        self.expect_calls(1, self.create, thing(self.kind, ns, labels=ignored))
        for number in range(2):
            self.expect_calls(0, self.annotate, ns, {f"note-{number}": "1"})
        self.assertEqual({}, given_control_labels(self.get(self.kind, ns)))
        change = {"metadata": {"labels": {harness.NAMESPACE_LABEL: "other"}}}
        path = self.place(self.kind, ns)
        answer = self.expect_calls(1, self.api.ask, "PATCH", path, change, MERGE)
        self.assertIn("is not corrected because of", answer.said)
        self.expect_calls(1, self.label, ns, {harness.IGNORE_LABEL: None})
        self.expect_right(ns)
        self.expect_calls(0, self.label, ns, ignored)  # nothing is wrong there
        self.expect_calls(0, self.annotate, ns, {"note-0": None})
        self.expect_calls(1, self.label, ns, {harness.HASH_LABEL: None})
        self.expect_calls(0, self.annotate, ns, {"note-1": None})
        self.assertNotIn(harness.HASH_LABEL, given_control_labels(self.get(self.kind, ns)))

    def test_ours_of_another_namespace(self):
        """As of a backup that was restored elsewhere while no manager ran."""
        ns = self.quiet_namespace()
        self.foreign(self.kind, ns, control_labels("other"))
        self.expect_calls(1, self.annotate, ns, {"note": "1"})
        self.expect_right(ns)

    def test_a_wrong_hash_that_came_in_unseen(self):
        """It was never checked, and does not change: only who asks about each update corrects it."""
        ns = self.quiet_namespace()
        wrong = str((int(hash_of(ns)) + 1) % 32)
        labels = {**control_labels(ns), harness.HASH_LABEL: wrong}
        self.foreign(self.kind, ns, labels)
        self.expect_calls(0, self.annotate, ns, {"note": "1"})
        left = labels if self.evaluates else control_labels(ns)
        self.assertEqual(left, given_control_labels(self.get(self.kind, ns)))
        self.label(ns, {harness.HASH_LABEL: None})
        self.expect_right(ns)

    def test_while_it_is_deleted(self):
        ns = self.quiet_namespace()
        made = thing(self.kind, ns, finalizers=["cmesh.test/x"])
        self.create(made)
        self.addCleanup(self.cluster.fetch, self.place(self.kind, ns), "PATCH",
                        [("Content-Type", MERGE)], b'{"metadata":{"finalizers":null}}')  # fmt: skip
        self.cluster.json(self.place(self.kind, ns) + "?gracePeriodSeconds=0", "DELETE")
        self.assertIn("deletionTimestamp", self.get(self.kind, ns)["metadata"])
        self.expect_calls(0, self.annotate, ns, {"note": "1"})
        self.expect_calls(1, self.label, ns, {CONTROL_LABEL: None})
        self.expect_right(ns)
        self.expect_calls(0, self.patch, self.kind, ns, {"metadata": {"finalizers": None}})
        harness.wait_for(
            lambda: self.cluster.fetch(self.place(self.kind, ns)).status == 404, "it is gone"
        )


class ConfigMapTest(Writes, ConditionCase):
    kind = "ConfigMap"


class SecretTest(Writes, ConditionCase):
    kind = "Secret"


class PodTest(Writes, ConditionCase):
    kind = "Pod"


class WidgetTest(Writes, ConditionCase):
    """A custom resource."""

    kind = "Widget"

    def put_labels(self, ns, value, name="before"):
        """Another webhook that puts `value` in the place of the labels: before ours, by its name."""
        patch = [{"op": "add", "path": "/metadata/labels", "value": value}]
        coded = base64.b64encode(json.dumps(patch).encode()).decode()

        def answer(peer, request):
            review = json.loads(request.body)
            uid = review.pop("request")["uid"]
            review["response"] = {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": coded}
            peer.respond(200, json.dumps(review).encode())

        context = upstream.server_context(*self.authority().server())
        other = self.upstream(upstream.always(answer), context=context)
        with open(self.authority().certificate, "rb") as f:
            bundle = base64.b64encode(f.read()).decode()
        rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["UPDATE"]}
        webhook = {
            "name": "labels.cmesh.test",
            "clientConfig": {"url": other.url + "/", "caBundle": bundle},
            "rules": [{**rule, "resources": ["widgets"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        made = {"metadata": {"name": f"{self.home}-{name}"}, "webhooks": [webhook]}
        path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations"
        self.addCleanup(self.cluster.fetch, f"{path}/{self.home}-{name}", "DELETE")
        self.cluster.fetch(f"{path}/{self.home}-{name}", "DELETE")
        self.cluster.json(path, "POST", made)
        return other

    def test_labels_of_a_strange_type(self):
        """An expression that fails would count as one that says: do not ask."""
        ns = self.quiet_namespace()
        self.api.label(f"/api/v1/namespaces/{ns}", {"kubernetes.io/metadata.name": ns})
        for value in (None, 5, "text", [], {}, {"a": "b"}):
            with self.subTest(value=value):
                self.cluster.fetch(self.place(self.kind, ns), "DELETE")
                self.create(thing(self.kind, ns))
                other = self.put_labels(ns, value)
                change = {"x": str(value)}

                def is_asked(other=other, change=change):
                    self.patch(self.kind, ns, change)
                    return other.peers

                harness.wait_for(is_asked, "the API server asks the other webhook")
                self.expect_calls(1, self.patch, self.kind, ns, {"y": "z"})
                self.expect_right(ns)


    def test_a_webhook_behind_ours_takes_labels_away(self):
        """What was not asked about is not asked about again (reinvocationPolicy), so its labels are
        gone. To set them anew is asked about, and ours has the last word."""
        ns = self.quiet_namespace()
        self.api.label(f"/api/v1/namespaces/{ns}", {"kubernetes.io/metadata.name": ns})
        self.create(thing(self.kind, ns))
        other = self.put_labels(ns, {}, "zzz")

        def is_asked():
            self.patch(self.kind, ns, {"x": "1"})
            return other.peers

        harness.wait_for(is_asked, "the API server asks the other webhook")
        left = {} if self.evaluates else control_labels(ns)
        self.assertEqual(left, given_control_labels(self.get(self.kind, ns)))
        self.patch(self.kind, ns, {"metadata": {"labels": control_labels(ns)}})
        self.expect_right(ns)


class NamespaceTest(ConditionCase):
    def test_namespaces(self):
        ns = self.quiet_namespace()
        for count, write, values in (
            (0, self.api.annotate, {"note": "1"}),
            (0, self.api.label, {"team": "a"}),
            (1, self.api.label, {harness.HASH_LABEL: None}),
            (1, self.api.label, {harness.NAMESPACE_LABEL: "other"}),
            (1, self.api.label, {CONTROL_LABEL: None}),
            (0, self.api.annotate, {"note": None}),
        ):
            with self.subTest(values=values):
                path = f"/api/v1/namespaces/{ns}"
                self.expect_calls(count, write, path, values, webhook="namespaces")
                self.assertEqual(control_labels(ns), given_control_labels(self.get_namespace(ns)))

    def test_a_namespace_that_is_new_to_the_webhooks(self):
        """What names it ours is an update of it."""
        ns = harness.make_namespace(self.cluster, "cmesh-late", self.addCleanup)
        self.places.add(f"/api/v1/namespaces/{ns}")
        path, label = f"/api/v1/namespaces/{ns}", {OURS: self.home}
        self.expect_calls(1, self.api.label, path, label, webhook="namespaces")
        self.assertEqual(control_labels(ns), given_control_labels(self.get_namespace(ns)))


class TakeTest(ConditionCase):
    """With --label-foreign=take what exists is corrected with the next update."""

    manager_args = ("--label-foreign=take",)

    def test_foreign_labels_are_corrected(self):
        ns = self.quiet_namespace()
        self.foreign("ConfigMap", ns, {harness.NAMESPACE_LABEL: "other", CONTROL_LABEL: "false"})
        change = {"data": {"x": "y"}}
        made = self.expect_calls(1, self.patch, "ConfigMap", ns, change)
        self.assertEqual(control_labels(ns), given_control_labels(made))
        self.expect_calls(0, self.patch, "ConfigMap", ns, {"data": {"x": "z"}})


class KeysTest(ConditionCase):
    """Other keys than the usual."""

    keys = ("x.example.com/in", "a-b.test/Hash_1.x", "x.example.com/ours")
    manager_args = (
        "--label-prefix=x.example.com",
        "--label-namespace=in",
        "--label-shard-hash=a-b.test/Hash_1.x",
        "--label-control=ours",
    )

    @classmethod
    def wanted(cls, ns):
        return dict(zip(cls.keys, (ns, hash_of(ns), "true")))

    @classmethod
    def labels_of(cls, made):
        labels = made["metadata"].get("labels", {})
        return {k: v for k, v in labels.items() if k in cls.keys}

    @classmethod
    def try_namespace(cls, name):
        """With labels that wait_working of the base class looks for."""
        made = super().try_namespace(name)
        made["metadata"]["labels"].update(dict.fromkeys(control_labels(""), ""))
        return made if cls.labels_of(made) else {"metadata": {}}

    def test_they_are_looked_at(self):
        ns = self.quiet_namespace()
        self.foreign("ConfigMap", ns, control_labels(ns))
        made = self.expect_calls(1, self.patch, "ConfigMap", ns, {"data": {"x": "1"}})
        self.assertEqual(self.wanted(ns), self.labels_of(made))
        self.expect_calls(0, self.patch, "ConfigMap", ns, {"data": {"x": "2"}})
        change = {"metadata": {"labels": {self.keys[1]: None}}}
        made = self.expect_calls(1, self.patch, "ConfigMap", ns, change)
        self.assertEqual(self.wanted(ns), self.labels_of(made))
        self.expect_calls(0, self.patch, "ConfigMap", ns, {"metadata": {"labels": {CONTROL_LABEL: None}}})


class ConfigurationTest(ConditionCase):
    """What stands in the configuration, whoever writes there."""

    def conditions(self):
        """path -> names of its conditions."""
        found = {}
        for webhook in self.configuration()["webhooks"]:
            path = webhook["clientConfig"]["url"].split("/", 3)[3]
            found[path] = [c["name"] for c in webhook.get("matchConditions", [])]
        return found

    def are_right(self, *others):
        ours = [*others, CONDITION] if self.evaluates else [*others]
        wanted = {
            "mutate/pods": [],
            "mutate/namespaces": [CONDITION] if self.evaluates else [],
            "mutate/resources": ours,
        }
        return self.conditions() == wanted

    def expect_settled(self):
        settled = self.configuration()["metadata"]["resourceVersion"]
        time.sleep(1)
        self.assertEqual(settled, self.configuration()["metadata"]["resourceVersion"])

    def patch_configuration(self, operations):
        path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/{self.configuration_name()}"
        self.cluster.json(path, "PATCH", operations, "application/json-patch+json")

    def test_two_webhooks_have_one(self):
        self.assertTrue(self.are_right(), self.conditions())
        self.expect_settled()

    def test_an_old_server_is_told_of_none(self):
        if self.evaluates:
            self.skipTest("an API server with match conditions")
        self.assertNotIn("matchConditions", json.dumps(self.configuration()))
        self.assertEqual(
            "not supported by the API server", self.manager.status()["matchConditions"]
        )

    def test_applying_the_manifest_takes_nothing_away(self):
        """As an upgrade does."""
        before = self.configuration()["webhooks"]
        made = next(t for t in self.skeletons() if t["kind"].startswith("Mutating"))
        made["metadata"]["name"] = self.configuration_name()
        for webhook, there in zip(made["webhooks"], before):
            webhook["clientConfig"] = {"url": there["clientConfig"]["url"]}
            webhook["namespaceSelector"] = there["namespaceSelector"]
            webhook["admissionReviewVersions"] = self.versions
        for args in ((), (), ("--server-side", "--force-conflicts")):
            self.kubectl("apply", "-f", "-", *args, stdin=json.dumps(made))
            self.assertTrue(self.are_right(), self.conditions())
            harness.wait_for(lambda: self.configuration()["webhooks"] == before, "all is as before")
        self.expect_settled()

    def test_what_is_removed_comes_back(self):
        if not self.evaluates:
            self.skipTest("an API server without match conditions")
        before = self.configuration()["webhooks"]
        other = {"name": "theirs.test", "expression": "request.userInfo.username != 'nobody'"}
        change = {"op": "add", "path": "/webhooks/2/matchConditions", "value": [other]}
        self.patch_configuration([change])
        harness.wait_for(lambda: self.are_right("theirs.test"), "ours is back beside theirs")
        wrong = [{"name": CONDITION, "expression": "false"}]
        self.patch_configuration([{**change, "value": wrong}])
        harness.wait_for(
            lambda: self.configuration()["webhooks"] == before, "ours is right again"
        )
        ns = self.namespace()
        made = self.create(thing("ConfigMap", ns))
        self.assertEqual(control_labels(ns), given_control_labels(made))
        self.expect_settled()


if __name__ == "__main__":
    harness.main()
