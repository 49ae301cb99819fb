"""What a view is made of: its routes, what a route is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engram.models.projects import ProjectRow
from engram.models.store import Store
from engram.settings import Settings


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request, with the memory open for it."""

    store: Store
    settings: Settings
    #: Name of the setting → where its value comes from.
    sources: Mapping[str, str]
    #: Parameters in the path of the route.
    path: Mapping[str, str]
    #: Parameters behind the question mark.
    query: Mapping[str, str]
    #: Fields of a form; empty for a request that changes nothing.
    form: Mapping[str, str]
    #: htmx asks for a part of a page.
    is_fragment: bool
    #: Id of the element that htmx replaces with the answer; "" if it asks for none.
    target: str
    #: The project that the person chose; None for all.
    project: ProjectRow | None

    @property
    def project_id(self) -> int | None:
        """Row id of the chosen project; None for all."""
        return None if self.project is None else self.project.id


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about what was just done, for eight seconds, with the way to undo it."""

    text: str
    #: Path that undoes it, from the root, such as ``("m", "ep_…", "undo")``; empty if nothing is to be undone.
    undo: tuple[str, ...] = ()
    #: Id of the element that the answer to the undo replaces.
    target: str = "main"


@dataclass(frozen=True, slots=True)
class Answer:
    """A template with its values."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    #: Only this block of the template; "" for the whole page.
    block: str = ""
    notice: Notice | None = None
    #: Address that the browser shows from now on, as parts and a query; None leaves it.
    replace_url: tuple[tuple[str, ...], Mapping[str, str]] | None = None
    status: int = 200
    #: Something was changed: the worker is told.
    is_change: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another view of the page, as the parts of its path."""

    path: tuple[str, ...]


Handler = Callable[[PageRequest], Answer | Redirect]


@dataclass(frozen=True, slots=True)
class Route:
    """A path below the root, such as ``/m/{episode_id}``, and the function that answers it."""

    path: str
    handler: Handler
    #: GET, or POST for what changes something.
    method: str = "GET"
    #: It answers a part of a page, never a whole one.
    is_part: bool = False
    #: It waits for a command of Engram, in a queue of its own, so that nothing else waits for that.
    runs_command: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """One view of the page."""

    #: Unique; also the name of its template and, if it is in the navigation, the first part of its path.
    name: str
    title: str
    routes: tuple[Route, ...]
    #: Pressed after ``g``, it leads here; "" for a view that is not in the navigation.
    key: str = ""
    #: First part of its path; "" for the start page.
    path: str = ""
    #: True for a view that stands behind "More" in the navigation.
    is_more: bool = False
    #: Returns how many things the view would show that are newer than a time in milliseconds. None: it has no news.
    count_new: Callable[[Store, int, int | None], int] | None = None
