# SPDX-License-Identifier: Apache-2.0
"""The manifests of examples/in-cluster-by-hand: an API server takes them whole, they are what the
webhook makes of such an operator, and no less restricted than they say. That they work is shown by
examples_test, on a node.
"""

import copy
import functools
import json
import os
import re
import unittest

import harness
import manifests
import played_pod

FOLDER = os.path.join(harness.ROOT, "examples", "in-cluster-by-hand")
FORMS = ("service-account", "by-name", "nat")
RESTRICTED = ("service-account", "by-name")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
LEVEL = "pod-security.kubernetes.io/enforce"


@functools.cache
def read(form):
    with open(os.path.join(FOLDER, form + ".yaml"), encoding="utf-8") as f:
        (deployment,) = manifests.parse(f.read())
    return deployment


def deployment_of(form, namespace):
    made = copy.deepcopy(read(form))
    made["metadata"]["namespace"] = namespace
    return made


def pod_of(form):
    """What a ReplicaSet makes of it."""
    template = copy.deepcopy(read(form)["spec"]["template"])
    template["metadata"]["generateName"] = form + "-"
    return {"apiVersion": "v1", "kind": "Pod", **template}


def containers_of(spec):
    return {c["name"]: c for c in spec["initContainers"] + spec["containers"]}


def mounts_of(container):
    return {m["mountPath"]: m for m in container.get("volumeMounts", ())}


@harness.needs("Deployments and service accounts")
class ApiServerTest(harness.TestCase):
    """What the API server says, and what its plugin for service accounts adds."""

    def setUp(self):
        super().setUp()
        self.cluster = harness.cluster()
        self.namespace = harness.make_namespace(self.cluster, "by-hand", self.addCleanup)
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.cluster.json(accounts, "POST", {"metadata": {"name": "report-operator"}})
        harness.wait_for_pods(self.cluster, self.namespace, "report-operator")

    def test_deployments_are_taken(self):
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments?dryRun=All"
        for form in FORMS:
            with self.subTest(form=form):
                wanted = deployment_of(form, self.namespace)
                made = self.cluster.json(path, "POST", wanted)
                self.assertEqual([], manifests.lost(wanted["spec"], made["spec"]))

    def test_who_gets_which_service_account(self):
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        for form in FORMS:
            with self.subTest(form=form):
                wanted = pod_of(form)
                spec = self.cluster.json(path, "POST", wanted)["spec"]
                self.assertEqual([], manifests.lost(wanted["spec"], spec))
                volumes = {volume["name"]: volume for volume in spec["volumes"]}
                for name, container in containers_of(spec).items():
                    places = [m["name"] for m in container["volumeMounts"] if m["mountPath"] == ACCOUNT]
                    self.assertEqual(1, len(places), name)
                    kind = "emptyDir" if name in ("operator", "cmesh-nat") else "secret"
                    self.assertIn(kind, volumes[places[0]], name)


# ---- as injected ----


GOLDEN = {"service-account": "operator", "by-name": "by-name", "nat": "nat"}

# What the webhook sets besides: what is the default anyway, what a manager asks for, and what belongs
# to the kubeconfig. The namespace is the pod's own.
ONLY_INJECTED = {
    "cmesh-kubeconfig": {"output", "namespace"},
    "cmesh-localproxy": {"listen", "admin", "status-lease", "watch-bypass"},
    "cmesh-rulesync": {"admin"},
}
# Each to its own shard, and pod.
DIFFERENT = {"shard", "shutdown-delay"}


def settings_of(container):
    """Of the program: flag -> values, whether by arguments or by variables."""
    found = {}
    for word in container["args"]:
        name, _, value = word.removeprefix("--").partition("=")
        found[name] = {value}
    for variable in container.get("env", ()):
        if variable["name"].startswith("CMESH_"):
            name = variable["name"].removeprefix("CMESH_").lower().replace("_", "-")
            found[name] = set(variable["value"].split(","))
    return found


def security_of(spec, container):
    """With what it has from the pod, and without defaults."""
    whole = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
    return {key: value for key, value in whole.items() if value is not False and key != "sysctls"}


def places_of(spec, container):
    """Mount path -> what is there, and whether it is read only; without the cluster's token."""
    sources = {
        v["name"]: {key: value for key, value in v.items() if key != "name"} for v in spec["volumes"]
    }
    found = {}
    for path, mount in mounts_of(container).items():
        source = json.dumps(sources[mount["name"]], sort_keys=True)
        source = re.sub(r"cmesh-rules-[\w-]+", "cmesh-rules-SHARD", source)
        kinds = sources[mount["name"]].keys()
        if kinds & {"emptyDir", "configMap", "downwardAPI"}:
            found[path] = (source, mount.get("readOnly", False))
    return found


