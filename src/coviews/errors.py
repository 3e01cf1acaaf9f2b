"""The one error type that means: the input is wrong, and here is what to do."""

import difflib
import re
from collections.abc import Iterable

LONGEST = 290  # characters of a message: with "error: " before it, within two lines of a wide terminal
_LONGEST_WORD = 80  # characters of a word, such as a path or a value, in a message that is too long


class CoviewsError(ValueError):
    """Wrong input or an impossible request; the message says what to do, in one line without control characters."""

    def __init__(self, message: object) -> None:
        super().__init__(one_line(message))


def one_line(message: object) -> str:
    """A message for a terminal: one line of bounded length, in which control characters are escaped.

    Of a message that is too long, words are shortened first, then the middle is left out: what to do stands at the end.
    """
    text = str(message)[: 100 * LONGEST]  # whatever comes later is not worth the time
    text = "".join(c if c.isprintable() else " " if c == "\n" else c.encode("unicode_escape").decode() for c in text)
    if len(text) > LONGEST:
        text = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _without_middle(word[0], _LONGEST_WORD), text)
    return _without_middle(text, LONGEST)


def _without_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    end = longest * 2 // 5
    return f"{text[: longest - end - 3]}...{text[-end:]}"


def unknown(kind: str, name: str, valid: Iterable[str]) -> CoviewsError:
    """An error for a name that does not exist, with the nearest one that does."""
    names = list(valid)
    lowered = {n.lower(): n for n in names}
    text = str(name)[:LONGEST]
    close = difflib.get_close_matches(text.lower(), lowered, n=1, cutoff=0.5)
    hint = f"did you mean {lowered[close[0]]!r}?" if close else "there are: " + ", ".join(names)
    return CoviewsError(f"unknown {kind} {text!r}: {hint}")
