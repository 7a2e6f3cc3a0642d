"""Six compiled updates with dropout, with and without CUDA graphs. Run as a program on a GPU.

With a language model, whose projections are joined where its layers are compiled, also without
dropout, and then without compilation: one that reads, whose text is held, and one that writes. A
test runs this in a process of its own: the compiler cannot see through the check of shapes that
tests switch on. Last, layers that are compiled and compute their activations twice.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from focus.model.checkpoint import trained_weights
from focus.training.config import TextKLConfig
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


def losses(
    backbone: str, answer: str, dropout: float, device: str, recompute: bool = False, **how: bool
) -> list[float]:
    """Of all updates of a run."""
    config = replace(tiny_run("sudoku", backbone, updates=6), **how)
    if backbone != "none" and answer == "revised":
        config = replace(config, text_kl=TextKLConfig(1.0, length=160))
    solver = replace(
        config.solver, answer=answer, updater=replace(config.solver.updater, dropout=dropout),
        backbone=replace(
            config.solver.backbone, lora_dropout=5 * dropout, gradient_checkpointing=recompute
        ),
    )  # fmt: skip
    lines: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(replace(config, solver=solver), Path(folder), device)
        for name, weight in trained_weights(trainer.model).items():
            if "lora_B" in name:  # of zeros at first: then no mask of the adapter's dropout matters
                torch.nn.init.normal_(weight, std=0.5)
        trainer.run(lambda update, line: lines.append(line))
    return [line["loss"] for line in lines]


def main(device: str = "cuda:0") -> None:
    """Compare the losses of all updates."""
    read, write = ("tiny-llama", "revised"), ("tiny-llama", "written")
    for *model, dropout in (
        ("none", "revised", 0.1), (*read, 0.1), (*read, 0.0), (*write, 0.1), (*write, 0.0)
    ):  # fmt: skip
        eager, captured = (
            losses(*model, dropout, device, compile=True, capture=capture)
            for capture in (False, True)
        )
        print(model, eager, captured)
        torch.testing.assert_close(captured, eager, rtol=2e-3, atol=0)
        if not dropout:
            plain = losses(*model, dropout, device, compile=False, capture=False)
            print("without compilation", plain)
            torch.testing.assert_close(eager, plain, rtol=1e-2, atol=0)
    kept, recomputed = (
        losses(*read, 0.0, device, recompute, compile=True, capture=True)
        for recompute in (False, True)
    )
    print("recomputed", kept, recomputed)
    torch.testing.assert_close(recomputed, kept, rtol=2e-3, atol=0)


if __name__ == "__main__":
    main()
