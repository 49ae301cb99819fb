"""A turn while it grows: what was added since it was last stored, and the finished record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engram.transcripts.record import FOLDERS, MAX_FOLDERS, Action, EntryRef, Opening, Role, TextBlock, Turn, TurnUpdate


@dataclass(slots=True)
class Draft:
    """The mutable form of a turn."""

    key: str
    session_id: str
    opening: Opening
    agent: str
    cwd: str = ""
    branch: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    start_offset: int = 0
    end_offset: int = 0
    is_closed: bool = False
    is_interrupted: bool = False
    said: list[TextBlock] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    entries: list[EntryRef] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    said_before: int = 0
    entries_before: int = 0
    actions_before: int = 0
    is_stored: bool = False
    is_changed: bool = False
    has_grown: bool = False
    #: True if words of it are other ones in the source than those that are stored.
    is_rewritten: bool = False
    #: Tool calls without a result yet: id → index in ``actions``.
    waiting: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, turn: Turn) -> Draft:
        """Continue a stored turn."""
        return cls(
            key=turn.key,
            session_id=turn.session_id,
            opening=turn.opening,
            agent=turn.agent,
            cwd=turn.cwd,
            branch=turn.branch,
            started_at_ms=turn.started_at_ms,
            ended_at_ms=turn.ended_at_ms,
            start_offset=turn.start_offset,
            end_offset=turn.end_offset,
            is_closed=turn.is_closed,
            is_interrupted=turn.is_interrupted,
            said=list(turn.said),
            actions=list(turn.actions),
            entries=list(turn.entries),
            extra=dict(turn.extra),
            said_before=len(turn.said),
            entries_before=len(turn.entries),
            actions_before=len(turn.actions),
            is_stored=True,
            waiting={action.tool_use_id: i for i, action in enumerate(turn.actions) if not action.result_uuid},
        )

    @property
    def has_reply(self) -> bool:
        """True if it holds a text of the assistant."""
        return any(block.role is Role.ASSISTANT for block in self.said)

    def proposed_by(self, action: Action) -> list[TextBlock]:
        """Return what a call put before the user."""
        link = f"{action.tool_use_id}#"
        return [block for block in self.said if block.role is Role.PROPOSED and block.message_id.startswith(link)]

    def touch(self, offset: int, end: int, at_ms: int | None) -> None:
        """Extend the turn to a line, by its range and time; the turn is open again."""
        self.end_offset = max(self.end_offset, end)
        self.start_offset = min(self.start_offset, offset)
        if at_ms is not None:
            self.started_at_ms = at_ms if self.started_at_ms is None else self.started_at_ms
            self.ended_at_ms = max(self.ended_at_ms or at_ms, at_ms)
        self.is_closed = False
        self.is_changed = self.has_grown = True

    def rewrite(self, blocks: Sequence[TextBlock]) -> None:
        """Take the texts of one entry as its source has them now; nothing happens if they are those of the turn."""
        places = [i for i, block in enumerate(self.said) if blocks and block.uuid and block.uuid == blocks[0].uuid]
        if [self.said[place].role for place in places] != [block.role for block in blocks]:
            return
        for place, block in zip(places, blocks, strict=True):
            if self.said[place].text != block.text:
                self.said[place] = block
                self.is_rewritten = self.is_changed = self.has_grown = True

    def visit(self, folder: str) -> None:
        """Note the working directory of an entry."""
        if not self.cwd:
            self.cwd = folder
        elif folder and folder != self.cwd and "\n" not in folder:
            known = self.extra.get(FOLDERS, "").split("\n") if FOLDERS in self.extra else []
            if folder not in known and len(known) < MAX_FOLDERS:
                self.extra[FOLDERS] = "\n".join([*known, folder])

    def close(self) -> None:
        """Close the turn: no further line belongs to it, as far as is known."""
        if not self.is_closed:
            self.is_closed = True
            self.is_changed = True

    def add_action(self, action: Action) -> None:
        """Add a tool call that waits for its result."""
        self.waiting[action.tool_use_id] = len(self.actions)
        self.actions.append(action)

    def take_waiting(self, other: Draft) -> None:
        """Take over the calls of ``other`` that still wait for a result."""
        if not other.waiting:
            return
        indexes = set(other.waiting.values())
        for index in sorted(indexes):
            self.add_action(other.actions[index])
        other.actions = [action for i, action in enumerate(other.actions) if i not in indexes]
        other.waiting.clear()
        other.is_changed = other.has_grown = True

    def update(self) -> TurnUpdate:
        """Return the record of the turn as it is now."""
        messages = {block.message_id or block.uuid for block in self.said if block.role is Role.ASSISTANT}
        turn = Turn(
            key=self.key,
            session_id=self.session_id,
            opening=self.opening,
            said=tuple(self.said),
            actions=tuple(self.actions),
            entries=tuple(self.entries),
            cwd=self.cwd,
            branch=self.branch,
            started_at_ms=self.started_at_ms,
            ended_at_ms=self.ended_at_ms,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            is_closed=self.is_closed,
            message_count=len(messages),
            is_interrupted=self.is_interrupted,
            agent=self.agent,
            extra=dict(self.extra),
        )
        return TurnUpdate(
            turn,
            said_before=self.said_before,
            entries_before=self.entries_before,
            actions_before=self.actions_before,
            is_new=not self.is_stored,
            has_grown=self.has_grown,
            is_whole=self.is_rewritten,
        )
