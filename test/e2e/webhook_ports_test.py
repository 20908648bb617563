# SPDX-License-Identifier: Apache-2.0
"""Routed webhooks where ports, Services and pods are not as they should be: numbers that come to be
wrong, ports of others, Services of each kind, tenants of the operator's namespace. By hand, as
webhook_faults_test.
"""

import json
import socket
import time

import harness
import mesh
import webhook_pods
import webhook_routing_test as routing
from operator_test import report
from webhook_case import KINDS
from webhook_faults_test import Every, PairCase
from webhook_pods import MUTATING, NAMESPACE, PORT, SERVICE, VALIDATING, WebhookPod, port_name


class NumberedPod(WebhookPod):
    """Whose second port has a number of its own, as injection gives it; None: it has none."""

    number = PORT

    def body(self):
        thing = super().body()
        container = thing["spec"]["containers"][0]
        for port in container["ports"]:
            if port["name"] == port_name(self.of):
                port["containerPort"] = self.number
        container["ports"] = [port for port in container["ports"] if port["containerPort"]]
        return thing


class HostPod(WebhookPod):
    """On the network of its host, with the ports that injection gives it there."""

    def body(self):
        thing = super().body()
        thing["spec"]["hostNetwork"] = True
        for port in thing["spec"]["containers"][0]["ports"]:
            port["hostPort"] = PORT
            if port["name"] != "webhook":
                port["hostIP"] = "0.0.0.0"
        return thing


