"""Which runs each table and figure needs, as commands that anyone could type.

A job is a few `focus` commands and a stamp that holds them once they are done. Jobs are shared: the
FOCUS run of the curation study is also that of the ablations.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from focus.errors import UserError
from focus.files import write_text
from focus.recipes import recipe
from focus.report import paper

Command = tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """One run: trained, tested."""

    name: str
    commands: tuple[Command, ...]
    stamp: Path  # holds the commands once all of them are done
    hours: float  # of one large GPU, roughly; of two cores for small puzzles
    after: tuple[str, ...] = ()  # jobs whose results it uses

    @property
    def done(self) -> bool:
        """Whether these commands, and not others of the same name, have been run."""
        try:
            return json.loads(self.stamp.read_text(encoding="utf-8")) == self._words
        except (OSError, ValueError, RecursionError):
            return False

    def finish(self) -> None:
        """Say that all of it is done."""
        write_text(self.stamp, json.dumps(self._words, indent=1) + "\n")

    @property
    def _words(self) -> list[list[str]]:
        return [list(words) for words in self.commands]


@dataclass(frozen=True)
class Scale:
    """How large the runs of a plan are."""

    recipes: dict[str, str]  # by task
    backbones: tuple[str, ...]  # language models
    studied: tuple[str, ...]  # those with which the studies are repeated, beside none
    seeds: tuple[int, ...]
    steps: dict[str, str]  # numbers of steps K of the test
    flags: dict[str, Command]  # of training, by task
    test: Command = ()  # flags of the test
    transfer: Command = ()  # flags of focus transfer
    # TRMs that are trained first, to teach a task whose recipe names no teacher
    teachers: dict[str, str] = field(default_factory=dict)


SCALES = {
    "mini": Scale(
        {"sudoku": "mini-sudoku", "maze": "mini-maze"}, ("tiny-llama",), (), (1, 2, 3),
        {"sudoku": "1,2,4,8,16", "maze": "1,2,4,8,16"},
        {
            "sudoku": ("--optimizer.updates", "60", "--eval-every", "20", "--eval-rows", "100"),
            "maze": (
                "--task.size", "6", "--task.min-path", "6", "--task.max-tokens", "36",
                "--optimizer.updates", "40", "--optimizer.batch", "24",
                "--optimizer.learning-rate", "4e-3", "--optimizer.warmup", "10",
                "--eval-every", "20", "--eval-rows", "40", "--log-every", "4", "--steps", "4",
            ),
        },
        ("--limit", "60"), ("--limit", "4", "--max-tokens", "16", "--null-seeds", "1"),
    ),
    "full": Scale(
        {"sudoku": "sudoku", "maze": "maze"}, ("smollm2-135m", *paper.BACKBONES),
        (paper.STUDIED,), (42, 43, 44),
        {"sudoku": "16,32,64,128,256", "maze": "8,16,32,64"}, {"sudoku": (), "maze": ()},
        teachers={"maze": "trm-maze-quick"},
    ),
}  # fmt: skip

_STUDY = ("random", "energy-hard", "fixed-mix", "focus")
_ABLATIONS = ("no-penalty", "random-penalty", "no-memory", "focus")
# What a table or figure needs: methods without a language model, and with each of them.
NEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "source": ((), ("base", "direct", "one-step", "recurrent", "focus")),
    "curation": (_STUDY, ()),
    "ablations": (_ABLATIONS, ()),
    "baselines": (("one-step", "recurrent", "focus"), ("base", "direct", "focus")),
    "depth": (("focus", "recurrent"), ()),
    "seeds": (tuple(dict.fromkeys((*_STUDY, *_ABLATIONS))), ()),
    "controls": (("focus",), ("focus",)),
    "transfer": ((), ("focus",)),
    "aime": ((), ("focus",)),
    "figures": (("focus", "recurrent", "one-step"), ()),
}
_STUDIES = ("curation", "ablations")
_SEVERAL = (*_STUDIES, "seeds")  # what is claimed over seeds
_CONTROLS = ("zeroed", "shuffled", "adapter-off")
# Parameters of the language models and lengths of the prompts, for the estimate.
_BILLIONS = {
    "none": 0.0, "tiny-llama": 0.0, "smollm2-135m": 0.135, "qwen3-1.7b": 1.7, "qwen3-4b": 4.0,
    "qwen3-8b": 8.0, "llama-3.2-3b": 3.2, "llama-3.1-8b": 8.0,
}  # fmt: skip
_PROMPT = {"sudoku": 87, "maze": 960}
_UPDATER_SECONDS = {"sudoku": 0.012, "maze": 0.03}  # of a small mini-batch, launches and all
# A language model in training on one H200, by the rates of 0.5 to 8 billion weights
# (docs/measured/speed.md): operations a second, and seconds of a mini-batch besides.
_LM_FLOPS, _LM_SECONDS = 5.9e14, {"sudoku": 0.02, "maze": 0.05}
_SMALL_HOURS = 12 / 3600  # of a job with small puzzles on two cores
_TEST_HOURS = 0.05
_TEACHER_HOURS = 0.1


def make_plan(
    target: str, scale: str, out: Path, data: str | None = None, allow_code: bool = False
) -> list[Job]:
    """The jobs of a table, of the figures, or of `all`, in an order that can be run."""
    if target not in (*NEEDS, "all") or scale not in SCALES:
        raise UserError(
            f"there is no {target!r} at scale {scale!r}; tables: {', '.join(NEEDS)}, all; "
            f"scales: {', '.join(SCALES)}"
        )
    jobs: dict[str, Job] = {}
    for name in NEEDS if target == "all" else (target,):
        for job in _jobs(name, SCALES[scale], out, data, allow_code):
            jobs.setdefault(job.name, job)
    return list(jobs.values())


def _jobs(
    target: str, scale: Scale, out: Path, data: str | None, allow_code: bool
) -> Iterator[Job]:
    free, with_model = NEEDS[target]
    seeds = scale.seeds if target in _SEVERAL else scale.seeds[:1]
    for task in scale.recipes:
        if task in scale.teachers and any(map(_learns_from_a_teacher, (*free, *with_model))):
            yield _teacher(scale, task, out, data)
        for backbone in ("none", *(scale.studied if target in _STUDIES else ())):
            for method in free:
                for seed in seeds:
                    run = _run(scale, task, backbone, method, seed, out, data)
                    yield run
                    if target == "depth":
                        yield _test(run, scale, task, out, "validation", "--split", "validation")
        if target == "baselines":
            yield _trm(scale, task, out, data)
        for backbone in scale.backbones:
            for method in with_model:
                run = _run(scale, task, backbone, method, scale.seeds[0], out, data)
                yield run
                if target == "controls":
                    for control in _CONTROLS:
                        yield _test(run, scale, task, out, control, "--control", control)
    if target in ("transfer", "aime"):
        for backbone in scale.backbones:
            yield _transfer(scale, backbone, out, data, allow_code)


def _run(
    scale: Scale, task: str, backbone: str, method: str, seed: int, out: Path, data: str | None
) -> Job:
    name = f"{task}-{backbone}-{method}-{seed}"
    folder = out / "runs" / name
    recipe_name = f"{scale.recipes[task]}/{backbone}/{method}"
    flags = scale.flags[task]
    # What makes the method what it is.
    fixed = {"base": "--optimizer.updates", "one-step": "--steps"}.get(method)
    flags = tuple(word for pair in _pairs(flags) if pair[0] != fixed for word in pair)
    source = ("--data", data) if data else ()
    taught = task in scale.teachers and _learns_from_a_teacher(method)
    teacher = ("--teacher.checkpoint", str(_teacher_folder(task, out))) if taught else ()
    steps = {"one-step": "1", "direct": "", "base": ""}.get(method, scale.steps[task])
    tested = ("--steps", steps) if steps else ()
    train = (
        "train", recipe_name, "--seed", str(seed), *source, *teacher, *flags, "--out", str(folder)
    )  # fmt: skip
    test = ("eval", str(folder), *tested, *scale.test, "--out", str(folder / "eval"))
    hours = _hours(recipe_name, task, backbone, method)
    after = (_teacher_folder(task, out).name,) if taught else ()
    return Job(name, ((*train, "--resume"), test), _stamp(out, name), hours, after)


def _learns_from_a_teacher(method: str) -> bool:
    """Whether it curates states; others have no teacher, as we read the paper."""
    return method not in ("base", "direct", "one-step", "recurrent")


def _teacher(scale: Scale, task: str, out: Path, data: str | None) -> Job:
    """A TRM on exactly the puzzles of the task's recipe."""
    folder = _teacher_folder(task, out)
    seed = ("--seed", str(scale.seeds[0]))
    source = ("--data", data) if data else ()
    train = ("train", scale.teachers[task], *seed, *source, "--out", str(folder), "--resume")
    return Job(folder.name, (train,), _stamp(out, folder.name), _TEACHER_HOURS)


