"""`coviews watch`: the page of a run, served to this machine only, and updated as the run goes on."""

import contextlib
import hashlib
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from coviews.errors import CoviewsError, one_line
from coviews.policies.statistics import PolicyStatistics
from coviews.report.encoder_section import EncoderExamples
from coviews.report.page import run_page
from coviews.report.record import RunRecord, read_run

_PAGE_FILES = ("config.yaml", "metrics.jsonl", "evaluations.jsonl", "encoder.safetensors", "policies/*.safetensors")
_ENCODER_FILES = ("config.yaml", "encoder.safetensors", "checkpoints/last.pt", "policies/*.safetensors")
MOST_CLIENTS = 16  # at once
PATIENCE = 10.0  # seconds without a byte, after which a client is cut off
LONGEST = 60.0  # seconds that a client has in all
_LATER = "What the encoder makes of your images is shown when the run has ended. To see it now: coviews report RUN"


class Watched(ThreadingHTTPServer):
    """Serves the page of a run on loopback, and nothing else, to a bounded number of clients for a bounded time.

    make_examples: computes the examples of the encoder. It takes seconds, and is called once, when the run has ended.
    """

    daemon_threads = True

    def __init__(
        self, run: Path, port: int = 0, make_examples: Callable[[RunRecord], EncoderExamples] | None = None
    ) -> None:
        self.run, self._lock = run, threading.Lock()
        self._version, self._page = "", b""
        self._make_examples, self._examples_state, self._examples = make_examples, "", EncoderExamples()
        self._remembered: dict[bytes, PolicyStatistics] = {}
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)
        read_run(run)  # raises an error before anything is served
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise CoviewsError(f"cannot serve on port {port}: {error}") from error

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def version(self) -> str:
        """A text that changes whenever the run writes something."""
        return self._state(_PAGE_FILES)

    def page(self) -> bytes:
        """The page of the run as it is now."""
        with self._lock:
            version = self.version()
            if version != self._version:
                record = read_run(self.run, self._remembered)
                page = run_page(record, examples=self._encoder_examples(record), live=version)
                self._page, self._version = page.encode(errors="replace"), version
            return self._page

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; a client beyond the limit is turned away at once."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # such as no more threads
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer; whoever sends or reads too slowly is cut off."""
        end = threading.Timer(LONGEST, _cut_off, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def _encoder_examples(self, run: RunRecord) -> EncoderExamples | None:
        if self._make_examples is None:
            return None
        if not run.finished:
            return EncoderExamples(missing=_LATER)
        state = self._state(_ENCODER_FILES)
        if self._examples_state != state:
            self._examples_state, self._examples = state, self._make_examples(run)
        return self._examples

    def _state(self, patterns: tuple[str, ...]) -> str:
        """A text that changes whenever these files change."""
        files = [path for pattern in patterns for path in sorted(self.run.glob(pattern))]
        state = []
        for path in files:
            with contextlib.suppress(OSError):  # it was replaced just now
                state.append((path.name, path.stat().st_size, path.stat().st_mtime_ns))
        return hashlib.sha256(repr(state).encode()).hexdigest()


def _cut_off(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Watched
    timeout = PATIENCE
    server_version, sys_version = "coviews", ""

    def do_GET(self) -> None:  # noqa: N802, RUF100 - the name that the base class calls
        """The page, or its version."""
        port = self.server.server_address[1]
        # a foreign page whose host name was made to point here sends another Host
        allowed = self.headers.get_all("Host") in ([f"127.0.0.1:{port}"], [f"localhost:{port}"])
        if not allowed or self.path not in ("/", "/version"):
            self.send_error(403 if not allowed else 404)
            return
        try:
            page = self.path == "/"
            content = self.server.page() if page else self.server.version().encode()
        except (CoviewsError, OSError) as error:  # such as a run that was deleted
            self.send_error(503, explain=one_line(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", f"text/{'html' if page else 'plain'}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""
