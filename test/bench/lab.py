# SPDX-License-Identifier: Apache-2.0
"""A place to measure in: a temporary folder, free ports, and processes that end with it."""

import ctypes
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG = 1
CPUCLOCK_SCHED = 2  # of a process, behind its id
MIN_FILES = 8192
PATIENCE = 60  # seconds that a busy machine may take beyond what is said
LIBC = ctypes.CDLL(None)


class BenchError(Exception):
    """What went wrong, in words for the person who runs the benchmark."""


def find_binary(name):
    """The path of a program; servers are often in sbin, which is not on everybody's PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")


def descendants(pid):
    """`pid` and its children's children, from one look at /proc."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as f:
                    parents[int(entry)] = int(f.read().rpartition(")")[2].split()[1])
            except OSError:
                pass
    found = [pid]
    for known in found:
        found.extend(child for child, parent in parents.items() if parent == known)
    return found


def status_kib(pid, name):
    """A line of /proc/PID/status, "VmRSS:" say."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(name))


def connections_to(port):
    """How many are open to whoever listens on this port of 127.0.0.1."""
    wanted = f":{port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f][1:]
    return sum(row[1].endswith(wanted) and row[3] == "01" for row in rows)


class Process:
    """A child of ours. Figures are those of all the processes it consists of."""

    def __init__(self, name, popen, started_ns, log_path):
        self.name = name
        self.popen = popen
        self.started_ns = started_ns  # CLOCK_MONOTONIC just before the exec
        self.log_path = log_path
        self.pids = [popen.pid]

    def find_workers(self):
        self.pids = descendants(self.popen.pid)

    def cpu_ns(self):
        """CPU time on the scheduler's own clock, user and system, of every thread, those that have
        ended too (clock_getcpuclockid(3))."""
        return sum(time.clock_gettime_ns((~pid << 3) | CPUCLOCK_SCHED) for pid in self.pids)

    def rss_kib(self):
        return sum(status_kib(pid, "VmRSS:") for pid in self.pids)

    def forget_peaks(self):
        """What `peak_kib` tells begins now (proc(5), clear_refs)."""
        for pid in self.pids:
            with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as f:
                f.write("5")

    def peak_kib(self):
        """The sum of each process's own peak of RSS."""
        return sum(status_kib(pid, "VmHWM:") for pid in self.pids)

    def pss_kib(self):
        """Pages that are shared with other processes count in parts."""
        total = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        return total

    def libraries(self, names):
        """The files of the shared libraries lib<name> that the first process has open."""
        wanted = re.compile(rf"lib({'|'.join(names)})[-.0-9]*\.so")
        with open(f"/proc/{self.popen.pid}/maps", encoding="utf-8", errors="replace") as f:
            files = {os.path.basename(line.split()[-1]) for line in f}
        return sorted(file for file in files if wanted.match(file))

    def log_tail(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as f:
                return "".join(f.readlines()[-5:]).strip()
        except OSError:
            return ""

    def check(self):
        if self.popen.poll() is not None:
            raise BenchError(f"{self.name} ended with {self.popen.returncode}: {self.log_tail()}")

    def next_json(self, seconds):
        """The next line of its standard output that is a JSON object; other lines are skipped.
        It is said within `seconds` on a machine with nothing else to do."""
        seconds += PATIENCE
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not select.select([self.popen.stdout], [], [], 0.2)[0]:
                continue
            line = self.popen.stdout.readline()
            if not line:
                self.popen.wait(5)
                raise BenchError(f"{self.name} ended with {self.popen.returncode}: "
                                 f"{self.log_tail()}")
            if line.startswith(b"{"):
                return json.loads(line)
        raise BenchError(f"{self.name} said nothing for {seconds} s: {self.log_tail()}")

    def stop(self, how=signal.SIGTERM):
        workers = [] if self.popen.poll() is not None else descendants(self.popen.pid)[1:]
        if self.popen.poll() is None:
            self.popen.send_signal(how)
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                for pid in workers:
                    os.kill(pid, signal.SIGKILL)
                self.popen.kill()
                self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()


class Lab:
    """Use as a context manager: whatever ends the block, its processes and files are gone then."""

    def __init__(self, pin=False):
        self.folder = tempfile.mkdtemp(prefix="cmesh-bench-")
        self.processes = []
        self.ports = set()
        self.random = random.Random()
        cores = sorted(os.sched_getaffinity(0))
        self.pins = {"proxy": {cores[-1]}, "load": set(cores[:-1])} if pin and cores[1:] else {}
        self.cores = cores

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        # A second Ctrl-C must not interrupt the clean-up.
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, signal.SIG_IGN)
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def move_to(self, role):
        """This process, and what it starts from now on, where that role is."""
        if role in self.pins:
            os.sched_setaffinity(0, self.pins[role])

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, data):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb" if isinstance(data, bytes) else "w") as f:
            f.write(data)
        return path

    def free_port(self):
        """A free port below the ephemeral range, where no outgoing connection can take it."""
        for _ in range(200):
            port = self.random.randrange(20000, 32000)
            with socket.socket() as s:
                try:
                    s.bind(("127.0.0.1", port))
                except OSError:
                    continue
            if port not in self.ports:
                self.ports.add(port)
                return port
        raise BenchError("no free port between 20000 and 32000")

    def spawn(self, name, argv, role="load", commands=False):
        """Starts a program. Where cores are pinned, `role` says which it gets: those of "proxy", those of
        "load", or with any other word all. Its standard output can be read, its standard error is kept
        for error messages, and with `commands` its standard input can be written."""
        log_path = self.path(f"{name}.{len(self.processes)}.log")
        stamp_read, stamp_write = os.pipe()

        def before_exec():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            os.sched_setaffinity(0, self.pins.get(role, self.cores))
            os.write(stamp_write, str(time.monotonic_ns()).encode())

        env = {k: v for k, v in os.environ.items() if not k.startswith("CMESH_")}
        try:
            with open(log_path, "wb") as log:
                stdin = subprocess.PIPE if commands else subprocess.DEVNULL
                popen = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=log, env=env, cwd=self.folder, bufsize=0,
                                         preexec_fn=before_exec, start_new_session=True)
            started_ns = int(os.read(stamp_read, 64))
        finally:
            os.close(stamp_read)
            os.close(stamp_write)
        process = Process(name, popen, started_ns, log_path)
        self.processes.append(process)
        return process

    def stop(self, process, how=signal.SIGTERM):
        process.stop(how)
        self.processes.remove(process)

    def run(self, argv):
        """Runs a short command to its end; its output."""
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=self.folder, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout


def raise_file_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < MIN_FILES:
        raise BenchError(f"{MIN_FILES} open files are needed, ulimit -Hn says {wanted}")


def end_on_signals():
    """Lets SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that clean-up runs."""

    def leave(number, _frame):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
