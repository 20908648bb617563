# SPDX-License-Identifier: Apache-2.0
"""What the API server refuses: each cause is one warning with its remedy, and is on /status,
/readyz?verbose and /metrics; the end of it, too."""

import json
import os
import subprocess
import threading

import harness
import manager_start_test
import upstream
import wire
from scripted_case import within

UNAUTHORIZED = json.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
).encode()
PODS = "/api/v1/namespaces/a/pods"
HTML = "text/html"


def warnings(log):
    return [line for line in log.splitlines() if " WARN " in line or " ERROR " in line]


def problems(admin):
    return {row["cause"]: row for row in json.loads(wire.fetch(admin, "/status").body)["problems"]}


class RefusalCase(harness.TestCase):
    """In front of a scripted API server."""

    def setUp(self):
        super().setUp()
        self.lock = threading.Lock()
        self.status = 200  # of each answer
        self.body = b"{}"
        self.content_type = "application/json"
        self.longest = None  # target that is taken
        self.seen = []

    def serve(self, peer, request):
        self.seen.append(request.target)
        with self.lock:
            status, body, kind = self.status, self.body, self.content_type
        if self.longest is not None and len(request.target) <= self.longest:
            status, body, kind = 200, b'{"kind":"List"}', "application/json"
        peer.respond(status, body, content_type=kind)

    def answer(self, status, body=b"{}", content_type="application/json"):
        with self.lock:
            self.status, self.body, self.content_type = status, body, content_type

    def wait_for(self, condition, what):
        harness.wait_for(condition, what, timeout=90)


