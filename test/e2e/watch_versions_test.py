# SPDX-License-Identifier: Apache-2.0
"""Watches from versions that clients learnt from writes and from other watches, through a localproxy
that has just been started, without a file and with one: what Kubernetes' conformance tests demand of
watches.
"""

import itertools
import json
import os
import random
import threading

import harness
import objects
import wire


class Watch:
    """An open watch, whose events are taken one by one."""

    def __init__(self, address, target):
        self.target = target
        self.connection = wire.Connection(address)
        self.connection.send_head("GET", target, [("Accept", "application/json")])
        head = self.connection.read_head()
        if head.status != 200:
            raise AssertionError(f"{target}: {head.status} {self.connection.read_body()}")
        self.data = b""
        self.events = []

    def next(self):
        """The next event: its type, the object's name and its version. It must come."""
        while not self.events:
            self.events, self.data = objects.json_events(self.data + self.connection.read_some())
        event = self.events.pop(0)
        return event.type, event.item.name, event.item.resource_version

    def close(self):
        self.connection.close()


class WatchVersionsTest(harness.TestCase):
    """Each test has a localproxy of its own, so that nothing was asked of it before."""

    numbers = itertools.count()

    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.namespace = f"versions-{os.getpid()}-{next(self.numbers)}"
        selector = f"{harness.NAMESPACE_LABEL} in ({self.namespace})"
        self.rules = [harness.limit(["configmaps"], selector)]
        self.localproxy = self.start()
        self.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": self.namespace}})
        self.addCleanup(self.cluster.fetch, f"/api/v1/namespaces/{self.namespace}", "DELETE")
        self.path = f"/api/v1/namespaces/{self.namespace}/configmaps"

    def start(self):
        proxy = self.proxy(self.rules)
        proxy.wait_for_start_version()
        return proxy

    def list(self):
        answer = self.localproxy.fetch(self.path)
        self.assertEqual(200, answer.status)
        return answer

    def ask(self, method, name, thing=None):
        """Asks for the object and returns its version."""
        target = self.path if method == "POST" else f"{self.path}/{name}"
        body = None if thing is None else json.dumps(thing).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.localproxy.fetch(target, method, [("Content-Type", kind)], body)
        self.assertLess(answer.status, 300, answer)
        return json.loads(answer.body)["metadata"].get("resourceVersion")

    def thing(self, name, value, label="a"):
        labels = {harness.NAMESPACE_LABEL: self.namespace, "watched": label}
        return {"metadata": {"name": name, "labels": labels}, "data": {"value": str(value)}}

    def watch(self, version="", selector=""):
        target = f"{self.path}?watch=1&resourceVersion={version}&labelSelector={selector}"
        watch = Watch(self.localproxy.listen, target)
        self.addCleanup(watch.close)
        return watch

    def test_from_the_version_of_an_update(self):
        self.ask("POST", "x", self.thing("x", 0))
        first = self.ask("PUT", "x", self.thing("x", 1))
        second = self.ask("PUT", "x", self.thing("x", 2))
        self.ask("DELETE", "x")
        watch = self.watch(first)
        self.assertEqual(("MODIFIED", "x", second), watch.next())
        self.assertEqual(("DELETED", "x"), watch.next()[:2])

    def test_from_the_version_of_a_patch_of_what_was_there(self):
        """The first that localproxy hears of the resource."""
        self.cluster.json(self.path, "POST", self.thing("x", 0))
        first = self.ask("PATCH", "x", {"data": {"value": "1"}})
        watch = self.watch(first)
        second = self.ask("PATCH", "x", {"data": {"value": "2"}})
        self.assertEqual(("MODIFIED", "x", second), watch.next())

    def test_from_the_version_of_an_object_that_was_listed_since(self):
        """As the specs "CSR API operations" and "IngressClass API operations" do it."""
        created = self.ask("POST", "x", self.thing("x", 0))
        self.list()
        self.assertEqual(created, self.ask("GET", "x"))
        watch = self.watch(created, "watched=a")
        version = self.ask("PATCH", "x", self.thing("x", 1))
        self.assertEqual(("MODIFIED", "x", version), watch.next())
        self.list()
        again = self.watch(created)
        self.assertEqual(("MODIFIED", "x", version), again.next())

    def test_from_the_last_version_of_another_watch(self):
        for ended in (True, False):
            name = f"ended-{ended}".lower()
            self.ask("POST", name, self.thing(name, 0))
            watch = self.watch(selector="watched=a")
            self.assertEqual(("ADDED", name), watch.next()[:2])
            version = self.ask("PUT", name, self.thing(name, 1))
            self.assertEqual(("MODIFIED", name, version), watch.next())
            if ended:
                watch.close()
            self.ask("PUT", name, self.thing(name, 2, "b"))
            again = self.watch(version, "watched=a")
            self.assertEqual(("DELETED", name), again.next()[:2])

    def test_selectors_that_stop_to_match(self):
        watch = self.watch(selector="watched=a")
        self.ask("POST", "x", self.thing("x", 0))
        self.assertEqual("ADDED", watch.next()[0])
        for kind, label in (("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "a")):
            self.ask("PATCH", "x", self.thing("x", random.random(), label))
            self.assertEqual(kind, watch.next()[0])
        self.ask("DELETE", "x")
        self.assertEqual("DELETED", watch.next()[0])

    def test_many_watches_see_the_same_order(self):
        """Each begins at the event that the first has just shown, which begins with what there is,
        while objects change."""
        self.cluster.json(self.path, "POST", self.thing("there", 0))
        watches = [self.watch("0")]
        version = watches[0].next()[2]
        over = threading.Event()
        writer = threading.Thread(target=self.write_until, args=(over,))
        writer.start()
        try:
            while len(watches) < 40:
                watches.append(self.watch(version))
                event = watches[0].next()
                version = event[2]
                self.assertEqual({event}, {watch.next() for watch in watches[1:]})
        finally:
            over.set()
            writer.join()

    @harness.needs("RBAC")
    def test_who_may_not_list_namespaces_is_told(self):
        kubeconfig = self.cluster.user_kubeconfig(self.folder, "nobody-special")
        proxy = self.proxy([harness.limit(["configmaps"], "a=b")], kubeconfig)
        said = "the API server does not tell where it is (/api/v1/namespaces)"
        harness.wait_for(lambda: said in proxy.log(), "it is said")
        self.assertIn("code=403", proxy.log())

    def test_from_before_the_start(self):
        """Somebody may have listed there under other rules."""
        self.localproxy.stop()
        made = self.cluster.json(self.path, "POST", self.thing("x", 0))
        version = made["metadata"]["resourceVersion"]
        self.localproxy = self.start()
        answer = self.localproxy.fetch(f"{self.path}?watch=1&resourceVersion={version}")
        self.assertEqual(410, json.loads(answer.body)["object"]["code"])

    def write_until(self, over):
        for number in itertools.count():
            if over.is_set():
                return
            name = f"x-{number}"
            self.ask("POST", name, self.thing(name, 0))
            self.ask("PUT", name, self.thing(name, 1))
            self.ask("DELETE", name)


class WithAFileTest(WatchVersionsTest):
    """The same, with all that was before known: there is no start to be asked for."""

    def start(self):
        return self.proxy(self.rules, args=["--state", os.path.join(self.folder, "state")])

    def test_who_may_not_list_namespaces_is_told(self):
        """Nothing is asked."""

    def test_from_before_the_start(self):
        """Nobody was shown other rules, neither by this process nor by one before it."""
        created = self.ask("POST", "x", self.thing("x", 0))
        self.list()
        self.localproxy.stop()
        self.localproxy = self.start()
        version = self.ask("PATCH", "x", self.thing("x", 1))
        self.assertEqual(("MODIFIED", "x", version), self.watch(created).next())
