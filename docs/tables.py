"""The tables in docs/*.md that list what the package has, from the package itself.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.

    python docs/tables.py           write the tables
    python docs/tables.py --check   exit with code 1 if a page is not up to date
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from coviews.data.formats import formats_table
from coviews.evaluation.measures import measures_table
from coviews.launching.launchers import launchers_table
from coviews.methods.known import methods_table
from coviews.ops.operations import operations_table
from coviews.ops.series_operations import SERIES_OPS
from coviews.ops.space import spaces_table
from coviews.policies.factors import factors_table
from coviews.policies.fixed import view_sources_table
from coviews.searching.known import searches_table

TABLES: dict[str, Callable[[], tuple[list[str], list[list[str]]]]] = {  # each gives the heads and the rows
    "operations": operations_table,
    "series operations": lambda: operations_table(SERIES_OPS),
    "spaces": spaces_table,
    "view sources": view_sources_table,
    "factors": factors_table,
    "methods": methods_table,
    "searches": searches_table,
    "measures": measures_table,
    "formats": formats_table,
    "launchers": launchers_table,
}
MARKED = re.compile(r"(<!-- table: ([^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def updated(page: str) -> str:
    """The text of a page with its tables as they should be."""
    return MARKED.sub(lambda match: match[1] + markdown(*TABLES[match[2]]()) + match[3], page)


def main() -> int:
    pages = {path: path.read_text() for path in sorted(Path(__file__).parent.glob("*.md"))}
    missing = set(TABLES) - {match[2] for text in pages.values() for match in MARKED.finditer(text)}
    if missing:
        print(f"no page has the table: {', '.join(sorted(missing))}")
        return 1
    stale = {path: new for path, text in pages.items() if (new := updated(text)) != text}
    for path, text in stale.items():
        if "--check" in sys.argv[1:]:
            print(f"{path.name} is not up to date: run python docs/tables.py")
        else:
            path.write_text(text)
            print(f"updated {path.name}")
    return int("--check" in sys.argv[1:] and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
