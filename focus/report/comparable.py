"""Runs that may be compared: those that differ only in method, backbone and seed.

Where a report holds runs of several settings (another number of updates, other puzzles, another
test), each setting has a letter, and nothing is averaged or compared across letters.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

from focus.errors import UserError
from focus.report.runs import Evaluated
from focus.settings import Role, walk

# What TRMs must have in common among themselves.
_OF_A_TRM = ("task.decoder", "solver.trm.", "optimizer.", "deep_supervision.", "more_data")


def letter_settings(runs: Sequence[Evaluated]) -> tuple[list[Evaluated], list[str]]:
    """The runs with the letters of their settings where there are several; what each means."""
    lettered: list[Evaluated] = []
    notes: list[str] = []
    for task in dict.fromkeys(run.task for run in runs):
        mine = [run for run in runs if run.task == task]
        settings = [_setting(run) for run in mine]
        distinct = _distinct(settings)
        for run, setting in zip(mine, settings, strict=True):
            place = next(i for i, one in enumerate(distinct) if _same(one, setting))
            lettered.append(replace(run, letter=_letter(place)) if len(distinct) > 1 else run)
        if len(distinct) > 1:
            differing = [n for n in distinct[0] if len({one.get(n) for one in distinct}) > 1]
            for place, setting in enumerate(distinct):
                values = ", ".join(f"{name} {setting.get(name)}" for name in differing)
                notes.append(f"{task} {_letter(place)}: {values}.")
    _refuse_duplicates(lettered)
    return [next(r for r in lettered if r.folder == run.folder) for run in runs], notes


def _setting(run: Evaluated) -> dict[str, str | None]:
    """All that must agree, by dotted name; None agrees with anything."""
    fields = list(walk(run.config))
    setting: dict[str, str | None] = {
        name: json.dumps(value) for name, role, value in fields if role is Role.IDENTITY
    }
    setting["data"] = Path(run.config.data).name
    setting["test puzzles"] = str(next(iter(run.results.values()))["n"])
    setting["symmetry_retries"] = str(run.symmetry_retries)
    setting["early_stop"] = str(run.early_stop)
    # Nothing is trained, or by another recipe.
    is_trm = run.config.solver.answer == "trm"
    if run.method == "base" or is_trm:
        same = ("task.", "data", "test puzzles", "symmetry_retries", "early_stop")
        setting = {name: v if name.startswith(same) else None for name, v in setting.items()}
    elif run.config.step_weights == "final":  # a method that has no teacher
        setting |= {name: None for name in setting if name.startswith("teacher.")}
    # What a method sets may differ between methods, not between the runs of one.
    whose, own = run.method, [(name, value) for name, role, value in fields if role is Role.METHOD]
    if is_trm:
        whose, own = "TRM", [(n, value) for n, _, value in fields if n.startswith(_OF_A_TRM)]
    return setting | {f"{whose}'s {name}": json.dumps(value) for name, value in own}


def _same(one: dict, other: dict) -> bool:
    return all(
        one.get(name) == value or value is None or one.get(name) is None
        for name, value in other.items()
    )


def _distinct(settings: list[dict]) -> list[dict]:
    """Each setting once; those that say most come first, so that the others can join them."""
    distinct: list[dict] = []
    for setting in sorted(settings, key=lambda s: sum(v is None for v in s.values())):
        match = next((one for one in distinct if _same(one, setting)), None)
        if match is None:
            distinct.append(dict(setting))
        else:  # it says what the others leave open
            match |= {name: v for name, v in setting.items() if v is not None}
    return distinct


def _letter(place: int) -> str:
    return ascii_uppercase[place] if place < 26 else f"#{place + 1}"


def _refuse_duplicates(runs: Sequence[Evaluated]) -> None:
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
