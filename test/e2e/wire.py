# SPDX-License-Identifier: Apache-2.0
"""An HTTP/1.1 client that hides nothing: exact bytes out, exact bytes and their framing in.

The standard library's client repairs, normalises and joins; a proxy is tested by what it does to
bytes, so here a request is what the test wrote and a response says how it ended.
"""

import select
import socket
import ssl


class Cut(Exception):
    """The peer closed in the middle of a message."""


class Head:
    """Status line and headers, in the order and spelling in which they came."""

    def __init__(self, lines):
        version, status, *reason = lines[0].split(" ", 2)
        self.version = version
        self.status = int(status)
        self.reason = reason[0] if reason else ""
        self.headers = []
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers.append((name, value.strip()))

    def get(self, name, default=None):
        """The first header of that name."""
        for key, value in self.headers:
            if key.lower() == name.lower():
                return value
        return default


class Response:
    """A whole response. `complete` is False when the body was cut off."""

    def __init__(self, head, body, complete, interim):
        self.head = head
        self.status = head.status
        self.body = body
        self.complete = complete
        self.interim = interim  # heads of 1xx responses before it

    def get(self, name, default=None):
        return self.head.get(name, default)

    def __repr__(self):
        return f"<{self.status} {self.head.headers} {self.body[:300]!r}>"


class Stream:
    """The reading side of one HTTP/1.1 connection, a client's or a server's."""

    def __init__(self, sock):
        self.sock = sock
        self.input = b""
        self.left = 0  # bytes of the body at hand, "chunked", "close" or "raw"
        self.chunk_left = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def send_chunk(self, data):
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def fill(self):
        """Reads what there is. False at the end of the stream."""
        try:
            data = self.sock.recv(65536)
        except (ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            data = b""
        self.input += data
        return bool(data)

    def read_head_lines(self):
        """The lines of the next head. Raises Cut when none comes."""
        while b"\r\n\r\n" not in self.input:
            if not self.fill():
                raise Cut(f"closed before the head was complete: {self.input[:200]!r}")
        head, _, self.input = self.input.partition(b"\r\n\r\n")
        return head.decode("latin-1").split("\r\n")

    def need(self, count):
        while len(self.input) < count:
            if not self.fill():
                raise Cut("closed in the middle of a body")

    def take(self, limit):
        data, self.input = self.input[:limit], self.input[limit:]
        return data

    def read_line(self):
        while b"\r\n" not in self.input:
            self.need(len(self.input) + 1)
        line, _, self.input = self.input.partition(b"\r\n")
        return line

    def read_chunked(self):
        if self.chunk_left == 0:
            self.chunk_left = int(self.read_line().split(b";")[0], 16)
            if self.chunk_left == 0:
                while self.read_line():
                    pass
                self.left = 0
                return b""
        self.need(1)
        data = self.take(self.chunk_left)
        self.chunk_left -= len(data)
        if self.chunk_left == 0 and self.read_line() != b"":
            raise Cut("a chunk is longer than it says")
        return data

    def read_some(self):
        """The next bytes of the body; b"" at its proper end; raises Cut at an improper one."""
        if self.left == "chunked":
            return self.read_chunked()
        if self.left in ("close", "raw"):
            if not self.input:
                self.fill()
            return self.take(len(self.input))
        if self.left == 0:
            return b""
        self.need(1)
        data = self.take(self.left)
        self.left -= len(data)
        return data

    def read_body(self):
        """All of the body, and whether it ended properly."""
        parts = []
        try:
            while data := self.read_some():
                parts.append(data)
        except Cut:
            return b"".join(parts), False
        return b"".join(parts), True


class Connection(Stream):
    """A client's connection to `address` ("host:port")."""

    def __init__(self, address, tls=None, timeout=60, receive_buffer=None):
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(timeout)
        try:
            sock.connect((host, int(port)))
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=host)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        super().__init__(sock)
        self.address = address

    def send_head(self, method, target, headers=(), version="1.1"):
        lines = [f"{method} {target} HTTP/{version}"]
        headers = list(headers)
        if not any(name.lower() == "host" for name, _ in headers):
            headers.insert(0, ("Host", self.address))
        lines += [f"{name}: {value}" for name, value in headers]
        self.send("\r\n".join(lines + ["", ""]).encode("latin-1"))

    # pylint: disable-next=too-many-arguments
    def request(self, method, target, headers=(), body=None, *, chunked=False, version="1.1"):
        """Sends a request and reads the whole answer."""
        headers = list(headers)
        if chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        elif body is not None:
            headers.append(("Content-Length", str(len(body))))
        self.send_head(method, target, headers, version)
        if chunked:
            for at in range(0, len(body), 1000):
                self.send_chunk(body[at : at + 1000])
            self.send(b"0\r\n\r\n")
        elif body:
            self.send(body)
        return self.response(method)

    def read_head(self, method="GET"):
        """The next head, of an interim response too. Raises Cut when none comes."""
        head = Head(self.read_head_lines())
        self.chunk_left = 0
        if head.status == 101:
            self.left = "raw"
        elif method == "HEAD" or head.status < 200 or head.status in (204, 304):
            self.left = 0
        elif head.get("Transfer-Encoding", "").lower() == "chunked":
            self.left = "chunked"
        elif head.get("Content-Length") is not None:
            self.left = int(head.get("Content-Length"))
        else:
            self.left = "close"
        return head

    def response(self, method="GET"):
        interim = []
        head = self.read_head(method)
        while 100 <= head.status < 200 and head.status != 101:
            interim.append(head)
            head = self.read_head(method)
        body, complete = (b"", True) if head.status == 101 else self.read_body()
        return Response(head, body, complete, interim)

    def is_idle(self):
        """Nothing came that nobody has asked for, nor an end."""
        return not self.input and not select.select([self.sock], [], [], 0)[0]

    def closed_by_peer(self):
        """Whether the peer has closed; waits for it up to the timeout."""
        try:
            return not self.input and not self.fill()
        except TimeoutError:
            return False


def fetch(address, target, method="GET", headers=(), body=None, tls=None, **more):
    """One request on a connection of its own."""
    with Connection(address, tls=tls) as connection:
        return connection.request(method, target, headers, body, **more)
