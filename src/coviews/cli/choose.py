"""`coviews choose`: which views are useful for these images?"""

import shlex
from typing import Annotated

import tyro

from coviews.choosing.options import ChooseOptions


def choose_command(
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")],
    options: Annotated[ChooseOptions, tyro.conf.arg(name="")],
) -> None:
    """Find out which views suit these images, by short pilot trainings.

    With a few labels the choice is much better. If interrupted, the same command continues; labels can be added later.

    Args:
        data: The images, as for pretrain: a folder, a list, an array file, or the name of a known set.
        options: What is known of the images, and what the pilots may cost.
    """
    from rich.console import Console

    from coviews.choosing.choice import PAGE
    from coviews.choosing.choose import choose

    choice = choose(data, options=options)
    if choice.verdict is None:
        return
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(choice)
    else:
        print(choice)
    print(f"\nwrote {choice.file} and {choice.path / PAGE}")
    limits = {"--forbid": options.forbid, "--cap": options.cap}
    words = ["coviews", "pretrain", data, "--views", str(choice.file)]
    words += [word for flag, value in limits.items() if value for word in (flag, value)]
    print(f"next: {shlex.join(words)}")
