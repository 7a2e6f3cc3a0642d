"""Exported graphs compute what PyTorch does, and a command that cannot export says why."""

import json
from unittest import mock

import numpy as np
import pytest
import torch

from focus.cli import main
from focus.data.examples import example
from focus.model.solver import Solver
from tests.web.samples import store, untrained

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import ModelProto  # noqa: E402

from focus.export.onnx import NEXT, export_graphs  # noqa: E402

PUZZLE = "1...34....21...3"


class Graphs:
    """Exported graphs, run step by step or whole."""

    def __init__(self, solver: Solver):
        self.solver = solver
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        self.models = export_graphs(solver, "sample")
        self.run = {
            name: onnxruntime.InferenceSession(model.SerializeToString(), settings)
            for name, model in self.models.items()
        }

    def call(self, name: str, held: dict) -> dict:
        graph = self.run[name]
        values = graph.run(None, {one.name: held[one.name] for one in graph.get_inputs()})
        return dict(zip((one.name for one in graph.get_outputs()), values, strict=True))

    def states(self, given: dict, steps: int):
        held = self.call("start.onnx", given)
        for _ in range(steps):
            after = self.call("step.onnx", held)
            held |= {name.removeprefix(NEXT): value for name, value in after.items()}
            yield held


def compare(graphs: Graphs, questions: np.ndarray, steps: int, **given) -> float:
    """The largest difference of a logit over a rollout; the decoded answers must be equal."""
    solver, worst = graphs.solver, 0.0
    x = solver.task.problem(questions)
    with torch.no_grad():
        rollout = solver.rollout(x)
        asked = {"question": questions.astype(np.int64), **given}
        for held in graphs.states(asked, steps):
            z, tokens = next(rollout).z, held["z"].shape[1]
            gap = (torch.from_numpy(held["z"]) - z[:, :tokens]).abs()
            worst = max(worst, float(gap[x.mask[:, :tokens]].max()))
    expected = solver.answer(questions, steps)
    decoded = graphs.call("decode.onnx", held)
    assert (decoded["answer"] == expected).all()
    assert (decoded["valid"] == solver.task.obeys(solver.task.decode(z, x), x).numpy()).all()
    if "solver.onnx" in graphs.run:
        whole = graphs.call("solver.onnx", asked | {"steps": np.array(steps)})
        assert (whole["answer"] == expected).all()
        assert np.allclose(whole["confidence"], decoded["confidence"], atol=1e-4)
    return worst


def puzzles(solver: Solver, count: int) -> np.ndarray:
    return np.stack([example(solver.task, "hard", seed) for seed in range(count)])


def kinds_of_weights(graphs: Graphs) -> set[int]:
    weights = graphs.models["step.onnx"].graph.initializer
    return {weight.data_type for weight in weights if np.prod(weight.dims) >= 1024}


@pytest.mark.parametrize("task", ["sudoku", "maze"])
def test_a_batch_of_any_size_is_computed_as_by_pytorch(task):
    """Mazes here with memory of every kind, which is carried from step to step."""
    from focus.model.updater import UpdaterConfig

    updater = UpdaterConfig(width=32, hops=2, hop_width=16, hop_hidden=16)
    solver = untrained(task, **({"updater": updater} if task == "maze" else {})).solver
    graphs = Graphs(solver)
    parts = {one.name for one in graphs.run["step.onnx"].get_outputs()}
    assert (f"{NEXT}u.hops" in parts) == (task == "maze")
    questions = puzzles(solver, 5)
    assert compare(graphs, questions[:1], 4) < 1e-3
    assert compare(graphs, questions, 4) < 1e-3
    assert kinds_of_weights(graphs) == {onnx.TensorProto.FLOAT}


def test_a_trm_is_exported_too():
    from focus.model.trm import TRMConfig

    small = TRMConfig(width=32, heads=4, outer=2, inner=2)
    solver = untrained("sudoku", answer="trm", trm=small).solver
    assert compare(Graphs(solver), puzzles(solver, 3), 3) < 1e-3


