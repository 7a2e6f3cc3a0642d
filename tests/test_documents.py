"""Documents say what the stored runs say."""

import json
from pathlib import Path

from benchmarks.foundations import STORED, table

ROOT = Path(__file__).parents[1]


def test_the_readme_shows_the_stored_figures():
    assert table(json.loads(STORED.read_text())) in (ROOT / "README.md").read_text()
