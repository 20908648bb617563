# SPDX-License-Identifier: Apache-2.0
"""Rules change while something else goes wrong: connections are lost, the API server is away, or
has forgotten what was. Informers end up with the truth all the same, and never see anything else.
"""

import json
import time

import checker
import etcd
import harness
import informer_case
import real_clients
import relay
import reload_case
import resources
import wire_informer


class LostConnectionsTest(reload_case.ReloadTestCase):
    """Clients lose connections at the same time, and go on from where they believe to be."""

    def lose_connections(self, reloads):
        between = relay.Relay(self.proxy_process.listen)
        self.addCleanup(between.close)

        def disturb():
            if self.pick.random() < 0.7:
                between.cut(self.pick, 0.3)
                for client in self.clients:
                    if isinstance(client, wire_informer.WireInformer) and self.pick.random() < 0.3:
                        client.hang_up()
            if self.pick.random() < 0.5:
                time.sleep(self.pick.random() * 0.05)

        self.follow_all(reloads, (0.2,), between.url, disturb)

    def test_lost_connections(self):
        self.lose_connections(harness.reloads(50))


class LostConnectionsCutTest(LostConnectionsTest):
    mode = "cut"

    def test_lost_connections(self):
        self.lose_connections(harness.reloads(25))


class RestartTest(reload_case.ReloadTestCase):
    """localproxy is killed and another begins, with other rules, which knows nothing of what
    clients have seen. Objects change meanwhile: of two clients that have seen different rules at
    one version it could not tell which is which."""

    def start_clients(self, proxy, url=None):
        """Many with the same view, which go on from the same version."""
        forms = ["typed:pods", "json:pods", "metadata:pods", "dynamic:pods"]
        self.clients.append(real_clients.go_informer("go", url, forms))
        super().start_clients(proxy, url)
        exact = [c for c in self.clients if isinstance(c, wire_informer.WireInformer)]
        for client in exact:  # they know of this localproxy alone
            self.clients.remove(client)
            client.close()
        for form in ("fabric8:pods", "kube-rs:pods"):
            client = wire_informer.WireInformer("wire", self.between.address, form, exact=False)
            self.clients.append(client)
        real_clients.wait_synced(self.clients)
        return self.clients

    def setUp(self):
        super().setUp()
        self.between = relay.Relay(self.proxy_process.listen)
        self.addCleanup(self.between.close)
        self.judge = checker.Checker(self.cluster, self.rules, self.restart)
        self.judge.add(*self.start_clients(self.proxy_process, self.between.url))

    def restart(self, document):
        self.proxy_process.kill()
        self.proxy_process.wait()
        self.proxy_process = self.start_proxy_process(document)
        self.between.lead_to(self.proxy_process.listen)

    def change_rules(self):
        self.rules = self.generator.next()
        self.judge.reload(self.rules)

    def test_rules_change_while_localproxy_is_away(self):
        for _ in range(3):
            self.fixture.start()
            self.change_rules()
            self.fixture.stop()
            self.judge.quiesce(reload_case.QUIESCENCE)


class RestartWithStateTest(RestartTest):
    """The one that begins knows what the one before showed to whom."""

    def proxy_options(self):
        return [*super().proxy_options(), "--state", self.path("state")]

    def test_rules_change_and_nothing_else(self):
        """All that clients list is of the version that they had before."""
        for _ in range(3):
            self.change_rules()
            self.judge.quiesce(reload_case.QUIESCENCE)

    def test_rules_stay(self):
        """Nobody is told to list again, and nobody misses what changes meanwhile."""
        for _ in range(3):
            self.fixture.start()
            self.restart(self.rules.document)
            self.fixture.stop()
            self.judge.quiesce(reload_case.QUIESCENCE)
            metrics = self.proxy_process.metrics()
            self.assertEqual(0, metrics["cmesh_proxy_resumes_refused_total"])


