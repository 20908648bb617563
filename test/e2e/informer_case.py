# SPDX-License-Identifier: Apache-2.0
"""Test cases with objects that change and informers of every client library that watch them."""

import random
import sys
import unittest

import harness
import real_clients
import resources
import wire_informer

GEARS = resources.name_of(resources.GEARS)


def report(text):
    """Figures, for those who read the log."""
    print(f"  {text}", file=sys.stderr, flush=True)


class InformerTestCase(harness.TestCase):
    """Objects that change, and one client of each library."""

    namespaces = 6
    control_plane = staticmethod(harness.cluster)

    @classmethod
    def setUpClass(cls):
        _, missing = real_clients.go_folder()
        if missing:
            raise unittest.SkipTest(missing)
        cls.cluster = cls.control_plane()
        resources.install(cls.cluster, cls.addClassCleanup)
        cls.js_folder = cls.make_folder(cls.addClassCleanup)

    def setUp(self):
        super().setUp()
        self.seed = harness.seed()
        self.pick = random.Random(self.seed)
        self.fixture = resources.Fixture(self.cluster, self.addCleanup, self.seed, self.namespaces)
        self.clients = []
        self.addCleanup(self.end_clients)

    def end_clients(self):
        while self.clients:
            self.clients.pop().close()

    def start_clients(self, proxy, url=None):
        """Of each library, watching in all forms it has, by way of `url`; and what judges to the
        byte, directly."""
        one = self.fixture.namespaces[0]
        url = url or proxy.url
        forms = ["typed:configmaps", "typed:pods", "json:secrets", f"dynamic:{GEARS}"]
        forms += ["metadata:secrets", f"metadata:{GEARS}", f"typed:secrets@{one}"]
        self.clients.append(real_clients.go_informer("go", url, forms))
        if real_clients.install_js_client():
            forms = ["configmaps", "pods", GEARS, f"secrets@{one}"]
            self.clients.append(real_clients.js_informer("js", url, forms, self.js_folder))
        if real_clients.have_python_client():
            forms = ["endless:configmaps", "limited:secrets", f"limited:{GEARS}"]
            forms += [f"endless:pods@{one}", "brief:configmaps"]
            self.clients.append(real_clients.python_informer("python", url, forms))
        forms = ["json:configmaps", "protobuf:pods", "protobuf:secrets", f"json:{GEARS}"]
        forms += [f"partial:pods@{one}", f"partial:{GEARS}"]
        forms += ["fabric8:configmaps", f"fabric8:{GEARS}", "kube-rs:pods", f"kube-rs:secrets@{one}"]
        for form in forms:
            self.clients.append(wire_informer.WireInformer("wire", proxy.listen, form))
        real_clients.wait_synced(self.clients)
        return self.clients
