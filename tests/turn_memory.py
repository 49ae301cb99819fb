"""Turns kept in memory the way the database keeps them, and a writer of transcript lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engram.transcripts.claude_code.entry import Entry, parse_line
from engram.transcripts.claude_code.state import ReaderState, dump_cursor, load_cursor
from engram.transcripts.claude_code.turn_builder import TurnBuilder
from engram.transcripts.growing_file import Line, Position, read_chunk
from engram.transcripts.turns import Opening, Role, Turn, TurnUpdate


@dataclass
class Memory:
    """Keeps turns the way the database does: entries belong to one turn, what was said only grows."""

    turns: dict[str, Turn] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    states: dict[str, ReaderState] = field(default_factory=dict)
    positions: dict[Path, Position] = field(default_factory=dict)

    def feed(self, session: str, entries: Iterable[Entry], *, close: bool = False) -> None:
        """One read: some entries of a session, then stored."""
        _, state = load_cursor(dump_cursor(Position(), self.states.get(session, ReaderState())))
        resume = {key: self.turns[key] for key in state.turns_to_resume if key in self.turns}

        def holder(uuid: str) -> Turn | None:
            turn = self.turns.get(self.owners.get(uuid, ""))
            return turn if turn is not None and turn.session_id == session else None

        builder = TurnBuilder(session, state=state, resume=resume, owner=self._owner, holder=holder)
        for entry in entries:
            builder.add(entry)
        built = builder.finish(close=close)
        for key in built.withdrawn:
            gone = self.turns.pop(key)
            for reference in gone.entries:
                del self.owners[reference.uuid]
        for update in built.updates:
            self._write(update)
        self.states[session] = built.state

    def _owner(self, uuid: str) -> str | None:
        return self.owners.get(uuid) or (uuid if uuid in self.turns else None)

    def _write(self, update: TurnUpdate) -> None:
        turn, old = update.turn, self.turns.get(update.turn.key)
        if old is not None:
            before, now = old.said, turn.said[: len(old.said)]
            if update.is_whole:
                before = tuple(replace(block, role=said.role) for block, said in zip(before, now, strict=True))
                assert {Role.PROGRAM, Role.USER} >= {a.role for a, b in zip(old.said, now, strict=True) if a != b}
            assert now == before, "what was said must not change, only who said it"
        for reference in turn.entries:
            assert self.owners.setdefault(reference.uuid, turn.key) == turn.key, "an entry belongs to one turn"
        self.turns[turn.key] = turn

    def read(self, path: Path, chunk_bytes: int = 1 << 20) -> None:
        """Read a file from where the last read ended."""
        while True:
            chunk = read_chunk(path, self.positions.get(path, Position()), chunk_bytes=chunk_bytes)
            assert not chunk.is_rewritten
            found = [parse_line(line) for line in chunk.lines]
            self.feed(path.stem, [one for one in found if isinstance(one, Entry)])
            self.positions[path] = chunk.position
            if not chunk.has_more:
                return

    @property
    def prompts(self) -> list[str]:
        """What the user said in turns that begin with a prompt."""
        return sorted(turn.prompt for turn in self.turns.values() if turn.opening is not Opening.CONTINUATION)

    @property
    def uuids(self) -> set[str]:
        """Every entry that belongs to a turn."""
        return set(self.owners)

    @property
    def partition(self) -> dict[str, frozenset[str]]:
        """Which entries belong to which turn."""
        return {key: frozenset(e.uuid for e in turn.entries) for key, turn in self.turns.items()}


class Script:
    """Writes the lines of a session one after the other."""

    def __init__(self, start_seconds: int = 0) -> None:
        self.entries: list[Entry] = []
        self._offset = 0
        self._second = start_seconds
        self._calls = 0

    def add(self, data: dict[str, Any]) -> str:
        """One line; a second passes. Returns its uuid."""
        self._second += 1
        number = len(self.entries) + 1
        kinds = {
            "type": data.get("type"),
            "timestamp": f"2026-01-01T00:{self._second // 60:02}:{self._second % 60:02}Z",
        }
        if data["type"] not in ("queue-operation",):
            kinds["uuid"] = data.get("uuid", f"u{self._second}")
        raw = json.dumps(kinds | {"cwd": "/p", "gitBranch": "main"} | data).encode()
        found = parse_line(Line(self._offset, len(raw), number, raw))
        self._offset += len(raw) + 1
        assert isinstance(found, Entry)
        self.entries.append(found)
        return found.uuid

    def user(self, text: Any, **fields: Any) -> str:
        return self.add({"type": "user", "message": {"role": "user", "content": text}} | fields)

    def says(self, text: str, message: str = "", **fields: Any) -> str:
        content = [{"type": "text", "text": text}]
        return self.add(
            {"type": "assistant", "message": {"id": message or f"m{self._second}", "content": content}} | fields
        )

    def calls(self, tool: str, **given: Any) -> str:
        self._calls += 1
        block = {"type": "tool_use", "id": f"t{self._calls}", "name": tool, "input": given}
        return self.add({"type": "assistant", "message": {"id": f"m{self._second}", "content": [block]}})

    def result(self, text: str, call: int | None = None, **fields: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": f"t{call or self._calls}", "content": text} | fields
        return self.user([block])

    def system(self, **fields: Any) -> str:
        return self.add({"type": "system", "subtype": "turn_duration"} | fields)

    def queue(self, operation: str, content: str | None = None) -> None:
        data = {"type": "queue-operation", "operation": operation}
        self.add(data if content is None else data | {"content": content})

    def handed(self, text: str) -> str:
        return self.add({"type": "attachment", "attachment": {"type": "queued_command", "prompt": text}})

    @property
    def uuids(self) -> set[str]:
        return {entry.uuid for entry in self.entries if entry.uuid}
