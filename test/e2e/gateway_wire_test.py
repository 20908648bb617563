# SPDX-License-Identifier: Apache-2.0
"""Requests through gateways to other clusters, to the byte: refused where nobody named the gateway,
limited like all else behind one that --api-prefix names.
"""

import json

import harness
import scripted_case
import seamless_wire_test
from scripted_case import AS_JSON, ENCODINGS, injected, json_expired, json_list, meta, within

EXTENSIONS = "/apis/cluster.example/v1/clusterextensions"
EAST = f"{EXTENSIONS}/east/proxy"
NAMED = f"--api-prefix={EXTENSIONS}/*/proxy"
MEMBERS = "/apis/cluster.karmada.io/v1alpha1/clusters"

# What leads to the API server of another cluster, and how messages name it.
GATEWAYS = (
    (EAST, EAST),
    (f"{EXTENSIONS}/east%2fpr%6fxy", EAST),
    (f"/{EXTENSIONS}/east/proxy/", EAST),
    ("/apis/a.example/v1/namespaces/n/clusterextensions/east/proxy",) * 2,
    ("/api/v1/clusterextensions/east/proxy",) * 2,
    ("/apis/cluster.core.oam.dev/v1alpha1/clustergateways/east/proxy",) * 2,
    (f"{MEMBERS}/east/proxy",) * 2,
    ("/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy",) * 2,
    ("/apis/a.example/v1/proxy/clusterextensions/east", "/apis/a.example/v1/proxy"),
    ("/k8s/clusters/east",) * 2,
)

# What is no gateway.
OTHERS = (
    "/api/v1/namespaces/n/pods/p/proxy/api/v1/pods",
    "/api/v1/namespaces/n/services/https:s:443/proxy/apis/apps/v1/deployments",
    "/api/v1/nodes/n/proxy/pods",
    "/api/v1/proxy/nodes/n/api/v1/pods",
    EXTENSIONS,
    f"{EXTENSIONS}/east",
    f"{EXTENSIONS}/east/status",
    "/apis/cluster.example/v1/namespaces/n/proxy",
    "/openapi/v3/apis/apps/v1",
    "/apis/cluster.example/v1",
    "/version",
)


class GatewayCase(scripted_case.ScriptedCase):
    def pass_on(self, method, target, body=b"{}"):
        """What the API server is asked."""
        with self.proxy_process.connect() as client:
            headers = [("Content-Type", "application/json")]
            if method not in ("GET", "HEAD"):
                headers.append(("Content-Length", str(len(body))))
            client.send_head(method, target, headers)
            if method not in ("GET", "HEAD"):
                client.send(body)
            asked = self.asked(method=method)
            asked.respond(b"{}")
            self.assertEqual(200, client.response(method).status)
            return asked

    def assert_asked(self, target, expected=None, method="GET"):
        self.assertEqual(expected or target, self.pass_on(method, target).target)

    def assert_refused(self, target, *mentions, method="GET", code=403):
        with self.proxy_process.connect(timeout=10) as client:  # nobody answers what passes
            answer = client.request(method, target)
        status = self.assert_status_error(answer, code, mentions=mentions)
        self.assert_nothing_asked()
        return status["message"]


