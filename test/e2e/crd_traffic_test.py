#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The definitions of CircuitBreakers and FaultInjections on a real API server: what is taken,
refused, shown, explained; and that the manager refuses by itself what the schema does."""

import json
import os
import re
import subprocess
import unittest

import harness
import manifests

BASE = os.path.join(harness.ROOT, "k8s", "base")
PLURALS = ("circuitbreakers", "faultinjections")
CRDS = [os.path.join(BASE, f"crd_{plural}.yaml") for plural in PLURALS]
GROUP = "ctrlmesh.kusionstack.io"
API = f"/apis/{GROUP}/v1alpha1"
KUSIONSTACK = os.path.join(
    harness.ROOT, "test", "unit", "manager", "policy", "kusionstack_circuitbreaker.yaml"
)

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "namespaces": ["*"]}
BUCKET = {"burst": 1, "interval": "10s", "limit": 1}
RULE = {
    "name": "deletePod",
    "resourceRules": [PODS],
    "bucket": BUCKET,
    "triggerPolicy": "LimiterOnly",
}
HEALTH = {"window": "10s", "minimumRequests": 20, "errorPercent": 50}
INTERCEPT = {
    "name": "allow",
    "interceptType": "Whitelist",
    "contentType": "Normal",
    "contents": ["a.example"],
    "methods": ["*"],
}
REST = {"url": "https://a.example/*", "method": "*"}
DELAY = {"fixedDelay": "3s", "percent": 10}
ABORT = {"httpStatus": 503, "percent": "0.5"}
FAULT = {"name": "lists", "delay": DELAY, "match": {"resources": [{"verbs": ["list"]}]}}


def rule(**more):
    return {"rateLimitings": [{**RULE, **more}]}


def row(**more):
    return rule(resourceRules=[{**PODS, **more}])


def bucket(**more):
    return rule(bucket={**BUCKET, **more})


def health(**more):
    policy = {"triggerPolicy": "Health", "recoverPolicy": {"type": "Manual"}}
    return rule(**policy, healthPolicy={**HEALTH, **more})


def window(size):
    return rule(
        triggerPolicy="Normal",
        recoverPolicy={"type": "SleepingWindow", "sleepingWindowSize": size},
    )


def intercept(**more):
    return {"trafficInterceptRules": [{**INTERCEPT, **more}]}


def without(thing, key):
    return {name: value for name, value in thing.items() if name != key}


def fault(**more):
    return {"httpFault": [{**FAULT, **more}]}


def when(**times):
    return fault(effectiveTime=times)


def wrong_times():
    return ("24:00:00", "9:00:00", "10:60:00", "10:00", "noon", 36000)


def wrong_urls():
    return (
        "a.example",
        "ftp://a.example",
        "https://",
        "https:///a",
        "https://*",
        "https://a.*.example/",
        "https://user@a.example",
        "https://a.example/b#c",
        "https://a.example/ b",
    )


def wrong_durations():
    return ("", "10", "-1s", "1d", "10 s", "soon", 10)


TOO_LONG = "a" * 64

# Fields of a good spec in their place, and what the API server says to it.
REFUSED = {
    "CircuitBreaker": (
        ({"selector": "app=demo"}, "spec.selector"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, "operator"),
        ({"rateLimitings": RULE}, "spec.rateLimitings"),
        ({"rateLimitings": [without(RULE, "name")]}, "name: Required value"),
        ({"rateLimitings": [without(RULE, "triggerPolicy")]}, "triggerPolicy: Required value"),
        ({"rateLimitings": [RULE, RULE]}, "Duplicate value"),
        (rule(name=""), "name"),
        (rule(name="a:b"), "name"),
        (rule(name='a"b'), "name"),
        (rule(name=TOO_LONG), "name"),
        (rule(triggerPolicy="Sometimes"), "triggerPolicy: Unsupported value"),
        (rule(triggerPolicy="normal"), "triggerPolicy: Unsupported value"),
        *((row(**{key: []}), key) for key in PODS),
        *((rule(resourceRules=[without(PODS, key)]), f"{key}: Required value") for key in PODS),
        (row(resources=["Pods"]), "resources"),
        (row(resources=["pods/*"]), "resources"),
        (row(resources=["a/b/c"]), "resources"),
        (row(verbs=["DELETE"]), "verbs"),
        (row(verbs=["post"]), "verbs"),
        *((rule(bucket=without(BUCKET, key)), f"{key}: Required value") for key in BUCKET),
        (bucket(burst=-1), "burst"),
        (bucket(burst="1"), "burst"),
        (bucket(limit=2**32), "limit"),
        (bucket(limit=0.5), "limit"),
        *((bucket(interval=text), "interval") for text in wrong_durations()),
        *((window(text), "sleepingWindowSize") for text in wrong_durations()),
        (rule(recoverPolicy="SleepingWindow"), "recoverPolicy"),
        (rule(recoverPolicy={}), "type: Required value"),
        (rule(recoverPolicy={"type": "Automatic"}), "type: Unsupported value"),
        (rule(maxInFlight=0), "maxInFlight"),
        (health(window="now"), "window"),
        (health(minimumRequests=0), "minimumRequests"),
        (health(errorPercent=0), "errorPercent"),
        (health(errorPercent=101), "errorPercent"),
        (health(slowCallPercent=101, slowCallDuration="1s"), "slowCallPercent"),
        (health(halfOpenRequests=0), "halfOpenRequests"),
        (rule(restRules=[{"url": "https://a.example"}]), "method: Required value"),
        (rule(restRules=[{"method": "GET"}]), "url: Required value"),
        (rule(restRules=[{"url": "https://a.example", "method": "get"}]), "method"),
        *((rule(restRules=[{"url": text, "method": "*"}]), "url") for text in wrong_urls()),
        (intercept(interceptType="White"), "interceptType: Unsupported value"),
        (intercept(interceptType="Black"), "interceptType: Unsupported value"),
        (intercept(contentType="Regex"), "contentType: Unsupported value"),
        (intercept(contents=[]), "contents"),
        (intercept(contents=[""]), "contents"),
        (intercept(contents=["a" * 2049]), "contents"),
        (intercept(methods=[]), "methods"),
        (intercept(methods=["get"]), "methods"),
        (
            {"trafficInterceptRules": [{**INTERCEPT, "name": f"r{i}"} for i in range(257)]},
            "trafficInterceptRules",
        ),
        *(
            ({"trafficInterceptRules": [without(INTERCEPT, key)]}, f"{key}: Required value")
            for key in INTERCEPT
        ),
    ),
    "FaultInjection": (
        ({"disabled": "yes"}, "disabled"),
        ({"httpFault": FAULT}, "spec.httpFault"),
        ({"httpFault": [without(FAULT, "match")]}, "match: Required value"),
        (fault(match=[{"url": "a"}]), "match"),
        (fault(match={"resources": [{"verbs": ["LIST"]}]}), "verbs"),
        (fault(match={"resources": [{"resources": ["Pods"]}]}), "resources"),
        (fault(match={"httpMatch": [{"method": "get"}]}), "method"),
        (fault(match={"httpMatch": [{"headers": [{"value": "a"}]}]}), "name: Required value"),
        (fault(name="a:b"), "name"),
        (fault(name=TOO_LONG), "name"),
        (fault(delay={"percent": 10}), "fixedDelay: Required value"),
        *((fault(delay={**DELAY, "fixedDelay": text}), "fixedDelay") for text in wrong_durations()),
        (fault(delay={**DELAY, "percent": -1}), "percent"),
        (fault(delay={**DELAY, "percent": 101}), "percent"),
        (fault(delay={**DELAY, "percent": "101"}), "percent"),
        (fault(delay={**DELAY, "percent": "100.1"}), "percent"),
        (fault(delay={**DELAY, "percent": ""}), "percent"),
        (fault(delay={**DELAY, "percent": "10%"}), "percent"),
        (fault(delay={**DELAY, "percent": "-1"}), "percent"),
        (fault(delay={**DELAY, "percent": 0.5}), "percent"),
        (fault(delay={**DELAY, "percent": True}), "percent"),
        (fault(abort={"percent": 10}), "httpStatus: Required value"),
        (fault(abort={**ABORT, "httpStatus": 600}), "httpStatus"),
        (fault(abort={**ABORT, "httpStatus": -1}), "httpStatus"),
        (fault(abort={**ABORT, "httpStatus": "503"}), "httpStatus"),
        *((when(startTime=text, endTime="10:00:00"), "startTime") for text in wrong_times()),
        *((when(startTime="10:00:00", endTime=text), "endTime") for text in wrong_times()),
        (when(daysOfWeek=[7]), "daysOfWeek"),
        (when(daysOfMonth=[0]), "daysOfMonth"),
        (when(daysOfMonth=[32]), "daysOfMonth"),
        (when(months=[13]), "months"),
        (when(months=["May"]), "months"),
        (when(timeZone="../etc/passwd"), "timeZone"),
        (when(timeZone="/Europe/Berlin"), "timeZone"),
        (when(timeZone="Europe/"), "timeZone"),
    ),
}

# What is taken, by the schema and by the manager.
ACCEPTED = {
    "CircuitBreaker": (
        {},
        {"selector": {}},
        rule(name="with blanks, and ünicode"),
        row(apiGroups=["", "apps"], resources=["*", "pods/eviction", "*/scale"], verbs=["*"]),
        row(namespaces=[""]),
        bucket(burst=0, limit=0, interval="1h30m1.5s"),
        bucket(burst=2**32 - 1, limit=2**32 - 1, interval="168h"),
        window(".5s"),
        {"rateLimitings": [{**without(RULE, "bucket"), "maxInFlight": 10}]},
        rule(triggerPolicy="ForceOpened", properties={"a": "b"}),
        health(slowCallDuration="2s", slowCallPercent=80, halfOpenRequests=3),
        rule(restRules=[{"url": "https://a.example/b", "method": "*"}]),
        rule(restRules=[{"url": "HTTP://[::1]:8080", "method": "CONNECT"}]),
        rule(restRules=[{"url": "https://*.a.example/b/*", "method": "M-SEARCH"}]),
        {"rateLimitings": [{**without(RULE, "resourceRules"), "restRules": [REST]}]},
        intercept(contentType="Regexp", contents=[".*(127.0.0.1).*"]),
        intercept(interceptType="Blacklist", methods=["GET", "POST"]),
        intercept(contents=["a.example:8443", "[::1]:80", "10.0.0.1", "A.example."]),
    ),
    "FaultInjection": (
        {},
        {"selector": None},
        {"disabled": True},
        {"httpFault": [without(FAULT, "name")]},
        fault(abort=ABORT),
        fault(abort={"httpStatus": 0}),
        fault(abort={"httpStatus": 200, "percent": "100"}),
        fault(delay={**DELAY, "percent": 0}),
        fault(delay={**DELAY, "percent": "0"}),
        fault(delay={**DELAY, "percent": "100.0"}),
        fault(delay={**DELAY, "percent": "33.3333"}),
        fault(delay={"fixedDelay": "10m"}),
        fault(match={"resources": [{}]}),
        fault(match={"httpMatch": [{"host": {"exact": "a"}, "path": {"regex": "^/"}}]}),
        fault(match={"httpMatch": [{"headers": [{"name": "X-A"}, {"name": "X-B", "value": "c"}]}]}),
        when(daysOfWeek=[0, 6], daysOfMonth=[1, 31], months=[1, 12]),
        when(startTime="22:00:00", endTime="06:00:00", timeZone="Europe/Berlin"),
        when(startTime="", endTime="", timeZone=""),
    ),
}

GOOD = {
    "CircuitBreaker": {"selector": {"matchLabels": {"app": "demo"}}, "rateLimitings": [RULE]},
    "FaultInjection": {"selector": {"matchLabels": {"app": "demo"}}, "httpFault": [FAULT]},
}

SHARD = """
apiVersion: ctrlmesh.kusionstack.io/v1alpha1
kind: ShardingConfig
metadata: {name: demo}
spec: {selector: {matchLabels: {app: demo}}, limits: []}
"""


def policy(kind, name, **spec):
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**GOOD[kind], **spec},
    }


def compile_with_shard(thing):
    """What the manager makes of it, offline: the code, and its words."""
    text = f"{SHARD}\n---\n{json.dumps(thing)}\n"
    command = [harness.program("manager"), "compile", "-f", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def setUpModule():
    """The definitions are applied once: the published schema follows them seconds later."""
    folder = harness.TestCase.make_folder(unittest.addModuleCleanup)
    kubectl = harness.Kubectl(folder, harness.cluster().kubeconfig)
    for crd in CRDS:
        unittest.addModuleCleanup(kubectl.run, "delete", "-f", crd, "--ignore-not-found")
        kubectl("apply", "-f", crd)
    for plural in PLURALS:
        name = f"crd/{plural}.{GROUP}"
        kubectl("wait", "--for=condition=Established", name, "--timeout=30s")
        harness.wait_for(
            lambda plural=plural: kubectl.run("explain", f"{plural}.spec")[0] == 0,
            "the schema is published",
        )


class CrdTestCase(harness.TestCase):
    """With a namespace."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = harness.cluster()
        cls.kubectl = harness.Kubectl(cls.make_folder(cls.addClassCleanup), cls.cluster.kubeconfig)
        cls.namespace = harness.make_namespace(cls.cluster, "crd-traffic", cls.addClassCleanup)

    def here(self, *args, stdin=None):
        return self.kubectl("-n", self.namespace, *args, stdin=stdin)

    def path_of(self, kind, name=""):
        plural = PLURALS[kind == "FaultInjection"]
        return f"{API}/namespaces/{self.namespace}/{plural}/{name}".rstrip("/")

    def post(self, thing):
        headers = [("Content-Type", "application/json")]
        path = self.path_of(thing["kind"])
        return self.cluster.fetch(path, "POST", headers, json.dumps(thing).encode())

    def set_status(self, kind, name, status):
        thing = self.cluster.json(self.path_of(kind, name))
        thing["status"] = status
        self.cluster.json(self.path_of(kind, name) + "/status", "PUT", thing)


