# SPDX-License-Identifier: Apache-2.0
"""A test case in front of a scripted API server that the test itself plays, request by request, and
the bytes that both sides are made of.
"""

import json
import queue
import struct
import threading
import urllib.parse

import harness
import objects

JSON = "application/json"
SHARD = "cmesh-e2e/shard-a"


# ---- selectors ----


def within(*namespaces):
    """The selector of a shard that owns these namespaces."""
    return f"{harness.NAMESPACE_LABEL} in ({','.join(sorted(namespaces))})"


def injected(selector):
    """As it stands in a query."""
    return "labelSelector=" + urllib.parse.quote(selector, safe="")


# ---- objects in JSON, as the API server writes them ----


def meta(name, version, namespace="a", **more):
    return {"name": name, "namespace": namespace, "resourceVersion": str(version), **more}


def compact(thing):
    return json.dumps(thing, separators=(",", ":")).encode()


def json_event(event, metadata, kind="Pod", api_version="v1"):
    thing = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
    return compact({"type": event, "object": thing}) + b"\n"


def json_bookmark(version, **more):
    return json_event("BOOKMARK", {"resourceVersion": str(version), "creationTimestamp": None}, **more)


def json_list(metadatas, version, token=None, kind="Pod"):
    """Items do not say what they are: the list does."""
    head = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    items = [{"metadata": metadata} for metadata in metadatas]
    thing = {"kind": kind + "List", "apiVersion": "v1", "metadata": head, "items": items}
    return compact(thing) + b"\n"


def custom_list(metadatas, version, token=None, padding=0):
    """Of custom resources: keys are sorted, and items say what they are."""
    items = [
        {"apiVersion": "e.example/v1", "kind": "Gear", "metadata": metadata}
        for metadata in metadatas
    ]
    if padding:
        items.append({"apiVersion": "e.example/v1", "kind": "Gear", "spec": "x" * padding})
    head = {"continue": token or "", "resourceVersion": str(version)}
    thing = {"apiVersion": "e.example/v1", "items": items, "kind": "GearList", "metadata": head}
    return compact(thing) + b"\n"


def expired_text(generation):
    return f"cmesh: the rules of shard {SHARD} changed to generation {generation}: list again"


def json_expired(generation):
    """The event that makes a client list again."""
    return (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},'
        b'"status":"Failure","message":"%s","reason":"Expired","code":410}}\n'
        % expired_text(generation).encode()
    )


# ---- the same in protobuf ----


def varint(value):
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(kind, raw, api_version="v1"):
    unknown = field(1, field(1, api_version) + field(2, kind)) + field(2, raw)
    return b"k8s\0" + unknown + field(3, "") + field(4, "")


def protobuf_item(metadata):
    """An object of which only the ObjectMeta matters."""
    data = field(1, metadata["name"]) + field(2, "") + field(3, metadata["namespace"])
    data += field(4, "") + field(5, metadata.get("uid", ""))
    data += field(6, metadata["resourceVersion"]) + field(7, 0)
    for key, value in metadata.get("labels", {}).items():
        data += field(11, field(1, key) + field(2, value))
    return field(1, data)


def protobuf_frame(kind, thing):
    data = field(1, kind) + field(2, field(1, thing))
    return struct.pack(">I", len(data)) + data


def protobuf_event(kind, metadata):
    return protobuf_frame(kind, envelope("Pod", protobuf_item(metadata)))


def protobuf_bookmark(version):
    """Nothing but a version."""
    pod = field(1, field(6, str(version)))
    return protobuf_frame("BOOKMARK", envelope("Pod", pod))


def protobuf_list(metadatas, version, token=None):
    head = field(1, "") + field(2, str(version)) + field(3, token or "")
    items = b"".join(field(2, protobuf_item(metadata)) for metadata in metadatas)
    return envelope("PodList", field(1, head) + items)


def protobuf_expired(generation):
    status = field(1, b"") + field(2, "Failure") + field(3, expired_text(generation))
    status += field(4, "Expired") + field(6, 410)
    return protobuf_frame("ERROR", envelope("Status", status))


