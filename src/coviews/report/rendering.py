"""HTML from the templates in `templates/`, which escape every text that they are given."""

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coviews.report.summary import Fact

_ENVIRONMENT = Environment(
    loader=PackageLoader("coviews.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"separators": (",", ":")}


@dataclass(frozen=True)
class Section:
    """A section of a page, with its entry in the menu."""

    key: str
    menu: str
    title: str
    body: Markup
    about: str = ""


@dataclass(frozen=True)
class HtmlTable:
    """A table of a page; below a fact stands its note."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str | Fact]]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column is one of numbers: every cell is empty or begins with a digit; never the first."""
        return [bool(self.rows) and i > 0 and all(_is_number(r[i]) for r in self.rows) for i in range(len(self.heads))]


def render(template: str, **context: object) -> Markup:
    """Fill a template."""
    return Markup(_ENVIRONMENT.get_template(template).render(**context))


def _is_number(cell: str | Fact) -> bool:
    return isinstance(cell, str) and (cell in ("", "–") or cell.lstrip("+-")[:1].isdecimal())
