# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the control plane, localproxy, kubectl, waiting, cleaning up.

Everything that is started here ends with the run, however it ends: processes are killed by the
kernel when this one dies, and the control plane watches a pipe that only this process holds.
"""

import atexit
import collections
import http.client
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import pki
import upstream
import wire

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CLUSTER = os.path.join(ROOT, "test", "cluster", "cluster")
with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as _file:
    VERSION = _file.read().strip()

SANITIZER_REPORT = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error:|UndefinedBehavior")
LANE = "control_plane"  # ctest's name for what `lanes` has it hand out
NAMESPACE_LABEL = "ctrlmesh.kusionstack.io/namespace"
HASH_LABEL = "ctrlmesh.kusionstack.io/sharding-hash"
IGNORE_LABEL = "ctrlmesh.kusionstack.io/ignore-webhook"


def program(name, folder=None):
    """The program under test, or one of a folder of helpers: $CMESH_<NAME>, or that of the folder
    $CMESH_BUILD, or the newest of the usual build folders."""
    given = os.environ.get("CMESH_" + name.upper().replace("-", "_"))
    if given:
        return given
    folder = folder or name
    builds = [os.environ.get("CMESH_BUILD") or os.path.join("build", kind)
              for kind in ("release", "debug")]  # fmt: skip
    found = [os.path.join(ROOT, build, folder, name) for build in builds]
    found = [path for path in found if os.access(path, os.X_OK)]
    if not found:
        raise RuntimeError(f"{name} is not built: see README.md")
    return max(found, key=os.path.getmtime)


def has_tls13():
    """Whether the programs under test speak TLS 1.3: with mbedTLS 2.28 they do not."""
    with open(program("localproxy"), "rb") as f:
        content = f.read()
    if content.startswith(b"#!"):  # a script of test/debian13 -x
        with open(re.search(rb"(\S+) \"\$@\"", content)[1], "rb") as f:
            content = f.read()
    return b"libmbedtls.so.14" not in content


def is_sanitized(path):
    with open(path, "rb") as f:
        return b"__asan_init" in f.read()


def wait_for(condition, what, timeout=60, interval=0.03):
    """Returns the first true result of `condition()`. The machine may be busy: a timeout is to end
    what will never come, not to judge how soon it does."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(interval)
    return result


# ---- the control plane ----


def modern():
    """The version that a modern API server behaves as when this run is on one (run --modern)."""
    return os.environ.get("CMESH_E2E_MODERN") or None


