"""A table that can be written as Markdown, LaTeX (booktabs) and CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from focus.files import write_text

GAP = "–"  # of a run that is missing


@dataclass(frozen=True)
class Rate:
    """A rate with its interval; `mark` is what a test says of it."""

    value: float  # from 0 to 1
    low: float
    high: float
    n: int
    mark: str = ""

    def text(self) -> str:
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]{self.mark}"


@dataclass(frozen=True)
class Quoted:
    """A percentage of the paper with its two digits."""

    percent: float

    def text(self) -> str:
        exact = Decimal(str(self.percent)).quantize(Decimal("0.01"), ROUND_HALF_UP)
        return str(exact)


Cell = Rate | Quoted | float | int | str | None  # a float is a percentage, None a gap


@dataclass
class Table:
    """Rows of cells under headings; `notes` explain marks and gaps."""

    name: str  # of its files
    title: str
    headings: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether no run of ours is in it."""
        return not any(isinstance(cell, Rate) for row in self.rows for cell in row)

    def markdown(self) -> str:
        """With its title and notes."""
        lines = [f"**{self.title}**", "", _line(self.headings), _line(["---"] * len(self.headings))]
        lines += [_line([_text(cell) for cell in row]) for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def latex(self) -> str:
        """A table environment for booktabs."""
        columns = "l" + "c" * (len(self.headings) - 1)
        body = [" & ".join(_escape(_text(cell)) for cell in row) + r" \\" for row in self.rows]
        notes = [rf"\par\smallskip{{\footnotesize {_escape(note)}}}" for note in self.notes]
        return "\n".join([
            r"\begin{table}[t]", r"\centering", rf"\caption{{{_escape(self.title)}}}",
            rf"\label{{tab:{self.name}}}", rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            r"\toprule",
            " & ".join(rf"\textbf{{{_escape(heading)}}}" for heading in self.headings) + r" \\",
            r"\midrule", *body, r"\bottomrule", r"\end{tabular}", *notes, r"\end{table}",
        ]) + "\n"  # fmt: skip

    def csv(self) -> str:
        """A rate takes five columns: value, low, high, n, mark."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        wide = [
            any(isinstance(row[i], Rate) for row in self.rows) for i in range(len(self.headings))
        ]
        head: list[str] = []
        for heading, is_rate in zip(self.headings, wide, strict=True):
            head += (
                [heading, *(f"{heading} {part}" for part in ("low", "high", "n", "mark"))]
                if is_rate
                else [heading]
            )
        writer.writerow(head)
        for row in self.rows:
            cells: list = []
            for cell, is_rate in zip(row, wide, strict=True):
                if isinstance(cell, Rate):
                    cells += [100 * cell.value, 100 * cell.low, 100 * cell.high, cell.n]
                    cells.append(cell.mark.strip())
                else:
                    shown = cell.text() if isinstance(cell, Quoted) else cell
                    cells += ["" if shown is None else shown, *([""] * 4 if is_rate else [])]
            writer.writerow(cells)
        return stream.getvalue()

    def write(self, folder: Path) -> None:
        """All three forms."""
        for suffix, text in (
            (".md", self.markdown()),
            (".tex", self.latex()),
            (".csv", self.csv()),
        ):
            write_text(folder / f"{self.name}{suffix}", text)


def _text(cell: Cell) -> str:
    if cell is None:
        return GAP
    if isinstance(cell, Rate | Quoted):
        return cell.text()
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    for char in "&%$#_{}":
        text = text.replace(char, "\\" + char)
    signs = {
        "–": "--", "†": r"\dag ", "‡": r"\ddag ", "±": r"$\pm$", "<": "$<$", "|": r"$|$",
    }  # fmt: skip
    for char, written in signs.items():
        text = text.replace(char, written)
    return text
