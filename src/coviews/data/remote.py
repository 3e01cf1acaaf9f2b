"""Files of other machines, by fsspec: web servers, object storage."""

import re
from typing import Any

from coviews.errors import CoviewsError

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether a text names a place on another machine."""
    return _URL.match(text) is not None


def remote_file(url: str) -> tuple[Any, str]:
    """The file system behind a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url)
    except ImportError as error:  # its text names the package, such as s3fs
        raise CoviewsError(f"cannot open {url}: {error}") from error
    except ValueError as error:
        raise CoviewsError(f"cannot open {url}: {error}") from error
