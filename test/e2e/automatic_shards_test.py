# SPDX-License-Identifier: Apache-2.0
"""The demos of automatic shards, each on a control plane of its own: they end by themselves, or when they
are interrupted, and leave nothing behind."""

import json
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


@harness.needs("controllers")
class AdoptionTest(TourCase):
    example = "adoption"

    def test_it_ends_by_itself(self):
        tour = self.start()
        code = tour.wait(500)
        text = self.text()
        self.assertEqual(0, code, text)
        self.assertNotIn("WRONG", text)
        shown = re.findall(r"ok +each shard has 1 of the (\d) pods", text)
        self.assertEqual(["2", "4", "2", "2"], shown)
        self.assertEqual(["4", "2"], re.findall(r"New size: (\d); reason: ", text))
        owners = re.findall(r"^  team-\w+ +(no shard, report-.*, no shard)$", text, re.M)
        self.assertEqual(12, len(owners), text)
        self.assertGreater(len(set(", ".join(owners).split(", "))), 4, "all shards have worked")
        print("\n".join(re.findall(r"^.*(?: s$|ok +no.*)", text, re.M)), flush=True)
        self.assertEqual([], os.listdir(self.temporary))


class JudgeTest(harness.TestCase):
    """What the judge of the demo says of logs that are written for it."""

    POD = "authentication.kubernetes.io/pod-name"

    def judge(self, *writes):
        """`writes`: when, by which pod. Returns whether all was right, and what was said."""
        entries = [self.entry("patch", "settings", 0, {"username": "admin"})]
        for at, pod in writes:
            user = {"username": "operator", "extra": {self.POD: [pod]}}
            entries.append(self.entry("update", "report", at, user))
        result = subprocess.run(
            [os.path.join(EXAMPLES, "adoption", "judge.py"),
             self.path("log", "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in entries)),
             self.path("pods", "a <none>\nb op-1-normal\n"),
             self.path("phases", "1795996800.0 first\n1795996850.0 second\n")],
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        return result.returncode == 0, result.stdout

    @staticmethod
    def entry(verb, name, at, user):
        stamp = f"2026-11-30T00:{at // 60:02}:{at % 60:02}"
        return {
            "verb": verb,
            "objectRef": {"resource": "configmaps", "namespace": "team", "name": name},
            "user": user,
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": stamp + ".000000Z",
            "stageTimestamp": stamp + ".100000Z",
        }

    def test_one_after_the_other(self):
        right, said = self.judge((1, "a"), (2, "a"), (20, "b"))
        self.assertTrue(right, said)
        self.assertRegex(said, r"team +no shard, op-1\n")
        self.assertIn("longer than 1.00 s", said)

    def test_two_at_a_time(self):
        for writes in (((1, "a"), (2, "b"), (3, "a")), ((1, "a"), (1, "b"))):
            right, said = self.judge(*writes)
            self.assertFalse(right, said)
            self.assertIn("two at a time", said)

    def test_nobody(self):
        for writes in ((), ((40, "a"),)):
            right, said = self.judge(*writes)
            self.assertFalse(right, said)
            self.assertRegex(said, "nobody works on it|was unowned for")


if __name__ == "__main__":
    harness.main()