def needs(what):
    """A test of what only a whole control plane has: the modern API server is one without."""
    return unittest.skipIf(modern(), f"the API server of --modern has no {what}")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Cluster:
    """A control plane of test/cluster: one of our own, or the one in a folder that is given."""

    def __init__(self, directory=None, prefix=()):
        """`prefix`: of the command line that starts it."""
        self.owned = directory is None
        self.prefix = prefix
        self.process = None
        if directory is None:
            directory = self.start()
        self.directory = directory
        self.env = self.read_env()
        self.address = self.env["APISERVER"].removeprefix("https://")
        self.kubeconfig = self.env["KUBECONFIG"]
        self.tls = ssl.create_default_context(cafile=self.env["CLUSTER_CA"])
        self.tls.load_cert_chain(self.env["CLUSTER_CERT"], self.env["CLUSTER_KEY"])
        self.idle = collections.deque()  # connections, and since when

    def start(self):
        """`cluster run` ends the control plane with its command; that ends with our pipe."""
        what = [f"--modern={modern()}"] if modern() else []
        script = 'echo "$CLUSTER_DIR"; exec cat >/dev/null'
        command = [*self.prefix, CLUSTER, "run", *what, "--", "sh", "-c", script]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, start_new_session=True, **pipes)
        directory = self.process.stdout.readline().strip()
        if not directory:
            raise RuntimeError(f"the control plane did not start: exit {self.process.wait()}")
        return directory

    def stop(self):
        for connection, _ in self.idle:
            connection.close()
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(300)
            self.process.stdout.close()

    def read_env(self):
        script = '. "$0/env"; env -0'
        output = subprocess.run(
            ["sh", "-c", script, self.directory], check=True, capture_output=True, text=True
        ).stdout
        return dict(line.split("=", 1) for line in output.split("\0") if "=" in line)

    def fetch(self, target, method="GET", headers=(), body=None, **more):
        """Asks the API server directly, as administrator. Connections are used again: most of what a
        test asks it asks many times, until something is so."""
        connection = self.take_connection()
        try:
            answer = connection.request(method, target, headers, body, **more)
        except BaseException:
            connection.close()
            raise
        # After a refusal, and as it is told to, the API server may close.
        usable = answer.complete and (answer.status < 300 or answer.status == 404)
        if usable and not more and answer.get("Connection") is None and connection.left == 0:
            self.idle.append((connection, time.monotonic()))
        else:
            connection.close()
        return answer

    def take_connection(self):
        """The one that was used last, if the API server has not closed it, nor is about to."""
        while True:
            try:
                connection, since = self.idle.pop()
            except IndexError:
                break
            if connection.is_idle() and time.monotonic() - since < 30:
                return connection
            connection.close()
        return wire.Connection(self.address, tls=self.tls)

    def json(self, target, method="GET", thing=None, content_type="application/json"):
        """Asks directly, expects success, and returns the answer's object."""
        body = None if thing is None else json.dumps(thing).encode()
        answer = self.fetch(target, method, [("Content-Type", content_type)], body)
        if answer.status >= 300:
            raise AssertionError(f"{method} {target}: {answer}")
        return json.loads(answer.body)

    def behaves_as(self):
        """The version of Kubernetes, as (1, 20)."""
        told = self.json("/version")
        return int(told["major"]), int(told.get("emulationMinor") or told["minor"].rstrip("+"))

    def stop_apiserver(self):
        subprocess.run([CLUSTER, "stop-apiserver", self.directory], check=True)

    def start_apiserver(self):
        command = [*self.prefix, CLUSTER, "start-apiserver", self.directory]
        subprocess.run(command, check=True)

    def user_kubeconfig(self, folder, user):
        """A kubeconfig of a user without any rights of its own."""
        authority = pki.Authority(folder, self.env["CLUSTER_CA"], self.env["CLUSTER_CA_KEY"])
        certificate, key = authority.client(user)
        return upstream.write_kubeconfig(
            os.path.join(folder, user + ".kubeconfig"),
            self.env["APISERVER"],
            authority=self.env["CLUSTER_CA"],
            extra_user=f"    client-certificate: {certificate}\n    client-key: {key}\n",
        )


class Run:
    """What lives as long as the test process."""

    shared = None
    lock = threading.Lock()
    ports = set()  # that were found free
    counter = itertools.count()

    @classmethod
    def cluster(cls):
        with cls.lock:
            if cls.shared is None:
                given = lane_directory() or os.environ.get("CMESH_E2E_CLUSTER_DIR")
                cls.shared = Cluster(given)
                atexit.register(cls.shared.stop)
            return cls.shared


def lane_directory():
    """Of the control plane that ctest has given this run; None: it has none to give."""
    lane = os.environ.get(f"CTEST_RESOURCE_GROUP_0_{LANE.upper()}")
    if lane is None:
        return None
    number = dict(part.split(":") for part in lane.split(","))["id"]
    return os.path.realpath(os.path.join(os.environ["CMESH_E2E_LANES"], number))


def cluster():
    """The control plane of this run, started at the first use."""
    return Run.cluster()


def disposable_cluster():
    """One whose API server may be stopped: never a control plane that others use as well."""
    if cluster().owned:
        return cluster()
    own = Cluster()
    atexit.register(own.stop)
    return own


