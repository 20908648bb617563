# SPDX-License-Identifier: Apache-2.0
"""Traffic policies in front of a real API server: circuit breakers and fault injections of a
document that is written by hand, met by kubectl and by client-go's leader election.
"""

import json
import os
import re
import time
import unittest

import harness
import real_clients

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "namespaces": ["*"]}
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"]}
LISTS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}


def bucket(burst, limit, interval_ms):
    return {"burst": burst, "limit": limit, "interval": f"{interval_ms}ms"}


def breaker(rule, resources, name="guard", **limiting):
    limiting = {"name": rule, "resourceRules": [resources], **limiting}
    spec = {"selector": {}, "rateLimitings": [limiting]}
    return {"name": name, "uid": f"uid-{name}", "spec": spec}


def window(ms):
    return {"type": "SleepingWindow", "sleepingWindowSize": f"{ms}ms"}


# As it is in the demonstration of KusionStack's controller mesh.
DELETE_POD = breaker("deletePod", PODS, triggerPolicy="LimiterOnly", bucket=bucket(1, 1, 10000))


class TrafficTestCase(harness.TestCase):
    """A namespace, and localproxies before which kubectl is."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        cls.namespace = harness.make_namespace(cls.cluster, "traffic", cls.addClassCleanup)

    def setUp(self):
        super().setUp()
        self.traffic = self.path("traffic.json")
        self.state = self.path("breakers.json")
        self.started = 0

    def publish(self, breakers=(), faults=()):
        document = harness.traffic_document(breakers, faults)
        self.path("traffic.json", json.dumps(document))
        return document

    def start(self, rules=(), args=()):
        """A localproxy, and kubectl through it."""
        args = ["--traffic", self.traffic, "--breaker-state", self.state, *args]
        rules = list(rules) if isinstance(rules, (list, tuple)) else rules
        proxy = self.proxy(rules, args=args, control=True)
        self.started += 1
        folder = self.path(f"kubectl-{self.started}")
        os.mkdir(folder)
        return proxy, harness.Kubectl(folder, server=proxy.url)

    def make_pods(self, *names):
        for name in names:
            spec = {"containers": [{"name": "c", "image": "i"}]}
            self.cluster.json(f"/api/v1/namespaces/{self.namespace}/pods", "POST",
                              {"metadata": {"name": name}, "spec": spec})

    def delete(self, kubectl, name):
        """Exit code, output, errors."""
        return kubectl.run("-n", self.namespace, "delete", "pod", name, "--wait=false")

    def refused(self, proxy):
        """Deletes that were answered with 429, each of which kubectl has sent once."""
        return proxy.metrics().get('cmesh_proxy_requests_total{verb="delete",code="429"}', 0)


class BreakerTest(TrafficTestCase):
    def test_a_limit_of_deletes(self):
        self.publish([DELETE_POD])
        proxy, kubectl = self.start()
        self.make_pods("one", "two")
        self.assertEqual(0, self.delete(kubectl, "one")[0])
        code, _, errors = self.delete(kubectl, "two")
        self.assertEqual(1, code)
        self.assertIn('cmesh: circuitbreaker "cmesh-e2e/guard" rule "deletePod": over the limit of '
                      "1 in 10s", errors)
        self.assertIn("TooManyRequests", errors)
        self.assertEqual(1, self.refused(proxy))  # client-go has not slept and asked again
        self.assertEqual("Closed", proxy.breaker("deletePod")["state"])
        self.assertEqual(1, proxy.breaker("deletePod")["refused"])
        harness.wait_for(lambda: self.delete(kubectl, "two")[0] == 0, "a token is there again",
                         interval=1)
        self.assertEqual(404, self.cluster.fetch(
            f"/api/v1/namespaces/{self.namespace}/pods/two").status)

    def test_sessions_by_either_method(self):
        """kubectl opens exec, attach and port-forward by GET from 1.31 on, and by POST before, and
        may change from one to the other by itself: a rule for one verb is for both."""
        for subresource in ("exec", "attach", "portforward"):
            for verb in ("create", "get"):
                for first, second in (("GET", "POST"), ("POST", "GET")):
                    resources = {**PODS, "resources": [f"pods/{subresource}"], "verbs": [verb]}
                    self.publish([breaker("sessions", resources, triggerPolicy="LimiterOnly",
                                          bucket=bucket(1, 1, 3600000))])  # fmt: skip
                    proxy, _ = self.start()
                    path = f"/api/v1/namespaces/{self.namespace}/pods/none/{subresource}?command=id"
                    self.assertEqual(404, proxy.fetch(path, first).status)
                    answer = proxy.fetch(path, second)
                    self.assert_status_error(answer, 429, mentions=["over the limit of 1"])
                    self.assertEqual(404, proxy.fetch(path.partition("/none")[0] + "/none").status)
                    proxy.stop()

    def test_an_open_one_outlives_a_restart(self):
        normal = breaker("deletePod", PODS, triggerPolicy="Normal", bucket=bucket(1, 1, 100),
                         recoverPolicy=window(3600000))
        self.publish([normal])
        proxy, kubectl = self.start()
        self.make_pods("open-one", "open-two")
        self.assertEqual(0, self.delete(kubectl, "open-one")[0])
        none = f"/api/v1/namespaces/{self.namespace}/pods/none"
        harness.wait_for(lambda: proxy.fetch(none, "DELETE").status == 429, "it opens", interval=0)
        row = proxy.breaker("deletePod")
        self.assertEqual(("Opened", "over the limit"), (row["state"], row["why"]))
        proxy.kill()
        proxy.exit_code = -9
        proxy, kubectl = self.start()
        again = proxy.breaker("deletePod")
        self.assertEqual(("Opened", row["since"], row["until"]),
                         (again["state"], again["since"], again["until"]))
        self.assertRegex(self.delete(kubectl, "open-two")[2],
                         f"is open since {row['since']}, closes at {row['until']}")
        self.assertEqual(1, self.refused(proxy))
        # By hand.
        document = self.publish([{**normal, "reset": {"deletePod": "now"}}])
        self.assertEqual(200, proxy.control("PUT", document, "/v1/traffic")[0])
        self.assertEqual("Closed", proxy.breaker("deletePod")["state"])
        self.assertEqual(0, self.delete(kubectl, "open-two")[0])

    def test_a_window_of_two_seconds(self):
        self.publish([breaker("deletePod", PODS, triggerPolicy="Normal", bucket=bucket(1, 1, 1000),
                              recoverPolicy=window(2000))])
        proxy, _ = self.start()
        target = f"/api/v1/namespaces/{self.namespace}/pods/none"

        def ask():
            return proxy.fetch(target, "DELETE")

        self.assertEqual(404, ask().status)
        opened = time.monotonic()
        answer = harness.wait_for(lambda: (a := ask()).status == 429 and a, "it opens")
        self.assert_status_error(answer, 429, "TooManyRequests", ["over the limit of 1 in 1s"])
        self.assertIsNone(answer.get("Retry-After"))
        answers = []
        while not answers or answers[-1].status == 429:
            answers.append(ask())
            time.sleep(0.02)
        self.assertGreaterEqual(time.monotonic() - opened, 2.0)
        self.assertEqual(404, answers[-1].status)
        for answer in answers[:-1]:
            self.assert_status_error(answer, 429, "TooManyRequests", ["is open since", "closes at"])
            self.assertIsNone(answer.get("Retry-After"))

    def test_documents_over_the_control_socket(self):
        proxy, kubectl = self.start()
        self.assertFalse(proxy.status()["traffic"]["inForce"])
        forced = harness.traffic_document([breaker("all", EVERYTHING, triggerPolicy="ForceOpened")])
        code, body = proxy.control("PUT", forced, "/v1/traffic")
        self.assertEqual((200, True), (code, body["changed"]))
        self.assertEqual(1, body["enforced"]["generation"])
        self.assertEqual((200, False), (lambda c, b: (c, b["changed"]))(
            *proxy.control("PUT", forced, "/v1/traffic")))
        self.assertIn("ForceOpened", kubectl.run("-n", self.namespace, "get", "configmaps")[2])
        self.assertEqual(400, proxy.control("PUT", {"kind": "x"}, "/v1/traffic")[0])
        other = harness.traffic_document(shard="shard-b")
        self.assertEqual(409, proxy.control("PUT", other, "/v1/traffic")[0])
        self.assertIn("shard-b", proxy.status()["traffic"]["error"])
        self.assertTrue(proxy.status()["traffic"]["inForce"])
        self.assertEqual(200, proxy.control("DELETE", target="/v1/traffic")[0])
        self.assertFalse(proxy.status()["traffic"]["inForce"])
        kubectl("-n", self.namespace, "get", "configmaps")
        # And by the file.
        self.path("traffic.json", json.dumps(forced))
        proxy.signal(1)
        harness.wait_for(lambda: proxy.status()["traffic"]["inForce"], "the file is read again")

    def test_the_largest_documents_do_not_add_up(self):
        if harness.is_sanitized(harness.program("localproxy")):
            self.skipTest("a sanitizer keeps what was freed")
        proxy, _ = self.start()

        def large(generation):
            """As many rules and names as there may be, and almost as many bytes."""
            rules = []
            for n in range(1024):
                names = [f"{'r' * 30}-{generation}-{n}-{i}" for i in range(13)]
                rows = {**PODS, "resources": names}
                rules.append({"name": f"rule-{n}", "resourceRules": [rows],
                              "triggerPolicy": "Normal", "bucket": bucket(1, 1, 1000),
                              "recoverPolicy": window(1000)})
            policy = {"name": "guard", "spec": {"selector": {}, "rateLimitings": rules}}
            return harness.traffic_document([policy], generation=generation)

        for generation in range(1, 6):
            code, body = proxy.control("PUT", large(generation), "/v1/traffic")
            self.assertEqual(200, code, body)
        before = proxy.memory_kib()
        for generation in range(6, 40):
            self.assertEqual(200, proxy.control("PUT", large(generation), "/v1/traffic")[0])
        self.assertLess(proxy.memory_kib(), before + 8 * 1024)
        self.assertLess(proxy.memory_kib(), 96 * 1024)
        self.assertEqual(256, len(proxy.status()["traffic"]["breakers"]))
        self.assertEqual(768, proxy.status()["traffic"]["leftOut"])

    def test_a_watch_that_is_refused_keeps_its_place(self):
        self.publish([breaker("all", EVERYTHING, triggerPolicy="ForceOpened")])
        proxy, _ = self.start()
        answer = proxy.fetch(f"/api/v1/namespaces/{self.namespace}/configmaps?watch=1")
        self.assert_status_error(answer, 429, "TooManyRequests", ["ForceOpened"])


class WorkerTest(TrafficTestCase):
    def test_an_open_breaker_holds_up_no_reload(self):
        """What localproxy itself asks when rules change is exempt: an open watch migrates to the
        other part of the objects while nothing of the operator's gets through."""
        _, missing = real_clients.go_folder()
        if missing:
            self.skipTest(missing)

        def rules(part, generation):
            limit = harness.limit(["configmaps"], f"part={part}", [""])
            return harness.rules_document(limit, generation=generation)

        maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        for part in ("a", "b"):
            thing = {"metadata": {"name": f"part-{part}", "labels": {"part": part}}}
            self.cluster.json(maps, "POST", thing)
        self.publish()
        proxy, kubectl = self.start(rules("a", 1))
        watch = f"typed:configmaps@{self.namespace}"
        informer = real_clients.go_informer("informer", proxy.url, [watch])
        self.addCleanup(informer.close)
        real_clients.wait_synced([informer])
        self.assertEqual([f"{self.namespace}/part-a"], list(informer.dump()[watch]))
        closed = harness.traffic_document([breaker("all", EVERYTHING, triggerPolicy="ForceOpened")])
        self.assertEqual(200, proxy.control("PUT", closed, "/v1/traffic")[0])
        proxy.reload(rules("b", 2))
        harness.wait_for(lambda: list(informer.dump()[watch]) == [f"{self.namespace}/part-b"],
                         "the watch follows the rules")
        self.assertIn("is open since", kubectl.run("-n", self.namespace, "get", "configmaps")[2])

    def test_an_open_breaker_holds_up_no_worker(self):
        """client-go sleeps in a call that is answered with Retry-After, and sends it again: up to
        ten times. Under an open breaker each call fails at once, and the operator's queue has it."""
        _, missing = real_clients.go_folder()
        if missing:
            self.skipTest(missing)
        patches = {**EVERYTHING, "resources": ["configmaps"], "verbs": ["patch"]}
        self.publish([breaker("patches", patches, triggerPolicy="ForceOpened")])
        proxy, _ = self.start()
        maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.cluster.json(maps, "POST", {"metadata": {"name": "work"}})
        watch = f"dynamic:configmaps@{self.namespace}"
        worker = real_clients.go_informer("worker", proxy.url, [watch], writers=1)
        self.addCleanup(worker.close)
        real_clients.wait_synced([worker])
        worker.say("write on")
        harness.wait_for(lambda: len(worker.of(watch, "write")) >= 200, "calls have failed")
        worker.close()
        calls = worker.of(watch, "write")
        self.assertEqual({429}, {call.fields["code"] for call in calls})
        begun = [call.fields["began"] / 1e6 for call in calls]
        took = sorted(after - before for before, after in zip(begun, begun[1:]))
        median = took[len(took) // 2]
        print(f"a call under an open breaker takes client-go {median:.2f} ms", flush=True)
        self.assertLess(median, 100)  # ms; sleeping would take a second
        refused = proxy.metrics()['cmesh_proxy_requests_total{verb="patch",code="429"}']
        self.assertLessEqual(refused - len(calls), 1)  # none was sent twice; one may be under way


class InformerTest(TrafficTestCase):
    """Of each client library one that watches ConfigMaps, each as its users write it."""

    def start_clients(self, proxy):
        self.watches = {"json": f"json:configmaps@{self.namespace}",
                        "js": f"configmaps@{self.namespace}",
                        "python": f"endless:configmaps@{self.namespace}"}  # fmt: skip
        _, missing = real_clients.go_folder()
        if missing:
            self.skipTest(missing)
        self.clients = {
            "json": real_clients.go_informer("go", proxy.url, [self.watches["json"]])
        }
        if real_clients.install_js_client():
            folder = self.make_folder(self.addCleanup)
            watches = [self.watches["js"]]
            self.clients["js"] = real_clients.js_informer("js", proxy.url, watches, folder)
        if real_clients.have_python_client():
            watches = [self.watches["python"]]
            self.clients["python"] = real_clients.python_informer("python", proxy.url, watches)
        for client in self.clients.values():
            self.addCleanup(client.close)
        real_clients.wait_synced(self.clients.values())

    def all_hold(self, name):
        return all(
            list(client.dump()[self.watches[form]]) == [f"{self.namespace}/{name}"]
            for form, client in self.clients.items()
        )

    def test_they_bear_an_open_breaker(self):
        """They must list again while nothing is let through, and do so once it is."""
        for part in ("a", "b"):
            thing = {"metadata": {"name": f"bear-{part}", "labels": {"bear": part}}}
            self.cluster.json(f"/api/v1/namespaces/{self.namespace}/configmaps", "POST", thing)
        limits = [harness.limit(["configmaps"], f"bear={part}", [""]) for part in ("a", "b")]
        self.publish()
        proxy, _ = self.start(harness.rules_document(limits[0]), ["--reload-mode=cut"])
        self.start_clients(proxy)
        self.assertTrue(self.all_hold("bear-a"))
        closed = harness.traffic_document([breaker("all", EVERYTHING, triggerPolicy="ForceOpened")])
        self.assertEqual(200, proxy.control("PUT", closed, "/v1/traffic")[0])
        proxy.reload(harness.rules_document(limits[1], generation=2))
        harness.wait_for(lambda: proxy.breaker("all")["refused"] >= 3 * len(self.clients),
                         "they ask again and again")
        self.assertEqual(200, proxy.control("DELETE", target="/v1/traffic")[0])
        harness.wait_for(lambda: self.all_hold("bear-b"), "all follow the rules", 90, 0.2)


class FaultTest(TrafficTestCase):
    def fault(self, **rule):
        rule = {"name": "lists", "match": {"resources": [LISTS]}, **rule}
        return {"name": "slow", "spec": {"selector": {}, "httpFault": [rule]}}

    def test_a_delay(self):
        self.publish(faults=[self.fault(delay={"fixedDelay": "1500ms", "percent": 100})])
        proxy, kubectl = self.start()
        begun = time.monotonic()
        out = kubectl("-n", self.namespace, "get", "configmaps", "-o", "name")
        self.assertGreaterEqual(time.monotonic() - begun, 1.5)
        self.assertEqual(out, harness.Kubectl(self.folder, self.cluster.kubeconfig)(
            "-n", self.namespace, "get", "configmaps", "-o", "name"))
        row = proxy.status()["traffic"]["faults"][0]
        self.assertEqual(("slow", "lists", 1, 0),
                         (row["policy"], row["rule"], row["delayed"], row["aborted"]))

    def test_an_abort(self):
        self.publish(faults=[self.fault(abort={"httpStatus": 503, "percent": 100})])
        proxy, kubectl = self.start()
        code, _, errors = kubectl.run("-n", self.namespace, "get", "configmaps")
        self.assertEqual(1, code)
        self.assertIn('cmesh: faultinjection "cmesh-e2e/slow" rule "lists": answered with 503',
                      errors)
        self.assertIn("ServiceUnavailable", errors)
        kubectl("-n", self.namespace, "get", "secrets")
        self.assertGreaterEqual(
            proxy.metrics()['cmesh_proxy_faults_total{policy="slow",rule="lists",kind="abort"}'], 1)


class LeaderTest(TrafficTestCase):
    def renewed(self):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/operator---shard-a"
        answer = self.cluster.fetch(path)
        return json.loads(answer.body)["spec"]["renewTime"] if answer.status == 200 else ""

    def check_leader(self, **lock):
        _, missing = real_clients.go_folder()
        if missing:
            raise unittest.SkipTest(missing)
        rules = harness.rules_document()
        rules["spec"]["leaderElection"] = {"name": "operator"}
        self.publish(
            [breaker("all", EVERYTHING, triggerPolicy="LimiterOnly", bucket=bucket(1, 1, 60000))],
            [{"name": "never", "spec": {"selector": {}, "httpFault": [
                {"name": "all", "match": {"resources": [{}]},
                 "abort": {"httpStatus": 500, "percent": 100},
                 "effectiveTime": {"startTime": "00:00:00", "endTime": "23:59:59"}}]}}]
            if lock else (),
        )
        proxy, _ = self.start(rules, ["--pod-namespace", self.namespace])
        proxy.fetch(f"/api/v1/namespaces/{self.namespace}/pods")
        self.assertIn(proxy.fetch(f"/api/v1/namespaces/{self.namespace}/pods").status, (429, 500))
        elector = real_clients.go_elector("replica", proxy.url, namespace=self.namespace,
                                          name="operator", lease_duration="8s",
                                          renew_deadline="6s", retry_period="500ms", **lock)
        self.addCleanup(elector.close)
        return proxy, elector

    @staticmethod
    def kinds(elector):
        return [e.kind for e in list(elector.events) if e.kind in ("leading", "stopped")]

    def test_a_limit_of_everything_keeps_the_leader(self):
        proxy, elector = self.check_leader()
        harness.wait_for(lambda: self.kinds(elector) == ["leading"], "it leads", 30)
        renewals = {self.renewed()}

        def renewed_often():
            renewals.add(self.renewed())
            return len(renewals) > 20  # 10 s: longer than a lock holds that is not renewed

        harness.wait_for(renewed_often, "the lock is renewed")
        self.assertEqual(["leading"], self.kinds(elector))
        self.assertEqual(429, proxy.fetch(f"/api/v1/namespaces/{self.namespace}/pods").status)

    @unittest.skipIf(harness.modern(), "client-go of today has no such lock")
    def test_nor_does_a_fault_touch_a_lock_in_a_config_map(self):
        _, elector = self.check_leader(lock="configmaps")
        harness.wait_for(lambda: self.kinds(elector) == ["leading"], "it leads", 30)
        seen = set()
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/operator---shard-a"

        def renewed_often():
            seen.add(re.search(rb'renewTime[^,]*', self.cluster.fetch(path).body)[0])
            return len(seen) > 20

        harness.wait_for(renewed_often, "the lock is renewed")
        self.assertEqual(["leading"], self.kinds(elector))


if __name__ == "__main__":
    harness.main()
