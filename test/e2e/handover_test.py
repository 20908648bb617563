# SPDX-License-Identifier: Apache-2.0
"""Two shards hand namespaces to one another while both are at work: from the moment on at which the
loser's localproxy has confirmed, no write of the loser's reaches the API server.

An operator here is client-go: an informer, and writers that patch whatever its store held up to
half a second ago, as it would wait in a work queue.
"""

import calendar
import collections
import time

import audit
import checker
import harness
import informer_case
import random_rules
import real_clients
import resources

RESOURCES = (resources.CONFIG_MAPS, resources.GEARS)

# A write that localproxy had sent on before it confirmed may be this much on its way to the API
# server's clock. Those that the operator began after it are judged without.
UNDER_WAY_NS = 300_000_000

# So many writes of each shard, and late ones of both, or nothing is proved.
MANY = 100
LATE = 10

WRITES = ("patch", "update", "create", "delete")


class Shard:
    """A localproxy with a user of its own, so that the API server's audit log tells who wrote."""

    def __init__(self, test, name, namespaces, fence):
        self.name = name
        self.test = test
        self.user = f"{name}-{test.fixture.prefix}"
        self.generation = 1
        self.namespaces = set(namespaces)
        kubeconfig = test.cluster.user_kubeconfig(test.folder, self.user)
        test.grant(self.user)
        rules = self.rules()
        args = ["--write-fence", fence, "--cut-interval", "1"]
        self.proxy = test.proxy(rules.document, kubeconfig, args, control=True)
        self.judge = checker.Checker(test.cluster, rules, self.proxy.reload)
        # When it may have owned a namespace: [from, until confirmed], until None for now (ns).
        self.owned = collections.defaultdict(list)
        for namespace in namespaces:
            self.owned[namespace].append([time.time_ns(), None])
        self.operator = None

    def rules(self):
        values = ",".join(sorted(self.namespaces)) or "cmesh-none"
        selector = f"{harness.NAMESPACE_LABEL} in ({values})"
        plurals = [resource.plural for resource in RESOURCES]
        return random_rules.Rules([harness.limit(plurals, selector)], self.generation, self.name)

    def change(self, lost=(), gained=()):
        self.generation += 1
        self.namespaces = (self.namespaces - set(lost)) | set(gained)
        for namespace in gained:
            self.owned[namespace].append([time.time_ns(), None])
        self.judge.reload(self.rules())
        for namespace in lost:
            self.owned[namespace][-1][1] = time.time_ns()

    def start_operator(self):
        watches = ["typed:configmaps", f"dynamic:{resources.name_of(resources.GEARS)}"]
        self.operator = real_clients.go_informer(
            self.name, self.proxy.url, watches, writers=4, pause=0.005, queue=0.5
        )
        self.test.clients.append(self.operator)
        real_clients.wait_synced([self.operator])
        self.judge.add(self.operator)
        self.operator.say("write on")

    def end_operator(self):
        self.judge.remove(self.operator)
        self.test.clients.remove(self.operator)
        self.operator.close()
        return [event for event in self.operator.events if event.kind == "write"]

    def owns_at(self, namespace, moment, slack=0):
        return any(
            began <= moment and (ended is None or ended + slack >= moment)
            for began, ended in self.owned[namespace]
        )


def nanoseconds(text):
    """Of an RFC 3339 time with microseconds, as the audit log has it."""
    seconds, _, fraction = text.rstrip("Z").partition(".")
    whole = calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S"))
    return whole * 1_000_000_000 + int(fraction.ljust(9, "0"))


