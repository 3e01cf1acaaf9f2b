"""Pictures as files: whether one can be written somewhere, and writing it."""

import io
from pathlib import Path

from PIL import Image

from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole


def check_picture(path: Path) -> None:
    """Before the work is done: can a picture be written there?"""
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise CoviewsError(f"cannot write a picture as {str(path)!r}: name it .png, .jpg, .webp or .pdf")
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture, whole or not at all; its extension says in which format."""
    content = io.BytesIO()
    try:
        picture.save(content, format=Image.registered_extensions()[path.suffix.lower()])
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CoviewsError(f"cannot write {path}: {why}") from error
    write_whole(path, content.getvalue())
