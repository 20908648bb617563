#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the manager's webhooks do, as users of kubectl see it: labels, sidecars, refusals; in both
versions of AdmissionReview, in dry runs, while connections are cut, and while the manager is away.
"""

import base64
import hashlib
import json
import signal
import socket
import time
import unittest

import harness
import wire
from webhook_case import (
    API,
    CONTROL_LABEL,
    CONFIGURATIONS,
    GROUP,
    OURS,
    SECRET,
    WEBHOOKS,
    WebhookCase,
    control_labels,
    given_control_labels,
    hash_of,
)


def config_map(namespace, name="thing", labels=None, data="1"):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "data": {"key": data},
    }


def pod(namespace, name="operator-0", **labels):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "operator", "image": "example.test/operator:1"}]},
    }


def operator(namespace, name="operator-0"):
    """A pod that asks for the sidecars."""
    thing = pod(namespace, name, app="operator")
    thing["metadata"]["labels"][GROUP + "/enable-proxy"] = "true"
    return thing


def sharding_config(namespace, name="shard-a", **spec):
    return {
        "apiVersion": GROUP + "/v1alpha1",
        "kind": "ShardingConfig",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "operator"}},
            "limits": [
                {
                    "relateResources": [{"apiGroups": [""], "resources": ["configmaps"]}],
                    "selector": {"matchLabels": {"app": "x"}},
                }
            ],
            **spec,
        },
    }


def given(**fields):
    """Without those that are None."""
    return {key: value for key, value in fields.items() if value is not None}


def circuit_breaker(namespace, policy="guard", **limiting):
    resources = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "namespaces": ["*"]}
    usual = {
        "name": "deletes",
        "triggerPolicy": "LimiterOnly",
        "resourceRules": [resources],
        "bucket": {"burst": 1, "limit": 1, "interval": "10s"},
    }
    return {
        "apiVersion": GROUP + "/v1alpha1",
        "kind": "CircuitBreaker",
        "metadata": {"name": policy, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "operator"}},
            "rateLimitings": [given(**{**usual, **limiting})],
        },
    }


def fault_injection(namespace, **fault):
    usual = {
        "name": "lists",
        "match": {"resources": [{"verbs": ["list"]}]},
        "delay": {"fixedDelay": "1s", "percent": "50"},
    }
    return {
        "apiVersion": GROUP + "/v1alpha1",
        "kind": "FaultInjection",
        "metadata": {"name": "slow", "namespace": namespace},
        "spec": {"selector": {}, "httpFault": [given(**{**usual, **fault})]},
    }


class Rules:
    """Every rule once, in whatever version of AdmissionReview."""

    # ---- labels ----

    def test_a_new_namespace_is_labelled(self):
        name = self.namespace()
        self.assertEqual(control_labels(name), given_control_labels(self.get_namespace(name)))

    def test_labels_of_a_namespace_that_are_taken_away_come_back(self):
        name = self.namespace()
        path = f"/api/v1/namespaces/{name}"
        self.api.label(path, {harness.HASH_LABEL: None})
        self.api.label(path, {harness.NAMESPACE_LABEL: "other"})
        self.assertEqual(control_labels(name), given_control_labels(self.get_namespace(name)))

    def test_foreign_labels_are_refused(self):
        name = self.new_namespace_name()
        self.addCleanup(self.cluster.fetch, f"/api/v1/namespaces/{name}", "DELETE")
        wrong = str((int(hash_of(name)) + 1) % 32)
        thing = self.namespace_object(name, {harness.HASH_LABEL: wrong})
        self.refused(thing, f'{harness.HASH_LABEL}]: Invalid value: "{wrong}": must be '
                     f'"{hash_of(name)}"', "leave this label out")  # fmt: skip
        ns = self.namespace()
        thing = config_map(ns, labels={harness.NAMESPACE_LABEL: "nobody"})
        self.refused(thing, harness.NAMESPACE_LABEL, '"nobody": must be "' + ns)
        self.refused(config_map(ns, labels={CONTROL_LABEL: "false"}), CONTROL_LABEL)
        self.create(config_map(ns))
        code, _, err = self.kubectl.run("label", "-n", ns, "--overwrite", "configmap/thing",
                                        f"{CONTROL_LABEL}=false")  # fmt: skip
        self.assertEqual(1, code, err)
        self.assertIn("denied the request", err)
        thing = self.cluster.json(f"/api/v1/namespaces/{ns}/configmaps/thing")
        self.assertEqual(control_labels(ns), given_control_labels(thing))

    def test_what_has_foreign_labels_can_be_edited(self):
        ns = harness.make_namespace(self.cluster, "cmesh-before", self.addCleanup)
        path = f"/api/v1/namespaces/{ns}/configmaps/thing"
        theirs = {harness.NAMESPACE_LABEL: "other"}
        self.create(config_map(ns, labels=theirs))
        self.api.label(f"/api/v1/namespaces/{ns}", {OURS: self.home})
        harness.wait_for(
            lambda: given_control_labels(self.create(config_map(ns, "probe"), dry_run=True)),
            "the webhooks look at the namespace",
        )
        err = self.taken(config_map(ns, labels=theirs, data="2"))
        if self.warns:
            self.assertIn("the shard that this belongs to may not see it", err)
        thing = self.cluster.json(path)
        self.assertEqual("2", thing["data"]["key"])
        self.assertEqual(theirs, given_control_labels(thing))
        self.refused(config_map(ns, labels={harness.NAMESPACE_LABEL: "third"}), '"third": must be')
        self.api.label(path, {harness.NAMESPACE_LABEL: None})
        self.assertEqual(control_labels(ns), given_control_labels(self.cluster.json(path)))

    def test_objects_are_labelled_however_they_are_written(self):
        ns = self.namespace()
        expected = control_labels(ns)
        thing = self.create(config_map(ns, labels={"a": "b"}))
        self.assertEqual({"a": "b", **expected}, thing["metadata"]["labels"])
        path = f"/api/v1/namespaces/{ns}/configmaps/thing"
        patches = (
            ("merge", {"metadata": {"labels": {harness.HASH_LABEL: None}}}),
            ("json", [{"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}}]),
            ("strategic", {"metadata": {"labels": {harness.NAMESPACE_LABEL: "other"}}}),
        )
        for kind, patch in patches:
            with self.subTest(patch=kind):
                self.kubectl(
                    "patch", "-n", ns, "configmap/thing", "--type", kind, "-p", json.dumps(patch)
                )
                labels = self.cluster.json(path)["metadata"]["labels"]
                self.assertEqual({"a": "b", **expected}, labels)
        with self.subTest("applied by the server"):
            applied = config_map(ns, "applied")
            self.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(applied))
            self.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(applied))
            labels = self.cluster.json(path.replace("/thing", "/applied"))["metadata"]["labels"]
            self.assertEqual(expected, labels)
        with self.subTest("replaced"):
            self.kubectl("replace", "-f", "-", stdin=json.dumps(config_map(ns)))
            self.assertEqual(expected, self.cluster.json(path)["metadata"]["labels"])

    @harness.needs("Deployments")
    def test_objects_of_other_groups_are_labelled(self):
        ns = self.namespace()
        template = {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "example.test/c:1"}]},
        }
        thing = self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d", "namespace": ns},
                "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
            }
        )
        self.assertEqual(control_labels(ns), given_control_labels(thing))

    @harness.needs("RBAC")
    def test_what_is_no_sharding_resource_is_left_alone(self):
        ns = self.namespace()
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "r", "namespace": ns},
            "rules": [],
        }
        self.assertEqual({}, given_control_labels(self.create(role)))

    def test_other_namespaces_are_left_alone(self):
        ns = harness.make_namespace(self.cluster, "cmesh-other", self.addCleanup)
        before = self.manager.requests("resources", "patched")
        self.create(config_map(ns, "elsewhere"))
        self.assertEqual(before, self.manager.requests("resources", "patched"))

    # ---- dry runs ----

    def test_dry_runs_show_the_labels_and_change_nothing(self):
        ns = self.namespace()
        thing = self.create(config_map(ns), dry_run=True)
        self.assertEqual(control_labels(ns), given_control_labels(thing))
        self.assertEqual(
            404, self.cluster.fetch(f"/api/v1/namespaces/{ns}/configmaps/thing").status
        )

    def test_dry_runs_are_validated_too(self):
        ns = self.namespace()
        thing = sharding_config(ns, selector={})
        self.refused(thing, "spec.selector", dry_run=True)
        self.taken(sharding_config(ns), dry_run=True)
        path = f"{API}/namespaces/{ns}/shardingconfigs/shard-a"
        self.assertEqual(404, self.cluster.fetch(path).status)

    # ---- pods ----

    def test_a_pod_of_a_shard_gets_the_sidecars(self):
        ns = self.namespace()
        self.create(sharding_config(ns))
        thing = harness.wait_for(lambda: self.try_pod(operator(ns)), "the shard is known")
        spec = thing["spec"]
        names = [c["name"] for c in spec["containers"] + spec["initContainers"]]
        self.assertIn("cmesh-localproxy", names)
        self.assertIn("cmesh-rulesync", names)
        images = {c["image"] for c in spec["initContainers"]}
        self.assertEqual({"cmesh.test/sidecars:1"}, images)
        self.assertEqual(
            "shard-a", thing["metadata"]["annotations"][GROUP + "/sharding-config-injected"]
        )
        self.assertEqual("shard-a", thing["metadata"]["labels"][GROUP + "/sharding-config-injected"])
        self.assertEqual(control_labels(ns), given_control_labels(thing))

    def test_a_pod_that_does_not_ask_is_left_alone(self):
        ns = self.namespace()
        thing = self.create(pod(ns, app="operator"))
        self.assertEqual(["operator"], [c["name"] for c in thing["spec"]["containers"]])
        self.assertNotIn("initContainers", thing["spec"])

    @unittest.skipUnless(harness.modern(), "pods have resources as a whole from 1.32 on")
    def test_resources_of_a_pod_as_a_whole(self):
        ns = self.namespace()
        self.create(sharding_config(ns))
        thing = operator(ns)
        thing["spec"]["resources"] = {"requests": {"memory": "64Mi"}, "limits": {"memory": "100Mi"}}
        made = harness.wait_for(lambda: self.try_pod(thing), "the shard is known")["spec"]["resources"]
        self.assertEqual({"memory": "112Mi"}, made["requests"])
        self.assertEqual({"memory": "420Mi"}, made["limits"])

    def test_what_is_misspelt_on_a_pod_is_a_warning(self):
        ns = self.namespace()
        for name, value, words in (
            ("enable-proxy", "True", '"True" is not "true": this pod gets no sidecars'),
            ("enable-prxy", "true", f"is {GROUP}/enable-proxy meant?"),
        ):
            thing = pod(ns, "asks-for-none-" + name, app="operator")
            thing["metadata"]["labels"][f"{GROUP}/{name}"] = value
            err = self.taken(thing)
            if self.warns:
                self.assertIn(words, err)

        wrong_place = pod(ns, "asks-by-annotation", app="operator")
        wrong_place["metadata"]["annotations"] = {GROUP + "/enable-proxy": "true"}
        err = self.taken(wrong_place)
        if self.warns:
            self.assertIn("has no effect, since it is a label", err)

        self.create(sharding_config(ns))
        asks = operator(ns, "asks")
        asks["metadata"]["annotations"] = {GROUP + "/keep-serviceaccount": "true"}
        harness.wait_for(lambda: not self.is_refused(asks), "the shard is known")
        err = self.taken(asks)
        if self.warns:
            self.assertIn(f"is {GROUP}/keep-service-account meant?", err)

    def test_what_is_misspelt_in_a_template_is_a_warning(self):
        """People make Deployments and StatefulSets: nobody sees what their controllers are told."""
        ns = self.namespace()
        asks = (f"{GROUP}/enable-proxy", "true")
        for kind, name, labels, annotations, words in (
            ("Deployment", "a", (f"{GROUP}/enable-proxy", "True"), None, 'labels[{}]: "True" is not'),
            ("StatefulSet", "b", asks, (f"{GROUP}/keep-serviceaccount", "true"), "annotations[{}]"),
            ("Deployment", "c", asks, None, None),
        ):
            made = pod(ns, "x", app="operator")
            metadata = {"labels": {**made["metadata"]["labels"], labels[0]: labels[1]}}
            metadata["annotations"] = dict([annotations] if annotations else [])
            spec = {"replicas": 0, "selector": {"matchLabels": {"app": "operator"}}}
            spec["template"] = {"metadata": metadata, "spec": made["spec"]}
            thing = {"apiVersion": "apps/v1", "kind": kind, "spec": spec}
            thing["metadata"] = {"name": name, "namespace": ns}
            said = self.taken(thing)
            if self.warns and words is not None:
                key = (annotations or labels)[0]
                self.assertIn("spec.template.metadata." + words.format(key), said)
            else:
                self.assertNotIn("spec.template", said)

    def test_a_pod_of_no_shard_is_refused(self):
        ns = self.namespace()
        self.refused(operator(ns), "no ShardingConfig in namespace", ns, "enable-proxy")
        self.assertEqual(404, self.cluster.fetch(f"/api/v1/namespaces/{ns}/pods/operator-0").status)

    # ---- ShardingConfigs ----

    def test_a_wrong_config_is_refused_with_the_field(self):
        ns = self.namespace()
        limits = [{"relateResources": [{"apiGroups": [""], "resources": ["pods"]}], "selector": {}}]
        cases = (
            (sharding_config(ns, selector={}), "spec.selector"),
            (sharding_config(ns, limits=limits), "spec.limits[0].selector"),
            (sharding_config(ns, selector={"matchLabels": {"a b": "c"}}), "spec.selector"),
        )
        for thing, field in cases:
            with self.subTest(field=field):
                self.refused(thing, "denied the request", field)

    def test_what_is_not_served_is_a_warning(self):
        """It may be defined in a moment."""
        ns = self.namespace()
        gadgets = [
            {
                "relateResources": [{"apiGroups": ["cmesh.test"], "resources": ["gadgets"]}],
                "selector": {"matchLabels": {"a": "b"}},
            }
        ]
        err = self.taken(sharding_config(ns, limits=gadgets))
        if self.warns:
            self.assertIn("spec.limits[0].relateResources[0].apiGroups[0]", err)
            self.assertIn("the API server serves no such group", err)

    def test_what_never_gets_labels_is_a_warning(self):
        """Leases are in no --sharding-resources, custom definitions are not namespaced."""
        ns = self.namespace()
        entries = [
            {"apiGroups": [""], "resources": ["configmaps"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]},
            {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]},
        ]
        selector = {"matchLabels": {harness.NAMESPACE_LABEL: ns}}
        for count, names in ((1, None), (2, "none: leases.coordination.k8s.io (not namespaced"),
                             (3, "none: customresourcedefinitions.apiextensions.k8s.io, leases.")):  # fmt: skip
            with self.subTest(count=count):
                limit = {"relateResources": entries[:count], "selector": selector}
                err = self.taken(sharding_config(ns, limits=[limit]))
                if self.warns and names:
                    self.assertIn(names, err)
                else:
                    self.assertNotIn("never labelled", err)

    def test_two_shards_with_the_same_pods_are_refused(self):
        ns = self.namespace()
        self.create(sharding_config(ns))
        harness.wait_for(
            lambda: self.is_refused(sharding_config(ns, "shard-b")),
            "the first shard is known",
        )
        self.refused(sharding_config(ns, "shard-b"), f"see kubectl -n {ns} get shardingconfigs")

    def test_a_config_where_no_pod_is_injected(self):
        """The webhook for pods looks away there, and its pods would see everything: it is said at
        once, and in the status."""
        ns = self.namespace({GROUP + "/webhooks": "disabled"})
        thing = sharding_config(ns)

        def warned(config):
            err = self.taken(config, dry_run=True)
            return f'pods in "{ns}" get no sidecars, and see everything' in err

        if self.warns:
            harness.wait_for(lambda: warned(thing), "the manager knows of the namespace")
        self.create(thing)
        self.create(operator(ns))
        path = f"{API}/namespaces/{ns}/shardingconfigs/shard-a"

        def told():
            status = self.cluster.json(path).get("status", {})
            enforced = [c for c in status.get("conditions", []) if c["type"] == "Enforced"]
            return enforced and "leaves this namespace out" in enforced[0]["message"] and (
                "which the webhook for pods leaves out" in status["pods"][0]["message"]
            )

        harness.wait_for(told, "the status says it")
        self.api.label(f"/api/v1/namespaces/{ns}", {GROUP + "/webhooks": None})
        if self.warns:
            harness.wait_for(lambda: not warned(thing), "the manager knows of the change")
        harness.wait_for(lambda: not told(), "the status says it no more")

    def test_a_good_config_changes_and_goes(self):
        ns = self.namespace()
        labels = {"app": "operator"}
        for labels in (labels, {"more": "x", **labels}):
            thing = sharding_config(ns, selector={"matchLabels": labels})
            err = self.taken(thing)
        if self.warns:
            self.assertIn("running pods stay in the shard", err)
        self.api.delete(f"{API}/namespaces/{ns}/shardingconfigs/shard-a")


    # ---- what is to be ignored ----

    def test_an_object_that_is_ignored(self):
        ns = self.namespace()
        ignored = {harness.IGNORE_LABEL: "true"}
        err = self.taken(config_map(ns, "ignored", ignored))
        if self.warns:
            self.assertIn("no shard whose limits ask for them sees it", err)
        path = f"/api/v1/namespaces/{ns}/configmaps/ignored"
        self.assertEqual({}, given_control_labels(self.cluster.json(path)))
        wrong = {**ignored, harness.NAMESPACE_LABEL: "other", CONTROL_LABEL: "true"}
        self.refused(config_map(ns, "wrong", wrong), "is not corrected because of")
        self.api.label(path, {harness.IGNORE_LABEL: None})
        self.assertEqual(control_labels(ns), given_control_labels(self.cluster.json(path)))

    def test_a_pod_that_is_ignored(self):
        """Whether or not a shard has it."""
        ns = self.namespace()
        thing = operator(ns)
        thing["metadata"]["labels"][harness.IGNORE_LABEL] = "true"
        err = self.taken(thing)
        if self.warns:
            self.assertIn("sees and changes the objects of all shards", err)
        made = self.cluster.json(f"/api/v1/namespaces/{ns}/pods/operator-0")
        self.assertEqual(["operator"], [c["name"] for c in made["spec"]["containers"]])
        self.assertNotIn("initContainers", made["spec"])

    def test_a_config_is_not_ignored(self):
        thing = sharding_config(self.namespace(), selector={})
        thing["metadata"]["labels"] = {harness.IGNORE_LABEL: "true"}
        self.refused(thing, "spec.selector")

    # ---- traffic policies ----

    def test_a_wrong_policy_is_refused_with_the_field(self):
        ns = self.namespace()
        rule = "spec.rateLimitings[0]"
        window = {"type": "SleepingWindow"}
        normal = {"triggerPolicy": "Normal", "recoverPolicy": window}
        zone = {"timeZone": "Europe/Nowhere", "daysOfWeek": [1]}
        for thing, field in (
            (circuit_breaker(ns, **normal), f"{rule}.recoverPolicy.sleepingWindowSize"),
            (circuit_breaker(ns, bucket=None), f"{rule}.bucket"),
            (circuit_breaker(ns, tigger="x"), f"{rule}.tigger"),
            (fault_injection(ns, delay=None), "spec.httpFault[0]"),
            (fault_injection(ns, effectiveTime=zone), "spec.httpFault[0].effectiveTime.timeZone"),
        ):
            with self.subTest(field=field):
                self.refused(thing, "denied the request", field)

    def test_a_good_policy_changes_and_goes(self):
        ns = self.namespace()
        before = self.manager.requests("trafficpolicies", "allowed")
        err = self.taken(circuit_breaker(ns, triggerPolicy="Normal"))
        self.taken(fault_injection(ns, effectiveTime={"timeZone": "Asia/Tokyo", "daysOfWeek": [1]}))
        if self.warns:
            self.assertIn("spec.rateLimitings[0].recoverPolicy: is not set", err)
            self.assertIn(f'no ShardingConfig in namespace "{ns}" has pods', err)
        self.create(sharding_config(ns))
        again = circuit_breaker(ns, maxInFlight=3)
        harness.wait_for(
            lambda: "no ShardingConfig" not in self.taken(again, dry_run=True),
            "the manager knows the shard",
        )
        self.taken(again)
        self.assertGreater(self.manager.requests("trafficpolicies", "allowed"), before + 2)
        self.api.delete(f"{API}/namespaces/{ns}/circuitbreakers/guard")
        self.api.delete(f"{API}/namespaces/{ns}/faultinjections/slow")

    def test_a_wrong_policy_that_is_there_can_be_switched_off(self):
        """It came past the webhook; so it is released, too, when it has finalizers."""
        ns = harness.make_namespace(self.cluster, "cmesh-before", self.addCleanup)
        thing = circuit_breaker(ns, bucket=None)
        thing["metadata"]["finalizers"] = ["finalizer.example.com/x"]
        self.create(thing)
        self.api.label(f"/api/v1/namespaces/{ns}", {OURS: self.home})
        other = circuit_breaker(ns, "other", bucket=None)
        harness.wait_for(lambda: self.is_refused(other), "the webhooks look at the namespace")
        path = f"{API}/namespaces/{ns}/circuitbreakers/guard"
        self.api.label(path, {"circuitbreaker.ctrlmesh.kusionstack.io/disable": "yes"})
        status = {"status": {"observedGeneration": 7}}
        self.cluster.json(path + "/status", "PATCH", status, "application/merge-patch+json")
        self.assertEqual(7, self.cluster.json(path)["status"]["observedGeneration"])
        code, _, err = self.kubectl.run(
            *("patch", "-n", ns, "circuitbreaker", "guard", "--type=merge"),
            *("-p", '{"spec": {"rateLimitings": [{"name": "x"}]}}'),
        )
        self.assertEqual(1, code, err)
        self.cluster.fetch(path, "DELETE")
        self.assertIn("deletionTimestamp", self.cluster.json(path)["metadata"])
        change = {"metadata": {"finalizers": None}}
        self.cluster.json(path, "PATCH", change, "application/merge-patch+json")
        self.assertEqual(404, self.cluster.fetch(path).status)


class V1Test(Rules, WebhookCase):
    versions = ["v1"]
    warns = True


class V1Beta1Test(Rules, WebhookCase):
    versions = ["v1beta1"]
    warns = False


class TakeTest(WebhookCase):
    manager_args = ("--label-foreign=take", "--label-qps=0")

    def test_foreign_labels_are_corrected(self):
        ns = self.namespace({harness.HASH_LABEL: "wrong", CONTROL_LABEL: "false"})
        self.assertEqual(control_labels(ns), given_control_labels(self.get_namespace(ns)))
        thing = self.create(config_map(ns, labels={harness.NAMESPACE_LABEL: "nobody"}))
        self.assertEqual(control_labels(ns), given_control_labels(thing))


class LeaveTest(WebhookCase):
    manager_args = ("--label-foreign=leave",)
    versions = ["v1"]

    def test_foreign_labels_stay(self):
        name = self.new_namespace_name()
        self.addCleanup(self.cluster.fetch, f"/api/v1/namespaces/{name}", "DELETE")
        wrong = str((int(hash_of(name)) + 1) % 32)
        thing = self.namespace_object(name, {harness.HASH_LABEL: wrong})
        err = self.taken(thing)
        labels = given_control_labels(self.get_namespace(name))
        self.assertEqual({harness.HASH_LABEL: wrong}, labels)
        self.assertIn("the shard that this belongs to may not see it", err)


@harness.needs("quotas")
class QuotaTest(WebhookCase):
    """A namespace where each container must have limits."""

    manager_args = ("--proxy-cpu-limit=1", "--rulesync-cpu-limit=100m", "--sidecar-user=0",
                    "--sidecar-pull-secret=regcred", "--sidecar-pull-secret=other")

    def operator(self, ns):
        thing = operator(ns)
        thing["spec"]["imagePullSecrets"] = [{"name": "other"}]
        thing["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "64Mi"}}
        return thing

    def test_an_injected_pod_fits_into_it(self):
        ns = self.namespace()
        hard = {"limits.cpu": "4", "limits.memory": "2Gi"}
        quota = {"metadata": {"name": "limits"}, "spec": {"hard": hard}}
        path = f"/api/v1/namespaces/{ns}/resourcequotas"
        self.cluster.json(path, "POST", quota)
        harness.wait_for(
            lambda: self.cluster.json(f"{path}/limits").get("status", {}).get("used"),
            "the quota is counted",
        )
        bare = pod(ns, "bare")
        self.refused(bare, "must specify limits")
        self.create(sharding_config(ns))
        thing = harness.wait_for(
            lambda: self.try_pod(self.operator(ns)), "the shard is known, and the pod fits"
        )
        spec = thing["spec"]
        for container in spec["containers"] + spec["initContainers"]:
            self.assertEqual({"cpu", "memory"}, set(container["resources"]["limits"]))
            self.assertNotIn("runAsUser", container.get("securityContext", {}))
        self.assertEqual(["other", "regcred"], [s["name"] for s in spec["imagePullSecrets"]])


class VariablesTest(WebhookCase):
    """Those of the sidecars. What the operator is called at the API server is said by its shard, or
    by the pod."""

    manager_args = ("--sidecar-env=NO_PROXY=a,b", "--sidecar-env=CMESH_READ_FENCE=audit")
    versions = ["v1"]

    def agent(self, thing):
        """What localproxy is told in a pod that would be created; None: the shard is not known."""
        answer = self.api.try_create(thing, dry_run=True)
        if answer.status != 201:
            return None
        spec = answer.thing["spec"]
        containers = {c["name"]: c for c in spec["containers"] + spec["initContainers"]}
        env = {e["name"]: e.get("value") for e in containers["cmesh-localproxy"]["env"]}
        self.assertEqual("audit", env["CMESH_READ_FENCE"])
        self.assertEqual("a,b", env["NO_PROXY"])
        self.assertEqual([{"name": "NO_PROXY", "value": "a,b"}], containers["cmesh-rulesync"]["env"])
        return env.get("CMESH_USER_AGENT", "")

    def test_they_are_given_to_new_pods(self):
        ns = self.namespace()
        config = sharding_config(ns, controller={"userAgentOrPrefix": "shard-a/"})
        self.create(config)
        thing = operator(ns)
        harness.wait_for(lambda: self.agent(thing) == "shard-a/", "the shard is known")
        config["spec"]["controller"]["userAgentOrPrefix"] = "other"
        self.assertIn("running pods keep", self.taken(config))
        harness.wait_for(lambda: self.agent(thing) == "other", "the change is known")
        thing["metadata"]["annotations"] = {GROUP + "/user-agent": "mine/"}
        self.assertEqual("mine/", self.agent(thing))
        thing["metadata"]["annotations"] = {GROUP + "/user-agent": " bad"}
        self.refused(thing, "user-agent]: Invalid value: must not begin or end with a blank")
        del thing["metadata"]["annotations"]
        config["spec"]["controller"]["userAgentOrPrefix"] = ""
        self.taken(config)
        harness.wait_for(lambda: self.agent(thing) == "", "there is none any more")


class OwnWebhooksTest(WebhookCase):
    """Operators with webhooks of their own: a Service can lead to the pods of one shard, and goes on
    to lead to all of them by the name that the operator gave its port."""

    versions = ["v1"]
    PORT = 9443

    def operator(self, ns, name, shard, **spec):
        thing = operator(ns, name)
        thing["metadata"]["labels"]["shard"] = shard
        thing["spec"].update(spec)
        thing["spec"]["containers"][0]["ports"] = [{"name": "hooks", "containerPort": self.PORT}]
        return thing

    def shard(self, ns, name, **webhook):
        webhook = {"port": self.PORT, **webhook}
        selector = {"matchLabels": {"shard": name}}
        self.create(sharding_config(ns, name, selector=selector, webhook=webhook))

    @staticmethod
    def port_name(ns, shard):
        return "wh-" + hashlib.sha256(f"{ns}/{shard}".encode()).hexdigest()[:8]

    def pod(self, thing):
        return harness.wait_for(lambda: self.try_pod(thing), "the shard is known")

    def ports(self, thing):
        """Of the operator's container, without what the API server fills in."""
        made = {c["name"]: c for c in thing["spec"]["containers"]}["operator"]["ports"]
        return {port["name"]: {k: v for k, v in port.items() if k != "name"} for port in made}

    def make_ready(self, ns, name, address):
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        path = f"/api/v1/namespaces/{ns}/pods/{name}"
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "somewhere"}}
        self.cluster.json(path + "/binding", "POST", binding)
        self.api.merge(path + "/status", {"status": status})

    def test_the_port_has_a_second_name(self):
        ns = self.namespace()
        self.shard(ns, "shard-a")
        ports = self.ports(self.pod(self.operator(ns, "a-0", "shard-a")))
        self.assertEqual(["hooks", self.port_name(ns, "shard-a")], list(ports))
        for port in ports.values():
            self.assertEqual(self.PORT, port["containerPort"])
        bare = self.operator(ns, "a-1", "shard-a")
        del bare["spec"]["containers"][0]["ports"]
        self.assertEqual([self.port_name(ns, "shard-a")], list(self.ports(self.pod(bare))))

    def test_on_the_network_of_the_host(self):
        """There the API server refuses a pod that has a port twice for the same address."""
        ns = self.namespace()
        self.shard(ns, "shard-a")
        thing = self.operator(ns, "a-0", "shard-a", hostNetwork=True)
        ports = self.ports(self.pod(thing))
        self.assertEqual(["hooks", self.port_name(ns, "shard-a")], list(ports))
        added = ports[self.port_name(ns, "shard-a")]
        self.assertEqual((self.PORT, "0.0.0.0"), (added["hostPort"], added["hostIP"]))

    def test_a_name_of_another_shard(self):
        """A copy of a pod must not answer for the shard that it was copied from."""
        ns = self.namespace()
        self.shard(ns, "shard-a")
        self.pod(self.operator(ns, "a-0", "shard-a"))
        thing = self.operator(ns, "a-1", "shard-a")
        thing["spec"]["containers"][0]["ports"][0]["name"] = self.port_name(ns, "shard-b")
        self.refused(thing, "leads reviews for webhooks of another shard to this pod")

    @harness.needs("controllers of Services")
    def test_a_service_leads_to_one_shard(self):
        ns = self.namespace()
        for number, shard in enumerate(("shard-a", "shard-b")):
            self.shard(ns, shard)
            self.pod(self.operator(ns, shard + "-0", shard))
            self.make_ready(ns, shard + "-0", f"10.7.0.{number + 1}")
        names = {"all": "hooks", "a": self.port_name(ns, "shard-a"), "b": self.port_name(ns, "shard-b")}
        ports = [
            {"name": name, "port": 443 + i, "targetPort": target}
            for i, (name, target) in enumerate(names.items())
        ]
        spec = {"selector": {"app": "operator"}, "ports": ports}
        service = {"apiVersion": "v1", "kind": "Service", "spec": spec}
        self.create({**service, "metadata": {"name": "hooks", "namespace": ns}})

        def leads():
            found = {}
            path = f"/api/v1/namespaces/{ns}/endpoints/hooks"
            answer = self.cluster.fetch(path)
            subsets = json.loads(answer.body).get("subsets", []) if answer.status == 200 else []
            for subset in subsets:
                for port in subset["ports"]:
                    self.assertEqual(self.PORT, port["port"])
                    pods = {address["targetRef"]["name"] for address in subset.get("addresses", [])}
                    found.setdefault(port["name"], set()).update(pods)
            return found

        want = {"all": {"shard-a-0", "shard-b-0"}, "a": {"shard-a-0"}, "b": {"shard-b-0"}}
        harness.wait_for(lambda: leads() == want, "each port leads to its pods")


