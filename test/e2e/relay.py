# SPDX-License-Identifier: Apache-2.0
"""TCP relays: one between clients and localproxy that loses connections when a test says so, one
that lets through so much and no more, and an HTTP proxy.
"""

import selectors
import socket
import struct
import threading

# close() then sends RST: what a client sees of a network that has forgotten the connection.
RESET = struct.pack("ii", 1, 0)

BUFFER = 65536

# Waits for ever for the rest of an answer of known length when its connection ends in order amid it,
# whatever is between. It is shown resets alone.
WAITS_FOR_EVER = b"node-fetch"


class Relay:
    """Listens on `address`. What the other side does not take at once blocks everything: the
    programs of the tests read all the time."""

    def __init__(self, target):
        self.lead_to(target)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128, reuse_port=True)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.url = "http://" + self.address
        self.lock = threading.Lock()
        self.pairs = {}  # socket -> its peer
        self.resets = set()  # the sockets of clients whose connections are only ever reset
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.wake, self.waker = socket.socketpair()
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def lead_to(self, target):
        """New connections go there."""
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))

    def run(self):
        while True:
            for key, _ in self.selector.select():
                with self.lock:
                    if key.fileobj is self.wake:
                        return
                    if key.fileobj is self.listener:
                        self.accept()
                    elif key.fileobj in self.pairs:
                        self.pass_on(key.fileobj)

    def accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        for sock, peer in ((client, server), (server, client)):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs[sock] = peer
            self.selector.register(sock, selectors.EVENT_READ)

    def pass_on(self, sock):
        try:
            data = sock.recv(BUFFER)
            if data:
                if WAITS_FOR_EVER in data:
                    self.resets.add(sock)
                self.pairs[sock].sendall(data)
                return
        except OSError:
            pass
        self.drop(sock)

    def drop(self, sock, reset=False):
        """Both sides of a connection."""
        for one in (sock, self.pairs[sock]):
            del self.pairs[one]
            self.selector.unregister(one)
            if reset or one in self.resets:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            one.close()
            self.resets.discard(one)

    def cut(self, pick, share):
        """Loses about this share of the connections."""
        with self.lock:
            for sock in sorted(self.pairs, key=socket.socket.fileno):
                if sock in self.pairs and pick.random() < share:
                    self.drop(sock, reset=pick.random() < 0.5)

    def refuse(self):
        """Loses all connections, and refuses new ones."""
        with self.lock:
            keeper = socket.socket()  # keeps the port
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            keeper.bind(self.listener.getsockname())
            self.selector.unregister(self.listener)
            self.listener.close()
            self.listener = keeper
            self.drop_all()

    def accept_again(self):
        with self.lock:
            self.listener.listen(128)
            self.selector.register(self.listener, selectors.EVENT_READ)

    def drop_all(self):
        for sock in list(self.pairs):
            if sock in self.pairs:
                self.drop(sock)

    def close(self):
        self.waker.send(b"x")
        self.thread.join()
        self.drop_all()
        self.selector.close()
        for sock in (self.listener, self.wake, self.waker):
            sock.close()


class Gate:
    """Lets so many bytes of answers through, and more once it is opened."""

    def __init__(self, target, allowance):
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.left = allowance
        self.opened = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            for ends in ((client, server, False), (server, client, True)):
                threading.Thread(target=self.copy, args=ends, daemon=True).start()

    def copy(self, source, sink, is_answer):
        """Until either side closes."""
        with source, sink:
            try:
                while data := source.recv(1024):
                    if is_answer and not self.is_allowed(len(data)):
                        self.opened.wait()
                    sink.sendall(data)
            except OSError:
                pass
            for sock in (source, sink):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # the other thread was first

    def is_allowed(self, size):
        self.left -= size
        return self.left >= 0

    def close(self):
        self.opened.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class ConnectProxy:
    """An HTTP proxy whose tunnels all lead to `target`, whatever is asked for; it keeps what was.
    With `refusal` that is the answer instead."""

    def __init__(self, target, refusal=None):
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.refusal = refusal
        self.heads = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = client.recv(1)
            if not data:
                client.close()
                return
            head += data
        self.heads.append(head.decode())
        if self.refusal is not None:
            client.sendall(self.refusal)
            client.close()
            return
        server = socket.create_connection(self.target)
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for ends in ((client, server), (server, client)):
            threading.Thread(target=self.copy, args=ends, daemon=True).start()

    def copy(self, source, sink):
        """Until either side closes."""
        with source, sink:
            try:
                while data := source.recv(BUFFER):
                    sink.sendall(data)
            except OSError:
                pass
            for sock in (source, sink):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # the other thread was first

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
