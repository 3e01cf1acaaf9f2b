"""A run in a sentence and a few numbers."""

from dataclasses import dataclass
from typing import Any

from coviews.evaluation.measures import MAIN, MEASURES
from coviews.policies.factors import views_title
from coviews.report.policy_charts import clear_preferences, crop_preferences, learned_text
from coviews.report.record import RunRecord, number


@dataclass(frozen=True)
class Fact:
    """One number of the summary."""

    name: str
    value: str
    note: str = ""


def sentence(run: RunRecord) -> str:
    """The method, the images, the views and the epochs of a run."""
    config, start = run.config, run.start
    images = number(start, "images")
    data = f"{images:,.0f} images of {data_name(run)}" if images else data_name(run)
    epochs = number(config, "epochs")
    done = f"{run.epochs_done} of {epochs:.0f} epochs" if epochs and not run.finished else f"{run.epochs_done} epochs"
    spent = run.seconds()
    time = f" in {duration_in_words(spent)}" if spent else ""
    state = "" if run.finished else " It is not finished."
    method = config.get("method", "An encoder")
    method = method.get("name", "An encoder") if isinstance(method, dict) else method
    model = f"{method} on {config.get('encoder', 'an unknown encoder')}"
    return f"{model}, trained on {data} with {views_title(str(config.get('views', 'unknown')))}: {done}{time}.{state}"


def facts(run: RunRecord) -> list[Fact]:
    """The cards at the top of the page; unknown facts are left out."""
    every = (_quality(run), _evaluated(run), _learned(run), _cooperation(run), _time(run), _data(run))
    return [fact for fact in every if fact is not None]


def duration_in_words(seconds: float) -> str:
    """Such as 7 s, 12 min 30 s or 1 h 2 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def data_name(run: RunRecord) -> str:
    """The name of the run's images."""
    return str(run.config.get("data", "unknown images"))


def recorded_accuracy(evaluation: Any, name: str) -> float | None:
    """An accuracy in 0..1, whether the results hold a number by this name or a dict with the accuracy."""
    if not isinstance(evaluation, dict):
        return None
    share = number(evaluation.get(name), "accuracy")
    return share if share is not None else number(evaluation, name)


def results_of(evaluation: dict[str, Any]) -> dict[str, Any]:
    """The results in a line of evaluations.jsonl: the line itself, or a field of it."""
    for name in ("result", "results"):
        if isinstance(evaluation.get(name), dict):
            return evaluation[name]
    return evaluation


def _quality(run: RunRecord) -> Fact | None:
    for name, suffix in (("knn", " accuracy"), ("rankme", "")):
        measure, (epochs, values) = MEASURES[name], run.series("look", name)
        if values:
            unit = f" {measure.unit}" if measure.unit else ""
            before = f"untrained {values[0]:.1f}{unit}" if epochs[0] == 0 and len(values) > 1 else ""
            judged = str(run.start.get("looks_at", "")) if name == "knn" else "no labels: dimensions in use"
            at = f"at epoch {epochs[-1]:.0f}" if not run.finished else ""
            return Fact(
                measure.title + suffix, f"{values[-1]:.1f}{unit}", "; ".join(t for t in (before, at, judged) if t)
            )
    return None


def _evaluated(run: RunRecord) -> Fact | None:
    for evaluation in reversed(run.evaluations):
        share = recorded_accuracy(results_of(evaluation), MAIN)
        if share is not None:
            return Fact(MEASURES[MAIN].heading, f"{100 * share:.1f} %", "of the last evaluation")
    return None


def _learned(run: RunRecord) -> Fact | None:
    if not run.statistics:
        return None
    newest = run.statistics[max(run.statistics)]
    more, less = clear_preferences(newest)
    crops = "other crops" if crop_preferences(newest.placement) else "nothing"
    clearest = [f"{word} {newest.space.ops[i]}" for word, some in (("more", more), ("less", less)) for i in some[:1]]
    return Fact("Learned", ", ".join(clearest) or crops, learned_text(newest))


def _cooperation(run: RunRecord) -> Fact | None:
    if not run.statistics:
        return None
    epoch = max(run.statistics)
    kind, bits = run.policies[epoch].kind, run.statistics[epoch].information
    note = "views are drawn apart" if kind == "indepviews" else "that an operation of view 1 tells of one of view 2"
    return Fact("Cooperation of the views", f"{bits:.3f} bits", note)


def _time(run: RunRecord) -> Fact | None:
    spent, searching = run.seconds(), run.seconds("search")
    if not spent:
        return None
    count = len(run.of_kind("search"))
    share = searching / spent
    percent = f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
    note = f"{percent} of it in {count} search{'es' if count > 1 else ''}" if count else ""
    return Fact("Time", duration_in_words(spent), note)


def _data(run: RunRecord) -> Fact | None:
    images = number(run.start, "images")
    if images is None:
        return None
    sides = [number(run.start, name) for name in ("height", "width", "channels")]
    size = " x ".join(f"{side:.0f}" for side in sides[:2] if side)
    colour = {1.0: "grey", 3.0: "colour", 0.0: ""}.get(sides[2] or 0.0, f"{sides[2] or 0:.0f} channels")
    colour += ", 16 bits" if number(run.start, "depth") == 16 else ""
    classes = run.start.get("classes")
    class_count = f"{len(classes)} classes" if isinstance(classes, list) and classes else "no labels"
    broken = number(run.start, "broken") or 0
    unread = f"{broken:.0f} could not be read" if broken else ""
    return Fact("Images", f"{images:,.0f}", ", ".join(t for t in (size, colour, class_count, unread) if t))
