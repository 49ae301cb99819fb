"""What stands around every view: the projects to choose from, one sentence on whether memory works, the time."""

from __future__ import annotations

from dataclasses import dataclass

from engram.models.projects import ProjectRow, list_projects
from engram.page.view import PageRequest
from engram.reports.health import Trouble, take_vitals


@dataclass(frozen=True, slots=True)
class FrameValues:
    """The values of the layout."""

    projects: tuple[ProjectRow, ...]
    #: What is wrong, the worst first; empty if all is well.
    troubles: tuple[Trouble, ...]
    #: When this page was made, in milliseconds since 1970: what came later is news.
    now_ms: int
    #: Claude Code's folder.
    claude_folder: str
    #: Single letters are keys.
    has_letters: bool

    @property
    def sentence(self) -> str:
        """One sentence on whether memory works."""
        if not self.troubles:
            return "All is well."
        first = self.troubles[0]
        more = f" (and {len(self.troubles) - 1} more)" if len(self.troubles) > 1 else ""
        advice = first.advice[:1].upper() + first.advice[1:]
        return f"{first.about.capitalize()} {first.text}{more}. {advice}"


def frame_values(asked: PageRequest) -> FrameValues:
    """Collect what stands around a view; a few milliseconds at any size."""
    vitals = take_vitals(asked.store, asked.settings, with_files=False)
    return FrameValues(
        projects=tuple(list_projects(asked.store)),
        troubles=tuple(vitals.troubles()),
        now_ms=asked.store.now_ms(),
        claude_folder=str(asked.settings.projects_folder),
        has_letters=asked.settings.page_letters,
    )
