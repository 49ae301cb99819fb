"""``Hit``, a search result inside the searching process, and ``PublicHit``, its form for all other uses."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import accumulate
from typing import Any

from engram.enums import CURRENT_STATUSES, Importance, Status
from engram.models.memories.branches import MAX_BRANCH_CHARACTERS
from engram.models.memories.memory_records import Memory
from engram.models.sessions.passage_rows import EvidencePlace, normalised_text
from engram.system.clock import iso_or_none, parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import sentence_spans, sentence_texts
from engram.text.subject import STATES_PROBLEM
from engram.text.titles import title_from
from engram.text.words import stems, topic_stems, topic_words
from engram.trust.display import one_line

#: Role of a passage → the speaker's name in the text of a hit with several speakers.
SPEAKERS = {
    "user": "the user",
    "chosen": "the user chose",
    "assistant": "the assistant",
    "proposed": "the assistant's plan",
    "program": "a program",
    "context": "not typed",
}
_NAMES = "|".join(SPEAKERS.values())
#: The name at the start of a line of such text.
NAMED_SPEAKER = lazy_regex(rf"^({_NAMES}): ", re.MULTILINE)
#: The position before such a name at the start of a line other than the first.
_QUOTED_NAME = lazy_regex(rf"(?<=\n)(?=(?:{_NAMES}): )")
#: A name that is not followed by any words.
_ONLY_NAME = lazy_regex(rf"^(?:{_NAMES}):\s*(?=\Z|^(?:{_NAMES}):)", re.MULTILINE)


def with_speaker(run: str, text: str) -> str:
    """Return a run of a text with several speakers so that it starts with a speaker's name, without names that no words
    follow.
    """
    at = text.find(run)
    names = [] if at < 0 or NAMED_SPEAKER.match(run) else NAMED_SPEAKER.findall(text[:at])
    return _ONLY_NAME.sub("", f"{names[-1]}: {run}" if names and run else run).strip()


@dataclass(frozen=True, slots=True)
class Part:
    """What a hit shows of one entry of its turn, word for word."""

    uuid: str
    role: str
    text: str


def text_of_parts(parts: Sequence[Part]) -> str:
    """Return the texts, one per line; if there are several speakers, each text starts with its speaker's name.

    A later line that begins with such a name, as in a quoted dialog, is indented, so that it isn't taken for a speaker.
    """
    if len({part.role for part in parts}) == 1:
        return "\n".join(part.text for part in parts)
    return "\n".join(f"{SPEAKERS.get(part.role, part.role)}: {_QUOTED_NAME.sub(' ', part.text)}" for part in parts)


def role_of_parts(parts: Sequence[Part]) -> str:
    """Return the role of the speaker; "" if there are several."""
    return parts[0].role if len({part.role for part in parts}) == 1 else ""


#: Maximum number of hits in one answer, for any caller.
MAX_HITS = 1_000


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of ``recall`` (a memory) or ``search`` (a passage of a turn, or a chunk of a note)."""

    #: ``ep_…`` for a memory, ``q_…`` for a passage (a quotation), ``source#line`` for a note.
    id: str
    #: A memory's kind; ``turn`` for a passage; ``note`` for a chunk of a note.
    kind: str
    #: The text to show: a memory's summary, or a part of a turn or a note, word for word.
    text: str
    #: Higher is better; comparable within one answer.
    score: float
    #: Name of a scorer → what it added to the score.
    parts: Mapping[str, float]
    #: Display name of the project; "" for none.
    project: str = ""
    created_at_ms: int = 0
    #: For a memory, only the uuids; ``public_hits`` reads the places for the hits that are shown.
    evidence: tuple[EvidencePlace, ...] = ()
    #: The status of a memory; active for passages and notes.
    status: Status = Status.ACTIVE
    importance: Importance = Importance.NORMAL
    #: The stored memory; None for a passage or a note.
    memory: Memory | None = None
    #: Claude Code's session; "" for none.
    session_id: str = ""
    #: Who said it: user or assistant; "" for a note, a memory, and for several speakers, whom the text names.
    role: str = ""
    #: Row ids of the turn, and of the passage, memory or note chunk.
    turn_id: int | None = None
    row_id: int = 0
    #: The working folder of a passage; "" for other hits.
    cwd: str = ""
    #: What a passage shows of each entry, in the order of the transcript; empty for other hits.
    parts_of_turn: tuple[Part, ...] = ()
    #: The question that a quotation answers; "" for other hits.
    asked: str = ""
    #: The unmerged branch that a memory was learned on, if it isn't the asker's branch; otherwise "".
    branch: str = ""
    #: Factor for the relevance of a memory that would be shown unprompted: below 1 if it was often shown and never
    #: used, above 1 if it was judged helpful (``engram.models.memories.judgements``).
    use_factor: float = field(default=1.0, compare=False)
    #: Cosine to the query; None without a model.
    cosine: float | None = field(default=None, compare=False)
    #: No hit of the answer matches the question closely; this one is among the closest.
    is_doubtful: bool = field(default=False, compare=False)
    #: For a passage: how well all passages support the question (``engram.search.abstain``); None if not computed.
    support: float | None = field(default=None, compare=False)

    @property
    def is_retired(self) -> bool:
        """True for a memory that was replaced, archived or judged wrong: all other hits come before it."""
        return is_retired(self)


