"""The JSON record of a memory in an export, and the items that the reader of every import format yields."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.enums import Actor
from engram.errors import BadRequest
from engram.models.engine.transaction import Reader, Store
from engram.models.forgetting.erase_entries import queued_key
from engram.models.memories import memory_records
from engram.models.memories.judgements import Contradiction
from engram.models.memories.memory_history import IMPORT, Change, history_of
from engram.models.memories.memory_imports import contradictions_of, stored_ids
from engram.models.memories.memory_records import MAX_SUMMARY_CHARACTERS, Evidence, Memory
from engram.models.memories.tombstones import TombstoneKind
from engram.models.projects import projects
from engram.models.projects.project_folders import ProjectHints
from engram.models.rescue.clean_copies import Tombstone, read_tombstones
from engram.models.sessions import sessions
from engram.reports.memory_report import MAX_INTEGER, memory_from_json, memory_to_json
from engram.system.atomic import read_regular
from engram.transcripts.json_values import object_in, storable_value


@dataclass(frozen=True, slots=True)
class Place:
    """The project of a memory according to its file."""

    name: str
    #: Identity of its folder; "" if the file doesn't contain it.
    identity: str = ""
    root: str = ""
    #: Hints by which the repository is recognised in another folder; "" if there are none.
    remote: str = ""
    first_commit: str = ""
    #: Name of the project of which ``name`` seems to be a worktree; "" if there is none.
    worktree_of: str = ""


@dataclass(frozen=True, slots=True)
class IncomingMemory:
    """A memory as read from a file. Its text has not been redacted yet, and its project is only a name."""

    memory: Memory
    place: Place | None = None
    evidence: tuple[Evidence, ...] = ()
    history: tuple[Change, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    #: Name of the agent from whose session it came; "" if unknown.
    agent: str = ""
    #: Where it came from, recorded as the reason in the history.
    reason: str = ""
    #: Its record, if the file is an export, which shows whether this database wrote it; None for other files.
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class IncomingTombstones:
    """The forgotten items of the database that wrote the file."""

    tombstones: tuple[Tombstone, ...]
    #: Its record, which shows whether this database wrote it.
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unusable:
    """A part of a file that can't be imported."""

    #: Such as "line 7", "row 12 of observations", or the name of a file.
    where: str
    why: str


Incoming = IncomingMemory | IncomingTombstones | Unusable


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder of a known format, ready to be read."""

    format: str
    #: Path of the source, or "standard input".
    name: str
    items: Iterator[Incoming]
    #: Remarks for the user, such as what is left out.
    remarks: tuple[str, ...] = ()


def derived_ids(program: str, *parts: str) -> Mapping[str, Any]:
    """Return ``episode_id`` and ``stable_id`` for another program's memory, which depend only on the given parts.

    Therefore, importing twice adds nothing, and forgotten memories remain forgotten.
    """
    digest = hashlib.sha256("\0".join((program, *parts)).encode("utf-8", "replace")).hexdigest()
    return {"episode_id": f"ep_{digest[:12]}", "stable_id": digest[12:28]}


def fitting_texts(summary: str, content: str) -> tuple[str, str]:
    """Return a summary and content of valid length. If the summary is too long, the content keeps all of it."""
    line = " ".join(summary.split())
    if len(line) <= MAX_SUMMARY_CHARACTERS:
        return line, content
    whole = content if line in " ".join(content.split()) else f"{summary}\n\n{content}"
    return f"{line[: MAX_SUMMARY_CHARACTERS - 1]}…", whole


# -- What is taken from somebody else.

#: Fields of a memory from someone else's export that are what it says, when, and of which project. All others are
#: somebody's claim of how far to trust or prefer it, texts that nobody judges, or names of what may be the user's own:
#: ids, the session and the evidence. They get their defaults, and the ids are derived.
_SAID = frozenset(
    "kind summary content project scope facts entities questions title status is_lowered valid_from_ms valid_to_ms "
    "superseded_by created_at_ms kept_at_ms".split()
)
#: Extractor of a memory from someone else's export.
_EXTRACTOR = "import"
#: Maximum number of characters of a content, another text and a name from someone else, and of its facts and names.
MAX_FOREIGN_CONTENT, _MAX_TEXT, _MAX_NAME, _MAX_FACTS, _MAX_NAMES = 20_000, 4_000, 200, 50, 100


def said_by_others(memory: Memory) -> Memory:
    """Return what is believed of a memory in someone else's export."""
    said = {name: getattr(memory, name) for name in _SAID}
    return Memory(**said, **derived_ids(_EXTRACTOR, memory.episode_id), extractor=_EXTRACTOR)


def id_of_foreign(episode_id: str) -> str:
    """Return the id under which a memory from someone else's export is stored, which no memory of the user's has."""
    return str(derived_ids(_EXTRACTOR, episode_id)["episode_id"])


