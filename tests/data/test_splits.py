"""Sources and splits."""

import json

import numpy as np
import pytest

from focus.data.sources import File, Folder, Generated, Hub, open_source
from focus.data.splits import load_split, make_splits, write_splits
from focus.data.table import read_table, write_table
from focus.errors import UserError
from focus.tasks import Maze, Sudoku


def test_standard_sudoku_splits(data_folder):
    splits = make_splits(Folder(data_folder), Sudoku())
    assert [len(t) for t in splits.tables().values()] == [1000, 1000, 9000]
    assert splits.validation.ids.tolist() == list(range(1000))
    assert splits.test.ids.tolist() == list(range(1000, 10000))


def test_standard_maze_splits(data_folder):
    splits = make_splits(Folder(data_folder), Maze())
    assert [len(t) for t in splits.tables().values()] == [900, 100, 1000]
    drawn = set(splits.train.ids) | set(splits.validation.ids)
    assert drawn == set(range(1000))
    again = make_splits(Folder(data_folder), Maze())
    assert (again.validation.ids == splits.validation.ids).all()


def test_paper_protocol_on_a_stand_in_of_the_corpus(data_folder):
    """10,000 rows stand in for the 422,786 of the full corpus; the layout is the same."""
    splits = make_splits(Folder(data_folder), Sudoku(), "paper")
    assert splits.validation.ids.tolist() == list(range(1000))
    assert len(np.unique(splits.test.ids)) == 1000
    assert splits.test.ids.min() >= 1000
    expected = np.random.default_rng(20260831).choice(9000, 1000, replace=False) + 1000
    assert set(splits.test.ids) == set(expected)


def test_written_splits_can_be_read_and_list_their_ids(data_folder, tmp_path):
    task = Maze()
    splits = make_splits(Folder(data_folder), task)
    record = json.loads(write_splits(splits, task, tmp_path).read_text())
    for name, table in splits.tables().items():
        entry = record["splits"][name]
        assert entry["ids"] == table.ids.tolist()
        again = read_table(tmp_path / "maze-hard" / entry["file"], task)
        assert (again.questions == table.questions).all()
    assert open_source(str(tmp_path)).load(task, "test").questions.shape == (1000, 900)


def test_a_folder_that_is_divided_stays_so(tmp_path):
    task = Sudoku(box=2)
    splits = make_splits(Generated(train=30, test=12), task)
    write_splits(splits, task, tmp_path)
    again = make_splits(Folder(tmp_path), task)
    assert again.protocol == "as divided"
    for name, table in again.tables().items():
        assert (table.questions == splits.tables()[name].questions).all()
        assert len(load_split(Folder(tmp_path), task, name)) == len(table)
    with pytest.raises(UserError, match="is divided already: it has a validation file"):
        make_splits(Folder(tmp_path), task, "paper")


@pytest.mark.parametrize("size", [7, 8, 12])
def test_a_generator_may_miss_at_first(size):
    """The first units of these sizes bring nothing, or little."""
    assert len(Generated(train=1, test=1).load(Maze(size=size), "test")) == 1


def test_only_the_files_that_a_split_needs_are_read(tmp_path):
    task = Sudoku(box=2)
    write_table(tmp_path / "test.csv", Generated(test=10).load(task, "test"), task)
    assert [len(load_split(Folder(tmp_path), task, n)) for n in ("validation", "test")] == [5, 5]
    with pytest.raises(UserError, match="no train data"):
        load_split(Folder(tmp_path), task, "train")


def test_a_corpus_too_small_for_the_paper_is_refused():
    with pytest.raises(UserError, match="only 400 rows"):
        make_splits(Generated(), Sudoku(box=2), "paper")


@pytest.mark.parametrize("task", [Sudoku(box=2), Maze(size=8, min_path=10)])
def test_the_generator_is_a_source_with_disjoint_splits(task):
    source = Generated(seed=1, train=60, test=20)
    train, test = source.load(task, "train"), source.load(task, "test")
    assert len(train) == 60
    assert len(test) == 20
    strings = [task.question_text(q) for q in (*train.questions, *test.questions)]
    assert len(set(strings)) == 80
    assert task.judge(train.questions, train.answers).canonical.all()
    assert (source.load(task, "train").questions == train.questions).all()


def test_sources_by_name(tmp_path, monkeypatch, data_folder):
    assert open_source(str(data_folder)) == Folder(data_folder)
    monkeypatch.setenv("FOCUS_DATA", str(data_folder))
    assert open_source(None) == Folder(data_folder)
    monkeypatch.delenv("FOCUS_DATA")
    assert open_source(None) == Generated()
    assert open_source("hub:someone/puzzles") == Hub("someone/puzzles")
    path = tmp_path / "one.csv"
    path.write_text("question,answer\n")
    assert open_source(str(path)) == File(path)
    with pytest.raises(UserError, match="no such file or folder: nowhere"):
        open_source("nowhere")
    with pytest.raises(UserError, match="no extra data for maze"):
        Folder(data_folder).load(Maze(), "extra")


def test_the_hub_loader_reads_what_the_hub_client_downloads(data_folder, monkeypatch, tmp_path):
    """The client is replaced by a local folder of the same layout; the name is passed on."""
    import gzip

    asked = []
    plain = tmp_path / "train.csv"
    packed = (data_folder / "sudoku-extreme" / "train.csv.gz").read_bytes()
    plain.write_bytes(gzip.decompress(packed))

    def download(repository, filename, repo_type):
        asked.append((repository, filename, repo_type))
        return str(tmp_path / filename)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    table = Hub().load(Sudoku(), "train")
    assert len(table) == 1000
    assert asked == [("sapientinc/sudoku-extreme", "train.csv", "dataset")]


def test_without_a_connection_the_hub_gives_one_clear_line(monkeypatch):
    def offline(repository, filename, repo_type):
        raise OSError("cannot reach the host\nlong explanation")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", offline)
    with pytest.raises(UserError, match=r"from the hub \(cannot reach the host\)"):
        Hub("someone/puzzles").load(Sudoku(), "train")


def test_a_single_file_is_cut_into_disjoint_splits(tmp_path):
    task = Sudoku(box=2)
    write_table(tmp_path / "mine.csv", Generated(train=50, test=1).load(task, "train"), task)
    splits = make_splits(open_source(str(tmp_path / "mine.csv")), task)
    ids = [set(table.ids.tolist()) for table in splits.tables().values()]
    assert [len(part) for part in ids] == [40, 5, 5]
    assert len(set.union(*ids)) == 50
    write_table(tmp_path / "few.csv", splits.test, task)
    with pytest.raises(UserError, match="has 5 puzzles; training needs 10 or more"):
        make_splits(open_source(str(tmp_path / "few.csv")), task)
