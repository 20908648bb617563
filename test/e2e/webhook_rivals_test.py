# SPDX-License-Identifier: Apache-2.0
"""Routed webhooks beside other writers: those who keep certificates, operators that write their
configuration themselves, tools that replace ours, and managers of another release. Each is played as
its source says that it writes. By hand, as webhook_faults_test.
"""

import copy
import json
import os
import time
import unittest

import harness
import mesh
import webhook_pods
import webhook_routing_test as routing
from operator_test import report
from webhook_case import KINDS
from webhook_faults_test import Every, PairCase
from webhook_pods import NAMESPACE, Load

INJECT = "cert-manager.io/inject-ca-from"
CONTESTS = mesh.GROUP + "/route-contested"
RIVAL_ROUTE = "mesh.example.com/route"


class RivalCase(PairCase):
    def begin(self):
        self.original()
        self.wait_all()

    def update(self, kind, change, name=routing.ORIGINAL):
        """As a controller does: it reads, changes what it cares for, and writes all of it over the version
        that it has read; again on a conflict. Returns the conflicts."""
        for conflicts in range(20):
            thing = self.cluster.json(self.path_of(kind, name))
            before = copy.deepcopy(thing)
            change(thing)
            if thing == before:
                return conflicts
            answer = self.api.ask("PUT", self.path_of(kind, name), thing)
            if answer.status == 200:
                return conflicts
            self.assertEqual(409, answer.status, answer.said)
        raise AssertionError(f"{kind} changes all the time")

    def update_all(self, change):
        return sum(self.update(kind, change) for kind in KINDS)

    def check_reviewed(self, written, at_most=2):
        """Each was asked at least once; returns how often twice."""
        counts = {}
        for review in self.reviews():
            counts[review.key()] = counts.get(review.key(), 0) + 1
        asked = [counts.get((kind, "CREATE", "configmaps", w.namespace, w.name), 0)
                 for w in written if w.status == 201 for kind in ("validate", "default")]  # fmt: skip
        self.assertNotIn(0, asked)
        self.assertLessEqual(max(asked), at_most)
        return sum(count > 1 for count in asked)

    def unreviewed(self, written):
        found = {(review.webhook, review.namespace, review.name) for review in self.reviews()}
        return [w for w in written if w.status == 201 and any(
            (kind, w.namespace, w.name) not in found for kind in ("validate", "default"))]  # fmt: skip

    def wait_followed(self, field, value):
        """Until all entries have it; how long that took."""
        began = time.time()

        def followed():
            entries = [entry for kind in KINDS for entry in self.entries(kind)]
            return entries and all(field(entry) == value for entry in entries)

        harness.wait_for(followed, f"the entries have {str(value)[:50]}", interval=0.02)
        return time.time() - began

    def renew(self):
        """Another authority, which pods are trusted by, too, until they have its certificate."""
        self.certificates.renew(keep=True)
        return self.certificates.encoded()

    def wait_contested(self):
        for of in self.names:
            self.wait_condition(of, "WebhookRouted", "False", "Contested")

    def wait_no_entries(self):
        harness.wait_for(lambda: not any(map(self.entries, KINDS)), "the entries go")

    def relabel(self):
        self.opt_out()
        time.sleep(1)
        self.original()

    def empty(self):
        """As a tool that replaces what the manifests of the mesh have."""

        def change(thing):
            thing["metadata"].pop("annotations", None)
            thing.pop("webhooks", None)

        for kind in KINDS:
            self.update(kind, change, routing.ROUTES)

    def reset(self):
        """As an operator that has its own idea of namespaceSelector."""
        for kind in KINDS:
            webhooks = self.cluster.json(self.path_of(kind))["webhooks"]
            for webhook in webhooks:
                webhook["namespaceSelector"] = {}
            self.api.merge(self.path_of(kind), {"webhooks": webhooks})


