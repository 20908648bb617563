# SPDX-License-Identifier: Apache-2.0
"""The processor's own counts for a process: instructions in user space and kernel, system calls.

See perf_event_open(2). Machines may lack or forbid them: then `Counters` raises OSError."""

import ctypes
import os
import platform
import struct

SYSCALL_NUMBER = {"x86_64": 298, "aarch64": 241}
TYPE_HARDWARE, TYPE_TRACEPOINT = 0, 2
HARDWARE_INSTRUCTIONS = 1
EXCLUDE_USER, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 4, 1 << 5, 1 << 6
READ_ENABLED_AND_RUNNING = 3  # how long it was wanted, and how long it really counted
ATTRIBUTE_SIZE = 64  # of the first published layout
TRACEPOINT = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id"
LIBC = ctypes.CDLL(None, use_errno=True)


def open_counter(task, kind, config, exclude):
    number = SYSCALL_NUMBER.get(platform.machine())
    if number is None:
        raise OSError(f"no counters on {platform.machine()}")
    attribute = struct.pack("=IIQQQQQIIQ", kind, ATTRIBUTE_SIZE, config, 0, 0,
                            READ_ENABLED_AND_RUNNING, exclude, 0, 0, 0)
    fd = LIBC.syscall(number, attribute, task, -1, -1, 0)
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"perf_event_open: {os.strerror(code)}")
    return fd


def tracepoint_id():
    """What names the entry of system calls; None where only root may know it."""
    try:
        with open(TRACEPOINT, encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return None


class Counters:
    """Counts from now on what the processes' threads of today do. Use as a context manager."""

    def __init__(self, pids):
        self.counters = []  # (name, descriptor)
        tasks = [int(task) for pid in pids for task in os.listdir(f"/proc/{pid}/task")]
        calls = tracepoint_id()
        try:
            for task in tasks:
                for name, exclude in (("user", EXCLUDE_KERNEL), ("kernel", EXCLUDE_USER)):
                    self.add(name, task, TYPE_HARDWARE, HARDWARE_INSTRUCTIONS,
                             exclude | EXCLUDE_HYPERVISOR)
                if calls is not None:
                    self.add("calls", task, TYPE_TRACEPOINT, calls, 0)
        except OSError:
            self.close()
            raise

    def add(self, name, task, kind, config, exclude):
        self.counters.append((name, open_counter(task, kind, config, exclude)))

    def read(self):
        """{"user": instructions, "kernel": instructions, "calls": system calls, if known}"""
        totals = {}
        for name, fd in self.counters:
            count, enabled, running = struct.unpack("=QQQ", os.read(fd, 24))
            totals[name] = totals.get(name, 0) + (count * enabled / running if running else 0)
        return totals

    def close(self):
        for _, fd in self.counters:
            os.close(fd)
        self.counters = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
