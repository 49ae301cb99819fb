"""A turn while it grows: what was added since it was last stored, and the finished record."""

from __future__ import annotations

from dataclasses import dataclass, field

from engram.transcripts.record import Action, EntryRef, Opening, Role, TextBlock, Turn


@dataclass(frozen=True, slots=True)
class TurnUpdate:
    """A turn as it is now, and how much of it was stored before."""

    turn: Turn
    #: So many of ``turn.said`` were given to ``TurnBuilder`` already and are as stored.
    said_before: int = 0
    #: So many of ``turn.entries`` were stored before.
    entries_before: int = 0
    #: So many of ``turn.actions`` were stored before.
    actions_before: int = 0
    #: True where the turn was not stored before.
    is_new: bool = True
    #: False where a stored turn was only closed.
    has_grown: bool = True


@dataclass(slots=True)
class Draft:
    """The changeable form of a turn."""

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
    #: Tool calls without a result yet: id → index in ``actions``.
    waiting: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, turn: Turn) -> Draft:
        """Go on with a stored turn."""
        return cls(
            turn.key, turn.session_id, turn.opening, turn.agent, turn.cwd, turn.branch,
            turn.started_at_ms, turn.ended_at_ms, turn.start_offset, turn.end_offset, turn.is_closed,
            turn.is_interrupted, list(turn.said), list(turn.actions), list(turn.entries), dict(turn.extra),
            len(turn.said), len(turn.entries), len(turn.actions), is_stored=True,
            waiting={a.tool_use_id: i for i, a in enumerate(turn.actions) if not a.result_uuid},
        )  # fmt: skip

    @property
    def has_reply(self) -> bool:
        """True where the assistant has said something in it."""
        return any(said.role is Role.ASSISTANT for said in self.said)

    def proposed_by(self, action: Action) -> list[TextBlock]:
        """What a call put before the user."""
        link = f"{action.tool_use_id}#"
        return [said for said in self.said if said.role is Role.PROPOSED and said.message_id.startswith(link)]

    def touch(self, offset: int, end: int, at_ms: int | None) -> None:
        """Take a line's place and time in; the turn is open again."""
        self.end_offset = max(self.end_offset, end)
        self.start_offset = min(self.start_offset, offset)
        if at_ms is not None:
            self.started_at_ms = at_ms if self.started_at_ms is None else self.started_at_ms
            self.ended_at_ms = max(self.ended_at_ms or at_ms, at_ms)
        self.is_closed = False
        self.is_changed = self.has_grown = True

    def close(self) -> None:
        """No more lines belong to it, as far as is known."""
        if not self.is_closed:
            self.is_closed = True
            self.is_changed = True

    def add_action(self, action: Action) -> None:
        """A tool call whose result is still to come."""
        self.waiting[action.tool_use_id] = len(self.actions)
        self.actions.append(action)

    def take_waiting(self, other: Draft) -> None:
        """Take over the calls of ``other`` that still wait for a result."""
        if not other.waiting:
            return
        indexes = set(other.waiting.values())
        for index in sorted(indexes):
            self.add_action(other.actions[index])
        other.actions = [a for i, a in enumerate(other.actions) if i not in indexes]
        other.waiting.clear()
        other.is_changed = other.has_grown = True

    def update(self) -> TurnUpdate:
        """The record of the turn as it is now."""
        messages = {s.message_id or s.uuid for s in self.said if s.role is Role.ASSISTANT}
        turn = Turn(
            key=self.key, session_id=self.session_id, opening=self.opening, said=tuple(self.said),
            actions=tuple(self.actions), entries=tuple(self.entries), cwd=self.cwd, branch=self.branch,
            started_at_ms=self.started_at_ms, ended_at_ms=self.ended_at_ms, start_offset=self.start_offset,
            end_offset=self.end_offset, is_closed=self.is_closed, message_count=len(messages),
            is_interrupted=self.is_interrupted, agent=self.agent, extra=dict(self.extra),
        )  # fmt: skip
        return TurnUpdate(
            turn, self.said_before, self.entries_before, self.actions_before, not self.is_stored, self.has_grown
        )