class NatTest(WebhookCase):
    """Pods whose connections the kernel is to redirect, in namespaces that let it and that do not."""

    manager_args = ("--nat-image=cmesh.test/nat:1",)
    LEVEL = "pod-security.kubernetes.io/enforce"

    def operator(self, ns):
        """As "restricted" demands it, but for what the label asks for."""
        thing = operator(ns)
        thing["metadata"]["labels"][f"{GROUP}/enable-iptables"] = "true"
        spec = thing["spec"]
        spec["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        for container in spec["containers"]:
            container["securityContext"] = {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
        return thing

    def test_pod_security_is_minded(self):
        if harness.modern():
            harness.enforce_pod_security(self.cluster, self.addCleanup)
        ns = self.namespace({self.LEVEL: "privileged"})
        self.create(sharding_config(ns))
        made = harness.wait_for(lambda: self.try_pod(self.operator(ns)), "the shard is known")
        images = {c["name"]: c["image"] for c in made["spec"]["initContainers"]}
        self.assertEqual("cmesh.test/nat:1", images["cmesh-nat"])
        path = f"/api/v1/namespaces/{ns}"
        for level in ("baseline", "restricted"):
            patch = {"metadata": {"labels": {self.LEVEL: level}}}
            self.cluster.json(path, "PATCH", patch, "application/merge-patch+json")
            thing = self.operator(ns)
            thing["metadata"]["name"] = level
            harness.wait_for(lambda t=thing: self.is_refused(t), "the manager knows the label")
            said = self.refused(thing, "enable-iptables", self.LEVEL, "NET_ADMIN")
            self.assertIn("led by its service account's folder", said)
            del thing["metadata"]["labels"][f"{GROUP}/enable-iptables"]
            self.taken(thing, dry_run=True)
        patch = {"metadata": {"labels": {self.LEVEL: None}}}
        self.cluster.json(path, "PATCH", patch, "application/merge-patch+json")
        thing = self.operator(ns)
        thing["metadata"]["name"] = "again"
        harness.wait_for(lambda: not self.is_refused(thing), "the manager knows that it is gone")


class AwayTest(WebhookCase):
    """The manager is away."""

    def setUp(self):
        super().setUp()
        self.ns = self.namespace()
        self.create(sharding_config(self.ns))
        self.manager.stop()

    def tearDown(self):
        """Another one at the same address, as a Service has one."""
        type(self).manager = self.start_manager("again", self.addClassCleanup, self.webhook)
        self.wait_working()
        super().tearDown()

    def test_only_what_must_not_pass_is_refused_and_stragglers_are_labelled(self):
        self.refused(operator(self.ns), "failed calling webhook", "pods.webhook.cmesh")
        self.refused(sharding_config(self.ns, "b"), "failed calling webhook", "shardingconfigs")
        plain = self.create(pod(self.ns, "plain"))
        self.assertEqual({}, given_control_labels(plain))
        thing = self.create(config_map(self.ns))
        self.assertEqual({}, given_control_labels(thing))
        name = self.namespace()
        self.assertEqual({}, given_control_labels(self.get_namespace(name)))
        self.api.delete(f"{API}/namespaces/{self.ns}/shardingconfigs/shard-a")
        again = self.start_manager("back", self.addCleanup)
        for path, ns in (
            (f"/api/v1/namespaces/{self.ns}/configmaps/thing", self.ns),
            (f"/api/v1/namespaces/{self.ns}/pods/plain", self.ns),
            (f"/api/v1/namespaces/{name}", name),
        ):
            harness.wait_for(
                lambda path=path, ns=ns: given_control_labels(self.cluster.json(path))
                == control_labels(ns),
                f"{path} is labelled",
            )
        again.stop()


class CutTest(WebhookCase):
    """Requests that are not answered in time, and connections that end at any moment."""

    def test_the_api_server_gives_up_and_comes_back(self):
        ns = self.namespace()
        self.manager.signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            maps = f"/api/v1/namespaces/{ns}/configmaps"
            thing = self.cluster.json(maps, "POST", config_map(ns, "late"))
            took = time.monotonic() - begun
        finally:
            self.manager.signal(signal.SIGCONT)
        self.assertEqual({}, given_control_labels(thing))
        self.assertTrue(2.5 < took < 10, took)  # timeoutSeconds 3
        harness.wait_for(
            lambda: given_control_labels(self.create(config_map(ns, f"soon-{time.time_ns()}")))
            != {},
            "the webhook answers again",
        )

    def test_connections_that_are_cut_harm_nobody(self):
        body = json.dumps({"kind": "AdmissionReview", "x": "y" * 5000}).encode()
        head = (
            "POST /mutate/resources HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        whole = head + body
        for length in (0, 1, 30, len(head) - 1, len(head), len(head) + 1, len(whole) - 1):
            for linger in (False, True):
                with wire.Connection(self.webhook, tls=self.tls()) as connection:
                    connection.send(whole[:length])
                    if linger:
                        time.sleep(0.02)
        host, _, port = self.webhook.rpartition(":")
        for data in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection((host, int(port)), 5) as plain:
                plain.sendall(data)
        ns = self.namespace()
        self.assertEqual(control_labels(ns), given_control_labels(self.create(config_map(ns))))
        harness.wait_for(
            lambda: self.manager.metrics()["cmesh_webhook_connections"] <= self.connected(port),
            "none are left",
        )

    @staticmethod
    def connected(port):
        """How many connections to the port both ends hold: the API server keeps some."""
        with open("/proc/net/tcp", encoding="ascii") as f:
            rows = [line.split() for line in f]
        return sum(row[1].endswith(f":{int(port):04X}") and row[3] == "01" for row in rows)


class AnswerTest(WebhookCase):
    """What a client is told that asks for something else."""

    def assert_failure(self, answer, code, *mentions):
        return self.assert_status_error(answer, code, mentions=mentions)

    def test_wrong_questions(self):
        plain = [("Content-Type", "text/plain")]
        path = "/mutate/resources"
        self.assert_failure(self.post("/", b"{}"), 404, "no webhook at this path")
        self.assert_failure(self.post("/mutate/pods/x", b"{}"), 404)
        answer = self.post(path, None, "GET", ())
        self.assert_failure(answer, 405, "POST")
        self.assertEqual("POST", answer.get("Allow"))
        self.assert_failure(self.post(path, b"{}", headers=plain), 415, "application/json")
        self.assert_failure(self.post(path, b"{}", headers=()), 415, "application/json")
        self.assert_failure(self.post(path, b""), 400)
        self.assert_failure(self.post(path, b"garbage"), 400, "AdmissionReview")
        self.assert_failure(self.post(path, b"[]"), 400)
        self.assert_failure(self.post(path, b"{}"), 400, "kind")
        self.assert_failure(self.post(path, b"\xff\xfe"), 400)
        other = json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v2"})
        self.assert_failure(self.post(path, other.encode()), 400, "admission.k8s.io/v2")
        self.assertGreaterEqual(self.manager.requests("resources", "bad_request"), 9)

    def test_a_body_that_is_too_large(self):
        headers = [("Content-Type", "application/json"), ("Content-Length", str(1 << 30))]
        with wire.Connection(self.webhook, tls=self.tls()) as connection:
            connection.send_head("POST", "/mutate/pods", headers)
            answer = connection.response("POST")
        self.assert_failure(answer, 413, "too large")

    def test_bodies_that_are_too_many(self):
        """Together they would take too much memory: the one that is under way longest has to go."""
        size = 8 * 1024 * 1024
        headers = [("Content-Type", "application/json"), ("Content-Length", str(size))]
        context = self.tls()
        connections = []
        try:
            for _ in range(5):
                connection = wire.Connection(self.webhook, tls=context)
                connections.append(connection)
                connection.send_head("POST", "/mutate/pods", headers)
                connection.send(b" " * (size - 1))
            answer = connections[0].response("POST")
            self.assert_failure(answer, 503, "too many")
            self.assertEqual("1", answer.get("Retry-After"))
        finally:
            for connection in connections:
                connection.close()
        harness.wait_for(
            lambda: self.post("/mutate/pods", b"garbage").status == 400, "there is room again"
        )

    def test_parameters_are_no_matter(self):
        """The API server adds ?timeout=."""
        self.assert_failure(self.post("/mutate/pods?timeout=10s", b"{}"), 400, "kind")

    def test_metrics_and_status(self):
        ns = self.namespace()
        before = self.manager.requests("resources", "patched")
        self.create(config_map(ns))
        self.assertGreater(self.manager.requests("resources", "patched"), before)
        metrics = self.manager.metrics()
        count = metrics['cmesh_webhook_duration_seconds_count{webhook="resources"}']
        last = metrics['cmesh_webhook_duration_seconds_bucket{webhook="resources",le="+Inf"}']
        self.assertEqual(count, last)
        expiry = metrics["cmesh_webhook_certificate_expiry_timestamp_seconds"]
        self.assertGreater(expiry, time.time())
        self.assertEqual(2, metrics["cmesh_webhook_configurations"])
        self.assertEqual(0, metrics["cmesh_webhook_configurations_wrong"])
        status = self.manager.status()
        self.assertTrue(status["ready"])
        self.assertEqual("ok", status["message"])
        self.assertNotIn("error", status)


class ConfigurationTest(WebhookCase):
    """caBundle and rules stay right, whoever changes them."""

    def path(self, kind="mutatingwebhookconfigurations"):
        return f"{CONFIGURATIONS}/{kind}/{self.configuration_name()}"

    def patch(self, operations, kind="mutatingwebhookconfigurations"):
        content_type = "application/json-patch+json"
        return self.cluster.json(self.path(kind), "PATCH", operations, content_type)

    def test_what_is_overwritten_comes_back(self):
        good = self.configuration()
        self.patch(
            [
                {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"},
                {"op": "replace", "path": "/webhooks/2/rules", "value": []},
                {"op": "replace", "path": "/webhooks/2/timeoutSeconds", "value": 7},
            ]
        )
        harness.wait_for(
            lambda: self.configuration()["webhooks"][0]["clientConfig"].get("caBundle")
            == good["webhooks"][0]["clientConfig"]["caBundle"]
            and self.configuration()["webhooks"][2]["rules"] == good["webhooks"][2]["rules"],
            "both are back",
        )
        self.assertEqual(7, self.configuration()["webhooks"][2]["timeoutSeconds"])
        self.assertEqual(good["webhooks"][1], self.configuration()["webhooks"][1])

    def test_rules_are_those_of_the_sharding_resources(self):
        rules = self.configuration()["webhooks"][2]["rules"]
        core = [r for r in rules if r["apiGroups"] == [""]]
        self.assertEqual(1, len(core))
        self.assertEqual(["CREATE", "UPDATE"], core[0]["operations"])
        self.assertEqual("Namespaced", core[0]["scope"])
        self.assertIn("configmaps", core[0]["resources"])
        self.assertNotIn("events", core[0]["resources"])
        self.assertTrue(all("/" not in name for r in rules for name in r["resources"]))

    def test_what_leads_elsewhere_is_left_alone(self):
        """Another installation in the cluster has the same label."""
        service = {"name": "cmesh-webhook", "namespace": "elsewhere", "path": "/mutate/pods"}
        thing = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": self.home + "-elsewhere",
                "labels": {"app.kubernetes.io/part-of": "cmesh"},
            },
            "webhooks": [
                {
                    "name": "pods.cmesh.test",
                    "clientConfig": {"service": service},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "rules": [],
                }
            ],
        }
        created = self.create_configuration(thing)
        harness.wait_for(
            lambda: self.manager.status()["configurations"] == 3, "the manager has seen it"
        )
        self.patch([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}])
        harness.wait_for(
            lambda: "caBundle" in self.configuration()["webhooks"][0]["clientConfig"],
            "the manager has written ours",
        )
        name = thing["metadata"]["name"]
        path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/{name}"
        now = self.cluster.json(path)
        self.assertEqual(
            created["metadata"]["resourceVersion"], now["metadata"]["resourceVersion"]
        )

    def test_two_managers_write_what_is_wrong_once(self):
        """Both may write, and neither undoes what the other did."""
        second = self.start_manager("second", self.addCleanup)
        second.wait_ready()
        before = self.configuration()
        for _ in range(20):
            self.patch([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}])
            harness.wait_for(
                lambda: self.configuration()["webhooks"] == before["webhooks"], "it is back"
            )
        settled = self.configuration()["metadata"]["resourceVersion"]
        time.sleep(1)
        now = self.configuration()["metadata"]["resourceVersion"]
        self.assertEqual(settled, now)
        for manager in (self.manager, second):
            self.assertEqual(0, manager.metrics()["cmesh_webhook_configuration_failures_total"])
        second.stop()


