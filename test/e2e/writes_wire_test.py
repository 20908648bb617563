# SPDX-License-Identifier: Apache-2.0
"""What the API server sees of writes, and of reads by name: none to what is not the shard's, and the
lock of leader election under the shard's own name, to the byte.
"""

import os
import signal
import threading
import time

import harness
import objects
import scripted_case
import wire
from scripted_case import AS_JSON, compact, envelope, field, injected, json_event, meta, within

# Method, path and how messages name it.
WRITES = (
    ("POST", "/api/v1/namespaces/{}/pods", "create of pods"),
    ("PUT", "/api/v1/namespaces/{}/pods/p", "update of pods"),
    ("PATCH", "/api/v1/namespaces/{}/pods/p", "patch of pods"),
    ("DELETE", "/api/v1/namespaces/{}/pods/p", "delete of pods"),
    ("DELETE", "/api/v1/namespaces/{}/pods", "deletecollection of pods"),
    ("DELETE", "/api/v1/namespaces/{}/pods?x=y", "deletecollection of pods"),
    ("PUT", "/api/v1/namespaces/{}/pods/p/status", "update of pods/status"),
    ("PATCH", "/api/v1/namespaces/{}/pods/p/status", "patch of pods/status"),
    ("POST", "/api/v1/namespaces/{}/pods/p/eviction", "create of pods/eviction"),
    ("POST", "/api/v1/namespaces/{}/pods/p/binding", "create of pods/binding"),
    ("POST", "/api/v1/namespaces/{}/pods/p/exec?command=x", "create of pods/exec"),
    ("GET", "/api/v1/namespaces/{}/pods/p/exec?command=x", "get of pods/exec"),
    ("GET", "/api/v1/namespaces/{}/pods/p/attach", "get of pods/attach"),
    ("GET", "/api/v1/namespaces/{}/pods/p/portforward", "get of pods/portforward"),
    (
        "PATCH",
        "/apis/apps/v1/namespaces/{}/deployments/d/scale",
        "patch of deployments.apps/scale",
    ),
    ("PUT", "/apis/apps/v1/namespaces/{}/deployments/d", "update of deployments.apps"),
)

# Method, path and how messages name it.
READS = (
    ("GET", "/api/v1/namespaces/{}/pods/p", "get of pods"),
    ("HEAD", "/api/v1/namespaces/{}/pods/p", "get of pods"),
    ("GET", "/api/v1/namespaces/{}/pods/p/log", "get of pods/log"),
    ("GET", "/api/v1/namespaces/{}/pods/p/status", "get of pods/status"),
    ("GET", "/api/v1/namespaces/{}/pods/p/proxy/x", "get of pods/proxy"),
    ("GET", "/apis/apps/v1/namespaces/{}/deployments/d/scale", "get of deployments.apps/scale"),
)

# What is no write, or not to what is limited, or not in a namespace.
OTHERS = (
    ("GET", "/api/v1/namespaces/{}/pods/p"),
    ("HEAD", "/api/v1/namespaces/{}/pods/p"),
    ("GET", "/api/v1/namespaces/{}/pods/p/log"),
    ("GET", "/api/v1/namespaces/{}/pods/p/status"),
    ("GET", "/api/v1/namespaces/{}/pods"),
    ("POST", "/api/v1/namespaces/{}/services"),
    ("PUT", "/apis/apps/v1/namespaces/{}/statefulsets/s"),
    ("PUT", "/api/v1/namespaces/{}"),
    ("PATCH", "/api/v1/namespaces/{}"),
    ("DELETE", "/api/v1/namespaces/{}"),
    ("PUT", "/api/v1/namespaces/{}/finalize"),
    ("PUT", "/api/v1/namespaces/{}/status"),
    ("POST", "/api/v1/namespaces"),
    ("POST", "/api/v1/nodes"),
    ("PATCH", "/api/v1/nodes/{}"),
    ("DELETE", "/api/v1/nodes"),
    ("DELETE", "/api/v1/pods"),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("POST", "/some/path/{}"),
)


def words_of(what, namespace):
    return f'{what} in namespace "{namespace}" is fenced'


