"""A repair as an animated SVG: a picture for a README or a slide, without scripts.

Pages that show it as an image run its style sheet alone, so that time is in there: whatever is
shown from one frame to another has a class of that interval. Who prefers less motion sees the end.
"""

from dataclasses import dataclass, field
from itertools import groupby
from xml.sax.saxutils import escape

import numpy as np

MOST_FRAMES = 60
_FIRST, _EACH, _LAST = 1.5, 0.4, 4.0  # seconds of the puzzle, of a step, of the end
_WIDTH, _EDGE, _TOP, _CURVE = 360, 18, 44, 46  # of the picture, around it, above it, of the energy

_STYLE = """
text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;fill:var(--ink);text-anchor:middle}
.left{text-anchor:start}.soft{fill:var(--soft)}.given{font-weight:700}.right{fill:var(--right)}
.wrong{fill:var(--wrong);font-style:italic;text-decoration:underline}
rect.right{stroke:none}rect.wrong{fill:none;stroke:var(--wrong);stroke-width:2}
.wall{fill:var(--wall)}.changed{fill:var(--changed);opacity:.35}.shade{fill:var(--ink);opacity:.08}
.thin{stroke:var(--line)}.thick{stroke:var(--ink);stroke-width:2;fill:none}
.curve{stroke:var(--right);stroke-width:2;fill:none}.dot{fill:var(--right)}.paper{fill:var(--paper)}
svg{--paper:#fff;--ink:#1b1b1b;--soft:#5a5a5a;--line:#c4c4c4;--right:#00588a;--wrong:#b83b00;
--changed:#e69f00;--wall:#3a3a3a}
@media(prefers-color-scheme:dark){svg{--paper:#16181b;--ink:#eee;--soft:#b3b3b3;--line:#54585e;
--right:#6cc3f2;--wrong:#ff9a5c;--changed:#f0b429;--wall:#6d737b}}
@media(prefers-reduced-motion:reduce){*{animation:none!important}}
"""


@dataclass
class _Clock:
    """When each frame begins, and a class for each interval that something is shown in."""

    frames: int
    rules: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return _FIRST + _EACH * (self.frames - 2) + _LAST if self.frames > 1 else _LAST

    def percent(self, frame: int) -> str:
        begins = 0 if not frame else _FIRST + _EACH * (frame - 1)
        return f"{100 * begins / self.seconds:.2f}%"

    def during(self, first: int, end: int) -> str:
        """The class of what is shown from frame `first` up to `end`; none if that is always."""
        if (first, end) == (0, self.frames):
            return ""
        name, hidden, visible = f"f{first}-{end}", "{visibility:hidden}", "{visibility:visible}"
        steps = [f"0%{hidden}"] * (first > 0) + [f"{self.percent(first)}{visible}"]
        steps += [f"{self.percent(end)}{hidden}"] * (end < self.frames)
        at_rest = "visible" if end == self.frames else "hidden"
        self.rules[name] = f".{name}{{visibility:{at_rest};{self.run(name)}}}" + keyframes(
            name, steps
        )
        return f" {name}"

    def run(self, name: str) -> str:
        return f"animation:{name} {self.seconds:.2f}s step-end infinite"


def keyframes(name: str, steps: list[str]) -> str:
    """An animation of the style sheet."""
    return f"@keyframes {name}{{{''.join(steps)}}}"


def animated_svg(shown: dict) -> str:
    """The first repair of `show_repairs`, played again and again, up to where it is solved."""
    repair = shown["repairs"][0]
    frames = _chosen(repair)
    clock = _Clock(len(frames))
    side, rows = shown["side"], shown["rows"]
    cell = (_WIDTH - 2 * _EDGE) / side
    bottom = _TOP + cell * rows
    parts = [
        *_backdrop(shown, cell), *_cells(shown, frames, clock, cell),
        *_lines(shown, cell), *_words(shown, repair, frames, clock, bottom),
    ]  # fmt: skip
    height = bottom + 32
    if repair["energy"]:
        parts += _energy(repair, frames, clock, bottom + 36)
        height += _CURVE + 18
    about = f"{repair['checkpoint']} repairs a {shown['task']}, step by step"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="{_WIDTH}" height="{height:.0f}" role="img"><title>{escape(about)}</title>\n'
        f"<style>{_STYLE}{''.join(clock.rules.values())}</style>\n"
        f'<rect class="paper" width="{_WIDTH}" height="{height:.0f}" rx="8"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _chosen(repair: dict) -> list[dict]:
    """The frames up to the first that stays solved; of many, some.

    A long repair may have no frame of the very step that solves it; the next one is solved too.
    """
    end = repair["steps"] if repair["solved_at"] is None else repair["solved_at"]
    before = sum(frame["step"] < end for frame in repair["frames"])
    frames = repair["frames"][: before + 1]
    chosen = np.unique(np.linspace(0, len(frames) - 1, min(len(frames), MOST_FRAMES)).round())
    return [frames[int(number)] for number in chosen]


def _place(number: int, side: int, cell: float) -> tuple[float, float]:
    row, column = divmod(number, side)
    return _EDGE + column * cell, _TOP + row * cell


def _square(kind: str, number: int, side: int, cell: float, inset: float = 0.0) -> str:
    x, y = _place(number, side, cell)
    size = cell * (1 - 2 * inset)
    at = f'x="{x + cell * inset:.1f}" y="{y + cell * inset:.1f}"'
    return f'<rect class="{kind}" {at} width="{size:.1f}" height="{size:.1f}"/>'


