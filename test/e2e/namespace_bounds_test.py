# SPDX-License-Identifier: Apache-2.0
"""How many namespaces a limit by labels may select. A controller takes minutes to remove that many, so
that no other test can wait for a control plane that had them.
"""

import json
import os
import threading
import time

import harness
import mesh
import namespace_selector_test as spaces
import wire

NAMES_MAX = 1000


def setUpModule():
    mesh.install()


class ManyTest(spaces.NamespacesTestCase):
    """As many as may be, one more, and a storm of changes."""

    def make_many(self, count):
        names = [f"many-{os.getpid()}-{i}" for i in range(count)]

        def create(some):
            with wire.Connection(self.cluster.address, tls=self.cluster.tls) as connection:
                for name in some:
                    meta = {"name": name, "labels": {spaces.TEAM: self.red}}
                    body = json.dumps({"metadata": meta}).encode()
                    kind = [("Content-Type", "application/json")]
                    self.assertLess(
                        connection.request("POST", "/api/v1/namespaces", kind, body).status, 300
                    )

        for name in names:
            self.addCleanup(self.remove, name)
        threads = [threading.Thread(target=create, args=(names[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return names

    def test_too_many(self):
        names = self.make_many(NAMES_MAX)
        self.manager()
        self.apply(mesh.config("red", "red", spaces.by_team(self.red)))
        self.wait_names("red", *names)
        self.wait_condition("red", "Compiled", "True")
        more = self.space(self.red)
        found = self.wait_condition("red", "Compiled", "False", "Invalid")
        self.assertIn(
            f"selects {NAMES_MAX + 1} namespaces", mesh.condition(found, "Compiled")["message"]
        )
        self.assertEqual(sorted(names), self.names_of("red"))
        self.label(names[0], self.blue)
        self.wait_names("red", *names[1:], more)
        self.wait_condition("red", "Compiled", "True")
        self.relabel_all(names)

    def relabel_all(self, names):
        """A storm: each is another generation of nothing but of a second's changes."""
        before = mesh.rules_of(self.map_of("red"))["generation"]
        begun = time.monotonic()
        for name in names:
            self.label(name, self.blue)
        took = time.monotonic() - begun
        harness.wait_for(lambda: len(self.names_of("red")) == 1, "one is left")
        generations = mesh.rules_of(self.map_of("red"))["generation"] - before
        spaces.report(f"{len(names)} labels changed in {took:.1f} s: {generations} generations")
        self.assertLessEqual(generations, took + 3)


if __name__ == "__main__":
    harness.main()
