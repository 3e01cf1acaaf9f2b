"""What differs on the site: the options of all commands are added, as their parsers have them; files outside docs are
named, not linked to."""

import re
from typing import Any

from coviews.cli import COMMANDS, _function, _plain_function
from coviews.cli.help import options_by_subject


def on_page_markdown(markdown: str, **_: Any) -> str:
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", _commands())
    return re.sub(r"\[`?([^`\]]+)`?\]\(\.\./[^)]+\)", r"`\1`", markdown)


def _commands() -> str:
    parts = []
    for command in COMMANDS:
        about = " ".join((_plain_function(command).__doc__ or "").partition("Args:")[0].split())
        parts.append(f"## coviews {command}\n\n{about}\n")
        for title, words, options in options_by_subject(command, _function(command, ["--help-all"])):
            rows = "".join(f"| `{o.invocation}` | {_cell(o.described)} |\n" for o in options)
            heading = f"**{title}.** {words}\n\n" if words else ""
            parts.append(f"{heading}| {title.lower() or 'argument'} | |\n|---|---|\n{rows}")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