class UnnamedTest(GatewayCase):
    """Nothing goes through a gateway that was not named."""

    def refuse_all(self):
        count = 0
        for gateway, named in GATEWAYS:
            for target in ("/api/v1/pods", "/api/v1/pods?watch=1", "/apis/apps/v1/deployments"):
                for method in ("GET", "POST", "DELETE", "OPTIONS"):
                    mentions = (f"behind {named} ", "--api-prefix")
                    self.assert_refused(gateway + target, *mentions, method=method)
                    count += 1
        return count

    def test_all_that_is_known(self):
        self.start_with("a")
        count = self.refuse_all()
        for target in ("", "/", "/version", "/api", "/openapi/v2", "?path=/api/v1/pods"):
            self.assert_refused(EAST + target, f"behind {EAST} ", "--api-prefix")
            count += 1
        self.assertEqual(count, self.metric("rejected_requests_total"))
        self.assertIn("refused a request", self.proxy_process.log())
        for target in OTHERS:
            self.assert_asked(target)

    def test_another_one_is_named(self):
        self.start_with("a", args=(f"--api-prefix={EXTENSIONS}/west/proxy",))
        self.refuse_all()

    def test_without_rules(self):
        """Neither what is open nor what waits for rules leads out."""
        _, kubeconfig = self.plain_upstream(self.serve)
        self.proxy_process = self.scripted_proxy(self.path("missing"), kubeconfig)
        self.refuse_all()
        self.assert_refused(f"{EAST}/version")
        self.assert_asked("/version")

    def test_passthrough_for_development(self):
        _, kubeconfig = self.plain_upstream(self.serve)
        args = ["--no-rules=passthrough"]
        self.proxy_process = self.scripted_proxy(self.path("missing"), kubeconfig, args)
        for gateway, _ in GATEWAYS:
            self.assert_asked(gateway + "/api/v1/pods")

    def test_what_the_message_shows_is_text(self):
        self.start_with("a")
        names = (b"\xc3\xa4", b"\xff", b"\x00", b'"\\', b"\r\n", b"x" * 3000)
        for name in names:
            escaped = "".join(f"%{byte:02x}" for byte in name)
            self.assert_refused(f"{EXTENSIONS}/{escaped}/proxy/api", "behind /apis", "--api-prefix")


