"""The parts of the page as HTML; every text of a run is escaped where it enters."""

from collections.abc import Sequence
from html import escape

from coviews.report.charts import Chart
from coviews.report.gallery import Gallery, Picture
from coviews.report.summary import Fact


def section(key: str, title: str, about: str, *parts: str) -> str:
    """A part of the page with its heading."""
    said = f'<p class="about">{escape(about)}</p>' if about else ""
    return f'<section id="{key}"><h2>{escape(title)}</h2>{said}{"".join(parts)}</section>'


def cards(facts: Sequence[Fact]) -> str:
    """The summary."""
    made = (
        f'<div class="card"><p class="what">{escape(f.what)}</p><p class="value">{escape(f.value)}</p>'
        f'<p class="more">{escape(f.more)}</p></div>'
        for f in facts
    )
    return f'<div class="cards">{"".join(made)}</div>'


def notes(title: str, texts: Sequence[str]) -> str:
    """A box that cannot be overlooked."""
    if not texts:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<div class="note" role="note"><p><strong>{escape(title)}</strong></p><ul>{items}</ul></div>'


def plots(charts: Sequence[Chart], *, wide: bool = False) -> str:
    """Places for charts, each with its words."""
    made = (
        f'<figure class="chart"><h3>{escape(c.title)}</h3>'
        f'<div class="plot" role="img" aria-label="{escape(c.alt)}" data-chart="{escape(c.key)}"></div>'
        f"<figcaption>{escape(c.alt)}</figcaption></figure>"
        for c in charts
    )
    return f'<div class="charts{" one" if wide else ""}">{"".join(made)}</div>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str | Fact]]) -> str:
    """A table; columns of which every cell begins with a digit are numbers, and a fact has its remark below it."""
    kind = [' class="n"' if rows and i and all(_is_number(r[i]) for r in rows) else "" for i in range(len(heads))]
    head = "".join(f'<th scope="col"{k}>{escape(h)}</th>' for k, h in zip(kind, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{_cell(cell)}</td>" for k, cell in zip(kind, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def slider(labels: Sequence[str], told: str) -> str:
    """Chooses the policy that the charts below it show."""
    last = len(labels) - 1
    off = " disabled" if last == 0 else ""
    hint = '<span class="hint">Slide to see earlier policies in the charts below</span>' if last else ""
    return (
        f'<div class="slider"><label for="frame" id="frame-label">{escape(labels[-1])}</label>{hint}'
        f'<input type="range" id="frame" min="0" max="{last}" value="{last}" step="1" '
        f'aria-valuetext="{escape(labels[-1])}" autocomplete="off"{off}>'
        f'<p id="frame-told" aria-live="polite">{escape(told)}</p></div>'
    )


def pictures(found: Gallery) -> str:
    """The gallery, or why there is none."""
    if not found.rows:
        return notes("Missing", [found.missing])
    rows = []
    for row in found.rows:
        pairs = "".join(
            f'<div class="pair"><p>{escape(head)}</p><div>{tile(first, "view 1")}{tile(second, "view 2")}</div></div>'
            for head, (first, second) in zip(found.heads, row.pairs, strict=True)
        )
        rows.append(f'<div class="shown"><div class="own"><p>image</p>{tile(row.image, "image")}</div>{pairs}</div>')
    return f'<div class="gallery">{"".join(rows)}</div>'


def _is_number(cell: str | Fact) -> bool:
    return isinstance(cell, str) and (cell in ("", "–") or cell.lstrip("+-")[:1].isdecimal())


def _cell(cell: str | Fact) -> str:
    if isinstance(cell, str):
        return escape(cell)
    return escape(cell.value) + (f"<small>{escape(cell.more)}</small>" if cell.more else "")


def tile(shown: Picture, what: str, *, called: str = "", kind: str = "", lines: Sequence[str] = ()) -> str:
    """A picture with its words below.

    Args:
        shown: the picture.
        what: what it is, for who cannot see it.
        called: a small heading above the words.
        kind: a class of the style sheet.
        lines: the words line by line, if not in one piece.
    """
    words = shown.words or "image"
    alt = words if words == what else f"{what}: {words}"
    small = ' class="small"' if shown.small else ""
    head = f"<small>{escape(called)}</small>" if called else ""
    told = "".join(f'<span class="line" title="{escape(line)}">{escape(line)}</span>' for line in lines) or escape(
        words
    )
    return (
        f'<figure class="tile{" " + kind if kind else ""}"><img{small} src="{shown.uri}" width="{shown.width}" '
        f'height="{shown.height}" alt="{escape(alt)}"><figcaption>{head}{told}</figcaption></figure>'
    )