class CredentialTest(RefusalCase):
    """A token that the API server refuses."""

    def start(self, **user):
        scripted = self.upstream(upstream.always(self.serve))
        path = upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url, **user)
        return self.scripted_proxy([harness.limit(["pods"], "a=b")], path)

    def test_a_refused_token_is_said_once_and_everywhere(self):
        proxy = self.start(token="not-valid")
        self.answer(401, UNAUTHORIZED)
        for _ in range(5):
            answer = proxy.fetch(PODS)
            self.assertEqual((401, UNAUTHORIZED), (answer.status, answer.body))
            self.assertIn("cmesh: the API server refused", answer.get("Warning"))
            self.assertIn(r"the token of user \"scripted\"", answer.get("Warning"))
        self.wait_for(lambda: "credentials" in problems(proxy.admin), "the refusal is on /status")
        row = problems(proxy.admin)["credentials"]
        self.assertIn('the token of user "scripted" in ' + self.path("kubeconfig"), row["subject"])
        self.assertIn("401 Unauthorized", row["message"])
        self.assertIn("restart", row["remedy"])
        log = proxy.log()
        self.assertEqual(1, len([line for line in warnings(log) if "credentials" in line]), log)
        self.assertNotIn("not-valid", log + json.dumps(proxy.status()))
        self.assertEqual(1, proxy.metrics()['cmesh_proxy_problems{cause="credentials"}'])
        shown = proxy.ask_admin("/readyz?verbose").body.decode()
        self.assertIn("[+]rules ok\n", shown)
        self.assertIn("[-]credentials failed", shown)
        # A proxy of which each request is refused is of no use.
        self.wait_for(lambda: proxy.ask_admin("/readyz").status == 503, "it is not ready")
        self.assertIn("401 Unauthorized", proxy.ask_admin("/readyz").body.decode())
        self.assertEqual(200, proxy.ask_admin("/healthz").status)  # a restart mends nothing
        self.answer(200)
        self.wait_for(lambda: proxy.ask_admin("/readyz").status == 200, "it is ready again")
        self.assertEqual({}, problems(proxy.admin))
        self.assertIn("the API server accepts the credentials again", proxy.log())
        self.assertEqual(0, proxy.metrics()['cmesh_proxy_problems{cause="credentials"}'])
        self.assertIsNone(proxy.fetch(PODS).get("Warning"))

    def test_what_another_server_refuses_is_not_the_credential(self):
        """A service behind a proxy subresource, or an aggregated API server."""
        proxy = self.start(token="valid")
        self.longest = len("/version")
        self.answer(401, b"who are you?", "text/plain")
        answer = proxy.fetch("/api/v1/namespaces/a/services/b/proxy/")
        self.assertEqual((401, None), (answer.status, answer.get("Warning")))
        self.wait_for(lambda: "/version" in self.seen, "localproxy asks whether it is known")
        self.wait_for(
            lambda: "Doubted -> Accepted" in proxy.log() or "[+]credentials ok" in
            proxy.ask_admin("/readyz?verbose").body.decode(), "it is")  # fmt: skip
        self.assertEqual({}, problems(proxy.admin))
        self.assertEqual([], [line for line in warnings(proxy.log()) if "credentials" in line])

    def test_the_local_token_is_told_apart(self):
        token = self.path("token", "local-token\n")
        os.chmod(token, 0o600)
        scripted = self.upstream(upstream.always(self.serve))
        path = upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url, token="not-valid")
        proxy = self.scripted_proxy([], path, args=["--token-file", token])
        self.answer(401, UNAUTHORIZED)
        wrong = proxy.fetch(PODS, headers=[("Authorization", "Bearer wrong")])
        self.assert_status_error(wrong, 401, "Unauthorized", mentions=["token"])
        self.assertIsNone(wrong.get("Warning"))
        right = proxy.fetch(PODS, headers=[("Authorization", "Bearer local-token")])
        self.assertIn("the token of this client was right", right.get("Warning"))

    def start_with_certificates(self, client, server):
        """Each with the days that are left and those of its whole life."""
        authority = self.authority()
        certificate, key = authority.ending("client", *client)
        scripted = self.upstream(
            upstream.always(self.serve),
            context=upstream.server_context(*authority.ending("server", *server)),
        )
        path = upstream.write_kubeconfig(
            self.path("kubeconfig"), scripted.url, authority=authority.certificate,
            extra_user=f"    client-certificate: {certificate}\n    client-key: {key}\n",
        )  # fmt: skip
        proxy = self.scripted_proxy([], path)
        self.assertEqual(200, proxy.fetch("/version").status)
        return proxy, certificate

    def test_certificates_that_end_soon(self):
        proxy, certificate = self.start_with_certificates((3, 365), (2, 365))

        def rows():
            return {row["subject"]: row for row in proxy.status()["problems"]}

        self.wait_for(lambda: len(rows()) == 2, "both are told")
        told = rows()[f"the client certificate {certificate}"]
        self.assertEqual("expiry", told["cause"])
        self.assertRegex(told["message"], r"^it expires at 20\d\d-")
        server = [subject for subject in rows() if subject.startswith("the certificate of https")]
        self.assertIn("kubeadm", rows()[server[0]]["remedy"])
        told = [line for line in warnings(proxy.log()) if "ends soon" in line]
        self.assertEqual(2, len(told), proxy.log())
        self.assertEqual(200, proxy.ask_admin("/readyz").status)
        self.assertIn(
            "[-]expiry failed, not required", proxy.ask_admin("/readyz?verbose").body.decode()
        )
        # A new one in place of the file that was there.
        new, _ = self.authority().ending("client", 300, 365)
        self.assertEqual(new, certificate)
        self.wait_for(lambda: proxy.fetch("/version") and len(rows()) == 1, "one is left")

    def test_certificates_of_a_day_are_renewed_each_day(self):
        proxy, _ = self.start_with_certificates((0.5, 1), (0.5, 1))
        self.wait_for(lambda: proxy.status()["uptimeSeconds"] >= 4, "it has looked at both")
        self.assertEqual([], proxy.status()["problems"])


