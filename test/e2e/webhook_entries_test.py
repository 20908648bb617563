# SPDX-License-Identifier: Apache-2.0
"""What the routing of webhooks rests on, shown of the API server itself, with configurations that are
written here: entries that differ in namespaceSelector and port are asked each for its own namespaces, a
namespace moves between them with one write, a Service keeps its ports.
"""

import copy
import json
import time

import harness
import webhook_pods
from operator_test import report
from webhook_case import CONFIGURATIONS, CONTROL_LABEL, KINDS, hash_of
from webhook_pods import BASE, HOLD, MUTATING, NAMESPACE, SERVICE, VALIDATING, port_name

ROUTES, ORIGINAL = "cmesh-routes", "a-report-operator"  # before `cmesh` in the alphabet
EXISTS = {"key": CONTROL_LABEL, "operator": "Exists"}
NARROWED = {"key": CONTROL_LABEL, "operator": "DoesNotExist"}
PORTS = {"a": 20443, "b": 20444, "hold": 20445}
SHARDS = ("a", "b")
OWNED = {"a": ["team-1", "team-2"], "b": ["team-3"]}  # by name


def term(key, operator, values):
    return {"key": key, "operator": operator, "values": list(values)}


def names(values, operator="In"):
    return term(harness.NAMESPACE_LABEL, operator, values)


def hashes(values, operator="In"):
    return term(harness.HASH_LABEL, operator, values)


