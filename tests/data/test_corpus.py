"""The paper's corpus: which puzzles, and that no held-out one is among them."""

from dataclasses import replace

import numpy as np
import pytest

from focus.data import corpus
from focus.data.corpus import CorpusConfig, build_corpus
from focus.data.distinct import PuzzleIndex
from focus.data.sources import Generated
from focus.data.splits import make_splits
from focus.errors import UserError
from focus.recipes import recipe
from focus.tasks import Maze, Sudoku


@pytest.fixture(scope="module")
def splits():
    return make_splits(Generated(train=60, test=40), Sudoku(box=2))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FOCUS_CACHE", str(tmp_path / "cache"))


def test_the_recipe_has_the_papers_corpus():
    config = recipe("sudoku")
    assert (config.corpus.sources, config.corpus.symmetries) == (707, 100)
    assert 707 * 101 == 71_407  # the paper's count
    assert config.corpus.synthetic == 50_000
    assert not config.augment


def test_sources_symmetries_and_synthetic_puzzles_are_valid_and_drawn_by_the_seed(splits):
    task, config = Sudoku(box=2), CorpusConfig(sources=20, symmetries=3, synthetic=30)
    table = build_corpus(task, splits, config)
    assert len(table) == 20 * 4 + 30
    verdict = task.judge(table.questions, table.answers)
    assert verdict.valid.all()
    assert verdict.unique.all()
    again = build_corpus(task, splits, config)
    assert (again.questions == table.questions).all()
    other = build_corpus(task, splits, replace(config, seed=1))
    assert (other.questions[:20] != table.questions[:20]).any()


def test_stored_symmetries_are_of_their_source(splits):
    task = Sudoku(box=2)
    table = build_corpus(task, splits, CorpusConfig(sources=5, symmetries=2))
    givens = (table.questions > 0).sum(1).reshape(3, 5)
    assert (givens == givens[0]).all()
    assert (table.questions[:5] != table.questions[5:10]).any()


def test_synthetic_puzzles_are_new_to_what_is_held_out(splits):
    task = Sudoku(box=2)
    table = build_corpus(task, splits, CorpusConfig(synthetic=50))
    index = PuzzleIndex(task)
    index.add(np.concatenate([splits.validation.questions, splits.test.questions]))
    assert index.add_unseen(table.questions[len(splits.train) :]).all()


def test_what_the_data_cannot_give_is_refused(splits):
    with pytest.raises(UserError, match=r"1,000 training puzzles are wanted.* has 60"):
        build_corpus(Sudoku(box=2), splits, CorpusConfig(sources=1000))
    task = Maze(size=6, min_path=6)
    mazes = make_splits(Generated(train=10, test=10), task)
    with pytest.raises(UserError, match="change its answer"):
        build_corpus(task, mazes, CorpusConfig(symmetries=2))


def test_more_than_a_memory_holds_is_refused_before_it_is_made(splits, monkeypatch):
    with pytest.raises(UserError, match="symmetries"):
        CorpusConfig(symmetries=10**6)
    with pytest.raises(UserError, match="synthetic"):
        CorpusConfig(synthetic=10**9)
    monkeypatch.setattr(corpus, "_MOST_ROWS", 100)
    with pytest.raises(UserError, match="augment True"):
        build_corpus(Sudoku(box=2), splits, CorpusConfig(symmetries=3))
