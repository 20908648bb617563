# SPDX-License-Identifier: Apache-2.0
"""Routed webhooks while their owner changes them, and while shards are renamed, share namespaces, or are told
apart in another way, under load: no review is lost. By hand, as webhook_faults_test.
"""

import collections
import time
import unittest.mock

import harness
import mesh
import review_notes
import webhook_case
import webhook_faults_test as faults
import webhook_pods
import webhook_requests_test
import webhook_routing_test as routing
from operator_test import report
from webhook_case import KINDS, hash_of
from webhook_pods import NAMESPACE, PATHS, Load, percentiles

SECOND = 1  # in which changes are followed


class RequestsTest(webhook_requests_test.RequestsTest):
    places = list(webhook_requests_test.OWNERS)


class OriginalTest(faults.PairCase):
    """What the owner of a configuration changes there."""

    def start_shard(self, name, count=1):
        pods = [review_notes.NotingPod(self, f"{name}-{i}", name) for i in range(count)]
        self.start(pods)
        return pods

    def rewrite(self, change):
        """As one who knows nothing of what was narrowed, and writes back what is there."""
        for kind in KINDS:
            webhooks = self.cluster.json(self.path_of(kind))["webhooks"]
            change(kind, webhooks)
            self.api.merge(self.path_of(kind), {"webhooks": webhooks})

    def wait_followed(self, change):
        """Until the entries are as those of the original; how long that takes."""
        began = time.time()
        self.rewrite(change)

        def followed(kind):
            webhooks = {w["name"]: w for w in self.cluster.json(self.path_of(kind))["webhooks"]}
            entries = self.entries(kind)
            for entry in entries:
                own = webhooks.get(entry["name"].partition(".")[2], {})
                same = [entry.get(field) == own.get(field) for field in
                        ("failurePolicy", "timeoutSeconds", "sideEffects", "matchPolicy", "objectSelector",
                         "reinvocationPolicy")]  # fmt: skip
                paths = [w.get("clientConfig", {}).get("service", {}).get("path") for w in (entry, own)]
                rules = [rule["operations"] for rule in own.get("rules", [])]
                if not all(same) or paths[0] != paths[1] or any(
                    rule["operations"] not in rules for rule in entry["rules"]
                ):
                    return False
            return bool(entries)

        harness.wait_for(lambda: all(map(followed, KINDS)), "the entries follow", interval=0.02)
        return time.time() - began

    def counts(self, written):
        """How often each of these was asked: (path, name) -> how often, by whom."""
        found = collections.defaultdict(list)
        names = {w.name for w in written}
        for review in self.reviews():
            if review.name in names and review.operation == "CREATE":
                found[review.webhook, review.name].append(review.of)
        return found

    def test_fields(self):
        """Paths, policies, rules and the rest: each is followed within a second, and no review is lost,
        or asked twice."""
        self.wait_all()

        def path(kind, webhooks):
            webhooks[0]["clientConfig"]["service"]["path"] = PATHS[kind] + "/other"

        def field(**more):
            return lambda _, webhooks: webhooks[0].update(more)

        def operations(*wanted):
            return lambda _, webhooks: webhooks[0]["rules"][0].update(operations=list(wanted))

        def more_rules(_, webhooks):
            rule = webhooks[0]["rules"][0]
            webhooks[0]["rules"].append({**rule, "resources": ["secrets"]})

        def reinvoked(kind, webhooks):
            if kind == webhook_pods.MUTATING:
                webhooks[0]["reinvocationPolicy"] = "IfNeeded"

        none = {"matchExpressions": [{"key": "example.com/none", "operator": "DoesNotExist"}]}
        changes = {
            "path": path, "Ignore": field(failurePolicy="Ignore"), "Fail": field(failurePolicy="Fail"),
            "timeoutSeconds": field(timeoutSeconds=3), "operations": operations("CREATE"),
            "operations again": operations("CREATE", "DELETE"), "more rules": more_rules, "reinvoked": reinvoked,
            "matchPolicy": field(matchPolicy="Exact"), "sideEffects": field(sideEffects="NoneOnDryRun"),
            "objectSelector": field(objectSelector=none),
        }  # fmt: skip
        load = self.load()
        took = {}
        for what, change in changes.items():
            took[what] = self.wait_followed(change)
            time.sleep(0.5)
        written = load.end()
        counts = self.counts(written)
        for w in written:
            self.assertEqual(201, w.status, w)
            for kind in ("default", "validate"):
                asked = counts[kind, w.name] + counts[f"{kind}/other", w.name]
                self.assertEqual(1, len(asked), f"{kind} of {w}: {asked}")
                self.assertIn(asked[0], [self.owners.get(w.namespace)] if w.namespace in self.owners else asked)
        slow = max(took, key=took.get)
        report(f"{len(written)} creates, {len(took)} changes followed, {slow} last, after {took[slow]:.2f} s")
        self.assertLess(took[slow], SECOND)

    def judge_new(self, written, since, what):
        """Of the webhook at /other of which all was asked before `since`."""
        counts = self.counts(written)
        for w in written:
            for kind in ("default", "validate"):
                self.assertEqual(1, len(counts[kind, w.name]), f"{kind} of {w}")
        later = [w for w in written if w.came > since]
        asked = [len(counts[kind + "/other", w.name]) for kind in ("default", "validate") for w in later]
        report(f"{what}: {len(written)} creates; of the new one {collections.Counter(asked)}")
        return asked

    def new_webhook(self, **more):
        def add(kind, webhooks):
            new = self.webhook(kind, name="other." + webhooks[0]["name"], **more)
            new["clientConfig"]["service"]["path"] = PATHS[kind] + "/other"
            webhooks.append(new)

        return add

    def test_new_webhook(self):
        """One more webhook in a configuration that is routed, and away again."""
        self.wait_all()
        load = self.load()
        self.rewrite(self.new_webhook())
        since = time.time() + 0.5  # the API server knows it
        harness.wait_for(lambda: all(self.narrowed(kind, 1) for kind in KINDS), "it is narrowed, too")
        time.sleep(1)
        self.assertLessEqual(set(self.judge_new(load.end(), since, "without lines")), {1, 2})
        load = self.load()
        time.sleep(1)
        self.rewrite(lambda _, webhooks: webhooks.pop())
        time.sleep(2)
        self.judge_new(load.end(), time.time(), "away")
        self.check_once(self.write_all(self.owners, 1), self.may_ask())

    def test_new_webhook_with_lines(self):
        self.wait_all()
        load = self.load()
        self.rewrite(self.new_webhook(namespaceSelector={"matchExpressions": [routing.NARROWED]}))
        since = time.time()
        time.sleep(4)
        asked = self.judge_new(load.end(), since, "with lines")
        self.assertLess(asked.count(0), 50)
        self.assertLessEqual(set(asked), {0, 1})

    def narrowed(self, kind, place):
        webhook = self.cluster.json(self.path_of(kind))["webhooks"][place]
        return routing.NARROWED in webhook["namespaceSelector"].get("matchExpressions", [])


