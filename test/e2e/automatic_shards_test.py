# SPDX-License-Identifier: Apache-2.0
"""The demos of automatic shards, each on a control plane of its own: they end by themselves, or when they
are interrupted, and leave nothing behind."""

import os
import re
import signal
import subprocess

import harness

EXAMPLES = os.path.join(harness.ROOT, "examples")


class TourCase(harness.TestCase):
    example = None

    def setUp(self):
        super().setUp()
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        self.said = self.path("said", "")

    def start(self):
        """In a session of its own, as from a terminal."""
        with open(self.said, "w", encoding="utf-8") as said:
            tour = subprocess.Popen(
                [harness.CLUSTER, "run", "--", os.path.join(EXAMPLES, self.example, "tour.sh")],
                env={**os.environ, "TMPDIR": self.temporary}, stdin=subprocess.DEVNULL,
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        self.addCleanup(self.end, tour)
        return tour

    def end(self, tour):
        if tour.poll() is None:
            os.killpg(tour.pid, signal.SIGKILL)
            tour.wait()

    def text(self):
        with open(self.said, encoding="utf-8") as f:
            return f.read()


@harness.needs("controllers")
class DemoTest(TourCase):
    example = "automatic-shards"

    def test_it_ends_by_itself(self):
        tour = self.start()
        code = tour.wait(500)
        text = self.text()
        self.assertEqual(0, code, text)
        self.assertNotIn("WRONG", text)
        for shards in (2, 5, 3):
            self.assertRegex(text, rf"ok +each of the {shards} shards has .* of the 32 buckets")
        # The least that must move from 2 to 5 is 18, and from 5 to 3 it is 12. Where pods become ready one
        # by one it is the least of each step.
        more, fewer = map(int, re.findall(r"ok +(\d+) buckets have moved", text))
        self.assertIn(more, range(18, 21))
        self.assertIn(fewer, range(12, 15))
        self.assertRegex(text, r"report-operator +3 +3/3 +True +Enforced")
        self.assertEqual([], os.listdir(self.temporary))

    def test_it_is_interrupted(self):
        tour = self.start()
        harness.wait_for(
            lambda: "--replicas=5" in self.text() or tour.poll() is not None, "it has begun", 300
        )
        self.assertIsNone(tour.poll(), self.text())
        os.killpg(tour.pid, signal.SIGINT)
        self.assertEqual(130, tour.wait(120), self.text())
        self.assertEqual([], os.listdir(self.temporary))


@harness.needs("controllers")
class DeploymentTest(TourCase):
    example = "deployment"

    def test_it_ends_by_itself(self):
        tour = self.start()
        code = tour.wait(500)
        text = self.text()
        self.assertEqual(0, code, text)
        self.assertNotIn("WRONG", text)
        shown = re.findall(r"ok +each shard has 2 of the (\d) pods", text)
        self.assertEqual(["6", "8", "8"], shown)
        self.assertIn("none of the old pods is left", text)
        self.assertEqual([], os.listdir(self.temporary))


if __name__ == "__main__":
    harness.main()
