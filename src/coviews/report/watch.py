"""`coviews watch`: the page of a run, served to this machine only, and updated as the run goes on."""

import hashlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coviews.errors import CoviewsError
from coviews.policies.statistics import PolicyStatistics
from coviews.report.encoder_section import EncoderExamples
from coviews.report.page import run_page
from coviews.report.record import RunRecord, read_run

_PAGE_FILES = ("config.yaml", "metrics.jsonl", "evaluations.jsonl", "encoder.safetensors", "policies/*.safetensors")
_ENCODER_FILES = ("config.yaml", "encoder.safetensors", "checkpoints/last.pt", "policies/*.safetensors")
_LATER = "What the encoder makes of your images is shown when the run has ended. To see it now: coviews report RUN"


class Watched(ThreadingHTTPServer):
    """Serves the page of a run on loopback, and nothing else.

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
        state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return hashlib.sha256(repr(state).encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    server: Watched

    def do_GET(self) -> None:  # noqa: N802, RUF100 - the name that the base class calls
        """The page, or its version."""
        port = self.server.server_address[1]
        # a foreign page whose host name was made to point here sends another Host
        allowed = self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")
        if not allowed or self.path not in ("/", "/version"):
            self.send_error(403 if not allowed else 404)
            return
        try:
            page = self.path == "/"
            content = self.server.page() if page else self.server.version().encode()
        except (CoviewsError, OSError) as error:  # such as a run that was deleted
            self.send_error(503, explain=str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", f"text/{'html' if page else 'plain'}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""
