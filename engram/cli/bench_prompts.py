"""What would be injected for the prompts of a set: through the service that answers the hook."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engram.cli.bench_homes import Homes, extract_all, read_transcripts
from engram.enums import Actor
from engram.errors import BadRequest
from engram.models.episodes import evidence_of, find_episode
from engram.models.injections import injections_of_session
from engram.models.joining import join_projects
from engram.models.sessions import list_sessions
from engram.models.store import Store
from engram.recollection.service import RecollectionService
from engram.search.service import Searcher
from engram.settings import Settings


def read_prompts(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Project → its prompts. Raises BadRequest."""
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            found.setdefault(one["project"], []).append(one)
    except (OSError, ValueError, KeyError) as error:
        raise BadRequest(f"{path} holds no prompts: {error!r}") from error
    return found


def inject_all(homes: Homes, corpus: Path, prompts: Mapping[str, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A line a prompt: ``{"id", "bites": [{"id", "text", "evidence"}]}``."""
    lines: list[dict[str, Any]] = []
    for project, some in prompts.items():
        with homes.memory(f"{project}-prompts", as_one_project(corpus / project)) as (store, searcher):
            extract_all(store, homes.settings, homes.embedder)
            searcher.refresh()
            lines += inject_for(homes, store, searcher, some)
    return lines


def inject_for(
    homes: Homes, store: Store, searcher: Searcher, prompts: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A line a prompt of one project, over the memories that are there."""
    lines = []
    service = RecollectionService(store, searcher, homes.settings, embedder=homes.embedder)
    folder = _usual_folder(store)
    for number, one in enumerate(prompts):
        bites = list(_bites(store, service, one["prompt"], f"bench-{secrets.token_hex(4)}-{number}", folder))
        lines.append({"id": one["id"], "bites": bites})
    return lines


def as_one_project(folder: Path) -> Callable[[Store, Settings], None]:
    """Fills a memory with the sessions of several people in one repository: one project, as for its questions."""
    read = read_transcripts(folder)

    def fill(store: Store, settings: Settings) -> None:
        read(store, settings)
        counted = Counter(one.project_id for one in list_sessions(store) if one.project_id is not None)
        usual, *others = [found for found, _ in counted.most_common()] or [0]
        if others:
            join_projects(store, usual, others, actor=Actor.TIDYING)

    return fill


def _bites(
    store: Store, service: RecollectionService, prompt: str, session_id: str, cwd: str
) -> Iterator[dict[str, Any]]:
    """The bites of one prompt, asked in a session of its own."""
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": session_id, "prompt": prompt, "cwd": cwd}
    answer = service.answer_hook(payload)
    service.write_down()
    shown = json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer else ""
    for line in shown.splitlines():
        for injected in injections_of_session(store, session_id):
            episode = find_episode(store, injected.episode_id) if injected.episode_id in line else None
            if episode is not None:
                evidence = [one.uuid for one in evidence_of(store, episode.id) if one.uuid]
                yield {"id": episode.episode_id, "text": line, "evidence": evidence}


def _usual_folder(store: Store) -> str:
    """Where most sessions were: the new one is in the same project."""
    counted = Counter(one.cwd for one in list_sessions(store) if one.cwd)
    return counted.most_common(1)[0][0] if counted else "/"
