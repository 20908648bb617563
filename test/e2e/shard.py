# SPDX-License-Identifier: Apache-2.0
"""A shard as a pod has it: a mounted ConfigMap, rulesync, localproxy, and somebody who looks on."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time

import harness
import wire

NAMESPACE, NAME = "cmesh-e2e", "shard-a"
PARTS = ("a", "b")  # of the objects; each generation shows one of them
HIDDEN = "hidden"  # in no shard


def part_of(generation):
    return PARTS[generation % 2]


def document(generation, **more):
    """Rules that show the ConfigMaps of one part."""
    limits = [harness.limit(["configmaps"], f"part in ({part_of(generation)})")]
    return {**harness.rules_document(*limits, generation=generation), **more}


def traffic_document(generation, **more):
    """Traffic policies that do nothing to anybody's requests."""
    match = {"resources": [{"resources": ["pods"]}]}
    rule = {"name": "none", "match": match, "abort": {"httpStatus": 503, "percent": 0}}
    faults = [{"name": "nothing", "spec": {"selector": {}, "httpFault": [rule]}}]
    shard = {"namespace": NAMESPACE, "name": NAME}
    document = {"apiVersion": "cmesh/v1", "kind": "ShardTraffic", "shard": shard}
    return {**document, "generation": generation, "spec": {"faults": faults}, **more}


class Volume:
    """A folder as the kubelet keeps it for a ConfigMap or a service account: files are links into
    `..data`, which is a link to a folder that bears its time, swapped by renaming a new link over
    it."""

    def __init__(self, path):
        self.path = path
        self.count = 0

    def put(self, files):
        """From now on it holds these: name -> text."""
        os.makedirs(self.path, exist_ok=True)
        self.count += 1
        data = os.path.join(self.path, "..data")
        old = os.readlink(data) if os.path.islink(data) else None
        new = f"..2024_05_01_10_00_00.{self.count:09}"
        os.mkdir(os.path.join(self.path, new))
        for name, text in files.items():
            with open(os.path.join(self.path, new, name), "w", encoding="utf-8") as f:
                f.write(text)
            if not os.path.islink(os.path.join(self.path, name)):
                os.symlink(f"..data/{name}", os.path.join(self.path, name))
        os.symlink(new, data + "_tmp")
        os.rename(data + "_tmp", data)
        for name in os.listdir(self.path):
            if not name.startswith("..") and name not in files:
                os.unlink(os.path.join(self.path, name))
        if old is not None:
            shutil.rmtree(os.path.join(self.path, old))

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Mount(Volume):
    """Of the ConfigMap with a shard's rules."""

    def publish(self, rules, traffic=None):
        """Each is a document, a text, or None: a ConfigMap without that key."""
        keys = {"rules.json": rules, "traffic.json": traffic}
        self.put(
            {
                key: value if isinstance(value, str) else json.dumps(value)
                for key, value in keys.items()
                if value is not None
            }
        )


