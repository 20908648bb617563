# SPDX-License-Identifier: Apache-2.0
"""Reviews of an operator in shards, under load: the real manager, the operator of examples/operator-go
with its webhooks, a real API server that asks it. Each review is asked once, by a pod whose cache has the
namespace, while shards move, and the operator's own configuration is as it was when all is over. The
operators' logs are the judge.
"""

import time

import harness
import mesh
import webhook_pods
from operator_test import report
from webhook_case import CONFIGURATIONS, CONTROL_LABEL, KINDS, hash_of
from webhook_pods import NAMESPACE, PORT, WebhookPod, port_name

ROUTES, ORIGINAL = "cmesh-routes", "report-operator"
ROUTE = mesh.GROUP + "/route"
NARROWED = {"key": CONTROL_LABEL, "operator": "DoesNotExist"}
ANNOTATION = mesh.GROUP + "/route-narrowed"


def limits(*selectors):
    return [mesh.limit(selector, ("configmaps", "namespaces")) for selector in selectors]


def by_name(*names):
    return mesh.is_in(harness.NAMESPACE_LABEL, *names)


def by_hash(name, *but):
    """All of the hash of a name, without some names."""
    selector = mesh.is_in(harness.HASH_LABEL, hash_of(name))
    term = {"key": harness.NAMESPACE_LABEL, "operator": "NotIn", "values": list(but)}
    selector["matchExpressions"].append(term)
    return selector


def spaces_of(hashes, prefix, count):
    """Names whose hashes are, or with None are not, among those."""
    names = (f"{prefix}-{i}" for i in range(1000))
    return [name for name in names if (hash_of(name) in hashes)][:count]