class SlowReaderTest(reload_case.ReloadTestCase):
    """Rules change again while clients still read what the change before gained and lost."""

    def maybe_wait_written(self):
        """Now and then until a difference is being written, or there is none any more: on a busy
        machine the next change is there before."""

        def look():
            states = {watch["state"] for watch in self.proxy_process.status()["watches"]}
            return "WritingDifference" in states or states <= {"Passing"}

        if self.pick.random() < 0.5:
            harness.wait_for(look, "a difference is written")

    def test_slow_readers(self):
        self.fixture.fill_heavily(300, 30_000)
        judge = checker.Checker(self.cluster, self.rules, self.proxy_process.reload)
        for form in ("json:configmaps", "protobuf:configmaps", "partial:configmaps"):
            address = self.proxy_process.listen
            self.clients.append(wire_informer.WireInformer("slow", address, form, slow=True))
        real_clients.wait_synced(self.clients)
        judge.add(*self.clients)
        # What stood in full socket buffers when the rules changed cannot be taken back.
        judge.allowed = lambda client, event: True
        for _ in range(3):
            for client in self.clients:
                client.slow = True
            self.change(judge, 12, 0.15, disturb=self.maybe_wait_written)
            for client in self.clients:
                client.slow = False
            delay = judge.quiesce(60)
            lists = sum(judge.lists().values())
            informer_case.report(f"caches right after {delay:.1f} s, {lists} lists")
        metrics = self.proxy_process.metrics()
        self.assertGreater(metrics['cmesh_proxy_fallbacks_total{reason="superseded"}'], 0)


class OutageTest(reload_case.ReloadTestCase):
    """The API server refuses connections for a moment, and then is the same as before: one of
    several behind an address, or one that had no time."""

    def start_proxy_process(self, document):
        self.between = relay.Relay(self.cluster.address)
        self.addCleanup(self.between.close)
        self.server = "https://" + self.between.address
        self.kubeconfig = self.path("relayed.kubeconfig")
        with open(self.cluster.kubeconfig, encoding="utf-8") as original:
            text = original.read().replace(self.cluster.env["APISERVER"], self.server)
        with open(self.kubeconfig, "w", encoding="utf-8") as relayed:
            relayed.write(text)
        return self.proxy(document, self.kubeconfig, self.proxy_options(), control=True)

    def test_informers_list_no_more_than_without_localproxy(self):
        forms = ["typed:configmaps", "json:secrets", "metadata:pods", f"dynamic:{informer_case.GEARS}"]
        more = {"kubeconfig": self.kubeconfig}
        judge = checker.Checker(self.cluster, self.rules, self.proxy_process.reload)
        direct = real_clients.go_informer("direct", self.server, forms, **more)
        through = real_clients.go_informer("through", self.proxy_process.url, forms)
        self.clients += [direct, through]
        real_clients.wait_synced(self.clients)
        judge.add(through)
        harness.wait_for(
            lambda: len(self.proxy_process.status()["watches"]) == len(forms), "all watches are open"
        )
        time.sleep(1.5)  # client-go lists after a watch of less than a second
        before = [self.lists_of(client) for client in (direct, through)]
        self.between.refuse()
        time.sleep(5)
        self.between.accept_again()
        self.fixture.start()
        self.fixture.stop()
        judge.quiesce(reload_case.QUIESCENCE)
        after = [self.lists_of(client) for client in (direct, through)]
        directly, behind = (b - a for a, b in zip(before, after))
        informer_case.report(f"{directly} lists directly, {behind} behind localproxy")
        self.assertLessEqual(behind, directly)

    @staticmethod
    def lists_of(client):
        return sum(len(client.of(watch, "list")) for watch in client.watches)