class CertificatesTest(RivalCase):
    """Who writes caBundle."""

    @staticmethod
    def bundle_of(webhook):
        return webhook["clientConfig"]["caBundle"]

    def set_bundle(self, bundle):
        def change(thing):
            for webhook in thing["webhooks"]:
                webhook["clientConfig"]["caBundle"] = bundle

        return self.update_all(change)

    def test_cainjector(self):
        """It finds what to inject by an annotation of the original, which ours must not have: it would
        give all entries of all operators that bundle."""
        self.begin()
        for kind in KINDS:
            note = {"metadata": {"annotations": {INJECT: f"{NAMESPACE}/serving"}}}
            self.api.merge(self.path_of(kind), note)
        load = self.load()
        late = []
        for _ in range(5):
            bundle = self.renew()
            self.set_bundle(bundle)
            late.append(self.wait_followed(self.bundle_of, bundle))
            self.certificates.serve()
            time.sleep(0.5)
        for kind in KINDS:
            ours = self.cluster.json(self.path_of(kind, routing.ROUTES))["metadata"]
            self.assertNotIn(INJECT, ours.get("annotations", {}))
            self.assertIn(INJECT, self.cluster.json(self.path_of(kind))["metadata"]["annotations"])
        self.check(load.end(), f"cainjector: followed within {max(late):.2f} s")
        self.assertLess(max(late), 1)

    def test_cert_controller(self):
        """It writes whatever it has read, also while the label comes and goes: on a conflict it reads
        again, and neither of us loses what it wrote."""
        self.begin()
        load = self.load()
        conflicts, writes = [], Every(self, 0.05, lambda: conflicts.append(self.set_bundle(self.renew())))
        for _ in range(2):
            self.opt_out()
            self.wait_widened()
            self.original()
            self.wait_all()
        count = writes.end()
        bundle = self.certificates.encoded()
        self.set_bundle(bundle)
        self.wait_followed(self.bundle_of, bundle)
        self.certificates.serve()
        self.wait_settled(self.owners)
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        twice = self.check_reviewed(written)
        report(f"cert-controller: {count} bundles, {sum(conflicts)} conflicts, {len(written)} creates, "
               f"{twice} reviews twice")  # fmt: skip

    def test_certgen(self):
        """A Helm hook that patches caBundle and failurePolicy, once, after the configuration is there
        without them."""
        self.policy = "Ignore"
        self.original()
        self.wait_all()
        bundle = self.renew()
        for kind in KINDS:
            patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle},
                     {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]  # fmt: skip
            answer = self.api.ask("PATCH", self.path_of(kind), patch, "application/json-patch+json")
            self.assertEqual(200, answer.status, answer.said)
        late = self.wait_followed(self.bundle_of, bundle)
        self.wait_followed(lambda webhook: webhook["failurePolicy"], "Fail")
        self.certificates.serve()
        self.wait_settled(self.owners)
        load = self.load()
        time.sleep(2)
        self.check(load.end(), f"certgen: followed within {late:.2f} s")