class LengthTest(RefusalCase):
    """Requests that a selector made longer than a load balancer takes."""

    def long_limits(self, count=400):
        names = [f"customer-project-{number:04}-production" for number in range(count)]
        return [harness.limit(["configmaps"], within(*names))]

    def test_a_refused_length_is_said_once_for_each_rule(self):
        scripted = self.upstream(upstream.always(self.serve))
        path = upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url)
        proxy = self.scripted_proxy(self.long_limits(), path, control=True)
        self.longest = 8000
        for status, kind in ((414, HTML), (431, HTML), (400, HTML)):
            with self.subTest(status=status):
                self.answer(status, b"<html>too long</html>", kind)
                for _ in range(3):
                    self.assertEqual(status, proxy.fetch("/api/v1/configmaps").status)
                row = problems(proxy.admin)["length"]
                self.assertEqual("configmaps", row["subject"])
                self.assertRegex(row["message"], rf"answers {status} to requests of 1\d kB")
                self.assertIn("NotIn", row["remedy"])
                told = [line for line in warnings(proxy.log()) if f"answers {status}" in line]
                self.assertEqual(1, len(told), proxy.log())
        self.assertEqual(200, proxy.ask_admin("/readyz").status)
        self.assertIn(
            "[-]length failed, not required", proxy.ask_admin("/readyz?verbose").body.decode()
        )
        self.assertEqual(200, proxy.fetch("/api/v1/pods").status)
        self.assertIn("length", problems(proxy.admin))
        document = harness.rules_document(*self.long_limits(10), generation=2)
        proxy.reload(document)
        self.assertEqual({}, problems(proxy.admin))

    def test_a_bad_request_is_the_clients_own(self):
        scripted = self.upstream(upstream.always(self.serve))
        path = upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url)
        proxy = self.scripted_proxy(self.long_limits(), path)
        self.answer(400, b'{"kind":"Status","code":400}')
        self.assertEqual(400, proxy.fetch("/api/v1/configmaps?fieldSelector=x").status)
        self.assertEqual({}, problems(proxy.admin))

    def test_a_length_that_the_selector_did_not_make(self):
        """Neither what is short and refused for another reason, nor what the client made long."""
        scripted = self.upstream(upstream.always(self.serve))
        path = upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url)
        proxy = self.scripted_proxy([harness.limit(["*"], "a=b")], path)
        own = "?labelSelector=" + ",".join(f"label-{number}" for number in range(2000))
        for status, kind, query in ((400, "text/plain", ""), (431, HTML, ""), (414, HTML, own)):
            with self.subTest(status=status):
                self.answer(status, b"no", kind)
                target = "/apis/custom.metrics.k8s.io/v1/namespaces/a/pods" + query
                self.assertEqual(status, proxy.fetch(target).status)
                self.assertEqual({}, problems(proxy.admin))

    def test_a_server_that_says_beforehand_what_it_takes(self):
        """By SETTINGS_MAX_HEADER_LIST_SIZE of HTTP/2: it is not sent at all."""
        if not self.speaks_h2():
            self.skipTest("the server has HTTP/1.1 alone")
        scripted, path = self.tls_upstream(upstream.always(self.serve), head=8000)
        proxy = self.scripted_proxy(self.long_limits(), path)
        self.assertEqual(200, proxy.fetch("/version").status)
        answer = proxy.fetch("/api/v1/configmaps")
        self.assert_status_error(answer, 431, mentions=["larger than the server takes"])
        self.assertIn("length", problems(proxy.admin))
        self.assertEqual([], [target for target in self.seen if "configmaps" in target])
        self.assertIsNotNone(scripted)


class UnreachableTest(RefusalCase):
    """An API server that is away is one cause, however many requests fail for it."""

    def test_requests_that_fail_meanwhile_are_no_flood(self):
        server = f"http://127.0.0.1:{harness.free_port()}"
        path = upstream.write_kubeconfig(self.path("kubeconfig"), server)
        proxy = self.scripted_proxy([], path)
        for _ in range(5):
            answer = proxy.fetch(PODS)
            self.assert_status_error(answer, 503, mentions=["connection refused"])
        told = [line for line in warnings(proxy.log()) if "connection refused" in line]
        self.assertEqual(1, len(told), proxy.log())
        self.assertIn("remedy=", told[0])
        self.assertEqual(server, problems(proxy.admin)["unreachable"]["subject"])


