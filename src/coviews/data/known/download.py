"""Downloads that the user asked for: checked by their MD5 sum, and complete or absent."""

import contextlib
import hashlib
import http.client
import os
import shutil
import sys
import tarfile
import urllib.request
import zlib
from collections.abc import Collection
from pathlib import Path

from coviews.console.progress import LateBar, waiting
from coviews.errors import CoviewsError

_CHUNK = 1 << 20
_MOST_UNPACKED = 8 << 30  # bytes; the largest set, STL-10, has 3 GB
_PATIENCE = 60.0  # seconds without a byte


def fetch(url: str, md5: str, target: Path, *, progress: bool) -> None:
    """Download a file, and check its MD5 sum."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    digest = hashlib.md5(usedforsecurity=False)
    if progress:
        print(f"downloading {url} to {target.parent}", file=sys.stderr)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=_PATIENCE) as response, open(partial, "wb") as file:
            length = response.headers.get("Content-Length", "")
            title = f"downloading {target.name}" if progress else ""
            with LateBar(title, int(length) if length.isdecimal() else None, in_bytes=True) as bar:
                while chunk := response.read(_CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
                    bar.advance(len(chunk))
        if digest.hexdigest() != md5:
            raise CoviewsError(f"what came from {url} is not the file that is known (md5 {md5}): try again")
        os.replace(partial, target)
    except (OSError, http.client.HTTPException) as error:  # of the network or the disk
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise CoviewsError(f"cannot download {url} to {target}: {reason}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def unpack(archive: Path, names: Collection[str], folder: Path, *, progress: bool) -> None:
    """Unpack only these files of a .tar.gz archive; no other path is written, whatever the archive names."""
    missing = set(names)
    try:
        with waiting(f"unpacking {archive.name}" if progress else ""), tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if tar.offset > _MOST_UNPACKED:
                    raise tarfile.TarError(f"it would be more than {_MOST_UNPACKED:,} bytes")
                name = member.name.removeprefix("./")
                content = tar.extractfile(member) if name in missing and member.isreg() else None
                if content is None:
                    continue
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
                try:
                    with open(partial, "wb") as file:
                        shutil.copyfileobj(content, file, _CHUNK)
                    os.replace(partial, target)
                finally:
                    with contextlib.suppress(OSError):
                        partial.unlink()
                missing.discard(name)
                if not missing:
                    return
    except (OSError, EOFError, ValueError, OverflowError, tarfile.TarError, zlib.error) as error:
        raise CoviewsError(f"cannot unpack {archive}: {getattr(error, 'strerror', None) or error}") from error