def is_retired(hit: Hit | PublicHit) -> bool:
    return hit.status not in CURRENT_STATUSES or (hit.memory is not None and hit.memory.is_lowered)


# -- A search result as commands and the MCP server show it. Its JSON crosses engram.sock; ``--json`` prints it.


@dataclass(frozen=True, slots=True)
class MemoryFields:
    """The fields of a hit that only memories have."""

    content: str
    scope: str
    is_pinned: bool
    is_lowered: bool
    #: Id of the memory that replaced this one; "" for none.
    superseded_by: str
    #: Why it may no longer be valid; "" if nothing suggests that.
    stale_reason: str
    #: The unmerged branch that it was learned on, if it isn't the asker's branch; otherwise "".
    branch: str
    #: Who said it, if that was nobody in the user's own sessions: "teammate NAME", "pack NAME", "imported".
    told_by: str
    #: Why it may be a planted instruction; "" if nothing suggests that.
    suspect: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a hit comes from, so that the reader can go back to it."""

    #: The command that resumes its session; "" if the transcript is gone.
    resume: str = ""
    #: Hash of the commit that its turn made; "" for none.
    commit: str = ""
    #: Web address of the pull request that its session names; "" for none.
    pull_request: str = ""
    #: Name of the assistant that answers in its session.
    assistant: str = "Claude"
    #: Title of its session; "" for none, and for a session of a project other than the asker's.
    session_title: str = ""
    #: Folder in which its session began and its resume command works; "" in the same cases as the title.
    folder: str = ""


#: The beginning of a command that first recreates a session's folder.
_MAKING = "mkdir -p "


def in_folder(command: str, folder: str, here: str) -> str:
    """Return a command that resumes a session in the folder where it began, the only one where the agent finds it.

    A folder that is gone is made again, so that the whole line can be pasted; another system's folder is only named.
    """
    if not command or not folder or folder == here:
        return command
    if not os.path.isabs(folder):
        return f"in {folder} on another system: {command}"
    home = os.path.expanduser("~")
    shown = f"~/{shlex.quote(folder[len(home) + 1 :])}" if folder.startswith(f"{home}/") else shlex.quote(folder)
    making = "" if os.path.isdir(folder) else f"{_MAKING}{shown} && "
    return f"{making}cd {shown} && {command}"


def makes_folder(command: str) -> bool:
    """Return True for a command of ``in_folder`` that first recreates the folder. Lists leave such commands out."""
    return command.startswith(_MAKING)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the user's own files (CLAUDE.md, rules, auto memory) say about the subject of a memory."""

    #: Name of the file that says the same thing; "" for none.
    stands_in: str = ""
    #: What a file says instead, as a short clause such as ``CLAUDE.md: use pnpm``; "" for none.
    contradicted_by: str = ""