class LeaderTest(WebhookCase):
    """Only the leader writes configurations; another one takes over."""

    manager_args = ("--leader-elect", "--lease-duration", "10")  # not lost on a busy machine

    def overwrite(self):
        path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/{self.configuration_name()}"
        patch = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        self.cluster.json(path, "PATCH", patch, "application/json-patch+json")

    def is_back(self):
        return "caBundle" in self.configuration()["webhooks"][0]["clientConfig"]

    def define(self, group):
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True}
        version["schema"] = {"openAPIV3Schema": schema}
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.addCleanup(self.cluster.fetch, f"{path}/widgets.{group}", "DELETE")
        thing = {"metadata": {"name": f"widgets.{group}"}, "spec": spec}
        self.cluster.json(path, "POST", thing)

    def ask(self, manager, group):
        """What its webhook says of a ShardingConfig that limits widgets of the group."""
        entry = {"apiGroups": [group], "resources": ["widgets"]}
        selector = {"matchLabels": {"a": "b"}}
        thing = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "ShardingConfig",
            "metadata": {"name": "widgets", "namespace": self.home},
            "spec": {
                "selector": selector,
                "limits": [{"relateResources": [entry], "selector": selector}],
            },
        }
        request = {"uid": "1", "operation": "CREATE", "namespace": self.home, "object": thing}
        request["resource"] = {"group": GROUP, "version": "v1alpha1", "resource": "shardingconfigs"}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        body = json.dumps({**review, "request": request}).encode()
        head = [("Content-Type", "application/json")]
        answer = wire.fetch(
            manager.webhook, "/validate/shardingconfigs", "POST", head, body, tls=self.tls()
        )
        return json.loads(answer.body)["response"]

    def test_each_replica_takes_what_was_defined_just_now(self):
        second = self.start_manager("widgets", self.addCleanup)
        second.wait_ready()
        group = f"{self.home}.example.com"
        self.define(group)
        for manager in (self.manager, second):
            self.assertTrue(self.ask(manager, group)["allowed"])
        for manager in (self.manager, second):
            harness.wait_for(
                lambda m=manager: "is not found" not in str(self.ask(m, group)),
                "it knows the resource",
            )
        second.stop()

    def test_the_next_leader_goes_on(self):
        second = self.start_manager("second", self.addCleanup)
        second.wait_ready()
        self.overwrite()
        harness.wait_for(self.is_back, "it is back")
        writes = "cmesh_webhook_configuration_writes_total"
        self.assertEqual(0, second.metrics()[writes])
        self.manager.kill()
        self.overwrite()
        harness.wait_for(self.is_back, "it is back")
        harness.wait_for(lambda: second.metrics()[writes], "it has been told that it did")
        self.assertEqual(1, second.metrics()[writes])
        second.stop()