class FenceCase(scripted_case.ScriptedCase):
    def limits(self, *namespaces):
        limited = ["pods", "deployments", "namespaces", "nodes"]
        return [harness.limit(limited, within(*namespaces))]

    def send(self, method, target, body=b"{}"):
        """Sends a request and leaves the answer to be read."""
        connection = self.proxy_process.connect()
        self.addCleanup(connection.close)
        headers = [("Content-Type", "application/json")]
        if method not in ("GET", "HEAD"):
            headers.append(("Content-Length", str(len(body))))
        connection.send_head(method, target, headers)
        if method not in ("GET", "HEAD"):
            connection.send(body)
        return connection

    def assert_passes(self, method, target):
        connection = self.send(method, target)
        asked = self.asked(method=method)
        self.assertEqual(target.partition("?")[0], asked.target.partition("?")[0])
        asked.respond(b"{}")
        self.assertEqual(200, connection.response(method).status)
        connection.close()

    def assert_fenced(self, method, target, *mentions):
        answer = self.send(method, target).response(method)
        status = self.assert_status_error(answer, 403, "Forbidden", mentions)
        self.assert_nothing_asked()
        return status["message"]


class FenceTest(FenceCase):
    def test_enforce(self):
        self.start_with("a")
        for method, path, what in WRITES:
            with self.subTest(method=method, path=path):
                self.assert_passes(method, path.format("a"))
                message = self.assert_fenced(method, path.format("b"), words_of(what, "b"))
                self.assertIn("by generation 1 of the rules this does not belong to", message)
                self.assertIn("shard " + scripted_case.SHARD, message)
                self.assertIn("--write-fence", message)
        for method, path in OTHERS:
            with self.subTest(method=method, path=path):
                self.assert_passes(method, path.format("b"))
        self.assertEqual(len(WRITES), self.metric("writes_fenced_total"))
        self.assertEqual(0, self.metric("writes_audited_total"))

    def test_audit_and_off(self):
        for mode in ("audit", "off"):
            proxy = self.start_with("a", args=(f"--write-fence={mode}",))
            for method, path, _ in WRITES:
                with self.subTest(mode=mode, method=method, path=path):
                    self.assert_passes(method, path.format("b"))
            logged = words_of(WRITES[0][2], "b").replace('"', '\\"') in proxy.log()
            self.assertEqual(mode == "audit", logged)
            for method, path in OTHERS:
                self.assert_passes(method, path.format("b"))
            audited = len(WRITES) if mode == "audit" else 0
            self.assertEqual(audited, self.metric("writes_audited_total"))
            self.assertEqual(0, self.metric("writes_fenced_total"))
            proxy.stop()

    def test_what_was_just_lost(self):
        """In every mode; until it is regained, however often the rules change in between."""
        for mode in ("enforce", "audit", "off"):
            with self.subTest(mode=mode):
                self.generation = 1
                proxy = self.start_with("a", "b", args=(f"--write-fence={mode}",))
                self.reload_to("b", "c")
                for method, path, what in WRITES:
                    message = self.assert_fenced(method, path.format("a"), words_of(what, "a"))
                    self.assertIn("by generation 2", message)
                    self.assertIn("no longer belongs to shard", message)
                    self.assertIn("do not retry", message)
                    self.assert_passes(method, path.format("b"))
                    self.assert_passes(method, path.format("c"))
                for method, path in OTHERS:
                    self.assert_passes(method, path.format("a"))
                self.lose_and_regain(mode)
                fenced = len(WRITES) + 4 + (1 if mode == "enforce" else 0)
                self.assertEqual(fenced, self.metric("writes_fenced_total"))
                proxy.stop()

    def lose_and_regain(self, mode):
        create = WRITES[0][1]
        self.reload_to("c")
        for namespace in "ab":
            self.assert_fenced("POST", create.format(namespace), "no longer belongs")
        if mode == "enforce":
            self.assert_fenced("POST", create.format("z"), "does not belong")
        else:
            self.assert_passes("POST", create.format("z"))
        self.reload_to("a")
        self.assert_passes("POST", create.format("a"))
        for namespace in "bc":
            self.assert_fenced("POST", create.format(namespace), "no longer belongs")

    def test_a_limit_that_is_new(self):
        self.start([], "--write-fence=off")
        self.assert_passes("POST", "/api/v1/namespaces/a/pods")
        self.reload_to("b")
        self.assert_fenced("POST", "/api/v1/namespaces/a/pods", "no longer belongs")
        self.reload([])
        self.assert_passes("POST", "/api/v1/namespaces/a/pods")

    def test_the_hash_of_the_namespace(self):
        """97 and 98 modulo 32 for "a" and "b"."""
        self.start([harness.limit(["pods"], f"{harness.HASH_LABEL} in (1)")])
        self.assert_passes("POST", "/api/v1/namespaces/a/pods")
        self.assert_fenced("POST", "/api/v1/namespaces/b/pods")
        self.reload([harness.limit(["pods"], f"{harness.HASH_LABEL} notin (1)")])
        self.assert_fenced("POST", "/api/v1/namespaces/a/pods")
        self.assert_passes("POST", "/api/v1/namespaces/b/pods")

    def test_keys_of_the_objects_own(self):
        """Whether an object has them cannot be told from the request."""
        self.start([harness.limit(["pods"], "app=x")])
        for method, path, _ in WRITES:
            self.assert_passes(method, path.format("a"))

    def test_a_shard_of_nothing(self):
        self.start([harness.limit(["pods"], "k,!k")])
        self.assert_fenced("POST", "/api/v1/namespaces/a/pods")
        self.assert_passes("POST", "/api/v1/namespaces/a/services")

    def test_deletecollection_in_all_namespaces(self):
        """Of the shard's own objects in them."""
        self.start_with("a")
        connection = self.send("DELETE", "/api/v1/pods?fieldSelector=x")
        self.asked(f"/api/v1/pods?fieldSelector=x&{injected(within('a'))}", "DELETE").respond()
        self.assertEqual(200, connection.response().status)


