"""A folder in which only one process may work."""

from pathlib import Path

from filelock import FileLock, Timeout

from coviews.errors import CoviewsError


class FolderLock:
    """The lock of a folder: held until it is closed, or the process ends."""

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    def __enter__(self) -> "FolderLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder."""
        self._lock.release(force=True)


def lock_folder(folder: Path) -> FolderLock:
    """Lock an existing folder by the file `.lock` in it; an error if another process holds it."""
    lock = FileLock(folder / ".lock", thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise CoviewsError(f"another process is at work in {folder}") from error
    except OSError as error:
        raise CoviewsError(f"cannot write to {folder}: {error.strerror}") from error
    return FolderLock(lock)
