"""The settings, each with its value and source. Only a command changes them."""

from __future__ import annotations

from engram.page.view import Answer, PageRequest, Route, View
from engram.reports.settings_report import plain_settings, shown_value


def show(request: PageRequest) -> Answer:
    rows = [
        (name, shown_value(value), request.sources.get(name, "default"))
        for name, value in plain_settings(request.settings).items()
    ]
    groups = (
        ("Changed", [row for row in rows if row[-1] != "default"], True),
        ("As shipped", [row for row in rows if row[-1] == "default"], False),
    )
    return Answer("settings.html", {"groups": groups, "home": request.settings.home})


VIEW = View(
    name="settings", title="Settings", key="x", path="settings", is_more=True, routes=(Route("/settings", show),)
)
