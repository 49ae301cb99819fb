"""Which project a session belongs to, and whether it may be read at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from engram.models.pauses import Span, paused_scopes, pauses_of
from engram.models.project_erasing import forgotten_span
from engram.models.projects import AT_SAME_PATH, ProjectRow, claims_of, known_roots, project_by_id
from engram.models.sessions import SessionRow, find_session
from engram.models.store import Store
from engram.settings import Settings
from engram.transcripts.git_files import read_first_commit, read_remote
from engram.transcripts.git_hints import is_other_repository, token_of
from engram.transcripts.project import KnownRoot, Project, identify_project, is_excluded
from engram.vaults import keeps_out


def project_for(store: Store, cwd: str, settings: Settings) -> Project:
    """Return the project of a working directory; for a folder that was joined to a project, that project.

    A repository at the path of a project that had another remote and first commit is another project.
    """
    project = identify_folder(cwd, settings, _known_roots(store))
    if not project.identity or project.is_global:
        return project
    claims, root = claims_of(store, project.identity), Path(project.root)
    is_there = os.path.isdir(root)
    for claim in claims:
        if not is_there or claim.is_by_hand:
            return _as_known(project, claim.project)
        if not is_other_repository(root, claim.remote, claim.first_commit):
            return _as_known(project, claim.project)
    if claims:
        project = replace(project, identity=f"{project.identity}{AT_SAME_PATH}{token_of(root)}")
    if is_there and project.is_repository:
        project = replace(project, remote=read_remote(root), first_commit=read_first_commit(root))
    return project


def _as_known(project: Project, known: ProjectRow) -> Project:
    return replace(project, identity=known.identity, root=known.root or project.root, name=known.name)


def identify_folder(cwd: str, settings: Settings, roots: Iterable[KnownRoot] = ()) -> Project:
    """Return the project of a working directory by the settings alone, whatever is stored."""
    return identify_project(
        cwd,
        known_roots=roots,
        root_folders=settings.project_roots,
        join_worktrees=settings.join_worktrees,
    )


def needs_project(session: SessionRow | None) -> bool:
    """True as long as it is not known where a session belongs: to a project, or everywhere."""
    return session is None or not session.is_settled


def why_not(store: Store, session_id: str, settings: Settings) -> str:
    """Return why a known session must not be read: ``off``, ``paused`` or ``excluded``; "" if it may be."""
    if not settings.capture:
        return "off"
    paused = paused_scopes(store)
    if "" in paused:
        return "paused"
    session = find_session(store, session_id)
    if session is None:
        return ""
    if session.project_id is not None and keeps_out(settings.places, _identity(store, session) or ""):
        return "excluded"
    if session.cwd and is_excluded(session.cwd, settings.exclude):
        return "excluded"
    return "paused" if _identity(store, session) in paused else ""


def why_not_project(store: Store, cwd: str, project: Project, settings: Settings) -> str:
    """Return why a new session must not be read, by its first working directory; "" if it may be."""
    if is_excluded(cwd, settings.exclude):
        return "excluded"
    if keeps_out(settings.places, project.identity, cwd):
        return "excluded"
    return "paused" if project.identity and project.identity in paused_scopes(store) else ""


def pauses_for(store: Store, session: SessionRow | None, project: Project | None) -> list[Span]:
    """Return the spans of time of which nothing is stored: pauses, and the time before its project was forgotten.

    The project is the session's, or the one it is about to get.
    """
    identity = project.identity if project is not None else None
    if session is not None:
        identity = _identity(store, session) or identity
    return [*pauses_of(store, identity), *forgotten_span(store, identity)]


def _known_roots(store: Store) -> Iterator[KnownRoot]:
    """Yield the folders of known projects; they are only asked for where a folder is gone."""
    yield from known_roots(store)


def _identity(store: Store, session: SessionRow) -> str | None:
    project = project_by_id(store, session.project_id) if session.project_id else None
    return project.identity if project else None
