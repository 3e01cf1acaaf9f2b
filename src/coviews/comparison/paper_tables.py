"""The paper's tables and figures: what is trained for each, and the figures that it prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coviews.errors import CoviewsError, unknown
from coviews.runs.presets import PRESETS
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import changed_settings
from coviews.searching.ppo import PPOSettings

Changes = Mapping[str, Any]  # settings by name; nested ones as mappings

SMALL_EPOCHS, SMALL_IMAGES = 60, 5000


@dataclass(frozen=True)
class Recipe:
    """One table or figure: rows (what is varied) and columns (data sets, or other settings)."""

    name: str
    about: str
    rows: Mapping[str, Changes]
    columns: Mapping[str, str]  # the preset of each
    paper: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # the paper's figures of a row
    measure: str = "linear"  # what the table shows: linear, knn, or overhead (time over that of the first row)
    shows: str = "table"  # or evolution, co-occurrence, reward
    seeds: int = 3  # at the small scale
    more: Mapping[str, Changes] = field(default_factory=dict)  # rows that the paper does not have
    own_data: bool = False  # the images are the user's, not the paper's

    def settings(self, row: str, column: str, scale: str, epochs: int | None = None) -> PretrainSettings:
        """What is trained for a cell, in the scale's epochs or in others."""
        base = PRESETS[self.columns[column]]
        if scale == "small":
            base = small(base, SMALL_EPOCHS if epochs is None else epochs)
        elif epochs is not None:
            base = with_epochs(base, epochs)
        return changed_settings(base, self.all_rows[row])

    def on_data(self, name: str, column: str) -> "Recipe":
        """The same with the settings of one column on other images, of which the paper has no figures."""
        about = f"{self.about}; here on {name} instead"
        return replace(self, about=about, columns={name: self.columns[column]}, paper={}, own_data=True)

    @property
    def all_rows(self) -> dict[str, Changes]:
        """The paper's rows, and ours."""
        return {**self.rows, **self.more}

    def printed(self, row: str, column: str) -> float | None:
        """The paper's figure."""
        place = list(self.columns).index(column)
        figures = self.paper.get(row, ())
        return figures[place] if place < len(figures) else None


def small(settings: PretrainSettings, epochs: int = SMALL_EPOCHS) -> PretrainSettings:
    """The same on 5,000 images, with an encoder and a search for a CPU."""
    smaller = settings.replaced(
        encoder="resnet8", batch_size=128, lr=0.12, subset=str(SMALL_IMAGES), search=PPOSettings()
    )
    return with_epochs(smaller, epochs)


