# SPDX-License-Identifier: Apache-2.0
"""What `lanes` starts ends with it, whenever it is told to: no process and no folder is left."""

import glob
import os
import signal
import subprocess

import harness

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE = 300  # a control plane starts or ends meanwhile


class LanesTest(harness.TestCase):
    """Each run has a TMPDIR of its own, by which its processes are known."""

    def setUp(self):
        super().setUp()
        self.temporary = self.path("tmp")
        os.mkdir(self.temporary)
        self.started = self.path("started")

    def start(self, *command):
        """A lane, with the command for its tests, in a session of its own: as from a terminal."""
        lanes = subprocess.Popen(
            [os.path.join(harness.HERE, "lanes"), "1", *command],
            env={**os.environ, "TMPDIR": self.temporary},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self.addCleanup(self.end_all)
        self.addCleanup(harness.end_process, lanes)
        return lanes

    def processes(self):
        """All that were started with this TMPDIR, and still run."""
        found = []
        for folder in glob.glob("/proc/[0-9]*"):
            try:
                with open(folder + "/environ", "rb") as f:
                    if self.temporary.encode() in f.read():
                        found.append(int(os.path.basename(folder)))
            except OSError:
                continue  # gone, or another user's
        return found

    def end_all(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def assert_nothing_is_left(self):
        self.assertEqual([], self.processes())
        self.assertEqual([], os.listdir(self.temporary))

    def test_a_signal_while_tests_run(self):
        script = 'sleep 600 & touch "$0"; wait'
        for number in SIGNALS:
            with self.subTest(signal=number):
                lanes = self.start("sh", "-c", script, self.started)
                harness.wait_for(lambda: os.path.exists(self.started), "the command runs",
                                 timeout=PATIENCE)  # fmt: skip
                lanes.send_signal(number)
                self.assertNotEqual(0, lanes.wait(PATIENCE))
                self.assert_nothing_is_left()
                os.unlink(self.started)

    def test_a_signal_while_the_control_plane_starts(self):
        lanes = self.start("touch", self.started)
        clusters = os.path.join(self.temporary, "cmesh-cluster.*")
        harness.wait_for(lambda: glob.glob(clusters), "the control plane starts",
                         timeout=PATIENCE)  # fmt: skip
        lanes.send_signal(signal.SIGTERM)
        self.assertNotEqual(0, lanes.wait(PATIENCE))
        self.assert_nothing_is_left()
        self.assertFalse(os.path.exists(self.started))

    def test_without_a_signal(self):
        for command, code in (("true", 0), ("false", 1)):
            lanes = self.start(command)
            self.assertEqual(code, lanes.wait(PATIENCE))
            self.assert_nothing_is_left()


if __name__ == "__main__":
    harness.main()
