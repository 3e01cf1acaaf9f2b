"""`choice.html`: what was chosen, why, and what could not be known."""

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from coviews.choosing.choice import (
    VIEWS,
    Choice,
    best_first,
    colours_in_words,
    effect_in_words,
    family_in_words,
    gain_in_words,
    without_labels,
)
from coviews.choosing.verdict import Verdict, points
from coviews.data.imageset import ImageSet, varied
from coviews.ops.engine import make_views
from coviews.ops.plan import Plan
from coviews.policies.factors import VIEW_FACTORS, Family
from coviews.policies.fixed import fitted_source
from coviews.policies.limits import Limits
from coviews.report.charts import BarChart, Chart
from coviews.report.gallery import Gallery, GalleryRow, captions, pair_pictures, picture
from coviews.report.page import charts_html, page_html
from coviews.report.rendering import HtmlTable, Section, render
from coviews.report.summary import Fact

_SHOWN = 6  # images
_OPTIONS = Markup('yes: <span class="option">--ignores {name}</span>; no: <span class="option">--matters {name}</span>')


def choice_page(choice: Choice, images: ImageSet, limits: Limits) -> str:
    """The whole page; the images are those that the choice is for, and the views that it shows keep to the limits."""
    v = choice.decided
    top = render("choice_summary.html", facts=_facts(choice, v), failed=_failed(choice), unknown=_unknown(choice, v))
    effects = _effects_chart(v)
    views = render("gallery.html", gallery=_gallery(v, images, limits))
    sections = [
        Section("factors", "Factors", "What each change does", charts_html([effects], wide=True), _about_effects(v)),
        Section("families", "Families", "Families that were tried", _table(_standings(v)), _about_standings(v)),
        Section(
            "views", "Views", "Views of your images", views,
            "The same images with two views each. Below a view is what was done to it, in this order; crop: left, top, "
            "right and bottom, in pixels.",
        ),
        Section(
            "questions", "Questions", "What you may know better", _table(_questions(choice, v)),
            "Each factor is a question about your images. What you answer is not left to pilots: fewer are needed, and "
            "the choice is surer.",
        ),
        Section("how", "How it was judged", "How it was judged", _table(_pilots(choice)), _method(choice)),
    ]  # fmt: skip
    title = f"Views for {Path(*Path(choice.data).parts[-2:])}"
    charts: list[Chart] = [effects]
    return page_html(title, "Choice of views", v.sentence, top, sections, charts)


def _table(table: HtmlTable) -> Markup:
    return render("table.html", table=table)


def _facts(choice: Choice, verdict: Verdict) -> list[Fact]:
    gain = points(verdict.gain, verdict.error) if verdict.differs else "none"
    note = "points over the recipe, ± one standard deviation" if verdict.differs else "the recipe is the choice"
    tried = len(verdict.standings)
    return [
        Fact("Expected gain", gain, note),
        Fact("Judged by", f"{choice.labels:,} labels" if choice.labels else "no labels", choice.judged_by),
        Fact("Pilots", str(len(choice.pilots)), f"of {choice.plan.epochs} epochs on {choice.images:,} images"),
        Fact("Families tried", str(tried), f"with {len(verdict.effects)} changes of the recipe"),
        Fact("The choice", verdict.family.text, verdict.family.sentence),
    ]


def _failed(choice: Choice) -> list[str]:
    return [f"{name}: {message.removeprefix('failed: ')}" for name, message in choice.failed.items()]


def _unknown(choice: Choice, verdict: Verdict) -> list[str]:
    return [] if choice.labels else [without_labels(_open_questions(choice, verdict))]


def _open_questions(choice: Choice, verdict: Verdict) -> list[str]:
    """The factors that were left to the choice; those of colour only where the recipe has colour, as images do."""
    return [n for n, f in VIEW_FACTORS.items() if n not in choice.locks and (verdict.recipe.colour or not f.colour)]


def _effects_chart(verdict: Verdict) -> BarChart:
    effects = best_first(verdict.effects)
    words = [effect_in_words(e) for e in effects]
    alt = "; ".join(f"{w} {points(e.points, e.error)}" for w, e in zip(words, effects, strict=True))
    name = "points"
    return BarChart(
        "effects", "Effect of each change of the recipe", "points", words,
        {name: [round(e.points, 2) for e in effects]}, f"In points, ± one standard deviation: {alt}.", "+.1f",
        {name: [round(e.error, 2) for e in effects]},
    )  # fmt: skip


def _about_effects(verdict: Verdict) -> str:
    if not verdict.labelled:
        return (
            "What these changes are expected to add, in points, by what they added on other images; not to mirror, "
            "by how well pilots tell mirror images from yours (it is done from 4 points on). The other changes cannot "
            "be judged without labels."
        )
    return (
        "What one change of the recipe adds to the score (below), in points, on average over families. A bar whose "
        "line crosses zero may be noise. Changes together can do more or less than their sum, so the best family may "
        "have one that costs points on average. Of a change that few pilots tried, it is what the change added on "
        "other images."
    )


