"""The pull requests that sessions name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from peewee import Query

from engram.models import tables
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader, Tx
from engram.transcripts.source import PullRequest

#: Most pull requests that are kept of a session; further ones are left out.
MAX_PULL_REQUESTS = 20


def add_pull_requests(tx: Tx, session_ref: int, links: Iterable[PullRequest]) -> None:
    """Add pull requests to those of a session; one that it named before keeps its time."""
    for link in links:
        if len(tx.fetch(_of_session(session_ref))) >= MAX_PULL_REQUESTS:
            return
        tx.run(tables.PullRequest.insert(session=session_ref, url=link.url, at_ms=link.at_ms).on_conflict_ignore())


def pull_requests_of(store: Reader, session_ids: Iterable[str]) -> Mapping[str, Sequence[PullRequest]]:
    """Session id → its pull requests, the first one first; sessions without any are left out."""
    links: dict[str, list[PullRequest]] = {}
    for row in store.fetch(_of_sessions(json.dumps(sorted(set(session_ids))))):
        links.setdefault(row.session_id, []).append(PullRequest(row.at_ms, row.url))
    return links


@prepared
def _of_session(session_ref: int) -> Query:
    return tables.PullRequest.select(tables.PullRequest.url).where(tables.PullRequest.session == session_ref)


@prepared
def _of_sessions(session_ids: str) -> Query:
    session, link = tables.Session, tables.PullRequest
    named = link.select(session.session_id, link.at_ms, link.url).join(session)
    return named.where(in_json_list(session.session_id, session_ids)).order_by(link.at_ms, link.url)
