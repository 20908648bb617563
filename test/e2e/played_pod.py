# SPDX-License-Identifier: Apache-2.0
"""An injected pod without a kubelet: its containers' commands, run in the order in which a kubelet
without native sidecars runs them, with folders and ports of its own.

The pod is one of those that the unit test of manager/inject compares its results with.
"""

import glob
import json
import os
import re
import subprocess

import harness
import shard
import wire

PODS = os.path.join(harness.ROOT, "test", "unit", "manager", "inject", "pods")
PORTS = ("5443", "5446", "5441", "5442", "15002")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
FOLDERS = ("/etc/cmesh", "/var/lib/cmesh", "/run/cmesh")
MADE = "cmesh-service-account"  # the volume that takes the place of the real one
OPERATOR = "manager"  # the container
NAMESPACE, SHARD = "operator-demo", "sharding-demo"  # as the pod has them


def injected(kind):
    """Name and object of each pod that was injected in that way."""
    for path in sorted(glob.glob(os.path.join(PODS, f"*.{kind}.json"))):
        with open(path, encoding="utf-8") as f:
            yield os.path.basename(path), json.load(f)


class RealAccount:
    """What a kubelet gives to each container of a pod: the folder of its service account, and where
    the API server is."""

    def __init__(self, folder, address, authority):
        """`authority`: PEM."""
        self.volume = shard.Volume(folder)
        self.host, _, self.port = address.rpartition(":")
        self.authority = authority

    def put(self, token, namespace):
        """Also in the place of another token, while the pod runs."""
        self.volume.put({"ca.crt": self.authority, "namespace": namespace, "token": token})

    def variables(self):
        names = ("KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS")
        return {"KUBERNETES_SERVICE_HOST": self.host, **dict.fromkeys(names, self.port)}