class ShardsTest(faults.PairCase):
    """What is done to shards; blue has team-1 and team-2, green team-3 and team-4."""

    def judge(self, written, owners, what):
        refused = [w for w in written if w.status == 500 and self.hold and "no endpoints available" in w.said]
        self.check_once([w for w in written if w not in refused], {**owners, "nobodys": None})
        asked = collections.Counter((r.namespace, r.of) for r in self.reviews() if r.at > self.since)
        report(f"{what}: {len(written)} creates, {len(refused)} refused, ms {percentiles(written)}; "
               f"{sorted(asked.items(), key=str)}")  # fmt: skip

    def test_shared(self):
        """Of two shards that have a namespace, the one that had it goes on to be asked, until it has it no
        more."""
        self.wait_all()
        load = self.load()
        self.share("green", ["team-2", "team-3", "team-4"])
        time.sleep(4)
        self.wait_settled(self.owners)
        self.share("blue", ["team-1"])
        self.wait_settled({**self.owners, "team-2": "green"})
        self.share("blue", ["team-1", "team-2"])
        time.sleep(4)
        self.wait_settled({**self.owners, "team-2": "green"})
        owners = {space: [of] for space, of in self.owners.items()}
        self.judge(load.end(), {**owners, "team-2": ["blue", "green"]}, "shared")

    def share(self, name, spaces):
        lock = {"leaderElectionName": NAMESPACE}
        limits = routing.limits(routing.by_name(*spaces))
        thing = mesh.config(name, name, *limits, webhook={"port": webhook_pods.PORT, **self.hold}, controller=lock)
        thing["metadata"]["annotations"] = {mesh.GROUP + "/shares-with": "*"}
        self.apply(thing)

    def test_names_and_hashes(self):
        """One that says by hashes what it said by names, and back."""
        self.wait_all()
        load = self.load()
        hashes = mesh.is_in(harness.HASH_LABEL, hash_of("team-1"), hash_of("team-2"))
        hashes["matchExpressions"] += [{"key": harness.NAMESPACE_LABEL, "operator": "NotIn",
                                        "values": ["team-3", "team-4"]}]  # fmt: skip
        for selector in (hashes, routing.by_name("team-1", "team-2"), hashes, routing.by_name("team-1", "team-2")):
            self.hand_shard("blue", selector, **self.hold)
            self.wait_enforced("blue")
            time.sleep(1)
            self.wait_settled(self.owners)
        self.judge(load.end(), {space: [of] for space, of in self.owners.items()}, "names and hashes")
        self.check_known(self.since, self.owners)

    def test_renamed(self):
        """A shard under another name: other pods, which wait for what the old one has."""
        self.wait_all()
        load = self.load()
        self.hand_shard("azure", routing.by_name("team-1", "team-2"), **self.hold)
        self.start_shard("azure", 2)
        time.sleep(6)
        self.delete("blue")
        deleted = time.time()
        for pod in self.replicas.pop("blue"):
            pod.end()
        self.wait_settled({space: of.replace("blue", "azure") for space, of in self.owners.items()})
        report(f"renamed after {time.time() - deleted:.1f} s")
        time.sleep(1)
        # Without Hold any pod is asked meanwhile.
        renamed = ["azure", "blue"] + ["green"] * (not self.hold)
        owners = {space: renamed if of == "blue" else [of] for space, of in self.owners.items()}
        self.judge(load.end(), owners, "renamed")
        self.wait_gone_port("blue")

    def wait_gone_port(self, of):
        """Its port of the Service goes when nothing leads there any more."""
        name = webhook_pods.port_name(of)
        harness.wait_for(
            lambda: name not in [p["name"] for p in self.cluster.json(self.service)["spec"]["ports"]], "the port goes"
        )