class LockTest(RefusalCase):
    """Not refused, but told in the same way: a lock that is not the shard's own."""

    LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/cert-manager-controller"

    def document(self, generation, **where):
        document = harness.rules_document(generation=generation)
        document["spec"]["leaderElection"] = {"name": "cert-manager-controller", **where}
        return document

    def start(self):
        scripted = self.upstream(upstream.always(self.serve))
        path = upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url)
        args = ["--pod-namespace=cert-manager"]
        return self.scripted_proxy(self.document(1), path, args, control=True)

    def test_a_lock_in_another_namespace_is_told(self):
        proxy = self.start()
        self.assertEqual(200, proxy.fetch(self.LEASE.format("cert-manager")).status)
        self.assertEqual({}, problems(proxy.admin))
        for _ in range(5):
            self.assertEqual(200, proxy.fetch(self.LEASE.format("kube-system")).status)
        # One is enough, for an operator that has such a thing in each of many namespaces.
        for number in range(100):
            self.assertEqual(200, proxy.fetch(self.LEASE.format(f"tenant-{number}")).status)
        self.assertIn(self.LEASE.format("kube-system"), self.seen)  # as it was
        row = problems(proxy.admin)["lock"]
        self.assertEqual('Lease "cert-manager-controller" in namespace "kube-system"', row["subject"])
        self.assertIn('shard\'s lock is in namespace "cert-manager"', row["message"])
        self.assertIn("leaderElectionNamespace: kube-system", row["remedy"])
        self.assertEqual(6 - 1, row["count"])
        told = [line for line in warnings(proxy.log()) if "a lock that all shards share" in line]
        self.assertEqual(1, len(told), told)
        self.assertIn("leaderElectionNamespace: kube-system", told[0])
        self.assertEqual(1, proxy.metrics()['cmesh_proxy_problems{cause="lock"}'])
        self.assertEqual(200, proxy.ask_admin("/readyz").status)
        self.assertIn(
            "[-]lock failed, not required", proxy.ask_admin("/readyz?verbose").body.decode()
        )
        # The remedy.
        proxy.reload(self.document(2, namespace="kube-system"))
        self.assertEqual({}, problems(proxy.admin))
        self.assertEqual(200, proxy.fetch(self.LEASE.format("kube-system")).status)
        self.assertEqual(self.LEASE.format("kube-system") + "---shard-a", self.seen[-1])
        self.assertEqual({}, problems(proxy.admin))
        # Now it is the lock beside the pod that all shards would share.
        self.assertEqual(200, proxy.fetch(self.LEASE.format("cert-manager")).status)
        self.assertIn("cert-manager", problems(proxy.admin)["lock"]["remedy"])


class ManagerTest(manager_start_test.ManagerTestCase):
    """One cause is one line, however much depends on it."""

    ARGS = ("--webhook=off", "--namespace=default")

    def start_without_server(self, kubeconfig):
        """Until each part of it has failed more than once."""
        process, where = self.start(kubeconfig, *self.ARGS)
        admin = where["admin"]
        harness.wait_for(lambda: problems(admin) != {}, "a problem is on /status")
        return process, admin

    def assert_one_warning(self, admin, cause, mentions):
        told = warnings(self.log())
        self.assertEqual(1, len(told), "\n".join(told))
        for mention in mentions:
            self.assertIn(mention, told[0])
        self.assertEqual([cause], list(problems(admin)))
        metrics = wire.fetch(admin, "/metrics").body.decode()
        self.assertIn(f'cmesh_manager_problems{{cause="{cause}"}} 1\n', metrics)
        self.assertIn(f"[-]{cause} failed", wire.fetch(admin, "/readyz?verbose").body.decode())

    def wait_failed_often(self, admin):
        """Every informer has failed and will again."""
        def failed():
            status = json.loads(wire.fetch(admin, "/status").body)
            return status["discovery"].get("error") and status["shards"].get("error")

        harness.wait_for(failed, "discovery and informers have failed")

    def test_refused_credentials(self):
        kubeconfig = upstream.write_kubeconfig(
            self.path("kubeconfig"), harness.cluster().env["APISERVER"],
            authority=harness.cluster().env["CLUSTER_CA"], token="not-valid",
        )  # fmt: skip
        _, admin = self.start_without_server(kubeconfig)
        self.wait_failed_often(admin)
        self.assert_one_warning(admin, "credentials", ["scripted", "kubeconfig", "401"])

    def test_a_server_that_is_away(self):
        kubeconfig = upstream.write_kubeconfig(
            self.path("kubeconfig"), f"http://127.0.0.1:{harness.free_port()}"
        )
        _, admin = self.start_without_server(kubeconfig)
        self.wait_failed_often(admin)
        self.assert_one_warning(admin, "unreachable", ["refused", "NetworkPolicy"])

    def test_missing_permissions_name_the_role(self):
        harness.needs("RBAC")
        kubeconfig = harness.cluster().user_kubeconfig(self.folder, "nobody-in-particular")
        _, where = self.start(kubeconfig, *self.ARGS)
        admin = where["admin"]

        def told():
            status = json.loads(wire.fetch(admin, "/status").body)
            return {row["subject"]: row for row in status["problems"]}

        wanted = {
            "list shardingconfigs.ctrlmesh.kusionstack.io": "ClusterRole cmesh-manager ",
            "list namespaces": "ClusterRole cmesh-manager ",
            "get leases.coordination.k8s.io in namespace default": "Role cmesh-manager ",
        }
        harness.wait_for(lambda: set(wanted) <= set(told()), f"{wanted} are told")
        for subject, role in wanted.items():
            self.assertIn(role, told()[subject]["remedy"])
            lines = [line for line in warnings(self.log()) if f'"{subject}"' in line]
            self.assertEqual(1, len(lines), lines)
        # Nothing else is a warning.
        others = [line for line in warnings(self.log()) if "forbids what this program" not in line]
        self.assertEqual([], others)


