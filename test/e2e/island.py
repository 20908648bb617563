# SPDX-License-Identifier: Apache-2.0
"""A network of two machines within this process, whose cable can be cut without either noticing.

Each machine is a network namespace that a thread has entered; sockets and processes that a thread
makes are of its namespace. Nothing has a name outside, and all is gone with threads and sockets.
"""

import ctypes
import queue
import shutil
import subprocess
import threading
import unittest

CLONE_NEWNET = 0x40000000
NEAR, FAR = "198.18.0.1", "198.18.0.2"


class Machine:
    """A thread in a network namespace of its own; `do` runs a function there."""

    def __init__(self):
        self.work = queue.Queue()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while (job := self.work.get()) is not None:
            function, done = job
            try:
                done.put((function(), None))
            except BaseException as error:  # pylint: disable=broad-except
                done.put((None, error))

    def do(self, function):
        done = queue.Queue()
        self.work.put((function, done))
        result, error = done.get()
        if error is not None:
            raise error
        return result

    def shell(self, script):
        return self.do(lambda: subprocess.run(["sh", "-ec", script], check=True))

    def enter(self):
        def unshare():
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(CLONE_NEWNET) != 0:
                raise unittest.SkipTest("no right to make a network namespace")

        self.do(unshare)

    def stop(self):
        self.work.put(None)
        self.thread.join(10)


class Cable:
    """`near` has the address NEAR, `far` has FAR."""

    def __init__(self, cleanup):
        if shutil.which("ip") is None:
            raise unittest.SkipTest("ip(8) is not installed")
        self.near, self.far = Machine(), Machine()
        for machine in (self.near, self.far):
            cleanup(machine.stop)
            machine.enter()
        peer = self.far.thread.native_id
        self.near.shell(f"ip link add near type veth peer name far netns {peer}")
        self.near.shell(f"ip addr add {NEAR}/30 dev near; ip link set near up; ip link set lo up")
        self.far.shell(f"ip addr add {FAR}/30 dev far; ip link set far up")

    def cut(self):
        """From now on nothing comes back from the far side, not even a reset."""
        self.far.shell(f"ip route add blackhole {NEAR}/32")

    def mend(self):
        self.far.shell(f"ip route del blackhole {NEAR}/32")
