"""Where hits were said: what resumes the session, the commit of the turn, the pull request of the session."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from engram.models.commits import last_commits_of
from engram.models.pull_requests import pull_requests_of
from engram.models.sessions import agents_of
from engram.models.transaction import Reader
from engram.search.hits import Hit
from engram.search.public_hits import Origin, PublicHit
from engram.transcripts.registry import resume_command
from engram.transcripts.source import PullRequest


def public_hits(store: Reader, hits: Sequence[Hit]) -> list[PublicHit]:
    """Return hits as others see them, each with its origin. Three queries, whatever the number of hits."""
    sessions = {hit.session_id for hit in hits if hit.session_id}
    agents = agents_of(store, sessions)
    links = pull_requests_of(store, sessions)
    commits = last_commits_of(store, {hit.turn_id for hit in hits if hit.turn_id is not None})
    # Claude Code's depends on what its transcript says: each transcript is looked at once.
    command_of = cache(resume_command)
    return [
        PublicHit.of(
            hit,
            Origin(
                resume=_resume_command(hit, agents.get(hit.session_id, ""), command_of),
                commit="" if hit.turn_id is None else commits.get(hit.turn_id, ""),
                pull_request=_pull_request_for(hit.created_at_ms, links.get(hit.session_id, ())),
            ),
        )
        for hit in hits
    ]


def _resume_command(hit: Hit, agent_name: str, command_of: Callable[[str, str, Path], str]) -> str:
    """Return the command that resumes a hit's session; "" if the transcript is gone, since then nothing does."""
    paths = (Path(place.path) for place in hit.evidence if place.path and os.path.exists(place.path))
    path = next(paths, None)
    return command_of(agent_name, hit.session_id, path) if agent_name and path else ""


def _pull_request_for(at_ms: int, links: Sequence[PullRequest]) -> str:
    """Return the first pull request that the session named after a time, else its last one."""
    later = (link.url for link in links if link.at_ms >= at_ms)
    return next(later, links[-1].url if links else "")