def _standings(verdict: Verdict) -> HtmlTable:
    heads = ["family", "score" if verdict.labelled else "relative score", "gain", "pilots"]
    rows = [
        [family_in_words(s.family, verdict), f"{s.score:.1f}", gain_in_words(s, verdict), str(s.pilots)]
        for s in verdict.standings
    ]
    return HtmlTable(heads, rows)


def _about_standings(verdict: Verdict) -> str:
    if not verdict.labelled:
        return "The points that are expected over the recipe."
    return (
        "The score that is expected of each family, and its gain over the recipe, by all pilots together: families "
        "that share factors tell of each other, so a score is not the mean of a family's own pilots. The score is the "
        "accuracy on the labelled images, in percent. With few labels, pilots that agree on unlabelled images have a "
        "higher score than that, and others a lower one."
    )


def _gallery(verdict: Verdict, images: ImageSet, limits: Limits) -> Gallery:
    generator = np.random.default_rng(0)
    shown = images.subset(varied(images, _SHOWN, generator))
    names = captions(shown)
    sources = {"the choice": verdict.family, "the recipe": verdict.recipe}
    if not verdict.differs:
        sources = {"the choice, which is the recipe": verdict.recipe}
        others = [s.family for s in verdict.standings if s.family != verdict.recipe]
        if others:
            sources["the best other"] = others[0]
    pairs = [pair_pictures(*_views(shown, family, images.mean, limits)) for family in sources.values()]
    rows = [GalleryRow(picture(shown.images[i], names[i]), [of[i] for of in pairs]) for i in range(len(shown))]
    return Gallery(list(sources), rows)


def _views(images: ImageSet, family: Family, fill: tuple[int, ...], limits: Limits) -> tuple[NDArray[Any], Plan]:
    _, height, width, channels = images.images.shape
    generator = np.random.default_rng(1)
    source = fitted_source(limits.source(family.source()), channels, images.images.dtype)
    plan = Plan.draw(source, len(images), (height, width), generator, family.placement)
    return make_views(images.images, plan, fill=fill), plan


def _questions(choice: Choice, verdict: Verdict) -> HtmlTable:
    effects: dict[str, list[str]] = {}
    if choice.alike_in_colour is not None:
        effects["colour"] = [f"images that look alike without colour are {colours_in_words(choice.alike_in_colour)}"]
    for e in verdict.effects:
        effects.setdefault(e.factor, []).append(f"{effect_in_words(e)}: {points(e.points, e.error)}")
    rows: list[list[str]] = []
    for name, factor in VIEW_FACTORS.items():
        question = Markup("{}<small>{}</small>").format(factor.question, name)
        if name in choice.locks:
            answer = "yes" if choice.locks[name] else "no"
            rows.append([question, f"you said {answer}", ""])
        elif name in _open_questions(choice, verdict) or name in effects:
            said = "; ".join(effects.get(name, ["nothing, without labels"]))
            rows.append([question, _OPTIONS.format(name=name), said])
        else:
            rows.append([question, "the images have no colours", ""])
    return HtmlTable(["question", "your answer", "what pilots say"], rows)


def _pilots(choice: Choice) -> HtmlTable:
    names = list(choice.pilots[0].signals) if choice.pilots else []
    heads = ["pilot", "seed", *(["labels, in %"] if choice.labels else []), *names]
    rows = [
        [
            p.family.text, str(p.seed), *([f"{p.accuracy:.1f}"] if p.accuracy is not None else []),
            *(f"{p.signals.get(name, float('nan')):.1f}" for name in names),
        ]
        for p in choice.pilots
    ]  # fmt: skip
    return HtmlTable(heads, rows)


def _method(choice: Choice) -> str:
    s: Mapping[str, object] = choice.settings
    by_labels = (
        "Each labelled image was classified by others, by ridge regression and by neighbours. Where there are "
        "unlabelled images and few labels, it also counts whether a pilot, taught by the labels, names the unlabelled "
        "images as the other pilots do. A model of all pilots at once gives the effect of each factor and its "
        "uncertainty."
        if choice.labels
        else "Without labels, pilots say only how well mirror images can be told from the images (mirrored, in "
        "percent; chance is 50) and how many dimensions their features use (rankme)."
    )
    return (
        f"{len(choice.pilots)} pilots: {s['encoder']}, {choice.plan.epochs} epochs on {choice.images:,} images of "
        f"{s['size']} pixels, batches of {s['batch_size']}, seed {s['seed']}; judged by {choice.judged_by}. "
        f"{by_labels} Made by coviews {importlib.metadata.version('coviews')}; {VIEWS} holds the choice."
    )