def with_epochs(settings: PretrainSettings, epochs: int) -> PretrainSettings:
    """The same in so many epochs; the warm-up and the time between searches shrink with them."""
    every = min(10, max(1, epochs // 6))
    return settings.replaced(epochs=epochs, warmup_epochs=min(10, epochs // 6), search={"every": every})


_RANDOM: Changes = {"views": "random"}
_LEARNED: dict[str, Changes] = {"IndepViews": {"views": "indepviews"}, "CoViews": {"views": "coviews"}}
_RANDAUGMENT: dict[str, Changes] = {
    f"RandAug M={m}": {"views": "randaugment", "magnitude": m} for m in (9, 15, 27)
}  # fmt: skip
_CONTROLS: dict[str, Changes] = {"SimCLR's recipe": {"views": "simclr"}, "Uniform": {"views": "uniform"}}
_OTHERS: dict[str, Changes] = {
    **_CONTROLS,
    "RandAug M=9": _RANDAUGMENT["RandAug M=9"],
    "Hard views": {"views": "hardviews", "hard_views": 4, "hard_crops": 0},
    "IndepViews by table": {"views": "indepviews", "search": "table"},
    "CoViews by table": {"views": "coviews", "search": "table"},
    "Uniform in all operations": {"views": "uniform", "space": "all"},
    "CoViews by table in all operations": {"views": "coviews", "search": "table", "space": "all"},
}
_SETS = {
    "CIFAR-10": "paper-cifar10", "CIFAR-100": "paper-cifar100", "SVHN": "paper-svhn", "STL10": "paper-stl10",
    "TinyImageNet": "paper-tinyimagenet",
}  # fmt: skip
# labels for presets whose training images have none
JUDGED_ON = {name: {"data": "stl10:train", "test_data": "stl10:test"} for name in ("paper-stl10", "paper-stl10-5")}
_CIFAR10 = {"CIFAR-10": "paper-cifar10"}


def _reward(bound: str, **figures: float) -> Changes:
    return {"views": "coviews", "search": {"reward": {"bound": bound, **figures}}}


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "table-linear",
            "Linear accuracy of six view sources on five data sets",
            {**_RANDAUGMENT, "Random": _RANDOM, **_LEARNED},
            _SETS,
            {
                "RandAug M=9": (92.61, 68.54, 94.27, 89.98, 30.41),
                "RandAug M=15": (93.16, 70.46, 95.48, 91.05, 31.20),
                "RandAug M=27": (92.55, 69.11, 94.01, 90.88, 30.43),
                "Random": (92.92, 69.56, 96.52, 91.90, 30.23),
                "IndepViews": (93.68, 72.14, 96.58, 93.01, 35.07),
                "CoViews": (93.79, 72.28, 96.69, 93.67, 36.29),
            },
            seeds=1,
            more=_CONTROLS,
        ),
        Recipe(
            "table-less-data",
            "Linear accuracy after pretraining on 5,000 images",
            {"Random": _RANDOM, **_LEARNED},
            {"CIFAR-10 10%": "paper-cifar10-10", "STL10 5%": "paper-stl10-5"},
            {"Random": (69.20, 61.68), "IndepViews": (74.48, 71.08), "CoViews": (75.05, 69.73)},
            more=_OTHERS,
        ),
        Recipe(
            "table-overhead",
            "What learning the views costs: the time of a run over that with random views, less 1",
            {"Random": _RANDOM, **_LEARNED},
            {**_SETS, "MoCo on CIFAR-10": "paper-moco-4096"},
            # the paper has one figure for both, and for STL10 two: 1.57 without the unlabelled images, 0.13 with them
            {name: (0.46, 0.41, 0.41, 0.13, 0.04, 0.26) for name in _LEARNED},
            measure="overhead",
            seeds=1,
        ),
        Recipe(
            "table-simclr-ops",
            "Linear accuracy with SimCLR's own operations, by hand and learned",
            {
                "SimCLR's recipe": {"views": "simclr"},
                "CoViews same range": {"views": "coviews", "space": "simclr"},
                "CoViews wider": {"views": "coviews", "space": "simclr-wide"},
            },
            _CIFAR10,
            {"SimCLR's recipe": (92.93,), "CoViews same range": (93.04,), "CoViews wider": (92.91,)},
        ),
        Recipe(
            "table-moco",
            "kNN accuracy with MoCo",
            {"Random": _RANDOM, **_LEARNED},
            {"queue of 4096": "paper-moco-4096", "queue of 65536": "paper-moco-65536"},
            {"Random": (81.13, 81.07), "IndepViews": (82.23, 82.27), "CoViews": (82.98, 82.83)},
            measure="knn",
            more={
                "Uniform": {"views": "uniform"},
                "IndepViews with a target": {"views": "indepviews", "search": {"hardness": 0.1}},
                "CoViews with a target": {"views": "coviews", "search": {"hardness": 0.1}},
            },
        ),
        Recipe(
            "figure-evolution",
            "How the probability of each operation moves over the epochs",
            _LEARNED,
            _CIFAR10,
            shows="evolution",
            seeds=1,
        ),
        Recipe(
            "figure-cooccurrence",
            "Which operations the two views use together",
            _LEARNED,
            _CIFAR10,
            shows="co-occurrence",
            seeds=1,
        ),
        Recipe("figure-reward", "The reward's shape for several tolerances", {}, {}, shows="reward", seeds=0),
        Recipe(
            "ablation-threshold",
            "Linear accuracy for several thresholds of the reward's bound (the paper shows a plot, without figures)",
            {f"th = {th}": _reward("ratio", threshold=th) for th in (1.1, 1.3, 1.5, 1.7, 1.9)},
            {"CIFAR-10": "paper-cifar10", "SVHN": "paper-svhn", "STL10": "paper-stl10"},
            seeds=1,
        ),
        Recipe(
            "ablation-tolerance",
            "Linear accuracy for several tolerances beyond the bound (the paper shows a plot, without figures)",
            {f"b = {b:g}": _reward("ratio", threshold=1.3, tolerance=b) for b in (1e-5, 0.2, 1e5)},
            {name: _SETS[name] for name in ("CIFAR-10", "CIFAR-100", "SVHN", "STL10")},
            seeds=1,
        ),
    )
}


def recipe(name: str) -> Recipe:
    """A table or figure by name."""
    if name not in RECIPES:
        raise unknown("table or figure of the paper", name, RECIPES)
    return RECIPES[name]


def select(names: str | None, known: Mapping[str, Any], what: str) -> list[str]:
    """Some of the known names, given with commas between them, in any case; all if none are given."""
    if names is None:
        return list(known)
    by_short = {_plain(name): name for name in known}
    selected = []
    for name in (part.strip() for part in names.split(",")):
        if _plain(name) not in by_short:
            raise unknown(what, name, known)
        selected.append(by_short[_plain(name)])
    if not selected:
        raise CoviewsError(f"no {what} is named")
    return selected


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
