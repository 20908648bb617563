# SPDX-License-Identifier: Apache-2.0
"""A scripted API server for thousands of streams: one thread, HTTP/2 and HTTP/1.1 over TLS. What an
answer is, its target says:

    ?endless    more of the body whenever the client's windows take it
    ?ticking    a line with the time, every 20 ms
    ?silent     no answer
    ?unread     no answer, and the request's body is not read
    others      {} at the request's end
"""

import select
import socket
import ssl
import threading
import time

import upstream_h2  # finds python3-h2

# pylint: disable=wrong-import-order
import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

TICK = 0.02
BLOCK = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"5"},"x":"' + b"x" * 15000 + b'"}}\n'


def tick_line(now):
    version = int(now * 1e6)
    text = '{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"%d"}}}\n'
    return (text % version).encode()


class Link:
    """One connection."""

    # pylint: disable=too-many-instance-attributes
    def __init__(self, server, sock):
        self.server = server
        self.sock = sock
        self.out = b""
        self.shaken = False
        self.h2 = None
        self.head = b""  # of HTTP/1.1
        self.endless = set()
        self.ticking = set()
        self.raw_endless = False
        self.stalled = False  # what concerns streams is not seen, and not sent
        self.last = None  # the latest stream that is served, since it said that it leaves

    def handshake(self):
        self.sock.do_handshake()
        self.shaken = True
        if self.sock.selected_alpn_protocol() == "h2":
            config = h2.config.H2Configuration(client_side=False, header_encoding="latin-1")
            self.h2 = h2.connection.H2Connection(config)
            codes = h2.settings.SettingCodes
            values = {codes.MAX_CONCURRENT_STREAMS: self.server.streams}
            self.h2.local_settings = h2.settings.Settings(client=False, initial_values=values)
            self.h2.initiate_connection()
            self.server.links.append(self)

    def begin(self, stream, content_type="application/json", end=False):
        head = [(":status", "200"), ("content-type", content_type)]
        self.h2.send_headers(stream, head, end_stream=end)

    def on_request(self, stream, target):
        self.server.requests += 1
        if "endless" in target:
            self.begin(stream)
            self.endless.add(stream)
        elif "ticking" in target:
            self.begin(stream)
            self.ticking.add(stream)

    def on_event(self, event):
        if self.stalled:
            self.server.seen.add(dict(getattr(event, "headers", [])).get(":path"))
            return
        if isinstance(event, h2.events.RequestReceived):
            target = dict(event.headers)[":path"]
            self.server.seen.add(target)
            self.server.targets[(self, event.stream_id)] = target
            self.on_request(event.stream_id, target)
        elif isinstance(event, h2.events.DataReceived):
            target = self.server.targets[(self, event.stream_id)]
            if "unread" not in target and event.flow_controlled_length > 0:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.on_end(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.endless.discard(event.stream_id)
            self.ticking.discard(event.stream_id)

    def on_end(self, stream):
        target = self.server.targets.pop((self, stream))
        if not any(word in target for word in ("endless", "ticking", "silent", "unread")):
            self.begin(stream)
            self.h2.send_data(stream, b"{}", end_stream=True)

    def on_bytes(self, data):
        if self.h2 is not None:
            for event in self.h2.receive_data(data):
                self.on_event(event)
            return
        self.head += data
        if not self.raw_endless and b"\r\n\r\n" in self.head:  # an upgrade
            self.out += (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                         b"Upgrade: SPDY/3.1\r\n\r\n")  # fmt: skip
            self.server.requests += 1
            self.raw_endless = b"endless" in self.head

    def send_stream(self, stream, data, whole):
        room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
        if room >= (len(data) if whole else 1):
            self.h2.send_data(stream, data[:room])
            return True
        return False

    def tick(self, now):
        if self.stalled:
            return
        for stream in list(self.ticking):
            self.send_stream(stream, tick_line(now), True)

    def fill(self):
        """What endless answers may send now."""
        if len(self.out) > 1 << 18:
            return
        if self.raw_endless:
            self.out += BLOCK
        for stream in list(self.endless):
            while len(self.out) < 1 << 18 and self.send_stream(stream, BLOCK, False):
                self.out += self.h2.data_to_send()

    def go_away(self):
        if self.last is None:  # it may not rise (RFC 9113 section 6.8)
            self.last = self.h2.highest_inbound_stream_id
        self.h2.close_connection(last_stream_id=self.last)
        # What is open goes on, which the library does not know of.
        self.h2.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN

    def flush(self):
        self.out += self.h2.data_to_send() if self.h2 is not None else b""
        while self.out:
            try:
                self.out = self.out[self.sock.send(self.out) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError):
                return


class Server:
    def __init__(self, context, streams=100):
        self.context = context
        self.streams = streams  # of a connection
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.links = []
        self.all = {}
        self.targets = {}
        self.requests = 0
        self.seen = set()  # targets
        self.errors = []
        self.leave = threading.Event()  # every connection of now
        self.stall = threading.Event()  # likewise
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def accept(self, poller):
        sock, _ = self.listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.all[sock.fileno()] = Link(self, sock)
        poller.register(sock.fileno(), select.EPOLLIN)

    def serve(self, link):
        """False: the connection has ended."""
        try:
            if not link.shaken:
                link.handshake()
            while True:
                data = link.sock.recv(1 << 16)
                if not data:
                    return False
                link.on_bytes(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return True
        except (OSError, ssl.SSLError):
            return False
        except h2.exceptions.ProtocolError as error:
            self.errors.append(error)
            return False

    def drop(self, poller, number):
        link = self.all.pop(number)
        poller.unregister(number)
        link.sock.close()
        if link in self.links:
            self.links.remove(link)

    def push_all(self, poller, ticks):
        now = time.monotonic()
        for number, link in list(self.all.items()):
            if not link.shaken:
                continue
            try:
                if ticks and link.h2 is not None:
                    link.tick(now)
                link.fill()
                link.flush()
            except (OSError, ssl.SSLError):
                self.drop(poller, number)

    def run(self):
        poller = select.epoll()
        poller.register(self.listener.fileno(), select.EPOLLIN)
        ticked = 0.0
        while not self.ends.is_set():
            for number, _ in poller.poll(TICK / 2):
                if number == self.listener.fileno():
                    self.accept(poller)
                elif not self.serve(self.all[number]):
                    self.drop(poller, number)
            if self.leave.is_set():
                self.leave.clear()
                for link in self.links:
                    link.go_away()
            if self.stall.is_set():
                self.stall.clear()
                for link in self.links:
                    link.stalled = True
            ticks = time.monotonic() - ticked >= TICK
            ticked = time.monotonic() if ticks else ticked
            self.push_all(poller, ticks)

    def close(self):
        self.ends.set()
        self.thread.join()
        for link in self.all.values():
            link.sock.close()
        self.listener.close()
