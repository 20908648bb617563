# SPDX-License-Identifier: Apache-2.0
"""Clients that take their configuration from the service account of their pod, as most operators
do, are led to localproxy. They are real ones, in the place of the operator's container of injected
pods: with the environment and the mounted folder that its object says.
"""

import os
import re
import socket
import ssl
import subprocess
import unittest

import audit
import harness
import played_pod
import real_clients
import shard
import upstream
import wire

LOCK = "operator"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps/{}"
RBAC = "/apis/rbac.authorization.k8s.io/v1/"
RESOURCES = (("", "configmaps"), ("coordination.k8s.io", "leases"))
POD_NAME = "authentication.kubernetes.io/pod-name"
SEARCH = 'find -L /var/run/secrets -type f -exec cat {} +; cat "$KUBECONFIG"; env'


class Operator:
    """Clients of one library in the operator's container: what watches ConfigMaps, and what stands
    for election, which is the same program in Java."""

    kind = LEASES  # of the lock

    def __init__(self, case, pod, identity, **variables):
        prefix, env = pod.operator_place()
        self.clients = []
        for watches, command in self.commands(case, pod.namespace, identity):
            client = real_clients.Client(
                identity, [*prefix, *command], watches, env={**env, **variables}
            )
            case.addCleanup(client.close)
            self.clients.append(client)
        self.informer = self.clients[0]
        self.identity = identity

    def seen(self):
        return {e.key for e in list(self.informer.events) if e.kind in ("add", "update", "delete")}

    def heard(self, kind):
        return [e for client in self.clients for e in list(client.events) if e.kind == kind]


class GoOperator(Operator):
    """Without flags both call rest.InClusterConfig()."""

    @staticmethod
    def missing():
        return real_clients.go_folder()[1]

    @staticmethod
    def commands(_, namespace, identity):
        folder, _ = real_clients.go_folder()
        flags = {"namespace": namespace, "name": LOCK, "identity": identity}
        flags.update({"lease-duration": "8s", "renew-deadline": "6s", "retry-period": "500ms"})
        yield ["typed:configmaps"], [os.path.join(folder, "informer")]
        elector = os.path.join(folder, "elector")
        yield [], [elector, *(f"--{flag}={value}" for flag, value in flags.items())]


class PythonOperator(Operator):
    kind = CONFIG_MAPS

    @staticmethod
    def missing():
        return None if real_clients.have_python_client() else "python3-kubernetes is not here"

    @staticmethod
    def commands(_, namespace, identity):
        informer = [*real_clients.python_script("informer.py"), "in-cluster"]
        yield ["endless:configmaps"], informer
        yield [], [*real_clients.python_script("elector.py"), namespace, LOCK, identity]


class JsOperator(Operator):
    @staticmethod
    def missing():
        return None if real_clients.install_js_client() else "its packages are not to be had"

    @staticmethod
    def commands(case, namespace, identity):
        informer = real_clients.js_script("informer.mjs", case.folder)
        yield ["configmaps"], [*informer, "in-cluster"]
        elector = real_clients.js_script("elector.mjs", case.folder)
        yield [], [*elector, namespace, LOCK, identity]


class JavaOperator(Operator):
    @staticmethod
    def missing():
        return None if real_clients.have_java() else "there is no JDK"

    @staticmethod
    def commands(case, namespace, identity):
        program = real_clients.java_operator(case.folder)
        yield ["configmaps"], [*program, namespace, LOCK, identity]


LIBRARIES = (GoOperator, PythonOperator, JsOperator, JavaOperator)


