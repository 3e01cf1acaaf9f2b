"""`coviews watch`: the page of a run, served to this machine only, and made anew as the run goes on."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coviews.errors import CoviewsError
from coviews.report.page import run_page
from coviews.report.record import read_run
from coviews.report.statistics import PolicyStatistics

_SEEN = ("config.yaml", "metrics.jsonl", "evaluations.jsonl", "encoder.safetensors", "policies/*.safetensors")


class Watched(ThreadingHTTPServer):
    """Serves the page of a run on loopback; nothing else can be asked for."""

    daemon_threads = True

    def __init__(self, run: Path, port: int = 0) -> None:
        self.run, self._lock = run, threading.Lock()
        self._version, self._page = "", b""
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
        files = [path for pattern in _SEEN for path in sorted(self.run.glob(pattern))]
        state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return hashlib.sha256(repr(state).encode()).hexdigest()

    def page(self) -> bytes:
        """The page of the run as it is now."""
        with self._lock:
            version = self.version()
            if version != self._version:
                self._page = run_page(read_run(self.run, self._remembered), live=version).encode(errors="replace")
                self._version = version
            return self._page


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
