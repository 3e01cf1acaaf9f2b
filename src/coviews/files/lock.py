"""A folder that only one process may work in."""

import fcntl
from pathlib import Path
from typing import IO

from coviews.errors import CoviewsError


def lock_folder(folder: Path) -> IO[str]:
    """Take a folder that is there; until the file is closed, or the process ends, nobody else can."""
    try:
        file = open(folder / ".lock", "w")  # noqa: SIM115 - held for as long as there is work
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise CoviewsError(f"another process is at work in {folder}") from error
    except OSError as error:
        raise CoviewsError(f"cannot write to {folder}: {error.strerror}") from error
    return file