def test_a_language_model_stays_outside_and_its_reading_comes_in():
    from focus.model.backbone import BackboneConfig

    solver = untrained("sudoku", backbone=BackboneConfig("tiny-llama", rank=4)).solver
    graphs = Graphs(solver)
    assert set(graphs.run) == {"start.onnx", "step.onnx", "decode.onnx"}
    questions = puzzles(solver, 3)
    with torch.no_grad():
        reading = solver.backbone.read(solver.task.problem(questions)).numpy()
    assert compare(graphs, questions, 3, reading=reading) < 1e-3


@pytest.mark.parametrize(
    ("name", "rows", "steps"),
    [("sudoku-none", 8, 32), pytest.param("maze-none", 20, 16, marks=pytest.mark.long)],
)
def test_released_solvers_solve_real_puzzles_as_in_pytorch(name, rows, steps, request):
    """A Sudoku that stays unsolved may end elsewhere: its rollout amplifies rounding."""
    table = request.getfixturevalue("real_sudokus" if "sudoku" in name else "real_mazes")
    questions = table.questions[:rows]
    solver = Solver.from_pretrained(name).eval()
    graphs, x = Graphs(solver), solver.task.problem(questions)
    assert kinds_of_weights(graphs) == {onnx.TensorProto.BFLOAT16}  # as they are in the checkpoint
    asked = {"question": questions.astype(np.int64)}
    with torch.no_grad():
        rollout, before = solver.rollout(x), None
        for held in graphs.states(asked, steps):
            tokens = held["z"].shape[1]
            if before is not None:  # one step from the state that PyTorch is in
                after = graphs.call("step.onnx", held | before)[f"{NEXT}z"]
                gap = np.abs(after - next(rollout).z[:, :tokens].numpy())
                assert gap[x.mask[:, :tokens].numpy()].max() < 1e-3  # of logits within +-20
            else:
                next(rollout)
            state = rollout.state.tensors()
            before = {part: value[:, :tokens].numpy() for part, value in state.items()}
        decoded = solver.task.decode(rollout.state.z, x)
    solved = solver.task.obeys(decoded, x).numpy()
    same = graphs.call("decode.onnx", held)["answer"] == solver.task.cell_codes(decoded, x).numpy()
    whole = graphs.call("solver.onnx", asked | {"steps": np.array(steps)})
    assert (whole["valid"] == solved).all()
    assert solved.mean() > 0.7
    assert same.all(1)[solved].all()
    assert (whole["answer"] == solver.task.cell_codes(decoded, x).numpy()).all(1)[solved].all()


def test_the_command_writes_what_focus_solve_answers(tmp_path, capsys):
    checkpoint = store(untrained("sudoku"), tmp_path)
    out = tmp_path / "onnx"
    words = ["export", "onnx", str(checkpoint), "--out", str(out)]
    old = {name: ModelProto() for name in ("start.onnx", "old.onnx")}
    with mock.patch("focus.export.onnx.export_graphs", return_value=old):
        assert main(words) == 0
    assert main(words) == 0  # an earlier export is replaced
    assert not (out / "old.onnx").exists()
    assert "solver.onnx" in (out / "README.md").read_text()
    assert main(["solve", PUZZLE, "--checkpoint", str(checkpoint), "--steps", "5", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])["answer"]
    session = onnxruntime.InferenceSession(out / "solver.onnx")
    question = np.array([[int(sign.replace(".", "0")) for sign in PUZZLE]])
    codes, _, _ = session.run(None, {"question": question, "steps": np.array(5)})
    assert "".join(map(str, codes[0])) == answer
    about = session.get_modelmeta().custom_metadata_map
    assert (about["focus.task"], about["focus.steps"]) == ("sudoku", "4")
    assert about["focus.solver"] == "tiny-sudoku-0"  # without the folders above, which are private
    assert str(tmp_path) not in (out / "README.md").read_text()


def refused(capsys, *words: str) -> str:
    assert main(list(words)) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


def test_what_cannot_be_exported_is_one_line(tmp_path, capsys):
    checkpoint = str(store(untrained("sudoku"), tmp_path))
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("keep")
    assert "mine.txt" in refused(capsys, "export", "onnx", checkpoint, "--out", str(full))
    assert (full / "mine.txt").read_text() == "keep"
    blocked = str(full / "mine.txt" / "below")
    assert "cannot write" in refused(capsys, "export", "onnx", checkpoint, "--out", blocked)
    assert "no such checkpoint" in refused(capsys, "export", "onnx", str(tmp_path / "no"))
