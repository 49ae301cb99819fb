"""The settings by topic, each explained, with its value, its default and its source. Only a command changes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from operator import attrgetter

from engram.config_file import set_value
from engram.errors import BadRequest
from engram.page.rendering import number
from engram.page.view import Answer, PageRequest, Redirect, Route, View, number_in
from engram.reports.settings_report import (
    ExplainedSetting,
    explained_settings,
    plain_settings,
    plain_value,
    shown_value,
)
from engram.settings import Settings
from engram.trust.display import capitalised, span
from engram.vaults import config_home

#: Source of a value → how the page names it; ``{}`` is the setting in capitals.
SOURCES = {
    "config.toml": "config.toml",
    "environment": "the environment variable ENGRAM_{}",
    "flag": "a flag when the page was started",
}
#: The smallest number of seconds, and the smallest other number, that are also shown in a readable form.
MIN_SPAN_SECONDS, MIN_LARGE = 120, 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: str
    #: The value in a readable form, such as ``20 min`` for 1200 seconds; "" if the value itself is readable.
    readable: str
    meaning: str
    #: The default, with `code` in backticks.
    default: str
    #: Where the value is set; "" if it is the default.
    source: str

    @property
    def is_stored(self) -> bool:
        """True if the value is set in config.toml, so that a command removes it."""
        return self.source == SOURCES["config.toml"]


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    title: str
    about: str
    rows: tuple[Row, ...]

    @property
    def changed(self) -> int:
        return sum(bool(row.source) for row in self.rows)


@cache
def _explained() -> tuple[ExplainedSetting, ...]:
    return tuple(explained_settings())


def list_groups(settings: Settings, sources: Mapping[str, str], words: str = "") -> list[Group]:
    """Return the settings by topic; with ``words``, only those whose name, topic or explanation contain them all."""
    values = plain_settings(settings)
    groups = []
    for title, members in groupby(_explained(), attrgetter("section")):
        found = [setting for setting in members if _has_words(setting, words)]
        rows = tuple(_row(setting, values[setting.name], sources.get(setting.name, "default")) for setting in found)
        if rows:
            groups.append(Group(title, capitalised(found[0].about), rows))
    return groups


def _has_words(setting: ExplainedSetting, words: str) -> bool:
    text = f"{setting.name} {setting.section} {setting.meaning}".lower()
    return all(word in text or word in text.replace("_", " ") for word in words.lower().split())


def _row(setting: ExplainedSetting, value: object, source: str) -> Row:
    return Row(
        setting.name,
        _shown(value) or "none",
        _readable(setting.name, value),
        setting.meaning,
        _default_of(setting),
        SOURCES.get(source, "").format(setting.name.upper()),
    )


def _shown(value: object) -> str:
    """Return a value as ``engram config set`` accepts it."""
    return ("on" if value else "off") if isinstance(value, bool) else shown_value(value)


def _readable(name: str, value: object) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if name.endswith("_seconds"):
        return span(value) if value >= MIN_SPAN_SECONDS else ""
    if name.endswith("_bytes"):
        return f"{number(value / 1e6)} MB"
    return number(value) if value >= MIN_LARGE else ""


def _default_of(setting: ExplainedSetting) -> str:
    known = next(known for known in dataclasses.fields(Settings) if known.name == setting.name)
    is_fixed = known.default is not dataclasses.MISSING
    return _shown(plain_value(known.default)) or "none" if is_fixed else setting.default


def show(request: PageRequest) -> Answer:
    words = " ".join(request.query.get("find", "").split())
    every = list_groups(request.settings, request.sources)
    values = {
        "groups": list_groups(request.settings, request.sources, words) if words else every,
        "changed": [] if words else [row for group in every for row in group.rows if row.source],
        "total": sum(len(group.rows) for group in every),
        "find": words,
        "config_file": request.settings.places.config_file,
    }
    block = "found" if request.is_fragment and request.target == "found-settings" else ""
    return Answer("settings.html", values, block=block or ("main" if request.is_fragment else ""))


# -- Actions available in every view: turn off single-letter keys, and pause the news.


def switch_letters(request: PageRequest) -> Answer | Redirect:
    """Turn single-letter keys on or off, on this and every later page."""
    is_on = request.form.get("letters") == "on"
    set_value(config_home(request.settings.home), "page_letters", "true" if is_on else "false")
    return Redirect(("",))


def pause_news(request: PageRequest) -> Answer:
    """Pause or resume the stream of news, without changing the time from which news is counted."""
    since = number_in(request.query.get("since", ""))
    if since is None:
        raise BadRequest("give the time from which to count news")
    is_paused = request.query.get("paused") == "yes"
    return Answer("parts/live.html", {"live_view": request.path["name"], "since_ms": since, "is_paused": is_paused})


VIEW = View(
    name="settings",
    title="Settings",
    key="x",
    path="settings",
    is_more=True,
    routes=(
        Route("/settings", show),
        Route("/letters", switch_letters, method="POST"),
        Route("/pause/{name}", pause_news),
    ),
)
