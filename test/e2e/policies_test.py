# SPDX-License-Identifier: Apache-2.0
"""From `kubectl apply` of CircuitBreakers and FaultInjections to requests that are refused: one
manager, a shard of two pods with the real sidecars, and what users see of it.
"""

import http.client
import http.server
import json
import os
import signal
import statistics
import sys
import threading
import time

import harness
import mesh
import shard

DEMO = os.path.join(
    harness.ROOT, "test", "unit", "manager", "policy", "kusionstack_circuitbreaker.yaml"
)
FINALIZER = f"finalizer.{mesh.GROUP}/protected"
RECOVER = f"circuitbreaker.{mesh.GROUP}/recover"
DISABLE = f"circuitbreaker.{mesh.GROUP}/disable"
TOLD = mesh.GROUP + "/traffic-generation"
DELETES = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "namespaces": ["*"]}
MERGE = "application/merge-patch+json"


def setUpModule():
    mesh.install()


def report(text):
    print(text, file=sys.stderr, flush=True)


def breaker(name="guard", trigger="ForceOpened", selector=None, **limiting):
    limiting = {"name": "deletePod", "resourceRules": [DELETES], "triggerPolicy": trigger, **limiting}
    selector = {"matchLabels": {"shard": "shard-a"}} if selector is None else selector
    return {
        "apiVersion": f"{mesh.GROUP}/v1alpha1",
        "kind": "CircuitBreaker",
        "metadata": {"name": name},
        "spec": {"selector": selector, "rateLimitings": [limiting]},
    }


def normal(interval="1h", **recover):
    bucket = {"burst": 1, "limit": 1, "interval": interval}
    return breaker(trigger="Normal", bucket=bucket, recoverPolicy=recover)


