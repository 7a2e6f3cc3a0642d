"""Six compiled updates with dropout, with and without CUDA graphs. Run as a program on a GPU.

A test runs it in a process of its own: the compiler cannot see through the check of shapes that
tests switch on.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from focus.training.loop import Trainer
from tests.training.samples import tiny_run


def main() -> None:
    """Compare the losses of all updates."""
    found = []
    for capture in (False, True):
        config = replace(tiny_run("sudoku", "none", updates=6), compile=True, capture=capture)
        updater = replace(config.solver.updater, dropout=0.1)
        config = replace(config, solver=replace(config.solver, updater=updater))
        lines: list[dict] = []
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(config, Path(folder), "cuda:0")
            trainer.run(lambda update, line, lines=lines: lines.append(line))
        found.append([line["loss"] for line in lines])
    print(found)
    for eager, captured in zip(*found, strict=True):
        assert abs(captured - eager) <= 2e-3 * abs(eager)


if __name__ == "__main__":
    main()