def _backdrop(shown: dict, cell: float) -> list[str]:
    """What the puzzle gives: it never changes."""
    given = [n for n, symbol in enumerate(shown["puzzle"]) if symbol != shown["blank"]]
    if shown["view"] != "maze":
        return [_square("shade", number, shown["side"], cell) for number in given]
    walls = [number for number in given if shown["puzzle"][number] == "#"]
    return [_square("wall", number, shown["side"], cell) for number in walls]


def _cells(shown: dict, frames: list[dict], clock: _Clock, cell: float) -> list[str]:
    """Every cell over time: what stands in it, and where it changed."""
    side, is_maze, parts = shown["side"], shown["view"] == "maze", []
    for number, given in enumerate(shown["puzzle"]):
        states = [_state(shown, frame, number, given) for frame in frames]
        first = 0
        for (symbol, kind), same in groupby(states):
            end = first + len(list(same))
            if first and given == shown["blank"]:
                changed = f"changed{clock.during(first, first + 1)}"
                parts.append(_square(changed, number, side, cell))
            if kind:
                named = f"{kind}{clock.during(first, end)}"
                if is_maze and symbol == "o":
                    parts.append(_square(named, number, side, cell, 0.2))
                else:
                    x, y = _place(number, side, cell)
                    at = f'x="{x + cell / 2:.1f}" y="{y + 0.7 * cell:.1f}"'
                    size = f'font-size="{0.62 * cell:.1f}"'
                    parts.append(f'<text class="{named}" {at} {size}>{escape(symbol)}</text>')
            first = end
    return parts


def _state(shown: dict, frame: dict, number: int, given: str) -> tuple[str, str]:
    """What stands in a cell and how it is drawn; ("", "") for nothing."""
    symbol = frame["answer"][number]
    if given != shown["blank"]:
        return ("", "") if given == "#" and shown["view"] == "maze" else (given, "given")
    if symbol == shown["blank"]:
        return "", ""
    solution = shown["solution"]
    return symbol, "right" if solution is None or solution[number] == symbol else "wrong"


def _lines(shown: dict, cell: float) -> list[str]:
    side, rows, box = shown["side"], shown["rows"], shown["box"]
    width, height = side * cell, rows * cell
    frame = (
        f'<rect class="thick" x="{_EDGE}" y="{_TOP}" width="{width:.1f}" height="{height:.1f}"/>'
    )
    if shown["view"] == "maze":
        return [frame]
    paths: dict[str, str] = {"thin": "", "thick": ""}
    for line in range(1, max(side, rows)):
        kind = "thick" if box and line % box == 0 else "thin"
        if line < side:
            paths[kind] += f"M{_EDGE + line * cell:.1f} {_TOP}v{height:.1f}"
        if line < rows:
            paths[kind] += f"M{_EDGE} {_TOP + line * cell:.1f}h{width:.1f}"
    return [*(f'<path class="{kind}" d="{path}"/>' for kind, path in paths.items() if path), frame]


def _words(
    shown: dict, repair: dict, frames: list[dict], clock: _Clock, bottom: float
) -> list[str]:
    """Who solves what, and what each frame says."""
    parts = [
        f'<text class="left" x="{_EDGE}" y="28" font-size="15" font-weight="600">'
        f"{escape(repair['checkpoint'])}</text>"
    ]
    solved_at = repair["solved_at"]
    for number, frame in enumerate(frames):
        step, solved = frame["step"], solved_at is not None and frame["step"] >= solved_at
        words = [
            f"solved at step {solved_at} ✓" if solved else f"step {step}" if step else "the puzzle"
        ]
        if frame["accuracy"] is not None and not solved:
            words.append(f"{100 * frame['accuracy']:.0f} % of cells right")
        if repair["energy"]:
            words.append(f"energy {repair['energy'][step]:.2f}")
        named = f"left soft{clock.during(number, number + 1)}"
        line = f'<text class="{named}" x="{_EDGE}" y="{bottom + 22:.0f}" font-size="14">'
        parts.append(f"{line}{escape(' · '.join(words))}</text>")
    return parts


def _energy(repair: dict, frames: list[dict], clock: _Clock, top: float) -> list[str]:
    """The curve of the energy, and a dot that moves along it."""
    values = np.array(repair["energy"][: frames[-1]["step"] + 1])
    x = np.linspace(_EDGE, _WIDTH - _EDGE, len(values)) if len(values) > 1 else np.array([_EDGE])
    y = top + _CURVE * (1 - values / max(values.max(), 1e-3))
    points = [f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True)]
    steps = []
    for number, frame in enumerate(frames):
        at = f"translate({x[frame['step']]:.1f}px,{y[frame['step']]:.1f}px)"
        steps.append(f"{clock.percent(number)}{{transform:{at}}}")
    clock.rules["dot"] = f".dot{{transform:{at};{clock.run('dot')}}}" + keyframes("dot", steps)
    return [
        f'<path class="thin" d="M{_EDGE} {top + _CURVE:.1f}H{_WIDTH - _EDGE}"/>',
        f'<path class="curve" d="M{"L".join(points)}"/>',
        '<circle class="dot" r="4"/>',
    ]
