#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Lists and watches with the Python client and keeps a cache, as its users write it; prints what
happens, a JSON object a line.

    informer.py SERVER FORM:RESOURCE[@NAMESPACE]...

SERVER is an URL, or "in-cluster": what the service account of a pod says.
FORM says how the library's Watch.stream is called: "endless" without a time limit, where it
resumes by itself; "limited" with one, where it does not, and the loop here goes on from where it
was; "brief" with one of a second. RESOURCE is RESOURCE (of the core group)
or GROUP/VERSION/RESOURCE. "dump" on standard input prints the caches; "quit", or its end, ends the
program.
"""
import json
import os
import sys
import threading
import time

import urllib3
from kubernetes import client, config, watch

PRINTING = threading.Lock()
TIMES = {"endless": {}, "limited": {"timeout_seconds": 3600}, "brief": {"timeout_seconds": 1}}
CORE = {
    "configmaps": ("list_config_map_for_all_namespaces", "list_namespaced_config_map"),
    "secrets": ("list_secret_for_all_namespaces", "list_namespaced_secret"),
    "pods": ("list_pod_for_all_namespaces", "list_namespaced_pod"),
}


def say(kind, **fields):
    line = json.dumps({"kind": kind, "t": time.time_ns(), **fields})
    with PRINTING:
        print(line, flush=True)


class Meta:
    """What is kept of an object, be it of a model's class or, for custom resources, a dict."""

    def __init__(self, thing):
        if isinstance(thing, dict):
            meta = thing["metadata"]
            self.name, self.namespace = meta["name"], meta.get("namespace")
            self.version, self.labels = meta["resourceVersion"], meta.get("labels")
        else:
            meta = thing.metadata
            self.name, self.namespace = meta.name, meta.namespace
            self.version, self.labels = meta.resource_version, meta.labels
        self.key = f"{self.namespace}/{self.name}" if self.namespace else self.name


class Informer:
    def __init__(self, api_client, text):
        self.text = text
        self.form, _, place = text.partition(":")
        resource, _, namespace = place.partition("@")
        parts = resource.split("/")
        if len(parts) == 1:
            everywhere, inside = CORE[resource]
            api = client.CoreV1Api(api_client)
            self.function = getattr(api, inside if namespace else everywhere)
            self.arguments = [namespace] if namespace else []
        else:
            api = client.CustomObjectsApi(api_client)
            group, version, plural = parts
            self.function = api.list_cluster_custom_object
            self.arguments = [group, version, plural]
            if namespace:
                self.function = api.list_namespaced_custom_object
                self.arguments = [group, version, namespace, plural]
        self.cache = {}
        self.lock = threading.Lock()
        self.synced = False

    def run(self):
        while True:
            try:
                self.follow(self.list())
            except client.ApiException as e:
                # 410 is an order to list again; after others, wait a little.
                say("error", watch=self.text, code=e.status, message=str(e.reason))
                if e.status != 410:
                    time.sleep(0.2)
            except (urllib3.exceptions.HTTPError, OSError) as e:
                say("error", watch=self.text, message=repr(e))
                time.sleep(0.2)

    def list(self):
        answer = self.function(*self.arguments)
        if isinstance(answer, dict):
            items, version = answer["items"], answer["metadata"]["resourceVersion"]
        else:
            items, version = answer.items, answer.metadata.resource_version
        say("list", watch=self.text, rv=version, items=len(items))
        found = {meta.key: meta for meta in map(Meta, items)}
        for key, meta in list(self.cache.items()):
            if key not in found:
                self.forget(meta)
        for meta in found.values():
            self.keep(meta)
        if not self.synced:
            self.synced = True
            say("sync", watch=self.text)
        return version

    def follow(self, version):
        """Watches, one watch after the other, until a new list is needed."""
        stream = watch.Watch()
        while True:
            say("watch", watch=self.text, rv=version)
            try:
                self.read(stream, version)
            except (urllib3.exceptions.HTTPError, OSError) as e:
                if self.form == "endless":
                    raise
                say("error", watch=self.text, message=repr(e))
                time.sleep(0.1)
            version = stream.resource_version

    def read(self, stream, version):
        arguments = [self.function, *self.arguments]
        for event in stream.stream(*arguments, resource_version=version, **TIMES[self.form]):
            if event["type"] == "DELETED":
                self.forget(Meta(event["object"]))
            elif event["type"] in ("ADDED", "MODIFIED"):
                self.keep(Meta(event["object"]))

    def keep(self, meta):
        with self.lock:
            before = self.cache.get(meta.key)
            self.cache[meta.key] = meta
        if before is None:
            self.shown("add", meta)
        else:
            self.shown("update", meta, old=before.version)

    def forget(self, meta):
        with self.lock:
            before = self.cache.pop(meta.key, None)
        self.shown("delete", meta, unknown=before is None)

    def shown(self, kind, meta, **more):
        say(kind, watch=self.text, key=meta.key, rv=meta.version, labels=meta.labels, **more)

    def dump(self):
        with self.lock:
            return {key: meta.version for key, meta in self.cache.items()}


def main():
    configuration = client.Configuration()
    if sys.argv[1] == "in-cluster":
        config.load_incluster_config(configuration)
    else:
        configuration.host = sys.argv[1]
    configuration.connection_pool_maxsize = 2 * len(sys.argv)
    api_client = client.ApiClient(configuration)
    informers = [Informer(api_client, text) for text in sys.argv[2:]]
    for informer in informers:
        threading.Thread(target=informer.run, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "dump":
            say("dump", stores={informer.text: informer.dump() for informer in informers})
        elif line.strip() == "quit":
            break
    os._exit(0)  # the threads wait for the server


main()