class ReadFenceTest(FenceCase):
    not_fenced = (
        ("GET", "/api/v1/namespaces/{}/pods"),
        ("GET", "/api/v1/namespaces/{}/services/s"),
        ("GET", "/api/v1/namespaces/{}"),
        ("GET", "/api/v1/nodes/{}"),
    )

    def fences(self, proxy):
        return proxy.status()["fences"]

    def test_enforce(self):
        proxy = self.start_with("a", args=("--read-fence=enforce",))
        self.assertEqual({"writes": "enforce", "reads": "enforce"}, self.fences(proxy))
        for method, path, what in READS:
            with self.subTest(method=method, path=path):
                self.assert_passes(method, path.format("a"))
                if method == "HEAD":  # the answer has no body
                    answer = self.send(method, path.format("b")).response(method)
                    self.assertEqual(403, answer.status)
                    self.assert_nothing_asked()
                    continue
                message = self.assert_fenced(method, path.format("b"), words_of(what, "b"))
                self.assertIn("by generation 1 of the rules this does not belong to", message)
                self.assertIn("shard " + scripted_case.SHARD, message)
                self.assertIn("--read-fence", message)
        for method, path in self.not_fenced:
            with self.subTest(method=method, path=path):
                self.assert_passes(method, path.format("b"))
        self.assertEqual(len(READS), self.metric("reads_fenced_total"))
        self.assertEqual(0, self.metric("writes_fenced_total"))
        self.reload_to("b")
        self.assert_passes("GET", READS[0][1].format("b"))
        self.assert_fenced("GET", READS[0][1].format("a"), "does not belong to")

    def test_audit_and_off(self):
        for mode in ("audit", "off"):
            proxy = self.start_with("a", args=(f"--read-fence={mode}",))
            self.assertEqual({"writes": "enforce", "reads": mode}, self.fences(proxy))
            for method, path, _ in READS:
                with self.subTest(mode=mode, method=method, path=path):
                    self.assert_passes(method, path.format("b"))
            logged = words_of(READS[0][2], "b").replace('"', '\\"') in proxy.log()
            self.assertEqual(mode == "audit", logged)
            audited = len(READS) if mode == "audit" else 0
            self.assertEqual(audited, self.metric("reads_audited_total"))
            self.assertEqual(0, self.metric("reads_fenced_total"))
            proxy.stop()


