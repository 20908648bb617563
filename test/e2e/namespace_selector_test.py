# SPDX-License-Identifier: Apache-2.0
"""Limits by labels of namespaces: whoever labels a Namespace moves it from shard to shard, under open
watches of the real sidecars, whatever happens to the manager meanwhile.
"""

import itertools
import json
import os
import ssl
import subprocess
import sys
import time

import harness
import mesh
import ownership_test
import wire

KEY = mesh.GROUP + "/namespace"
TEAM = "cmesh-test/team"
MERGE = "application/merge-patch+json"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def setUpModule():
    mesh.install()


def report(text):
    print(text, file=sys.stderr, flush=True)


def by_team(team, **more):
    """A limit on the ConfigMaps in the namespaces of a team."""
    limit = mesh.limit(None)
    del limit["selector"]
    return {**limit, "namespaceSelector": {"matchLabels": {TEAM: team}}, **more}


def names_of(case, shard):
    """Of the namespaces in its rules; None: they are none by names alone, or there are none."""
    rules = mesh.rules_of(case.map_of(shard) or {})
    if rules is None:
        return None
    selector = rules["spec"]["limits"][0]["selector"]
    if selector == f"{KEY},!{KEY}":
        return []
    if not selector.startswith(f"{KEY} in ("):
        return None
    return selector[len(KEY) + 5 : -1].split(",")


class NamespacesTestCase(mesh.MeshTestCase):
    def setUp(self):
        super().setUp()
        self.red, self.blue = (f"{color}-{os.getpid()}-{self.id()[-20:]}" for color in ("red", "blue"))
        self.red, self.blue = (text.replace("_", "-").strip("-.") for text in (self.red, self.blue))

    def space(self, team):
        """A namespace of that team, with an object that its operator works on."""
        name = harness.make_namespace(self.cluster, "space", self.addCleanup)
        self.label(name, team)
        thing = {"metadata": {"name": "object", "labels": {KEY: name, TEAM: "any"}}}
        self.cluster.json(f"/api/v1/namespaces/{name}/configmaps", "POST", thing)
        return name

    def label(self, name, team):
        patch = {"metadata": {"labels": {TEAM: team}}}
        self.cluster.json(f"/api/v1/namespaces/{name}", "PATCH", patch, MERGE)

    def remove(self, name):
        self.cluster.fetch(f"/api/v1/namespaces/{name}", "DELETE")

    def two_teams(self, **more):
        spec = {"controller": {"leaderElectionName": "owner"}, **more}
        self.apply(
            mesh.config("red", "red", by_team(self.red), **spec),
            mesh.config("blue", "blue", by_team(self.blue), **spec),
        )

    def names_of(self, shard):
        return names_of(self, shard)

    def wait_names(self, shard, *names):
        wanted = sorted(names)
        harness.wait_for(lambda: self.names_of(shard) == wanted, f"{shard} has {wanted}")

    def compiled(self, thing, generation):
        """With the namespaces as they are."""
        listed = self.cluster.json("/api/v1/namespaces")
        path = self.path("namespaces.json", json.dumps({"kind": "NamespaceList", **listed}))
        command = [harness.program("manager"), "compile", "-f", "-", "--namespaces", path]
        command += ["--generation", str(generation), "--manager-namespace", self.home]
        done = subprocess.run(
            command, input=json.dumps(thing), capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)


