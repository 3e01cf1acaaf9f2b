"""Makes the figures of this folder again: `python docs/figures/make.py`."""

from pathlib import Path

from coviews.report.figures import write_figures
from coviews.report.reward_chart import reward_chart

if __name__ == "__main__":
    for path in write_figures([reward_chart()], Path(__file__).parent):
        print(path)