class PoliciesTestCase(mesh.MeshTestCase):
    def setUp(self):
        super().setUp()
        self.policies = f"{mesh.API}/namespaces/{self.namespace}/circuitbreakers"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.made = 0

    def labelled(self, name, of="shard-a", **labels):
        """A pod whose localproxy knows the labels, as an injected one does."""
        pod = self.pod(name, of, {"shard": of, **labels})
        volume = shard.Volume(os.path.join(pod.folder, "pod"))
        lines = (f"{key}={json.dumps(value)}" for key, value in pod.labels.items())
        volume.put({"labels": "\n".join(lines)})
        pod.proxy_args = ["--pod-labels", os.path.join(volume.path, "labels")]
        pod.proxy_args += ["--breaker-state", os.path.join(pod.folder, "breakers.json")]
        return pod

    def begin(self, *args, pods=2):
        """A manager, and a shard that is enforced."""
        manager = self.manager(*args)
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        started = [self.labelled(f"shard-a-{i}").start() for i in range(pods)]
        self.wait_enforced("shard-a", pods=pods)
        return manager, started

    # ---- policies ----

    def policy(self, name="guard"):
        return self.cluster.json(f"{self.policies}/{name}")

    def annotate(self, annotations, name="guard", key="annotations"):
        body = {"metadata": {key: annotations}}
        self.cluster.json(f"{self.policies}/{name}", "PATCH", body, MERGE)

    def wait_policy(self, name, kind, status, reason, timeout=60):
        found = []

        def look():
            found[:] = [self.policy(name)]
            c = mesh.condition(found[0], kind)
            observed = c.get("observedGeneration") == found[0]["metadata"]["generation"]
            return observed and (c.get("status"), c.get("reason")) == (status, reason)

        try:
            harness.wait_for(look, f"{name}: {kind} is {status} {reason}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(found[0].get('status'))}") from None
        return found[0]

    def in_force(self, pods, name="guard"):
        return self.wait_policy(name, "Enforced", "True", "Enforced")["status"]["pods"] == len(pods)

    def traffic(self, name="shard-a"):
        """The document in the ConfigMap; None: there is none."""
        text = self.map_of(name)["data"].get("traffic.json")
        return None if text is None else json.loads(text)

    def events(self, reason, name="guard"):
        """How often it was told."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        found = self.cluster.json(path)["items"]
        return sum(
            e["count"]
            for e in found
            if e["reason"] == reason and e["involvedObject"]["name"] == name
        )

    # ---- requests ----

    def victim(self):
        """The name of a pod to delete."""
        self.made += 1
        name = f"victim-{self.made}"
        spec = {"containers": [{"name": "c", "image": "i"}]}
        self.cluster.json(self.pods, "POST", {"metadata": {"name": name}, "spec": spec})
        return name

    def delete_through(self, pod, name=None):
        """The status of the answer, and what it says."""
        target = f"{self.pods}/{name or self.victim()}?gracePeriodSeconds=0"
        answer = pod.proxy.fetch(target, "DELETE")
        return answer.status, json.loads(answer.body).get("message", "")


class PublishTest(PoliciesTestCase):
    def test_the_manifest_of_another_mesh(self):
        """As its users have them, in a namespace whose pods it is for: the rule for the API server is
        enforced, and the status says what the rest needs, and what tunnels hide of it."""
        self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pods = [self.labelled(f"shard-a-{i}", app="operator-demo").start() for i in range(2)]
        self.wait_enforced("shard-a", pods=2)
        self.here("apply", "-f", DEMO)
        thing = self.wait_policy("breaker-demo", "Enforced", "False", "NoEgress")
        message = mesh.condition(thing, "Enforced")["message"]
        self.assertIn("annotate the pods with ctrlmesh.kusionstack.io/egress: proxy: shard", message)
        self.assertEqual(1, message.count("only requests that are sent to localproxy's proxy"))
        compiled = mesh.condition(thing, "Compiled")
        self.assertEqual(("True", "PartlyEnforceable"), (compiled["status"], compiled["reason"]))
        self.assertIn('rules "trafficOffLimit", "test": nobody sees paths', compiled["message"])
        (policy,) = self.traffic()["spec"]["breakers"]
        names = [x["name"] for x in policy["spec"]["rateLimitings"]]
        self.assertEqual(["deletePod", "trafficOffLimit"], names)
        names = [x["name"] for x in policy["spec"]["trafficInterceptRules"]]
        self.assertEqual(["test"], names)
        first, second = self.victim(), self.victim()
        self.assertEqual(200, self.delete_through(pods[0], first)[0])
        status, message = self.delete_through(pods[0], second)
        self.assertEqual(429, status)
        self.assertIn(f'circuitbreaker "{self.namespace}/breaker-demo" rule "deletePod"', message)
        self.assertEqual(200, self.delete_through(pods[1], second)[0])  # each counts for itself
        table = self.here("get", "cbk")
        self.assertRegex(table, r"NAME +PODS +OPEN +ENFORCED +AGE\n")
        self.assertRegex(table, r"breaker-demo +2 +0 +0/2 ")

    def test_opened_by_force_in_all_pods(self):
        """Within seconds, though the rules stay as they are; and closed as soon when it is gone."""
        _, pods = self.begin()
        rules = self.map_of("shard-a")["data"]["rules.json"]
        times = []
        for _ in range(5):
            begun = time.monotonic()
            self.apply(breaker())
            for pod in pods:
                harness.wait_for(lambda pod=pod: self.delete_through(pod)[0] == 429, "it is open")
            times.append(1000 * (time.monotonic() - begun))
            self.in_force(pods)
            self.assertEqual(rules, self.map_of("shard-a")["data"]["rules.json"])
            generation = str(self.traffic()["generation"])
            for pod in pods:
                self.assertEqual(generation, pod.object()["metadata"]["annotations"][TOLD])
            self.cluster.json(f"{self.policies}/guard", "DELETE")
            for pod in pods:
                harness.wait_for(lambda pod=pod: self.delete_through(pod)[0] == 200, "it is gone")
            self.assertIsNone(self.traffic())
        report(f"in force after {statistics.median(times):.0f} ms, at most {max(times):.0f} ms")

    def test_a_shard_begins_with_its_policies(self):
        """Both keys are in the ConfigMap from its first version on."""
        watched = mesh.Watched(self.cluster, self.maps)
        self.addCleanup(watched.end)
        self.apply(breaker())
        self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        harness.wait_for(lambda: self.map_of("shard-a"), "it is published")
        pod = self.labelled("shard-a-0").start()
        self.wait_policy("guard", "Enforced", "True", "Enforced")
        self.assertEqual(429, self.delete_through(pod)[0])
        name = mesh.CONFIG_MAP + "shard-a"

        def seen():
            return [t for t in watched.events if t[1]["metadata"]["name"] == name]

        harness.wait_for(seen, "it was seen")
        self.assertEqual({"rules.json", "traffic.json"}, set(seen()[0][1]["data"]))

    def test_what_somebody_changes_is_put_right(self):
        _, pods = self.begin()
        self.apply(breaker())
        self.in_force(pods)
        path = f"{self.maps}/{mesh.CONFIG_MAP}shard-a"
        for text in ("nonsense", None):
            patch = {"data": {"traffic.json": text, "other": "stays"}}
            self.cluster.json(f"{path}?fieldManager=somebody", "PATCH", patch, MERGE)
            harness.wait_for(
                lambda: (self.map_of("shard-a")["data"].get("traffic.json") or "{").startswith(
                    '{"apiVersion"'
                ),
                "it is put right",
            )
        self.assertEqual("stays", self.map_of("shard-a")["data"]["other"])
        # The pod may have followed the ConfigMap in between.
        harness.wait_for(lambda: self.delete_through(pods[0])[0] == 429, "it is in force again")
        harness.wait_for(lambda: self.events("TrafficChanged", "shard-a"), "it is told of")

    def test_an_invalid_edit(self):
        """Where the webhook does not refuse it: the last valid one stays, through a restart too."""
        manager, pods = self.begin()
        self.apply(breaker())
        self.in_force(pods)
        wrong = breaker(trigger="Normal")  # without a bucket, which no schema can ask for
        self.apply(wrong)
        self.wait_policy("guard", "Compiled", "False", "Invalid")
        self.wait_policy("guard", "Published", "False", "NotCompiled")
        self.assertEqual(429, self.delete_through(pods[0])[0])
        manager.stop()
        self.manager()
        self.apply(breaker("another", selector={"matchLabels": {"shard": "shard-a"}}))
        self.in_force(pods, "another")
        names = [b["name"] for b in self.traffic()["spec"]["breakers"]]
        self.assertEqual(["another", "guard"], names)
        self.assertEqual(429, self.delete_through(pods[0])[0])

    def test_disabled_by_its_label(self):
        _, pods = self.begin()
        self.apply(breaker())
        self.in_force(pods)
        self.annotate({DISABLE: "true"}, key="labels")
        self.wait_policy("guard", "Published", "False", "Disabled")
        harness.wait_for(lambda: self.delete_through(pods[0])[0] == 200, "it is taken out")
        self.annotate({DISABLE: None}, key="labels")
        harness.wait_for(lambda: self.delete_through(pods[0])[0] == 429, "it is back")

    def test_deleted_while_no_manager_runs(self):
        manager, pods = self.begin()
        thing = breaker()
        thing["metadata"]["finalizers"] = [FINALIZER]
        self.apply(thing)
        self.in_force(pods)
        harness.wait_for(
            lambda: "finalizers" not in self.policy()["metadata"], "the finalizer is taken off"
        )
        manager.stop()
        self.cluster.json(f"{self.policies}/guard", "DELETE")
        self.assertEqual(429, self.delete_through(pods[0])[0])  # nobody has told them
        self.manager()
        for pod in pods:
            harness.wait_for(lambda pod=pod: self.delete_through(pod)[0] == 200, "it is taken out")

    def test_pods_and_shards_that_it_is_not_for(self):
        _, pods = self.begin()
        alone = self.labelled("shard-a-2", only="this").start()
        self.apply(breaker(selector={"matchLabels": {"only": "this"}}))
        self.in_force([alone])
        self.assertEqual(429, self.delete_through(alone)[0])
        self.assertEqual(200, self.delete_through(pods[0])[0])
        self.assertNotIn(TOLD, pods[0].object()["metadata"]["annotations"])
        self.apply(breaker("elsewhere", selector={"matchLabels": {"shard": "another"}}))
        self.wait_policy("elsewhere", "Enforced", "False", "NoShard")


class Origin(http.server.ThreadingHTTPServer):
    """Another server, which answers with 200 whatever it is asked."""

    daemon_threads = True

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            self.server.asked.append((self.command, self.path))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = answer

        def log_message(self, *args):
            pass

    def __init__(self, case):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.asked = []
        self.host = f"127.0.0.1:{self.server_address[1]}"
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        case.addCleanup(self.server_close)
        case.addCleanup(thread.join)
        case.addCleanup(self.shutdown)


def external(host, **limiting):
    """Allows this host alone; and another rule, if there are fields of one."""
    thing = breaker()
    rule = {"name": "only", "interceptType": "Whitelist", "contentType": "Normal"}
    rule.update(contents=[host], methods=["*"])
    thing["spec"]["trafficInterceptRules"] = [rule]
    thing["spec"]["rateLimitings"] = [{"name": "calls", **limiting}] if limiting else []
    return thing


class ExternalTest(PoliciesTestCase):
    """Requests to other places than the API server."""

    def setUp(self):
        super().setUp()
        self.origin = Origin(self)

    def listening(self, name):
        pod = self.labelled(name)
        pod.proxy_args += ["--egress", "127.0.0.1:0"]
        return pod.start()

    def ask(self, pod, url, method="GET", headers=None):
        """As a client that knows of a proxy; the status of the answer, and what it says."""
        host, port = pod.proxy.status()["egress"]["address"].rsplit(":", 1)
        client = http.client.HTTPConnection(host, int(port), timeout=20)
        try:
            client.request(method, url, headers=headers or {})
            answer = client.getresponse()
            return answer.status, answer.read().decode() if answer.status != 200 else ""
        finally:
            client.close()

    def begin_listening(self):
        self.manager()
        self.apply(mesh.config("shard-a", "shard-a", mesh.limit(mesh.is_in("part", "a"))))
        pod = self.listening("shard-a-0")
        self.wait_enforced("shard-a", pods=1)
        return pod

    def test_a_whitelist_in_two_pods(self):
        """One of which does not listen: the status says so, as long as it does not."""
        first = self.begin_listening()
        second = self.labelled("shard-a-1").start()
        self.apply(external(self.origin.host))
        thing = self.wait_policy("guard", "Enforced", "False", "NoEgress")
        self.assertEqual("1/2", thing["status"]["enforced"])
        self.assertIn("proxy: shard-a-1.", mesh.condition(thing, "Enforced")["message"])
        self.assertEqual(200, self.ask(first, f"http://{self.origin.host}/a")[0])
        self.assertEqual(200, self.ask(first, self.origin.host, "CONNECT")[0])
        for method, url in (("GET", "http://b.invalid/"), ("CONNECT", "b.invalid:443")):
            status, message = self.ask(first, url, method)
            self.assertEqual(403, status, message)
            self.assertIn('CircuitBreaker "guard" does not allow', message)
        harness.wait_for(lambda: self.events("RequestsRefused") == 1, "it is told of")

        def refused():
            rows = self.policy()["status"]["targetStatus"]
            told = {row["podName"]: row.get("interceptSnapshots") for row in rows}
            return told["shard-a-0"] and told["shard-a-0"][0]["refused"] > 0

        harness.wait_for(refused, "the status counts them")
        second.stop_proxy()
        second.proxy_args += ["--egress", "127.0.0.1:0"]
        second.start_proxy()
        self.in_force([first, second])
        self.assertEqual(403, self.ask(second, "http://b.invalid/")[0])

    def test_limits_by_url(self):
        pod = self.begin_listening()
        host = self.origin.host
        self.apply(
            external(
                host,
                restRules=[{"url": f"http://{host}/off/*", "method": "POST"}],
                bucket={"burst": 1, "limit": 1, "interval": "1h"},
                triggerPolicy="LimiterOnly",
            )
        )
        self.in_force([pod])
        compiled = mesh.condition(self.policy(), "Compiled")
        self.assertEqual("PartlyEnforceable", compiled["reason"])
        self.assertIn('rule "calls": nobody sees paths', compiled["message"])
        url = f"http://{host}/off/now"
        self.assertEqual(200, self.ask(pod, url, "POST")[0])
        status, message = self.ask(pod, url, "POST")
        self.assertEqual(429, status)
        self.assertIn(f'circuitbreaker "{self.namespace}/guard" rule "calls"', message)
        endpoint = {"Mesh-Real-Endpoint": url}  # as operators send it that were written for that
        self.assertEqual(429, self.ask(pod, "/", "POST", endpoint)[0])
        self.assertEqual(200, self.ask(pod, url, "GET")[0])
        self.assertEqual(200, self.ask(pod, f"http://{host}/on", "POST")[0])
        asked = [("POST", "/off/now"), ("GET", "/off/now"), ("POST", "/on")]
        self.assertEqual(asked, self.origin.asked)

    def test_the_last_whitelist_goes(self):
        """Everything is open again, but for what is protected; at once, as it was closed."""
        pod = self.begin_listening()
        self.apply(external("a.example"))
        self.in_force([pod])
        status, message = self.ask(pod, "http://b.invalid/")
        self.assertEqual(403, status, message)
        self.cluster.json(f"{self.policies}/guard", "DELETE")
        harness.wait_for(
            lambda: self.ask(pod, "http://b.invalid/")[0] in (502, 504), "it is open"
        )
        self.assertEqual(403, self.ask(pod, f"http://{self.origin.host}/")[0])
        self.assertEqual([], self.origin.asked)


class KindsTest(PoliciesTestCase):
    """In a class of its own: others need the definitions."""

    def test_they_come_and_go(self):
        crds = mesh.files(mesh.CRDS[1:])
        self.addCleanup(mesh.define, self.cluster, self.kubectl)
        self.kubectl("delete", *crds)
        manager, pods = self.begin()
        self.assertEqual(200, self.delete_through(pods[0])[0])
        mesh.define(self.cluster, self.kubectl)
        self.apply(breaker())
        self.in_force(pods)
        self.assertEqual(429, self.delete_through(pods[0])[0])
        self.kubectl("delete", *crds)
        for pod in pods:
            harness.wait_for(lambda pod=pod: self.delete_through(pod)[0] == 200, "it is gone")
        rules = self.map_of("shard-a")["data"]["rules.json"]
        self.patch("shard-a", {"spec": {"limits": [mesh.limit(mesh.is_in("part", "b"))]}})
        harness.wait_for(
            lambda: self.map_of("shard-a")["data"]["rules.json"] != rules, "rules go on"
        )
        mesh.define(self.cluster, self.kubectl)
        self.apply(breaker())
        self.in_force(pods)
        self.assertLess(manager.log().count("cannot list or watch"), 10)


class StateTest(PoliciesTestCase):
    def open_one(self, pod):
        """Returns when it was refused."""
        self.assertEqual(200, self.delete_through(pod)[0])
        self.assertEqual(429, self.delete_through(pod)[0])
        return time.monotonic()

    def snapshots(self):
        rows = self.policy()["status"]["targetStatus"]
        return {row["podName"]: row["limitingSnapshots"] for row in rows}

    def state(self, pod):
        rows = self.snapshots().get(pod.name, [])
        return rows[0]["state"] if rows else None

    def test_what_opens_is_told_of(self):
        """By an Event, and in the status: pods with policies are asked often."""
        _, pods = self.begin("--probe-interval", "15")
        self.apply(normal(type="SleepingWindow", sleepingWindowSize="1h"))
        self.in_force(pods)
        time.sleep(3)  # the status was written long ago
        late = []
        for i, pod in enumerate(pods):
            begun = self.open_one(pod)
            harness.wait_for(lambda i=i: self.events("BreakerOpened") > i, "it is told of")
            late.append(time.monotonic() - begun)
            harness.wait_for(lambda pod=pod: self.state(pod) == "Opened", "the status says so")
            late.append(time.monotonic() - begun)
        report(f"told of after {max(late):.1f} s at most")
        self.assertEqual(2, self.policy()["status"]["open"])
        row = self.snapshots()[pods[0].name][0]
        self.assertEqual(pods[0].proxy.breaker("deletePod")["since"], row["lastTransitionTime"])

    def test_the_manager_is_started_again(self):
        """What was open before is not told of again."""
        manager, pods = self.begin()
        self.apply(normal(type="SleepingWindow", sleepingWindowSize="1h"))
        self.in_force(pods)
        self.open_one(pods[0])
        harness.wait_for(lambda: self.state(pods[0]) == "Opened", "the status says so")
        manager.stop()
        before = self.policy()
        again = self.manager()
        harness.wait_for(
            lambda: again.metrics().get("cmesh_manager_open_breakers") == 1, "it knows of it"
        )
        time.sleep(3)
        self.assertEqual(1, self.events("BreakerOpened"))
        self.assertEqual(before["status"], self.policy()["status"])
        self.assertEqual(429, self.delete_through(pods[0])[0])

    def test_closed_by_hand_once(self):
        _, pods = self.begin()
        self.apply(normal(interval="1s", type="Manual"))
        self.in_force(pods)
        self.open_one(pods[0])
        harness.wait_for(lambda: self.state(pods[0]) == "Opened", "the status says so")
        time.sleep(1.1)
        self.assertEqual(429, self.delete_through(pods[0])[0])  # not by itself
        self.annotate({RECOVER: "deletePod=one"})
        harness.wait_for(lambda: self.delete_through(pods[0])[0] == 200, "it is closed", interval=1.1)
        harness.wait_for(lambda: self.events("BreakerRecovered") == 1, "it is told of")
        self.delete_through(pods[0])
        harness.wait_for(lambda: self.delete_through(pods[0])[0] == 429, "it opens again")
        pods[0].stop_proxy(signal.SIGKILL)
        pods[0].start_proxy()
        harness.wait_for(
            lambda: pods[0].proxy.status()["traffic"]["inForce"], "localproxy has it again"
        )
        time.sleep(1.1)
        self.assertEqual(429, self.delete_through(pods[0])[0])  # the same token closes nothing

    def test_a_pod_that_does_not_read_them(self):
        """As sidecars of an earlier release, which keep what they have: the status says why."""
        self.begin(pods=1)
        self.apply(breaker())
        self.wait_policy("guard", "Enforced", "True", "Enforced")
        data = dict(self.map_of("shard-a")["data"])
        later = json.loads(data["traffic.json"])
        later["spec"]["later"] = []
        data["traffic.json"] = json.dumps(later)
        name = {"name": mesh.CONFIG_MAP + "later"}
        self.cluster.json(self.maps, "POST", {"metadata": name, "data": data})
        pod = self.labelled("shard-a-1")
        pod.create()
        pod.start_proxy()
        pod.start_sync("later")
        pod.set_status()
        thing = self.wait_policy("guard", "Enforced", "False", "PodsRefusing")
        message = mesh.condition(thing, "Enforced")["message"]
        self.assertIn("Refusing the policies: shard-a-1 (", message)
        self.assertIn("spec.later: Forbidden: unknown field", message)
        data["traffic.json"] = json.dumps({**later, "apiVersion": "cmesh/v2"})
        self.cluster.json(f"{self.maps}/{name['name']}", "PATCH", {"data": data}, MERGE)

        def names_version():
            message = mesh.condition(self.policy(), "Enforced")["message"]
            return 'apiVersion: Unsupported value: "cmesh/v2"' in message

        harness.wait_for(names_version, "the status has the document's version")

    def test_a_pod_that_does_not_answer(self):
        _, pods = self.begin(pods=1)
        self.apply(breaker())
        self.in_force(pods)
        pods[0].stop_proxy()
        self.wait_policy("guard", "Enforced", "False", "PodsSilent")
        pods[0].start_proxy()
        self.in_force(pods)


if __name__ == "__main__":
    harness.main()
