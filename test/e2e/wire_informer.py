# SPDX-License-Identifier: Apache-2.0
"""An informer over a plain socket that knows, for each event, whether its first byte had left
localproxy at a given moment. Real clients decode in their own time, so what they print can only be
judged with some slack; this one can be judged to the byte.
"""

import array
import bisect
import fcntl
import select
import socket
import termios
import threading
import time

import objects
import resources
import wire
from real_clients import Event


# A large window, so that little waits on localproxy's side of a connection.
RECEIVE_BUFFER = 4 * 1024 * 1024

SLOW_BUFFER = 8 * 1024

WEBSOCKET = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)

# Beyond so many bytes that were not read the window may be full.
MANY = 32 * 1024


def queued(sock):
    """Bytes that the peer, on this machine, has given to its kernel but that are not acknowledged."""
    host, port = sock.getsockname()
    _, peer_port = sock.getpeername()
    address = socket.inet_aton(host)[::-1].hex().upper()
    wanted = [f"{address}:{peer_port:04X}", f"{address}:{port:04X}"]
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in f:
            fields = line.split()
            if fields[1:3] == wanted:
                return int(fields[4].partition(":")[0], 16)
    return 0


class Body:
    """Takes the bytes of a chunked response in any pieces and gives events, each with the place of
    its first byte among all bytes of the connection."""

    def __init__(self, protobuf, start):
        self.decode = objects.protobuf_events if protobuf else objects.json_events
        self.raw = b""
        self.raw_at = start  # place of raw[0]
        self.left = 0  # bytes of the chunk at hand, its end-of-line included
        self.payload = b""
        self.pieces = []  # place in the payload -> place in the connection
        self.payload_at = 0  # place of payload[0]
        self.ended = False

    def feed(self, data):
        """[(event, place)]"""
        self.raw += data
        while self.step():
            pass
        return self.events()

    def step(self):
        if self.ended:
            return False
        if self.left == 0:
            line, found, _ = self.raw.partition(b"\r\n")
            if not found:
                return False
            size = int(line.split(b";")[0], 16)
            self.skip(len(line) + 2)
            if size == 0:
                self.ended = True
                return False
            self.left = size + 2
        taken = min(self.left, len(self.raw))
        if part := self.raw[:taken][: max(self.left - 2, 0)]:
            self.pieces.append((self.payload_at + len(self.payload), self.raw_at))
            self.payload += part
        self.left -= taken
        self.skip(taken)
        return taken > 0

    def skip(self, count):
        self.raw = self.raw[count:]
        self.raw_at += count

    def events(self):
        found = []
        while True:
            size = self.first_size()
            if size is None:
                return found
            try:
                events, _ = self.decode(self.payload[:size])
            except (ValueError, IndexError, KeyError):
                near = self.payload.find(b'{"type"', 1, size)
                around = self.payload[max(near - 100, 0) : near + 200] if near > 0 else b""
                raise ValueError(f"no event: {self.payload[:200]} ... {around}") from None
            found += [(event, self.place()) for event in events]
            self.payload = self.payload[size:]
            self.payload_at += size
            at = bisect.bisect_right(self.pieces, (self.payload_at, 1 << 62)) - 1
            self.pieces = self.pieces[max(at, 0) :]

    def first_size(self):
        """Bytes of the first event, if it is all there."""
        if self.decode is objects.json_events:
            end = self.payload.find(b"\n")
            return end + 1 if end >= 0 else None
        if len(self.payload) < 4:
            return None
        size = 4 + int.from_bytes(self.payload[:4], "big")
        return size if len(self.payload) >= size else None

    def place(self):
        begin, raw = self.pieces[0]
        return raw + self.payload_at - begin


