# SPDX-License-Identifier: Apache-2.0
"""The demo without its cluster: however often it is interrupted, it removes what it made; and it
waits for nothing that cannot come."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time

import harness

QUICKSTART = os.path.join(harness.ROOT, "examples", "quickstart")
CONTROL_PLANE = os.path.join(harness.ROOT, "test", "cluster", "control-plane.sh")

# What tour.sh does while one plays: it has a folder, runs something, and waits for the interrupt.
TOUR = """
. "$1/examples/quickstart/stage.sh"
enter_work
run log "${@:2}"
leaving=0
echo held
hold
exit 1
"""

# What `cluster run` does around it.
RUN = """
. "$1"
trap 'echo gone' EXIT
control_plane_foreground bash -c "$2" tour "${@:3}"
"""

# Does not hear the first signal, like what bash has forked and not executed yet.
DEAF = ["bash", "-c", "trap 'trap - TERM' TERM; touch deaf; while :; do sleep 0.01; done"]


# It applies something, and kubectl complains.
APPLY = """
. "$1/examples/quickstart/stage.sh"
enter_work
patience=3 # of whole seconds, so more than two
complaint=$2 calls=$3
admin() {
    echo >>"$calls"
    printf '%s\\n' "Warning: first" "$complaint" >&2
    return 1
}
apply objects.yaml
"""


class StageTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        # Where it looks for the programs, and where it makes its folder.
        for name in ("build/release", "k8s/base", "examples", "tmp"):
            os.makedirs(os.path.join(self.folder, name))
        os.symlink(QUICKSTART, os.path.join(self.folder, "examples", "quickstart"))
        self.said = os.path.join(self.folder, "said")
        self.temporary = os.path.join(self.folder, "tmp")


class ComplaintTest(StageTestCase):
    USER = 'error when creating "objects.yaml": User "bob" cannot'
    HOPELESS = (
        f'Error from server (Forbidden): {USER} create resource "namespaces" in API group ""',
        "error: You must be logged in to the server (Unauthorized)",
        "Unable to connect to the server: x509: certificate signed by unknown authority",
    )
    PASSING = (
        'Error from server (Forbidden): pods "web" is forbidden: error looking up service account '
        'demo-1/default: serviceaccount "default" not found',
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host?",
    )

    def apply(self, complaint):
        """How often kubectl was asked, and what is said in the end."""
        calls = self.path("calls", "")
        done = subprocess.run(
            ["bash", "-euc", APPLY, "apply", self.folder, complaint, calls],
            env={**os.environ, "TMPDIR": self.temporary}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(1, done.returncode)
        self.assertIn(complaint, done.stderr)
        with open(calls, encoding="utf-8") as f:
            return len(f.readlines())

    def test_what_no_waiting_mends(self):
        for complaint in self.HOPELESS:
            with self.subTest(complaint):
                self.assertEqual(1, self.apply(complaint))

    def test_what_may_pass(self):
        for complaint in self.PASSING:
            with self.subTest(complaint):
                self.assertGreater(self.apply(complaint), 1)


class InterruptTest(StageTestCase):
    ROUNDS = 150

    @contextlib.contextmanager
    def tour(self, program=("sleep", "600")):
        """In a session of its own, as from a terminal; none of it is left behind."""
        with open(self.said, "w", encoding="utf-8") as said:
            tour = subprocess.Popen(
                ["bash", "-euc", RUN, "run", CONTROL_PLANE, TOUR, self.folder, *program],
                env={**os.environ, "TMPDIR": self.temporary},
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        try:
            harness.wait_for(lambda: "held" in self.lines(), "it waits for the interrupt")
            yield tour
        finally:
            # It keeps its number until it is waited for.
            os.killpg(tour.pid, signal.SIGKILL)
            tour.wait()
            for name in os.listdir(self.temporary):
                shutil.rmtree(os.path.join(self.temporary, name))

    def lines(self):
        with open(self.said, encoding="utf-8") as f:
            return f.read().splitlines()

    def assert_ended(self, tour, code):
        """By itself, with that exit code; it removed its folder before."""
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        ended = harness.wait_for(lambda: os.waitid(os.P_PID, tour.pid, options), "it ends")
        self.assertEqual([], os.listdir(self.temporary))
        self.assertEqual(["held", "gone"], self.lines())
        self.assertEqual((os.CLD_EXITED, code), (ended.si_code, ended.si_status))

    def test_interrupts(self):
        chosen = random.Random(harness.seed())
        for number in range(self.ROUNDS):
            times = chosen.choice((1, 2, 2, 5))
            with self.subTest(round=number, interrupts=times), self.tour() as tour:
                time.sleep(chosen.uniform(0, 0.01))
                for _ in range(times):
                    os.killpg(tour.pid, signal.SIGINT)
                    time.sleep(chosen.choice((0, 0.0003, 0.003)) * chosen.random())
                self.assert_ended(tour, 0)

    def test_a_program_that_does_not_hear_the_first_signal(self):
        with self.tour(DEAF) as tour:
            (work,) = os.listdir(self.temporary)
            deaf = os.path.join(self.temporary, work, "deaf")
            harness.wait_for(lambda: os.path.exists(deaf), "it does not hear")
            os.killpg(tour.pid, signal.SIGINT)
            self.assert_ended(tour, 0)

    def test_a_program_that_ends_by_itself(self):
        with self.tour() as tour:
            subprocess.run(["pkill", "-g", str(tour.pid), "-f", "^sleep 600$"], check=True)
            self.assert_ended(tour, 1)


if __name__ == "__main__":
    harness.main()
