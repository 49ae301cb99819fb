"""Share memories with a team, by hand and by rule, and take them back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.hub.protocol.messages import ROLES
from engram.memories.forget_together import forget_together
from engram.models.episodes import Episode, find_episode
from engram.models.hub_projects import shared_identity
from engram.models.hub_rules import Candidate, Rule, candidates, list_rules
from engram.models.hub_said import SaidMemory, said_in_space
from engram.models.hub_shares import add_share, bar_share, list_shares, shares_of, take_back
from engram.models.hub_spaces import Server, Space, list_spaces, server_of, space_by_id
from engram.models.projects import ProjectRow, project_by_id
from engram.models.store import Store
from engram.models.transaction import Reader, Tx
from engram.paths import Home
from engram.redaction.suspicion import why_any_suspect
from engram.vaults import keeps_out, own_vault

Redact = Callable[[str], str]

#: The shortest and the usual delay of a rule, in seconds.
MIN_DELAY_SECONDS, DELAY_SECONDS = 3_600, 86_400
#: Names in a memory that tell of this machine: absolute paths.
_PATH = re.compile(r"^(?:[/~\\]|[A-Za-z]:[/\\])")


@dataclass(frozen=True, slots=True)
class Preview:
    """Exactly what sharing a memory would send."""

    episode: Episode
    text: dict[str, Any]
    project: list[str]
    #: It was shared before with another text.
    is_update: bool
    #: Why a receiver's machine keeps it and shows it to nobody by itself; "" if it is told.
    held_back: str = ""

    def lines(self) -> list[str]:
        """Return everything that is sent, for a person to read."""
        identity, _, name = self.project
        about = f"about: {', '.join(self.text['e'])}" if self.text["e"] else ""
        content = [] if self.text["c"].strip() == self.text["s"].strip() else [self.text["c"]]
        head = f"{self.episode.episode_id} ({self.episode.kind}, project {name}, {identity})"
        facts = [f"- {fact}" for fact in self.text["f"]]
        return [head, self.text["s"], *content, *facts, *filter(None, [about])]


def team_spaces(store: Reader) -> list[Space]:
    """Return the teams of this person."""
    return [space for space in list_spaces(store) if space.is_team]


def require_team(store: Reader, name: str | None, *, least: str = "reader") -> Space:
    """Return the team of a name or id, or the only one.

    Raises:
        NotFound: there is none.
        BadRequest: several fit, or the role in it is too low.
    """
    teams = team_spaces(store)
    fitting = teams if name is None else [space for space in teams if name in (space.name, str(space.ns_id))]
    if not fitting:
        wanted = "" if name is None else f" {name[:60]!r}"
        raise NotFound(f"you are in no team{wanted}; `engram team list` lists them, `engram team join CODE` joins one")
    if len(fitting) > 1:
        ids = ", ".join(f"{space.name} {space.ns_id}" for space in fitting)
        raise BadRequest(f"several teams fit; name one by its number with --space: {ids}")
    if ROLES.index(fitting[0].role) < ROLES.index(least):
        raise BadRequest(f"you are a {fitting[0].role} of {fitting[0].name}; this takes a {least}")
    return fitting[0]


def preview(
    store: Reader, places: Home, space: Space, episode: Episode, place: ProjectRow | None, redact: Redact
) -> Preview:
    """Return exactly what sharing a memory would send.

    Args:
        store: the open memory.
        places: the memory folder.
        space: a team's.
        episode: the memory.
        place: the project that the person works in or named; None for none.
        redact: removes secrets; everything passes it again.

    Raises:
        BadRequest: it must not be shared: it belongs to a vault, to another project or to somebody else, looks like an
            instruction, or no longer holds.
    """
    _refuse_vaults(places)
    if episode.origin:
        raise BadRequest(f"{episode.episode_id} is {episode.origin}'s, and not yours to share")
    if episode.suspect:
        raise BadRequest(f"{episode.episode_id} is suspect ({episode.suspect}): `engram contradictions trust` it first")
    if not episode.is_current:
        raise BadRequest(f"{episode.episode_id} is {episode.status}: share what is in force")
    project = place if episode.project_id is None else project_by_id(store, episode.project_id)
    if project is None:
        raise BadRequest(f"{episode.episode_id} belongs to no project: name the one that it is for with --project")
    if place is None or project.id != place.id:
        raise BadRequest(f"{episode.episode_id} belongs to {project.name}: add --project {project.name} if you mean it")
    if keeps_out(places, project.identity, project.root):
        raise BadRequest(f"{project.name} is in a vault: its memories stay there")
    text = _text(episode, redact)
    known = [share for share in shares_of(store, episode.episode_id) if share.space.id == space.id]
    held_back = why_any_suspect((text["s"], text["c"], *text["f"]), text["e"]) or ""
    return Preview(episode, text, shared_identity(store, project), is_update=bool(known), held_back=held_back)


def _text(episode: Episode, redact: Redact) -> dict[str, Any]:
    return {
        "s": redact(episode.summary),
        "c": redact(episode.content),
        "f": [redact(fact) for fact in episode.facts],
        "e": [redact(name) for name in episode.entities if not _PATH.match(name)],
    }


def share(store: Store, space: Space, previews: Sequence[Preview]) -> int:
    """Share what was shown, and nothing else; returns how much of it was new.

    Raises:
        BadRequest: a memory changed since it was shown; nothing was shared.
    """
    with store.transaction() as tx:
        for shown in previews:
            now = find_episode(tx, shown.episode.episode_id)
            if now is None or _words(now) != _words(shown.episode) or not now.is_current:
                raise BadRequest(f"{shown.episode.episode_id} changed since it was shown: look at it again")
        return sum(add_share(tx, space, shown.episode, shown.text, shown.project) for shown in previews)


def _words(episode: Episode) -> tuple[object, ...]:
    return episode.summary, episode.content, episode.facts, episode.entities


def unshare(store: Store, places: Home, space: Space, name: str) -> str:
    """Take back a memory from a team: by its id here, or by the id of a share; returns what was done, in words.

    One's own copy is erased for everybody, and rules don't share it again. A keeper erases what anybody shared.

    Raises:
        NotFound: there is no such memory.
        BadRequest: it is somebody else's, and the person is no keeper.
    """
    with store.transaction() as tx:
        for standing in list_shares(tx, space):
            if name in (standing.said.episode_id, standing.said.memory_id.hex()):
                take_back(tx, space, standing.said)
                return f"{name} is taken back from {space.name}; your memory stays"
    theirs = [
        memory for memory in said_in_space(store, space.id) if name in (memory.episode_id, memory.memory_id.hex())
    ]
    if theirs and not theirs[0].is_forgotten and theirs[0].author != server_of(store, space).member_id:
        if space.role != "keeper":
            raise BadRequest(f"{name} is somebody else's: report it with `engram team report`, or forget it here")
        _erase_theirs(store, places, space, theirs)
        return f"{name} is erased for everybody in {space.name}"
    with store.transaction() as tx:
        episode = find_episode(tx, name)
        if episode is None or episode.origin:
            raise NotFound(f"{name[:60]} is not shared in {space.name}; `engram share --list` shows what is")
        bar_share(tx, space, episode)
        return f"{name} is not shared in {space.name}, and no rule will share it"


def _erase_theirs(store: Store, places: Home, space: Space, memories: Sequence[SaidMemory]) -> None:
    """Forget here what other members said, and let it be erased on the hub: so it is forgotten everywhere."""

    def erase(tx: Tx) -> None:
        for memory in memories:
            take_back(tx, space, memory)

    here = [memory.episode_id for memory in memories if memory.episode_id]
    forget_together(store, places, here, erase, actor=Actor.USER)


def erase_member(store: Store, places: Home, space: Space, member_id: int) -> int:
    """Let everything that a member shared in a space be erased for everybody; returns how much it was."""
    theirs = [
        memory
        for memory in said_in_space(store, space.id)
        if memory.author == member_id and not (memory.is_forgotten and memory.version)
    ]
    _erase_theirs(store, places, space, theirs)
    return len(theirs)


# -- rules


@dataclass(frozen=True, slots=True)
class RuleReport:
    """A rule, with what it will share next."""

    rule: Rule
    space: Space
    project: ProjectRow
    waiting: tuple[Candidate, ...]


def check_rule(places: Home, project: ProjectRow) -> None:
    """Raise BadRequest for a project whose memories must not be shared."""
    _refuse_vaults(places)
    if keeps_out(places, project.identity, project.root):
        raise BadRequest(f"{project.name} is in a vault: its memories stay there")


def report_rules(store: Reader) -> list[RuleReport]:
    """Return every rule with what waits."""
    reports = []
    for rule in list_rules(store):
        space, project = space_by_id(store, rule.space_id), project_by_id(store, rule.project_id)
        if space is not None and project is not None:
            reports.append(RuleReport(rule, space, project, tuple(candidates(store, rule))))
    return reports


def share_by_rules(store: Store, places: Home, server: Server, redact: Redact) -> int:
    """Share what rules name and whose delay is over; returns how much it was.

    What was forgotten or edited meanwhile is not among it: the look and the share are one transaction.
    """
    done = 0
    if not list_rules(store):
        return 0
    for report in report_rules(store):
        if report.space.server_id != server.id or report.space.role == "reader":
            continue
        if not any(candidate.due_ms <= store.now_ms() for candidate in report.waiting):
            continue
        with store.transaction() as tx:
            for candidate in candidates(tx, report.rule):
                if candidate.due_ms <= tx.now_ms():
                    try:
                        shown = preview(tx, places, report.space, candidate.episode, report.project, redact)
                    except BadRequest:
                        continue
                    done += add_share(tx, report.space, candidate.episode, shown.text, shown.project)
    return done


def _refuse_vaults(places: Home) -> None:
    vault = own_vault(places)
    if vault is not None:
        raise BadRequest(f"{vault.name} is a vault: nothing of it is shared (`engram projects unvault` brings it back)")
