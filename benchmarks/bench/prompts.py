"""Find out what would be injected for a set of prompts, through the service that answers the hook."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.homes import BenchHomes, extract_all, read_transcripts
from bench.storing import join_projects
from engram.enums import Actor
from engram.errors import BadRequest
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import evidence_of, find_memory
from engram.models.sessions.passage_rows import find_quotation
from engram.models.sessions.sessions import list_sessions
from engram.models.shown.injections import injections_of_session
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings


def read_prompts(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return project → its prompts. Raises BadRequest."""
    prompts: dict[str, list[dict[str, Any]]] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            prompt = json.loads(line)
            prompts.setdefault(prompt["project"], []).append(prompt)
    except (OSError, ValueError, KeyError) as error:
        raise BadRequest(f"{path} is not a file of prompts: {error!r}") from error
    return prompts


def inject_all(
    homes: BenchHomes, corpus: Path, prompts: Mapping[str, Sequence[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return one entry for each prompt: ``{"id", "bites": [{"id", "text", "evidence"}]}``."""
    lines: list[dict[str, Any]] = []
    for project, of_project in prompts.items():
        with homes.memory(f"{project}-prompts", as_one_project(corpus / project)) as (store, searcher):
            extract_all(store, homes.settings, homes.embedder)
            searcher.refresh()
            lines += inject_for(homes, store, searcher, of_project)
    return lines


def inject_for(
    homes: BenchHomes, store: Store, searcher: Searcher, prompts: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return one entry for each prompt of one project, given its existing memories."""
    lines = []
    service = RecollectionService(store, searcher, homes.settings, embedder=homes.embedder)
    folder = usual_folder(store)
    for number, prompt in enumerate(prompts):
        bites = list(_bites(store, service, prompt["prompt"], f"bench-{secrets.token_hex(4)}-{number}", folder))
        lines.append({"id": prompt["id"], "bites": bites})
    return lines


def as_one_project(folder: Path) -> Callable[[Store, Settings], None]:
    """Return a function that fills a memory with the sessions of several people in one repository, as one project."""
    read = read_transcripts(folder)

    def fill(store: Store, settings: Settings) -> None:
        read(store, settings)
        counted = Counter(session.project_id for session in list_sessions(store) if session.project_id is not None)
        usual, *others = [project_id for project_id, _ in counted.most_common()] or [0]
        if others:
            join_projects(store, usual, others, actor=Actor.TIDYING)

    return fill


def _bites(
    store: Store, service: RecollectionService, prompt: str, session_id: str, cwd: str
) -> Iterator[dict[str, Any]]:
    """Return the bites for a prompt in a new session."""
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": session_id, "prompt": prompt, "cwd": cwd}
    answer = service.answer_hook(payload)
    service.write_down()
    shown = json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer else ""
    for line in shown.splitlines():
        for injected in injections_of_session(store, session_id):
            if injected.episode_id not in line:
                continue
            quotation = find_quotation(store, injected.episode_id)
            memory = None if quotation is not None else find_memory(store, injected.episode_id)
            if quotation is not None:
                yield {"id": quotation.quotation_id, "text": line, "evidence": [quotation.source]}
            elif memory is not None:
                evidence = [evidence.uuid for evidence in evidence_of(store, memory.id) if evidence.uuid]
                yield {"id": memory.episode_id, "text": line, "evidence": evidence}


def usual_folder(store: Store) -> str:
    """Return the working folder of most sessions, to which a new session would belong; "/" if there is none."""
    counted = Counter(session.cwd for session in list_sessions(store) if session.cwd)
    return counted.most_common(1)[0][0] if counted else "/"
