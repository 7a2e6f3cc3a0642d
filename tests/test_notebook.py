"""The notebook runs from its first cell to its last, in IPython, from an empty folder."""

import json
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "focus.ipynb"
RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        done = shell.run_cell("".join(cell["source"]))
        done.raise_error()
        if hasattr(done.result, "_repr_html_"):
            print("page of", len(done.result._repr_html_()), "characters")
print("rate", shell.user_ns["result"].exact.mean())
"""


def test_it_has_no_outputs():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_every_cell_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(NOTEBOOK)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "solved" in done.stdout
    assert "page of" in done.stdout
    assert "K = 16" in done.stdout
    rate = float(done.stdout.split("rate ")[1])
    assert rate > 0, "nothing was learned"
