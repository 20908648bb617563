# SPDX-License-Identifier: Apache-2.0
"""A reload that changes nothing for a watch is not felt by it: the same connection, no event
missing or doubled, no list.
"""

import collections
import time

import harness
import informer_case
import limits_test
import objects
import random_rules
import real_clients
import resources
import wire_informer

UNTOUCHED = (resources.SECRETS, resources.PODS, resources.GEARS)

KINDS = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}


class UntouchedTest(informer_case.InformerTestCase):
    def setUp(self):
        super().setUp()
        half = self.fixture.namespaces[: len(self.fixture.namespaces) // 2]
        self.selector = f"app,{harness.NAMESPACE_LABEL} in ({','.join(half)})"
        plurals = [resource.plural for resource in UNTOUCHED[:2]]
        # Gears have no limit of their own, before or after.
        self.still = harness.limit(plurals, self.selector)
        self.shows = objects.parse_selector(self.selector)

    def rules(self, generation, others):
        """The same for the untouched, written in another way each time."""
        limits = [harness.limit(["configmaps", "services"], other) for other in others]
        limits += [harness.limit(["gears"], "app,!app", groups=["elsewhere.example"])] * len(others)
        limits.insert(self.pick.randrange(len(limits) + 1), self.still)
        return random_rules.Rules(limits, generation)

    def others(self):
        generator = random_rules.Generator(self.pick, self.fixture.namespaces, resources.ALL)
        return [generator.selector() for _ in range(self.pick.choice((0, 1, 2)))]

    def start_history(self):
        """Watches without localproxy, which tell the truth, and what there was before."""
        self.before, self.truth = {}, {}
        for resource in UNTOUCHED:
            path = resources.path(resource)
            answer = self.cluster.fetch(path)
            items = objects.json_list(answer.body)
            self.before[resource] = {(item.namespace, item.name): item for item in items}
            version = objects.list_version(answer)
            target = f"{path}?watch=true&resourceVersion={version}"
            self.truth[resource] = limits_test.Watch(self.fixture.connect(), target)
            self.addCleanup(self.truth[resource].close)

    def expected(self, watch):
        """key -> what a handler hears of it, in order."""
        resource, namespace = resources.of_watch(watch)
        shows = self.shows if resource != resources.GEARS else lambda labels: True
        history = [event for event in self.truth[resource].events if event.type != "BOOKMARK"]
        heard = collections.defaultdict(list)
        before = self.before[resource]
        for (place, name), item in before.items():
            if shows(item.labels) and namespace in ("", place):
                heard[f"{place}/{name}"].append(("add", item.resource_version))
        for kind, (place, name), version in limits_test.expected_events(history, before, shows):
            if namespace in ("", place):
                heard[f"{place}/{name}"].append((KINDS[kind], version))
        return heard

    @staticmethod
    def heard(client, watch):
        heard = collections.defaultdict(list)
        for event in client.of(watch, "add", "update", "delete"):
            heard[event.key].append((event.kind, event.version))
        return heard

    def start_clients(self, proxy):
        gears = resources.name_of(resources.GEARS)
        one = self.fixture.namespaces[0]
        forms = ["typed:secrets", "typed:pods", "json:pods", f"metadata:pods@{one}"]
        forms += ["metadata:secrets", f"dynamic:{gears}"]
        self.clients.append(real_clients.go_informer("go", proxy.url, forms))
        if real_clients.install_js_client():
            forms = ["secrets", "pods", gears]
            self.clients.append(
                real_clients.js_informer("js", proxy.url, forms, self.js_folder)
            )
        if real_clients.have_python_client():
            forms = ["endless:secrets", f"endless:pods@{one}", f"limited:{gears}"]
            self.clients.append(real_clients.python_informer("python", proxy.url, forms))
        self.connected = list(self.clients)
        for form in ("json:secrets", "protobuf:pods", f"json:{gears}"):
            self.clients.append(wire_informer.WireInformer("wire", proxy.listen, form))
        real_clients.wait_synced(self.clients)

    def test_other_resources_change(self):
        proxy = self.proxy(self.rules(1, ["app"]).document, control=True)
        self.fixture.fill(10)
        self.start_history()
        self.start_clients(proxy)
        touched = wire_informer.WireInformer("touched", proxy.listen, "json:configmaps")
        self.addCleanup(touched.close)
        real_clients.wait_synced([touched])
        watches = sum(len(client.watches) for client in [*self.clients, touched])
        harness.wait_for(
            lambda: proxy.metrics()["cmesh_proxy_open_watches"] == watches, "all watches are open"
        )
        connections = [client.connections(proxy.listen) for client in self.connected]
        self.fixture.start()
        count = harness.reloads(100)
        for generation in range(2, count + 2):
            time.sleep(0.1 * self.pick.random())
            proxy.reload(self.rules(generation, self.others()).document)
        self.fixture.stop()
        for client in self.clients:
            for watch in client.watches:
                with self.subTest(client=client.name, watch=watch):
                    self.check(client, watch)
        now = [client.connections(proxy.listen) for client in self.connected]
        self.assertEqual(connections, now)
        # The reloads were felt where they had to be: what comes back had been away.
        added = collections.Counter(e.key for e in touched.of("json:configmaps", "add"))
        self.assertGreater(max(added.values()), count // 20)
        heard = sum(len(client.events) for client in self.clients)
        informer_case.report(f"{count} reloads, {self.fixture.writes} writes, {heard} events heard")

    def check(self, client, watch):
        expected, heard = self.expected(watch), self.heard(client, watch)
        deadline = time.monotonic() + 60
        while heard != expected and time.monotonic() < deadline:
            time.sleep(0.1)
            expected, heard = self.expected(watch), self.heard(client, watch)
        for key in expected.keys() | heard.keys():
            self.assertEqual(expected[key], heard[key], key)
        self.assertEqual(1, len(client.of(watch, "list")))
        self.assertEqual(1, len(client.of(watch, "watch")))
        self.assertEqual([], client.of(watch, "error", "expired", "ended"))


if __name__ == "__main__":
    harness.main()