class EntriesTest(webhook_pods.WebhookPodsCase):
    """One pod of each of two shards, and one of none."""

    def setUp(self):
        super().setUp()
        pods = [webhook_pods.WebhookPod(self, f"pod-{of}".lower(), of) for of in (*SHARDS, None)]
        self.start(pods, proxied=False)
        self.apply_ports()
        self.wait_endpoints("webhook", 3)
        for of in SHARDS:
            self.wait_endpoints(port_name(of), 1)
        for space in ("team-1", "team-2", "team-3", "other-1", "unlabelled"):
            self.make_space(space)

    def apply_ports(self, **more):
        """As the manager adds them."""
        rows = [(port_name(of), PORTS[of]) for of in SHARDS] + [(HOLD, PORTS["hold"])]
        ports = [{"name": n, "port": p, "protocol": "TCP", "targetPort": n} for n, p in rows]
        metadata = {"name": SERVICE, "namespace": NAMESPACE, **more}
        thing = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
        path = f"{self.service}?fieldManager={ROUTES}"
        answer = self.api.ask("PATCH", path, thing, webhook_pods.api.APPLY)
        self.assertEqual(200, answer.status, answer.said)

    def entry(self, kind, name, port, *terms, **more):
        thing = self.webhook(kind, name=f"{name}.{BASE[kind]}", **more)
        thing["clientConfig"]["service"]["port"] = port
        thing["rules"][0]["scope"] = "Namespaced"
        thing["namespaceSelector"] = {"matchExpressions": [EXISTS, *terms]}
        return thing

    def entries(self, kind, owned):
        """Of these names, of shards; the hashes of `b` are its own, too."""
        named = [name for values in owned.values() for name in values]
        whole = [hash_of("hash-b")]
        found = [
            self.entry(kind, f"names-{of}", PORTS[of], names(values))
            for of, values in owned.items()
            if values
        ]
        found.append(self.entry(kind, "hashes-b", PORTS["b"], hashes(whole), names(named, "NotIn")))
        found.append(self.entry(kind, "rest", 443, hashes(whole, "NotIn"), names(named, "NotIn")))
        of_namespaces = self.entry(kind, "others", 443)
        of_namespaces["rules"][0].update(resources=["namespaces"], scope="Cluster")
        return [*found, of_namespaces]

    def route(self, owned, narrow=True, kinds=(MUTATING, VALIDATING)):
        for kind in kinds:
            self.configure(kind, ROUTES, self.entries(kind, owned))
            original = self.webhook(kind)
            original["rules"][0]["resources"] += ["namespaces"]
            if narrow:
                original["namespaceSelector"] = {"matchExpressions": [NARROWED]}
            self.configure(kind, ORIGINAL, [original])
        self.settle(owned)

    def settle(self, owned):
        """Until the API server goes by what was written: it looks at what a watch tells it."""
        spaces = {name: of for of, values in owned.items() for name in values}

        def asked():
            name = f"probe-{next(harness.Run.counter)}"
            for space in spaces:
                webhook_pods.write(self.cluster, "CREATE", space, name)
            found = [r for r in self.reviews() if r.name == name]
            return sorted((r.namespace, r.of) for r in found) == sorted(list(spaces.items()) * 2)

        harness.wait_for(asked, "the entries are in force", interval=0.2)

    # ---- tests ----

    def test_each_is_asked_once(self):
        """Namespaces with control labels by their entries, others, and Namespaces, by the original or
        what takes its place; create, update and delete."""
        self.make_space("hash-b")
        self.route(OWNED)
        owners = {name: [of] for of, values in OWNED.items() for name in values}
        owners.update({"hash-b": ["b"], "other-1": None, "unlabelled": None})
        self.check_once(self.write_all(owners, 2), owners)
        for name in ("new-space", "unlabelled-new"):
            self.make_space(name)
            found = [r.webhook for r in self.reviews() if r.resource == "namespaces" and r.name == name]
            self.assertEqual(["default", "validate"], found[:2], name)
            self.assertEqual(2, len(found), f"{name}: {found}")

    def test_a_move(self):
        """A namespace goes from one entry to another with one write, forth and back, under load: each
        review is asked once."""
        self.route(OWNED)
        there = copy.deepcopy(OWNED)
        there["a"].remove("team-2")
        there["b"].append("team-2")
        load = webhook_pods.Load(self, ["team-1", "team-2", "team-3", "other-1"])
        paths = {kind: f"{CONFIGURATIONS}/{KINDS[kind]}/{ROUTES}" for kind in KINDS}
        moves, over = 0, time.time() + 8
        while time.time() < over:
            for owned in (there, OWNED):
                for kind, path in paths.items():
                    self.api.merge(path, {"webhooks": self.entries(kind, owned)})
                    moves += 1
                time.sleep(0.1)
        written = load.end()
        owners = {"team-1": ["a"], "team-2": ["a", "b"], "team-3": ["b"], "other-1": None}
        self.check_once(written, owners)
        asked = {r.of for r in self.reviews() if r.namespace == "team-2" and r.name.startswith("load")}
        self.assertEqual({"a", "b"}, asked)
        report(f"{moves} moves, {len(written)} creates, ms {webhook_pods.percentiles(written)}")

    def test_hold(self):
        """A port without pods has failurePolicy decide, at once."""
        self.route(OWNED)
        for policy, status in (("Fail", 500), ("Ignore", 201)):
            held = self.entry(VALIDATING, "held", PORTS["hold"], names(["team-1"]), failurePolicy=policy)
            rest = self.entries(VALIDATING, {**OWNED, "a": ["team-2"]})
            for thing in rest:
                for expression in thing["namespaceSelector"]["matchExpressions"]:
                    if expression["operator"] == "NotIn" and "team-2" in expression["values"]:
                        expression["values"].append("team-1")
            self.configure(VALIDATING, ROUTES, [held, *rest])
            last = []

            def decided(policy=policy, status=status, last=last):
                name = f"{policy.lower()}-{len(last)}"
                last.append(webhook_pods.write(self.cluster, "CREATE", "team-1", name))
                asked = [r for r in self.reviews() if r.name == name and r.webhook == "validate"]
                return last[-1].status == status and not asked

            harness.wait_for(decided, f"{policy} decides")
            took = [webhook_pods.write(self.cluster, "CREATE", "team-1", f"{policy.lower()}-more-{i}")
                    for i in range(20)]  # fmt: skip
            self.assertEqual({status}, {w.status for w in took})
            report(f"{policy}: ms {webhook_pods.percentiles(took)}")
            self.assertLess(max(w.took for w in took), 2)

    @harness.needs("kubectl apply with defaults of Services")
    def test_ports_stay(self):
        """What we add to a Service stays when its owner applies it, client- or server-side."""
        wanted = {port_name(of) for of in SHARDS} | {HOLD, "webhook"}
        for way in ([], ["--server-side"], []):
            thing = self.service_object()
            thing["metadata"]["annotations"] = {"round": f"{way} {next(harness.Run.counter)}"}
            force = ["--force-conflicts"] * bool(way)
            self.kubectl("apply", *way, *force, "-f", "-", stdin=json.dumps(thing))
            stored = self.cluster.json(self.service)
            self.assertEqual(wanted, {p["name"] for p in stored["spec"]["ports"]}, way)
            self.apply_ports(uid=stored["metadata"]["uid"])
        self.assertEqual(stored["spec"]["ports"], self.cluster.json(self.service)["spec"]["ports"])


if __name__ == "__main__":
    harness.main()