class OperatorsTest(RivalCase):
    """Operators that write their configuration themselves."""

    def forge(self, kind, name):
        """As OLM calls them."""
        metadata = {"name": name, "labels": {"olm.owner": "report-operator.v1"}}
        thing = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata}
        self.api.create({**thing, "webhooks": [self.webhook(kind, failurePolicy="Fail")]})

    def test_olm(self):
        """With each upgrade, Service and configurations go, and are there again under other names, without
        our label, which somebody puts there by hand."""
        self.begin()
        for kind in KINDS:
            self.api.delete(self.path_of(kind))
        self.wait_no_entries()
        last = None
        load = self.load()
        for suffix in ("abc12", "x8f2k", "zz9p4"):
            names = {kind: f"{path[1:]}.kb.io-{suffix}" for kind, path in webhook_pods.PATHS.items()}
            for kind in KINDS if last else ():
                self.api.delete(self.path_of(kind, last[kind]))
            if last:
                self.api.delete(self.service)
                self.api.create(self.service_object())
            for kind in KINDS:
                self.forge(kind, names[kind])
            time.sleep(1)
            for kind in KINDS:
                self.api.label(self.path_of(kind, names[kind]), {routing.ROUTE: "true"})
            began = time.time()
            self.wait_settled(self.owners)
            self.wait_routed(*self.names)
            report(f"OLM: routed {time.time() - began:.1f} s after the label")
            last = names
        written = load.end()
        ports = [p["name"] for p in self.cluster.json(self.service)["spec"]["ports"]]
        self.assertEqual(3, len(ports), ports)
        refused = [w for w in written if w.status != 201]
        report(f"OLM: {len(written)} creates, {len(refused)} refused while Services were away")

    def kyverno(self, labels, extra):
        """It has its own idea of labels, annotations and all webhooks; rules follow policies."""

        def change(thing):
            kind = thing["kind"]
            webhook = self.webhook(kind, failurePolicy="Fail")
            webhook["rules"][0]["operations"] += ["CONNECT"] * extra
            webhooks = [webhook]
            if extra:
                more = copy.deepcopy(webhook)
                more["name"] = "more." + webhook["name"]
                more["rules"][0]["operations"] = ["UPDATE"]
                webhooks.append(more)
            thing["metadata"]["labels"] = {"webhook.kyverno.io/managed-by": "kyverno", **labels}
            thing["metadata"].pop("annotations", None)
            thing["webhooks"] = webhooks

        self.update_all(change)

    def test_kyverno_takes_the_label_off(self):
        """Each update takes our label off, and all that we wrote, in one: nothing is left after that, and
        no review is lost."""
        self.begin()
        load = self.load()
        for i in range(3):
            self.kyverno({}, i % 2 == 0)
            self.wait_widened()
            self.original()
            self.wait_all()
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        report(f"Kyverno: {len(written)} creates, {self.check_reviewed(written)} reviews twice")

    def test_kyverno_with_the_label(self):
        """Where it is told to set our label, it is narrowed again after each update, by rules that come and
        go, and let go if it has too many of them."""
        self.begin()
        load = self.load()
        for i in range(6):
            self.kyverno({routing.ROUTE: "true"}, i % 2 == 0)
            time.sleep(1.5)
            self.wait_settled(self.owners)
        self.wait_routed(*self.names)
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        report(f"Kyverno: {len(written)} creates, {self.check_reviewed(written)} reviews twice")
        again = Every(self, 1.2, lambda: self.kyverno({routing.ROUTE: "true"}, False))
        self.wait_contested()
        self.wait_no_entries()
        time.sleep(3)  # it writes what is there already
        again.end()
        self.wait_contested()

    def knative(self):
        """It keeps expressions of others in namespaceSelector, and has objectSelector the same."""

        def change(thing):
            for webhook in thing["webhooks"]:
                own = {"key": "webhooks.knative.dev/exclude", "operator": "DoesNotExist"}
                selector = webhook.setdefault("namespaceSelector", {})
                terms = selector.setdefault("matchExpressions", [])
                if own not in terms:
                    terms.append(own)
                webhook["objectSelector"] = copy.deepcopy(selector)

        self.update_all(change)

    def test_knative(self):
        """It looks again whenever its configuration changes: what we add stays, and what it copies of
        that into objectSelector hides no object."""
        self.begin()
        load = self.load()
        again = Every(self, 0.1, self.knative)
        time.sleep(3)
        self.wait_settled(self.owners)
        self.opt_out()
        time.sleep(7)
        self.original()
        self.wait_all()
        time.sleep(2)
        again.end()
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        report(f"Knative: {len(written)} creates, {self.check_reviewed(written)} reviews twice")


