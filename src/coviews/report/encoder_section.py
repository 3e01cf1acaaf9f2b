"""Sections of the page on the encoder: the hardest and the easiest pairs of views, and nearest neighbours."""

from dataclasses import dataclass, field

from coviews.pictures.neighbour_sheet import Neighbour, NeighbourRow
from coviews.report.gallery import Picture, picture
from coviews.report.rendering import Section, render


@dataclass(frozen=True)
class ScoredPair:
    """An image, a pair of its views, and how hard the pair is for the encoder."""

    image: Picture
    views: list[Picture]
    score: str


@dataclass(frozen=True)
class PairExamples:
    """The hardest pairs, the hardest of all first, and the easiest; or the reason why there are none."""

    hardest: list[ScoredPair] = field(default_factory=list)
    easiest: list[ScoredPair] = field(default_factory=list)
    about: str = ""
    missing: str = ""


@dataclass(frozen=True)
class NeighbourExamples:
    """Some images with those most similar to them; or the reason why there are none."""

    rows: list[NeighbourRow] = field(default_factory=list)
    about: str = ""
    missing: str = ""


@dataclass(frozen=True)
class EncoderExamples:
    """Pairs and neighbours, or the reason why there is neither."""

    pairs: PairExamples = field(default_factory=PairExamples)
    neighbours: NeighbourExamples = field(default_factory=NeighbourExamples)
    missing: str = ""


@dataclass(frozen=True)
class _NeighbourTile:
    picture: Picture
    role: str
    kind: str
    lines: tuple[str, ...]


def encoder_sections(examples: EncoderExamples) -> list[Section]:
    """The sections of the page."""
    pairs, near = examples.pairs, examples.neighbours
    if examples.missing:
        body = render("missing.html", reason=examples.missing)
        return [Section("pairs", "Hard and easy", "What the encoder sees", body)]
    if pairs.missing:
        pairs_body = render("missing.html", reason=pairs.missing)
    else:
        pairs_body = render("pairs.html", groups=[("The hardest", pairs.hardest), ("The easiest", pairs.easiest)])
    if near.missing:
        near_body = render("missing.html", reason=near.missing)
    else:
        rows = [
            (_tile(row.query, "image"), [_tile(n, f"neighbour {i + 1}") for i, n in enumerate(row.neighbours)])
            for row in near.rows
        ]
        has_classes = any(n.same is not None for row in near.rows for n in row.neighbours)
        near_body = render("neighbours.html", rows=rows, has_classes=has_classes)
    return [
        Section("pairs", "Hard and easy", "The hardest and the easiest pairs of views", pairs_body, pairs.about),
        Section("neighbours", "Neighbours", "Images that the encoder finds similar", near_body, near.about),
    ]


def _tile(neighbour: Neighbour, role: str) -> _NeighbourTile:
    kind, remark = "", ""
    if neighbour.same is not None:
        kind, remark = ("same", " (the same class)") if neighbour.same else ("other", " (another class)")
    return _NeighbourTile(
        picture(neighbour.image, ", ".join(neighbour.lines)), f"{role}{remark}", kind, neighbour.lines
    )
