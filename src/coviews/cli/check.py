"""`coviews check`: is a training working?"""

import coviews
from coviews.console.options import Data, Source


def check_command(run: Source, *, data: Data = None, progress: bool = True) -> None:
    """Tell whether a training works, without labels: collapsed, not trained enough, or healthy.

    Args:
        run: The folder of a run, finished or not.
        data: Images, as for pretrain; by default those of the run.
        progress: Show what takes long.
    """
    print(coviews.check(run, data, progress=progress))
