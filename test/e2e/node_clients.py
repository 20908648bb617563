# SPDX-License-Identifier: Apache-2.0
"""Pods for a real node whose containers are the programs of clients/, which take their
configuration from the service account. What runs Python, JavaScript and Java is this machine's own,
mounted.
"""

import os
import shutil

import node
import real_clients

LOCK = "operator"
ENABLE = "ctrlmesh.kusionstack.io/enable-proxy"
SCRIPTS = ("informer.py", "elector.py", "informer.mjs")
MACHINE = {"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64"}  # as in Debian
SECURITY = {
    "runAsUser": 65532,
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def rights(namespace):
    """Of the namespace's service account `default`."""
    api = "rbac.authorization.k8s.io"
    meta = {"name": "clients", "namespace": namespace}
    rules = [{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"],
              "verbs": ["get", "list", "watch", "create", "update", "patch"]}]  # fmt: skip
    role = {"apiVersion": api + "/v1", "kind": "Role", "metadata": meta, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    reference = {"apiGroup": api, "kind": "Role", "name": "clients"}
    binding = {**role, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    del binding["rules"]
    return [role, binding]


class Clients:
    """Those that this machine has, for pods of a namespace."""

    def __init__(self, folder, namespace):
        """`folder`: for a copy of the programs."""
        self.namespace = namespace
        self.mounts = {**MACHINE, "/clients": os.path.join(folder, "clients")}
        self.commands = {}  # container -> its command; @ID is for who runs it
        os.makedirs(os.path.join(folder, "clients", "node_modules"), 0o755)
        for name in SCRIPTS:
            shutil.copy(os.path.join(real_clients.PROGRAMS, name), self.mounts["/clients"])
        self.add_go()
        if real_clients.have_python_client():
            self.add_python()
        if real_clients.install_js_client():
            self.add_js()
        if real_clients.have_java():
            self.add_java()

    @property
    def maps(self):
        return f"configmaps@{self.namespace}"

    def add_go(self):
        self.mounts["/clients-go"], _ = real_clients.go_folder()
        elector = ["/clients-go/elector", f"--namespace={self.namespace}", f"--name={LOCK}"]
        elector += ["--lease-duration=8s", "--renew-deadline=6s", "--retry-period=500ms"]
        self.commands["go-elector"] = [*elector, "--identity=@ID"]
        self.commands["go-informer"] = ["/clients-go/informer", f"typed:{self.maps}"]

    def add_python(self):
        python = os.path.realpath(real_clients.PYTHON)
        elector = [python, "/clients/elector.py", self.namespace, LOCK, "@ID"]
        self.commands["python-elector"] = elector
        informer = [python, "/clients/informer.py", "in-cluster", f"endless:{self.maps}"]
        self.commands["python-informer"] = informer

    def add_js(self):
        modules = os.path.join(real_clients.install_js_client(), "node_modules")
        self.mounts["/clients/node_modules"] = modules
        script = ["/clients/informer.mjs", "in-cluster", self.maps]
        self.commands["js-informer"] = [os.path.realpath(shutil.which("node")), *script]

    def add_java(self):
        """Debian's has its configuration elsewhere."""
        inside = self.mounts["/clients"]
        program = [w.replace(inside, "/clients") for w in real_clients.java_operator(inside)]
        home = os.path.dirname(os.path.dirname(program[0]))
        folder = os.path.dirname(os.path.realpath(os.path.join(home, "conf", "net.properties")))
        if not folder.startswith("/usr/"):
            self.mounts[folder] = folder
        self.commands["java-informer"] = [*program, self.namespace, LOCK, "@ID", self.maps]

    def informers(self):
        return [name for name in self.commands if name.endswith("-informer")]

    def container(self, name, identity):
        command = [word.replace("@ID", identity) for word in self.commands[name]]
        return {
            "name": name,
            "image": node.TOOLS,
            "command": command,
            "stdin": True,  # they end with it
            "securityContext": SECURITY,
            "volumeMounts": [
                {"name": f"m{i}", "mountPath": path, "readOnly": True}
                for i, path in enumerate(sorted(self.mounts))
            ],
        }

    def pod(self, name, **spec):
        """With the label shard=`name`."""
        volumes = [
            {"name": f"m{i}", "hostPath": {"path": self.mounts[path]}}
            for i, path in enumerate(sorted(self.mounts))
        ]
        labels = {"app": "clients", "shard": name, ENABLE: "true"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [self.container(container, name) for container in self.commands],
                "volumes": volumes,
                **spec,
            },
        }
