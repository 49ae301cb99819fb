"""The memories of a store in a form that two runs over the same transcripts have in common."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from engram.consolidation.consolidation_run import WENT_ON
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, all_memories, evidence_of
from engram.models.sessions.sessions import WITHDRAWN


@dataclass(frozen=True, slots=True, order=True)
class KeptMemory:
    """A memory as it was extracted, whatever joined it since: the same in every run over the same transcripts."""

    slot: str
    session_id: str
    project: str
    kind: str
    scope: str
    voice: str
    importance: str
    extractor: str
    summary: str
    content: str
    facts: tuple[str, ...]
    created_at_ms: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class JoinedMemory:
    """What became of it: joined, replaced, confirmed."""

    slot: str
    status: str
    summary: str
    content: str
    #: The slot of the memory that it was merged into, or that replaced it.
    superseded_by: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoriesFingerprint:
    """All automatic memories of a store, without row ids, random ids and times of keeping."""

    kept: tuple[KeptMemory, ...]
    joined: tuple[JoinedMemory, ...]


def memories_fingerprint(store: Store) -> MemoriesFingerprint:
    """The automatic memories of a store; what was kept only until more was read is left out.

    An extraction withdraws what its turns no longer say, and a later session of the branch ends what an earlier one
    left open: what that was depends on how far the earlier one was read by then.

    ``kept`` must agree between any two runs over the same transcripts. ``joined`` depends on which memory of another
    session was there first (docs/extraction.md); compare it where the sessions came in the same order.
    """
    kept, joined = [], []
    automatic = [memory for memory in all_memories(store) if memory.source == "auto" and memory.extractor != "import"]
    slot_of_id = {memory.episode_id: memory.slot or "" for memory in automatic}
    for memory in automatic:
        if _is_withdrawn(store, memory):
            continue
        raw, evidence_count = _as_extracted(store, memory)
        evidence = tuple(row.uuid for row in evidence_of(store, memory.id))
        kept.append(
            KeptMemory(
                slot=memory.slot or "",
                session_id=memory.session_id,
                project=memory.project,
                kind=memory.kind,
                scope=memory.scope,
                voice=memory.voice,
                importance=raw["importance"],
                extractor=memory.extractor,
                summary=raw["summary"],
                content=raw["content"],
                facts=tuple(raw["facts"]),
                created_at_ms=memory.created_at_ms,
                evidence=evidence[:evidence_count],
            )
        )
        joined.append(
            JoinedMemory(
                slot=memory.slot or "",
                status=memory.status,
                summary=memory.summary,
                content=memory.content,
                superseded_by=slot_of_id.get(memory.superseded_by, memory.superseded_by),
                evidence=evidence,
            )
        )
    return MemoriesFingerprint(kept=tuple(sorted(kept)), joined=tuple(sorted(joined)))


def _is_withdrawn(store: Store, memory: Memory) -> bool:
    """True where the memory was archived since more was read: of its own session, or of the next one on its branch."""
    if memory.status != "archived":
        return False
    reasons = [
        change.reason for change in history_of(store, memory.episode_id) if change.after.get("status") == "archived"
    ]
    return bool(reasons) and (reasons[-1] in WITHDRAWN or reasons[-1].endswith(WENT_ON))


def _as_extracted(store: Store, memory: Memory) -> tuple[dict[str, Any], int | None]:
    """The fields before anything but an extraction changed them, and how many entries it rested on then."""
    raw = asdict(memory)
    evidence_count: int | None = None
    for change in reversed(history_of(store, memory.episode_id)):
        if change.action == "evidence":
            evidence_count = int(change.before["count"])
        elif change.action != "extract":
            raw |= {name: value for name, value in change.before.items() if name in raw}
    return raw, evidence_count