class FollowTest(NamespacesTestCase):
    """A namespace whose label changes moves, and no watch is cut for it."""

    def begin(self):
        self.spaces = [self.space(team) for team in (self.red, self.red, self.blue)]
        lead = self.manager()
        self.two_teams()
        self.pods = {name: self.pod(f"{name}-0", name).start() for name in ("red", "blue")}
        for name in self.pods:
            self.wait_enforced(name, pods=1)
        self.watches = {
            name: mesh.Seen(pod, "/api/v1/configmaps", TEAM) for name, pod in self.pods.items()
        }
        for watch in self.watches.values():
            self.addCleanup(watch.end)
        self.wait_seen("red", *self.spaces[:2])
        self.wait_seen("blue", self.spaces[2])
        for name, space in (("red", self.spaces[0]), ("blue", self.spaces[2])):
            self.wait_following(self.watches[name], space)
        self.opened = {name: watch.opened for name, watch in self.watches.items()}
        return lead

    def wait_following(self, watch, space):
        """An event comes by it: what came before may be in a list."""
        path = f"/api/v1/namespaces/{space}/configmaps/object"
        number = itertools.count()

        def follows():
            self.cluster.json(path, "PATCH", {"data": {"a": str(next(number))}}, MERGE)
            return any(kind == "MODIFIED" for kind, _ in list(watch.events))

        harness.wait_for(follows, "its watch follows", interval=0.1)

    def wait_seen(self, shard, *spaces):
        watch = self.watches[shard]
        harness.wait_for(
            lambda: set(watch.shown) == {(space, "object") for space in spaces},
            f"the operator of {shard} sees {spaces}",
        )

    def check_whole(self):
        """Each object is one shard's, no watch was cut, and all is as `manager compile` says."""
        seen = [space for watch in self.watches.values() for space in list(watch.shown)]
        self.assertEqual(len(set(seen)), len(seen))
        for name, watch in self.watches.items():
            self.wait_enforced(name, pods=1)
            self.check_map(name)
            self.assertEqual(self.opened[name], watch.opened)
            self.assertIsNone(watch.error)

    def test_labels_come_and_go(self):
        self.begin()
        one, two, three = self.spaces
        self.assertEqual(2, self.get("red")["status"]["namespaces"])
        begun = time.monotonic()
        self.label(one, self.blue)
        self.wait_seen("blue", one, three)
        report(f"from a label to the operator's watch: {(time.monotonic() - begun) * 1000:.0f} ms")
        self.wait_seen("red", two)
        self.check_whole()
        four = self.space(self.red)
        self.wait_seen("red", two, four)
        self.label(two, None)
        self.wait_seen("red", four)
        self.label(four, self.blue)
        self.label(three, self.red)
        self.wait_seen("red", three)
        self.wait_seen("blue", one, four)
        self.check_whole()
        self.label(three, self.blue)
        self.wait_seen("red")
        self.assertEqual([], self.names_of("red"))
        self.wait_seen("blue", one, three, four)
        self.check_whole()

    def test_while_no_manager_runs(self):
        lead = self.begin()
        one, two, three = self.spaces
        lead.stop()
        self.label(one, self.blue)
        self.label(three, self.red)
        lead = self.manager()
        self.wait_seen("red", two, three)
        self.wait_seen("blue", one)
        self.check_whole()
        self.label(two, self.blue)
        lead.kill()
        self.label(three, self.blue)
        self.manager()
        self.wait_seen("red")
        self.wait_seen("blue", one, two, three)
        self.check_whole()

    def test_coverage_and_columns(self):
        self.begin()
        table = self.here("get", "shardingconfigs", "red", "-o", "wide")
        self.assertIn("NAMESPACES", table)
        free = self.space("nobody")

        def gap():
            return free in mesh.condition(self.get("red"), "Covered").get("message", "") or (
                "more" in mesh.condition(self.get("red"), "Covered").get("message", "")
            )

        harness.wait_for(gap, "a namespace of no team is in no shard")
        self.assertEqual("Gaps", mesh.condition(self.get("red"), "Covered")["reason"])


class OwnershipTest(ownership_test.OwnershipTest):
    """The same as by lists of names, with labels: no object has two owners, by the audit log."""

    def team(self, shard):
        return f"{shard}-{os.getpid()}"

    def item(self, shard, owner):
        thing = mesh.config(
            shard, shard, by_team(self.team(shard)), controller={"leaderElectionName": "owner"}
        )
        thing["metadata"]["namespace"] = self.namespace
        return thing

    def apply_all(self, owner, shards):
        super().apply_all(owner, shards)
        spaces = self.pick.sample(self.spaces, len(self.spaces))
        for space in spaces:
            patch = {"metadata": {"labels": {TEAM: self.team(owner[space])}}}
            self.cluster.json(f"/api/v1/namespaces/{space}", "PATCH", patch, MERGE)

    def settled(self):
        """The manager may be some changes behind, which no status tells: a spec is the same."""
        for shard in self.pods:
            wanted = sorted(space for space in self.spaces if self.owner[space] == shard)
            harness.wait_for(
                lambda shard=shard, wanted=wanted: names_of(self, shard) == wanted,
                f"{shard} has {wanted}",
                120,
            )
        super().settled()


