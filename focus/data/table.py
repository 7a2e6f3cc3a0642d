"""A table of puzzles and the CSV files that hold it.

Files have the columns `question` and `answer`; others (`source`, `rating`, `guesses`) are kept
as text. Plain or gzip, by their content. Whatever is wrong with a file is said with its name and
line number.
"""

import csv
import gzip
import io
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from focus.errors import UserError
from focus.files import atomic_path
from focus.tasks.base import Codes, RowError, Task

LARGEST_FILE = 2**30  # bytes of a file, unpacked: five million puzzles


@dataclass(frozen=True)
class Table:
    """Puzzles with their answers; `ids` are row numbers in the file they came from."""

    questions: Codes  # (rows, cells)
    answers: Codes  # (rows, cells)
    ids: np.ndarray  # (rows,)
    origin: str  # what the ids refer to
    columns: dict[str, np.ndarray] = field(default_factory=dict)  # further columns, as text

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, rows: np.ndarray | slice) -> "Table":
        """The chosen rows."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Table(self.questions[rows], self.answers[rows], self.ids[rows], self.origin, columns)


def read_text(path: Path) -> str:
    """The text of a file, unpacked if it is gzip."""
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as unpacked:
                raw = unpacked.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise UserError(f"{path} holds more than {LARGEST_FILE / 2**30:g} GiB; divide it")
        return raw.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UserError(f"no such file: {path}") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder, a file is needed") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is a damaged gzip file ({error}); get it again") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def read_table(path: Path, task: Task) -> Table:
    """Read a CSV file of puzzles, checking every row's form (not the rules: see the audit)."""
    text = read_text(path)
    if not text.strip():
        raise UserError(f"{path} is empty; a CSV with the columns question,answer is needed")
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = next(reader)
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise UserError(
                    f"{path}, line {reader.line_num}: {len(row)} fields, the header has "
                    f"{len(header)}"
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}") from error
    for needed in ("question", "answer"):
        if needed not in header:
            raise UserError(f"{path} has no column {needed!r}; its columns are {', '.join(header)}")
    if not rows:
        raise UserError(f"{path} has a header but no rows")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    try:
        questions = task.encode_questions(columns.pop("question"))
        answers = task.encode_answers(columns.pop("answer"))
    except RowError as error:
        raise UserError(f"{path}, line {lines[error.row]}: {error}") from error
    extras = {name: np.array(values, dtype=object) for name, values in columns.items()}
    return Table(questions, answers, np.arange(len(rows)), path.name, extras)


def side_of_file(path: Path) -> int:
    """The size of the first puzzle of a file."""
    try:
        first = next(csv.DictReader(io.StringIO(read_text(path))), {})
    except csv.Error:
        return 0  # the reader says what is wrong with the file
    return math.isqrt(len(first.get("question") or ""))


def task_of_file(path: Path, kind: type[Task]) -> Task:
    """The task with the size that the first puzzle of a file has.

    A first puzzle that fits no size gives the default task, whose reader then says what is wrong.
    """
    try:
        return kind.of_side(side_of_file(path))
    except UserError:
        return kind.of_side(None)


def write_table(path: Path, table: Table, task: Task) -> None:
    """Write a CSV file, gzip if the name ends in .gz; the same table gives the same bytes."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["question", "answer", *table.columns])
    extra = list(table.columns.values())
    for row, (question, answer) in enumerate(zip(table.questions, table.answers, strict=True)):
        text = task.question_text(question), task.answer_text(answer)
        writer.writerow([*text, *(values[row] for values in extra)])
    raw = buffer.getvalue().encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
