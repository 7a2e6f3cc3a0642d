"""Runs that may be compared: those that differ only in method, backbone and seed.

Where a report holds runs of several settings (another number of updates, other puzzles, another
test), each setting has a letter, and nothing is averaged or compared across letters.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

from focus.config import to_json
from focus.errors import UserError
from focus.report.runs import Evaluated

# What a method, the machine, or the look at a run changes.
_FREE = (
    "format", "seed", "steps", "step_weights", "eval_steps", "eval_every", "eval_rows",
    "save_every", "log_every", "patience", "capture", "compile", "portable", "task.decoder",
    "solver.answer", "solver.trm", "solver.backbone.name", "solver.backbone.gradient_checkpointing",
    "replay.method", "replay.base_mixture", "curation.beta", "curation.restore_memory",
)  # fmt: skip
# What TRMs must have in common among themselves.
_OF_A_TRM = ("solver.trm.", "optimizer.", "carry.", "more_data")


def letter_settings(runs: Sequence[Evaluated]) -> tuple[list[Evaluated], list[str]]:
    """The runs with the letters of their settings where there are several; what each means."""
    lettered: list[Evaluated] = []
    notes: list[str] = []
    for task in dict.fromkeys(run.task for run in runs):
        mine = [run for run in runs if run.task == task]
        settings = [_setting(run) for run in mine]
        found = _distinct(settings)
        for run, setting in zip(mine, settings, strict=True):
            place = next(i for i, known in enumerate(found) if _same(known, setting))
            lettered.append(replace(run, letter=_letter(place)) if len(found) > 1 else run)
        if len(found) > 1:
            differing = [name for name in found[0] if len({f.get(name) for f in found}) > 1]
            for place, setting in enumerate(found):
                told = ", ".join(f"{name} {setting.get(name)}" for name in differing)
                notes.append(f"{task} {_letter(place)}: {told}.")
    _refuse_twins(lettered)
    return [next(r for r in lettered if r.folder == run.folder) for run in runs], notes


def _setting(run: Evaluated) -> dict[str, str | None]:
    """All that must agree, by dotted name; None agrees with anything."""
    values = _flat(json.loads(to_json(run.config)))
    kept: dict[str, str | None] = {
        name: json.dumps(value) for name, value in values.items()
        if not any(name == free or name.startswith(f"{free}.") for free in _FREE)
    }  # fmt: skip
    kept["data"] = Path(run.config.data).name
    kept["test puzzles"] = str(next(iter(run.results.values()))["n"])
    kept["turns"], kept["stop"] = str(run.turns), str(run.stop)
    # Nothing is trained, or by another recipe.
    is_trm = run.method.startswith("trm")
    if run.method == "base" or is_trm:
        same = ("task.", "data", "test puzzles", "turns", "stop")
        kept = {name: v if name.startswith(same) else None for name, v in kept.items()}
    if is_trm:
        kept |= {
            f"TRM's {name}": json.dumps(value) for name, value in values.items()
            if name == "task.decoder" or name.startswith(_OF_A_TRM)
        }  # fmt: skip
    return kept


def _flat(values: dict, above: str = "") -> dict:
    found: dict = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


def _same(one: dict, other: dict) -> bool:
    return all(
        one.get(name) == value or value is None or one.get(name) is None
        for name, value in other.items()
    )


def _distinct(settings: list[dict]) -> list[dict]:
    """Each setting once; those that say most come first, so that the others can join them."""
    found: list[dict] = []
    for setting in sorted(settings, key=lambda s: sum(v is None for v in s.values())):
        known = next((known for known in found if _same(known, setting)), None)
        if known is None:
            found.append(dict(setting))
        else:  # it says what the others leave open
            known |= {name: v for name, v in setting.items() if v is not None}
    return found


def _letter(place: int) -> str:
    return ascii_uppercase[place] if place < 26 else f"#{place + 1}"


def _refuse_twins(runs: Sequence[Evaluated]) -> None:
    """Two evaluations of one run would count as two seeds."""
    seen: dict[tuple, Evaluated] = {}
    for run in runs:
        key = (run.task, run.where, run.method, run.seed, run.control)
        if key in seen:
            raise UserError(
                f"{seen[key].folder} and {run.folder} are the same run evaluated twice; "
                "name folders that hold one of them"
            )
        seen[key] = run