def _teacher_folder(task: str, out: Path) -> Path:
    return out / "runs" / f"{task}-teacher"


def _trm(scale: Scale, task: str, out: Path, data: str | None) -> Job:
    name = f"{task}-trm-{scale.seeds[0]}"
    folder = out / "runs" / name
    # Steps belong to the TRM: a rollout of its student is no flag of its own.
    flags = [word for pair in _pairs(scale.flags[task]) if pair[0] != "--steps" for word in pair]
    source = ("--data", data) if data else ()
    seed = ("--seed", str(scale.seeds[0]))
    train = ("train", f"trm-{scale.recipes[task]}", *seed, *source, *flags, "--out", str(folder))
    test = ("eval", str(folder), *scale.test, "--out", str(folder / "eval"))
    hours = _SMALL_HOURS if scale.test else 10.0  # 60,000 updates of 768 puzzles
    return Job(name, ((*train, "--resume"), test), _stamp(out, name), hours)


def _stamp(out: Path, name: str) -> Path:
    return out / "jobs" / f"{name}.json"


def _pairs(flags: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(flags[::2], flags[1::2], strict=True))


def _test(run: Job, scale: Scale, task: str, out: Path, what: str, *flags: str) -> Job:
    """One more evaluation of a run."""
    name, folder = f"{run.name}-{what}", out / "runs" / run.name
    words = (
        "eval", str(folder), "--steps", scale.steps[task], *scale.test, *flags,
        "--out", str(folder / what),
    )  # fmt: skip
    hours = _SMALL_HOURS if scale.test else _TEST_HOURS
    return Job(name, (words,), _stamp(out, name), hours, (run.name,))


