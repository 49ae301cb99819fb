"""Find exactly what forgetting a memory would delete: rows, words, turns and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.forgetting.forget_files import (
    clean_exports,
    clean_lines,
    clean_recollections,
    copies_of_memory,
    cut_daily_log,
    foreign_files_with,
    line_beginnings,
    plain_line,
)
from engram.forgetting.forget_plan import ForgetPlan, account_of, forgotten_texts, plan_forget, said_in
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.forgetting.erase_entries import source_texts, turn_of_source
from engram.models.memories.tombstones import Forgotten
from engram.models.sessions.passage_rows import EvidencePlace, places_of
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row
from engram.paths import Home
from engram.system.clock import iso_or_none


@dataclass(frozen=True, slots=True)
class ForgottenFiles:
    """What a plan removes from the memory folder's files."""

    forgotten: Forgotten
    #: Sessions with sections of the daily log that are rewritten.
    sessions: tuple[str, ...]
    #: Beginnings of the forgotten lines.
    beginnings: tuple[str, ...]
    #: Ids of the memories, and prefixes of quotation ids.
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, store: Store, plan: ForgetPlan) -> ForgottenFiles:
        """Collect the texts to search for in files. Call this before the rows are deleted."""
        beginnings = tuple(line_beginnings(forgotten_texts(store, plan)))
        return cls(plan.forgotten(store), _sessions(store, plan), beginnings, plan.names)

    @property
    def is_kept(self) -> Callable[[str], bool]:
        """A filter that returns True for a line that neither mentions nor repeats any of the memories."""
        return _line_filter(self.names, self.beginnings)

    def clean(self, places: Home, *, is_dry: bool = False) -> tuple[list[str], list[Path]]:
        """Remove everything from recollections, exports and notes; return the names of changed files and the notes.

        With ``is_dry``, nothing is changed; the return value is the same.
        """
        changed = [self.forgotten.cut.episode_id] if self.forgotten.cut else []
        ids = self.forgotten.episode_ids
        is_kept = _line_filter([*self.names, *changed], self.beginnings)
        cleaned = clean_recollections(places, is_kept, self.forgotten.session_ids, is_dry=is_dry)
        cleaned += clean_exports(places, ids, self.forgotten, self.is_kept, is_dry=is_dry)
        notes = [
            *cut_daily_log(places, self.sessions, is_dry=is_dry),
            *clean_lines(places, self.is_kept, _line_filter(self.names, ()), is_dry=is_dry),
        ]
        return cleaned, list(dict.fromkeys(notes))


@dataclass(frozen=True, slots=True)
class ErasedEntry:
    """An entry with words that are deleted while its turn is kept."""

    place: EvidencePlace
    #: Its stored texts, including facts about tool calls.
    texts: tuple[str, ...]
    #: Title of its session and day, for display.
    said_in: str = ""


@dataclass(frozen=True, slots=True)
class ForgetPreview:
    """Exactly what forgetting would delete, and what it would keep."""

    plan: ForgetPlan
    #: Empty if entire turns are deleted.
    entries: tuple[ErasedEntry, ...]
    #: Turns that are deleted completely; only with the source.
    turns: tuple[StoredTurn, ...]
    #: Names of the files in the memory folder that are removed or rewritten.
    files: tuple[str, ...]
    #: Backups and set-aside databases that are searched.
    backups: int
    #: Names of other programs' databases in the memory folder that contain its words and will keep them.
    foreign: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "memories": [
                {"id": memory.episode_id, "summary": memory.summary, "status": memory.status}
                for memory in plan.memories
            ],
            "entries": [
                {
                    "entry": entry.place.uuid,
                    "session": entry.place.session_id,
                    "path": entry.place.path,
                    "line": entry.place.line,
                    "texts": list(entry.texts),
                }
                for entry in self.entries
            ],
            "turns": [
                {
                    "session": stored.turn.session_id,
                    "at": iso_or_none(stored.turn.started_at_ms),
                    "prompt": stored.turn.prompt,
                }
                for stored in self.turns
            ],
            "changed": None if plan.cut is None else {"id": plan.cut.episode_id, "summary": plan.cut.summary},
            "needed": [
                {"entry": entry.entry, "by": [memory.episode_id for memory in entry.needed_by]} for entry in plan.needed
            ],
            "restored": [memory.episode_id for memory in plan.restored],
            "quotation": None if plan.quotation is None else plan.quotation.quotation_id,
            "staying": [memory.episode_id for memory in plan.staying],
            "files": list(self.files),
            "backups": self.backups,
            "foreign": list(self.foreign),
        }

    def account(self) -> str:
        """Describe how much would be deleted, in the same words as the later report."""
        plan = self.plan
        return account_of(
            memories=len(plan.memories),
            turns=len(plan.turn_ids),
            entries=0 if plan.turn_ids else len(plan.erased),
            files=len(self.files),
            backups=self.backups,
            is_done=False,
        )


def preview_forget(store: Store, places: Home, episode_id: str, *, also_source: bool = False) -> ForgetPreview:
    """Return what ``forget_memory`` would do now, from the same plan. Raises NotFound if nothing has this id."""
    plan = plan_forget(store, episode_id, also_source=also_source)
    erased = () if plan.turn_ids else plan.erased
    files = ForgottenFiles.of(store, plan)
    cleaned, notes = files.clean(places, is_dry=True)
    return ForgetPreview(
        plan=plan,
        entries=tuple(
            ErasedEntry(place, tuple(source_texts(store, [place.uuid])), said_in(store, place.uuid))
            for place in places_of(store, erased)
        ),
        turns=tuple(stored for turn_id in plan.turn_ids if (stored := load_turn_row(store, turn_id)) is not None),
        files=(*cleaned, *(path.name for path in notes)),
        backups=len(copies_of_memory(places, store.driver)),
        foreign=tuple(foreign_files_with(places, store.driver, files.beginnings)),
    )


def _sessions(store: Store, plan: ForgetPlan) -> tuple[str, ...]:
    """Return the sessions with sections of the daily log that are rewritten."""
    of_entries = [turn_id for source in plan.erased if (turn_id := turn_of_source(store, source)) is not None]
    of_memories = [memory.session_id for memory in plan.memories if memory.session_id]
    of_turns = forget_memories.sessions_of_turns(store, [*plan.turn_ids, *of_entries])
    return tuple(dict.fromkeys([*of_turns, *of_memories]))


def _line_filter(episode_ids: Sequence[str], beginnings: Sequence[str]) -> Callable[[str], bool]:
    def is_kept(line: str) -> bool:
        words = plain_line(line)
        return not any(episode_id in line for episode_id in episode_ids) and not any(
            text in words for text in beginnings
        )

    return is_kept