class AsInjectedTest(unittest.TestCase):
    """They do not drift from what the webhook makes, as its unit test has it."""

    def each(self):
        pods = dict(played_pod.injected("ordinary"))
        for form in FORMS:
            with self.subTest(form=form):
                yield form, read(form)["spec"]["template"]["spec"], pods[f"{GOLDEN[form]}.ordinary.json"]["spec"]

    def sidecars(self):
        for form, spec, injected in self.each():
            theirs = containers_of(injected)
            for name, container in containers_of(spec).items():
                if name.startswith("cmesh-"):
                    with self.subTest(container=name):
                        yield form, spec, container, injected, theirs[name]

    def test_order(self):
        for _, spec, injected in self.each():
            for kind in ("initContainers", "containers"):
                ours, theirs = ([c["name"] for c in s[kind]] for s in (spec, injected))
                theirs = ["operator" if name == "manager" else name for name in theirs]
                self.assertEqual(theirs, ours)

    def test_programs_and_flags(self):
        for form, _, ours, _, theirs in self.sidecars():
            self.assertEqual(theirs["command"], ours["command"])
            mine, injected = settings_of(ours), settings_of(theirs)
            only = ONLY_INJECTED.get(ours["name"], set())
            self.assertEqual(set(mine), set(injected) - only)
            for flag in set(mine) - DIFFERENT:
                if (form, flag) == ("by-name", "listen-tls"):  # there for who reads variables, too
                    self.assertEqual({"localhost:5446"}, injected[flag] - mine[flag])
                else:
                    self.assertEqual(injected[flag], mine[flag], flag)
            hooks = [c.get("lifecycle", {}).get("postStart", {}).get("exec") for c in (ours, theirs)]
            if hooks[1]:
                ours, theirs = (
                    [word for word in hook["command"] if not word.startswith("--shard=")] for hook in hooks
                )
                self.assertEqual(theirs, ours)

    def test_rights(self):
        for _, spec, ours, injected, theirs in self.sidecars():
            self.assertEqual(security_of(injected, theirs), security_of(spec, ours))

    def test_folders(self):
        for _, spec, ours, injected, theirs in self.sidecars():
            wanted = places_of(injected, theirs)
            wanted.pop("/etc/cmesh/kubeconfig", None)
            self.assertEqual(wanted, places_of(spec, ours))

    def test_the_operator(self):
        for form, spec, injected in self.each():
            ours, theirs = containers_of(spec)["operator"], containers_of(injected)["manager"]
            folder = places_of(injected, theirs)[ACCOUNT]
            self.assertEqual({ACCOUNT: folder}, places_of(spec, ours))
            variables = [
                {v["name"]: v["value"] for v in c.get("env", ()) if v["name"].startswith("KUBERNETES_")}
                for c in (ours, theirs)
            ]
            if form == "by-name":
                host = variables[0]["KUBERNETES_SERVICE_HOST"]
                self.assertIn(host, injected["hostAliases"][0]["hostnames"])
            else:
                self.assertEqual(variables[1], variables[0])

    def test_the_pod(self):
        for _, spec, injected in self.each():
            self.assertEqual(injected.get("hostAliases"), spec.get("hostAliases"))
            ours, theirs = (s["securityContext"].get("sysctls") for s in (spec, injected))
            self.assertEqual(theirs, ours)


# ---- Pod Security ----


def change(path, value):
    """A change of a pod: `path` is of fields, and of names or numbers in lists; None removes."""

    def apply(pod):
        place = pod["spec"]
        *way, last = path
        for step in way:
            if isinstance(place, list):
                place = next(item for i, item in enumerate(place) if step in (i, item["name"]))
            else:
                place = place.setdefault(step, {})
        if value is None:
            del place[last]
        elif isinstance(place.get(last), list):
            place[last].append(value)
        else:
            place[last] = value

    return apply


def in_context(container, field, value):
    kind = "initContainers" if container in ("cmesh-kubeconfig", "cmesh-rules") else "containers"
    return change((kind, container, "securityContext", field), value)


OPERATOR = ("containers", "operator")