class RoutingCase(webhook_pods.WebhookPodsCase):
    """A manager that routes; no shards yet."""

    policy = "Fail"

    def setUp(self):
        super().setUp()
        for kind in KINDS:
            metadata = {"name": ROUTES, "labels": {"app.kubernetes.io/part-of": "cmesh"}}
            version = "admissionregistration.k8s.io/v1"
            self.api.create({"apiVersion": version, "kind": kind, "metadata": metadata})
        self.lead = self.manager()

    def original(self, **more):
        """The operator's own configurations, which ask to be routed."""
        for kind in KINDS:
            wide = {"apiGroups": ["", "storage.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["namespaces", "storageclasses"], "scope": "Cluster"}  # fmt: skip
            webhook = self.webhook(kind, failurePolicy=self.policy, **more)
            webhook["rules"].append(wide)
            self.configure(kind, ORIGINAL, [webhook], {ROUTE: "true"})

    def path_of(self, kind, name=ORIGINAL):
        return f"{CONFIGURATIONS}/{KINDS[kind]}/{name}"

    def hand_shard(self, name, selector, **webhook):
        spec = {"webhook": {"port": PORT, **webhook}, "controller": {"leaderElectionName": NAMESPACE}}
        self.apply(mesh.config(name, name, *limits(selector), **spec))

    def start_shard(self, name, count=1):
        """Its pods."""
        pods = [WebhookPod(self, f"{name}-{i}", name) for i in range(count)]
        self.start(pods)
        return pods

    def entries(self, kind):
        return self.cluster.json(self.path_of(kind, ROUTES)).get("webhooks") or []

    def wait_routed(self, *names):
        for name in names:
            self.wait_condition(name, "WebhookRouted", "True")

    def wait_settled(self, owners):
        """Until the API server has seen what the manager wrote: each of these is asked once, by its
        own."""

        def settled():
            name = f"probe-{next(harness.Run.counter)}"
            for space in owners:
                webhook_pods.write(self.cluster, "CREATE", space, name)
            found = sorted((r.webhook, r.namespace, r.of) for r in self.reviews() if r.name == name)
            wanted = [(w, s, of) for w in ("default", "validate") for s, of in owners.items()]
            return found == sorted(wanted)

        harness.wait_for(settled, f"reviews reach {owners}", interval=0.2)

    def check_known(self, since, spaces, until=float("inf")):
        """Who was asked about these had them in its cache."""
        for review in self.reviews():
            if review.namespace in spaces and since < review.at < until:
                self.assertTrue(review.known, review)

    def check_had(self, since, spaces):
        """Nobody was asked about these who has never had them."""
        for review in self.reviews():
            if review.namespace in spaces and since < review.at:
                self.assertTrue(review.had, review)

    def opt_out(self):
        for kind in KINDS:
            self.api.label(self.path_of(kind), {ROUTE: None})

    def wait_widened(self):
        """Until nothing of ours is left."""

        def left():
            things = [self.cluster.json(self.path_of(kind)) for kind in KINDS]
            found = [w["namespaceSelector"] for thing in things for w in thing["webhooks"]
                     if NARROWED in w["namespaceSelector"].get("matchExpressions", [])]  # fmt: skip
            found += [thing["metadata"]["annotations"] for thing in things
                      if ANNOTATION in thing["metadata"].get("annotations", {})]  # fmt: skip
            found += [entry["name"] for kind in KINDS for entry in self.entries(kind)]
            ports = [port["name"] for port in self.cluster.json(self.service)["spec"]["ports"]]
            return found + [name for name in ports if name.startswith("wh-")]

        try:
            harness.wait_for(lambda: not left(), "everything is as it was", interval=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {left()}") from None


class RoutingTest(RoutingCase):
    """Two shards of one pod: blue has namespaces by name, green by hash."""

    def setUp(self):
        super().setUp()
        self.handover = {}
        rest = {str(i) for i in range(32)} - {hash_of("green")}
        self.blue = spaces_of(rest, "team", 2)
        self.moving = self.blue[1]
        self.green = spaces_of({hash_of("green")}, "green", 2)
        self.nobodys = spaces_of(rest, "nobodys", 1)
        for space in [*self.blue, *self.green, *self.nobodys, "unlabelled"]:
            self.make_space(space)
        self.owners = {**dict.fromkeys(self.blue, "blue"), **dict.fromkeys(self.green, "green")}

    def begin(self):
        self.hand_shard("blue", by_name(*self.blue), **self.handover)
        self.hand_shard("green", by_hash("green", *self.blue), **self.handover)
        self.start_shard("blue")
        self.start_shard("green")
        self.original()
        self.wait_routed("blue", "green")
        self.wait_settled(self.owners)

    def test_reviews_reach_their_shard(self):
        """200 writes in namespaces of both shards, of none and without labels: each is asked once, by the
        owner, which knows its neighbours; Namespaces and what is in none are asked of somebody. Then a
        namespace moves under load, to and fro, and all is taken back."""
        self.begin()
        self.check_reviews()
        self.check_cluster_scoped()
        self.check_objects()
        written, owners, since = self.moves()
        self.check_once(written, owners)
        self.check_had(since, self.owners)
        unknown = [r for r in self.reviews() if r.namespace == self.moving and not r.known]
        took = webhook_pods.percentiles(written)
        report(f"{len(written)} creates, {len(unknown)} reviews by the old owner, ms {took}")
        self.opt_out()
        self.wait_widened()

    def check_reviews(self):
        since = time.time()
        spaces = [*self.owners, *self.nobodys, "unlabelled"]
        written = [
            webhook_pods.write(self.cluster, operation, space, f"thing-{i}", {"round": operation})
            for operation, count in (("CREATE", 12), ("UPDATE", 12), ("DELETE", 10))
            for i in range(count)
            for space in spaces
        ]
        self.assertGreaterEqual(len(written), 200)
        owners = {space: [self.owners[space]] if space in self.owners else None for space in spaces}
        self.check_once(written, owners)
        self.check_known(since, self.owners)
        self.check_audited(written, since)
        for space in self.owners:
            again = webhook_pods.write(self.cluster, "CREATE", space, "again", {"host": "thing-11.test"})
            self.assertEqual(403, again.status, again)

    def check_audited(self, written, since):
        """The API server has asked one mutating webhook each time, and knows which."""
        asked = self.audited(since)
        for w in (w for w in written if w.operation == "CREATE"):
            names = asked[w.namespace, w.name]
            self.assertEqual(1, len(names), f"{w}: {names}")
            ours = names[0] != webhook_pods.BASE[webhook_pods.MUTATING]
            self.assertEqual(w.namespace != "unlabelled", ours, f"{w}: {names}")

    def check_cluster_scoped(self):
        self.make_space("team-9")
        self.make_space("unlabelled-9")
        names = ["team-9", "unlabelled-9"]
        if not harness.modern():
            thing = {"metadata": {"name": "slow"}, "provisioner": "example.com/none"}
            self.addCleanup(self.cluster.fetch, "/apis/storage.k8s.io/v1/storageclasses/slow", "DELETE")
            self.cluster.json("/apis/storage.k8s.io/v1/storageclasses", "POST", thing)
            names.append("slow")
        for name in names:
            found = [r.webhook for r in self.reviews() if r.name == name]
            self.assertEqual(["default", "validate"], found, name)

    def check_objects(self):
        """What the manager wrote is what the design says."""
        ports = {p["name"]: p for p in self.cluster.json(self.service)["spec"]["ports"]}
        self.assertEqual({"webhook", port_name("blue"), port_name("green")}, set(ports))
        for name in (port_name("blue"), port_name("green")):
            self.assertEqual(name, ports[name]["targetPort"])
            self.assertGreaterEqual(ports[name]["port"], 20443)
        for kind in KINDS:
            original = self.cluster.json(self.path_of(kind))["webhooks"][0]
            self.assertIn(NARROWED, original["namespaceSelector"]["matchExpressions"])
            known = {p["port"] for p in ports.values()}
            for entry in self.entries(kind):
                self.assertIn(entry["clientConfig"]["service"]["port"], known)
                self.assertTrue(entry["name"].endswith("." + original["name"]), entry["name"])

    def move(self, back):
        """One, between blue and green; the loser is edited first."""
        blue = by_name(*(self.blue if back else self.blue[:1]))
        green = by_hash("green", *self.blue) if back else by_name(self.moving, *self.green)
        for name, selector in sorted([("blue", blue), ("green", green)], reverse=back):
            self.hand_shard(name, selector, **self.handover)
        for name in ("blue", "green"):
            self.wait_enforced(name)
        self.wait_settled({**self.owners, self.moving: "blue" if back else "green"})

    def moves(self):
        """What is written meanwhile, the shards that may be asked in each namespace, and since when."""
        since = time.time()
        load = webhook_pods.Load(self, [*self.owners, *self.nobodys])
        for back in 3 * (False, True):
            time.sleep(0.3)
            self.move(back)
        written = load.end()
        owners = {space: [of] for space, of in self.owners.items()}
        owners.update({self.moving: ["blue", "green"], **dict.fromkeys(self.nobodys)})
        return written, owners, since

    def test_moves_with_hold(self):
        """With Hold none is asked of a shard that does not have it at that moment: failurePolicy
        refuses."""
        self.handover = {"duringHandover": "Hold"}
        self.begin()
        written, owners, since = self.moves()
        refused = [w for w in written if w.status == 500 and w.namespace == self.moving]
        self.check_once([w for w in written if w not in refused], owners)
        self.check_known(since, self.owners)
        for w in refused:
            self.assertIn("failed calling webhook", w.said)
        report(f"{len(written)} creates, {len(refused)} refused, ms {webhook_pods.percentiles(written)}")


if __name__ == "__main__":
    harness.main()