@dataclass(frozen=True, slots=True)
class PublicHit:
    """A hit without the fields that only the search needs. ``to_json`` and ``from_json`` define its JSON keys."""

    #: As in ``Hit``; also ``commits#day#project`` and ``session#id``.
    id: str
    #: As in ``Hit``; also ``commits`` for the commits of a day, and ``session`` for a model's summary of a session.
    kind: str
    #: A memory's summary, a passage, a part of a note, the commits of a day, or the summary of a session.
    text: str
    score: float
    #: Name of a step of the ranking → what it added to the score.
    parts: Mapping[str, float]
    #: Display name of the project; "" for none.
    project: str
    #: When it was said or written, in milliseconds; 0 if unknown.
    created_at_ms: int
    evidence: tuple[EvidencePlace, ...]
    #: Claude Code's session; "" for none.
    session_id: str
    status: Status
    importance: Importance
    #: Who said it: user or assistant; "" for a note, a memory, and for several speakers, whom the text names.
    role: str
    #: Cosine to the query; None if there was no model.
    cosine: float | None
    #: As in ``Hit``.
    is_doubtful: bool
    #: None unless the hit is a memory.
    memory: MemoryFields | None
    origin: Origin = Origin()
    standing: Standing = Standing()
    #: The parts of a memory's evidence, word for word, that its summary does not contain; "" if not shown.
    quote: str = ""
    #: What was said later in a passage's session to contradict or supersede it, with the speaker; "" for nothing.
    followed: str = ""
    #: Title for display: for a memory, its own or the first clause of its text; for other hits, their session's; "" for
    #: none.
    title: str = ""
    #: How the turn of a passage ended, from its last message; "" if not shown.
    outcome: str = ""
    #: How many of the files that its turn edited have changed since, according to git, and how many it edited; (0, 0)
    #: if it edited none, or git was not queried.
    changed_files: tuple[int, int] = (0, 0)
    #: True if the hits may not answer the question, because there is little support for it, or no vectors.
    is_unsure: bool = False

    @property
    def is_retired(self) -> bool:
        return is_retired(self)

    @property
    def names_speakers(self) -> bool:
        """True if each line of its text begins with its speaker's name."""
        return self.kind == "turn" and not self.role

    def part(self, run: str) -> str:
        """Return a run of its text; if there are several speakers, the run starts with the first one's name."""
        return with_speaker(run, self.text) if self.names_speakers else run

    @property
    def written_title(self) -> str:
        """The title that somebody wrote for a memory; "" if it only repeats the text, and for other hits."""
        return "" if self.memory is None or self.title == title_from(self.text) else self.title

    @classmethod
    def of(cls, hit: Hit, origin: Origin | None = None) -> PublicHit:
        memory, origin = hit.memory, origin or Origin()
        return cls(
            id=hit.id,
            kind=hit.kind,
            text=hit.text,
            score=round(hit.score, 6),
            parts={name: round(float(value), 6) for name, value in hit.parts.items()},
            project=hit.project,
            created_at_ms=hit.created_at_ms // 1000 * 1000,
            evidence=hit.evidence,
            session_id=hit.session_id,
            status=hit.status,
            importance=hit.importance,
            role=hit.role,
            cosine=None if hit.cosine is None else round(hit.cosine, 6),
            is_doubtful=hit.is_doubtful,
            memory=None
            if memory is None
            else MemoryFields(
                content=memory.content,
                scope=memory.scope,
                is_pinned=memory.is_pinned,
                is_lowered=memory.is_lowered,
                superseded_by=memory.superseded_by,
                stale_reason=memory.stale_reason,
                branch=one_line(hit.branch, MAX_BRANCH_CHARACTERS),
                told_by=one_line(memory.told_by, MAX_BRANCH_CHARACTERS),
                suspect=one_line(memory.suspect, MAX_BRANCH_CHARACTERS),
            ),
            origin=origin,
            title=origin.session_title if memory is None else memory.shown_title,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the hit as JSON for ``--json`` and engram.sock; only memories have the keys of ``MemoryFields``."""
        values: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "text": self.text,
            "score": self.score,
            "parts": dict(self.parts),
            "project": self.project,
            "created_at": iso_or_none(self.created_at_ms),
            "evidence": [place.to_json() for place in self.evidence],
            "session": self.session_id,
            "session_title": self.origin.session_title,
            "assistant": self.origin.assistant,
            "status": self.status,
            "importance": self.importance,
            "role": self.role,
            "cosine": self.cosine,
            "doubtful": self.is_doubtful,
            "resume": self.origin.resume,
            "folder": self.origin.folder,
            "commit": self.origin.commit,
            "pull_request": self.origin.pull_request,
        }
        if self.is_unsure:
            values["unsure"] = True
        if self.followed:
            values["followed"] = self.followed
        if self.outcome:
            values["outcome"] = self.outcome
        if self.changed_files[0]:
            values["changed_files"], values["edited_files"] = self.changed_files
        if self.memory is not None:
            values |= {**_written(self.memory), **_written(self.standing), "quote": self.quote}
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> PublicHit:
        """Return a hit that ``to_json`` wrote.

        Raises:
            KeyError: a key is missing, for example because another version wrote the JSON.
        """
        fields_of_hit = {
            **values,
            "created_at_ms": parse_time_ms(values["created_at"]) or 0,
            "evidence": tuple(_read(EvidencePlace, {**row, "line": row["line"] or 0}) for row in values["evidence"]),
            "status": Status.from_stored(values["status"]),
            "importance": Importance.from_stored(values["importance"]),
            "memory": _read(MemoryFields, values) if "content" in values else None,
            "origin": _read(Origin, values),
            "standing": _read(Standing, values),
            "changed_files": (values.get("changed_files", 0), values.get("edited_files", 0)),
        }
        hit: PublicHit = _read(cls, fields_of_hit)
        return hit


#: Field of a hit or of a part of it → its key in JSON, if this has another name.
_KEYS = {
    "session_id": "session",
    "is_doubtful": "doubtful",
    "is_unsure": "unsure",
    "is_pinned": "pinned",
    "is_lowered": "lowered",
    "stale_reason": "stale",
    "branch": "unmerged_branch",
}


def _written(part: MemoryFields | Standing) -> dict[str, Any]:
    return {_KEYS.get(known.name, known.name): getattr(part, known.name) for known in fields(part)}


def _read(kind: Any, values: Mapping[str, Any]) -> Any:
    """Return a dataclass from JSON; a field with a default may be missing."""
    keys = {known.name: _KEYS.get(known.name, known.name) for known in fields(kind)}
    needed = {known.name for known in fields(kind) if known.default is MISSING}
    return kind(**{name: values[key] for name, key in keys.items() if name in needed or key in values})


# -- Rank memories from unmerged branches lower if the asker works on another branch.

#: Share of its score that such a memory loses.
BRANCH_DEDUCTION = 0.3


def sink_other_branches(hits: Sequence[Hit], branches: Mapping[int, str], asked_on: str) -> list[Hit]:
    """Return the hits, best first, each with its unmerged branch and with the score lowered accordingly.

    Args:
        branches: row id of a memory → its unmerged branch.
        asked_on: the branch that the asker works on; memories of this branch are not lowered.
    """
    marked = [_sink(hit, branch) if (branch := branches.get(hit.row_id, "")) != asked_on else hit for hit in hits]
    return sorted(marked, key=lambda hit: -hit.score)


def _sink(hit: Hit, branch: str) -> Hit:
    if not branch:
        return hit
    deduction = -BRANCH_DEDUCTION * abs(hit.score)
    return replace(hit, branch=branch, score=hit.score + deduction, parts={**hit.parts, "branch": deduction})


# -- Leave out sentences that an answer already contains.


#: A sentence counts as said if a text contains this share of its informative words.
MIN_SAID_SHARE = 0.75


def is_said(sentence: str, said: Sequence[frozenset[str]]) -> bool:
    """Return True if one of the texts, given as stems, contains most of the sentence's informative words."""
    words = topic_stems(sentence)
    return any(len(words & other) >= MIN_SAID_SHARE * len(words) for other in said)


#: Minimum number of informative words by which a single sentence is recognised as one that was judged wrong.
MIN_BARRED_WORDS = 3


def are_barred(sentences: Sequence[str], barred: Collection[str]) -> list[bool]:
    """Return, for each sentence of a message, whether it is part of a text that was judged wrong.

    That is so where the message contains the whole text, and for any single sentence of it with at least
    ``MIN_BARRED_WORDS`` informative words.

    Args:
        barred: the texts that were judged wrong, normalised.
    """
    if not barred:
        return [False] * len(sentences)
    # Add a space on both sides, so that a text is not found within a word.
    others = [f" {other} " for other in barred]
    texts = [normalised_text(sentence) for sentence in sentences]
    stops = [stop - 1 for stop in accumulate(len(text) + 1 for text in texts)]
    message = f" {' '.join(texts)} "
    places = [(at, at + len(other) - 2) for other in others for at in _places_in(message, other)]
    return [
        any(start <= stop - len(text) and stop <= end for start, end in places)
        or (any(f" {text} " in other for other in others) and len(topic_words(text)) >= MIN_BARRED_WORDS)
        for text, stop in zip(texts, stops, strict=True)
    ]


def _places_in(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def stems_said(hit: PublicHit) -> frozenset[str]:
    return stems(topic_words(f"{hit.text}\n{hit.quote}\n{hit.outcome}"))


def without_said(text: str, said: Sequence[frozenset[str]]) -> str:
    """Return a text without the sentences at its beginning and end that were already said; "" if none is left."""
    spans = sentence_spans(text)
    while spans and is_said(text[slice(*spans[0])], said):
        spans.pop(0)
    while spans and is_said(text[slice(*spans[-1])], said):
        spans.pop()
    return text[spans[0][0] : spans[-1][1]] if spans else ""


# -- Notice that the first hit of an answer may be outdated by a later one.

#: Minimum share of the question's words that the first hit contains and a later one must contain, too.
MIN_SAME_QUESTION = 0.5
#: Minimum number of informative words, one of them from the question, that two sentences about the same thing share.
MIN_SAME_THING = 2
#: The beginning of a sentence that announces the speaker's next step, which is not a change.
_NEXT_STEP = lazy_regex(r"\W*now\b(?!.*\b(?:no longer|instead|is|are)\b)", re.IGNORECASE)
#: Words for a change that also say what is no longer so.
_REPLACES = lazy_regex(r"\b(?:no longer|any ?more|replaced|removed|reverted|switched)\b", re.IGNORECASE)
#: Words that say that something was done or is different now.
_TELLS_CHANGE = lazy_regex(
    r"\b(?:now|no longer|any ?more|instead|updated?|supported|changed|replaced|removed|reverted|switched|fixed|done)\b",
    re.IGNORECASE,
)


def later_word(question: str, hits: Sequence[PublicHit]) -> int:
    """Return the index of the first hit that changes what hit 0 says, later in the same session; 0 if none does.

    Such a hit contains most of the question's words that hit 0 contains, and says that the subject of a sentence of hit
    0 has changed: a problem stated there is solved, or something is replaced. Memories are left out, because they were
    made after their session had ended.
    """
    if not hits or hits[0].memory or not hits[0].session_id or _TELLS_CHANGE.search(hits[0].text):
        return 0
    first = hits[0]
    asked = stems(topic_words(question))
    said = asked & stems_said(first)
    for place, hit in enumerate(hits):
        is_later = hit.session_id == first.session_id and hit.created_at_ms > first.created_at_ms
        is_same = bool(said) and len(said & stems_said(hit)) >= MIN_SAME_QUESTION * len(said)
        if is_later and is_same and _changes(hit.text, first.text, asked):
            return place
    return 0


def _changes(later: str, earlier: str, asked: frozenset[str]) -> bool:
    """Return True if a later text says that something in an earlier one is no longer so."""
    before = [
        (words, bool(STATES_PROBLEM.search(told))) for told in sentence_texts(earlier) if (words := topic_stems(told))
    ]
    for sentence in sentence_texts(later):
        if not _TELLS_CHANGE.search(sentence) or _NEXT_STEP.match(sentence):
            continue
        words, is_replaced = topic_stems(sentence), bool(_REPLACES.search(sentence))
        if any(
            (is_problem or is_replaced) and len(words & said) >= MIN_SAME_THING and words & said & asked
            for said, is_problem in before
        ):
            return True
    return False