class ShardsHoldTest(ShardsTest):
    hold = {"duringHandover": "Hold"}


class RootRenamedTest(faults.RootTest):
    test_sizes = test_takeover = test_canary = None
    check_asked = faults.PairCase.check_asked

    @harness.needs("garbage collection")
    def test_renamed(self):
        """A root is deleted, and made anew with another prefix; its pods are replaced one by one. With the last
        of its shards routing ends, and begins again."""
        self.begin(2, [(0, 1), (1, 2)])
        self.settle()
        since = time.time()
        load = Load(self, self.teams)
        self.delete("root")
        for number in (1, 2):  # as long as they are there, they keep their entries
            path = f"{self.configs}/{self.child(number)}"
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 404, f"{path} is gone")
        self.root(2, prefix="po")
        self.child = lambda number: f"po-{number}-normal"
        for ordinal in (0, 1):
            path = f"{self.configs}/{self.child(ordinal + 1)}"
            harness.wait_for(lambda p=path: self.cluster.fetch(p).status == 200, f"{path} is there")
            self.pods.pop(ordinal).end()
            self.start_pods([(ordinal, ordinal + 1)])
            self.wait_endpoints("webhook", 2)
        self.settle()
        report(f"renamed after {time.time() - since:.1f} s: {self.owners()}")
        self.check_asked(load.end(), "root renamed")


PREFIX = "other.example.com"


class PrefixTest(routing.RoutingTest):
    """Labels have other names, each in another way."""

    test_moves_with_hold = None

    def setUp(self):
        control = PREFIX + "/ours"
        for module, names in (
            (mesh, {"INJECTED": PREFIX + "/sharding-config-injected"}),
            (harness, {"NAMESPACE_LABEL": "example.com/space", "HASH_LABEL": PREFIX + "/bucket"}),
            (webhook_case, {"CONTROL_LABEL": control}),
            (routing, {"ROUTE": PREFIX + "/route", "ANNOTATION": PREFIX + "/route-narrowed", "CONTROL_LABEL": control,
                       "NARROWED": {"key": control, "operator": "DoesNotExist"}}),
        ):  # fmt: skip
            patch = unittest.mock.patch.multiple(module, **names)
            patch.start()
            self.addCleanup(patch.stop)
        super().setUp()

    def manager(self, *args):
        return super().manager(
            "--label-prefix", PREFIX, "--label-namespace", "example.com/space", "--label-shard-hash", "bucket",
            "--label-control", "ours", *args
        )  # fmt: skip


if __name__ == "__main__":
    harness.main()