# What baseline refuses, and so restricted, and in which words; and what restricted alone does.
BASELINE = [
    ("host namespaces", change(("hostNetwork",), True)),
    ("host namespaces", change(("hostPID",), True)),
    ("host namespaces", change(("hostIPC",), True)),
    ("privileged containers", in_context("cmesh-rules", "privileged", True)),
    ("capabilities beyond", in_context("operator", "capabilities", {"drop": ["ALL"], "add": ["NET_ADMIN"]})),
    ("hostPath volumes", change(("volumes",), {"name": "host", "hostPath": {"path": "/etc"}})),
    ("host ports", change((*OPERATOR, "ports"), [{"containerPort": 80, "hostPort": 80}])),
    ("hosts of probes", change(("containers", "cmesh-localproxy", "readinessProbe", "httpGet", "host"), "a.example")),
    ("hosts of lifecycle hooks", change((*OPERATOR, "lifecycle"), {"preStop": {"httpGet": {"port": 1, "host": "a.example"}}})),
    ("AppArmor", in_context("operator", "appArmorProfile", {"type": "Unconfined"})),
    ("SELinux", change(("securityContext", "seLinuxOptions"), {"type": "spc_t"})),
    ("SELinux", in_context("operator", "seLinuxOptions", {"user": "me"})),
    ("/proc mount type", in_context("operator", "procMount", "Unmasked")),
    ("seccomp is off", in_context("operator", "seccompProfile", {"type": "Unconfined"})),
    ("sysctls", change(("securityContext", "sysctls"), [{"name": "net.core.somaxconn", "value": "1"}])),
]  # fmt: skip
MORE = [
    ("volume types", change(("volumes",), {"name": "nfs", "nfs": {"server": "a", "path": "/"}})),
    ("privilege escalation", in_context("operator", "allowPrivilegeEscalation", True)),
    ("privilege escalation", in_context("cmesh-kubeconfig", "allowPrivilegeEscalation", None)),
    ("running as root", change(("securityContext", "runAsNonRoot"), None)),
    ("running as root", in_context("cmesh-localproxy", "runAsNonRoot", False)),
    ("the user is root", in_context("cmesh-rulesync", "runAsUser", 0)),
    ("no seccomp profile", change(("securityContext", "seccompProfile"), None)),
    ("capabilities are not dropped", in_context("operator", "capabilities", {"drop": ["NET_RAW"]})),
    ("capabilities other than NET_BIND_SERVICE", in_context("operator", "capabilities", {"drop": ["ALL"], "add": ["KILL"]})),
]  # fmt: skip


@unittest.skipUnless(harness.modern(), "only an API server of --modern has admission policies")
class PodSecurityTest(harness.TestCase):
    """In a namespace of each level, by policies that spell the levels out."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.cluster()
        harness.enforce_pod_security(cls.cluster, cls.addClassCleanup)
        cls.levels = {}
        for level in ("privileged", "baseline", "restricted"):
            name = cls.levels[level] = f"by-hand-{level}-{os.getpid()}"
            labels = {LEVEL: level}
            cls.cluster.json("/api/v1/namespaces", "POST", {"metadata": {"name": name, "labels": labels}})
            cls.addClassCleanup(cls.cluster.fetch, f"/api/v1/namespaces/{name}", "DELETE")
        for (words, spoil), level in ((BASELINE[0], "baseline"), (BASELINE[0], "restricted"), (MORE[0], "restricted")):
            pod = pod_of("service-account")
            spoil(pod)
            harness.wait_for(lambda p=pod, v=level, w=words: w in cls.create(p, v), f"{level} is in force")

    @classmethod
    def create(cls, pod, level):
        """Why not; "": it was made, and is not kept."""
        path = f"/api/v1/namespaces/{cls.levels[level]}/pods?dryRun=All&fieldValidation=Strict"
        body = json.dumps(pod).encode()
        answer = cls.cluster.fetch(path, "POST", [("Content-Type", "application/json")], body)
        return "" if answer.status == 201 else json.loads(answer.body)["message"]

    def test_by_hand(self):
        for form in FORMS:
            with self.subTest(form=form):
                self.assertEqual("", self.create(pod_of(form), "privileged"))
        for form in RESTRICTED:
            with self.subTest(form=form):
                self.assertEqual("", self.create(pod_of(form), "baseline"))
                self.assertEqual("", self.create(pod_of(form), "restricted"))
        self.assertIn("denied request: capabilities beyond", self.create(pod_of("nat"), "baseline"))
        # There for several reasons, of which one is told.
        self.assertIn("denied request: ", self.create(pod_of("nat"), "restricted"))

    def test_nat_without_its_container(self):
        """It is that alone which needs to be allowed."""
        pod = pod_of("nat")
        pod["spec"]["initContainers"] = [
            c for c in pod["spec"]["initContainers"] if c["name"] != "cmesh-nat"
        ]
        self.assertEqual("", self.create(pod, "restricted"))

    def test_what_is_refused(self):
        """The judge is awake."""
        for words, spoil in BASELINE + MORE:
            pod = pod_of("service-account")
            spoil(pod)
            with self.subTest(words=words, spec=pod["spec"]):
                self.assertEqual("", self.create(pod, "privileged"))
                level = "baseline" if (words, spoil) in BASELINE else "restricted"
                self.assertIn(f"denied request: {words}", self.create(pod, level))
                if level == "baseline":
                    self.assertIn("denied request", self.create(pod, "restricted"))
                else:
                    self.assertEqual("", self.create(pod, "baseline"))


if __name__ == "__main__":
    harness.main()