class RuleSync:
    """A rulesync process with its pages on a free port, or where it is told."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, folder, args, prefix=(), program=None, admin="127.0.0.1:0"):
        self.ready_file = os.path.join(folder, "rulesync-ready.json")
        self.log_path = os.path.join(folder, "rulesync-log")
        self.expected = 0
        if os.path.exists(self.ready_file):
            os.unlink(self.ready_file)
        command = ["setpriv", "--pdeathsig", "KILL", *prefix]
        command += [program or harness.program("rulesync"), *args]
        command += ["--admin", admin, "--ready-file", self.ready_file]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=harness.clean_environment()
            )
        self.pid = self.process.pid
        self.admin = self.wait_listening()

    def wait_listening(self):
        def look():
            if self.process.poll() is not None:
                raise AssertionError(f"rulesync ended: {self.process.returncode}\n{self.log()}")
            return os.path.exists(self.ready_file)

        harness.wait_for(look, "rulesync listens")
        with open(self.ready_file, encoding="utf-8") as f:
            return json.load(f)["admin"]

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ask(self, target, method="GET"):
        return wire.fetch(self.admin, target, method)

    def status(self):
        return json.loads(self.ask("/status").body)

    def ready(self):
        return self.ask("/readyz").status == 200

    def metrics(self):
        """name{labels} -> value."""
        text = self.ask("/metrics").body.decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    def metric(self, name):
        return self.metrics()["cmesh_rulesync_" + name]

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.expected = -signal.SIGKILL

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"rulesync does not end on SIGTERM:\n{self.log()}") from None
        if harness.SANITIZER_REPORT.search(self.log()):
            raise AssertionError(f"a sanitizer found something:\n{self.log()}")
        if code != self.expected:
            raise AssertionError(f"rulesync exited with {code}:\n{self.log()}")


class Onlooker(threading.Thread):
    """Lists through the proxy all the time. No answer may show what no generation shows, nor what
    only generations show that are older than the one in force when it was asked for."""

    def __init__(self, shard):
        super().__init__(daemon=True)
        self.shard = shard
        self.target = f"/api/v1/namespaces/{shard.namespace}/configmaps"
        self.violations = []
        self.lists = 0
        self.refusals = 0  # 503, as long as there are no rules
        self.losses = 0  # no proxy
        self.over = threading.Event()

    def run(self):
        while not self.over.is_set():
            try:
                self.look()
            except (OSError, wire.Cut):
                self.losses += 1
                time.sleep(0.002)
            except Exception as error:  # pylint: disable=broad-except
                self.violations.append(repr(error))

    def look(self):
        floor = self.shard.in_force
        answer = wire.fetch(self.shard.listen, self.target)
        if answer.status == 503:
            self.refusals += 1
            return
        if answer.status != 200 or not answer.complete:
            self.violations.append(str(answer))
            return
        self.lists += 1
        names = {item["metadata"]["name"] for item in json.loads(answer.body)["items"]}
        generations = range(max(floor, 1), self.shard.published + 1)
        if not any(names == {f"object-{part_of(g)}"} for g in generations):
            self.violations.append(f"{names}: generations {floor} to {self.shard.published}")

    def end(self):
        self.over.set()
        self.join(30)


class Shard:
    """All of one shard, in the folder of a test case. The parts start when they are told to."""

    def __init__(self, case, keep=True):
        self.case = case
        self.folder = case.path("shard")
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o755)
        self.control = harness.cluster()
        self.namespace = harness.make_namespace(self.control, "rulesync", case.addCleanup)
        self.make_objects()
        self.mount = Mount(os.path.join(self.folder, "mount"))
        self.stored = os.path.join(self.folder, "stored.json") if keep else None
        self.listen = f"127.0.0.1:{harness.free_port()}"
        self.socket = os.path.join(self.folder, "control.sock")
        self.published = 0  # the newest generation that was
        self.in_force = 0  # a generation that is, or was before a newer one
        self.proxy = None
        self.sync = None
        self.onlooker = None
        case.addCleanup(self.end)

    def make_objects(self):
        for part in (*PARTS, HIDDEN):
            thing = {"metadata": {"name": f"object-{part}", "labels": {"part": part}}}
            path = f"/api/v1/namespaces/{self.namespace}/configmaps"
            self.control.json(path, "POST", thing)

    # ---- the parts ----

    def start_proxy(self):
        args = ["--kubeconfig", self.control.kubeconfig, "--listen", self.listen]
        args += ["--admin", "127.0.0.1:0", "--shutdown-grace", "5"]
        if self.stored is not None:
            args += ["--rules", self.stored]
        ready_file = os.path.join(self.folder, "ready.json")
        if os.path.exists(ready_file):
            os.unlink(ready_file)
        self.proxy = harness.LocalProxy(self.folder, args, control=True)

    def start_sync(self, prefix=(), program=None, stored=None):
        args = ["--from", self.mount.path, "--control", self.socket]
        args += ["--shard", f"{NAMESPACE}/{NAME}"]
        stored = stored or self.stored
        if stored is not None:
            args += ["--to", stored]
        self.sync = RuleSync(self.folder, args, prefix, program)

    def stop_proxy(self, how=signal.SIGTERM):
        if self.proxy is not None:
            if how == signal.SIGKILL:
                self.proxy.kill()
            else:
                self.case.end_proxy(self.proxy)
            self.proxy = None

    def stop_sync(self, how=signal.SIGTERM):
        if self.sync is not None:
            if how == signal.SIGKILL:
                self.sync.kill()
            else:
                self.sync.stop()
            self.sync = None

    def look_on(self):
        self.onlooker = Onlooker(self)
        self.onlooker.start()

    def end(self):
        if self.onlooker is not None:
            self.onlooker.end()
        self.stop_sync()
        self.stop_proxy()

    # ---- rules ----

    def publish(self, generation=None):
        """The next generation arrives."""
        self.published = generation or self.published + 1
        self.mount.publish(document(self.published))
        return self.published

    def enforced(self):
        """The generation that localproxy enforces; 0: none, or no localproxy."""
        try:
            _, body = self.proxy.control()
        except OSError:
            return 0
        return (body.get("enforced") or {}).get("generation", 0)

    def wait_enforced(self, generation=None, timeout=60):
        """Until the newest generation is in force; from now on it, or a newer one, must be."""
        generation = generation or self.published
        harness.wait_for(
            lambda: self.enforced() == generation and self.sync.ready(),
            f"generation {generation} is enforced",
            timeout,
        )
        self.in_force = generation

    def check(self):
        """What the onlooker saw was right, and it saw something."""
        seen = self.onlooker.lists
        harness.wait_for(lambda: self.onlooker.lists > seen + 5, "there are answers")
        self.case.assertEqual([], self.onlooker.violations)


def mount_prefix(script):
    """A command line that runs what follows in a mount namespace of its own, after `script`. None
    where that is not permitted."""
    for options in (["--mount"], ["--mount", "--map-root-user"]):
        prefix = ["unshare", *options, "--propagation", "private"]
        probe = [*prefix, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return [*prefix, "sh", "-ec", script + '\nexec "$@"', "sh"]
    return None