class InClusterTestCase(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        if shard.mount_prefix("true") is None:
            raise unittest.SkipTest("mount namespaces are not permitted here")


class RealTest(InClusterTestCase):
    """Before a real API server: two shards, each of which sees what belongs to one namespace."""

    SHARDS = ("a", "b")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = harness.cluster()
        cls.untrusted = ssl.create_default_context(cafile=cls.cluster.env["CLUSTER_CA"])
        with open(cls.cluster.env["CLUSTER_CA"], encoding="ascii") as f:
            cls.authority_text = f.read()
        make = harness.make_namespace
        cls.namespace = make(cls.cluster, "in-cluster", cls.addClassCleanup)
        cls.teams = {s: make(cls.cluster, f"team-{s}", cls.addClassCleanup) for s in cls.SHARDS}
        cls.make_account()
        cls.pods = {name: cls.start_pod(name) for name in cls.SHARDS}

    @classmethod
    def make_account(cls):
        path = f"/api/v1/namespaces/{cls.namespace}/serviceaccounts"
        cls.cluster.json(path, "POST", {"metadata": {"name": LOCK}})
        name = {"metadata": {"name": cls.namespace}}
        rules = [{"apiGroups": [g], "resources": [r], "verbs": ["*"]} for g, r in RESOURCES]
        group = "rbac.authorization.k8s.io"
        role = {"apiGroup": group, "kind": "ClusterRole", "name": cls.namespace}
        subject = {"kind": "ServiceAccount", "name": LOCK, "namespace": cls.namespace}
        for kind, thing in (
            ("clusterroles", {**name, "rules": rules}),
            ("clusterrolebindings", {**name, "roleRef": role, "subjects": [subject]}),
        ):
            cls.cluster.json(RBAC + kind, "POST", thing)
            cls.addClassCleanup(cls.cluster.fetch, f"{RBAC}{kind}/{cls.namespace}", "DELETE")
        harness.wait_for_pods(cls.cluster, cls.namespace, LOCK)

    @classmethod
    def token(cls, pod):
        """A new one of the service account, for a pod of that name, which is made."""
        spec = {"serviceAccountName": LOCK, "containers": [{"name": "c", "image": "i"}]}
        path = f"/api/v1/namespaces/{cls.namespace}/"
        cls.cluster.json(path + "pods", "POST", {"metadata": {"name": pod}, "spec": spec})
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod}
        request = {"spec": {"audiences": None, "boundObjectRef": bound}}
        made = cls.cluster.json(f"{path}serviceaccounts/{LOCK}/token", "POST", request)
        return made["status"]["token"]

    @classmethod
    def ask(cls, token):
        """The API server itself, with nothing but a token."""
        headers = [("Authorization", "Bearer " + token)]
        with wire.Connection(cls.cluster.address, tls=cls.untrusted) as connection:
            return connection.request("GET", "/api/v1/configmaps", headers)

    @classmethod
    def start_pod(cls, name):
        folder = cls.make_folder(cls.addClassCleanup)
        account = played_pod.RealAccount(
            os.path.join(folder, "account"), cls.cluster.address, cls.authority_text
        )
        token = cls.token(f"operator-{name}")
        harness.wait_for(lambda: cls.ask(token).status == 200, "it has its rights")
        account.put(token, cls.namespace)
        pod = played_pod.PlayedPod(
            cls.addClassCleanup, folder, cls.namespace, account=account, name=name
        )
        limit = harness.limit(["configmaps"], f"{harness.NAMESPACE_LABEL} in ({cls.teams[name]})")
        rules = harness.rules_document(limit)
        rules["spec"]["leaderElection"] = {"name": LOCK}
        pod.publish(rules)
        pod.start_all()
        return pod

    def create(self, name, shard_name):
        """Returns the key of a ConfigMap in the shard's namespace."""
        team = self.teams[shard_name]
        path = CONFIG_MAPS.format(team, "")[:-1]
        labels = {harness.NAMESPACE_LABEL: team}
        self.cluster.json(path, "POST", {"metadata": {"name": name, "labels": labels}})
        self.addCleanup(self.cluster.fetch, f"{path}/{name}", "DELETE")
        return f"{team}/{name}"

    def start_operators(self, library):
        if library.missing():
            self.skipTest(library.missing())
        for name in self.SHARDS:
            path = library.kind.format(self.namespace, f"{LOCK}---{name}")
            self.addCleanup(self.cluster.fetch, path, "DELETE")
        found = {name: library(self, pod, f"me-{name}") for name, pod in self.pods.items()}
        real_clients.wait_synced([operator.informer for operator in found.values()])
        return found

    def check_library(self, library):
        before = {name: {self.create("before", name)} for name in self.SHARDS}
        operators = self.start_operators(library)
        # What a shard were to see of the other comes before what it waits for.
        for name in ("b", "a", "b"):
            before[name].add(self.create(f"later-{len(before[name])}", name))
        for name, operator in operators.items():
            own = before[name]
            harness.wait_for(lambda w=own, o=operator: o.seen() >= w, f"{name} sees its own")
            self.assertEqual(own, operator.seen())
            harness.wait_for(lambda o=operator: o.heard("leading"), f"{name} leads")
        for name in self.SHARDS:
            self.check_lock(library, name)
        self.assertEqual(404, self.cluster.fetch(library.kind.format(self.namespace, LOCK)).status)
        for operator in operators.values():
            self.assertEqual([], operator.heard("error") + operator.heard("stopped"))
        return operators

    def check_lock(self, library, name):
        """It is the shard's own, and renewed."""
        path = library.kind.format(self.namespace, f"{LOCK}---{name}")
        first = self.cluster.json(path)

        def renewed():
            lock = self.cluster.json(path)
            self.assertIn(f"me-{name}", str(lock))
            return lock["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]

        harness.wait_for(renewed, f"{name} renews its lock")

    def test_client_go(self):
        self.check_library(GoOperator)

    def test_python(self):
        self.check_library(PythonOperator)

    def test_javascript(self):
        self.check_library(JsOperator)

    def test_java(self):
        operators = self.check_library(JavaOperator)
        lists = [e for operator in operators.values() for e in operator.heard("list")]
        self.assertEqual({"HTTP_1_1"}, {e.fields["http"] for e in lists}, "it prefers HTTP/2")

    def test_ipv6(self):
        """With the certificate verified, by all names that clients know the API server by."""
        pod = self.pods["a"]
        address = f"[::1]:{pod.ports['5446']}"
        context = ssl.create_default_context(cafile=pod.path("etc/service-account/ca.crt"))
        try:
            wire.Connection(address).close()
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")
        with wire.Connection(address, tls=context) as connection:
            answer = connection.request("GET", "/api/v1/configmaps", pod.bearer())
        self.assertEqual(200, answer.status, answer)
        if GoOperator.missing():
            self.skipTest(GoOperator.missing())
        own = self.create("six", "a")
        operator = GoOperator(self, pod, "six", KUBERNETES_SERVICE_HOST="::1")
        harness.wait_for(lambda: own in operator.seen(), "it is seen")

    def proxy_variables(self, pod):
        """Those that pods have for requests to other places, but that nothing listens there."""
        pods = dict(played_pod.injected("ordinary"))
        (led,) = (c for c in pods["egress.ordinary.json"]["spec"]["containers"]
                  if c["name"] == played_pod.OPERATOR)  # fmt: skip
        told = {v["name"]: v["value"] for v in led["env"] if v["name"].lower().endswith("_proxy")}
        self.assertEqual(6, len(told))
        host = pod.variables(pod.containers[played_pod.OPERATOR])["KUBERNETES_SERVICE_HOST"]
        nowhere = f"http://127.0.0.1:{harness.free_port()}"
        for name, value in told.items():
            listed = value.replace("$(KUBERNETES_SERVICE_HOST)", host)
            told[name] = listed if name.lower() == "no_proxy" else nowhere
        return told

    def test_proxy_variables(self):
        """They do not concern what is asked of the API server."""
        pod = self.pods["a"]
        told = self.proxy_variables(pod)
        own = self.create("direct", "a")
        for library in LIBRARIES:
            if library.missing():
                continue
            with self.subTest(library=library.__name__):
                operator = library(self, pod, library.__name__.lower(), **told)
                harness.wait_for(lambda o=operator: own in o.seen(), "it is seen")

    def test_no_proxy(self):
        """Of programs that know no exception by themselves."""
        pod = self.pods["a"]
        told = self.proxy_variables(pod)
        prefix, env = pod.operator_place()
        where = "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/configmaps"
        curl = f'curl -sSf --cacert "$F/ca.crt" -H "Authorization: Bearer $(cat $F/token)" {where}'
        python = (
            "import os, sys, requests\n"
            "f = os.environ['F']\n"
            "token = open(f + '/token').read()\n"
            "h = {'Authorization': 'Bearer ' + token}\n"
            "requests.get(sys.argv[1], verify=f + '/ca.crt', headers=h).raise_for_status()\n"
        )
        ways = {"curl": curl}
        if real_clients.have_python_client():
            ways["requests"] = f"/usr/bin/python3 -c \"$P\" {where}"
        env = {**env, "F": played_pod.ACCOUNT, "P": python}
        for name, command in ways.items():
            for excepted in (told, {**told, "NO_PROXY": "", "no_proxy": ""}):
                with self.subTest(program=name, excepted=excepted["NO_PROXY"]):
                    done = subprocess.run(
                        [*prefix, "sh", "-c", command], env={**env, **excepted},
                        capture_output=True, text=True, timeout=60, check=False,
                    )  # fmt: skip
                    direct = done.returncode == 0
                    self.assertEqual(excepted is told, direct, done.stderr)

    def test_names(self):
        """Of the API server, in each of which a client may put its trust; and no other."""
        pod = self.pods["a"]
        context = ssl.create_default_context(cafile=pod.path("etc/service-account/ca.crt"))
        names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default"]
        names += ["kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        for name in [*names, "evil.example"]:
            raw = socket.create_connection(("127.0.0.1", int(pod.ports["5446"])))
            with raw, self.subTest(name=name):
                if name in names:
                    context.wrap_socket(raw, server_hostname=name).close()
                else:
                    with self.assertRaises(ssl.SSLCertVerificationError):
                        context.wrap_socket(raw, server_hostname=name)

    def test_no_credential_is_there(self):
        """In all that the operator's container has mounted, and in its environment."""
        pod = self.pods["a"]
        prefix, env = pod.operator_place()
        told = subprocess.run(
            [*prefix, "sh", "-ec", SEARCH], env=env, capture_output=True, text=True, check=True
        ).stdout
        real = pod.path("account/token")
        with open(real, encoding="ascii") as f:
            token = f.read()
        self.assertEqual(200, self.ask(token).status)
        self.assertIn(pod.path("etc"), told, "the environment was looked at")
        self.assertNotIn(token, told)
        self.assertNotIn(self.authority_text, told)
        self.assertNotRegex(told, r"eyJ[\w-]+\.|PRIVATE KEY")
        found = set(re.findall(r"[\w-]{32,}", told)) - {"-----BEGIN", "-----END"}
        ours = pod.bearer()[0][1].removeprefix("Bearer ")
        self.assertIn(ours, found)
        for word in found:
            self.assertEqual(401, self.ask(word).status, word)
        volumes = {v["name"]: v for v in pod.spec["volumes"]}
        for mount in pod.containers[played_pod.OPERATOR]["volumeMounts"]:
            self.assertNotIn("projected", volumes[mount["name"]])

    def test_rotation(self):
        """localproxy's own token is replaced, as the kubelet does it, under an open watch and
        requests without an end."""
        if GoOperator.missing():
            self.skipTest(GoOperator.missing())
        pod, new = self.pods["a"], f"rotated-{os.getpid()}"
        self.create("busy", "a")
        prefix, env = pod.operator_place()
        folder, _ = real_clients.go_folder()
        command = [*prefix, os.path.join(folder, "informer"), "--writers=2", "--pause=20ms"]
        client = real_clients.Client("busy", command, ["json:configmaps"], env=env)
        self.addCleanup(client.close)
        real_clients.wait_synced([client])
        client.say("write on")
        self.wait_writes(client)
        before = self.asked_of_all(client)
        pod.account.put(self.token(new), self.namespace)
        log = audit.Log(self.cluster.env["CLUSTER_AUDIT_LOG"], new)
        harness.wait_for(lambda: self.asked_by(log, new), "the new token is used")
        self.wait_writes(client)
        own = self.create("late", "a")
        watch = client.watches[0]
        harness.wait_for(lambda: own in {e.key for e in client.of(watch, "add")}, "it is seen")
        self.assertEqual(before, self.asked_of_all(client))
        self.assertEqual([], client.of(watch, "error"))
        self.assertEqual({200}, {e.fields["code"] for e in client.of(watch, "write")})

    @staticmethod
    def asked_of_all(client):
        """The lists and watches that it has asked for."""
        return [e.kind for e in client.of(client.watches[0], "list", "watch")]

    @staticmethod
    def wait_writes(client, count=50):
        watch = client.watches[0]
        wanted = len(client.of(watch, "write")) + count
        harness.wait_for(lambda: len(client.of(watch, "write")) >= wanted, "it writes")

    @staticmethod
    def asked_by(log, pod):
        users = (entry["user"] for entry in log.entries())
        return any(user.get("extra", {}).get(POD_NAME) == [pod] for user in users)


class ScriptedTest(InClusterTestCase):
    """Before an API server that writes down what it is asked."""

    TOKEN = "e2e-token-of-the-cluster"

    def setUp(self):
        super().setUp()
        self.asked = []

    def answer(self, peer, request):
        self.asked.append(request)
        peer.respond(200, b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}\n')

    def start_pod(self, trusted):
        """Its localproxy trusts that authority; the API server's certificate is of "pki"."""
        context = upstream.server_context(*self.authority().server())
        self.server = self.upstream(upstream.always(self.answer), context=context)
        with open(self.authority(trusted).certificate, encoding="ascii") as f:
            authority = f.read()
        address = self.server.url.removeprefix("https://")
        account = played_pod.RealAccount(self.path("account"), address, authority)
        account.put(self.TOKEN, "demo")
        pod = played_pod.PlayedPod(self.addCleanup, self.folder, "demo", account=account)
        pod.publish(harness.rules_document(harness.limit(["pods"], "app=foo")))
        pod.start_all()
        context = ssl.create_default_context(cafile=self.path("etc/service-account/ca.crt"))
        return pod, f"127.0.0.1:{pod.ports['5446']}", context

    def test_a_false_api_server(self):
        """It has another certificate than it should: it is told nothing, clients are told why."""
        pod, address, context = self.start_pod("other")
        answer = wire.fetch(address, "/api/v1/pods", headers=pod.bearer(), tls=context)
        self.assert_status_error(answer, 503, mentions=["unknown authority"])
        libraries = [library for library in LIBRARIES if not library.missing()]
        operators = [library(self, pod, "me") for library in libraries]
        for operator in operators:
            # client-go tries ten times by itself, a second each, before it tells.
            if not isinstance(operator, GoOperator):
                harness.wait_for(lambda o=operator: o.heard("error"), "it is told")
        for operator in operators:
            self.assertEqual([], operator.heard("leading"))
            self.assertFalse(operator.informer.synced())
        self.assertEqual([], self.asked)
        self.assertEqual([], self.server.peers, "no handshake was completed")

    def test_a_forged_host(self):
        """Requests go to the API server of the configuration, or nowhere."""
        pod, address, context = self.start_pod("pki")
        with socket.create_server(("127.0.0.1", 0)) as evil:
            elsewhere = f"127.0.0.1:{evil.getsockname()[1]}"
            for host in ("evil.example", elsewhere):
                headers = [("Host", host), *pod.bearer()]
                for target in ("/api/v1/pods", f"https://{elsewhere}/api/v1/pods", elsewhere):
                    method = "CONNECT" if target == elsewhere else "GET"
                    with wire.Connection(address, tls=context) as connection:
                        answer = connection.request(method, target, headers)
                    self.assertEqual(target[0] == "/", answer.status < 400, (target, answer))
            evil.setblocking(False)
            self.assertRaises(BlockingIOError, evil.accept)
        passed = [r for r in self.asked if r.target.startswith("/api/v1/pods")]
        self.assertEqual(2, len(passed))
        own = self.server.url.removeprefix("https://")
        for request in self.asked:
            self.assertEqual(own, request.get("Host"))
            self.assertEqual(f"Bearer {self.TOKEN}", request.get("Authorization"))

    def test_who_prefers_http_2(self):
        """Gets HTTP/1.1, if it speaks that, too."""
        pod, address, context = self.start_pod("pki")
        one = "http/1.1"
        for offered, wanted in ((["h2", one], one), ([one], one), ([], None)):
            context.set_alpn_protocols(offered)
            with wire.Connection(address, tls=context) as connection:
                self.assertEqual(wanted, connection.sock.selected_alpn_protocol())
                self.assertEqual(200, connection.request("GET", "/version", pod.bearer()).status)
        context.set_alpn_protocols(["h2"])
        with self.assertRaises(ssl.SSLError):
            wire.Connection(address, tls=context)


if __name__ == "__main__":
    harness.main()
