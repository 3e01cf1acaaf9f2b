"""`coviews watch`: the page of a run, served to this machine only, and made anew as the run goes on."""

import hashlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coviews.errors import CoviewsError
from coviews.policies.statistics import PolicyStatistics
from coviews.report.encoder_section import Trial
from coviews.report.page import run_page
from coviews.report.record import RunRecord, read_run

_SEEN = ("config.yaml", "metrics.jsonl", "evaluations.jsonl", "encoder.safetensors", "policies/*.safetensors")
_TRIED = ("config.yaml", "encoder.safetensors", "checkpoints/last.pt", "policies/*.safetensors")
_LATER = "What the encoder makes of your images is shown when the run has ended. To see it now: coviews report RUN"


class Watched(ThreadingHTTPServer):
    """Serves the page of a run on loopback; nothing else can be asked for.

    trying: tries the encoder of a run that has ended; that takes seconds, and is done once.
    """

    daemon_threads = True

    def __init__(self, run: Path, port: int = 0, trying: Callable[[RunRecord], Trial] | None = None) -> None:
        self.run, self._lock = run, threading.Lock()
        self._version, self._page = "", b""
        self._trying, self._tried = trying, ("", Trial())
        self._remembered: dict[bytes, PolicyStatistics] = {}
        read_run(run)  # says what is wrong before anything is served
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise CoviewsError(f"cannot serve on port {port}: {error}") from error

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def version(self) -> str:
        """Another one whenever the run has written something."""
        return self._state(_SEEN)

    def page(self) -> bytes:
        """The page of the run as it is now."""
        with self._lock:
            version = self.version()
            if version != self._version:
                found = read_run(self.run, self._remembered)
                page = run_page(found, trial=self._trial(found), live=version)
                self._page, self._version = page.encode(errors="replace"), version
            return self._page

    def _trial(self, run: RunRecord) -> Trial | None:
        if self._trying is None:
            return None
        if not run.finished:
            return Trial(missing=_LATER)
        state = self._state(_TRIED)
        if self._tried[0] != state:
            self._tried = state, self._trying(run)
        return self._tried[1]

    def _state(self, patterns: tuple[str, ...]) -> str:
        """Another one whenever these files are other ones."""
        files = [path for pattern in patterns for path in sorted(self.run.glob(pattern))]
        state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return hashlib.sha256(repr(state).encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    server: Watched

    def do_GET(self) -> None:  # noqa: N802, RUF100 - the name that the base class calls
        """The page, or its version."""
        port = self.server.server_address[1]
        # a page from elsewhere whose name was made to point here has another host
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
        """Requests are nobody's concern."""