class Encoding:
    """One of the two encodings of a watch."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, name, of_list, of_watch, *, event, bookmark, items, expired):
        self.name = name
        self.of_list = of_list  # Content-Type of a list
        self.of_watch = of_watch
        self.event = event
        self.bookmark = bookmark
        self.list = items
        self.expired = expired

    def __repr__(self):
        return self.name


AS_JSON = Encoding(
    "JSON",
    JSON,
    JSON,
    event=json_event,
    bookmark=json_bookmark,
    items=json_list,
    expired=json_expired,
)
AS_PROTOBUF = Encoding(
    "protobuf",
    objects.PROTOBUF,
    objects.PROTOBUF_WATCH,
    event=protobuf_event,
    bookmark=protobuf_bookmark,
    items=protobuf_list,
    expired=protobuf_expired,
)
ENCODINGS = (AS_JSON, AS_PROTOBUF)


# ---- the API server, played by the test ----


class Asked:
    """A request that reached the API server."""

    def __init__(self, peer, request, kept):
        self.peer = peer
        self.kept = kept  # the connection served another request before
        self.request = request
        self.target = request.target
        self.method = request.method

    def __repr__(self):
        return repr(self.request)

    def respond(self, body=b"{}\n", status=200, **more):
        self.peer.respond(status, body, **more)

    def begin(self, content_type=JSON, headers=()):
        """The head of an answer in chunks."""
        self.peer.begin_watch(content_type, headers)

    def send(self, *parts):
        for part in parts:
            self.peer.send_chunk(part)

    def send_beside(self, data):
        """More than there is room for on the way: returns at once, and the test reads it."""

        def send():
            try:
                self.send(data)
            except OSError:  # localproxy did not want all of it
                pass

        threading.Thread(target=send, daemon=True).start()

    def end(self):
        self.peer.end_chunks()

    def open(self, encoding, *events):
        """Answers a watch."""
        self.begin(encoding.of_watch)
        self.send(*events)

    def try_respond(self, *args, **more):
        """Of an answer that localproxy does not read to its end."""
        try:
            self.respond(*args, **more)
        except OSError:
            pass

    def break_off(self):
        """Resets the connection, or the stream."""
        self.peer.break_off()

    def closed(self, timeout=60):
        """Whether localproxy has closed the connection, or the stream; waits for it."""
        return self.peer.gone.wait(timeout)



class ScriptedCase(harness.TestCase):
    """`asked` gives what reaches the API server, in order; the test answers it."""

    mode = None
    pods = "/api/v1/pods"

    def setUp(self):
        super().setUp()
        self.arrived = queue.Queue()
        self.generation = 1
        self.proxy_process = None
        self.server = None

    def serve(self, peer):
        peer.gone = threading.Event()
        kept = False
        try:
            while (request := peer.read_request()) is not None:
                self.arrived.put(Asked(peer, request, kept))
                kept = True
        finally:
            peer.gone.set()

    def limits(self, *namespaces):
        return [harness.limit(["pods", "gears"], within(*namespaces))]

    def start(self, limits, *args, tls=False, streams=None, **more):
        """A localproxy with a control socket in front of the scripted server. `tls`: with HTTP/1.1
        too. `streams`: that it takes at a time, of a connection with HTTP/2."""
        build = self.tls_upstream if tls or self.speaks_h2() else self.plain_upstream
        bounds = {} if streams is None else {"streams": streams}
        self.server, kubeconfig = build(self.serve, **bounds)
        if self.mode is not None:
            args = (f"--reload-mode={self.mode}", *args)
        self.proxy_process = self.scripted_proxy(limits, kubeconfig, args, control=True, **more)
        return self.proxy_process

    def start_with(self, *namespaces, args=(), **more):
        return self.start(self.limits(*namespaces), *args, **more)

    def document(self, limits, generation):
        return harness.rules_document(*limits, generation=generation)

    def reload(self, limits):
        """Returns when localproxy has confirmed it."""
        self.generation += 1
        return self.proxy_process.reload(self.document(limits, self.generation))

    def reload_to(self, *namespaces):
        return self.reload(self.limits(*namespaces))

    # ---- both sides ----

    def asked(self, target=None, method=None, timeout=60):
        """The next request that reaches the API server."""
        try:
            asked = self.arrived.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"nothing was asked: {self.proxy_process.log()}") from None
        if target is not None:
            self.assertEqual(target, asked.target)
        if method is not None:
            self.assertEqual(method, asked.method)
        return asked

    def assert_ends(self):
        """After SIGTERM, and not because the period of grace is over."""
        self.assertEqual(0, self.proxy_process.wait())
        self.assertNotIn("the grace period is over", self.proxy_process.log())

    def assert_nothing_asked(self):
        self.assertTrue(self.arrived.empty(), list(self.arrived.queue))

    def open(self, target, headers=(), method="GET", **more):
        """Sends a request without a body and leaves the answer to be read."""
        connection = self.proxy_process.connect(**more)
        self.addCleanup(connection.close)
        connection.send_head(method, target, headers)
        return connection

    def open_watch(self, encoding, *events, target=None, headers=(), **more):
        """A watch that is open on both sides and has delivered `events`."""
        headers = headers or [("Accept", encoding.of_watch)]
        connection = self.open(target or f"{self.pods}?watch=true", headers, **more)
        asked = self.asked()
        asked.open(encoding, *events)
        self.assertEqual(200, connection.read_head().status)
        self.expect(connection, b"".join(events))
        return connection, asked

    def expect(self, connection, data):
        """Exactly these bytes come next."""
        got = bytearray()
        while len(got) < len(data):
            some = connection.read_some()
            got += some
            self.assertTrue(some, f"ended after {got[-300:]!r}")
        self.assertEqual(data, bytes(got))

    def expect_end(self, connection, data=b""):
        """Exactly these bytes, and a proper end."""
        self.assertEqual((data, True), connection.read_body())

    def expect_broken_off(self, connection, data=b""):
        self.assertEqual((data, False), connection.read_body())

    # ---- what localproxy says of itself ----

    def metric(self, name):
        return self.proxy_process.metrics()["cmesh_proxy_" + name]

    def wait_metric(self, name, value):
        harness.wait_for(lambda: self.metric(name) == value, f"{name} is {value}")

    def send_unseen(self, asked, *parts):
        """Sends what must not reach the client, and waits until localproxy has it."""
        before = self.metric("response_bytes_total")
        asked.send(*parts)
        size = sum(len(part) for part in parts)
        self.wait_metric("response_bytes_total", before + size)

    def assert_idle(self):
        """Nothing is left of all that was."""
        self.wait_metric("open_watches", 0)
        self.wait_metric("requests_in_flight", 0)

    def assert_expired(self, answer):
        """A watch is told to list again, as kube-apiserver does it."""
        self.assertEqual((200, "application/json"), (answer.status, answer.get("Content-Type")))
        event = json.loads(answer.body)
        self.assertEqual(("ERROR", 410), (event["type"], event["object"]["code"]), event)
        self.assertIn("cmesh", event["object"]["message"])

    def assert_page_expired(self, answer):
        return self.assert_status_error(answer, 410, "Expired")