class SecretTest(WebhookCase):
    def secret_path(self):
        return f"/api/v1/namespaces/{self.home}/secrets/{SECRET}"

    def secret(self):
        return self.cluster.json(self.secret_path())

    def test_replicas_that_start_together_share_one_secret(self):
        for round_number in range(5):
            self.cluster.fetch(self.secret_path(), "DELETE")
            home = harness.make_namespace(self.cluster, "cmesh-two", self.addCleanup)
            args = ["--namespace", home, "--webhook-service", f"two-{round_number}"]
            pair = [
                self.start_manager(f"{home}-{i}", self.addCleanup, args=args) for i in range(2)
            ]
            for manager in pair:
                manager.wait_ready()
            secret = self.cluster.json(f"/api/v1/namespaces/{home}/secrets/{SECRET}")
            shown = set()
            context = self.tls(base64.b64decode(secret["data"]["ca.crt"]).decode())
            for manager in pair:
                with wire.Connection(manager.webhook, tls=context) as connection:
                    shown.add(connection.sock.getpeercert(True))
            self.assertEqual(1, len(shown))
            writes = sum(m.metrics()["cmesh_webhook_secret_writes_total"] for m in pair)
            self.assertEqual(1, writes)
            for manager in pair:
                manager.stop()

    def test_damage_is_repaired_and_nobody_notices(self):
        ns = self.namespace()
        good = self.secret()["data"]
        garbage = base64.b64encode(b"garbage").decode()
        for key in ("tls.crt", "tls.key", "ca.crt"):
            with self.subTest(key=key):
                self.cluster.json(
                    self.secret_path(),
                    "PATCH",
                    {"data": {key: garbage}},
                    "application/merge-patch+json",
                )
                harness.wait_for(
                    lambda key=key: self.secret()["data"][key] == good[key], "it is back"
                )
                thing = self.create(config_map(ns, key.replace(".", "-")))
                self.assertEqual(control_labels(ns), given_control_labels(thing))
        self.assertIn("overwritten with invalid data", self.manager.log())

    def test_a_deleted_secret_comes_back(self):
        ns = self.namespace()
        good = self.secret()["data"]
        self.kubectl("delete", "secret", "-n", self.home, SECRET)
        harness.wait_for(
            lambda: self.cluster.fetch(self.secret_path()).status == 200, "it is back"
        )
        data = self.secret()["data"]
        self.assertEqual(good["tls.crt"], data["tls.crt"])
        self.assertIn("next-ca.crt", data)
        self.assertEqual("kubernetes.io/tls", self.secret()["type"])
        self.assertEqual(control_labels(ns), given_control_labels(self.create(config_map(ns))))
        next_authority = base64.b64decode(data["next-ca.crt"]).decode()
        harness.wait_for(lambda: next_authority in self.bundle(), "it is published")

    def test_no_key_is_told(self):
        data = self.secret()["data"]
        told = self.manager.log() + json.dumps(self.manager.status())
        told += wire.fetch(self.manager.admin, "/metrics").body.decode()
        for key in ("tls.key", "ca.key"):
            secret = base64.b64decode(data[key]).decode()
            for line in secret.splitlines()[1:-1]:
                self.assertNotIn(line, told)


