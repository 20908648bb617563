# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps with rules that are not the manager's: of a tenant that may edit a namespace, and of an
operator that may change its own.
"""

import json
import os
import time

import api
import harness
import hostile_rules
import mesh

LABEL = "ctrlmesh.kusionstack.io/rules"
# What 24 ConfigMaps of a megabyte may cost, as shipped: sanitizers keep what was freed.
MEMORY_KIB = 24 * 1024
CPU_S = 0.2  # for each of them, with what reading JSON takes
TENANT = "mallory"
SHAPES = ("wide-and-narrow", "wide-groups", "long-lists", "wide-and-narrow-small")


def setUpModule():
    mesh.install()


def memory_kib(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class TenantRulesTest(mesh.MeshTestCase):
    def setUp(self):
        super().setUp()
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.account = self.cluster.json(accounts, "POST", {"metadata": {"name": TENANT}})
        self.here("create", "rolebinding", TENANT, "--clusterrole=edit",
                  f"--serviceaccount={self.namespace}:{TENANT}")  # fmt: skip
        self.user = f"system:serviceaccount:{self.namespace}:{TENANT}"
        self.tenant = api.Api(self.cluster, self.namespace, self.user)
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
        harness.wait_for(
            lambda: self.tenant.try_create(probe, dry_run=True).status == 201, "it may write"
        )

    def hostile(self, name, shape):
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"cmesh-rules-{name}", "labels": {LABEL: "true"}},
            "data": {"rules.json": hostile_rules.text(shape)},
        }

    def known(self, manager):
        return manager.metrics()["cmesh_manager_known_configmaps"]

    def events(self, reason):
        path = f"/api/v1/namespaces/{self.namespace}/events"
        return [e for e in self.cluster.json(path)["items"] if e["reason"] == reason]

    def test_configmaps_of_nobody(self):
        """However many there are, and however often they are changed."""
        manager = self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        self.wait_condition("shard-a", "Published", "True")
        before, spent = memory_kib(manager.pid, "VmRSS"), cpu_seconds(manager.pid)
        names = [f"b{i}" for i in range(24)]
        for i, name in enumerate(names):
            thing = self.hostile(name, SHAPES[i % len(SHAPES)])
            self.tenant.create(thing)
        harness.wait_for(lambda: self.known(manager) == len(names) + 1, "the manager heard of all")
        for value in range(5):
            self.tenant.annotate(f"{self.maps}/cmesh-rules-b0", {"x": str(value)})
        self.show("shard-a", "a", "b")
        harness.wait_for(lambda: self.get("shard-a")["status"]["generation"] == 2, "it is published")
        spent = cpu_seconds(manager.pid) - spent
        peak = memory_kib(manager.pid, "VmHWM") - before
        print(f"{len(names)} ConfigMaps: {peak} KiB at most, {spent:.2f} s of CPU")
        self.assert_memory(peak)
        self.assertLess(spent, CPU_S * (len(names) + 5))
        self.check_map("shard-a")

        again = self.start_again(manager)
        self.assert_memory(memory_kib(again.pid, "VmHWM") - before)
        self.apply(mesh.config("b0", "b0", mesh.limit(mesh.is_in("part", "z"))))
        self.wait_condition("b0", "Published", "True")
        self.check_map("b0")

    def assert_memory(self, kib):
        if not harness.is_sanitized(harness.program("manager")):
            self.assertLess(kib, MEMORY_KIB)

    def start_again(self, manager):
        manager.stop()
        again = self.manager()
        harness.wait_for(again.ready, "it has listed all")
        return again

    def test_over_budget(self):
        """Its own condition and Event; what was published stays."""
        manager = self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        harness.wait_for(lambda: self.map_of("shard-a"), "the shard is published")
        before = self.map_of("shard-a")["data"]
        thing = self.hostile("shard-a", "wide-and-narrow")
        self.tenant.apply(thing)
        harness.wait_for(
            lambda: "cannot read the rules in a ConfigMap" in manager.log()
            and "configmap=cmesh-rules-shard-a" in manager.log(),
            "the log names it",
        )
        harness.wait_for(lambda: self.events("RulesChanged"), "an Event names who changed it")
        harness.wait_for(lambda: self.map_of("shard-a")["data"] == before, "it is put right")
        limits = [
            {
                "relateResources": [{"apiGroups": ["*"], "resources": ["*"]}],
                "selector": {
                    "matchExpressions": [
                        {"key": f"k{i}", "operator": "Exists"} for i in range(500)
                    ]
                },
            }
        ]
        limits += [mesh.limit(mesh.is_in(f"part{i}", "a"), [f"r{i}"]) for i in range(200)]
        self.patch("shard-a", {"spec": {"limits": limits}})
        found = self.wait_condition("shard-a", "Compiled", "False", "Invalid")
        self.assertIn("overlap too much", mesh.condition(found, "Compiled")["message"])
        harness.wait_for(lambda: self.events("CompileFailed"), "an Event tells")
        self.assertEqual("Warning", self.events("CompileFailed")[0]["type"])
        self.assertEqual(before, self.map_of("shard-a")["data"])

    def large(self, name, count):
        """Of an operator of its own, which no other shard has to do with."""
        limits = [mesh.limit(mesh.is_in(f"key-{i}", name), [f"r{i}"]) for i in range(count)]
        thing = mesh.config(name, name, *limits)
        thing["spec"]["controller"] = {"leaderElectionName": name}
        return thing

    def test_the_sum_of_all_shards_is_bounded(self):
        """Who has most gives up: what is published stays, and comes back when there is room."""
        manager = self.manager("--shards-memory=4")
        shard = self.large("shard-a", 0)
        shard["spec"]["limits"] = [mesh.limit(mesh.is_in("part", "a"))]
        self.apply(shard)
        self.wait_condition("shard-a", "Published", "True")
        for i in range(4):
            self.apply(self.large(f"large-{i}", 1200 + 10 * i))
        found = self.wait_condition("large-3", "Compiled", "False", "OverBudget")
        message = mesh.condition(found, "Compiled")["message"]
        self.assertIn(f"namespace {self.namespace} take the most", message)
        self.assertIn("--shards-memory", message)
        harness.wait_for(lambda: self.events("CompileFailed"), "an Event tells")
        row = self.here("get", "shardingconfig", "large-3", "-o", "wide")
        self.assertIn("OverBudget", row)
        self.assertIn("spec.limits: Too large: this shard needs 1.", row)
        self.wait_condition("large-0", "Compiled", "True")
        self.wait_condition("large-0", "Published", "True")
        self.assertGreater(manager.metrics()["cmesh_manager_shards_given_up"], 0)
        self.assertLessEqual(manager.metrics()["cmesh_manager_shards_memory_bytes"], 4 * 1024 * 1024)
        self.show("shard-a", "a", "b")
        harness.wait_for(lambda: self.get("shard-a")["status"]["generation"] == 2, "it is published")
        for i in range(3):
            self.delete(f"large-{i}")
        self.wait_condition("large-3", "Published", "True")
        rules = mesh.rules_of(self.map_of("large-3"))
        self.assertEqual(1230, len(rules["spec"]["limits"]))

    def lift(self, generation, labels):
        """What an operator does that may patch ConfigMaps."""
        rules = mesh.rules_of(self.map_of("shard-a"))
        rules = {**rules, "generation": generation, "spec": {**rules["spec"], "limits": []}}
        rules = {k: v for k, v in rules.items() if k not in ("checksum", "voids")}
        owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": TENANT}
        owner["uid"] = self.account["metadata"]["uid"]
        metadata = {"ownerReferences": [{**owner, "controller": True}]}
        if not labels:
            metadata |= {"labels": None, "annotations": None}
        change = {"metadata": metadata, "data": {"rules.json": json.dumps(rules)}}
        patch = ("--type=merge", "-p", json.dumps(change))
        self.here("patch", f"--as={self.user}", "configmap", "cmesh-rules-shard-a", *patch)

    def wait_taken_back(self, generation, pods):
        """The pods are asked: a status from before the manager was away says nothing of them."""

        def look():
            thing = self.map_of("shard-a") or {"metadata": {}}
            rules = mesh.rules_of(thing) if "rules.json" in thing.get("data", {}) else None
            if not rules or "ownerReferences" in thing["metadata"]:
                return None
            return rules["generation"] >= generation and rules["spec"]["limits"] and rules

        began = time.monotonic()
        rules = harness.wait_for(look, "it is the manager's again", timeout=10)
        print(f"taken back after {time.monotonic() - began:.1f} s")
        told = (rules["generation"], rules["checksum"])
        for pod in pods:
            harness.wait_for(lambda p=pod: p.enforced() == told, "the pod enforces it again")
            self.assertEqual({"object-a"}, pod.shown())
        self.wait_enforced("shard-a", pods=len(pods))
        return rules

    def test_the_operator_lifts_its_limits(self):
        manager = self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pods = self.shard_of_two("shard-a")
        self.wait_enforced("shard-a", pods=2)
        for generation, labels in ((8, True), (20, False)):
            self.lift(generation, labels)
            self.wait_taken_back(generation + 1, pods)
        found = harness.wait_for(lambda: self.events("RulesChanged"), "an Event names who")
        self.assertEqual("Warning", found[0]["type"])
        self.assertIn("changed by kubectl-patch at 20", found[0]["message"])
        manager.stop()
        self.lift(30, False)
        self.manager()
        self.wait_taken_back(31, pods)

    def test_the_largest_generation_is_not_the_last_word(self):
        manager = self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pods = self.shard_of_two("shard-a")
        self.wait_enforced("shard-a", pods=2)
        for generation in (2**33, 2**52 - 1, 2**52):
            manager.kill()  # its pods have time to take them
            self.lift(generation, True)
            for pod in pods:
                harness.wait_for(lambda p=pod: (p.enforced() or [0])[0] == generation, "the pod took them")
                self.assertEqual({"object-a", "object-b"}, pod.shown())
            manager = self.manager()
            rules = self.wait_taken_back(1, pods)
            self.assertLess(rules["generation"], 10)
        # What comes next counts on, for who was away too.
        self.show("shard-a", "b")
        self.wait_enforced("shard-a", pods=2)
        self.assertEqual({"object-b"}, pods[0].shown())
        self.assertEqual(2**32 + 1, mesh.rules_of(self.map_of("shard-a"))["voids"])

    def test_another_configmap_takes_its_place(self):
        manager = self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pods = self.shard_of_two("shard-a")
        self.wait_enforced("shard-a", pods=2)
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cmesh-rules-shard-a"}}
        thing["data"] = {"mine": "yes"}
        manager.stop()  # which would make it again at once
        self.tenant.delete(f"{self.maps}/cmesh-rules-shard-a")
        self.tenant.create(thing)
        self.manager()
        self.wait_taken_back(1, pods)


if __name__ == "__main__":
    harness.main()