class PlayedPod:
    """With a kubeconfig in the place of --in-cluster, or with a RealAccount, for which mount
    namespaces must be permitted (shard.mount_prefix)."""

    # pylint: disable-next=too-many-arguments
    def __init__(
        self, cleanup, folder, namespace, *, kubeconfig=None, account=None, name=None, pod=None
    ):
        """`name`: of the shard, and of this pod, if it is not to be as the object has it. `pod`: an
        object that was injected, in the place of the one of the unit test."""
        self.cleanup = cleanup
        self.folder = folder
        self.namespace = namespace
        self.account = account
        self.name = f"operator-{name or 0}"
        self.uid = "11-22"
        self.shard = {"namespace": NAMESPACE, "name": SHARD}
        self.places = [("[::]:", "127.0.0.1:")]
        if kubeconfig is not None:
            self.places.append(("--in-cluster", f"--kubeconfig={kubeconfig}"))
        if name is not None:
            self.shard = {"namespace": namespace, "name": name}
            self.places += [(NAMESPACE, namespace), (SHARD, name)]
        self.ports = {port: str(harness.free_port()) for port in PORTS}
        for host in ("127.0.0.1", "localhost"):
            self.places += [(f"{host}:{old}", f"{host}:{new}") for old, new in self.ports.items()]
        for path in FOLDERS:
            self.places.append((path, self.path(os.path.basename(os.path.dirname(path)))))
        for path in ("etc/kubeconfig", "lib", "run"):
            os.makedirs(self.path(path))
        if pod is not None:
            self.name, self.uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        else:
            pod = dict(injected("ordinary"))["operator.ordinary.json"]
        self.spec = pod["spec"]
        self.labels = shard.Volume(self.path("etc/pod"))
        self.put_labels(pod["metadata"]["labels"])
        containers = self.spec["initContainers"] + self.spec["containers"]
        self.containers = {container["name"]: container for container in containers}
        self.mount = shard.Mount(self.path("etc/rules"))
        self.count = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def put_labels(self, labels):
        """As the kubelet writes the pod's labels, also when they have changed."""
        lines = (f"{key}={json.dumps(value)}" for key, value in sorted(labels.items()))
        self.labels.put({"labels": "\n".join(lines)})

    def publish(self, rules, traffic=None):
        documents = {"rules.json": rules, "traffic.json": traffic}
        self.mount.put(
            {key: json.dumps({**d, "shard": self.shard}) for key, d in documents.items() if d}
        )

    # ---- what containers are given ----

    def here(self, word):
        """With the folders and ports of this pod in place of those in the object."""
        for old, new in self.places:
            word = word.replace(old, new)
        return self.ports.get(word, word)

    def variables(self, container):
        """Some of them come from fields of the pod; its own win over the kubelet's."""
        fields = {"name": self.name, "namespace": self.namespace, "uid": self.uid}
        fields = {f"metadata.{key}": value for key, value in fields.items()}

        known = self.account.variables() if self.account else {}

        def value(variable):
            if "valueFrom" in variable:
                return fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            text = self.here(variable.get("value", ""))
            return re.sub(r"\$\((\w+)\)", lambda m: known.get(m[1], m[0]), text)

        for variable in container.get("env", ()):
            known[variable["name"]] = value(variable)
        return known

    def prefix(self, container):
        """In front of a command: what the container has mounted in place of the service account."""
        mounts = container.get("volumeMounts", ())
        volumes = [m["name"] for m in mounts if m["mountPath"] == ACCOUNT]
        if self.account is None or not volumes:
            return []
        folder = self.path("etc/service-account")
        if volumes != [MADE]:
            folder = self.account.volume.path
        return shard.mount_prefix(
            f"mount -t tmpfs tmpfs /var/run\nmkdir -p {ACCOUNT}\n"
            f"mount --bind '{folder}' {ACCOUNT}\nmount -o remount,bind,ro {ACCOUNT}"
        )

    def operator_place(self):
        """The prefix and the environment of what runs in the operator's container."""
        container = self.containers[OPERATOR]
        env = harness.clean_environment(HOME=self.folder, **self.variables(container))
        return self.prefix(container), env

    # ---- what runs ----

    def start(self, command, *more, prefix=(), env=None):
        self.count += 1
        words = [self.here(word) for word in [*command, *more]]
        log = self.path(f"log-{self.count}")
        with open(log, "wb") as f:
            process = subprocess.Popen(
                [*prefix, "setpriv", "--pdeathsig", "KILL", harness.program(words[0]), *words[1:]],
                env=harness.clean_environment(HOME=self.folder, **(env or {})),
                stdin=subprocess.DEVNULL,
                stderr=f,
            )
        self.cleanup(self.end, process, log)
        return process

    @staticmethod
    def end(process, log):
        harness.end_process(process)
        with open(log, encoding="utf-8", errors="replace") as f:
            text = f.read()
        if harness.SANITIZER_REPORT.search(text):
            raise AssertionError(f"a sanitizer found something:\n{text}")

    @staticmethod
    def wait_done(process, what):
        code = process.wait(20)
        if code != 0:
            raise AssertionError(f"{what}: exit {code}")

    def start_container(self, name, before=()):
        """`before`: a prefix of the test's."""
        container = self.containers[name]
        env, prefix = self.variables(container), [*before, *self.prefix(container)]
        return self.start(container["command"], *container["args"], prefix=prefix, env=env)

    def start_gate(self):
        hook = self.containers["cmesh-rulesync"]["lifecycle"]["postStart"]
        return self.start(hook["exec"]["command"])

    def make_kubeconfig(self):
        """The port in it is the one that the container takes when it is told none."""
        self.wait_done(self.start_container("cmesh-kubeconfig"), "cmesh-kubeconfig")
        with open(self.path("etc/kubeconfig/config"), encoding="utf-8") as f:
            text = f.read()
        with open(self.path("etc/kubeconfig/config"), "w", encoding="utf-8") as f:
            f.write(re.sub(r"(?<=127\.0\.0\.1:)5443\b", self.ports["5443"], text))

    def start_all(self, before=()):
        """Returns localproxy and rulesync."""
        self.make_kubeconfig()
        self.wait_done(self.start_container("cmesh-rules"), "cmesh-rules")
        proxy = self.start_container("cmesh-localproxy", before)
        rulesync = self.start_container("cmesh-rulesync")
        if "lifecycle" in self.containers["cmesh-rulesync"]:
            self.wait_done(self.start_gate(), "the gate")
        else:
            harness.wait_for(self.is_started, "the startup probe")
        return proxy, rulesync

    def is_started(self):
        """As the probe of a native sidecar asks."""
        try:
            return wire.fetch(f"127.0.0.1:{self.ports['5441']}", "/readyz").status == 200
        except OSError:
            return False

    # ---- what the operator has ----

    def credentials(self):
        """The header that clients make of the operator's kubeconfig."""
        with open(self.path("etc/kubeconfig/config"), encoding="utf-8") as f:
            token = re.search(r"^ +token: \"?([\w.-]+)", f.read(), re.M)[1]
        return [("Authorization", "Bearer " + token)]

    def bearer(self):
        """The header of a client that takes its configuration from the folder."""
        with open(self.path("etc/service-account/token"), encoding="ascii") as f:
            return [("Authorization", "Bearer " + f.read())]

    def kubectl(self):
        """That was given what the operator is given."""
        return harness.Kubectl(self.folder, self.path("etc/kubeconfig/config"))
