"""What ends the plateau? A saved run, carried on with one of its settings changed.

python -m experiments.carried_on RUN [--until 16000] [--only NAME ...] [--out NAME]

In the paper's regime the share of training puzzles that are exact after a base rollout rises slowly
for twenty thousand updates and fast afterwards, in all seeds. From the same saved state, weights
and optimizer, each choice of `experiments/studies.py` is trained on the same puzzles. RUN stays as
it is. The figures go to docs/results/NAME.json.
"""

import json
from pathlib import Path

import torch

from experiments.stored import RESULTS, command_line, markdown, one_line, resumed, this_device
from experiments.studies import ALL_CHOICES
from focus.errors import UserError
from focus.files import write_text
from focus.training.config import read_config
from focus.training.loop import Trainer
from focus.training.puzzles import load_puzzles


def carry_on(trainer: Trainer, until: int, every: int) -> list[dict]:
    """Train a resumed run until an update; a line of metrics for each window."""
    sums, lines = trainer.step_runner.metric_sums, []
    sums.reset()
    while trainer.update < until:
        trainer.train_update()
        if trainer.update % every == 0 or trainer.update == until:
            line = sums.read()
            sums.reset()
            lines.append({"update": trainer.update, "loss": line["loss"], "exact": line["exact"]})
    return lines


def table(figures: dict) -> str:
    """Training exact of every change."""
    names = list(figures["runs"])
    rows = [["update", *names]]
    for lines in zip(*figures["runs"].values(), strict=True):
        exact = (f"{100 * line['exact']:.1f}" for line in lines)
        rows.append([f"{lines[0]['update']:,}", *exact])
    return markdown(rows)


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--until", type=int, default=16_000)
    parser.add_argument("--every", type=int, default=500, help="updates of a window")
    parser.add_argument("--only", nargs="+", choices=ALL_CHOICES, default=["as-is"])
    parser.add_argument("--out", default="carried-on")
    words = parser.parse_args()
    device, name = this_device()
    figures: dict = {"device": name, "runs": {}}
    with one_line("carried_on"):
        config = read_config(words.run / "config.json")
        for change in words.only:
            changed = ALL_CHOICES[change](config)
            trainer = resumed(changed, words.run, device, load_puzzles(changed, device))
            if trainer.update >= words.until:
                raise UserError(f"{words.run} is at update {trainer.update} already; raise --until")
            figures["runs"][change] = carry_on(trainer, words.until, words.every)
            del trainer
            torch.compiler.reset()
        print(table(figures), flush=True)
        write_text(RESULTS / f"{words.out}.json", json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
