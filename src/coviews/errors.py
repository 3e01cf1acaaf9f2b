"""The one error type that means: the input is wrong, and here is what to do."""

import difflib
from collections.abc import Iterable


class CoviewsError(ValueError):
    """Wrong input or an impossible request; the message says what to do."""


def unknown(kind: str, name: str, valid: Iterable[str]) -> CoviewsError:
    """An error for a name that does not exist, with the nearest one that does."""
    names = list(valid)
    lowered = {n.lower(): n for n in names}
    close = difflib.get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.5)
    hint = f"did you mean {lowered[close[0]]!r}?" if close else "there are: " + ", ".join(names)
    return CoviewsError(f"unknown {kind} {name!r}: {hint}")