class LostServerTest(reload_case.ReloadTestCase):
    control_plane = staticmethod(harness.disposable_cluster)

    def test_rules_change_while_the_api_server_is_away(self):
        judge = checker.Checker(self.cluster, self.rules, self.proxy_process.reload)
        judge.add(*self.start_clients(self.proxy_process))
        for _ in range(2):
            self.cluster.stop_apiserver()
            self.change(judge, 5, 0.1)
            self.cluster.start_apiserver()
            self.fixture.start()
            self.change(judge, 5, 0.1)
            self.fixture.stop()
        self.settle(judge)

    def test_rules_change_while_the_api_server_forgets(self):
        """What the difference of two selectors was at a version cannot be asked any more."""

        def disturb():
            if self.pick.random() < 0.3:
                etcd.compact_all(self.cluster)

        self.follow(40, 0.1, disturb=disturb)
        informer_case.report(f"migrated: {self.metric('transitions_total'):.0f}, not since "
                             f"it had expired: {self.expired():.0f}")

    def metric(self, name):
        return self.proxy_process.metrics()[f"cmesh_proxy_{name}"]

    def expired(self):
        return self.metric('fallbacks_total{reason="expired"}')

    def nothing_else_changes(self):
        """The namespaces of other tests are gone, and this one's have all that is put there for them
        by the API server's controllers, if it has any."""
        namespaces = self.cluster.json("/api/v1/namespaces")["items"]
        if not harness.has_authority(self.cluster, "default"):
            return all(item["status"]["phase"] == "Active" for item in namespaces)
        path = "/api/v1/configmaps?fieldSelector=metadata.name=kube-root-ca.crt"
        given = {item["metadata"]["namespace"] for item in self.cluster.json(path)["items"]}
        return all(
            item["status"]["phase"] == "Active" and item["metadata"]["name"] in given
            for item in namespaces
        )

    def change_something_else(self, number):
        """That is in no informer's view, nor makes the API server change such."""
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        name = f"other-{number}-{self.seed}"
        self.cluster.json(path, "POST", {"metadata": {"name": name}})
        self.addCleanup(self.cluster.fetch, f"{path}/{name}", "DELETE")

    def assert_forgotten(self, path):
        """What the API server has in memory is of a version that etcd has no more; from 1.34 on lists
        of a version are made of what is in memory."""
        version = self.cluster.json(f"{path}?resourceVersion=0")["metadata"]["resourceVersion"]
        exact = f"{path}?resourceVersion={version}&resourceVersionMatch=Exact"
        known = self.cluster.behaves_as() >= (1, 34)
        self.assertEqual(200 if known else 410, self.cluster.fetch(exact).status)

    @staticmethod
    def version_in_memory(server, resource, namespace):
        answer = server.fetch(resources.path(resource, namespace) + "?resourceVersion=0")
        return json.loads(answer.body)["metadata"]["resourceVersion"]

    def let_clients_list_from_memory(self):
        """Without a file, localproxy asks for the newest version at first; and what is in memory may be
        from before it began, until something changes."""
        options = [*self.proxy_options(), "--resume-doubt", "1"]
        self.proxy_process = self.proxy(
            self.rules.document, self.cluster.kubeconfig, options, control=True
        )
        namespace = self.fixture.namespaces[0]
        for resource in resources.ALL:
            path = resources.path(resource, namespace)
            self.assertEqual(200, self.proxy_process.fetch(path).status)
            self.cluster.json(path, "POST", resources.body(resource, "younger", {}))
        self.change_something_else("newest")
        harness.wait_for(
            lambda: all(
                self.version_in_memory(self.proxy_process, resource, namespace)
                == self.version_in_memory(self.cluster, resource, namespace)
                for resource in resources.ALL
            ),
            "lists come from the API server's memory",
        )

    def test_rules_change_while_it_forgets_and_nothing_else_does(self):
        """What it has in memory is still what was there at the version that the clients have."""
        self.let_clients_list_from_memory()
        harness.wait_for(self.nothing_else_changes, "nothing else changes", interval=0.1)
        judge = checker.Checker(self.cluster, self.rules, self.proxy_process.reload)
        forms = ["typed:configmaps", "json:secrets", "metadata:pods", f"dynamic:{informer_case.GEARS}"]
        url = self.proxy_process.url
        self.clients.append(real_clients.go_informer("go", url, forms))
        real_clients.wait_synced(self.clients)
        judge.add(*self.clients)
        for number in range(20):
            self.change_something_else(number)
            etcd.compact_all(self.cluster)
            self.assert_forgotten("/api/v1/configmaps")
            self.change(judge, 1, 0.1)
        self.settle(judge)
        self.assertEqual(0, self.expired())
        self.assertGreater(self.metric("transitions_total"), 0)


if __name__ == "__main__":
    harness.main()
