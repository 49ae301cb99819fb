"""The templates: every value escaped and spelled out, addresses below the secret path, times for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engram.clock import iso_time
from engram.page.spelling import spell_hidden
from engram.page.view import View

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
