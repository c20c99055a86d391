"""HTTP exchanges of many clients at once in one thread: each connection sends a request and keeps
what arrives with its times. The bytes are parsed after the run (streamed_reply.py), so that the
client takes little time from a server on the same machine.
"""

import selectors
import socket
import time
from dataclasses import dataclass, field

RECEIVE_BYTES = 1 << 18


@dataclass
class Exchange:
    request: bytes
    due_s: float = 0.0             # after the start of the run
    sent_s: float = 0.0            # all times are seconds after the start of the run
    arrivals: list = field(default_factory=list)  # (time, bytes)
    end_s: float = 0.0
    error: str = ""                # of the connection

    @property
    def data(self):
        return b"".join(part for _, part in self.arrivals)


def post(host, port, path, body, headers=None):
    """The bytes of a POST request after which the server closes the connection."""
    fields = {"Host": f"{host}:{port}", "Content-Type": "application/json",
              "Content-Length": str(len(body)), "Connection": "close", **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class _Run:
    def __init__(self, address, exchanges, concurrency, timeout_s):
        self.address, self.concurrency, self.timeout_s = address, concurrency, timeout_s
        self.waiting = sorted(exchanges, key=lambda exchange: exchange.due_s)
        self.selector = selectors.DefaultSelector()
        self.open = {}  # socket: (exchange, bytes to send)
        self.start = time.perf_counter()

    def now(self):
        return time.perf_counter() - self.start

    def connect(self, exchange):
        exchange.sent_s = self.now()
        try:
            connection = socket.create_connection(self.address, timeout=self.timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
        except OSError as error:
            exchange.error, exchange.end_s = str(error), self.now()
            return
        self.open[connection] = [exchange, memoryview(exchange.request)]
        self.selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def close(self, connection, error=""):
        exchange, _ = self.open.pop(connection)
        exchange.error, exchange.end_s = error, self.now()
        self.selector.unregister(connection)
        connection.close()

    def send(self, connection):
        entry = self.open[connection]
        entry[1] = entry[1][connection.send(entry[1]):]
        if not entry[1]:
            self.selector.modify(connection, selectors.EVENT_READ)

    def receive(self, connection):
        part = connection.recv(RECEIVE_BYTES)
        if part:
            self.open[connection][0].arrivals.append((self.now(), part))
        else:
            self.close(connection)

    def serve(self, connection, events):
        try:
            if events & selectors.EVENT_WRITE:
                self.send(connection)
            if events & selectors.EVENT_READ:
                self.receive(connection)
        except BlockingIOError:
            pass
        except OSError as error:
            self.close(connection, str(error))

    def start_due(self):
        while self.waiting and len(self.open) < self.concurrency \
                and self.waiting[0].due_s <= self.now():
            self.connect(self.waiting.pop(0))

    def end_late(self):
        for connection, (exchange, _) in list(self.open.items()):
            if self.now() - exchange.sent_s > self.timeout_s:
                self.close(connection, f"no end within {self.timeout_s:g} s")

    def until_next(self):
        """Seconds to wait at most: until the next request is due."""
        if not self.waiting or len(self.open) >= self.concurrency:
            return 1.0
        return min(1.0, max(0.0, self.waiting[0].due_s - self.now()))

    def run(self):
        while self.waiting or self.open:
            self.start_due()
            for key, events in self.selector.select(self.until_next()):
                if key.fileobj in self.open:
                    self.serve(key.fileobj, events)
            self.end_late()
        self.selector.close()


def run(host, port, exchanges, concurrency, timeout_s):
    """Runs all exchanges, each when it is due and at most `concurrency` at once. Their times and
    errors are in the exchanges afterwards; nothing is raised for one that failed."""
    _Run((host, port), exchanges, concurrency, timeout_s).run()