class LostWriteTest(FenceCase):
    """A write that is under way when its namespace is lost: the change is confirmed when the write
    is over, or after 5 s, and until it can certainly not be executed any more it is not settled.
    """

    target = "/api/v1/namespaces/a/pods"

    def start_with(self, *namespaces, args=(), **more):
        """With a file that says that nothing was sent before."""
        return super().start_with(*namespaces, args=("--state", self.path("state"), *args), **more)

    def reload_in_thread(self, *namespaces):
        """A reload of which the answer may take long: the thread, and seconds once it is over."""
        self.generation += 1
        document = self.document(self.limits(*namespaces), self.generation)
        took = []

        def run(began):  # what the answer says may be newer than what was asked
            status, _ = self.proxy_process.control("PUT", document)
            if status == 200:
                took.append(time.monotonic() - began)

        thread = threading.Thread(target=run, args=(time.monotonic(),))
        thread.start()
        self.wait_in_force(self.generation)
        return thread, took

    def wait_in_force(self, generation):
        harness.wait_for(
            lambda: self.proxy_process.status()["rules"]["generation"] == generation,
            "the rules are in force",
        )

    def ask_and_not_wait(self, *namespaces):
        """Hands rules over and leaves the answer."""
        connection = harness.UnixConnection(self.proxy_process.control_path)
        self.addCleanup(connection.close)
        self.generation += 1
        document = self.document(self.limits(*namespaces), self.generation)
        connection.request("PUT", "/v1/rules", compact(document))
        self.wait_in_force(self.generation)
        return connection

    def assert_waits(self, took):
        self.assertFalse(self.proxy_process.status()["rules"]["settled"])
        self.assertEqual([], took)

    def assert_answered(self, thread, took, settled=True):
        """The reload is confirmed, and whether the write may still be executed."""
        thread.join(20)
        self.assertEqual(1, len(took))
        rules = self.proxy_process.status()["rules"]
        self.assertEqual(settled, rules["settled"])
        self.assertEqual(settled, rules["lostWrites"] == 0)
        _, said = self.proxy_process.control("GET")
        self.assertEqual(settled, said.get("settled", True))

    def test_it_is_waited_for(self):
        for method, path, _ in WRITES:
            if method == "GET":
                continue
            with self.subTest(method=method, path=path):
                self.generation = 1
                proxy = self.start_with("a")
                client = self.send(method, path.format("a"))
                asked = self.asked()
                thread, took = self.reload_in_thread("b")
                # What comes now is refused, while that one goes on.
                self.assert_fenced(method, path.format("a"), "no longer belongs")
                self.assert_waits(took)
                asked.respond(b'{"done":true}')
                self.assertEqual(b'{"done":true}', client.response(method).body)
                self.assert_answered(thread, took)
                proxy.stop()

    def test_others_are_not_waited_for(self):
        self.start_with("a", "b")
        waiting = []
        for method, target in (
            ("POST", "/api/v1/namespaces/b/pods"),
            ("POST", "/api/v1/namespaces/a/services"),
            ("GET", "/api/v1/namespaces/a/pods/p"),
            ("PATCH", "/api/v1/nodes/a"),
        ):
            waiting.append((self.send(method, target), self.asked(), method))
        self.reload_to("b")
        for client, asked, method in waiting:
            asked.respond(b"{}")
            self.assertEqual(200, client.response(method).status)

    def test_several(self):
        self.start_with("a")
        writes = [(self.send("POST", self.target), self.asked()) for _ in range(5)]
        thread, took = self.reload_in_thread("b")
        for client, asked in writes:
            self.assert_waits(took)
            asked.respond(b"{}")
            client.response()
        self.assert_answered(thread, took)

    def test_its_body_is_still_coming(self):
        self.start_with("a")
        client = self.proxy_process.connect()
        self.addCleanup(client.close)
        client.send_head("PUT", self.target + "/p", [("Content-Length", "10")])
        client.send(b"01234")
        self.wait_metric("requests_in_flight", 1)
        thread, took = self.reload_in_thread("b")
        self.assert_waits(took)
        client.send(b"56789")
        asked = self.asked()
        self.assertEqual(b"0123456789", asked.request.body)
        self.assert_waits(took)
        asked.respond(b"{}")
        self.assertEqual(200, client.response().status)
        self.assert_answered(thread, took)

    def test_its_answer_is_still_coming(self):
        self.start_with("a")
        client = self.send("POST", self.target)
        asked = self.asked()
        asked.begin()
        asked.send(b"some")
        client.read_head()
        self.expect(client, b"some")
        thread, took = self.reload_in_thread("b")
        self.assert_waits(took)
        asked.end()
        self.expect_end(client)
        self.assert_answered(thread, took)

    def test_its_client_leaves(self):
        self.start_with("a")
        client = self.send("POST", self.target)
        asked = self.asked()
        thread, took = self.reload_in_thread("b")
        self.assert_waits(took)
        client.close()
        self.assertTrue(asked.closed())
        self.assert_answered(thread, took, settled=False)

    def test_the_api_server_leaves(self):
        self.start_with("a")
        client = self.send("POST", self.target)
        asked = self.asked()
        thread, took = self.reload_in_thread("b")
        self.assert_waits(took)
        asked.break_off()
        answer = client.response()
        self.assert_status_error(answer, 502, mentions=["may have been executed"])
        self.assertIsNone(answer.get("Retry-After"))
        self.assert_answered(thread, took, settled=False)

    def test_one_that_takes_long(self):
        """After 5 s the change is confirmed, also to those who ask meanwhile; the write goes on."""
        self.start_with("a")
        client = self.send("POST", self.target)
        asked = self.asked()
        first = self.reload_in_thread("b")
        again = []

        def repeat():
            again.append(self.proxy_process.control("PUT", self.document(self.limits("b"), 2)))

        repeated = threading.Thread(target=repeat)
        repeated.start()
        self.assert_waits(first[1])
        self.assert_answered(*first, settled=False)
        repeated.join(20)
        self.assertEqual([(200, False)], [(status, said["settled"]) for status, said in again])
        asked.respond(b"{}")
        self.assertEqual(200, client.response().status)
        harness.wait_for(
            lambda: self.proxy_process.status()["rules"]["settled"], "the write is over"
        )
        self.reload_to("c")

    def test_one_that_never_comes(self):
        """What its client does not send within 5 s is broken off, and was never executed."""
        self.start_with("a")
        client = self.proxy_process.connect()
        self.addCleanup(client.close)
        client.send_head("PUT", self.target + "/p", [("Content-Length", "10")])
        client.send(b"01234")
        self.wait_metric("requests_in_flight", 1)
        thread, _ = self.reload_in_thread("b")
        thread.join(20)
        with self.assertRaises(wire.Cut):
            client.read_head()
        self.assertTrue(self.proxy_process.status()["rules"]["settled"])

    def test_a_peer_that_does_not_wait(self):
        """The change is in force, whoever asked for it."""
        self.start_with("a")
        client = self.send("POST", self.target)
        asked = self.asked()
        self.ask_and_not_wait("b").close()
        self.assert_fenced("POST", self.target, "no longer belongs")
        asked.respond(b"{}")
        self.assertEqual(200, client.response().status)
        self.reload_to("c")

    def test_shutdown_while_it_is_waited_for(self):
        self.start_with("a")
        client = self.send("POST", self.target)
        asked = self.asked()
        self.ask_and_not_wait("b")
        self.proxy_process.process.terminate()
        harness.wait_for(lambda: "shutting down" in self.proxy_process.log(), "it shuts down")
        asked.respond(b"{}")
        self.assertEqual(200, client.response().status)
        self.assert_ends()