@harness.needs("addresses of Services")
class ServiceTest(WebhookCase):
    """As in a cluster: through a Service, by its name in the certificate."""

    @classmethod
    def configure(cls, address):
        port = int(address.rpartition(":")[2])
        service = {
            "metadata": {"name": "cmesh-webhook"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        cls.cluster.json(f"/api/v1/namespaces/{cls.home}/services", "POST", service)
        for thing in cls.skeletons():
            thing["metadata"]["name"] = cls.configuration_name()
            for webhook in thing["webhooks"]:
                webhook["clientConfig"]["service"].update(namespace=cls.home, port=port)
                selector = webhook.setdefault("namespaceSelector", {})
                selector.setdefault("matchExpressions", []).append(
                    {"key": "cmesh-e2e", "operator": "In", "values": [cls.home]}
                )
            cls.create_configuration(thing)
        cls.wait_working()

    def test_the_service_is_reached(self):
        ns = self.namespace()
        self.assertEqual(control_labels(ns), given_control_labels(self.create(config_map(ns))))
        self.refused(operator(ns), "no ShardingConfig in namespace")

    def test_the_manifest_is_taken_as_it_is(self):
        code, _, err = self.kubectl.run("apply", "--dry-run=server", "-f", WEBHOOKS)
        self.assertEqual(0, code, err)


if __name__ == "__main__":
    harness.main()