class PortsCase(PairCase):
    def replace(self, of, number, each=lambda: None):
        """The pods of a shard, one by one."""
        for i, pod in enumerate(self.replicas[of]):
            pod.end()
            new = NumberedPod(self, pod.name, of)
            new.number = number
            self.start([new])
            self.replicas[of][i] = new
            each()

    def told(self, of):
        found = mesh.condition(self.get(of), "WebhookRouted")
        return found.get("reason"), found.get("message")

    def wait_told(self, of, reason):
        self.wait_condition(of, "WebhookRouted", "True" if reason == "Routed" else "False", reason)
        report(f"{of}: {self.told(of)}")

    def ports(self):
        return {p["name"]: p for p in self.cluster.json(self.service)["spec"]["ports"]}

    def events(self):
        items = self.cluster.json(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
        return [(e["reason"], e["type"], e["message"]) for e in items if "Webhook" in e["reason"]]

    def check_some(self, written, what):
        """Whoever was asked: all was asked once; returns what failed."""
        failed = [w for w in written if w.status != 201]
        done = [w for w in written if w.status == 201]
        self.check_once(done, dict.fromkeys(self.may_ask()))
        late = f", between {failed[0].came:.2f} and {failed[-1].came:.2f}" if failed else ""
        report(f"{what}: {len(written)} creates, {len(failed)} failed{late}")
        return failed


class NumbersTest(PortsCase):
    def test_a_port_that_becomes_wrong(self):
        """spec.webhook.port names a port where nobody listens, and pods are replaced; then it is put
        right."""
        self.wait_all()
        load = self.load(rate=40)
        self.patch("blue", {"spec": {"webhook": {"port": 9999}}})
        seen = []

        def look():
            if not seen:
                began = time.time()
                self.wait_told("blue", "OtherPort")
                seen.append(time.time() - began)

        self.replace("blue", 9999, look)
        time.sleep(3)
        self.assertEqual("Routed", self.told("green")[0])
        failed = self.check_some(load.end(), f"told after {seen[0]:.2f} s")
        self.assertLess(len(failed), 20)
        self.assertFalse([w for w in failed if w.namespace not in self.names["blue"]])
        # Another leader sees the same.
        self.lead.kill()
        self.lead = self.manager()
        load = self.load(rate=40)
        self.patch("blue", {"spec": {"webhook": {"port": PORT}}})
        self.replace("blue", PORT)
        self.wait_all()
        self.assertFalse(self.check_some(load.end(), "put right"))
        load = self.load(rate=40)
        time.sleep(2)
        self.check(load.end(), "as it was")

    def test_pods_on_the_network_of_their_hosts(self):
        for of, pods in self.replicas.items():
            for i, pod in enumerate(pods):
                pod.end()
                pods[i] = HostPod(self, pod.name, of)
                self.start([pods[i]])
        self.wait_all()
        load = self.load(rate=40)
        time.sleep(3)
        self.check(load.end(), "pods on the network of their hosts")

    def test_pods_of_an_earlier_injection(self):
        """They have no port; a rolling restart ends that."""
        self.opt_out()
        self.wait_widened()
        self.replace("blue", None)
        self.original()
        self.wait_told("blue", "OldPods")
        self.assertIn("(blue-0 and others)", self.told("blue")[1])
        self.wait_told("green", "Routed")
        status = self.get("blue")["status"]
        report(json.dumps(status.get("pods"))[:600])
        load = self.load(rate=40)
        self.replace("blue", PORT)
        self.wait_all()
        self.assertFalse(self.check_some(load.end(), "pods are replaced"))


class TwinsTest(PortsCase):
    """Two shards whose ports have the same name, and one beside them."""

    TWINS = ("s48392", "s79074")

    def setUp(self):  # pylint: disable=super-init-not-called
        routing.RoutingCase.setUp(self)
        self.names = {self.TWINS[0]: ["team-1"], self.TWINS[1]: ["team-2"], "green": ["team-3"]}
        self.owners = {space: of for of, spaces in self.names.items() for space in spaces}
        for space in [*self.owners, "nobodys"]:
            self.make_space(space)
        self.replicas = {}

    def begin(self, *names):
        for of in names:
            self.hand_shard(of, routing.by_name(*self.names[of]))
            self.replicas[of] = self.start_shard(of)

    def test_one_port_name(self):
        self.assertEqual(*map(port_name, self.TWINS))
        one, two = self.TWINS
        self.begin(one, "green")
        self.original()
        self.wait_routed(one, "green")
        load = self.load(["team-1", "team-3"], 40)
        self.begin(two)
        self.wait_told(one, "SamePort")
        self.wait_told(two, "SamePort")
        self.wait_told("green", "Routed")
        self.assertFalse(self.check_some(load.end(), "a twin comes"))
        for pod in self.replicas[two]:
            pod.end()
        self.delete(two)
        self.wait_told(one, "Routed")
        self.wait_settled({"team-1": one, "team-3": "green"})


class TenantsTest(PortsCase):
    """Of the operator's namespace, without rights on its shards."""

    def stranger(self, name, of, labels):
        """A pod that no sidecar is in; it answers what it is asked, and judges as one that sees all."""
        pod = WebhookPod(self, name, None, labels)
        body = pod.body

        def with_port():
            thing = body()
            port = {"name": port_name(of), "containerPort": PORT, "protocol": "TCP"}
            thing["spec"]["containers"][0]["ports"].append(port)
            return thing

        pod.body = with_port
        self.start([pod])
        return pod

    def test_a_pod_with_the_port_of_a_shard(self):
        """It stands behind the port, for the Service selects it: as it could before."""
        self.wait_all()
        pod = self.stranger("stranger", "blue", {"other": "deployment"})
        self.wait_endpoints(port_name("blue"), 3)
        load = self.load(rate=40)
        time.sleep(4)
        self.assertFalse(self.check_some(load.end(), "a stranger stands behind blue"))
        asked = [r for r in webhook_pods.reviews_of(pod) if r.namespace in self.names["blue"]]
        report(f"{len(asked)} reviews of blue reached the stranger: {self.told('blue')}")
        pod.end()
        self.wait_settled(self.owners)

    def test_a_pod_labelled_by_hand(self):
        """As a pod of blue, without sidecars, and one that says it was injected."""
        self.wait_all()
        one = self.stranger("hand-1", "blue", {"shard": "blue"})
        two = WebhookPod(self, "hand-2", "blue")
        two.begin(proxied=False)
        two.wait_ready()
        time.sleep(4)
        report(f"blue: {self.told('blue')}, {json.dumps(self.get('blue')['status']['conditions'])[:1500]}")
        self.assertEqual("Routed", self.told("green")[0])
        load = self.load(["team-3", "team-4"], 40)
        time.sleep(2)
        self.assertFalse(self.check_some(load.end(), "pods by hand"))
        one.end()
        two.end()

    def slice(self, name, ports):
        version = "discovery.k8s.io/v1beta1" if not harness.modern() else "discovery.k8s.io/v1"
        thing = {"apiVersion": version, "kind": "EndpointSlice", "addressType": "IPv4"}
        thing["metadata"] = {"name": name, "labels": {"kubernetes.io/service-name": SERVICE}}
        reference = {"kind": "Pod", "namespace": NAMESPACE, "name": "invented"}
        thing["endpoints"] = [{"addresses": ["10.199.77.77"], "conditions": {"ready": True},
                               "targetRef": reference}]  # fmt: skip
        thing["ports"] = [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports]
        self.api.apply(thing)
        return f"/apis/{version}/namespaces/{NAMESPACE}/endpointslices/{name}"

    @harness.needs("controllers of Services")
    def test_foreign_endpoint_slices(self):
        self.wait_all()
        load = self.load(rate=40)
        path = self.slice("foreign", [("webhook", PORT), (port_name("blue"), 1)])
        self.wait_told("blue", "OtherPort")
        self.assertEqual("Routed", self.told("green")[0])
        self.slice("foreign", [("webhook", PORT), (port_name("blue"), PORT)])
        self.wait_told("blue", "Routed")
        for ports in ([], [(port_name("green"), PORT)], [("webhook", PORT)]):
            self.slice("foreign", ports)
        more = [self.slice(f"foreign-{i}", [(port_name("blue"), PORT)]) for i in range(100)]
        time.sleep(2)
        self.wait_all()
        for each in [path, *more]:
            self.cluster.fetch(each, "DELETE")
        self.wait_all()
        self.assertFalse(self.check_some(load.end(), "foreign slices"))

    def add_ports(self, *ports):
        thing = self.cluster.json(self.service)
        spec = {"ports": [*thing["spec"]["ports"], *ports]}
        return self.api.ask("PATCH", self.service, {"spec": spec}, "application/merge-patch+json")

    def test_ports_of_the_user(self):
        """From 20443, and with names that begin as ours do."""
        self.opt_out()
        self.wait_widened()
        odd = [("wh-deadbeef", "webhook"), ("wh-cafecafe", "wh-cafecafe"), ("wh-mine", 7), ("wh-hold", 9)]
        ports = [{"name": f"own-{i}", "port": 20443 + i, "targetPort": 80} for i in range(0, 6, 2)]
        ports += [{"name": n, "port": 100 + i, "targetPort": t} for i, (n, t) in enumerate(odd)]
        answer = self.add_ports(*ports)
        self.assertEqual(200, answer.status, answer.said)
        before = self.ports()
        self.original()
        self.wait_told("blue", "Routed")
        self.wait_told("green", "Routed")
        self.wait_settled(self.owners)
        after = self.ports()
        self.assertEqual(before, {name: port for name, port in after.items() if name in before})
        numbers = sorted(after[port_name(of)]["port"] for of in self.names)
        self.assertEqual([20444, 20446], numbers)
        time.sleep(8)
        self.assertEqual(after, self.ports())
        self.opt_out()
        self.wait_gone()
        self.assertEqual(before, self.ports())

    def wait_gone(self):
        names = {port_name(of) for of in self.names}
        harness.wait_for(lambda: not names & set(self.ports()), "our ports go")

    def test_the_name_of_a_shards_port_is_taken(self):
        """By a port of the user that leads elsewhere."""
        self.opt_out()
        self.wait_widened()
        mine = {"name": port_name("blue"), "port": 8888, "targetPort": "webhook"}
        self.assertEqual(200, self.add_ports(mine).status)
        self.original()
        time.sleep(8)
        report(f"{self.told('blue')} {self.told('green')} {self.ports()}")
        self.assertNotIn("Routed", (self.told("blue")[0],))
        load = self.load(rate=20)
        time.sleep(2)
        self.assertFalse(self.check_some(load.end(), "the name is taken"))

    def test_a_full_service(self):
        """64 ports, or nearly."""
        self.opt_out()
        self.wait_widened()
        extra = [{"name": f"own-{i}", "port": 1000 + i, "targetPort": 80} for i in range(63)]
        answer = self.add_ports(*extra[:62])
        self.assertEqual(200, answer.status, answer.said)
        self.original()
        self.wait_told("blue", "TooMany")
        self.wait_told("green", "TooMany")
        thing = self.cluster.json(self.service)
        ports = [p for p in thing["spec"]["ports"] if p["name"] != "own-0"]
        self.api.merge(self.service, {"spec": {"ports": ports}})
        self.wait_all()
        self.assertEqual(64, len(self.ports()))
        # One more than fits: the user cannot add it.
        answer = self.add_ports({"name": "one-more", "port": 7777, "targetPort": 80})
        report(f"one more port: {answer.status} {answer.said[:200]}")

    def test_ports_that_are_deleted_each_second(self):
        """Ten times; then the manager lets go, and no review is lost."""
        self.wait_all()
        load = self.load(rate=40)

        def strip():
            ports = [p for n, p in self.ports().items() if not n.startswith("wh-")]
            self.api.merge(self.service, {"spec": {"ports": ports}})

        job = Every(self, 1, strip)
        self.wait_told("blue", "Contested")
        harness.wait_for(lambda: not any(map(self.entries, KINDS)), "the entries go")
        job.end()
        time.sleep(1)
        written = load.end()
        failed = [w for w in written if w.status != 201]
        self.check_asked([w for w in written if w.status == 201], f"ports deleted {job.count} times")
        report(f"{len(failed)} failed: {failed[0].said[:200] if failed else ''}; {self.events()}")
        load = self.load(rate=40)
        time.sleep(2)
        self.assertFalse(self.check_some(load.end(), "after it was let go"))


class KindsTest(PortsCase):
    """Of Services."""

    def again(self, spec):
        """Another Service of that name."""
        self.opt_out()
        self.wait_widened()
        self.api.delete(self.service)
        thing = self.service_object()
        thing["spec"].update(spec)
        thing["spec"] = {k: v for k, v in thing["spec"].items() if v is not None}
        self.api.create(thing)
        time.sleep(1)
        self.original()

    def judge(self, what):
        load = self.load(rate=30)
        time.sleep(3)
        self.check(load.end(), what)

    def test_those_that_can_be_routed(self):
        self.wait_all()
        for spec in ({"type": "NodePort"}, {"type": "LoadBalancer"}, {"sessionAffinity": "ClientIP"},
                     {"publishNotReadyAddresses": True}, {"clusterIP": "None"}):  # fmt: skip
            self.again(spec)
            self.wait_all()
            self.judge(f"{spec}")
            report({n: p.get("nodePort") for n, p in self.ports().items()})

    def test_external_names(self):
        self.wait_all()
        self.again({"type": "ExternalName", "externalName": "example.com", "selector": None})
        time.sleep(8)
        report(f"{self.told('blue')}")
        self.assertFalse(any(map(self.entries, KINDS)))

    def test_without_selector(self):
        """Whose Endpoints somebody writes."""
        self.wait_all()
        self.again({"selector": None})
        pods = [pod for pods in self.replicas.values() for pod in pods]
        subsets = [{"addresses": [{"ip": pod.address} for pod in pods],
                    "ports": [{"name": "webhook", "port": PORT}]}]  # fmt: skip
        thing = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": SERVICE}}
        self.api.apply({**thing, "subsets": subsets})
        time.sleep(8)
        report(f"{self.told('blue')}")
        self.assertFalse(any(map(self.entries, KINDS)))
        load = self.load(rate=20)
        time.sleep(2)
        self.assertFalse(self.check_some(load.end(), "without selector"))


class MixedTest(PortsCase):
    """Several resources, configurations, Services and operators in one namespace."""

    RESOURCES = {"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount",
                 "endpoints": "Endpoints", "events": "Event"}  # fmt: skip
    OTHER, WITH_BOTH = "other-webhook", "both-webhook"

    def setUp(self):
        super().setUp()
        authority = self.certificates.authority
        certificate, key = authority.server("webhook", f"DNS:*.{NAMESPACE}.svc")
        files = {"tls.crt": certificate, "tls.key": key}
        self.certificates.volume.put({name: webhook_pods.text_of(f) for name, f in files.items()})

    def rule(self, *resources, groups=("",)):
        return {"apiGroups": list(groups), "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": list(resources), "scope": "*"}  # fmt: skip

    def put(self, resource, space, name):
        thing = {"apiVersion": "v1", "kind": self.RESOURCES[resource]}
        thing["metadata"] = {"name": name, "namespace": space, "labels": webhook_pods.labels_of(space)}
        if resource == "events":
            thing["involvedObject"] = {"namespace": space}
        self.api.create(thing)

    def asked(self, names, spaces, resources):
        """Who was asked by /validate: (resource, namespace) -> shards, of several objects."""
        names, found = set(names), {}
        for review in self.reviews():
            if review.webhook == "validate" and review.name in names:
                found.setdefault((review.resource, review.namespace), []).append(review.of)
        return {key: found.get(key, []) for key in ((r, s) for r in resources for s in spaces)}

    def create_all(self, spaces, resources, rounds=6):
        names = [f"mixed-{next(harness.Run.counter)}" for _ in range(rounds)]
        for name in names:
            for space in spaces:
                for resource in resources:
                    self.put(resource, space, name)
        return self.asked(names, spaces, resources)

    def validating(self, name, rules, service=SERVICE, path="/validate", webhook="validate"):
        where = {"namespace": NAMESPACE, "name": service, "path": path, "port": 443}
        thing = self.webhook(VALIDATING, rules=rules)
        thing["clientConfig"]["service"] = where
        thing["name"] = f"{webhook}.{name}.example.com"
        return thing

    def only(self, name, *webhooks):
        """One that is labelled; the operator's own go."""
        if self.cluster.fetch(self.path_of(VALIDATING)).status == 200:
            self.opt_out()
            self.wait_widened()
            for kind in KINDS:
                self.api.delete(self.path_of(kind))
        self.configure(VALIDATING, name, list(webhooks), {routing.ROUTE: "true"})

    def wait_entries(self, name):
        harness.wait_for(lambda: name in str(self.entries(VALIDATING)), f"{name} has entries", 40)
        path = self.path_of(VALIDATING, name)
        narrowed = lambda: routing.ANNOTATION in self.cluster.json(path)["metadata"].get("annotations", {})
        harness.wait_for(narrowed, f"{name} is narrowed", 40)
        time.sleep(1)

    def test_five_resources_of_which_two_are_limited(self):
        """Those with a rule of their own are routed; in one rule none is."""
        spaces = list(self.owners)
        two, rest = ["configmaps", "secrets"], ["serviceaccounts", "endpoints", "events"]
        for of, mine in self.names.items():
            limit = mesh.limit(routing.by_name(*mine), ("configmaps", "secrets", "namespaces"))
            spec = {"webhook": {"port": PORT}, "controller": {"leaderElectionName": NAMESPACE}}
            self.apply(mesh.config(of, of, limit, **spec))
        self.only("five", self.validating("five", [self.rule(*two), self.rule(*rest)]))
        self.wait_entries("five")
        report(f"two rules: {self.told('blue')}")
        found = self.create_all(spaces, two + rest)
        self.judge(found, two, rest)
        self.api.delete(self.path_of(VALIDATING, "five"))
        self.only("one", self.validating("one", [self.rule(*two, *rest)]))
        time.sleep(12)
        report(f"one rule: {self.told('blue')}")
        self.assertEqual("SeenByAll", self.told("blue")[0])
        self.assertFalse(self.entries(VALIDATING))
        self.judge(self.create_all(spaces, two + rest), [], two + rest)

    def judge(self, found, routed, others):
        for (resource, space), pods in found.items():
            self.assertEqual(6, len(pods), (resource, space, pods))
            if resource in routed:
                self.assertEqual({self.owners[space]}, set(pods), (resource, space))
        report(f"others: { {k: sorted(set(v)) for k, v in found.items() if k[0] in others} }")

    def test_two_configurations_for_one_service(self):
        self.only("first", self.validating("first", [self.rule("configmaps")]))
        second = self.validating("second", [self.rule("configmaps")])
        self.configure(VALIDATING, "second", [second], {routing.ROUTE: "true"})
        self.wait_entries("first")
        self.wait_entries("second")
        report(f"{self.told('blue')}")
        self.wait_told("blue", "Routed")
        for (_, space), pods in self.create_all(self.owners, ["configmaps"]).items():
            self.assertEqual([self.owners[space]] * 12, pods)

    def second_service(self, name, selector):
        thing = self.service_object()
        thing["metadata"]["name"] = name
        thing["spec"]["selector"] = selector
        self.api.create(thing)

    def test_one_configuration_for_two_services(self):
        """Both of which select the pods; the shards have ports at both."""
        self.second_service(self.OTHER, {"app": NAMESPACE})
        self.only("two", self.validating("two", [self.rule("configmaps")]),
                  self.validating("two", [self.rule("configmaps")], self.OTHER, webhook="again"))  # fmt: skip
        self.wait_entries("two")
        self.wait_told("blue", "Routed")
        for (_, space), pods in self.create_all(self.owners, ["configmaps"]).items():
            self.assertEqual([self.owners[space]] * 12, pods)
        self.api.delete(self.path_of(VALIDATING, "two"))
        paths = [self.service.replace(SERVICE, name) for name in (SERVICE, self.OTHER)]

        def left():
            things = [self.cluster.json(path)["spec"]["ports"] for path in paths]
            return [p["name"] for ports in things for p in ports if p["name"].startswith("wh-")]

        harness.wait_for(lambda: not left(), "our ports go")

    def start_others(self):
        """Another operator, whose shards have Secrets."""
        self.second = {"red": ["team-1", "team-3"], "pink": ["team-2", "team-4"]}
        for of, spaces in self.second.items():
            limit = mesh.limit(routing.by_name(*spaces), ("secrets", "namespaces"))
            spec = {"webhook": {"port": PORT}, "controller": {"leaderElectionName": "other"}}
            self.apply(mesh.config(of, of, limit, **spec))
            self.start([WebhookPod(self, f"{of}-0", of, {"app": "other", "shard": of})])

    def test_two_operators(self):
        self.second_service(self.OTHER, {"app": "other"})
        self.start_others()
        self.only("first", self.validating("first", [self.rule("configmaps")]))
        webhook = self.validating("second", [self.rule("secrets")], self.OTHER)
        self.configure(VALIDATING, "second", [webhook], {routing.ROUTE: "true"})
        self.wait_entries("first")
        self.wait_entries("second")
        for of in ("blue", "green", "red", "pink"):
            self.wait_told(of, "Routed")
        found = self.create_all(self.owners, ["configmaps", "secrets"])
        others = {space: of for of, spaces in self.second.items() for space in spaces}
        for (resource, space), pods in found.items():
            owner = self.owners[space] if resource == "configmaps" else others[space]
            self.assertEqual([owner] * 6, pods, (resource, space))

    def test_one_service_for_two_operators(self):
        """Each limits what the other does not know: nobody can be asked for a shard."""
        self.start_others()
        self.api.merge(self.service, {"spec": {"selector": {"app": None, "part": "hooks"}}})
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        for pod in self.cluster.json(pods)["items"]:
            self.api.label(f"{pods}/{pod['metadata']['name']}", {"part": "hooks"})
        self.only("first", self.validating("first", [self.rule("configmaps")]))
        time.sleep(12)
        for of in ("blue", "red"):
            report(f"{of}: {self.told(of)}")
            self.assertEqual("SeenByAll", self.told(of)[0])
        self.assertFalse(self.entries(VALIDATING))
        for pods in self.create_all(self.owners, ["configmaps"]).values():
            self.assertEqual(6, len(pods))


class HangingTest(MixedTest):
    """Writes of Services wait for a webhook that does not answer."""

    test_five_resources_of_which_two_are_limited = test_two_configurations_for_one_service = None
    test_one_configuration_for_two_services = test_two_operators = None
    test_one_service_for_two_operators = None
    SILENT = "10.199.254.1"

    def hang(self):
        listener = socket.create_server((self.SILENT, 443))
        self.addCleanup(listener.close)
        webhook = self.webhook(MUTATING, failurePolicy="Ignore", timeoutSeconds=30)
        webhook["clientConfig"] = {"url": f"https://{self.SILENT}/", "caBundle": self.certificates.encoded()}
        webhook["rules"] = [self.rule("services")]
        webhook["rules"][0]["operations"] = ["UPDATE"]
        webhook["objectSelector"] = {"matchLabels": {"slow": "true"}}
        self.configure(MUTATING, "slow", [webhook])

    def test_entries_do_not_wait_for_services(self):
        self.wait_all()
        self.hang()
        for i in range(6):
            name = f"slow-{i}"
            thing = self.service_object()
            thing["metadata"].update(name=name, labels={"slow": "true"})
            self.api.create(thing)
            webhook = self.validating(name, [self.rule("configmaps")], name)
            self.configure(VALIDATING, name, [webhook], {routing.ROUTE: "true"})
        time.sleep(2)
        load = self.load(rate=20)
        for again in range(2):
            self.names["blue"], self.names["green"] = self.names["green"], self.names["blue"]
            self.owners = {space: of for of, spaces in self.names.items() for space in spaces}
            began = time.time()
            for of, spaces in self.names.items():
                self.hand_shard(of, routing.by_name(*spaces))
            harness.wait_for(lambda: self.by_name() == self.names, "the entries follow", 20, 0.05)
            report(f"moved after {time.time() - began:.2f} s")
            self.assertLess(time.time() - began, 10)
            if again == 0:
                self.lead.stop()
                report(f"the manager ended after {time.time() - began:.2f} s")
                self.lead = self.manager()
                time.sleep(3)
        written = load.end()
        self.assertEqual({201}, {w.status for w in written})
        report(self.told("blue"))
        harness.wait_for(lambda: "slow-5" in str(self.entries(VALIDATING)), "slow ones come", 200)
        report(f"all Services after {time.time() - began:.0f} s")

    def by_name(self):
        """Which shard has which namespaces, by the entries of the operator's own webhook."""
        numbers = {p["port"]: n for n, p in self.ports().items()}
        found = {}
        for entry in self.entries(MUTATING):
            for of in self.names:
                if numbers.get(entry["clientConfig"]["service"]["port"]) == port_name(of):
                    last = entry["namespaceSelector"]["matchExpressions"][-1]
                    found[of] = sorted(last["values"])
        return found


if __name__ == "__main__":
    harness.main()
