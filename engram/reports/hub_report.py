"""The state of this machine's hubs and spaces, for ``engram status``, commands and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from engram.models.engine.transaction import Reader
from engram.models.hub.outgoing_statements import count_statements
from engram.models.hub.shares import candidates, list_rules, list_shares, shares_of
from engram.models.hub.spaces import (
    SetAside,
    Space,
    count_outgoing,
    folder_notes,
    list_offers,
    list_servers,
    list_set_aside,
    list_spaces,
    space_by_id,
)
from engram.models.memories.memory_records import Memory
from engram.trust.display import as_arguments


@dataclass(frozen=True, slots=True)
class SpaceReport:
    name: str
    kind: str
    role: str
    is_sealed: bool
    memories: int
    forgotten: int
    #: Statements that are waiting to be pushed.
    waiting: int
    set_aside: tuple[SetAside, ...]
    error: str
    #: For a team: memories that this person shares, and that rules will share.
    shared: int = 0
    by_rule: int = 0
    #: Memories that members reported to this keeper.
    reports: int = 0

    @property
    def reasons(self) -> Mapping[str, int]:
        """Reason why rows were set aside → number of rows."""
        return Counter(row.reason for row in self.set_aside)

    def line(self) -> str:
        """Summarise a team's sharing in one line."""
        waits = [f"{self.by_rule} by rule"] if self.by_rule else []
        reported = [f"{self.reports} reported (`engram team reports`)"] if self.reports else []
        return f"{self.name}: {', '.join([f'{self.shared} shared', *waits, *reported])}"

    def to_json(self) -> dict[str, Any]:
        return {
            "space": self.name,
            "kind": self.kind,
            "role": self.role,
            "sealed": self.is_sealed,
            "memories": self.memories,
            "forgotten": self.forgotten,
            "waiting": self.waiting,
            "set_aside": dict(self.reasons),
            "shared": self.shared,
            "by_rule": self.by_rule,
            "reports": self.reports,
            "error": self.error or None,
        }


@dataclass(frozen=True, slots=True)
class HubReport:
    url: str
    member: str
    synced_at_ms: int
    failures: int
    error: str
    spaces: tuple[SpaceReport, ...]
    #: Teams that the hub offers and this machine has not joined.
    offers: tuple[str, ...] = ()
    #: For a folder: missing, unreadable and foreign files.
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The address of a service, or the path of a folder."""
        parts = urlsplit(self.url)
        return unquote(parts.path) if parts.scheme in ("file", "git+file") else self.url

    @property
    def has_git(self) -> bool:
        """True for a checkout, in which each round fetches, commits and pushes."""
        return urlsplit(self.url).scheme == "git+file"

    @property
    def problems(self) -> list[str]:
        """The errors of the hub's rounds and of its spaces."""
        failing = [f"syncing with {self.place} fails: {self.error}"] if self.error else []
        return [*failing, *(f"{space.name}: {space.error}" for space in self.spaces if space.error)]

    @property
    def questions(self) -> list[str]:
        """Questions to the user about the offered teams."""
        return [
            f"the hub lists the team {name}, which this machine has not joined: if you joined it on another machine, "
            f"run `engram team accept {as_arguments(name)}`"
            for name in self.offers
        ]

    @property
    def waiting(self) -> int:
        """Statements that are waiting to be pushed."""
        return sum(space.waiting for space in self.spaces)

    def to_json(self) -> dict[str, Any]:
        return {
            "hub": self.url,
            "git": self.has_git,
            "member": self.member,
            "synced_at_ms": self.synced_at_ms or None,
            "failures": self.failures,
            "error": self.error or None,
            "waiting": self.waiting,
            "spaces": [space.to_json() for space in self.spaces],
            "offers": list(self.offers),
            "notes": list(self.notes),
        }

    def line(self) -> str:
        """Return the report in one line, for ``engram status``."""
        rest = f"{self.waiting} to send" if self.waiting else "in step" if self.spaces else "none of its spaces is used"
        state = f"failing: {self.error}" if self.error else rest
        problems = [f"{space.name}: {space.error}" for space in self.spaces if space.error]
        aside = sum(len(space.set_aside) for space in self.spaces)
        teams = [space.line() for space in self.spaces if space.kind == "team"]
        parts = [
            *problems,
            *([f"{aside} set aside (`engram hub status`)"] if aside else []),
            *teams,
            *self.questions,
            *self.notes,
        ]
        return "; ".join([f"{self.place} ({state})", *parts])


@dataclass(frozen=True, slots=True)
class SharedIn:
    """A team that a memory is shared with, or will be shared with by a rule."""

    space: str
    #: The shared text; "" for a memory that a rule has yet to share.
    text: str
    #: True if the hub does not have all of it yet.
    is_waiting: bool
    #: When the rule will share it, in milliseconds since 1970; 0 if it is already shared.
    due_ms: int


def where_shared(store: Reader, memory: Memory) -> list[SharedIn]:
    """Return the teams that a memory is shared with, or will be shared with by a rule."""
    shared = [
        SharedIn(share.space.name, share.summary, share.is_waiting, 0) for share in shares_of(store, memory.episode_id)
    ]
    for rule in list_rules(store):
        space = space_by_id(store, rule.space_id)
        due = [c.due_ms for c in candidates(store, rule) if c.memory.episode_id == memory.episode_id]
        shared += [SharedIn(space.name, "", True, due_ms) for due_ms in due if space is not None]
    return shared


def report_hubs(store: Reader) -> list[HubReport]:
    return [
        HubReport(
            url=server.url,
            member=server.member_name,
            synced_at_ms=server.synced_at_ms,
            failures=server.failures,
            error=server.last_error,
            spaces=tuple(_report(store, space) for space in list_spaces(store, server.id)),
            offers=tuple(list_offers(store, server.id).values()),
            notes=folder_notes(store, server.id),
        )
        for server in list_servers(store)
    ]


def _report(store: Reader, space: Space) -> SpaceReport:
    counts = count_statements(store, space.id)
    rules = list_rules(store, space.id)
    return SpaceReport(
        name=space.name,
        kind=space.kind,
        role=space.role,
        is_sealed=space.is_sealed,
        memories=counts["memories"],
        forgotten=counts["forgotten"],
        waiting=count_outgoing(store, space.id),
        set_aside=tuple(list_set_aside(store, space.id)),
        error=space.last_error,
        shared=len(list_shares(store, space)) if space.is_team else 0,
        by_rule=sum(len(candidates(store, rule)) for rule in rules),
        reports=space.reports,
    )