def copies_of_known(store: Store) -> Mapping[str, str]:
    """Return id of a copy → id of the memory, for what somebody, or somebody after them, imported from this database.

    With them, a memory that comes back from there is known, or known to be forgotten.
    """
    tombstones = (
        key.decode("utf-8", "replace") for kind, key, _ in read_tombstones(store) if kind == TombstoneKind.MEMORY
    )
    known = {*stored_ids(store), *tombstones}
    first = {id_of_foreign(name): name for name in known}
    return {id_of_foreign(copy): name for copy, name in first.items()} | first


def named_as_here(item: IncomingMemory, copies: Mapping[str, str]) -> IncomingMemory:
    """Return a memory with its own and its successor's id in this database, if they came from here."""
    own, successor = (copies.get(name, name) for name in (item.memory.episode_id, item.memory.superseded_by))
    return dataclasses.replace(item, memory=dataclasses.replace(item.memory, episode_id=own, superseded_by=successor))


def bounded(memory: Memory) -> Memory:
    """Return a memory with no more text than one has, so that no file can occupy this process for minutes.

    The content is cut to its final length only once it is redacted, because half a secret would not be recognised.
    """
    summary, content = fitting_texts(memory.summary[:_MAX_TEXT], memory.content)
    return dataclasses.replace(
        memory,
        summary=summary,
        content=content[: 2 * MAX_FOREIGN_CONTENT],
        title=memory.title if len(memory.title) <= _MAX_NAME else "",
        facts=tuple(fact for fact in memory.facts if len(fact) <= _MAX_TEXT)[:_MAX_FACTS],
        questions=tuple(question for question in memory.questions if len(question) <= _MAX_TEXT)[:_MAX_FACTS],
        entities=tuple(name for name in memory.entities if len(name) <= _MAX_NAME)[:_MAX_NAMES],
    )


# -- Convert a memory, with everything that belongs to it, to a JSON object and back.

#: Kind of the record that lists forgotten items. It has the keys of a memory, with empty values.
FORGOTTEN = "forgotten"
_NO_MEMORY = {"id": "", "kind": FORGOTTEN, "project": "", "session": "", "summary": "", "content": "", "evidence": []}
#: Key in a record of the signature by which the database that wrote the record recognises it.
_PROOF = "proof"
#: Keys in the history for a project: its row id in this database, and its identity in a file.
_PROJECT_ID, _PROJECT_IDENTITY = "project_id", "project_identity"


def record_of(store: Store, memory: Memory, hints: Mapping[int, ProjectHints]) -> dict[str, Any]:
    """Return everything in a memory that is meaningful elsewhere, beginning with the keys of ``engram expand --json``.

    Row ids, run numbers and the time at which the row was written are left out. The record is signed, so that this
    database can later recognise a record that it wrote and nobody changed.
    """
    record = memory_to_json(store, memory)
    del record["updated_at_ms"]
    place = None if memory.project_id is None else hints.get(memory.project_id)
    if place is not None:
        record |= {"project_identity": place.project.identity, "project_root": place.project.root}
        if place.remote or place.first_commit:
            record |= {"project_remote": place.remote, "project_first_commit": place.first_commit}
    session = sessions.find_session(store, memory.session_id) if memory.session_id else None
    if session is not None:
        record["agent"] = session.agent
    rests_on = memory_records.evidence_of(store, memory.id)
    if rests_on:
        # A queued prompt, which has no id, is identified by the key of its turn.
        record["rests_on"] = [
            {"uuid": entry.uuid or queued_key(store, entry.turn_id), "session": entry.session_id} for entry in rests_on
        ]
    steps = [step for step in history_of(store, memory.episode_id) if step.action != IMPORT]
    places = {step.id: number for number, step in enumerate(steps)}
    record["history"] = [_step_to_json(store, step, places) for step in steps]
    contradictions = [
        {key: value for key, value in dataclasses.asdict(contradiction).items() if key != "newer_id"}
        for contradiction in contradictions_of(store, memory.episode_id)
    ]
    if contradictions:
        record["contradictions"] = contradictions
    return {**record, _PROOF: _proof_of(store, record)}


def is_proven(store: Store, record: Mapping[str, Any]) -> bool:
    """Return True if this database wrote the record and nothing in it has been changed."""
    told = record.get(_PROOF)
    return isinstance(told, str) and hmac.compare_digest(told.encode(), _proof_of(store, record).encode())


def _proof_of(store: Store, record: Mapping[str, Any]) -> str:
    """Return the signature of a record, which can't be forged without this database's salt."""
    said = {name: value for name, value in record.items() if name != _PROOF}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hmac.new(sessions.salt(store), b"engram export\0" + text.encode(), hashlib.sha256).hexdigest()


def tombstone_record(store: Store) -> dict[str, Any] | None:
    """Return the last record of an export: the forgotten items, as ids and hashes; None if there are none."""
    tombstones = sorted(one for one in read_tombstones(store) if one[0] != TombstoneKind.TEXT)
    if not tombstones:
        return None
    written = [{"kind": kind, "key": key.hex(), "at_ms": at_ms} for kind, key, at_ms in tombstones]
    record = {**_NO_MEMORY, "importance": "", "status": FORGOTTEN, "tombstones": written}
    return {**record, _PROOF: _proof_of(store, record)}