def end_on_signals():
    """So that what atexit registered runs on SIGTERM and SIGHUP too."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))


# ---- localproxy ----


def clean_environment(**more):
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("CMESH_", "KUBE")) and not key.lower().endswith("_proxy")
    }
    env.update(more)
    return env


class LocalProxy:
    """A localproxy process on free ports. It must end without a sanitizer's report.

    With `control` it has a control socket. Unless it is told to, it asks for no token, and does not
    look at what only web pages send.
    """

    # pylint: disable-next=too-many-arguments
    def __init__(self, folder, args, env=None, wait=True, prefix=(), control=False):
        self.folder = folder
        self.control_path = os.path.join(folder, "control.sock")
        self.ready_file = os.path.join(folder, "ready.json")
        self.log_path = os.path.join(folder, "log")
        self.exit_code = None
        self.listen = self.listen_tls = self.admin = None
        path = program("localproxy")
        command = ["setpriv", "--pdeathsig", "KILL", *prefix, path, *args]
        command += ["--ready-file", self.ready_file]
        if control:
            command += ["--control", self.control_path]
        env = {"CMESH_TOKEN_FILE": "off", "CMESH_ACCEPT_ORIGIN": "*", **(env or {})}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=log, env=clean_environment(**env)
            )
        self.pid = self.process.pid
        if wait:
            self.wait_listening()

    def wait_listening(self):
        def look():
            if self.process.poll() is not None:
                raise AssertionError(f"localproxy ended: {self.process.returncode}\n{self.log()}")
            return os.path.exists(self.ready_file)

        wait_for(look, "localproxy listens")
        with open(self.ready_file, encoding="utf-8") as f:
            bound = json.load(f)
        self.listen = bound["listen"]
        self.listen_tls = bound.get("listenTLS")
        self.admin = bound["admin"]

    @property
    def url(self):
        return "http://" + self.listen

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def fetch(self, target, method="GET", headers=(), body=None, **more):
        return wire.fetch(self.listen, target, method, headers, body, **more)

    def connect(self, **more):
        return wire.Connection(self.listen, **more)

    def ask_admin(self, target, method="GET"):
        return wire.fetch(self.admin, target, method)

    def status(self):
        return json.loads(self.ask_admin("/status").body)

    def wait_for_start_version(self):
        """From then on versions that come to be are known to be younger than the process."""
        wait_for(lambda: self.status()["upstream"].get("versionAtStart"), "the version at the start")

    def metrics(self):
        """name{labels} -> value."""
        text = self.ask_admin("/metrics").body.decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    def control(self, method="GET", document=None, target="/v1/rules"):
        """Asks on the control socket: status and JSON body."""
        connection = UnixConnection(self.control_path)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, target, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def reload(self, document):
        """Puts rules in force; when this returns, they are."""
        status, body = self.control("PUT", document)
        enforced = body.get("enforced") or {}
        if status != 200 or enforced.get("generation") != document["generation"]:
            raise AssertionError(f"reload: {status} {body}\n{self.log()[-2000:]}")
        return body

    def breaker(self, rule):
        """What /status tells of a circuit breaker's rule."""
        rows = self.status()["traffic"]["breakers"]
        return next(row for row in rows if row["rule"] == rule)

    def memory_kib(self, field="VmHWM"):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return int(re.search(rf"^{field}:\s+(\d+) kB", f.read(), re.M)[1])

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=60):
        """Waits for its end; checks what every end must show."""
        self.exit_code = self.process.wait(timeout)
        return self.exit_code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """Ends it by SIGTERM, as the kubelet does, and returns the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"localproxy does not end on SIGTERM:\n{self.log()}") from None


def limit(resources, selector, groups=("*",)):
    return {"apiGroups": list(groups), "resources": list(resources), "selector": selector}


def rules_document(*limits, generation=1, shard="shard-a"):
    return {
        "apiVersion": "cmesh/v1",
        "kind": "ShardRules",
        "shard": {"namespace": "cmesh-e2e", "name": shard},
        "generation": generation,
        "spec": {"limits": list(limits)},
    }


def traffic_document(breakers=(), faults=(), generation=1, shard="shard-a"):
    return {
        "apiVersion": "cmesh/v1",
        "kind": "ShardTraffic",
        "shard": {"namespace": "cmesh-e2e", "name": shard},
        "generation": generation,
        "spec": {"breakers": list(breakers), "faults": list(faults)},
    }


# ---- test cases ----


class TestCase(unittest.TestCase):
    """With a folder, localproxies, scripted upstreams and kubectl that end with the test.

    What setUpClass starts through `cls.keep` ends with the class.
    """

    maxDiff = 4000
    upstream_protocol = None  # of scripted servers with TLS: "h2" or "http1", else as `run` was told

    def setUp(self):
        self.folder = self.make_folder(self.addCleanup)
        self.authorities = {}

    @staticmethod
    def make_folder(cleanup):
        folder = tempfile.mkdtemp(prefix="cmesh-e2e.")
        cleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def path(self, name, content=None):
        """A path in the test's folder; with `content` the file is written."""
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content if isinstance(content, bytes) else content.encode())
        return path

    @classmethod
    def start_proxy(cls, cleanup, args, **more):
        folder = cls.make_folder(cleanup)
        proxy = LocalProxy(folder, args, **more)
        cleanup(cls.end_proxy, proxy)
        return proxy

    @staticmethod
    def end_proxy(proxy):
        """Every localproxy of every test must end well, unless the test has seen to that."""
        expected = 0 if proxy.exit_code is None else proxy.exit_code
        code = proxy.stop()
        log = proxy.log()
        if keep := os.environ.get("CMESH_E2E_KEEP_LOGS"):
            shutil.copy(proxy.log_path, os.path.join(keep, f"localproxy-{proxy.pid}.log"))
        if SANITIZER_REPORT.search(log):
            raise AssertionError(f"a sanitizer found something:\n{log}")
        if code != expected:
            raise AssertionError(f"localproxy exited with {code}:\n{log}")

    @classmethod
    def own_cluster(cls, arguments, prefix=()):
        """From here on the tests of the class have a control plane of their own, whose API server has
        these arguments too."""
        shared = Run.shared
        os.environ["CMESH_APISERVER_ARGS"] = arguments
        try:
            own = Cluster(prefix=prefix)
        finally:
            del os.environ["CMESH_APISERVER_ARGS"]
        cls.addClassCleanup(own.stop)
        cls.addClassCleanup(setattr, Run, "shared", shared)
        Run.shared = own

    @classmethod
    def proxy_args(cls, folder, rules, kubeconfig):
        """`rules`: a list of limits, a whole document, or None for --no-rules=passthrough."""
        args = ["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        args += ["--shutdown-grace", "5"]
        if rules is None:
            return args + ["--no-rules", "passthrough"]
        document = rules_document(*rules) if isinstance(rules, list) else rules
        handle, path = tempfile.mkstemp(suffix=".json", prefix="rules.", dir=folder)
        with open(handle, "w", encoding="utf-8") as f:
            json.dump(document, f)
        return args + ["--rules", path]

    def proxy(self, rules=None, kubeconfig=None, args=(), **more):
        """A localproxy for this test, in front of the control plane if no kubeconfig is given."""
        base = self.proxy_args(self.folder, rules, kubeconfig or cluster().kubeconfig)
        return self.start_proxy(self.addCleanup, [*base, *args], **more)

    def scripted_proxy(self, rules, kubeconfig, args=(), **more):
        """In front of a scripted API server: it asks for nothing by itself at its start."""
        return self.proxy(rules, kubeconfig, ["--resume-doubt=0", *args], **more)

    @classmethod
    def class_proxy(cls, rules=None, kubeconfig=None, args=()):
        """The same for all tests of a class."""
        folder = cls.make_folder(cls.addClassCleanup)
        base = cls.proxy_args(folder, rules, kubeconfig or cluster().kubeconfig)
        return cls.start_proxy(cls.addClassCleanup, [*base, *args])

    def upstream(self, serve, **more):
        """A scripted API server; plain unless `context` is given."""
        scripted = upstream.Upstream(serve, **more)
        self.addCleanup(self.end_upstream, scripted)
        return scripted

    def end_upstream(self, scripted):
        scripted.close()
        self.assertEqual([], scripted.errors)

    def authority(self, name="pki"):
        """A certificate authority of this test's own; the same for the same name."""
        folder = self.path(name)
        if not os.path.exists(folder):
            os.mkdir(folder)
            self.authorities[name] = pki.Authority(folder)
        return self.authorities[name]

    def speaks_h2(self):
        """Whether scripted servers with TLS do."""
        told = os.environ.get("CMESH_E2E_UPSTREAM")
        return (self.upstream_protocol or told or "h2") == "h2"

    def tls_upstream(self, serve, authority=None, **more):
        """A scripted API server over TLS, and the kubeconfig that leads to it."""
        authority = authority or self.authority()
        protocols = upstream.HTTP2 if self.speaks_h2() else upstream.HTTP1
        context = upstream.server_context(*authority.server(), protocols)
        scripted = self.upstream(serve, context=context, **more)
        access = {"authority": authority.certificate, "token": "e2e-token"}
        return scripted, upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url, **access)

    def plain_upstream(self, serve, **more):
        scripted = self.upstream(serve, **more)
        return scripted, upstream.write_kubeconfig(self.path("kubeconfig"), scripted.url)

    def assert_status_error(self, answer, code, reason=None, mentions=()):
        """The answer is a metav1.Status of cmesh's own."""
        self.assertEqual(code, answer.status, answer)
        self.assertEqual("application/json", answer.get("Content-Type"))
        status = json.loads(answer.body)
        self.assertEqual(
            ("v1", "Status", "Failure", code),
            (status["apiVersion"], status["kind"], status["status"], status["code"]),
        )
        if reason is not None:
            self.assertEqual(reason, status["reason"])
        self.assertIn("cmesh", status["message"])
        for text in mentions:
            self.assertIn(text, status["message"])
        return status