class NamedTest(GatewayCase):
    """What is behind a gateway is a request to an API server."""

    def test_reads(self):
        ours = injected(within("a"))
        self.start_with("a", args=(NAMED, "--api-prefix=/k8s/clusters/*"))
        for gateway in (
            EAST,
            f"{EXTENSIONS}/west/proxy",
            f"{EXTENSIONS}/e%61st%2Fproxy",
            f"{EAST}/",  # as cluster-gateway's clients have it
            f"/{EAST}",
            "/k8s/clusters/c-1",
        ):
            with self.subTest(gateway=gateway):
                for target, expected in (
                    ("/api/v1/pods", f"/api/v1/pods?{ours}"),
                    ("/api/v1/pods/", f"/api/v1/pods/?{ours}"),
                    ("/api%2Fv1/%70ods?limit=5", f"/api%2Fv1/%70ods?limit=5&{ours}"),
                    ("/api/v1/namespaces/n/pods?watch=1", None),
                    ("/api/v1/watch/pods", f"/api/v1/watch/pods?{ours}"),
                    (
                        "/api/v1/pods?labelSelector=x%3Dy",
                        f"/api/v1/pods?{ours}%2Cx%3Dy",
                    ),
                ):
                    expected = expected or f"{target}&{ours}"
                    self.assert_asked(gateway + target, gateway + expected)
                self.assert_asked(f"{gateway}/api/v1/pods", f"{gateway}/api/v1/pods?{ours}", "DELETE")
                for target in (
                    "",
                    "/",
                    "/version",
                    "/api",
                    "/apis/apps/v1",
                    "/openapi/v3/apis/apps/v1",
                    "/api/v1/namespaces/n/pods/p",
                    "/api/v1/namespaces/n/pods/p/log?follow=1",
                    "/api/v1/namespaces/n/pods/p/proxy/api/v1/pods",
                    "/api/v1/services?labelSelector=x;y",
                ):
                    self.assert_asked(gateway + target)
        for target in OTHERS:
            self.assert_asked(target)

    def test_what_could_be_read_otherwise(self):
        self.start_with("a", args=(NAMED,))
        for target in (
            f"{EAST}/api//v1/pods",
            f"{EAST}/api/v1//pods",
            f"{EAST}/api/v1/pods//x",
            f"{EAST}/./api/v1/pods",
            f"{EAST}/version/../api/v1/pods",
            f"{EAST}/version/%2e%2e/api/v1/pods",
            f"{EAST}/%2561pi/v1/pods",
            f"{EAST}/api%252Fv1%252Fpods",
            f"{EAST}/version/%252e%252e/api/v1/pods",
            f"{EAST}/api/v1/pods%3Fwatch=1",
            f"{EAST}/api/v1/pods%23",
            f"{EXTENSIONS}/../clusterextensions/east/proxy/api/v1/pods",
            f"{EXTENSIONS}//east/proxy/api/v1/pods",
            f"{EXTENSIONS}/east//proxy/api/v1/pods",
        ):
            self.assert_refused(target, "ambiguous", code=400)

    def test_gateways_behind_gateways(self):
        """Only the whole way can be named."""
        ours = injected(within("a"))
        way = f"{EAST}{MEMBERS}/m/proxy"
        proxy = self.start_with("a", args=(NAMED,))
        self.assert_refused(f"{way}/api/v1/pods", f"behind {way} ")
        self.assert_refused(f"{EAST}/direct/api/v1/pods", f"behind {EAST}/direct ")
        proxy.stop()
        more = (f"--api-prefix={EXTENSIONS}/*/proxy{MEMBERS}/m/proxy",)
        proxy = self.start_with("a", args=(NAMED, *more))
        self.assert_asked(f"{way}/api/v1/pods", f"{way}/api/v1/pods?{ours}")
        self.assert_asked(f"{EAST}/api/v1/pods", f"{EAST}/api/v1/pods?{ours}")
        self.assert_refused(f"{EAST}{MEMBERS}/n/proxy/api/v1/pods")

    def test_several_from_the_environment(self):
        ours = injected(within("a"))
        prefixes = f"{EXTENSIONS}/east/proxy,{MEMBERS}/*/proxy"
        self.start_with("a", env={"CMESH_API_PREFIX": prefixes})
        for gateway in (EAST, f"{MEMBERS}/m/proxy"):
            self.assert_asked(f"{gateway}/api/v1/pods", f"{gateway}/api/v1/pods?{ours}")
        self.assert_refused(f"{EXTENSIONS}/west/proxy/api/v1/pods", "--api-prefix")

    def test_without_rules(self):
        """It waits for rules like all else."""
        _, kubeconfig = self.plain_upstream(self.serve)
        self.proxy_process = self.scripted_proxy(self.path("missing"), kubeconfig, [NAMED])
        self.assert_refused(f"{EAST}/api/v1/pods", "no valid rules", code=503)
        self.assert_asked(f"{EAST}/version")

    def test_writes(self):
        self.start_with("a", args=(NAMED,))
        for method, path in (
            ("POST", "/api/v1/namespaces/{}/pods"),
            ("PUT", "/api/v1/namespaces/{}/pods/p"),
            ("PATCH", "/api/v1/namespaces/{}/pods/p/status"),
            ("DELETE", "/api/v1/namespaces/{}/pods/p"),
            ("GET", "/api/v1/namespaces/{}/pods/p/exec"),
        ):
            self.assert_asked(EAST + path.format("a"), method=method)
            fenced = 'in namespace "b" is fenced'
            self.assert_refused(EAST + path.format("b"), fenced, method=method)
        self.assertEqual(5, self.metric("writes_fenced_total"))

    def test_writes_to_what_was_lost(self):
        self.start_with("a", "b", args=(NAMED, "--write-fence=off", "--state", self.path("state")))
        client = self.open(f"{EAST}/api/v1/namespaces/a/pods/p", method="DELETE")
        asked = self.asked()
        connection = harness.UnixConnection(self.proxy_process.control_path)
        self.addCleanup(connection.close)
        body = json.dumps(self.document(self.limits("b"), 2)).encode()
        connection.request("PUT", "/v1/rules", body)
        harness.wait_for(lambda: self.proxy_process.status()["rules"]["generation"] == 2, "2")
        self.assertEqual(1, self.proxy_process.status()["rules"]["lostWrites"])
        asked.respond(b"{}")
        self.assertEqual(200, client.response().status)
        harness.wait_for(lambda: self.proxy_process.status()["rules"]["settled"], "it is over")
        target = f"{EAST}/api/v1/namespaces/a/pods"
        self.assert_refused(target, "no longer belongs", method="POST")

    def test_the_lock(self):
        """Each shard leads for itself in the other cluster, too."""
        path = f"{EAST}/apis/coordination.k8s.io/v1/namespaces/home/leases"
        document = self.document(self.limits("a"), 1)
        document["spec"]["leaderElection"] = {"name": "op"}
        self.start(document, "--pod-namespace=home", NAMED)
        self.assert_asked(f"{path}/op?x=y", f"{path}/op---shard-a?x=y")
        self.assert_asked(f"{EAST}/%61pi/v1/namespaces/home/configmaps/o%70",
                          f"{EAST}/%61pi/v1/namespaces/home/configmaps/op---shard-a")  # fmt: skip
        body = b'{"metadata":{"name":"op"}}'
        own = body.replace(b'"op"', b'"op---shard-a"')
        for method, name in (("POST", ""), ("PUT", "/op")):
            asked = self.pass_on(method, path + name, body)
            expected = path + name.replace("op", "op---shard-a")
            self.assertEqual((expected, own), (asked.target, asked.request.body))
        self.assert_asked(f"{EXTENSIONS}/op")