class DefinitionTest(CrdTestCase):
    """The definitions themselves."""

    def test_they_are_structural(self):
        for plural in PLURALS:
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{GROUP}"
            conditions = {c["type"]: c for c in self.cluster.json(path)["status"]["conditions"]}
            self.assertNotIn("NonStructuralSchema", conditions)
            self.assertEqual("True", conditions["NamesAccepted"]["status"])

    def test_applying_again_changes_nothing(self):
        for crd in CRDS:
            self.assertIn("unchanged", self.kubectl("apply", "-f", crd))

    def test_names(self):
        shown = self.kubectl("api-resources", f"--api-group={GROUP}")
        self.assertRegex(shown, r"circuitbreakers +cbk +ctrlmesh\S+ +true +CircuitBreaker")
        self.assertRegex(shown, r"faultinjections +fj +ctrlmesh\S+ +true +FaultInjection")

    def test_explain(self):
        """Where kubectl is told of it: older API servers leave out what may have unknown fields."""
        for path, words in (
            ("cbk", "Each pod counts for itself: N pods may send N times the limit"),
            ("cbk.spec", "Which requests of which pods"),
            ("cbk.status.targetStatus.limitingSnapshots.state", "HalfOpened"),
            ("fj", "Delays and refuses a part of the requests"),
            ("fj.status.enforced", "2/3"),
        ):
            self.assertIn(words, " ".join(self.kubectl("explain", path).split()), path)
        if not harness.modern():
            return
        for path, words in (
            ("cbk.spec.rateLimitings.bucket", "N pods may send N times as much"),
            ("cbk.spec.rateLimitings.triggerPolicy", "gets status 429"),
            ("cbk.spec.rateLimitings.recoverPolicy.type", "RULE=TOKEN"),
            ("fj.spec.httpFault.effectiveTime.timeZone", "Europe/Berlin"),
            ("fj.spec.httpFault.delay.percent", '"0.5"'),
        ):
            self.assertIn(words, " ".join(self.kubectl("explain", path).split()), path)

    def test_every_field_is_explained(self):
        for crd in CRDS:
            manifest = self.kubectl("create", "--dry-run=client", "-o", "json", "-f", crd)
            schema = json.loads(manifest)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            silent = []

            def visit(node, path, silent=silent):
                for name, field in node.get("properties", {}).items():
                    if not field.get("description"):
                        silent.append(f"{path}.{name}")
                    visit(field, f"{path}.{name}")
                if "items" in node:
                    visit(node["items"], path)

            visit(schema, "")
            self.assertEqual([], silent)


