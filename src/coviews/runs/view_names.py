"""What `--views` may name, besides families of views and files of policies."""

from coviews.errors import unknown
from coviews.policies.factors import FAMILIES, RECIPE, Family, is_family, named_family
from coviews.policies.fixed import FIXED
from coviews.policies.named import IN_TRAINING, is_policy_file

VIEWS = (*FIXED, *IN_TRAINING)
DEFAULT_VIEWS = "recipe-keep"  # better than the recipe on average, and behind it nowhere: docs/results.md
CHOOSE, SELF_RANDAUGMENT, SELF_AUGMENT, POPULATION = "choose", "selfrandaugment", "selfaugment", "population"
# what `coviews pretrain` finds before it trains, and how Python finds the same
CHOSEN_FIRST = {
    CHOOSE: "coviews.choose(data) first, and give its file as views",
    SELF_RANDAUGMENT: "coviews.self_randaugment(settings, out) first, and train with its settings",
    SELF_AUGMENT: "coviews.self_augment(settings, out) first, and train with its settings",
    POPULATION: "coviews.population_augment(settings, out) first, and train with its settings",
}
SEARCHED_FIRST = (SELF_RANDAUGMENT, SELF_AUGMENT, POPULATION)  # those of them that need no labels and no answers
# the settings that name what they change
MADE_FROM = {"hardviews": "hard_source", "viewmaker": "viewmaker_source", "infomin-flow": "viewmaker_source"}


def check_view_name(name: str) -> None:
    """An error if no views are called so."""
    if name not in VIEWS and not is_policy_file(name):
        if not is_family(name) and name not in CHOSEN_FIRST:
            raise unknown("view source", name, [*VIEWS, *FAMILIES, *CHOSEN_FIRST])
        view_family(name)


def view_family(name: str) -> Family:
    """A family by name; the recipe stands in for views that are still to be chosen."""
    return RECIPE if name in CHOSEN_FIRST else named_family(name)