class RestartTest(FenceCase):
    """No end of localproxy stops the API server: what it has sent may be executed later."""

    target = "/api/v1/namespaces/a/pods"

    def start_again(self, *namespaces):
        self.generation = 1
        return self.start_with(*namespaces, args=("--state", self.path("state")))

    def end_with_a_write(self, how):
        """One that the API server has, and works on."""
        proxy = self.start_with("a", args=("--state", self.path("state"), "--shutdown-grace=1"))
        client = self.send("POST", self.target)
        self.asked()
        proxy.process.send_signal(how)
        proxy.wait()
        client.close()

    def end_at_once(self):
        self.proxy_process.kill()
        self.proxy_process.wait()

    def assert_settled(self, settled):
        rules = self.proxy_process.status()["rules"]
        self.assertEqual((settled, 0 if settled else 1), (rules["settled"], rules["lostWrites"]))
        _, said = self.proxy_process.control("GET")
        self.assertEqual(settled, said.get("settled", True))

    def test_rules_change_while_it_is_away(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how=how):
                self.end_with_a_write(how)
                self.start_again("b")
                self.assert_settled(False)
                self.assertIn("may still be executed", self.proxy_process.log())
                self.proxy_process.stop()
                os.unlink(self.path("state"))

    def test_rules_change_afterwards(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how=how):
                self.end_with_a_write(how)
                self.start_again("a")
                self.assert_settled(True)
                self.reload_to("b")
                self.assert_settled(False)
                self.end_at_once()
                self.start_again("b")  # it knows from the one before
                self.assert_settled(False)
                self.proxy_process.stop()
                os.unlink(self.path("state"))

    def test_what_was_answered_is_over(self):
        self.start_again("a")
        client = self.send("POST", self.target)
        self.asked().respond(b"{}")
        self.assertEqual(200, client.response().status)
        self.end_at_once()
        self.start_again("b")
        self.assert_settled(True)

    def test_nobody_knows(self):
        """Without the file, the process before may have sent anything."""
        self.start_with("a")
        self.assert_settled(False)


