"""The page of `focus serve` for any static host: puzzles are solved in the visitor's browser.

DIR/index.html, *.js, style.css    the page; `engine.js` answers what a server would
DIR/worker.js, ort*                computes the graphs
DIR/NAME/*.onnx                    the graphs of each solver
DIR/solvers.json                   what there is, and puzzles to try
DIR/offline.js                     keeps all of it in the browser
"""

import hashlib
import json
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from focus.data.examples import LEVELS, example
from focus.errors import UserError
from focus.export.onnx import export_graphs
from focus.export.runtime import FILES as RUNTIME
from focus.export.runtime import VERSION as RUNTIME_VERSION
from focus.files import json_text, write_text
from focus.folders import atomic_folder
from focus.tasks import BUILT_IN
from focus.web.kinds import by_kind, describe
from focus.web.page import ASSETS, asset, project_links, standalone
from focus.web.repair import NamedSolver

_STEPS = 512  # most of a small puzzle; larger ones get as many as take about as long
_EXAMPLES = 6  # puzzles of each level
_OWN = ("rules.js", "engine.js", "worker.js", "onnxruntime-LICENSE.txt")
_PARTS = ("start.onnx", "step.onnx", "decode.onnx")
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "connect-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'"
)

_ALONE = "Solvers with a language model need more than a browser: focus serve shows them."
_ABOUT = """
</main>
<section class="about" aria-labelledby="about-title">
  <h2 id="about-title">What happens here</h2>
  <p>A small neural network writes a whole answer, then revises it again and again. Nobody tells it
  which cells are wrong. It runs in your browser: no puzzle leaves this device, and after the first
  visit the page works without a connection.</p>
  <p>Blue is how sure the network is of a digit, or that a cell lies on the path. An orange frame
  marks what a step changed. To mark what is wrong, the page searches for the true answer by itself;
  the network never sees it. A hard puzzle can stay unsolved; more steps may help.</p>
  <p><a href="README.md">About this folder</a> · <a href="onnxruntime-LICENSE.txt">Licence of ONNX
  Runtime Web</a></p>
</section>
"""


def check_solver(named: NamedSolver) -> None:
    """Refuse a solver that a browser cannot run."""
    if (task := named.solver.task.name) not in BUILT_IN:  # rules.js knows no others
        raise UserError(
            f"{named.name} solves {task} puzzles; a page knows the rules of "
            f"{' and '.join(BUILT_IN)} only; focus serve shows it"
        )
    if named.solver.language_model is not None:
        raise UserError(
            f"{named.name} needs a language model, which a page cannot hold; focus serve shows it, "
            "and sudoku-none and maze-none need none"
        )


def write_page(
    solvers: Sequence[NamedSolver], folder: Path, runtime: Path,
    say: Callable[[str], None] = print,
) -> tuple[int, int]:  # fmt: skip
    """Write the folder; returns its bytes, and those that a compressing host sends."""
    for named in solvers:
        check_solver(named)
    with atomic_folder(folder) as fresh:
        for named in solvers:
            say(f"exporting {named.name}")
            graphs = export_graphs(named.solver, named.name)
            (fresh / named.name).mkdir()
            for part in _PARTS:
                (fresh / named.name / part).write_bytes(graphs[part].SerializeToString())
        for name in RUNTIME:
            shutil.copyfile(runtime / name, fresh / name)
        for name in (*ASSETS, *_OWN):
            write_text(fresh / name, asset(name))
        write_text(fresh / "index.html", _index())
        write_text(fresh / "standalone.html", standalone())
        say("making puzzles to try")
        write_text(fresh / "solvers.json", json_text(_about(solvers)))
        files = {path.relative_to(fresh).as_posix(): path.read_bytes() for path in _files(fresh)}
        write_text(fresh / "offline.js", _offline(files))
        write_text(fresh / "README.md", _README)
        whole = [path.read_bytes() for path in _files(fresh)]
    return sum(map(len, whole)), sum(len(zlib.compress(content)) for content in whole)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _about(solvers: Sequence[NamedSolver]) -> dict[str, Any]:
    """What `/api/checkpoints` of a server says, and the puzzles that it would generate."""
    kinds = by_kind(solvers)
    puzzles: dict[str, dict[str, list[str]]] = {}
    for kind, group in kinds.items():
        task = group[0].solver.task
        puzzles[kind] = {
            level: [task.question_text(example(task, level, seed)) for seed in range(_EXAMPLES)]
            for level in LEVELS
        }
    return {
        "kinds": describe(kinds, _STEPS),
        "levels": LEVELS,
        "against": None,
        "links": project_links(),
        "puzzles": puzzles,
    }


def _index() -> str:
    """The page of the server with the engine of the browser in front of it."""
    page = asset("index.html")
    scripts = "".join(
        f'<script src="{name}" defer></script>\n' for name in ("rules.js", "engine.js")
    )
    for pattern, text in (
        (r"(?=<title>)", f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'),
        (r'(?=<script src="app\.js")', scripts),
        (r'(?<=id="alone">).*?(?=</p>)', _ALONE),
        (r"(?<=>)Stop waiting(?=<)", "Stop"),  # what is there by then is shown
        (r"</main>", _ABOUT),
    ):
        place = re.search(pattern, page, re.DOTALL)
        assert place, f"index.html has no {pattern}"
        page = page[: place.start()] + text + page[place.end() :]
    return page


def _offline(files: dict[str, bytes]) -> str:
    """The script that stores the files, named by what they hold."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    # What encodeURIComponent, by which a worker asks, leaves as it is.
    names = ["./", *(quote(name, safe="/!*'()") for name in files)]
    text = asset("offline.js").replace("/*VERSION*/", digest, 1)
    return text.replace("/*FILES*/[]", json.dumps(names), 1)


_README = f"""# A page that solves puzzles by itself

Put this folder on any static host, as it is; nothing of it runs on the server. On your own machine:

    python3 -m http.server --directory .

The folder was made by `focus export page`, and is replaced as a whole by another export. A browser
loads no page of this kind from a file. Hosts that compress what they send save more than half.

- `NAME/start.onnx`, `step.onnx`, `decode.onnx`: the solvers, see `focus export onnx`.
- `ort*`: ONNX Runtime Web {RUNTIME_VERSION}, MIT licence, see `onnxruntime-LICENSE.txt`.
- `offline.js`: keeps the folder in the browser, under a name that changes with its content.
"""