class RulesyncTest(RefusalCase):
    """That has its rules from a ConfigMap."""

    def start(self, kubeconfig):
        ready, log = self.path("rulesync.ready"), open(self.path("rulesync.log"), "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", harness.program("rulesync"),
             "--kubeconfig", kubeconfig, "--from-configmap", "a/rules", "--to", self.path("rules"),
             "--admin", "127.0.0.1:0", "--ready-file", ready],
            env=harness.clean_environment(HOME=self.folder), stderr=log,
        )  # fmt: skip
        self.addCleanup(harness.end_process, process)
        self.wait_for(lambda: os.path.exists(ready), "rulesync listens")
        with open(ready, encoding="utf-8") as f:
            return json.load(f)["admin"]

    def log(self):
        with open(self.path("rulesync.log"), encoding="utf-8") as f:
            return f.read()

    def assert_one_warning(self, admin, cause, mentions):
        self.wait_for(lambda: cause in problems(admin), f"{cause} is told")
        self.wait_for(lambda: len(self.seen) > 4, "it was tried more than once")
        told = warnings(self.log())
        self.assertEqual(1, len(told), "\n".join(told))
        for mention in mentions:
            self.assertIn(mention, told[0])
        metrics = wire.fetch(admin, "/metrics").body.decode()
        self.assertIn(f'cmesh_rulesync_problems{{cause="{cause}"}} 1\n', metrics)
        self.assertIn(f"[-]{cause} failed", wire.fetch(admin, "/readyz?verbose").body.decode())

    def kubeconfig(self):
        scripted = self.upstream(upstream.always(self.serve))
        return upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url, token="not-valid")

    def test_refused_credentials(self):
        self.answer(401, UNAUTHORIZED)
        admin = self.start(self.kubeconfig())
        self.assert_one_warning(admin, "credentials", ["401 Unauthorized", "kubeconfig"])

    def test_a_missing_permission(self):
        self.answer(403, b'{"kind":"Status","code":403,"message":"no"}')
        admin = self.start(self.kubeconfig())
        self.assert_one_warning(
            admin, "permission", ["list configmaps in namespace a", "by a Role in its namespace"]
        )


class StatusLeaseTest(RefusalCase):
    """What localproxy needs for itself."""

    def test_a_missing_permission(self):
        scripted = self.upstream(upstream.always(self.serve))
        path = upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url)
        message = 'User \\"x\\" cannot get resource \\"leases\\"'
        self.answer(403, f'{{"kind":"Status","code":403,"message":"{message}"}}'.encode())
        pod = {"POD_NAME": "op-0", "POD_UID": "1", "POD_NAMESPACE": "a"}
        proxy = self.scripted_proxy([], path, ["--status-lease"], control=True, env=pod)
        self.wait_for(lambda: "permission" in problems(proxy.admin), "it is told")
        told = [line for line in warnings(proxy.log()) if "ease" in line]
        self.assertEqual(1, len(told), proxy.log())
        self.assertIn("leases.coordination.k8s.io in namespace a", told[0])
        self.assertIn("--clusterrole=cmesh-sidecar", told[0])
        self.assertEqual(200, proxy.ask_admin("/readyz").status)


class KubectlTest(harness.TestCase):
    """What a user of kubectl sees, in front of a real API server."""

    def test_whose_token_was_refused(self):
        cluster = harness.cluster()
        path = upstream.write_kubeconfig(
            self.path("kubeconfig"), cluster.env["APISERVER"],
            authority=cluster.env["CLUSTER_CA"], token="not-valid",
        )  # fmt: skip
        proxy = self.proxy([], path)
        kubectl = harness.Kubectl(self.folder, server=proxy.url)
        code, _, text = kubectl.run("get", "pods")
        self.assertNotEqual(0, code)
        self.assertIn("Warning: cmesh: the API server refused", text)
        self.assertIn("the token of this client was right", text)


if __name__ == "__main__":
    harness.main()