class RefusedWriteTest(FenceCase):
    """A write that an HTTP/2 server refuses is sent again, and may be executed from then on for as
    long as one that is sent for the first time."""

    upstream_protocol = "h2"
    refused_after_s = 4
    executed_within_s = 65

    def test_it_counts_from_when_it_was_sent_again(self):
        self.start_with("a", args=("--state", self.path("state")))
        client = self.send("POST", "/api/v1/namespaces/a/pods")
        began = time.monotonic()
        refused = self.asked()
        harness.wait_for(lambda: time.monotonic() - began > self.refused_after_s, "some time passed")
        refused.peer.refuse()
        self.asked()
        again = time.monotonic()
        self.reload_to("b")
        client.close()
        self.wait_metric("requests_in_flight", 0)
        self.assertFalse(self.proxy_process.status()["rules"]["settled"])
        harness.wait_for(
            lambda: self.proxy_process.status()["rules"]["settled"], "it is over", timeout=90
        )
        self.assertGreater(time.monotonic() - again, self.executed_within_s - 1)


class LockTest(scripted_case.ScriptedCase):
    """The lock `op` is `op---shard-a` for the API server."""

    kinds = (
        ("/apis/coordination.k8s.io/v1/namespaces/home/leases", "Lease"),
        ("/api/v1/namespaces/home/configmaps", "ConfigMap"),
        ("/api/v1/namespaces/home/endpoints", "Endpoints"),
    )

    def document(self, limits, generation, lock="op"):
        document = super().document(limits, generation)
        if lock is not None:
            document["spec"]["leaderElection"] = {"name": lock}
        return document

    def start_locked(self, limited=("pods",)):
        limits = [harness.limit(limited, within("a"))]
        self.start(self.document(limits, 1), "--pod-namespace=home")
        return limits

    def start_limited(self):
        """The kinds of locks are limited too, and the shard owns nothing at home."""
        return self.start_locked(("configmaps", "leases", "endpoints"))

    def passes(self, method, target, body=None, headers=()):
        """What the API server is asked; its answer is not changed."""
        said = b'{"metadata":{"name":"op---shard-a"}}'
        with self.proxy_process.connect() as client:
            headers = list(headers)
            if body is not None:
                headers.append(("Content-Length", str(len(body))))
            client.send_head(method, target, headers)
            client.send(body or b"")
            asked = self.asked()
            asked.respond(said)
            answer = client.response(method)
            self.assertEqual(200, answer.status)
            self.assertEqual(b"" if method == "HEAD" else said, answer.body)
            return asked

    def assert_target(self, method, target, expected):
        self.assertEqual(expected, self.passes(method, target).target)

    def test_paths(self):
        self.start_limited()
        for path, _ in self.kinds:
            renamed = f"{path}/op---shard-a"
            for method in ("GET", "HEAD", "DELETE"):
                self.assert_target(method, f"{path}/op", renamed)
                self.assert_target(method, f"{path}/op?x=%20y&z", f"{renamed}?x=%20y&z")
            self.assert_target("GET", renamed, renamed)
            self.assert_target("GET", f"{path}/o%70", renamed)

    def test_others(self):
        """Other names, namespaces, resources and groups are let through as they are."""
        self.start_limited()
        leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
        for target in (
            leases.format("home", "op2"),
            leases.format("home", "o"),
            leases.format("home", "op---shard-b"),
            leases.format("a", "op"),
            "/api/v1/namespaces/home/secrets/op",
            "/api/v1/namespaces/home/pods/op",
            "/apis/other.example/v1/namespaces/home/leases/op",
            "/api/v1/namespaces/home/configmapss/op",
        ):
            self.assert_target("GET", target, target)
        for target in (
            "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dop",
            "/api/v1/namespaces/home/configmaps?fieldSelector=metadata.name%3Dother",
            "/api/v1/namespaces/home/configmaps?fieldSelector=metadata.name%21%3Dop",
        ):
            self.assert_target("GET", target, f"{target}&{injected(within('a'))}")

    def test_collections_of_one(self):
        """List, watch and deletecollection by name; no label stands in their way."""
        self.start_limited()
        for path, _ in self.kinds:
            for query in ("", "watch=true&resourceVersion=7&", "watch=1&allowWatchBookmarks=true&"):
                for term in ("metadata.name%3D", "metadata.name=", "metadata.name%3D%3D"):
                    self.assert_target(
                        "GET",
                        f"{path}?{query}fieldSelector={term}op&limit=5",
                        f"{path}?{query}fieldSelector={term}op---shard-a&limit=5",
                    )
            self.assert_target(
                "DELETE",
                f"{path}?fieldSelector=metadata.name%3Dop",
                f"{path}?fieldSelector=metadata.name%3Dop---shard-a",
            )

    def test_json_bodies(self):
        """Only the name changes; white space, order and everything else stay."""
        self.start_limited()
        # `@` is where the name stands.
        bodies = (
            b'{"metadata":{"name":@,"namespace":"home"},"spec":{"name":"op"}}',
            b'{\n  "spec" : {"holderIdentity": "op"},\n'
            b'  "metadata" : {"labels":{"name":"op"}, "name" : @}\n}\n',
            b'{"metadata":{"annotations":{"x":"\\"name\\":\\"op\\""},"name":@}}',
        )
        json_types = ("application/json", "application/json; charset=utf-8", None)
        for path, _ in self.kinds:
            own = f"{path}/op---shard-a"
            for body in bodies:
                renamed = body.replace(b"@", b'"op---shard-a"')
                for content_type, written in zip(json_types, (b'"op"', b'"o\\u0070"', b'"op"')):
                    headers = [("Content-Type", content_type)] if content_type else []
                    body_sent = body.replace(b"@", written)
                    for method, target, expected, sent in (
                        ("POST", path, path, body_sent),
                        ("PUT", f"{path}/op", own, body_sent),
                        ("PUT", own, own, renamed),
                    ):
                        asked = self.passes(method, target, sent, headers)
                        self.assertEqual((expected, renamed), (asked.target, asked.request.body))

    def test_chunked_bodies(self):
        self.start_locked()
        path, _ = self.kinds[0]
        body = b'{"metadata":{"name":"op"},"x":"%s"}' % (b"y" * 100000)
        client = self.proxy_process.connect()
        self.addCleanup(client.close)
        client.send_head("POST", path, [("Transfer-Encoding", "chunked")])
        for at in range(0, len(body), 777):
            client.send_chunk(body[at : at + 777])
        client.send(b"0\r\n\r\n")
        asked = self.asked(path)
        self.assertEqual(body.replace(b'"op"', b'"op---shard-a"'), asked.request.body)
        self.assertIsNone(asked.request.get("Transfer-Encoding"))

    @staticmethod
    def protobuf_lock(kind, name):
        metadata = field(1, name) + field(2, "") + field(3, "home") + field(6, "7")
        spec = field(1, "op" + "x" * 120) + field(2, 15)
        group = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
        return envelope(kind, field(1, metadata) + field(2, spec), group)

    def test_protobuf_bodies(self):
        """The name and the lengths around it."""
        self.start_locked()
        headers = [("Content-Type", objects.PROTOBUF)]
        for path, kind in self.kinds:
            own = self.protobuf_lock(kind, "op---shard-a")
            for method, target, expected in (
                ("POST", path, path),
                ("PUT", f"{path}/op", f"{path}/op---shard-a"),
            ):
                asked = self.passes(method, target, self.protobuf_lock(kind, "op"), headers)
                self.assertEqual((expected, own), (asked.target, asked.request.body))
            other = self.protobuf_lock(kind, "other")
            asked = self.passes("POST", path, other, headers)
            self.assertEqual(other, asked.request.body)

    def test_candidates(self):
        """They keep their names and name the shard's lock; neither limits nor the fence apply."""
        path = "/apis/coordination.k8s.io/v1beta1/namespaces/home/leasecandidates"
        self.start_locked(("leasecandidates",))
        body = b'{"metadata":{"name":"pod-1"},"spec":{"leaseName":"op","strategy":"x"}}'
        own = body.replace(b'"op"', b'"op---shard-a"')
        for method, target in (("POST", path), ("PUT", f"{path}/pod-1")):
            for sent, expected in ((body, own), (own, own), (b"{}", b"{}")):
                asked = self.passes(method, target, sent)
                self.assertEqual((target, expected), (asked.target, asked.request.body))
        for target in (f"{path}/op", f"{path}?watch=true&fieldSelector=metadata.name%3Dpod-1"):
            self.assert_target("GET", target, target)
        spec = field(1, "op") + field(6, "x")
        sent = envelope("LeaseCandidate", field(1, field(1, "op")) + field(2, spec), "v1beta1")
        spec = field(1, "op---shard-a") + field(6, "x")
        own = envelope("LeaseCandidate", field(1, field(1, "op")) + field(2, spec), "v1beta1")
        asked = self.passes("POST", path, sent, [("Content-Type", objects.PROTOBUF)])
        self.assertEqual(own, asked.request.body)

    def test_patches(self):
        self.start_limited()
        for path, _ in self.kinds:
            for kind, body, expected in (
                ("merge-patch+json", b'{"spec":{"x":1}}', b'{"spec":{"x":1}}'),
                (
                    "merge-patch+json",
                    b'{"metadata":{"name":"op","resourceVersion":"5"}}',
                    b'{"metadata":{"name":"op---shard-a","resourceVersion":"5"}}',
                ),
                (
                    "strategic-merge-patch+json",
                    b'{"metadata":{"name":"op"}}',
                    b'{"metadata":{"name":"op---shard-a"}}',
                ),
                (
                    "json-patch+json",
                    b'[{"op":"test","path":"/metadata/name","value":"op"}]',
                    b'[{"op":"test","path":"/metadata/name","value":"op---shard-a"}]',
                ),
                (
                    "json-patch+json",
                    b'[{"op":"add","path":"/spec/name","value":"op"}]',
                    b'[{"op":"add","path":"/spec/name","value":"op"}]',
                ),
            ):
                headers = [("Content-Type", f"application/{kind}")]
                asked = self.passes("PATCH", f"{path}/op", body, headers)
                self.assertEqual(f"{path}/op---shard-a", asked.target)
                self.assertEqual(expected, asked.request.body)

    def test_encodings_that_are_not_known(self):
        """A lock that cannot be renamed must not be shared."""
        self.start_locked()
        body = b'{"metadata":{"name":"op"}}'
        cbor = [("Content-Type", "application/cbor")]
        gzipped = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")]
        for path, _ in self.kinds:
            for headers in (cbor, gzipped):
                for method, target in (("POST", path), ("PUT", f"{path}/op")):
                    answer = self.proxy_process.fetch(target, method, headers, body)
                    self.assert_status_error(answer, 415, "UnsupportedMediaType")
            # Nobody reads what cannot be the lock.
            self.assertEqual(b"\xa0", self.passes("PUT", f"{path}/x", b"\xa0", cbor).request.body)

    def test_bodies_that_are_wrong(self):
        self.start_locked()
        path, _ = self.kinds[0]
        for code, content_type, body in (
            (400, "application/json", b'{"metadata":{"name":"op"}'),
            (400, "application/json", b'{"metadata":{"name":"op","name":"other"}}'),
            (400, objects.PROTOBUF, b"k8s\0\x0a\xff"),
            (400, objects.PROTOBUF, b'{"metadata":{"name":"op"}}'),
            (413, "application/json", b'{"x":"' + b"y" * (3 << 20) + b'"}'),
        ):
            with self.subTest(code=code, body=body[:50]):
                headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
                client = self.proxy_process.connect()
                self.addCleanup(client.close)
                client.send_head("POST", path, headers)
                try:
                    client.send(body)
                except OSError:
                    pass  # it was answered before all was read
                self.assert_status_error(client.response("POST"), code)
        self.assert_nothing_asked()

    def test_the_fence_does_not_concern_it(self):
        """The shard owns no object in the pod's namespace but its lock."""
        self.start_limited()
        path, _ = self.kinds[1]
        headers = [("Content-Type", "application/json")]
        self.passes("POST", path, b'{"metadata":{"name":"op"}}', headers)
        self.passes("PUT", f"{path}/op---shard-a", b'{"metadata":{"name":"op---shard-a"}}')
        self.passes("DELETE", f"{path}/op")
        answer = self.proxy_process.fetch(path, "POST", headers, b'{"metadata":{"name":"x"}}')
        self.assert_status_error(
            answer, 403, "Forbidden", [words_of("create of configmaps", "home")]
        )
        answer = self.proxy_process.fetch(f"{path}/x", "DELETE")
        self.assert_status_error(answer, 403)
        self.assert_nothing_asked()

    def test_the_name_changes(self):
        limits = self.start_locked()
        path, _ = self.kinds[0]
        watch, asked = self.open_watch(
            AS_JSON, target=f"{path}?watch=true&fieldSelector=metadata.name%3Dop"
        )
        half = self.proxy_process.connect()
        self.addCleanup(half.close)
        body = b'{"metadata":{"name":"op-2"}}'
        half.send_head("POST", path, [("Content-Length", str(len(body)))])
        half.send(body[:10])
        self.wait_metric("requests_in_flight", 2)
        self.proxy_process.reload(self.document(limits, 2, "op-2"))
        # A body that comes after the change is read by the new rules.
        half.send(body[10:])
        renamed = self.asked(path)
        self.assertEqual(b'{"metadata":{"name":"op-2---shard-a"}}', renamed.request.body)
        self.assert_target("GET", f"{path}/op", f"{path}/op")
        self.assert_target("GET", f"{path}/op-2", f"{path}/op-2---shard-a")
        event = json_event("MODIFIED", meta("op---shard-a", 7, "home"))
        asked.send(event)
        self.expect(watch, event)
        self.proxy_process.reload(self.document(limits, 3, None))
        self.assert_target("GET", f"{path}/op-2", f"{path}/op-2")


if __name__ == "__main__":
    harness.main()
