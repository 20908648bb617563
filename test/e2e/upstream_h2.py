# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 for a scripted API server: what is said on each stream is scripted as if it were a
connection with one request."""

import os
import sys
import threading

from wire import Cut

# Debian's python3-h2, which is of no version of Python in particular.
sys.path.append(os.path.join("/usr/lib/python3", "dist-packages"))

# pylint: disable=wrong-import-position
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import hyperframe.frame

HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "upgrade")
STREAMS = 250  # of kube-apiserver's, before 1.28; 100 since
HEAD = 1 << 22  # bytes of a request\'s head that a server says it takes


class Request:
    """A request as it came: with Host in place of :authority, as HTTP/1.1 has it."""

    version = "HTTP/2"

    def __init__(self, fields):
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
        pseudo = {name: value for name, value in fields if name.startswith(":")}
        self.method, self.target = pseudo[":method"], pseudo[":path"]
        self.headers = [(name, value) for name, value in fields if not name.startswith(":")]
        if ":authority" in pseudo:
            self.headers.insert(0, ("host", pseudo[":authority"]))
        self.body = b""

    def get(self, name, default=None):
        for key, value in self.headers:
            if key == name.lower():
                return value
        return default

    def __repr__(self):
        return f"<{self.method} {self.target}>"


class StreamPeer:
    """One stream, as upstream.Peer is one connection. All that waits does so for `link.changed`."""

    # pylint: disable=too-many-instance-attributes
    def __init__(self, link, stream, request):
        self.link = link
        self.sock = link.sock
        self.number = link.next_number()
        self.stream = stream
        self.request = request
        self.handed_over = False
        self.input = bytearray()
        self.input_ended = False
        self.left = 0  # of the answer's Content-Length; None: it has none
        self.ended = False  # the answer
        self.lost = False  # reset by the peer, or with its connection

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def wait_for(self, true):
        """With the lock. False: it takes too long."""
        if not self.link.changed.wait_for(true, self.link.timeout):
            raise TimeoutError("nothing happens on a stream")

    # ---- the request ----

    def read_request_head(self):
        """Once; then None, when the stream is over."""
        if not self.handed_over:
            self.handed_over = True
            return self.request
        with self.link.lock:
            self.wait_for(lambda: self.lost or (self.ended and self.input_ended))
        return None

    def read_some(self):
        with self.link.lock:
            self.wait_for(lambda: self.input or self.input_ended or self.lost)
            data, self.input = bytes(self.input), bytearray()
            if data and not self.lost:
                self.link.conn.acknowledge_received_data(len(data), self.stream)
                self.link.flush()
            if not data and not self.input_ended:
                raise Cut("reset in the middle of a body")
            return data

    def read_body(self):
        parts = []
        try:
            while data := self.read_some():
                parts.append(data)
        except Cut:
            return b"".join(parts), False
        return b"".join(parts), True

    def read_request(self):
        request = self.read_request_head()
        if request is not None:
            request.body, _ = self.read_body()
        return request

    def wait_closed(self):
        with self.link.lock:
            self.wait_for(lambda: self.lost)
        return b""

    # ---- the answer ----

    def check(self):
        if self.lost:
            raise BrokenPipeError("the stream has been reset")

    def send_response_head(self, status, headers):
        fields = [(name.lower(), str(value)) for name, value in headers]
        fields = [field for field in fields if field[0] not in HOP_BY_HOP]
        length = dict(fields).get("content-length")
        with self.link.lock:
            self.check()
            self.left = None if length is None else int(length)
            bodyless = self.request.method == "HEAD" or status in (204, 304) or self.left == 0
            self.ended = bodyless
            self.link.conn.send_headers(self.stream, [(":status", str(status))] + fields, bodyless)
            self.link.flush()

    def send_interim(self, status, headers=()):
        with self.link.lock:
            self.check()
            self.link.conn.send_headers(self.stream, [(":status", str(status)), *headers])
            self.link.flush()

    def send_raw_headers(self, fields):
        """Whatever they are, and the end of the answer."""
        with self.link.lock:
            self.check()
            block = self.link.conn.encoder.encode(fields)
            flags = ["END_HEADERS", "END_STREAM"]
            frame = hyperframe.frame.HeadersFrame(self.stream, block, flags=flags)
            self.link.sock.sendall(frame.serialize())

    def room(self):
        conn = self.link.conn
        return min(conn.local_flow_control_window(self.stream), conn.max_outbound_frame_size)

    def send(self, data):
        """Of the body; the last of what Content-Length has said is its end."""
        data = memoryview(data)
        while data:
            with self.link.lock:
                self.wait_for(lambda: self.lost or self.room() > 0)
                self.check()
                part = bytes(data[: self.room()])
                data = data[len(part) :]
                if self.left is not None:
                    self.left -= len(part)
                self.ended = self.left == 0
                self.link.conn.send_data(self.stream, part, self.ended)
                self.link.flush()

    def send_chunk(self, data):
        self.send(data)

    def end_chunks(self):
        with self.link.lock:
            self.check()
            self.ended = True
            self.link.conn.end_stream(self.stream)
            self.link.flush()
            self.link.changed.notify_all()

    def half_close(self):
        """The end of an answer that does not say how long it is."""
        if not self.ended:
            self.end_chunks()

    def respond(self, status, body=b"{}\n", content_type="application/json", headers=()):
        """A whole answer; of one that the peer drops for its head, the body goes out, too."""
        framing = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        with self.link.lock:
            self.send_response_head(status, framing + list(headers))
            if not self.ended:
                self.send(body)

    def begin_watch(self, content_type="application/json", headers=()):
        self.send_response_head(200, [("Content-Type", content_type), *headers])

    def reset(self, code=h2.errors.ErrorCodes.INTERNAL_ERROR):
        """Breaks the stream off."""
        with self.link.lock:
            if not self.lost:
                self.lost = True
                self.link.conn.reset_stream(self.stream, code)
                self.link.flush()
                self.link.changed.notify_all()

    def refuse(self):
        """Says that nothing of it was executed."""
        self.reset(h2.errors.ErrorCodes.REFUSED_STREAM)

    def break_off(self):
        self.reset()

    def close(self):
        """The script has ended: as a server whose handler returns."""
        with self.link.lock:
            if self.lost or (self.ended and self.input_ended):
                return
        try:
            if self.ended:
                self.reset(h2.errors.ErrorCodes.NO_ERROR)
            else:
                self.reset()
        except (OSError, h2.exceptions.ProtocolError):
            pass


class Link:
    """One connection; `run` reads from it, and a thread of its own serves each stream."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, sock, next_number, *, serve, timeout, streams=STREAMS, head=HEAD):
        self.sock = sock
        self.next_number = next_number  # for each stream
        self.serve = serve  # of a StreamPeer, in a thread
        self.timeout = timeout
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.peers = {}
        self.open = True
        self.reading = threading.Event()
        self.reading.set()
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.conn = h2.connection.H2Connection(config)
        self.conn.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: streams,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: head,
            },
        )

    def flush(self):
        """With the lock."""
        data = self.conn.data_to_send()
        if data:
            self.sock.sendall(data)

    def on_event(self, event):
        peer = self.peers.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.RequestReceived):
            peer = StreamPeer(self, event.stream_id, Request(event.headers))
            self.peers[event.stream_id] = peer
            peer.input_ended = event.stream_ended is not None
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()
        elif isinstance(event, h2.events.DataReceived):
            padding = event.flow_controlled_length - len(event.data)
            if padding or peer.lost:
                self.conn.acknowledge_received_data(
                    event.flow_controlled_length if peer.lost else padding, event.stream_id
                )
            peer.input += event.data
        elif isinstance(event, h2.events.StreamEnded):
            peer.input_ended = True
        elif isinstance(event, h2.events.StreamReset):
            peer.lost = True
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.lose_all()  # localproxy says it when it closes, and the library sends nothing more

    def lose_all(self):
        for peer in self.peers.values():
            peer.lost = True

    def run(self):
        try:
            with self.lock:
                self.conn.initiate_connection()
                self.flush()
            while data := self.sock.recv(1 << 16):
                self.reading.wait()
                with self.lock:
                    for event in self.conn.receive_data(data):
                        self.on_event(event)
                    self.flush()
                    self.changed.notify_all()
        except h2.exceptions.ProtocolError as error:
            with self.lock:
                self.flush()
            raise AssertionError(f"the peer broke the protocol: {error!r}") from error
        finally:
            with self.lock:
                self.open = False
                self.lose_all()
                self.changed.notify_all()
            self.sock.close()

    def go_away(self, last=None):
        """No further streams than up to `last`, the latest by default, are served."""
        with self.lock:
            last = self.conn.highest_inbound_stream_id if last is None else last
            self.conn.close_connection(last_stream_id=last)
            # What is open goes on, which the library does not know of (RFC 9113 section 6.8).
            self.conn.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN
            self.flush()

    def freeze(self):
        """Neither reads nor answers any more."""
        self.reading.clear()