class ContestTest(RivalCase):
    def narrowed(self):
        things = [self.cluster.json(self.path_of(kind)) for kind in KINDS]
        return [w for thing in things for w in thing["webhooks"]
                if routing.NARROWED in w["namespaceSelector"].get("matchExpressions", [])]  # fmt: skip

    def contests(self, kind):
        metadata = self.cluster.json(self.path_of(kind, routing.ROUTES))["metadata"]
        return metadata.get("annotations", {}).get(CONTESTS)

    def test_a_new_leader_knows(self):
        """The next one does not begin to narrow again, though the writer goes on."""
        self.begin()
        load = self.load()
        again = Every(self, 0.3, self.reset)
        harness.wait_for(lambda: all(map(self.contests, KINDS)), "both kinds are contested")
        for round_ in range(2):
            self.lead.kill()
            time.sleep(0.5)
            self.lead = self.manager()
            until = time.time() + 15
            while time.time() < until:
                self.assertFalse(self.narrowed(), round_)
                time.sleep(0.05)
            self.assertFalse([entry for kind in KINDS for entry in self.entries(kind)])
            self.wait_contested()
        again.end()
        for kind in KINDS:
            self.assertIn(routing.ORIGINAL, json.loads(self.contests(kind)))
        self.relabel()
        self.wait_all()
        self.assertEqual([None, None], [self.contests(kind) for kind in KINDS])
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        report(f"contested over 2 leaders: {len(written)} creates, {self.check_reviewed(written)} twice")

    def test_our_entries_are_replaced(self):
        """Each second, by nothing: for moments nobody is asked, ten times; then any pod."""
        self.begin()
        load = self.load()
        again = Every(self, 1, self.empty)
        self.wait_contested()
        count = again.count
        self.wait_no_entries()
        self.assertFalse(self.narrowed())
        free = time.time()
        time.sleep(5)
        again.end()
        self.relabel()
        self.wait_all()
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        lost = self.unreviewed(written)
        self.assertFalse([w for w in lost if w.came > free])
        self.assertEqual(1, len([e for e in self.events() if e["reason"] == "WebhookContested"
                                 and e["involvedObject"]["name"] == "blue"]))  # fmt: skip
        report(f"replaced {count} times until contested: {len(written)} creates, {len(lost)} not reviewed")

    def test_our_entries_are_replaced_all_the_time(self):
        """By somebody who watches."""
        self.begin()
        load = self.load()
        again = Every(self, 0.05, self.empty)
        self.wait_contested()
        self.wait_no_entries()
        count = again.end()
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        report(f"replaced {count} times: {len(written)} creates, {len(self.unreviewed(written))} not reviewed")

    def test_our_entries_are_replaced_and_its_owner_narrows(self):
        """Then they come back for as long as that is so."""
        narrowed = {"matchExpressions": [routing.NARROWED]}
        self.original(namespaceSelector=narrowed)
        self.wait_all()
        load = self.load()
        again = Every(self, 1, self.empty)
        self.wait_contested()
        time.sleep(5)
        self.assertTrue(all(map(self.entries, KINDS)))
        count = again.end()
        time.sleep(0.5)
        quiet = time.time()
        time.sleep(3)
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        lost = self.unreviewed(written)
        self.assertFalse([w for w in lost if w.came > quiet])
        report(f"replaced {count} times: {len(written)} creates, {len(lost)} not reviewed")

    def events(self):
        return self.cluster.json(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]

    @unittest.skipUnless(os.environ.get("CMESH_TEN_MINUTES"), "ten minutes: CMESH_TEN_MINUTES=1")
    def test_once_a_minute(self):
        """Is ten times in ten minutes."""
        self.begin()
        load = self.load(rate=20)
        began = time.time()
        again = Every(self, 60, self.reset)
        harness.wait_for(
            lambda: self.condition_of("blue").get("reason") == "Contested", "it is contested", 700
        )
        count, took = again.end(), time.time() - began
        written = load.end()
        twice = self.check_reviewed(written)
        report(f"contested after {took:.0f} s, {count} times: {len(written)} creates, {twice} twice")

    def condition_of(self, name):
        return mesh.condition(self.cluster.json(f"{self.configs}/{name}"), "WebhookRouted")

    def test_refused(self):
        """What an older API lets somebody have, narrowed by its owner, can have no entries: its shards say
        that nobody is asked, until it is widened. Others are routed as before."""
        if harness.modern():
            self.skipTest("there is no v1beta1")
        self.begin()
        version = "admissionregistration.k8s.io/v1beta1"
        path = f"/apis/{version}/validatingwebhookconfigurations"
        narrowed = {"matchExpressions": [routing.NARROWED]}
        webhook = self.webhook("ValidatingWebhookConfiguration", namespaceSelector=narrowed)
        webhook.update(name="old.report-operator.example.com", sideEffects="Unknown")
        thing = {"apiVersion": version, "kind": "ValidatingWebhookConfiguration", "webhooks": [webhook],
                 "metadata": {"name": "old", "labels": {routing.ROUTE: "true"}}}  # fmt: skip
        self.cluster.json(path, "POST", thing)
        for label in ("true", None):
            self.api.merge(f"{path}/old", {"metadata": {"labels": {routing.ROUTE: label}}})
            for of in self.names:
                self.wait_condition(of, "WebhookRouted", "False", "Refused")
                self.assertIn("nobody is asked", self.condition_of(of)["message"])
        self.wait_settled(self.owners)
        webhook["namespaceSelector"] = {}
        self.api.merge(f"{path}/old", {"webhooks": [webhook]})
        self.wait_routed(*self.names)

    def test_two_installations(self):
        """An original with the labels of both is left alone, also beside the other manager."""
        self.begin()
        args = ["--namespace", "default", "--watch-namespace", "default", "--label-qps", "0",
                "--leader-elect=false", "--label-prefix", "mesh.example.com"]  # fmt: skip
        second = mesh.Manager(self.folder, "second", self.cluster.kubeconfig, args)
        self.addCleanup(second.stop)
        load = self.load()
        for kind in KINDS:
            self.api.label(self.path_of(kind), {RIVAL_ROUTE: "true"})
        self.wait_contested()
        self.wait_no_entries()
        self.assertFalse(self.narrowed())
        self.assertIn(RIVAL_ROUTE, self.condition_of("blue")["message"])
        for kind in KINDS:
            self.api.label(self.path_of(kind), {RIVAL_ROUTE: None})
        self.wait_all()
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        report(f"two installations: {len(written)} creates, {self.check_reviewed(written)} twice")


# A checkout of a release without routing, with its manager built under build/release.
OLD = os.environ.get("CMESH_OLD_CHECKOUT")