def _transfer(scale: Scale, backbone: str, out: Path, data: str | None, allow_code: bool) -> Job:
    runs = [f"{task}-{backbone}-focus-{scale.seeds[0]}" for task in scale.recipes]
    folder = out / "transfer" / backbone
    benchmarks = "math,math-hard,aime25,aime26" + (",cruxeval-o,cruxeval-i" if allow_code else "")
    words = (
        "transfer", "base", *(str(out / "runs" / run) for run in runs), "null", "--backbone",
        backbone, "--benchmarks", benchmarks, *(("--allow-code",) if allow_code else ()),
        *(("--data", data) if data else ()), *scale.transfer, "--out", str(folder),
    )  # fmt: skip
    hours = _SMALL_HOURS if scale.test else 0.1 + 3.0 * _BILLIONS[backbone]
    name = f"transfer-{backbone}"
    return Job(name, (words,), _stamp(out, name), hours, tuple(runs))


def _hours(recipe_name: str, task: str, backbone: str, method: str) -> float:
    """Of one large GPU, from the sizes of the run; for small puzzles a guess for two cores."""
    if recipe_name.startswith("mini-"):
        return _SMALL_HOURS
    optimizer = recipe(recipe_name).optimizer
    puzzles, minibatches = optimizer.batch, optimizer.accumulate  # of an update
    tokens = _PROMPT[task] * (2 if method == "direct" else 1)
    seconds = 4e9 * _BILLIONS[backbone] * tokens * puzzles / _LM_FLOPS
    if _BILLIONS[backbone]:
        seconds += minibatches * _LM_SECONDS[task]
    if method not in ("direct", "base"):
        seconds += minibatches * _UPDATER_SECONDS[task]
    test = _TEST_HOURS * (1 + _BILLIONS[backbone])
    return test + optimizer.updates * seconds / 3600