def incoming_of(record: Mapping[str, Any]) -> IncomingMemory | IncomingTombstones:
    """Return the memory or the forgotten items in a record.

    Raises:
        BadRequest: a required field is missing, or a value has the wrong type.
    """
    record = object_in(storable_value(record))
    if record.get("kind") == FORGOTTEN:
        return IncomingTombstones(tuple(map(_tombstone, _objects(record, "tombstones"))), record)
    memory, evidence = memory_from_json(record)
    if "rests_on" in record:
        evidence = [Evidence(_text(entry, "uuid"), _text(entry, "session")) for entry in _objects(record, "rests_on")]
    place = None
    if memory.project:
        place = Place(
            name=memory.project,
            identity=_text(record, "project_identity"),
            root=_text(record, "project_root"),
            remote=_text(record, "project_remote"),
            first_commit=_text(record, "project_first_commit"),
        )
    return IncomingMemory(
        memory=memory,
        place=place,
        evidence=tuple(evidence),
        history=tuple(_step_from_json(memory.episode_id, step) for step in _objects(record, "history")),
        contradictions=tuple(_contradiction(memory.episode_id, row) for row in _objects(record, "contradictions")),
        agent=_text(record, "agent"),
        record=record,
    )


def _step_to_json(store: Store, step: Change, places: Mapping[int, int]) -> dict[str, Any]:
    """Return a step as a JSON object. The step that it undid is given by its position in the history."""
    undone = {"undoes": places[step.undoes]} if step.undoes is not None and step.undoes in places else {}
    return {
        "at_ms": step.at_ms,
        "action": step.action,
        "reason": step.reason,
        "actor": step.actor.value,
        "before": _with_identity(store, step.before),
        "after": _with_identity(store, step.after),
        **undone,
    }


def _with_identity(store: Store, fields: Mapping[str, Any]) -> dict[str, Any]:
    if _PROJECT_ID not in fields:
        return dict(fields)
    project_id = fields[_PROJECT_ID]
    place = projects.project_by_id(store, project_id) if isinstance(project_id, int) else None
    rest = {name: value for name, value in fields.items() if name != _PROJECT_ID}
    return rest | {_PROJECT_IDENTITY: None if place is None else place.identity}


def _step_from_json(episode_id: str, step: Mapping[str, Any]) -> Change:
    return Change(
        at_ms=_number(step, "at_ms"),
        action=_text(step, "action"),
        reason=_text(step, "reason"),
        actor=Actor.parse(step.get("actor", Actor.TIDYING.value)),
        run_id=None,
        before=_mapping(step, "before"),
        after=_mapping(step, "after"),
        episode_id=episode_id,
        undoes=_number(step, "undoes") if "undoes" in step else None,
    )


def with_project_ids(store: Reader, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step's fields with the local row id of a project in place of its identity, unless it is unknown."""
    if _PROJECT_IDENTITY not in fields:
        return dict(fields)
    identity = fields[_PROJECT_IDENTITY]
    rest = {name: value for name, value in fields.items() if name != _PROJECT_IDENTITY}
    if identity is None:
        return rest | {_PROJECT_ID: None}
    place = projects.find_project_of_identity(store, str(identity))
    return dict(fields) if place is None else rest | {_PROJECT_ID: place.id}


def _contradiction(newer_id: str, fields: Mapping[str, Any]) -> Contradiction:
    decided = fields.get("decided_at_ms")
    return Contradiction(
        older_id=_text(fields, "older_id"),
        newer_id=newer_id,
        reason=_text(fields, "reason"),
        decision=_text(fields, "decision"),
        made_at_ms=_number(fields, "made_at_ms"),
        decided_at_ms=decided if isinstance(decided, int) else None,
    )


def _tombstone(fields: Mapping[str, Any]) -> Tombstone:
    kind = _text(fields, "kind")
    try:
        return TombstoneKind(kind).value, bytes.fromhex(_text(fields, "key")), _number(fields, "at_ms")
    except ValueError as error:
        raise BadRequest(f"{kind[:40]!r} is not a kind of forgotten item") from error


def _objects(record: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise BadRequest(f"{key} must be a list of objects")
    return values


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key) or ""
    if not isinstance(value, str):
        raise BadRequest(f"{key} = {str(value)[:60]!r} must be text")
    return value


def _number(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_INTEGER:
        raise BadRequest(f"{key} = {str(value)[:60]!r} must be a number")
    return value


def _mapping(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fields.get(key) or {}
    if not isinstance(value, dict):
        raise BadRequest(f"{key} must be an object")
    return value


#: Number of bytes at the beginning of a transcript that are searched for its working folder.
MAX_HEAD_BYTES = 300_000


def working_folder(path: Path) -> str:
    """Return the first working folder in a transcript; "" if its beginning contains none."""
    for line in (read_regular(path, MAX_HEAD_BYTES) or b"").splitlines():
        if b'"cwd"' not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("cwd"), str):
            return str(entry["cwd"])
    return ""
