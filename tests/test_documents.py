"""Documents say what the stored runs and the code say."""

import pkgutil
import re
from pathlib import Path

import pytest
import yaml

import focus
from docs import cli_reference
from experiments import compared, results_page, stored
from experiments.stored import RESULTS
from focus.evaluation.statistics import effect_over_seeds
from focus.recipes import recipe
from focus.serialization import FORMAT
from focus.settings import flag, walk
from tests import prose, prose_language_models

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DIRECTIVES = re.findall(r"^::: (\S+)", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", results_page.PAGES, ids=lambda page: page.name)
def test_results_are_those_of_the_stored_runs(page):
    text = page.read_text()
    assert results_page.fill(text) == text, "run python -m experiments.results_page"


def test_every_table_of_results_is_shown():
    shown = "".join(page.read_text() for page in results_page.PAGES)
    assert set(re.findall(r"<!-- (\w+)[ \w.-]* -->", shown)) - {"end"} == set(results_page.TABLES)


def test_every_comparison_of_methods_is_shown():
    shown = set(
        re.findall(r"<!-- methods ([\w-]+) -->", (DOCS / "measured" / "methods.md").read_text())
    )
    stored = {path.stem.removeprefix("methods-") for path in RESULTS.glob("methods-*.json")}
    assert shown == stored


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_relative_links_lead_to_files(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    files = [link.split("#")[0] for link in links if not re.match(r"https?://|mailto:|#", link)]
    assert [name for name in files if not (page.parent / name).exists()] == []
    if page.is_relative_to(DOCS):  # a site holds nothing from outside
        assert all((page.parent / name).resolve().is_relative_to(DOCS) for name in files)


def test_the_site_shows_every_page():
    def files(entry) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        return [name for part in parts for name in files(part)]

    shown = files(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(shown) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


@pytest.mark.parametrize("name", DIRECTIVES)
def test_the_python_reference_names_what_is_there(name):
    assert pkgutil.resolve_name(name) is not None


def test_the_command_reference_is_current():
    stored = cli_reference.STORED.read_text()
    assert stored == cli_reference.page(), "run python -m docs.cli_reference"


def test_the_help_of_the_package_names_what_is_there():
    """`help(focus)`: every name of its example is public, and everything public can be loaded."""
    named = set(re.findall(r"focus\.(\w+)", focus.__doc__ or ""))
    assert named
    assert named <= set(focus.__all__)
    assert all(getattr(focus, name) is not None for name in focus.__all__)
    for method in ("from_pretrained", "solve", "trajectory"):
        assert f".{method}(" in (focus.__doc__ or "")
        assert hasattr(focus.Solver, method)


def test_the_page_on_compatibility_names_the_format():
    page = (DOCS / "compatibility.md").read_text()
    assert f"the format number (now {FORMAT})" in page
    assert f"Format {FORMAT} has" in page


def test_the_flags_of_deviations_are_settings_of_a_run():
    page = (DOCS / "deviations.md").read_text()
    named = set(re.findall(r"`--([\w.-]+)", page)) - {"protocol"}  # of focus data prepare
    settings = {flag("", name) for task in ("sudoku", "maze") for name, _, _ in walk(recipe(task))}
    assert len(named) > 20
    assert named <= settings


def test_sentences_have_the_stored_figures():
    for page, sentence in [*prose.words(), *prose_language_models.words()]:
        assert sentence in " ".join(page.read_text(encoding="utf-8").split()), page.name


def test_what_is_called_close_is_close():
    for task, steps in (("sudoku", 128), ("maze", 16)):
        gap = 100 * abs(prose.rate(f"{task}-none", steps) - prose.rate(f"{task}-smollm2", steps))
        assert round(gap, 1) <= 0.5, "README and RESULTS: within half a point"


def test_the_diagnosed_solvers_do_what_the_tutorial_says():
    rows = {name: stored.stored_results(f"diagnosis-mini-sudoku{name}") for name in ("", "-logits")}
    assert rows[""]["verdict"].startswith("more steps do not hurt")
    assert rows["-logits"]["verdict"].startswith("more steps hurt")
    kept, collapsed = (rows[name]["results"] for name in ("", "-logits"))
    assert all(row["exact"] == 1 for row in kept if row["step"] >= 3)
    assert max(kept[-1]["mean"]["class"], collapsed[-1]["mean"]["class"]) < -9
    assert kept[-1]["moved"] < 0.005 < 0.1 < collapsed[-1]["moved"]


def test_the_frontier_is_ahead_of_random_states_in_every_seed():
    for better, worse in (
        ("focus", "random"), ("focus", "random-penalty"), ("no-penalty", "random"),
    ):  # fmt: skip
        ahead = prose.over(*(prose.full_length("primary", one) for one in (better, worse)))
        assert len(ahead) == 5, "README and RESULTS: in each of five seeds"
        assert min(ahead) > 0


def test_hints_help_every_method_in_every_seed():
    hinted = {m: prose.small("hundred-hints", m).mean(1) for m in ("focus", "random", "no-replay")}
    for method, shares in hinted.items():
        assert (shares > prose.small("hundred", method).mean(1)).all()
    assert (hinted["focus"] > hinted["random"]).all()
    for worse in ("random", "no-replay"):  # without hints: no difference
        pair = (prose.small("hundred", method) for method in ("focus", worse))
        _, low, high, _ = effect_over_seeds(*pair)
        assert low < 0 < high


def test_what_is_lower_in_every_seed_is():
    for task, steps in (("sudoku", 128), ("maze", 16)):
        runs = stored.stored_results(f"methods-{task}-quick")
        ours = compared.results(runs, "focus", steps)
        for method in ("energy-hard", "no-memory"):
            theirs = compared.results(runs, method, steps)
            assert len(theirs) == 3
            assert all(a["exact"] > b["exact"] for a, b in zip(ours, theirs, strict=True))