class AcceptTest(CrdTestCase):
    """What is taken, and how it is shown."""

    def test_accepted(self):
        for kind, specs in ACCEPTED.items():
            for i, spec in enumerate(specs):
                with self.subTest(kind=kind, spec=spec):
                    thing = policy(kind, f"good-{i}", **spec)
                    answer = self.post(thing)
                    self.assertEqual(201, answer.status, answer.body)
                    code, words = compile_with_shard(thing)
                    self.assertEqual(0, code, words)

    def test_kusionstack_manifest(self):
        """One of its users': nothing of it gets lost."""
        self.assertIn("created", self.here("apply", "-f", KUSIONSTACK))
        with open(KUSIONSTACK, encoding="utf-8") as f:
            (wanted,) = manifests.parse(f.read())
        stored = self.cluster.json(self.path_of("CircuitBreaker", "breaker-demo"))
        self.assertEqual([], manifests.lost(wanted["spec"], stored["spec"]))

    def test_table_of_breakers(self):
        self.here("create", "-f", "-", stdin=json.dumps(policy("CircuitBreaker", "shown")))
        wanted = r"NAME +PODS +OPEN +ENFORCED +AGE\nshown +\d+s\n"
        self.assertRegex(self.here("get", "circuitbreaker", "shown"), wanted)
        now = "2026-01-02T03:04:05Z"
        condition = {"status": "True", "reason": "Fine", "message": "ok", "lastTransitionTime": now}
        late = {"status": "False", "reason": "PodsSilent", "message": "pod-2 is late"}
        snapshot = {"name": "deletePod", "state": "Opened", "lastTransitionTime": now}
        status = {
            "observedGeneration": 1,
            "lastUpdatedTime": now,
            "currentSpecHash": "0" * 32,
            "pods": 3,
            "open": 1,
            "enforced": "2/3",
            "conditions": [
                {**condition, "type": "Compiled"},
                {**condition, "type": "Published"},
                {**condition, **late, "type": "Enforced"},
            ],
            "targetStatus": [
                {
                    "podName": "pod-0",
                    "podIP": "10.0.0.1",
                    "configHash": "0" * 32,
                    "limitingSnapshots": [snapshot, {"name": "other", "state": "Closed"}],
                    "interceptSnapshots": [{"name": "allow", "refused": 12}],
                },
                {"podName": "pod-2", "message": "does not answer"},
            ],
        }
        self.set_status("CircuitBreaker", "shown", status)
        stored = self.cluster.json(self.path_of("CircuitBreaker", "shown"))
        self.assertEqual(status, stored["status"])
        shown = self.here("get", "cbk", "shown", "--no-headers")
        self.assertRegex(shown, r"^shown +3 +1 +2/3 +\d+s\n$")
        wide = self.here("get", "cbk", "shown", "-o", "wide", "--no-headers")
        self.assertRegex(wide, r"^shown +3 +1 +2/3 +\d+s +ok +pod-2 is late\n$")

    def test_table_of_faults(self):
        self.here("create", "-f", "-", stdin=json.dumps(policy("FaultInjection", "shown")))
        wanted = r"NAME +PODS +ENFORCED +AGE\nshown +\d+s\n"
        self.assertRegex(self.here("get", "faultinjection", "shown"), wanted)
        self.set_status("FaultInjection", "shown", {"pods": 3, "enforced": "2/3"})
        shown = self.here("get", "fj", "shown", "--no-headers")
        self.assertRegex(shown, r"^shown +3 +2/3 +\d+s\n$")

    def test_status_is_a_subresource(self):
        for kind in GOOD:
            thing = {**policy(kind, "two-writers"), "status": {"pods": 5}}
            made = self.cluster.json(self.path_of(kind), "POST", thing)
            self.assertNotIn("status", made)
            self.set_status(kind, "two-writers", {"pods": 5})
            patch = {"spec": {"selector": {"matchLabels": {"a": "b"}}}, "status": {"pods": 6}}
            merge = "application/merge-patch+json"
            path = self.path_of(kind, "two-writers")
            stored = self.cluster.json(path, "PATCH", patch, merge)
            self.assertEqual({"pods": 5}, stored["status"])
            self.assertEqual(2, stored["metadata"]["generation"])


