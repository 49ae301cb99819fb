"""Candidates from commits: what the assistant wrote in a commit message, if it gives a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from engram.enums import Kind, Status
from engram.extraction.bite import cut, joined
from engram.extraction.candidate import MAX_SUMMARY_WORDS, Candidate
from engram.extraction.cues import entities_of, kind_of
from engram.extraction.support import excerpt, supporting
from engram.extraction.write_filter import is_own
from engram.models.episodes import MAX_CONTENT_CHARACTERS
from engram.redaction.suspicion import why_suspect
from engram.text.content_words import content_words
from engram.text.statements import Statement, split
from engram.transcripts.commit_message import read_message
from engram.transcripts.record import OPENING_ROLES, Action, Role, TextBlock, Turn

#: Quality of a commit, 0 to 1, compared with passages; and the confidence in it.
COMMIT_QUALITY = 0.9
COMMIT_CONFIDENCE = 0.75
#: Minimum number of content words of a message's body; a shorter one gives no reason.
MIN_BODY_WORDS = 5
#: How many turns before a commit may hold messages that say the same.
MAX_TURNS_BACK = 8

#: The type of a conventional commit; its scope stays.
_TYPE = re.compile(r"^(?P<type>[a-z]+)(?:\((?P<scope>[^)]+)\))?!?:\s+")
#: A statement that only introduces what follows it.
_LEAD = re.compile(r":$|\b\d+[.)]$")


def commits(turns: Sequence[Turn]) -> Iterator[Candidate]:
    """Yield a candidate for each commit of a session whose message gives a reason, in order."""
    last_commit = -1
    for number, turn in enumerate(turns):
        for action in turn.actions:
            if action.is_error or action.is_refused or action.refusal:
                continue
            subject, body = read_message(action.command)
            if not subject:
                continue
            if len(content_words(body)) >= MIN_BODY_WORDS:
                start = max(last_commit, number - MAX_TURNS_BACK, 0)
                yield _candidate(turns[start : number + 1], action, subject, body)
            last_commit = number


def _candidate(turns: Sequence[Turn], action: Action, subject: str, body: str) -> Candidate:
    """Return the candidate of a commit; ``turns``: those that may support it, the committing one last."""
    turn = turns[-1]
    bite = _bite(subject, body)
    supports = supporting(f"{subject} {body}", _replies(turns))
    prompts = [said.uuid for said in turn.said if said.role in OPENING_ROLES and said.uuid] if turn.has_edits else []
    content = "\n\n".join([f"{subject}\n\n{body}", *(excerpt(text, bite) for text in supports)])
    return Candidate(
        kind=_kind(subject, bite),
        summary=bite,
        content=content[:MAX_CONTENT_CHARACTERS],
        evidence=tuple(dict.fromkeys([action.uuid, *(text.uuid for text in supports), *prompts])),
        turn_keys=(turn.key,),
        facts=(action.commit[:120],) if action.commit else (),
        entities=entities_of(bite, turn),
        confidence=COMMIT_CONFIDENCE,
        status=Status.ACTIVE,
        suspect=why_suspect(bite, is_typed=False, is_assistant=True) or "",
        quality=COMMIT_QUALITY,
    )


def _bite(subject: str, body: str) -> str:
    """Return the subject and the sentences of the body that fit into a bite."""
    scope = _TYPE.match(subject)
    head = _TYPE.sub("", subject)
    head = f"{scope['scope']}: {head}" if scope and scope["scope"] else head
    words = head.rstrip(".").split()
    before: Statement | None = None
    for statement in split(body):
        if _LEAD.search(statement.text):
            continue
        addition = statement.text.split()
        if before is None:
            words = [*words[:-1], words[-1] + ".", *addition]
        elif len(words) + len(addition) <= MAX_SUMMARY_WORDS:
            words = joined(words, before, statement, addition)
        else:
            break
        before = statement
    return cut(" ".join(words))


def _kind(subject: str, bite: str) -> Kind:
    scope = _TYPE.match(subject)
    if (scope and scope["type"] == "fix") or subject.lower().startswith(("fix", "correct", "repair")):
        return Kind.FIX
    kind = kind_of(bite, "")
    return kind if kind in (Kind.FIX, Kind.DEAD_END) else Kind.DECISION


def _replies(turns: Sequence[Turn]) -> Iterator[TextBlock]:
    for turn in turns:
        for said in turn.said:
            if said.role is Role.ASSISTANT and not is_own(said.text):
                yield said