class WireInformer:
    """Stands beside the clients of real_clients: the same events, `dump` and `close`. FORM of its
    watch is json, protobuf, or partial (PartialObjectMetadata in JSON); or a client that cannot be
    had here, of which it does what that one does otherwise:

    - fabric8 (Java): asks for each watch over WebSocket first, and by plain HTTP when that is
      answered with a stream.
    - kube-rs (Rust): lists again upon an ERROR event only; a watch that is refused, with 410 too,
      is asked for again from the same version.

    Its add and update events have `since` among their fields: how many calls of `mark` had
    returned before the event's first byte was sent. Not if it is not `exact`, as through a relay
    that holds bytes of its own.
    """

    # pylint: disable-next=too-many-arguments
    def __init__(self, name, address, watch, slow=False, exact=True):
        self.name = name
        self.exact = exact
        self.buffer = SLOW_BUFFER if slow else RECEIVE_BUFFER
        self.slow = slow  # may be changed later
        self.address = address
        self.watches = [watch]
        self.watch = watch
        self.form = watch.partition(":")[0]
        self.resource, self.namespace = resources.of_watch(watch)
        self.path = resources.path(self.resource, self.namespace)
        self.events = []
        self.cache = {}
        self.version = None  # to go on from
        self.lock = threading.Lock()
        self.sock = None
        self.received = 0
        self.marks = []  # places in the connection at hand
        self.marked = 0
        self.marks_before = 0  # calls of `mark` before this connection
        self.stopping = False
        self.failure = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    # ---- for the checker ----

    def mark(self):
        """From here on, what localproxy sends comes after this moment."""
        with self.lock:
            self.marked += 1
            if self.sock is not None:
                waiting = array.array("i", [0])
                fcntl.ioctl(self.sock, termios.FIONREAD, waiting)
                # What waits in localproxy's kernel had left localproxy too. Some of it may be
                # counted twice, so this errs on the mild side.
                full = waiting[0] > min(MANY, self.buffer // 8)
                behind = queued(self.sock) if full else 0
                self.marks.append(self.received + waiting[0] + behind)

    def synced(self):
        self.check_alive()
        return any(event.kind == "watch" for event in self.events)

    def check_alive(self):
        if self.failure is not None:
            raise AssertionError(f"{self.name} on {self.watch} failed") from self.failure

    def dump(self, **_):
        self.check_alive()
        with self.lock:
            return {self.watch: {key: item.resource_version for key, item in self.cache.items()}}

    def of(self, watch, *kinds):
        return [e for e in list(self.events) if e.watch == watch and e.kind in kinds]

    def close(self):
        self.stopping = True
        self.hang_up()
        self.thread.join(10)

    def hang_up(self):
        """The connection of the watch is lost, as far as the server can tell."""
        with self.lock:
            if self.sock is not None:
                try:
                    self.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    # ---- its own thread ----

    def say(self, kind, **fields):
        self.events.append(Event(kind, self.watch, time.time_ns(), fields))

    def run(self):
        while not self.stopping:
            try:
                if self.version is None:
                    self.version = self.list()
                self.follow()
            except (OSError, wire.Cut) as e:
                self.say("error", message=repr(e))
                time.sleep(0.1)
            # pylint: disable-next=broad-except
            except Exception as e:  # not to be lost in a thread: an answer that cannot be read
                self.failure = e
                return

    def accept(self, kind, stream=""):
        partial = f";as=PartialObjectMetadata{kind};g=meta.k8s.io;v=v1"
        accept = {
            "json": "application/json",
            "protobuf": objects.PROTOBUF,
            "partial": "application/json" + partial,
        }
        return [("Accept", accept.get(self.form, "application/json") + stream)]

    def list(self):
        began, since = time.time_ns(), self.marked
        answer = wire.fetch(self.address, self.path, headers=self.accept("List"))
        if answer.status != 200 or not answer.complete:
            raise OSError(f"list: {answer}")
        items = objects.read_list(answer)
        version = objects.list_version(answer)
        self.say("list", rv=version, items=len(items), began=began)
        found = {self.key(item): item for item in items}
        for key in self.cache.keys() - found.keys():
            self.forget(self.cache[key])
        for item in found.values():
            self.keep(item, since)
        return version

    def follow(self):
        """Reads one watch. After it, `version` is where to go on from, None for a new list."""
        query = "?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600"
        query += f"&resourceVersion={self.version}"
        if self.form == "fabric8":
            self.try_websocket(self.path + query)
        with wire.Connection(self.address, receive_buffer=self.buffer) as connection:
            with self.lock:
                self.sock = connection.sock
                self.received = 0
                self.marks, self.marks_before = [], self.marked
            try:
                self.say("watch", rv=self.version)
                connection.send_head("GET", self.path + query, self.accept("", ";stream=watch"))
                self.read()
            finally:
                with self.lock:
                    self.sock = None

    def try_websocket(self, target):
        """Over which nothing could be written when rules change: it must not be switched to."""
        with wire.Connection(self.address) as connection:
            connection.send_head("GET", target, WEBSOCKET)
            status = connection.read_head().status
        if status == 101:
            raise AssertionError(f"{target} was switched to WebSocket")

    def read(self):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.receive()
        head, _, data = data.partition(b"\r\n\r\n")
        status = wire.Head(head.decode().split("\r\n")).status
        if status != 200:
            self.say("error", code=status)
            if status == 410 and self.form != "kube-rs":
                self.version = None
            else:
                time.sleep(0.1)
            return
        body = Body(self.form == "protobuf", len(head) + 4)
        while True:
            for event, place in body.feed(data):
                if event.type == "ERROR":
                    self.say("expired")
                    self.version = None
                    return
                self.version = event.item.resource_version
                self.take(event, place)
            if body.ended:
                self.say("ended")
                return
            data = self.receive()

    def receive(self):
        """Bytes of the watch's connection, under the lock that `mark` takes too."""
        if self.slow:
            time.sleep(0.01)
        select.select([self.sock], [], [])
        with self.lock:
            data = self.sock.recv(min(self.buffer, 65536))
            self.received += len(data)
        if not data:
            raise wire.Cut("the connection of a watch was cut")
        return data

    def take(self, event, place):
        if event.type == "BOOKMARK":
            self.say("bookmark", rv=event.item.resource_version)
        elif event.type == "DELETED":
            self.forget(event.item)
        else:
            with self.lock:
                since = self.marks_before + bisect.bisect_right(self.marks, place)
            self.keep(event.item, since, watch_event=event.type)

    @staticmethod
    def key(item):
        return f"{item.namespace}/{item.name}" if item.namespace else item.name

    def keep(self, item, since, **more):
        key = self.key(item)
        with self.lock:
            before = self.cache.get(key)
            self.cache[key] = item
        fields = {"key": key, "rv": item.resource_version, "labels": item.labels, **more}
        if self.exact:
            fields["since"] = since
        if before is None:
            self.say("add", **fields)
        else:
            self.say("update", old=before.resource_version, **fields)

    def forget(self, item):
        key = self.key(item)
        with self.lock:
            before = self.cache.pop(key, None)
        fields = {"key": key, "rv": item.resource_version, "labels": item.labels}
        self.say("delete", unknown=before is None, **fields)
