"""A file that a command renews as long as it lives: its trainings on other machines end when it is gone."""

import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from coviews.boundary.regular import regular_file
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole

RENEWED = 10.0  # seconds from one renewal to the next
PATIENCE = 120.0  # seconds without a renewal after which the command counts as gone
_LONGEST = 100  # bytes of the file


@dataclass(frozen=True)
class Lease:
    """Where the file is, and how long it may stay as it is."""

    path: Path
    patience: float


class LeaseKeeper:
    """Renews a lease until it is released, in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.lease = Lease(path, PATIENCE)
        self._released = threading.Event()
        self._renew()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """End the lease: whoever works by it saves and ends."""
        self._released.set()
        self._thread.join(RENEWED)
        self.lease.path.unlink(missing_ok=True)

    def _keep(self) -> None:
        while not self._released.wait(RENEWED):
            try:
                self._renew()
            except CoviewsError:
                continue  # the disk may be full for a while

    def _renew(self) -> None:
        write_whole(self.lease.path, uuid.uuid4().hex.encode())


class LeaseWatch:
    """Whether a lease still holds, as seen from another machine.

    Only changes count, not times: clocks of machines differ. A look that takes long or fails, such as while the file
    server is away, does not count against the lease.
    """

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._content: bytes | None = None
        self._unchanged = 0.0  # seconds
        self._missing = 0  # looks in a row
        self._last = time.monotonic()

    def holds(self) -> bool:
        """Look once, for a moment."""
        since, before = time.monotonic() - self._last, self._content
        try:
            with regular_file(self.lease.path) as file:
                self._content = file.read(_LONGEST)
        except FileNotFoundError:
            self._missing += 1
            self._last = time.monotonic()
            return self._content is not None and self._missing < 2
        except OSError:
            self._last = time.monotonic()
            return True
        self._missing = 0
        self._unchanged = self._unchanged + since if self._content == before else 0.0
        self._last = time.monotonic()
        return self._unchanged < self.lease.patience
