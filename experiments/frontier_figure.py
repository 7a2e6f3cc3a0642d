"""Draw docs/figures/frontier.svg: what FOCUS selects over a run, from a stored curve.

python -m experiments.frontier_figure
"""

import shutil
import tempfile
from pathlib import Path

import matplotlib

from experiments.stored import command_line
from focus import recipe
from focus.report.plots import curation_histograms
from focus.report.runs import Evaluated

DOCS = Path(__file__).parents[1] / "docs"
CURVE = DOCS / "results" / "sudoku-quick.jsonl"
DRAWN = DOCS / "figures" / "frontier.svg"


def main() -> None:
    """The command line."""
    command_line(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(CURVE, Path(folder, "metrics.jsonl"))
        run = Evaluated(Path(folder), recipe("sudoku-quick"), {})
        with matplotlib.rc_context({"svg.hashsalt": "focus", "font.size": 8}):
            figure = curation_histograms(run)
            assert figure is not None
            figure.savefig(DRAWN, metadata={"Date": None}, bbox_inches="tight")
    print(DRAWN)


if __name__ == "__main__":
    main()