class RefuseTest(CrdTestCase):
    """What the schema refuses, with the field named."""

    def test_bad_specs(self):
        for kind, specs in REFUSED.items():
            for spec, words in specs:
                with self.subTest(kind=kind, spec=spec):
                    answer = self.post(policy(kind, "bad", **spec))
                    self.assertEqual(422, answer.status, answer.body)
                    # Which element of a list is at fault, only later versions tell.
                    message = re.sub(r"\[\d+\]", "", json.loads(answer.body)["message"])
                    self.assertIn(words, message)

    def test_the_manager_refuses_them_too(self):
        """For definitions and webhooks may be old, or not there."""
        for kind, specs in REFUSED.items():
            for spec, words in specs:
                with self.subTest(kind=kind, spec=spec):
                    code, told = compile_with_shard(policy(kind, "bad", **spec))
                    self.assertEqual(1, code, told)
                    self.assertIn(words.split(":")[0], told)

    def test_without_spec(self):
        for kind in GOOD:
            answer = self.post(without(policy(kind, "bad"), "spec"))
            self.assertEqual(422, answer.status, answer.body)
            self.assertIn("spec: Required value", json.loads(answer.body)["message"])

    def test_breakers_without_selector(self):
        thing = policy("CircuitBreaker", "bad")
        del thing["spec"]["selector"]
        answer = self.post(thing)
        self.assertEqual(422, answer.status, answer.body)
        self.assertIn("spec.selector: Required value", json.loads(answer.body)["message"])

    def test_misspelt_fields(self):
        """They are kept for the manager, which refuses what it does not know: dropped, they would
        leave a rule that is for more than was meant."""
        misspelt = {"matchLabel": {"app": "demo"}}
        for i, (kind, spec) in enumerate(
            (
                ("CircuitBreaker", {"rateLimiting": []}),
                ("CircuitBreaker", {"selector": misspelt}),
                ("CircuitBreaker", rule(recoverPolcy={"type": "Manual"})),
                ("CircuitBreaker", row(names=["a"])),
                ("CircuitBreaker", bucket(qps=1)),
                ("CircuitBreaker", health(errorPercentage=1)),
                ("CircuitBreaker", intercept(paths=["/"])),
                ("FaultInjection", {"selector": misspelt}),
                ("FaultInjection", {"disable": True}),
                ("FaultInjection", fault(effectiveTimes={})),
                ("FaultInjection", when(dayOfWeek=[1])),
                ("FaultInjection", fault(match={"resources": [{"resource": ["pods"]}]})),
                ("FaultInjection", fault(delay={**DELAY, "percentage": 1})),
                ("FaultInjection", fault(abort={**ABORT, "status": 1})),
            )
        ):
            thing = policy(kind, f"misspelt-{i}", **spec)
            self.assertEqual(201, self.post(thing).status, spec)
            stored = self.cluster.json(self.path_of(kind, f"misspelt-{i}"))
            self.assertEqual(thing["spec"], stored["spec"])
            code, told = compile_with_shard(thing)
            self.assertEqual(1, code)
            self.assertRegex(told, r"spec\.\S+: Forbidden: unknown field|matchLabel")

    def test_bad_status(self):
        for kind in GOOD:
            self.cluster.json(self.path_of(kind), "POST", policy(kind, "bad-status"))
            for status in (
                {"pods": "7"},
                {"conditions": [{"type": "Compiled", "status": "true"}]},
                {"targetStatus": [{"podIP": "10.0.0.1"}]},
            ):
                patch = json.dumps({"status": status}).encode()
                headers = [("Content-Type", "application/merge-patch+json")]
                path = self.path_of(kind, "bad-status") + "/status"
                answer = self.cluster.fetch(path, "PATCH", headers, patch)
                self.assertEqual(422, answer.status, status)


if __name__ == "__main__":
    harness.main()
