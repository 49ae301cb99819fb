"""The views of the page, in the order of the navigation."""

from __future__ import annotations

from engram.page.view import View
from engram.page.views import (
    costs,
    decide,
    gone,
    health,
    memories,
    memory,
    projects,
    sessions,
    settings,
    tasks,
    today,
)

#: Every view. To add one, see the docstring of ``engram.page``.
VIEWS: tuple[View, ...] = (
    today.VIEW,
    memories.VIEW,
    sessions.VIEW,
    decide.VIEW,
    projects.VIEW,
    tasks.VIEW,
    health.VIEW,
    costs.VIEW,
    gone.VIEW,
    settings.VIEW,
    memory.VIEW,
)
