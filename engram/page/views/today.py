"""The start page: what Claude was shown and what was kept today, and what needs the person."""

from __future__ import annotations

from engram.page.view import Answer, PageRequest, Route, View


def show(request: PageRequest) -> Answer:
    """Show today."""
    return Answer("today.html")


VIEW = View(name="today", title="Today", key="t", routes=(Route("/", show),))
