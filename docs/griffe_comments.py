"""For the site: comments beside fields are their help, and docstrings are plain text.

On the command line too the comment of a config field is its help. A comment counts when it stands
on the field's own lines or alone on the lines just above.
"""

import ast
import io
import re
import tokenize
from functools import lru_cache
from pathlib import Path
from typing import Any

import griffe


@lru_cache
def _comments(path: Path) -> dict[int, tuple[str, bool]]:
    """Comments by line, and whether each has its line to itself."""
    text = path.read_text(encoding="utf-8")
    return {
        token.start[0]: (token.string.lstrip("# "), not token.line[: token.start[1]].strip())
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith("# fmt:")
    }


def _comment_of(node: ast.AnnAssign, path: Path) -> str:
    comments = _comments(path)
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    own = [comments[line][0] for line in lines if line in comments]
    above: list[str] = []
    line = node.lineno - 1
    while line in comments and comments[line][1]:
        above.insert(0, comments[line][0])
        line -= 1
    return " ".join(own or above)


def _escaped(text: str) -> str:
    """Names and formulas as they stand: s_0 and z*h are no Markdown. Code in backticks stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p[:1] == "`" else re.sub(r"([_*<\[\]])", r"\\\1", p) for p in parts)


class FieldComments(griffe.Extension):
    """Comments as docstrings of attributes, and all docstrings escaped."""

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Give a field without a docstring its comment."""
        if attr.docstring is None and isinstance(node, ast.AnnAssign):
            text = _comment_of(node, Path(str(attr.filepath)))
            if text:
                attr.docstring = griffe.Docstring(_escaped(text), lineno=node.lineno, parent=attr)
                attr.extra["escaped"]["done"] = True

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Escape a docstring, once."""
        if obj.docstring is not None and not obj.extra["escaped"]:
            obj.docstring.value = _escaped(obj.docstring.value)
            obj.extra["escaped"]["done"] = True
