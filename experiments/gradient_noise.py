"""How far does the gradient of one update point downhill, for each gradient scale between steps?

python -m experiments.gradient_noise RUN [RUN ...] [--batches 64] [--out NAME]

The loss of a rollout goes back through all of its steps, and what has come a long way may be mostly
noise. The mean gradient of many batches, none of it scaled, is the direction that an update looks
for; the cosine between it and the gradient of a single other batch says how much of it one finds.
A scaled gradient is another one than that of the loss, and may still find more. The figures go to
docs/results/NAME.json.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.stored import RESULTS, command_line, markdown, one_line, resumed, this_device
from focus.files import write_text
from focus.model.precision import mixed_precision
from focus.model.solver import solver_of
from focus.training.config import TeacherConfig, read_config
from focus.training.puzzles import load_puzzles

SCALES = (1.0, 0.9, 0.8, 0.6, 0.3)


class Gradients:
    """The gradients of a saved run's base loss."""

    def __init__(self, folder: Path, device: str):
        config = replace(
            read_config(folder / "config.json"), capture=False, compile=False,
            teacher=TeacherConfig(),
        )  # fmt: skip
        self.trainer = resumed(config, folder, device, load_puzzles(config, device))
        self.solver = solver_of(self.trainer.model, str(folder))

    def loss(self, number: int, scale: float) -> Tensor:
        """Of a batch that the run has not met."""
        config, solver, device = self.trainer.config, self.solver, self.trainer.device
        updater = solver.updater
        updater.config = replace(updater.config, bptt_gradient_scale=scale)
        update = torch.tensor(config.optimizer.updates + number, device=device)
        rows = torch.arange(config.optimizer.batch, device=device)
        batch = self.trainer.step_runner.sampler.batch(update, update, rows)
        solver.train()
        torch.manual_seed(number)  # the same dropout for every scale
        with mixed_precision(torch.device(device)):
            x = batch.x
            rollout = solver.roll(updater.initial(x), solver.encode(x), x, config.steps)
            return solver.loss(rollout.answers, x, batch.y, config.step_weights).mean()

    def of(self, number: int, scale: float) -> Tensor:
        """The gradient of a batch as one vector."""
        weights = self.trainer.step_runner.optimizer.vector.named.values()
        gradients = torch.autograd.grad(self.loss(number, scale), tuple(weights))
        return torch.cat([gradient.flatten() for gradient in gradients])

    def study(self, batches: int) -> dict:
        """Norms and cosines of every scale."""
        downhill = sum(self.of(n, 1.0) / batches for n in range(batches))
        scales: dict[str, dict] = {}
        for scale in SCALES:
            found = [self.of(n, scale) for n in range(batches, 2 * batches)]
            cosines = [float(torch.cosine_similarity(one, downhill, 0)) for one in found]
            scales[str(scale)] = {"norm": [float(one.norm()) for one in found], "cosine": cosines}
        return {"update": self.trainer.update, "scales": scales}


def table(figures: dict) -> str:
    """For each run and scale: norms, the cosine, and what it gains over the unscaled gradient's."""
    head = ["updates", "scale", "norm: median", "largest", "cosine with the mean gradient"]
    rows = [[*head, "over the unscaled one"]]
    for run in figures["runs"].values():
        unscaled = np.array(run["scales"]["1.0"]["cosine"])
        for scale, found in run["scales"].items():
            cosine = np.array(found["cosine"])
            gain = cosine - unscaled  # of the same batches
            error = gain.std(ddof=1) / len(gain) ** 0.5
            norms = (f"{np.median(found['norm']):.2f}", f"{max(found['norm']):.1f}")
            ahead = "–" if scale == "1.0" else f"{gain.mean():+.3f} ± {error:.3f}"
            rows.append([f"{run['update']:,}", scale, *norms, f"{cosine.mean():.3f}", ahead])
    return markdown(rows)


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--batches", type=int, default=64)
    parser.add_argument("--out", default="gradient-noise")
    words = parser.parse_args()
    device, name = this_device()
    figures: dict = {"device": name, "runs": {}}
    with one_line("gradient_noise"):
        for folder in words.runs:
            figures["runs"][folder.name] = Gradients(folder, device).study(words.batches)
        print(table(figures), flush=True)
    write_text(RESULTS / f"{words.out}.json", json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