class Kubectl:
    """kubectl against one server, with folders of its own."""

    # pylint: disable-next=redefined-outer-name
    def __init__(self, folder, kubeconfig=None, server=None, program=None):
        """`program`: by default the control plane's, which is started if need be."""
        self.folder = folder
        given = os.environ.get("CMESH_E2E_KUBECTL") or program
        self.program = given or cluster().env["KUBECTL"]
        self.base = ["--cache-dir", os.path.join(folder, "cache")]
        if kubeconfig is not None:
            self.base += ["--kubeconfig", kubeconfig]
        if server is not None:
            self.base += ["--kubeconfig", os.devnull, "--server", server]

    def popen(self, *args, **more):
        command = ["setpriv", "--pdeathsig", "KILL", self.program, *self.base, *args]
        env = clean_environment(HOME=self.folder)
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True, **more
        )

    def run(self, *args, stdin=None, timeout=240):
        """Exit code, standard output, standard error. What waits for pods to end takes minutes on a
        busy machine."""
        process = self.popen(*args, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return process.returncode, out, err

    def __call__(self, *args, stdin=None):
        """Standard output; the command must succeed."""
        code, out, err = self.run(*args, stdin=stdin)
        if code != 0:
            raise AssertionError(f"kubectl {' '.join(args)}: exit {code}: {err}{out}")
        return out


def end_process(process):
    """Ends a child, if it still runs, and closes its pipes."""
    if process.poll() is None:
        process.kill()
    process.communicate()


def make_namespace(control_plane, prefix, cleanup):
    """A new namespace, of which the name is returned, that is ready for pods, and in which the
    controllers have made all that they make."""
    name = f"{prefix}-{os.getpid()}-{next(Run.counter)}"
    control_plane.json("/api/v1/namespaces", "POST", {"metadata": {"name": name}})
    cleanup(control_plane.fetch, f"/api/v1/namespaces/{name}", "DELETE")
    wait_for_pods(control_plane, name)
    if has_authority(control_plane, "default"):
        wait_for(lambda: has_authority(control_plane, name), f"{name} has its authority")
    return name


def enforce_pod_security(control_plane, cleanup):
    """What Pod Security Admission refuses, on an API server without that plugin."""

    def kubectl(verb):
        command = [control_plane.env["KUBECTL"], "--kubeconfig", control_plane.kubeconfig]
        command += [verb, "-f", os.path.join(HERE, "pod-security.yaml")]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    kubectl("apply")
    cleanup(kubectl, "delete")


def has_authority(control_plane, namespace):
    """Whether a controller has published how to trust the API server there; not all control planes
    have that controller."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"
    return control_plane.fetch(path).status == 200


def wait_for_pods(control_plane, namespace, account="default"):
    """Until pods of a service account may be created there: before, the account is missing, or its
    token is (which is answered 500)."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pod["spec"]["serviceAccountName"] = account
    body, kind = json.dumps(pod).encode(), [("Content-Type", "application/json")]

    def allowed():
        answer = control_plane.fetch(path, "POST", kind, body)
        return answer.status != 403 and b"No API token found" not in answer.body

    wait_for(allowed, f"{namespace} has its service account {account}")


def seed():
    """What random choices of a test follow from: $CMESH_E2E_SEED (run --seed), or a new one."""
    given = os.environ.get("CMESH_E2E_SEED")
    number = int(given) if given else random.SystemRandom().randrange(1_000_000)
    print(f"seed {number}", file=sys.stderr, flush=True)
    return number


def reloads(usual):
    """How many reloads a test does: $CMESH_E2E_RELOADS (run --reloads) for a long run."""
    return int(os.environ.get("CMESH_E2E_RELOADS") or usual)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


def free_port():
    """One that nothing uses, below those the kernel gives to whoever wants any: it stays free."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(10000, max(first, 12000))
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in Run.ports:
            Run.ports.add(port)
            return port


def main():
    end_on_signals()
    unittest.main(verbosity=2)
