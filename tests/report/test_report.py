"""Reports: what is in a table comes from stored runs, what is not there is a gap."""

import csv
import io
import json
from dataclasses import replace

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from focus.cli import main
from focus.errors import UserError
from focus.recipes import METHODS, recipe
from focus.report import paper
from focus.report.comparable import letter_settings
from focus.report.runs import find_results
from focus.report.table import GAP, Quoted, Rate, Table
from focus.report.tables import (
    all_tables,
    control_table,
    curation_table,
    depth_table,
    label,
    seed_table,
)
from focus.serialization import to_json
from focus.tasks import Maze
from focus.tasks.drawing import MISSING, WALL
from focus.training.config import RunConfig

QUESTION = "1...34....21...3"
TARGET = "1243342143121234".replace("1234", "2134")


def store(folder, config: RunConfig, exact: dict[int, list[bool]], **about):
    """An evaluation as `focus eval --out` leaves it."""
    folder.mkdir(parents=True)
    results = [
        {"steps": k, "exact": sum(r) / len(r), "low": 0.1, "high": 0.9, "n": len(r)}
        for k, r in exact.items()
    ]
    (folder / "results.json").write_text(json.dumps({"results": results, **about}))
    (folder / "config.json").write_text(to_json(config))
    wrong = TARGET[:-1] + ("1" if TARGET[-1] != "1" else "2")
    lines = [
        {"id": i, "steps": k, "exact": right, "answer": TARGET if right else wrong,
         "energy": 0.0 if right else 1.5 / k}
        for k, rights in exact.items() for i, right in enumerate(rights)
    ]  # fmt: skip
    (folder / "predictions.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    puzzles = [{"id": i, "question": QUESTION, "answer": TARGET} for i in range(len(lines))]
    (folder / "puzzles.jsonl").write_text("".join(json.dumps(x) + "\n" for x in puzzles))


def a_run(name: str, seed: int = 1) -> RunConfig:
    return replace(recipe(name), seed=seed)


def test_a_method_is_what_the_run_stores(tmp_path):
    """Not what its settings look like: a run of a user's own keeps the name it was given."""
    store(tmp_path / "a", a_run("sudoku/none/random"), {128: [True]})
    named = replace(a_run("sudoku/none/recurrent"), method="deep-supervision")
    store(tmp_path / "b", named, {128: [True]})
    store(tmp_path / "c", replace(named, method="mine", seed=2), {128: [False]})
    runs, _ = find_results([tmp_path])
    assert [run.method for run in runs] == ["random", "deep-supervision", "mine"]
    assert [label(run).split(",")[0] for run in runs] == ["Random", "Deep supervision", "mine"]


def test_the_number_of_steps_is_chosen_on_validation_puzzles(tmp_path):
    """The smaller of equals, whatever the test puzzles say; by the run's own evaluation alone."""
    chosen, other = a_run("sudoku/none/focus"), a_run("sudoku/none/focus", seed=2)
    tests = {64: [True, False], 128: [True, True]}
    store(tmp_path / "a" / "eval", chosen, tests, split="test")
    store(tmp_path / "b" / "eval", other, tests, split="test")
    validation = {64: [True, True], 128: [True, True], 256: [False, True]}
    store(tmp_path / "a" / "validation", chosen, validation, split="validation")
    retried = {64: [False, False], 128: [True, True]}
    store(tmp_path / "a" / "more", chosen, retried, split="validation", symmetry_retries=4)
    # The same training in another folder has an evaluation of its own; a third has none.
    store(tmp_path / "c" / "eval", chosen, tests, split="test")
    store(tmp_path / "c" / "validation", chosen, {256: [True, True]}, split="validation")
    store(tmp_path / "d" / "eval", chosen, tests, split="test")
    runs, _ = find_results([tmp_path])
    assert [run.chosen for run in runs] == [64, None, 256, None]
    runs, _ = find_results([tmp_path / "a", tmp_path / "b"])
    assert [run.chosen for run in runs] == [64, None]
    table = depth_table(runs)
    assert table.headings == ["run", "K = 64", "K = 128", "chosen K"]
    assert [row[-1] for row in table.rows] == [64, None]


def test_the_papers_figures_are_those_of_the_paper(data_folder):
    text = data_folder.parent / "paper.tex"
    if not text.exists():
        pytest.skip("the paper's source is not there")
    source = text.read_text()
    for task in ("sudoku", "maze"):
        for method in ("random", "energy-hard", "fixed-mix", "no-penalty", "focus"):
            assert f"{paper.source_rate(task, 'qwen3-1.7b', method)}" in source
    for by in (paper.TRANSFER, paper.AIME):
        for sources in by.values():
            for rates in sources.values():
                for rate in rates:
                    assert f"{rate:.2f}" in source
    assert paper.source_rate("maze", "llama-3.1-8b", "recurrent") == 79.8
    assert paper.source_rate("maze", "qwen3-4b", "random") is None


def test_ours_stand_beside_the_papers_and_gaps_are_gaps(tmp_path):
    store(tmp_path / "a", a_run("sudoku/none/focus"), {128: [True, True, False, True]})
    store(tmp_path / "b", a_run("sudoku/none/random"), {128: [True, False, False, True]})
    table = curation_table(find_results([tmp_path])[0])
    text = table.markdown()
    assert "| Random | 50.0 [10.0, 90.0] | 57.8 | 89.7 |" in text
    assert "| FOCUS | 75.0 [10.0, 90.0] | 64.4 | 91.1 |" in text
    assert f"| Energy-Hard | {GAP} | 61.3 | 89.9 |" in text


def test_small_puzzles_are_never_taken_for_the_papers(tmp_path):
    store(tmp_path / "a", a_run("mini-sudoku/none/focus"), {16: [True, True]})
    store(tmp_path / "b", a_run("sudoku/none/focus"), {128: [True, False]})
    headings = curation_table(find_results([tmp_path])[0]).headings
    assert headings[1:3] == ["Sudoku, none, small puzzles", "Sudoku, none"]


def test_a_method_is_marked_only_beyond_the_spread_of_three_seeds(tmp_path):
    good, bad = [True] * 20, [False] * 12 + [True] * 8
    for seed in (1, 2, 3):
        store(tmp_path / f"f{seed}", a_run("sudoku/none/focus", seed), {128: good})
        store(tmp_path / f"r{seed}", a_run("sudoku/none/random", seed), {128: bad})
        if seed < 3:
            store(tmp_path / f"e{seed}", a_run("sudoku/none/energy-hard", seed), {128: bad})
    rows = {row[0]: row[1] for row in curation_table(find_results([tmp_path])[0]).rows}
    assert rows["Random"].mark == "†"
    assert rows["Energy-Hard"].mark == ""  # two seeds are not enough
    assert rows["Random"].value == pytest.approx(0.4)


def test_runs_of_different_settings_are_never_averaged(tmp_path):
    """Another budget or another test: rows of their own, and a note that says what differs."""
    config = a_run("sudoku/none/focus")
    longer = replace(config, optimizer=replace(config.optimizer, updates=99), seed=2)
    store(tmp_path / "a", config, {128: [True, True, False, True]})
    store(tmp_path / "b", longer, {128: [False, False, False, True]})
    store(tmp_path / "c", config, {128: [True, False]})
    store(tmp_path / "d", a_run("sudoku/none/random"), {128: [True, False, False, True]})
    runs, notes = letter_settings(find_results([tmp_path])[0])
    assert [run.letter for run in runs] == ["A", "B", "C", "A"]
    assert "optimizer.updates 99" in notes[1]
    assert "test puzzles 2" in notes[2]
    table = curation_table(runs)
    row = dict(zip(table.headings, table.rows[-1], strict=True))
    assert [row[f"Sudoku, none [{x}]"].value for x in "ABC"] == [0.75, 0.25, 0.5]
    store(tmp_path / "again", config, {128: [True, True, True, True]})
    with pytest.raises(UserError, match="the same run evaluated twice"):
        letter_settings(find_results([tmp_path])[0])


def test_a_method_whose_own_settings_were_changed_is_another_setting(tmp_path):
    """Methods may differ in the penalty, two runs of one method may not be averaged then."""
    config = a_run("sudoku/none/focus")
    weaker = replace(config, curation=replace(config.curation, beta=0.01), seed=2)
    store(tmp_path / "a", config, {128: [True, True]})
    store(tmp_path / "b", weaker, {128: [False, True]})
    store(tmp_path / "c", a_run("sudoku/none/no-penalty"), {128: [True, True]})
    runs, notes = letter_settings(find_results([tmp_path])[0])
    assert len({run.letter for run in runs[:2]}) == 2
    assert all("focus's curation.beta" in note for note in notes)


@pytest.mark.parametrize("about", [{"symmetry_retries": 8}, {"early_stop": True}])
@pytest.mark.parametrize("trm", [False, True])
def test_other_ways_of_testing_are_other_settings(tmp_path, about, trm):
    config = recipe("trm-sudoku") if trm else a_run("sudoku/none/focus")
    store(tmp_path / "a", config, {16: [True, False]})
    store(tmp_path / "b", config, {16: [True, True]}, **about)
    runs, notes = letter_settings(find_results([tmp_path])[0])
    assert [run.letter for run in runs] == ["A", "B"]
    ((name, value),) = about.items()
    assert f"{name} {value}" in notes[1]


@pytest.mark.parametrize("name", ["sudoku", "maze"])
def test_all_methods_and_backbones_share_a_setting(name, tmp_path):
    for backbone in ("none", "smollm2-135m", "qwen3-8b"):
        for method in METHODS:
            if backbone != "none" or method not in ("direct", "base"):
                config = a_run(f"{name}/{backbone}/{method}")
                store(tmp_path / backbone / method, config, {config.eval_steps: [True]})
    for number, method in enumerate(("", "/focus", "/random", "/energy-hard")):
        config = replace(recipe(f"trm-{name}{method}"), seed=1)
        store(tmp_path / f"trm{number}", config, {16: [True]})
    runs, notes = letter_settings(find_results([tmp_path])[0])
    assert not notes
    assert {run.letter for run in runs} == {""}
    assert len({label(run) for run in runs}) == len(runs)
    assert len(seed_table(runs).rows) == len(runs)


def test_two_kinds_of_trms_are_two_settings(tmp_path):
    """Though neither differs in anything that an updater has."""
    for name in ("maze", "maze-quick"):
        store(tmp_path / name, replace(recipe(f"trm-{name}"), seed=1), {16: [True]})
    config = a_run("maze")
    store(tmp_path / "focus", config, {config.eval_steps: [True]})
    runs, notes = letter_settings(find_results([tmp_path])[0])
    assert len({label(run) for run in runs}) == len(runs) == 3
    assert sorted({run.letter for run in runs}) == ["A", "B"]
    assert all("TRM's solver.trm.targets" in note for note in notes)


def test_a_maze_without_an_answer_is_drawn_as_all_missed_and_the_question_plain():
    question, target = "S  # #  G", "Soo# # oG"
    colours = []
    for answer in (question, None):
        axis = Figure().subplots()
        Maze(size=3).draw(axis, question, answer, target)
        faces = [to_hex(patch.get_facecolor()).upper() for patch in axis.patches]
        colours.append([faces.count(MISSING), faces.count(WALL.upper())])
    assert colours == [[3, 2], [0, 2]]


def test_a_folder_inside_another_counts_once(tmp_path):
    store(tmp_path / "a", a_run("sudoku/none/focus"), {128: [True]})
    assert len(find_results([tmp_path, tmp_path / "a"])[0]) == 1


def test_controls_stand_beside_their_run(tmp_path):
    config = a_run("sudoku/smollm2-135m/focus")
    store(tmp_path / "plain", config, {128: [True, True]})
    store(tmp_path / "zeroed", config, {128: [True, False]}, control="zeroed", adapter=0.0123)
    table = control_table(find_results([tmp_path])[0])
    assert len(table.rows) == 1
    assert [cell.value for cell in table.rows[0][1:3]] == [1.0, 0.5]
    assert "0.0123" in table.rows[0]


def test_three_forms_of_a_table_say_the_same():
    table = Table("t", "A & B, 100 %", ["method", "rate", "paper"])
    table.rows += [["x_y", Rate(0.5, 0.25, 0.75, 8, "†"), 64.4], ["z", None, None]]
    table.rows.append(["q", None, Quoted(45.25)])
    table.notes.append("‡ p < 0.05")
    assert "| x_y | 50.0 [25.0, 75.0]† | 64.4 |" in table.markdown()
    latex = table.latex()
    assert r"A \& B, 100 \%" in latex
    assert r"x\_y & 50.0 [25.0, 75.0]\dag  & 64.4 \\" in latex
    assert r"\ddag  p $<$ 0.05" in latex
    assert "| q | – | 45.25 |" in table.markdown()
    rows = list(csv.reader(io.StringIO(table.csv())))
    assert rows[0] == ["method", "rate", "rate low", "rate high", "rate n", "rate mark", "paper"]
    assert rows[1] == ["x_y", "50.0", "25.0", "75.0", "8", "†", "64.4"]
    assert rows[2] == ["z", "", "", "", "", "", ""]


def test_a_report_is_the_same_bytes_twice(tmp_path):
    steps = {2: [False, False, True], 8: [False, True, True], 16: [True, True, False]}
    for method in ("focus", "recurrent"):
        store(tmp_path / "runs" / method / "eval", a_run(f"mini-sudoku/none/{method}"), steps)
        line = {"update": 10, "seconds": 2.0, "validation": {"exact": 0.5}}
        if method == "focus":
            line |= {"t_histogram": [1, 0, 2, 0, 0], "D_histogram": [0] * 7 + [3] + [0] * 6}
        (tmp_path / "runs" / method / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    for out in ("one", "two"):
        assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / out)]) == 0
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    names = {p.name for p in files}
    for figure in ("repair", "methods", "steps", "time", "histograms", "energy"):
        assert {f"sudoku-{figure}.{suffix}" for suffix in ("pdf", "png", "svg")} <= names
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    text = (tmp_path / "one" / "mini" / "report.md").read_text()
    assert "maze-repair" in text.split("Not run yet:")[1]


def test_every_table_can_be_built_from_nothing():
    for table in all_tables([], []):
        assert table.markdown()
        assert table.latex()
        assert table.csv()
        assert table.empty


def test_what_is_no_run_is_refused(tmp_path, capsys):
    assert main(["report"]) == 2
    assert main(["report", str(tmp_path / "none")]) == 2
    assert main(["report", str(tmp_path)]) == 2
    assert "nothing to report on" in capsys.readouterr().err
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        find_results([tmp_path])
    store(tmp_path / "run", a_run("sudoku"), {128: [True]})
    (tmp_path / "results.json").unlink()
    (tmp_path / "run" / "predictions.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(UserError, match="line 1 is damaged"):
        _ = find_results([tmp_path])[0][0].exact
