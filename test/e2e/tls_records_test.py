# SPDX-License-Identifier: Apache-2.0
"""Go's TLS at the API server and both ways of --tls-records: answers of all sizes are the same."""

import json
import os

import harness

# Of what is in a ConfigMap: answers below, at and above the length of one record, and many records.
SIZES = (*range(0, 3000, 250), *range(15700, 16500, 23), 40_000, *[300_000] * 6)


class TlsRecordsTest(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        cls.namespace = f"tls-records-{os.getpid()}"
        cls.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": cls.namespace}})
        cls.addClassCleanup(cls.cluster.fetch, f"/api/v1/namespaces/{cls.namespace}", "DELETE")
        cls.path = f"/api/v1/namespaces/{cls.namespace}/configmaps"
        cls.proxies = [
            cls.class_proxy([], args=["--write-fence=off", f"--tls-records={library}"])
            for library in ("libgcrypt", "mbedtls")
        ]
        for i, size in enumerate(SIZES):
            thing = {"metadata": {"name": f"of-{i}"}, "data": {"text": "x" * size}}
            # Requests are as large as answers.
            headers = [("Content-Type", "application/json")]
            body = json.dumps(thing).encode()
            answer = cls.proxies[i % 2].fetch(cls.path, "POST", headers, body)
            if answer.status != 201:
                raise AssertionError(f"{size}: {answer}")

    def expect_same(self, target):
        direct = self.cluster.fetch(target)
        self.assertEqual(200, direct.status, direct)
        for proxy in self.proxies:
            answer = proxy.fetch(target)
            self.assertEqual(200, answer.status, answer)
            self.assertEqual(direct.body, answer.body)
        return direct.body

    def test_objects_of_all_sizes(self):
        for i, size in enumerate(SIZES):
            self.assertGreater(len(self.expect_same(f"{self.path}/of-{i}")), size)

    def test_a_list_of_megabytes(self):
        self.assertGreater(len(self.expect_same(self.path)), 2_000_000)
