"""The files of the page, and the page as one file that needs no server."""

import json
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, metadata
from importlib.resources import files

# What a browser may fetch of the page, and its type.
ASSETS = {
    "index.html": "text/html",
    "style.css": "text/css",
    "grid.js": "text/javascript",
    "plot.js": "text/javascript",
    "glossary.js": "text/javascript",
    "player.js": "text/javascript",
    "editor.js": "text/javascript",
    "app.js": "text/javascript",
}
_PLAYER = ("grid.js", "plot.js", "glossary.js", "player.js")  # what a stored repair needs
DATA = '{"repairs":null}'  # stands for the repair in a page without one


@lru_cache
def asset(name: str) -> str:
    """A file of the page."""
    return (files("focus.web.page") / name).read_text(encoding="utf-8")


def standalone(shown: dict | None = None) -> str:
    """One HTML file that plays a repair: no server, no other file, no network."""
    data = DATA if shown is None else script_json(shown)
    page = asset("standalone.html")
    scripts = "\n".join(asset(name) for name in _PLAYER)
    # The data comes last: what it holds is not looked at again.
    for mark, text in (("STYLE", asset("style.css")), ("SCRIPT", scripts), ("DATA", data)):
        page = page.replace(f"/*{mark}*/", text, 1)
    return page


def project_links() -> dict[str, str]:
    """Where paper, code and documentation are: the addresses in the metadata of the package."""
    try:
        entries = metadata("focus-solver").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a folder, without having been installed
        entries = []
    links = dict(entry.split(", ", 1) for entry in entries if ", " in entry)
    return {name: link for name, link in links.items() if link.startswith("https://")}


def script_json(value: dict) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element."""
    text = json.dumps(value, separators=(",", ":"))
    for character, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, escape)
    return text
