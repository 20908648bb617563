# SPDX-License-Identifier: Apache-2.0
"""A scripted API server: a test says, connection by connection, what it sends and when."""

import base64
import fcntl
import itertools
import os
import socket
import ssl
import struct
import termios
import threading
import time

import upstream_h2
from wire import Cut, Stream


class Request:
    """A request as it came."""

    def __init__(self, lines):
        self.method, self.target, self.version = lines[0].split(" ")
        self.headers = []
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers.append((name, value.strip()))
        self.body = b""

    def get(self, name, default=None):
        for key, value in self.headers:
            if key.lower() == name.lower():
                return value
        return default

    def __repr__(self):
        return f"<{self.method} {self.target}>"


class TlsSocket:
    """The server's side of TLS over a connected socket, with what ssl.SSLSocket cannot do: two
    threads may send and receive at the same time, and close_notify can be sent alone."""

    def __init__(self, sock, context):
        self.sock = sock
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.lock = threading.Lock()
        self.send_lock = threading.Lock()
        try:
            self.run(self.session.do_handshake)
        finally:
            self.flush()  # an alert too

    def flush(self):
        with self.send_lock:
            with self.lock:
                data = self.outgoing.read()
            if data:
                self.sock.sendall(data)

    def run(self, operation, *args):
        """Repeats an operation that reads until it has what it needs."""
        while True:
            try:
                with self.lock:
                    return operation(*args)
            except ssl.SSLWantReadError:
                self.flush()
                data = self.sock.recv(1 << 18)
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()

    def recv(self, size):
        return self.run(self.session.read, size)

    def sendall(self, data):
        with self.send_lock:
            with self.lock:
                self.session.write(data)
                data = self.outgoing.read()
            self.sock.sendall(data)

    def close_notify(self):
        with self.lock:
            try:
                self.session.unwrap()
            except ssl.SSLError:
                pass  # wants the peer's, too
        self.flush()

    def shutdown(self, how):
        self.sock.shutdown(how)

    def close(self):
        self.sock.close()


class Peer(Stream):
    """One connection from localproxy."""

    def __init__(self, sock, number):
        super().__init__(sock)
        self.number = number  # counted from 0, as they begin to speak
        self.is_head = False  # the request at hand

    def read_request_head(self):
        """None when the peer closed instead."""
        try:
            request = Request(self.read_head_lines())
        except Cut:
            return None
        self.chunk_left = 0
        self.is_head = request.method == "HEAD"
        if request.get("Transfer-Encoding", "").lower() == "chunked":
            self.left = "chunked"
        else:
            self.left = int(request.get("Content-Length", "0"))
        return request

    def read_request(self):
        request = self.read_request_head()
        if request is not None:
            request.body, _ = self.read_body()
        return request

    def send_response_head(self, status, headers, body=b""):
        lines = [f"HTTP/1.1 {status} Scripted"] + [f"{name}: {value}" for name, value in headers]
        self.send("\r\n".join(lines + ["", ""]).encode("latin-1") + body)

    def respond(self, status, body=b"{}\n", content_type="application/json", headers=()):
        """A whole answer with a Content-Length, at once: its head may be all that is wanted."""
        framing = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        body = b"" if self.is_head else body
        self.send_response_head(status, framing + list(headers), body)

    def begin_watch(self, content_type="application/json", headers=()):
        framing = [("Content-Type", content_type), ("Transfer-Encoding", "chunked")]
        self.send_response_head(200, framing + list(headers))

    def end_chunks(self):
        self.send(b"0\r\n\r\n")

    def half_close(self):
        """Says that nothing more is sent, and goes on reading."""
        if isinstance(self.sock, TlsSocket):
            self.sock.close_notify()
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        """Breaks the connection off."""
        sock = self.sock.sock if isinstance(self.sock, TlsSocket) else self.sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def break_off(self):
        """The same, when another thread reads from it, and closes it then."""
        sock = self.sock.sock if isinstance(self.sock, TlsSocket) else self.sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RD)

    def wait_taken(self):
        """Until the peer's kernel has acknowledged all that was sent."""
        sock = self.sock.sock if isinstance(self.sock, TlsSocket) else self.sock
        while struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0] > 0:
            time.sleep(0.001)

    def wait_closed(self):
        """Reads until the peer closes; what came meanwhile."""
        data = self.input
        self.input = b""
        while self.fill():
            pass
        data, self.input = data + self.input, b""
        return data


