"""What the encoder makes of the run's images, for the page: its hardest and easiest pairs, nearest neighbours."""

from dataclasses import dataclass, field
from html import escape

from coviews.pictures.neighbour_sheet import Neighbour, NeighbourRow
from coviews.report import sections
from coviews.report.gallery import Picture, picture


@dataclass(frozen=True)
class ScoredPair:
    """An image, a pair of its views, and how hard the encoder finds it."""

    image: Picture
    views: list[Picture]
    score: str


@dataclass(frozen=True)
class PairTrial:
    """The hardest pairs, the hardest of all first, and the easiest; or the reason why there are none."""

    hardest: list[ScoredPair] = field(default_factory=list)
    easiest: list[ScoredPair] = field(default_factory=list)
    about: str = ""
    missing: str = ""


@dataclass(frozen=True)
class NeighbourTrial:
    """Some images with those that are most similar to them; or the reason why there are none."""

    rows: list[NeighbourRow] = field(default_factory=list)
    about: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Trial:
    """Both, or the reason why there is neither."""

    pairs: PairTrial = field(default_factory=PairTrial)
    neighbours: NeighbourTrial = field(default_factory=NeighbourTrial)
    missing: str = ""


def trial_parts(trial: Trial) -> list[tuple[str, str, str]]:
    """Sections of the page: the key of each, its name in the menu, and its HTML."""
    pairs, near = trial.pairs, trial.neighbours
    if trial.missing:
        body = sections.notes("Missing", [trial.missing])
        return [("pairs", "Hard and easy", sections.section("pairs", "What the encoder sees", "", body))]
    hard = sections.notes("Missing", [pairs.missing] if pairs.missing else [])
    if not pairs.missing:
        hard = _pairs("The hardest", pairs.hardest) + _pairs("The easiest", pairs.easiest)
    alike = sections.notes("Missing", [near.missing] if near.missing else [])
    if not near.missing:
        alike = _neighbours(near.rows)
    return [
        (
            "pairs",
            "Hard and easy",
            sections.section("pairs", "The hardest and the easiest pairs of views", pairs.about, hard),
        ),
        (
            "neighbours",
            "Neighbours",
            sections.section("neighbours", "Images that the encoder finds similar", near.about, alike),
        ),
    ]


def _pairs(title: str, pairs: list[ScoredPair]) -> str:
    made = "".join(
        f'<div class="scored"><p>{escape(pair.score)}</p><div>'
        f"{sections.tile(pair.image, 'image', called='image')}"
        f"{''.join(sections.tile(v, f'view {i + 1}', called=f'view {i + 1}') for i, v in enumerate(pair.views))}"
        "</div></div>"
        for pair in pairs
    )
    return f'<h3 class="group">{escape(title)}</h3><div class="pairs">{made}</div>'


def _neighbours(rows: list[NeighbourRow]) -> str:
    known = any(n.same is not None for row in rows for n in row.neighbours)
    key = (
        '<p class="key"><span class="same"></span> of the same class <span class="other"></span> of another class</p>'
        if known
        else ""
    )
    made = "".join(
        f'<div class="shown near"><div class="own"><p>image</p>{_tile(row.query, "image")}</div>'
        f'<div class="beside"><p>most similar first</p><div>'
        f"{''.join(_tile(n, f'neighbour {i + 1}') for i, n in enumerate(row.neighbours))}</div></div></div>"
        for row in rows
    )
    return f'{key}<div class="gallery">{made}</div>'


def _tile(shown: Neighbour, what: str) -> str:
    kind = "" if shown.same is None else "same" if shown.same else "other"
    told = "" if shown.same is None else " (the same class)" if shown.same else " (another class)"
    made = picture(shown.image, ", ".join(shown.lines))
    return sections.tile(made, f"{what}{told}", kind=kind, lines=shown.lines)