class UnknownTest(NamespacesTestCase):
    """A manager that may not list namespaces says so, and goes on by itself when it may."""

    def test_without_the_right(self):
        if self.cluster.fetch(RBAC).status == 404:
            self.skipTest("an API server that lets everybody do everything")
        user = f"narrow-{os.getpid()}"
        kubeconfig = self.cluster.user_kubeconfig(self.folder, user)
        rest = [{"apiGroups": ["*"], "resources": ["configmaps", "events", "pods", "pods/status",
                 "shardingconfigs", "shardingconfigs/status", "shardingconfigs/finalizers", "leases",
                 "secrets", "circuitbreakers", "faultinjections", "customresourcedefinitions"],
                 "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["get"]}]  # fmt: skip
        role = {"metadata": {"name": user}, "rules": rest}
        self.cluster.json(f"{RBAC}/clusterroles", "POST", role)
        self.addCleanup(self.cluster.fetch, f"{RBAC}/clusterroles/{user}", "DELETE")
        binding = {
            "metadata": {"name": user},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": user,
            },
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        }
        self.cluster.json(f"{RBAC}/clusterrolebindings", "POST", binding)
        self.addCleanup(self.cluster.fetch, f"{RBAC}/clusterrolebindings/{user}", "DELETE")
        space = self.space(self.red)
        webhook = ["--webhook", "127.0.0.1:0", "--webhook-host", "127.0.0.1"]
        manager = self.start_manager("--leader-elect=false", *webhook, kubeconfig=kubeconfig)
        self.two_teams()
        found = self.wait_condition("red", "Compiled", "False", "NamespacesUnknown")
        message = mesh.condition(found, "Compiled")["message"]
        self.assertIn("spec.limits[0].namespaceSelector: cannot be compiled", message)
        self.assertIn("forbidden", message)
        self.assertIsNone(self.map_of("red"))
        allowed, warnings = self.review(manager, by_team(self.red))
        self.assertTrue(allowed)
        self.assertIn("namespaces are not known", warnings)
        self.assertFalse(self.review(manager, {**by_team(self.red), "namespaceSelector": {}})[0])
        role["rules"].append({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]})
        self.cluster.json(f"{RBAC}/clusterroles/{user}", "PATCH", role, MERGE)
        self.wait_names("red", space)
        self.wait_condition("red", "Compiled", "True")
        pods = mesh.limit(None, ["pods"])["relateResources"]
        red = by_team(self.red, relateResources=pods)
        self.assertEqual((True, ""), self.review(manager, red))
        allowed, warnings = self.review(manager, by_team("nobody"))
        self.assertTrue(allowed)
        self.assertIn("no namespace is selected", warnings)

    def review(self, manager, limit):
        """What its webhook says of another shard with that limit: whether it may be, and warnings."""
        with open(manager.ready_file, encoding="utf-8") as f:
            address = json.load(f)["webhook"]
        thing = mesh.config("other", "other", limit)
        thing["metadata"]["namespace"] = self.namespace
        resource = {"group": mesh.GROUP, "version": "v1alpha1", "resource": "shardingconfigs"}
        request = {"uid": "x", "operation": "CREATE", "namespace": self.namespace, "name": "other",
                   "resource": resource, "object": thing}  # fmt: skip
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        body = json.dumps({**review, "request": request}).encode()
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE  # whose certificate it is, is tested elsewhere
        head = [("Content-Type", "application/json")]

        def ask():
            answer = wire.fetch(address, "/validate/shardingconfigs", "POST", head, body, tls=tls)
            return json.loads(answer.body)["response"] if answer.status == 200 else None

        response = harness.wait_for(ask, "its webhook answers")
        return response["allowed"], " ".join(response.get("warnings", []))


if __name__ == "__main__":
    harness.main()