class HandoverTest(informer_case.InformerTestCase):
    namespaces = 8

    def grant(self, user):
        """Every right, so that nothing but localproxy keeps it from writing."""
        binding = {
            "metadata": {"name": user},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        self.cluster.json(path, "POST", binding)
        self.addCleanup(self.cluster.fetch, f"{path}/{user}", "DELETE")

    def make_objects(self, count):
        with self.fixture.connect() as connection:
            for namespace in self.fixture.namespaces:
                labels = {harness.NAMESPACE_LABEL: namespace}
                for resource in RESOURCES:
                    for i in range(count):
                        thing = resources.body(resource, f"owned-{i}", labels)
                        path = resources.path(resource, namespace)
                        self.fixture.write(connection, "POST", path, thing)

    def exchange(self, shards):
        """The loser first, as the manager does it; a moment in which nobody owns what moves."""
        one, other = self.pick.sample(shards, 2)
        lost = self.pick.sample(sorted(one.namespaces), min(2, len(one.namespaces)))
        one.change(lost=lost)
        time.sleep(0.1 * self.pick.random())
        other.change(gained=lost)

    def hand_over(self, fence, rounds, exchanges):
        half = len(self.fixture.namespaces) // 2
        shards = [
            Shard(self, "shard-a", self.fixture.namespaces[:half], fence),
            Shard(self, "shard-b", self.fixture.namespaces[half:], fence),
        ]
        self.make_objects(5)
        writes = {shard.name: [] for shard in shards}
        # New operators now and then: client-go is slow to list again after many a 410.
        for _ in range(rounds):
            for shard in shards:
                shard.start_operator()
            for i in range(5 * exchanges):
                if i >= exchanges and self.seen_enough(shards):
                    break
                time.sleep(self.pick.random())
                self.exchange(shards)
            for shard in shards:
                shard.operator.say("write off")
            for shard in shards:
                self.check_views(shard)
                writes[shard.name] += shard.end_operator()
        for shard in shards:
            self.check_answers(shard, writes[shard.name])
        late = sum(event.fields["code"] == 403 for some in writes.values() for event in some)
        self.assertGreater(late, LATE, "no write came too late: the test is worth nothing")
        self.check_audit_log(shards)

    @staticmethod
    def seen_enough(shards):
        """A busy machine needs more exchanges for that."""
        codes = [
            collections.Counter(e.fields["code"] for e in list(s.operator.events) if e.kind == "write")
            for s in shards
        ]
        return all(some[200] > MANY for some in codes) and sum(some[403] for some in codes) > LATE

    def check_views(self, shard):
        shard.judge.quiesce(60)

    def check_answers(self, shard, writes):
        """What the operator began to write after it had lost the namespace was refused."""
        codes = collections.Counter(event.fields["code"] for event in writes)
        informer_case.report(f"{shard.name}: answers {dict(codes)}")
        self.assertGreater(codes[200], MANY)
        self.assertLessEqual(set(codes), {200, 403})
        for event in writes:
            namespace = event.key.partition("/")[0]
            if event.fields["code"] == 200:
                # It was the shard's at some time between its beginning and its answer.
                began = event.fields["began"]
                owned = any(
                    since <= event.at and (ended is None or ended >= began)
                    for since, ended in shard.owned[namespace]
                )
                self.assertTrue(owned, f"{shard.name} wrote {event}")
            else:
                self.assertIn("cmesh", event.fields["message"])
                self.assertIn(shard.name, event.fields["message"])

    def check_audit_log(self, shards):
        """Writes as the API server received them, by the one that had the namespace."""
        by_user = {shard.user: shard for shard in shards}
        seen, latest = collections.Counter(), 0
        for entry in self.audit_entries():
            shard = by_user.get(entry["user"]["username"])
            place = entry.get("objectRef", {})
            if shard is None or entry["verb"] not in WRITES or "namespace" not in place:
                continue
            seen[shard.name] += 1
            moment = nanoseconds(entry["requestReceivedTimestamp"])
            namespace = place["namespace"]
            if not shard.owns_at(namespace, moment):
                ended = max(e for b, e in shard.owned[namespace] if e is not None and b <= moment)
                latest = max(latest, moment - ended)
            self.assertTrue(
                shard.owns_at(namespace, moment, UNDER_WAY_NS),
                f"{shard.name} reached {namespace} at {moment}: {shard.owned[namespace]}: {entry}",
            )
        for shard in shards:
            self.assertGreater(seen[shard.name], MANY)
        informer_case.report(
            f"the API server received {dict(seen)} writes; the latest {latest / 1e6:.1f} ms after "
            "its namespace was confirmed to be lost"
        )

    def audit_entries(self):
        """Of this test's users."""
        return audit.entries(self.cluster.env["CLUSTER_AUDIT_LOG"], self.fixture.prefix)

    def test_with_the_fence(self):
        self.hand_over("enforce", harness.reloads(60) // 30, 8)

    def test_without_the_fence_what_was_just_lost_is_fenced(self):
        self.hand_over("off", harness.reloads(60) // 60, 8)


if __name__ == "__main__":
    harness.main()