class WatchTest(seamless_wire_test.SeamlessCase):
    """A watch behind a gateway follows new rules as any other does, by what is behind the gateway."""

    def setUp(self):
        super().setUp()
        self.collection = f"{EAST}{self.pods}"

    def test_it_migrates(self):
        for encoding in ENCODINGS:
            with self.subTest(encoding=encoding):
                self.generation = 1
                proxy = self.start_with("a", "b", args=(NAMED,))
                first = encoding.event("MODIFIED", meta("p", 25, "b"))
                watch, old = self.open_from(encoding, first)
                lost, gained = meta("lost", 7, "a"), meta("gained", 9, "c")
                self.reload_to("b", "c")
                self.answer_list(encoding, 25, "a", [lost])
                self.answer_list(encoding, 25, "c", [gained])
                self.assertTrue(old.closed())
                lines = encoding.event("DELETED", lost) + encoding.event("ADDED", gained)
                self.expect(watch, lines + encoding.bookmark(25))
                asked = self.answer_watch(encoding, 25, ("b", "c"))
                later = encoding.event("MODIFIED", meta("gained", 31, "c"))
                asked.send(later)
                self.expect(watch, later)
                self.assertEqual(1, self.metric("transitions_total"))
                self.assertEqual({}, self.fallbacks())
                self.assert_nothing_asked()
                proxy.stop()

    def test_it_is_cut(self):
        self.mode = "cut"
        self.start_with("a", args=(NAMED,))
        watch, _ = self.open_from(AS_JSON)
        self.reload_to("b")
        self.expect_end(watch, json_expired(2))
        answer = self.proxy_process.fetch(f"{self.collection}?watch=1&resourceVersion=20")
        self.assert_expired(answer)
        self.assert_nothing_asked()

    def test_status_tells_where(self):
        self.start_with("a", args=(NAMED,))
        self.open_watch(AS_JSON, target=f"{EAST}/api/v1/namespaces/n/pods?watch=1")
        (watch,) = self.proxy_process.status()["watches"]
        told = [watch[name] for name in ("resource", "namespace", "gateway", "limited")]
        self.assertEqual(["pods", "n", EAST, True], told)
        self.open_watch(AS_JSON, target="/api/v1/nodes?watch=1")
        watches = {w["resource"]: w for w in self.proxy_process.status()["watches"]}
        self.assertNotIn("gateway", watches["nodes"])

    def test_versions_of_one_cluster_say_nothing_of_another(self):
        self.start_with("a", args=(NAMED,))
        others = (self.pods, f"{EXTENSIONS}/west/proxy{self.pods}")
        for collection in others:
            self.list_at(20, collection)
        self.reload_to("b")
        self.list_at(20, self.collection)
        for collection in others:
            answer = self.proxy_process.fetch(f"{collection}?watch=1&resourceVersion=20")
            self.assert_expired(answer)
        self.assert_nothing_asked()
        self.open_watch(AS_JSON, target=f"{self.collection}?watch=1&resourceVersion=20")

    def test_the_version_at_the_start_is_that_of_the_own_cluster(self):
        """Above it, versions of the own cluster are looked at; of others they say nothing."""
        self.start_with("a", args=(NAMED, "--resume-doubt=60"))
        self.asked("/api/v1/namespaces?limit=1").respond(json_list([], 10))
        harness.wait_for(
            lambda: self.proxy_process.status()["upstream"]["versionAtStart"] == "10", "it is told"
        )
        answer = self.proxy_process.fetch(f"{self.collection}?watch=1&resourceVersion=20")
        self.assert_expired(answer)
        self.assert_nothing_asked()
        self.open(f"{self.pods}?watch=1&resourceVersion=20")
        self.asked("/api/v1/namespaces?limit=1")


if __name__ == "__main__":
    harness.main()