class Upstream:
    """Listens on a free port of 127.0.0.1 (or on `listener`) and runs `serve(peer)` in a thread for
    each connection; of those with HTTP/2, which `context` must offer, for each stream.

    Errors that the peer causes end the connection silently; all others are kept in `errors`, which
    the test case looks at in the end.
    """

    # pylint: disable-next=too-many-arguments
    def __init__(self, serve, context=None, timeout=60, listener=None, streams=upstream_h2.STREAMS,
                 head=upstream_h2.HEAD):  # fmt: skip
        self.serve = serve
        self.streams = streams  # at a time, of a connection with HTTP/2
        self.head = head  # likewise: how large one may be
        self.context = context
        self.timeout = timeout
        self.errors = []
        self.peers = []
        self.numbers = itertools.count()  # of the peers
        self.links = []  # the connections with HTTP/2
        self.finished = []  # of the peers those whose script has ended
        self.listener = listener or socket.create_server(("127.0.0.1", 0), backlog=256)
        host, self.port = self.listener.getsockname()
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://{host}:{self.port}"
        self.closing = False
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.run, args=(sock,), daemon=True).start()

    def run(self, sock):
        try:
            sock.settimeout(self.timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context is not None:
                sock = TlsSocket(sock, self.context)
        except OSError:
            sock.close()
            return
        if isinstance(sock, TlsSocket) and sock.session.selected_alpn_protocol() == "h2":
            self.run_link(sock)
        else:
            self.run_peer(Peer(sock, next(self.numbers)))

    def run_peer(self, peer):
        with peer:
            self.peers.append(peer)
            self.guard(lambda: self.serve(peer))
            self.finished.append(peer)

    def run_link(self, sock):
        link = upstream_h2.Link(
            sock, self.numbers.__next__, serve=self.run_peer, timeout=self.timeout,
            streams=self.streams, head=self.head,
        )  # fmt: skip
        self.links.append(link)
        self.guard(link.run)

    def guard(self, work):
        try:
            work()
        except (Cut, OSError):
            pass
        except Exception as error:  # pylint: disable=broad-except
            if not self.closing:
                self.errors.append(error)

    def close(self):
        self.closing = True
        # accept() does not notice a close in another thread, but a shutdown.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for link in self.links:
            link.reading.set()
        for peer in self.peers + self.links:
            try:
                peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def listen(address):
    """Where another server has listened."""
    return socket.create_server(address, backlog=256)


HTTP1 = ("http/1.1",)
HTTP2 = ("h2", "http/1.1")


def server_context(certificate, key, protocols=HTTP1):
    """`protocols`: which it takes, the best first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(protocols)
    return context


def always(answer):
    """Serves request after request with `answer(peer, request)`."""

    def serve(peer):
        while (request := peer.read_request()) is not None:
            answer(peer, request)

    return serve


def basic(user, password):
    """Basic credentials, as in RFC 7617."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def write_kubeconfig(path, server, *, authority=None, token=None, extra_cluster="", extra_user=""):
    """A kubeconfig of one context. `authority`: path of a CA certificate."""
    cluster = f"    server: {server}\n"
    if authority is not None:
        cluster += f"    certificate-authority: {authority}\n"
    user = f"    token: {token}\n" if token is not None else ""
    user += extra_user
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(
            "apiVersion: v1\nkind: Config\ncurrent-context: scripted\n"
            f"clusters:\n- name: scripted\n  cluster:\n{cluster}{extra_cluster}"
            f"users:\n- name: scripted\n  user:\n{user}" + ("" if user else "    {}\n")
            + "contexts:\n- name: scripted\n  context: {cluster: scripted, user: scripted}\n"
        )
    return path
