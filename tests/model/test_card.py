"""Model cards: what a hub reads in them, by the hub's own classes."""

import re
from dataclasses import replace

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from focus.files import read_object
from focus.model.backbone import BackboneConfig
from focus.model.base import SolverConfig
from focus.model.card import model_card
from focus.model.checkpoint import releases
from focus.model.install import INSTALLABLE
from focus.serialization import build, read_values, task_of
from focus.tasks import Sudoku

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
VALIDATION = {"steps": 16, "exact": 0.25, "low": 0.2, "high": 0.3, "n": 100}


@pytest.mark.parametrize(("name", "folder"), releases().items())
def test_a_release_s_card_tells_the_hub_its_data_base_model_and_stored_results(name, folder):
    text, notes = (folder / "README.md").read_text(), read_object(folder / "notes.json")
    values = read_values(folder / "config.json")
    task, config = task_of(values), build(SolverConfig, values["solver"], folder / "config.json")
    assert text == model_card(task, config, notes)
    data = ModelCard(text).data
    assert data.datasets == [task.hub_dataset]
    assert (data.library_name, data.license) == ("focus-solver", "apache-2.0")
    language_model = config.backbone.name
    reads = language_model != "none"
    assert reads == (name.partition("-")[2] in INSTALLABLE or name.endswith("smollm2"))
    assert data.base_model == (INSTALLABLE[language_model].hub_id if reads else None)
    assert data.to_dict().get("base_model_relation") == ("adapter" if reads else None)
    assert (f"focus backbone install {language_model}\n" in text) == reads
    assert ("it may harm what the language model writes" in text) == reads
    stored = [(f"solved exactly, K = {r['steps']}", round(r["exact"], 4)) for r in notes["test"]]
    assert [(r.metric_name, r.metric_value) for r in data.eval_results] == stored
    assert {r.dataset_type for r in data.eval_results} == {task.hub_dataset}
    assert {r.dataset_split for r in data.eval_results} == {"test"}


def card(backbone: str, data: str, **notes):
    config = replace(SolverConfig(), backbone=BackboneConfig(backbone))
    return ModelCard(model_card(Sudoku(), config, {"update": 1, **notes}, data)).data.to_dict()


@pytest.mark.parametrize("data", ["", "generated", "/home/someone/puzzles"])
def test_a_data_set_is_named_only_where_it_is_certain(data):
    metadata = card("none", data, validation=VALIDATION)
    assert not {"datasets", "model-index"} & set(metadata)


@pytest.mark.parametrize(
    ("data", "named"), [("hub", Sudoku.hub_dataset), ("hub:someone/puzzles", "someone/puzzles")]
)
def test_puzzles_of_the_hub_are_named_with_the_validation(data, named):
    metadata = card("none", data, validation=VALIDATION)
    assert metadata["datasets"] == [named]
    (_, (result,)) = model_index_to_eval_results(metadata["model-index"])
    assert (result.dataset_split, result.metric_value) == ("validation", 0.25)
    assert "model-index" not in card("none", data)


def test_a_folder_of_somebody_s_machine_is_no_base_model():
    assert "base_model" not in card("/home/someone/model", "")
    llama = card("llama-3.2-3b", "")
    assert (llama["license"], llama["base_model_relation"]) == ("other", "adapter")


def test_the_python_of_a_card_runs(capsys):
    text = (releases()["sudoku-none"] / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(code.replace("DIR", "sudoku-none").replace("PUZZLE", PUZZLE), {})
    answer = capsys.readouterr().out.strip()
    assert len(answer) == 81
    assert all(a == q for a, q in zip(answer, PUZZLE, strict=True) if q != ".")
