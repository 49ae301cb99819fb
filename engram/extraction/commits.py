"""Candidates from commits: what the assistant wrote in a commit message, if it gives a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from engram.enums import Kind, Status
from engram.extraction.bite import cut, joined
from engram.extraction.candidate import MAX_SUMMARY_WORDS, Candidate
from engram.extraction.labels import entities_of, kind_of
from engram.extraction.support import excerpt, supporting
from engram.extraction.write_filter import is_own
from engram.models.episodes import MAX_CONTENT_CHARACTERS
from engram.redaction.suspicion import why_suspect
from engram.text.content_words import content_words
from engram.text.statements import Statement, split
from engram.transcripts.record import MAX_COMMAND_CHARS, Action, Role, TextBlock, Turn

#: Quality of a commit, 0 to 1, compared with passages; and the confidence in it.
COMMIT_QUALITY = 0.9
COMMIT_CONFIDENCE = 0.75
#: Minimum number of content words of a message's body; a shorter one gives no reason.
MIN_BODY_WORDS = 5
#: How many turns before a commit may hold messages that say the same.
MAX_TURNS_BACK = 8

_COMMIT = re.compile(r"(?:^|[;&|(\n])\s*git(?:\s+-[cC]\s+\S+)*\s+commit\b(?P<rest>.*)", re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(?P<end>\w+)\1\n(?P<text>.*)", re.DOTALL)
_HERE_STRING = re.compile(r"@(?P<quote>['\"])\n(?P<text>.*)", re.DOTALL)
_MESSAGE = re.compile(
    r"(?:\s-[a-zA-Z]*m|\s--message)[= ]?\s*(?:\"(?P<double>(?:[^\"\\]|\\.)*)(?P<end2>\"|$)|"
    r"'(?P<single>[^']*)(?P<end1>'|$))",
    re.DOTALL,
)
#: Lines that tools and people add below a message.
_TRAILER = re.compile(r"^\s*(?:[A-Z][\w-]+-by|Co-authored-by|Change-Id|\W*Generated (?:with|by))\b.*$", re.I | re.M)
#: The type of a conventional commit; its scope stays.
_TYPE = re.compile(r"^(?P<type>[a-z]+)(?:\((?P<scope>[^)]+)\))?!?:\s+")
#: Where a message that was cut may end: after a sentence, or before a bullet.
_SENTENCE_END = re.compile(r"(?<!\d)[.!?](?=\s|$)|(?=\n\s*(?:[-*•]|\d+[.)])\s)")
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


def read_message(command: str) -> tuple[str, str]:
    """Return subject and body of the message of a ``git commit`` command; ("", "") if there is none.

    A command is stored up to ``MAX_COMMAND_CHARS``: of a message that was cut, the last sentence is left out.
    """
    match = _COMMIT.search(command)
    if match is None:
        return "", ""
    text, is_whole = _quoted(match["rest"])
    if not is_whole and len(command) >= MAX_COMMAND_CHARS:
        ends = [end.end() for end in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else text.partition("\n")[0] if "\n" in text else ""
    subject, _, body = _TRAILER.sub("", text).strip().partition("\n")
    return subject.strip(), body.strip()


def _quoted(rest: str) -> tuple[str, bool]:
    """Return the message in the arguments of a commit, and whether its end was reached."""
    if heredoc := _HEREDOC.search(rest):
        text, end, _ = heredoc["text"].partition("\n" + heredoc["end"])
        return text, bool(end)
    if here := _HERE_STRING.search(rest):
        text, end, _ = here["text"].partition("\n" + here["quote"] + "@")
        return text, bool(end)
    parts = [
        (match["double"] if match["double"] is not None else match["single"], bool(match["end2"] or match["end1"]))
        for match in _MESSAGE.finditer(rest)
    ]
    return "\n\n".join(text for text, _ in parts), all(is_closed for _, is_closed in parts)


def _candidate(turns: Sequence[Turn], action: Action, subject: str, body: str) -> Candidate:
    """Return the candidate of a commit; ``turns``: those that may support it, the committing one last."""
    turn = turns[-1]
    bite = _bite(subject, body)
    supports = supporting(f"{subject} {body}", _replies(turns))
    prompts = [said.uuid for said in turn.said if said.role is Role.USER and said.uuid] if turn.has_edits else []
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
    kind = kind_of(bite, "", is_user=False)
    return kind if kind in (Kind.FIX, Kind.DEAD_END) else Kind.DECISION


def _replies(turns: Sequence[Turn]) -> Iterator[TextBlock]:
    for turn in turns:
        for said in turn.said:
            if said.role is Role.ASSISTANT and not is_own(said.text):
                yield said
