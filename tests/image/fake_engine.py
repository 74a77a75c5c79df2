"""An Engine that says what a test wants, over a UNIX socket; and a way to a real one that a test can close."""

from __future__ import annotations

import json
import select
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qsl, unquote

Answer = tuple[int, object]
"""A status and a JSON value, what makes one of the query, or bytes as they are; status 0 hangs up.

Of a list of bytes each is sent by itself, in a stream that goes on until the client disconnects.
"""


class FakeEngine(socketserver.ThreadingUnixStreamServer):
    """Answers by the end of the path, without the version before it."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Handler)
        self.answers: dict[str, Answer] = {
            "/version": (200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"}),
            "/volumes": (200, {"Volumes": None}),
        }
        self.asked: list[str] = []
        self.pulled: list[tuple[str, str]] = []
        """Repository and tag."""
        self.sent: dict[str, bytes] = {}
        """What came last with a question, by its path."""
        self.hung_up = threading.Event()
        """Ends all streams."""


class _Handler(BaseHTTPRequestHandler):
    server: FakeEngine

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self, body: bytes = b"") -> None:
        path, _, query = self.path.partition("?")
        path = unquote(path)
        path = "/" + path.split("/", 2)[2] if path.startswith("/v1.") else path
        self.server.asked.append(path)
        self.server.sent[path] = body
        if path == "/images/create":
            wanted = dict(parse_qsl(query))
            self.server.pulled.append((wanted["fromImage"], wanted.get("tag", "")))
        status, value = self.server.answers.get(path, (404, {"message": f"no such thing: {path}"}))
        if not status:
            self.connection.shutdown(2)
            return
        value = value(dict(parse_qsl(query))) if callable(value) else value
        if isinstance(value, list) and value and all(isinstance(each, bytes) for each in value):
            self._stream(status, value)
            return
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, status: int, parts: list[bytes]) -> None:
        self.protocol_version = "HTTP/1.1"
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for each in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(each), each))
        self.connection.recv(1)
        self.server.hung_up.set()


@contextmanager
def fake_engine(path: Path) -> Iterator[FakeEngine]:
    server = FakeEngine(path)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class WayToEngine:
    """A port of this machine's that leads to an Engine's socket, until it is closed; it can be opened again."""

    def __init__(self, engine: str) -> None:
        self._engine = engine.removeprefix("unix://")
        self._port = 0
        self._listener: socket.socket | None = None
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    def open(self) -> None:
        """The same address each time."""
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        self._listener = listener
        self._begin(self._accept, listener)

    def close(self) -> None:
        """Refuses and ends all connections, even those of requests under way."""
        with self._lock:
            if self._listener is not None:
                self._listener.shutdown(socket.SHUT_RDWR)
                self._listener = None
            for end in self._ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _begin(self, work: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=work, args=sockets)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    guest, _ = listener.accept()
                except OSError:
                    return
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._engine)
                with self._lock:
                    if self._listener is not listener:  # closed meanwhile
                        guest.close()
                        there.close()
                        return
                    self._ends |= {guest, there}
                    self._begin(self._pass_on, guest, there)

    def _pass_on(self, guest: socket.socket, there: socket.socket) -> None:
        """Until one of them hangs up."""
        with guest, there:
            while True:
                readable, _, _ = select.select([guest, there], [], [])
                for end in readable:
                    try:
                        data = end.recv(65536)
                        (there if end is guest else guest).sendall(data)
                    except OSError:
                        data = b""
                    if not data:
                        with self._lock:
                            self._ends -= {guest, there}
                        return


@contextmanager
def way_to(engine: str) -> Iterator[WayToEngine]:
    way = WayToEngine(engine)
    way.open()
    try:
        yield way
    finally:
        way.close()
