"""The templates: every value escaped and spelled out, addresses below the secret path, times for people."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engram.page.view import View
from engram.system.clock import iso_time
from engram.trust.display import is_hidden

# -- Stored text as the page shows it: nothing hidden, nothing that reorders what stands beside it.

#: Hidden characters of ordinary text, which are left out: joiners and selectors of emoji, and the soft hyphen.
LEFT_OUT = frozenset("\u200d\ufe0e\ufe0f\u00ad")
#: Characters of ordinary text that are no hidden ones here.
LAYOUT = frozenset("\n\t")


def spell_hidden(text: str) -> str:
    """Return the text with every hidden character spelled out, such as ``⟨U+202E⟩``; lines and tabs stay.

    Control characters, invisible and bidirectional ones and lone surrogates could hide or reorder what is shown.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) for char in text.replace("\r\n", "\n"))


def _spelled(char: str) -> str:
    if char in LAYOUT or not is_hidden(char):
        return char
    return "" if char in LEFT_OUT else f"⟨U+{ord(char):04X}⟩"


#: Folder of the templates.
TEMPLATES = Path(__file__).resolve().parent / "templates"
#: Longest text on one line, in characters, where a template names no other limit.
MAX_LINE_CHARACTERS = 160


def make_environment(*, autoescape: bool = True) -> Environment:
    """Return the environment of all templates. Only a test switches escaping off."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"line": to_line, "when": when, "iso": iso_time, "day": day, "number": number, "span": span}
    return environment


def finalize(value: Any) -> Any:
    """Spell out what is hidden in a text before it is escaped. What a macro has made is done already."""
    if value is None:
        return ""
    return spell_hidden(value) if type(value) is str or (isinstance(value, str) and _is_plain(value)) else value


def _is_plain(value: str) -> bool:
    """True for a text that is not markup, such as a member of an enum."""
    return not hasattr(value, "__html__")


def make_link(root: str, project: str) -> Any:
    """Return the function ``link(*parts, **query)`` of templates: an address below ``root``, with the project."""

    def link(*parts: object, **query: object) -> str:
        path = "/".join(quote(str(part), safe="") for part in parts)
        asked = {name: str(value) for name, value in query.items() if value not in ("", None)}
        if project:
            asked.setdefault("project", project)
        return f"{root}/{path}" + (f"?{urlencode(asked)}" if asked else "")

    return link


def render(
    environment: Environment, template: str, values: Mapping[str, Any], *, block: str = "", views: Sequence[View] = ()
) -> str:
    """Return a template with its values, or one block of it."""
    made = environment.get_template(template)
    if not block:
        return made.render(values, views=views)
    context = made.new_context({**values, "views": views})
    return "".join(made.blocks[block](context))


def to_line(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """Return a text on one line, cut at ``limit`` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def when(at_ms: int | None) -> str:
    """Return a time for people: the time alone if it is today, the year only if it is another one."""
    if not at_ms:
        return "–"
    then, now = time.localtime(at_ms / 1000), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%-d %b %H:%M" if then[0] == now[0] else "%-d %b %Y", then)


def day(at_ms: int | None) -> str:
    """Return a day for people."""
    return time.strftime("%-d %b %Y", time.localtime(at_ms / 1000)) if at_ms else "–"


def number(value: float) -> str:
    """Return a whole number with separators."""
    return f"{value:,.0f}"


def span(seconds: float) -> str:
    """Return a duration for people, such as ``3 min``."""
    for size, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


# -- The files that the page loads beside HTML: its own style and script, and htmx.

#: Folder of the files.
STATIC = Path(__file__).resolve().parent / "static"
#: Folder of the files of others, in it.
VENDOR = STATIC / "vendor"


@dataclass(frozen=True, slots=True)
class Asset:
    """One answer: a file, or scripts that must run without a gap between them."""

    paths: tuple[Path, ...]
    media_type: str

    def read(self) -> bytes:
        """The content, one file after the other."""
        return b"\n;\n".join(path.read_bytes() for path in self.paths)


#: Name in the address → what is served. Nothing else is served.
ASSETS: Mapping[str, Asset] = {
    "page.css": Asset((STATIC / "page.css",), "text/css"),
    "page.js": Asset((STATIC / "page.js",), "text/javascript"),
    "icon.svg": Asset((STATIC / "icon.svg",), "image/svg+xml"),
    # htmx looks at the document in a task of its own. If its gate, hx-csp, came in another file, that task could run
    # first: in a browser under load, what no nonce allows was sent.
    "htmx.js": Asset(
        tuple(VENDOR / f"{name}-4.0.1.min.js" for name in ("htmx", "hx-sse", "hx-csp")), "text/javascript"
    ),
}


# -- Pictures that the server draws: bars for the days, without a script and without inline style.

#: Height of a picture in its own units; each bar is ``BAR_WIDTH`` wide with a gap of 1.
HEIGHT, BAR_WIDTH = 40, 9


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar."""

    x: int
    y: float
    height: float
    number: int


@dataclass(frozen=True, slots=True)
class BarChart:
    """A row of bars, the last one for today."""

    bars: tuple[Bar, ...]
    width: int
    most: int
    total: int


def bar_chart(numbers: Sequence[int]) -> BarChart:
    """Return bars whose heights are shares of the largest number; a number that is not 0 has a visible bar."""
    most = max(numbers, default=0)
    bars = []
    for index, number in enumerate(numbers):
        height = max(1.5, number / most * HEIGHT) if number else 0.0
        bars.append(Bar(index * (BAR_WIDTH + 1), round(HEIGHT - height, 1), round(height, 1), number))
    return BarChart(tuple(bars), len(numbers) * (BAR_WIDTH + 1), most, sum(numbers))


# -- Why a memory was relevant enough or not: each feature with what it adds, as bars.

#: Feature → what it means.
NAMES: Mapping[str, str] = {
    "meaning": "closer than usual",
    "source": "what it rests on is close",
    "turn": "its turn is close",
    "rare": "rare words in common",
    "words": "words in common",
    "length": "the prompt is long",
    "unknown": "found by words alone",
    "shared_alone": "share of the words in common",
    "words_alone": "words in common",
    "support_alone": "words of its turn in common",
}
#: Widest bar, in units of the picture.
MAX_BAR = 90.0


@dataclass(frozen=True, slots=True)
class FeatureBar:
    """One feature of a memory that was considered."""

    name: str
    value: float
    #: Weight × value: what it adds to the relevance, or takes from it, in log odds.
    adds: float
    #: Width of its bar, from 0 to ``MAX_BAR``.
    width: float


def feature_bars(features: Mapping[str, float]) -> list[FeatureBar]:
    """Return a bar for each feature, the strongest first. The weights are those of this version."""
    weights = _weights()
    adds = {name: weights.get(name, 0.0) * value for name, value in features.items()}
    strongest = max((abs(amount) for amount in adds.values()), default=0.0) or 1.0
    ordered = sorted(features.items(), key=lambda pair: -abs(adds[pair[0]]))
    return [
        FeatureBar(NAMES.get(name, name), value, adds[name], abs(adds[name]) / strongest * MAX_BAR)
        for name, value in ordered
    ]


@cache
def _weights() -> Mapping[str, float]:
    """Return the shipped weights. Their own module loads the search, so the file is read here."""
    file = resources.files("engram.recollection").joinpath("relevance_weights.json")
    by_feature: Mapping[str, float] = json.loads(file.read_text(encoding="utf-8"))["by_feature"]
    return by_feature