@unittest.skipUnless(OLD, "CMESH_OLD_CHECKOUT: a checkout of a release without routing, with its manager")
class SkewTest(RivalCase):
    """A manager that does not know of routing, before, beside and after one that does."""

    def old(self, *args):
        program = os.path.join(OLD, "build", "release", "manager", "manager")
        args = args or ("--leader-elect=false",)
        args += ("--webhook", "127.0.0.1:0", "--webhook-host", "127.0.0.1",
                 "--sidecar-image", "cmesh.test/sidecars:1")  # fmt: skip
        return self.start_manager(*args, "--probe-interval", "1", name="old", program=program)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.kubectl, "apply", *mesh.files(mesh.CRDS))

    def old_definitions(self):
        self.kubectl("apply", "-f", os.path.join(OLD, "k8s", "base", "crd.yaml"))
        time.sleep(3)

    def versions(self):
        """Of all that routing writes."""
        paths = [self.path_of(kind, name) for kind in KINDS for name in (routing.ROUTES, routing.ORIGINAL)]
        return [self.cluster.json(path)["metadata"]["resourceVersion"] for path in [*paths, self.service]]

    def spec_of(self, name):
        return self.cluster.json(f"{self.configs}/{name}")["spec"]

    def conditions_of(self, name):
        return {c["type"]: c for c in self.cluster.json(f"{self.configs}/{name}")["status"]["conditions"]}

    def test_there_and_back(self):
        """What was routed stays as it was while the old one leads, and goes on after that."""
        self.hold = {"duringHandover": "Hold"}
        for of, spaces in self.names.items():
            self.hand_shard(of, routing.by_name(*spaces), **self.hold)
        self.begin()
        before = self.versions()
        load = self.load()
        self.lead.kill()
        old = self.old()
        for of in self.names:
            self.wait_condition(of, "Compiled", "False", "Invalid")  # it does not know duringHandover
        time.sleep(5)
        self.assertEqual(before, self.versions())
        self.assertEqual("Hold", self.spec_of("blue")["webhook"]["duringHandover"])
        told = self.conditions_of("blue").get("WebhookRouted")
        report(f"beside the old manager WebhookRouted is {told and told['reason']}")
        self.wait_settled(self.owners)
        self.check(load.end(), "the old manager leads")
        # A move, of which the entries do not know.
        self.hand_shard("blue", routing.by_name("team-1"))
        self.hand_shard("green", routing.by_name("team-2", "team-3", "team-4"))
        for of in self.names:
            self.wait_enforced(of)
        self.wait_settled(self.owners)  # the old owner is asked
        self.assertEqual(before, self.versions())
        old.stop()
        self.assertNotIn(routing.ROUTES, old.log())
        load = Load(self, ["team-1", "team-3", "team-4", "nobodys"])
        self.lead = self.manager()
        self.wait_settled({**self.owners, "team-2": "green"})
        self.wait_routed(*self.names)
        written = load.end()
        self.check_once(written, self.may_ask())
        report(f"the new manager leads again: {len(written)} creates")

    def test_old_definitions(self):
        """They keep what they do not know, so all works."""
        self.old_definitions()
        for of, spaces in self.names.items():
            self.hand_shard(of, routing.by_name(*spaces), duringHandover="Hold")
        self.begin()
        ports = {port["name"] for port in self.cluster.json(self.service)["spec"]["ports"]}
        self.assertIn(webhook_pods.HOLD, ports)
        self.assertEqual("Routed", self.conditions_of("blue")["WebhookRouted"]["reason"])
        load = self.load()
        time.sleep(2)
        self.check(load.end(), "old definitions")

    def test_the_old_one_leads(self):
        """The new one waits for the Lease, and routes nothing until then: when the old one ends well, and
        when it is killed."""
        self.lead.kill()
        for end in ("stop", "kill"):
            old = self.old("--leader-elect=true")
            self.wait_ready(*self.names)
            new = self.start_manager("--leader-elect=true", "--probe-interval", "1", name=f"new-{end}")
            self.original()
            time.sleep(8)
            self.assertFalse([entry for kind in KINDS for entry in self.entries(kind)])
            load = self.load()
            began = time.time()
            getattr(old, end)()
            self.wait_all()
            report(f"routed {time.time() - began:.1f} s after the old leader's {end}")
            written = load.end()
            self.assertEqual({201}, {w.status for w in written})
            self.check_reviewed(written)
            self.opt_out()
            self.wait_widened()
            new.stop()

    def wait_ready(self, *names):
        for name in names:
            self.wait_condition(name, "Ready", "True")


if __name__ == "__main__":
    harness.main()
