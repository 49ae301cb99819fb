"""Which project a session belongs to, and whether it may be shown anything."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engram.enums import Verdict
from engram.ingest.folder import scope_of_folder
from engram.ingest.scope import places_of
from engram.models import pauses, projects, sessions
from engram.models.outcomes import Outcome
from engram.models.store import Store
from engram.settings import Settings
from engram.transcripts.project import is_excluded
from engram.vaults import keeps_out

#: Project id of a query that sees only memories of global scope. (None would search all projects.)
NO_PROJECT = -1


@dataclass(frozen=True, slots=True)
class SessionScope:
    """Answers both questions from memory.db and the settings."""

    store: Store
    settings: Settings

    def project_id(self, session_id: str, cwd: str) -> int | None:
        """Return the row id of the session's project; None for a root folder or a folder never seen."""
        session = sessions.find_session(self.store, session_id)
        if session is not None and session.is_settled:
            return self._project_at(session, cwd)
        project = scope_of_folder(self.store, self.settings, cwd).project
        return None if project is None else project.id

    def _project_at(self, session: sessions.SessionRow, cwd: str) -> int | None:
        """Return the project of a folder that a known session works in now: as its turns there are stored."""
        if cwd in ("", session.cwd):
            return session.project_id
        place = places_of(self.store, session, None, self.settings).project_at(cwd)
        if place is None:
            return session.project_id
        known = projects.find_project_of_identity(self.store, place.identity)
        return None if known is None or keeps_out(self.settings.places, place.identity, cwd) else known.id

    def may_show(self, session_id: str, cwd: str) -> bool:
        """Return False for a session whose folder is excluded or whose project is paused."""
        return self.refusal(session_id, cwd) is None

    def refusal(self, session_id: str, cwd: str, project_id: int | None = None) -> Verdict | None:
        """Return why a session may be shown nothing: its folder is excluded, or its project paused; None if it may.

        Args:
            session_id: Claude Code's session.
            cwd: the folder of the prompt.
            project_id: the project that is asked about; None for that of the session.
        """
        session = sessions.find_session(self.store, session_id)
        folders = {cwd, session.cwd if session else ""} - {""}
        if any(is_excluded(folder, self.settings.exclude) for folder in folders):
            return Verdict.EXCLUDED
        paused = pauses.paused_scopes(self.store)
        if not paused:
            return None
        project_id = self.project_id(session_id, cwd) if project_id is None else project_id
        project = None if project_id is None else projects.project_by_id(self.store, project_id)
        is_paused = "" in paused or (project is not None and project.identity in paused)
        return Verdict.PAUSED if is_paused else None

    def complete(self, outcome: Outcome, cwd: str) -> Outcome:
        """Return an outcome with its project, or with the reason why the session may be shown nothing.

        A hook that waits for its answer needs neither, unless something is searched for it.
        """
        refusal = self.refusal(outcome.session_id, cwd, outcome.project_id)
        project_id = outcome.project_id
        if project_id is None:
            project_id = self.project_id(outcome.session_id, cwd)
        return replace(outcome, verdict=refusal or outcome.verdict, project_id=project_id)
