# SPDX-License-Identifier: Apache-2.0
"""The resources of the tests with informers: where they are, what their objects look like, and
writers that change them all the time.
"""

import collections
import json
import os
import random
import threading
import time

import harness
import objects
import wire

# Runs beside one another may share a control plane.
GROUP = f"run{os.getpid()}.cmesh.example"

Resource = collections.namedtuple("Resource", "group version plural")

CONFIG_MAPS = Resource("", "v1", "configmaps")
SECRETS = Resource("", "v1", "secrets")
PODS = Resource("", "v1", "pods")
GEARS = Resource(GROUP, "v1", "gears")
ALL = (CONFIG_MAPS, SECRETS, PODS, GEARS)

GEARS_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"gears.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "gears", "singular": "gear", "kind": "Gear"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def path(resource, namespace="", name=""):
    start = f"/apis/{resource.group}" if resource.group else "/api"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{start}/{resource.version}{inside}/{resource.plural}" + (f"/{name}" if name else "")


def of_watch(watch):
    """The resource and the namespace of a watch as real_clients names it."""
    place, _, namespace = watch.rpartition(":")[2].partition("@")
    parts = place.split("/")
    return Resource(*parts) if len(parts) == 3 else Resource("", "v1", parts[0]), namespace


def name_of(resource):
    """As real_clients names it."""
    return "/".join(resource) if resource.group else resource.plural


def install(control_plane, cleanup):
    """Makes the custom resource known, until the cleanup."""
    collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    control_plane.json(collection, "POST", GEARS_DEFINITION)

    def remove():
        control_plane.fetch(f"{collection}/gears.{GROUP}", "DELETE")
        harness.wait_for(
            lambda: control_plane.fetch(f"{collection}/gears.{GROUP}").status == 404,
            "the custom resource is gone",
            timeout=60,
        )

    cleanup(remove)
    harness.wait_for(
        lambda: control_plane.fetch(path(GEARS)).status == 200, "the custom resource is served"
    )


def body(resource, name, labels):
    thing = {"metadata": {"name": name, "labels": labels}}
    if resource == PODS:
        thing["spec"] = {"containers": [{"name": "c", "image": "i"}]}
    elif resource == GEARS:
        thing.update(apiVersion=f"{GROUP}/v1", kind="Gear")
    return thing


class Fixture:
    """Namespaces of a test's own, and writers on them. What they do follows from the seed; when,
    from the machine."""

    APPS = ("foo", "bar", None)

    # pylint: disable-next=too-many-arguments
    def __init__(self, control_plane, cleanup, seed, namespaces=8, resources=ALL):
        self.control_plane = control_plane
        self.seed = seed
        self.resources = resources
        self.prefix = f"fixture-{os.getpid()}-{next(harness.Run.counter)}"
        self.namespaces = [
            harness.make_namespace(control_plane, f"fixture-{i}", cleanup)
            for i in range(namespaces)
        ]
        self.stopping = threading.Event()
        self.threads = []
        self.writers = {}  # number -> its random choices, its objects
        self.writes = 0
        self.failures = []
        cleanup(self.stop)

    def labels(self, pick, namespace):
        """As the manager would set them, now and then wrong or missing."""
        labels = {}
        if (app := pick.choice(self.APPS)) is not None:
            labels["app"] = app
        if (dice := pick.random()) < 0.95:
            wrong = dice > 0.9
            labels[harness.NAMESPACE_LABEL] = pick.choice(self.namespaces) if wrong else namespace
        labels[harness.HASH_LABEL] = str(pick.randrange(32))
        return labels

    def connect(self):
        return wire.Connection(self.control_plane.address, tls=self.control_plane.tls)

    @staticmethod
    def write(connection, method, target, thing=None):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = b"" if thing is None else json.dumps(thing).encode()
        answer = connection.request(method, target, [("Content-Type", kind)], data)
        if answer.status >= 300:
            raise AssertionError(f"{method} {target}: {answer}")

    def fill(self, count):
        """So many objects of each resource, that no writer touches again."""
        pick = random.Random(f"{self.seed} fill")
        with self.connect() as connection:
            for resource in self.resources:
                for i in range(count):
                    namespace = pick.choice(self.namespaces)
                    thing = body(resource, f"still-{i}", self.labels(pick, namespace))
                    self.write(connection, "POST", path(resource, namespace), thing)

    def fill_heavily(self, count, weight):
        """ConfigMaps with `weight` bytes of data each."""
        pick = random.Random(f"{self.seed} fill heavily")
        with self.connect() as connection:
            for i in range(count):
                namespace = pick.choice(self.namespaces)
                thing = body(CONFIG_MAPS, f"heavy-{i}", self.labels(pick, namespace))
                thing["data"] = {"weight": pick.randbytes(weight // 2).hex()}
                self.write(connection, "POST", path(CONFIG_MAPS, namespace), thing)

    def start(self, writers=2, pause=0.01):
        """Begins to write, or goes on; each writer has objects of its own."""
        self.stopping.clear()
        for number in range(writers):
            new = (random.Random(f"{self.seed} writer {number}"), [])
            pick, alive = self.writers.setdefault(number, new)
            thread = threading.Thread(target=self.run, args=(pick, alive, pause), daemon=True)
            thread.start()
            self.threads.append(thread)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(30)
        self.threads = []
        if self.failures:
            raise AssertionError(f"a writer failed: {self.failures}")

    def run(self, pick, alive, pause):
        try:
            with self.connect() as connection:
                while not self.stopping.is_set():
                    self.step(connection, pick, alive)
                    self.writes += 1
                    time.sleep(pause * 2 * pick.random())
        except (AssertionError, OSError, wire.Cut) as e:
            self.failures.append(repr(e))

    def step(self, connection, pick, alive):
        dice = pick.random()
        if len(alive) < 60 or (dice < 0.15 and len(alive) < 150):
            resource, namespace = pick.choice(self.resources), pick.choice(self.namespaces)
            name = f"churn-{pick.getrandbits(48):012x}"
            thing = body(resource, name, self.labels(pick, namespace))
            self.write(connection, "POST", path(resource, namespace), thing)
            alive.append((resource, namespace, name))
            return
        at = pick.randrange(len(alive))
        resource, namespace, _ = alive[at]
        if dice < 0.6:
            labels = {label: None for label in ("app", harness.NAMESPACE_LABEL)}
            labels.update(self.labels(pick, namespace))
            self.write(connection, "PATCH", path(*alive[at]), {"metadata": {"labels": labels}})
        elif dice < 0.85:
            patch = {"metadata": {"annotations": {"touched": str(pick.random())}}}
            self.write(connection, "PATCH", path(*alive[at]), patch)
        else:
            gone = alive.pop(at)
            grace = "?gracePeriodSeconds=0" if resource == PODS else ""
            self.write(connection, "DELETE", path(*gone) + grace)


def listed(control_plane, resource, namespace=""):
    """All that there is, without localproxy."""
    return objects.json_list(control_plane.fetch(path(resource, namespace)).body)
