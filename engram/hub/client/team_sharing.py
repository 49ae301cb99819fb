"""Share memories with a team, by hand and by rule, and withdraw them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import Actor
from engram.errors import BadRequest, HubRefused, NotFound
from engram.forgetting.forget import forget_together
from engram.hub.client.connection import Connection, reading
from engram.hub.client.membership import Keyring
from engram.hub.client.push_and_pull import learn_members
from engram.hub.protocol.frames import WrongKey, key_id_of, new_key, unwrap_keys, wrap_keys
from engram.hub.protocol.requests import ROLES, HelloRequest, code_hash, code_text, new_code, split_code
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.hub.incoming_statements import mute_member, remove_received, unmute_member
from engram.models.hub.memory_statements import SaidMemory, said_in_space, said_of_memory
from engram.models.hub.outgoing_statements import seal_again, shared_identity
from engram.models.hub.shares import (
    Candidate,
    Rule,
    add_share,
    bar_share,
    candidates,
    list_rules,
    list_shares,
    shares_of,
    take_back,
)
from engram.models.hub.spaces import (
    Member,
    Server,
    Space,
    add_hub_space,
    add_space,
    change_space,
    drop_space,
    list_members,
    list_offers,
    list_servers,
    list_spaces,
    server_of,
    space_by_id,
)
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.projects.projects import ProjectRow, project_by_id
from engram.paths import Home
from engram.system.lazy_regex import lazy_regex
from engram.trust.display import as_arguments
from engram.trust.suspicion import why_any_suspect
from engram.vaults import is_excluded_by_vault, own_vault

Redact = Callable[[str], str]

#: The minimum and the default delay of a rule, in seconds.
MIN_DELAY_SECONDS, DELAY_SECONDS = 3_600, 86_400
#: Names in a memory that reveal details of this machine, which are absolute paths.
_PATH = lazy_regex(r"^(?:[/~\\]|[A-Za-z]:[/\\])")


@dataclass(frozen=True, slots=True)
class Preview:
    """The exact data that sharing a memory would send."""

    memory: Memory
    text: dict[str, Any]
    project: list[str]
    #: True if the memory has been shared before.
    is_update: bool
    #: Why recipients' machines will store it without showing it; "" if they will show it.
    held_back: str = ""

    def lines(self) -> list[str]:
        """Return all the data that would be sent, as lines for a person to read."""
        identity, _, name = self.project
        about = f"about: {', '.join(self.text['e'])}" if self.text["e"] else ""
        content = [] if self.text["c"].strip() == self.text["s"].strip() else [self.text["c"]]
        head = f"{self.memory.episode_id} ({self.memory.kind}, project {name}, {identity})"
        facts = [f"- {fact}" for fact in self.text["f"]]
        return [head, self.text["s"], *content, *facts, *filter(None, [about])]


def team_spaces(store: Reader) -> list[Space]:
    return [space for space in list_spaces(store) if space.is_team]


def require_team(store: Reader, name: str | None, *, least: str = "reader") -> Space:
    """Return the team with the given name or id; if it is None, the only team in which the person's role suffices.

    Raises:
        NotFound: there is no such team.
        BadRequest: several match, or this person's role in the team is too low.
    """
    teams = team_spaces(store)
    fitting = teams if name is None else [space for space in teams if name in (space.name, str(space.ns_id))]
    if not fitting:
        wanted = "a team" if name is None else f"team {name[:60]!r}"
        raise NotFound(
            f"you are not in {wanted}; `engram team list` lists your teams, and `engram team join CODE` joins one"
        )
    if len(fitting) > 1 and name is None:
        fitting = [space for space in fitting if ROLES.index(space.role) >= ROLES.index(least)] or fitting
    if len(fitting) > 1:
        are_named_alike = len({space.name for space in fitting}) < len(fitting)
        names = ", ".join(f"{space.name} ({space.ns_id})" if are_named_alike else space.name for space in fitting)
        raise BadRequest(f"you are in several teams ({names}): choose one with --space")
    if ROLES.index(fitting[0].role) < ROLES.index(least):
        raise BadRequest(f"your role in {fitting[0].name} is {fitting[0].role}; this requires the role of {least}")
    return fitting[0]


def team_of_shares(store: Store, name: str | None, episode_ids: Sequence[str]) -> Space:
    """Return the team with the given name or id; if it is None, the only team that all these memories are shared with.

    Raises:
        NotFound, BadRequest: as in ``require_team``.
    """
    having = [space for space in team_spaces(store) if all(_is_shared(store, space, key) for key in episode_ids)]
    return having[0] if name is None and len(having) == 1 else require_team(store, name)


def _is_shared(store: Store, space: Space, episode_id: str) -> bool:
    with contextlib.suppress(NotFound, BadRequest):
        return not isinstance(find_shared(store, space, episode_id), Memory)
    return False


def preview(
    store: Reader, home: Home, space: Space, memory: Memory, place: ProjectRow | None, redact: Redact
) -> Preview:
    """Return exactly the data that sharing a memory would send.

    Args:
        place: the project in which the person is working, or that they specified; None if there is none.
        redact: masks secrets; all text passes through it again.

    Raises:
        BadRequest: the memory must not be shared, because it belongs to a vault, another project or someone else, looks
            like an instruction, or is no longer valid.
    """
    _refuse_vaults(home)
    if memory.origin:
        raise BadRequest(f"{memory.episode_id} is {memory.origin}'s, so it is not yours to share")
    if memory.suspect:
        raise BadRequest(f"{memory.episode_id} is suspect ({memory.suspect}): run `engram review trust` on it first")
    if not memory.is_current:
        raise BadRequest(f"{memory.episode_id} is {memory.status.told}: only current memories can be shared")
    project = place if memory.project_id is None else project_by_id(store, memory.project_id)
    if project is None:
        raise BadRequest(f"{memory.episode_id} does not belong to a project: specify one with --project")
    if place is None or project.id != place.id:
        raise BadRequest(
            f"{memory.episode_id} belongs to {project.name}: to share it anyway, add --project {project.name}"
        )
    if is_excluded_by_vault(home, project.identity, project.root):
        raise BadRequest(f"{project.name} is in a vault: its memories remain there")
    text = _text(memory, redact)
    known = [share for share in shares_of(store, memory.episode_id) if share.space.id == space.id]
    held_back = why_any_suspect((text["s"], text["c"], *text["f"]), text["e"]) or ""
    return Preview(memory, text, shared_identity(store, project), is_update=bool(known), held_back=held_back)


def _text(memory: Memory, redact: Redact) -> dict[str, Any]:
    return {
        "s": redact(memory.summary),
        "c": redact(memory.content),
        "f": [redact(fact) for fact in memory.facts],
        "e": [redact(name) for name in memory.entities if not _PATH.match(name)],
    }


def share(store: Store, space: Space, previews: Sequence[Preview]) -> int:
    """Share exactly the memories that were shown; return how many are new to the team or have changed.

    Raises:
        BadRequest: a memory has changed since it was shown; nothing was shared.
    """
    with store.transaction() as tx:
        for shown in previews:
            now = find_memory(tx, shown.memory.episode_id)
            if now is None or _judged(now) != _judged(shown.memory) or not now.is_current:
                raise BadRequest(f"{shown.memory.episode_id} has changed since it was shown; review it again")
        return sum(add_share(tx, space, shown.memory, shown.text, shown.project) for shown in previews)


def _judged(memory: Memory) -> tuple[object, ...]:
    """Return what ``preview`` judges and shows of a memory."""
    return memory.summary, memory.content, memory.facts, memory.entities, memory.suspect, memory.project_id


def unshare(store: Store, home: Home, space: Space, name: str) -> str:
    """Withdraw a memory, given by its local id or the id of a share, from a team.

    Return a sentence that says what was done. A person's own share is erased for everyone, and rules don't share it
    again. A keeper can erase anyone's share.

    Raises:
        NotFound: there is no such memory.
        BadRequest: the memory is someone else's and the person is not a keeper; or it was sent, and the person has
            since become a reader.
    """
    found = find_shared(store, space, name)
    if isinstance(found, list):
        _erase_theirs(store, home, space, found)
        return f"{name} was erased for everyone in {space.name}"
    with store.transaction() as tx:
        if isinstance(found, Memory):
            bar_share(tx, space, found)
            return f"{name} is not shared with {space.name}, and no rule will share it"
        if space.role == "reader" and found.pushed:
            raise BadRequest(
                f"you are now only a reader in {space.name}, so the hub accepts no changes from you: a keeper can erase"
                f" it with `engram unshare {found.memory_id.hex()}`"
            )
        take_back(tx, space, found)
    return f"{name} was withdrawn from {space.name}; your memory is kept"


def find_shared(store: Store, space: Space, name: str) -> SaidMemory | list[SaidMemory] | Memory:
    """Return what ``unshare`` would act on: the person's own share, someone else's, or a memory that is not shared.

    Raises the same errors as ``unshare``.
    """
    for standing in list_shares(store, space):
        if name in (standing.said.episode_id, standing.said.memory_id.hex()):
            return standing.said
    # What is forgotten only on this machine can still be erased for everyone.
    theirs = [
        said
        for said in said_in_space(store, space.id)
        if name in (said.episode_id, said.memory_id.hex())
        and said.author != server_of(store, space).member_id
        and not (said.is_forgotten and said.version)
    ]
    if theirs:
        if space.role != "keeper":
            raise BadRequest(
                f"{name} is someone else's: report it with `engram team report`, or forget it on this machine"
            )
        return theirs
    memory = find_memory(store, name)
    if memory is None or memory.origin:
        raise NotFound(f"{name[:60]} is not shared with {space.name}; `engram share --list` shows what is shared")
    return memory


def _erase_theirs(store: Store, home: Home, space: Space, memories: Sequence[SaidMemory]) -> None:
    """Forget other members' memories on this machine, and have the hub erase them so that all machines forget them."""

    def erase(tx: Tx) -> None:
        for memory in memories:
            take_back(tx, space, memory)

    here = [memory.episode_id for memory in memories if memory.episode_id]
    forget_together(store, home, here, erase, actor=Actor.USER)


def erase_member(store: Store, home: Home, space: Space, member_id: int) -> int:
    """Erase what a member has shared in a space, for everyone, and return how many memories were erased."""
    theirs = [
        memory
        for memory in said_in_space(store, space.id)
        if memory.author == member_id and not (memory.is_forgotten and memory.version)
    ]
    _erase_theirs(store, home, space, theirs)
    return len(theirs)


# -- rules


@dataclass(frozen=True, slots=True)
class RuleReport:
    """A sharing rule, and what it will share next."""

    rule: Rule
    space: Space
    project: ProjectRow
    waiting: tuple[Candidate, ...]


def check_rule(home: Home, project: ProjectRow) -> None:
    """Raise BadRequest if the memories of a project must not be shared."""
    _refuse_vaults(home)
    if is_excluded_by_vault(home, project.identity, project.root):
        raise BadRequest(f"{project.name} is in a vault: its memories remain there")


def report_rules(store: Reader) -> list[RuleReport]:
    reports = []
    for rule in list_rules(store):
        space, project = space_by_id(store, rule.space_id), project_by_id(store, rule.project_id)
        if space is not None and project is not None:
            reports.append(RuleReport(rule, space, project, tuple(candidates(store, rule))))
    return reports


def share_by_rules(store: Store, home: Home, server: Server, redact: Redact) -> int:
    """Share the memories that are selected by rules and for which the delay has passed; return how many were shared.

    Memories are selected and shared in one transaction, so those that were forgotten or edited in the meantime are left
    out.
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
            if report.rule not in list_rules(tx, report.space.id):
                continue  # somebody has just dropped or changed it
            for candidate in candidates(tx, report.rule):
                if candidate.due_ms <= tx.now_ms():
                    try:
                        shown = preview(tx, home, report.space, candidate.memory, report.project, redact)
                    except BadRequest:
                        continue
                    done += add_share(tx, report.space, candidate.memory, shown.text, shown.project)
    return done


def _refuse_vaults(home: Home) -> None:
    vault = own_vault(home)
    if vault is not None:
        raise BadRequest(f"{vault.name} is a vault: nothing in it is shared (`engram projects unvault` moves it out)")


# -- Make, join and leave teams; invite, mute and expel members, change their roles, and report memories.


@dataclass(frozen=True, slots=True)
class Seat:
    """A member of a team according to the hub."""

    member_id: int
    name: str
    #: reader, writer or keeper; "" for a former member who shared something.
    role: str
    is_muted: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """A memory that a member reported to the keepers."""

    memory_id: str
    #: The local memory; "" if there is none.
    episode_id: str
    summary: str
    by: str
    reason: str
    at_ms: int


def make_team(store: Store, home: Home, server: Server, name: str, *, is_sealed: bool) -> Space:
    """Create a team with this person as its keeper. A sealed team's key is created here; the hub never receives it."""
    keyring, key = Keyring(home.hub_keys), new_key()
    with _connect(keyring, server) as connection:
        key_id = key_id_of(key) if is_sealed else b""
        made = connection.ask("team-make", {"name": name, "sealed": is_sealed, "key": key_id.hex()})
    with reading():
        ns_id = int(made["ns"])
    if is_sealed:
        keyring.add_key(server.url, ns_id, key)
    with store.transaction() as tx:
        return add_space(tx, server.id, ns_id, str(made["name"]), kind="team", role="keeper", is_sealed=is_sealed)


def invite(store: Store, home: Home, space: Space, role: str) -> str:
    """Return a one-time code for a team.

    For a sealed team, the second half of the code contains the key, hidden from the hub.
    """
    server, keyring = server_of(store, space), Keyring(home.hub_keys)
    hub_half, key_half = new_code()
    bundle = b""
    if space.is_sealed:
        keys = list(keyring.keys(server.url, space.ns_id).values())
        if not keys:
            command = f"engram hub key {as_arguments(space.name)}"
            raise WrongKey(f"{space.name} is sealed, and its key is missing: run `{command}`")
        bundle = wrap_keys(key_half, json.dumps([key.hex() for key in keys]).encode())
    request = {"ns": space.ns_id, "role": role, "digest": code_hash(hub_half).hex(), "bundle": bundle.hex()}
    with _connect(keyring, server) as connection:
        connection.ask("team-invite", request)
    return code_text(hub_half, key_half)


def join_team(store: Store, home: Home, server: Server, code: str) -> Space:
    """Join a team with a code.

    If the team has already been joined, a code can still supply its keys and a higher role.

    Raises:
        WrongKey: the second half of the code is wrong.
    """
    hub_half, key_half = split_code(code)
    keyring = Keyring(home.hub_keys)
    with _connect(keyring, server) as connection:
        answer = connection.ask("team-join", {"code": hub_half})
        with reading():
            ns_id, bundle = int(answer["ns"]), bytes.fromhex(answer["bundle"])
        if bundle:
            keys = json.loads(unwrap_keys(key_half, bundle))
            keyring.add_keys(server.url, ns_id, [bytes.fromhex(key) for key in keys])
        told = connection.hello(HelloRequest(server.pushes[-1:], {}))
        facts = next((facts for facts in told.spaces if facts.ns_id == ns_id), None)
    if facts is None or facts.kind != "team":
        raise HubRefused("the hub accepted the code but does not list the team: run `engram hub sync`")
    known = next((space for space in list_spaces(store, server.id) if space.ns_id == ns_id), None)
    with store.transaction() as tx:
        if known is not None:
            change_space(tx, known.id, role=facts.role, cursor=0, last_error="")
            if bundle:
                seal_again(tx, known.id)
            return known
        return add_hub_space(tx, server, facts)


def accept_team(store: Store, home: Home, name: str) -> Space:
    """Add this machine to one of this person's teams that a hub lists, such as one joined on another machine.

    Args:
        name: the team's name or number, as ``engram team list`` shows it.

    Raises:
        NotFound: no hub lists such a team.
        BadRequest: several match.
    """
    fitting = [
        (server, ns_id)
        for server in list_servers(store)
        for ns_id, told in list_offers(store, server.id).items()
        if name in (told, str(ns_id))
    ]
    if not fitting:
        raise NotFound(
            f"no hub lists a team {name[:60]!r} for you to accept; `engram team list` shows the pending ones"
        )
    if len(fitting) > 1:
        raise BadRequest(f"several teams are called {name[:60]}: specify one by number")
    server, ns_id = fitting[0]
    with _connect(Keyring(home.hub_keys), server) as connection:
        answer = connection.hello(HelloRequest(server.pushes[-1:], {}))
    facts = next((space for space in answer.spaces if space.ns_id == ns_id and space.kind == "team"), None)
    if facts is None:
        raise NotFound(f"the hub no longer lists a team {name[:60]!r}")
    with store.transaction() as tx:
        return add_hub_space(tx, server, facts)


def list_seats(store: Store, home: Home, space: Space) -> list[Seat]:
    """Return the current members of a team according to the hub."""
    server = server_of(store, space)
    with _connect(Keyring(home.hub_keys), server) as connection:
        told = learn_members(store, connection, server, space)
    known = {member.member_id: member for member in list_members(store, server.id)}
    roles = {int(str(seat["member"])): str(seat["role"]) for seat in told}
    return [
        Seat(member_id, known[member_id].name, role, is_muted=known[member_id].is_muted)
        for member_id, role in roles.items()
    ]


def require_seat(seats: Sequence[Seat], space: Space, name: str, *, or_former: bool = False) -> Seat:
    """Return a team member's seat or, with ``or_former``, a former member's. Raises NotFound."""
    seat = next((seat for seat in seats if seat.name == name and (seat.role or or_former)), None)
    if seat is None:
        raise NotFound(f"{name[:60]} is not in {space.name}; `engram team members` lists the members")
    return seat


def set_role(store: Store, home: Home, space: Space, name: str, role: str) -> None:
    """Give a member another role; "" removes them. Raises NotFound or HubRefused."""
    server = server_of(store, space)
    seat = require_seat(list_seats(store, home, space), space, name)
    with _connect(Keyring(home.hub_keys), server) as connection:
        connection.ask("team-role", {"ns": space.ns_id, "member": seat.member_id, "role": role})


def is_last_member(store: Store, home: Home, space: Space) -> bool:
    """Return True if this person is a team's only member, so that leaving dissolves it.

    Raises:
        BadRequest: this person is the only keeper of other members, and can't leave.
    """
    mine = server_of(store, space).member_id
    others = [seat for seat in list_seats(store, home, space) if seat.role and seat.member_id != mine]
    if others and space.role == "keeper" and all(seat.role != "keeper" for seat in others):
        names = ", ".join(seat.name for seat in others[:5])
        command = f"`engram team role NAME keeper --space {as_arguments(space.name)}`"
        raise BadRequest(f"you are the only keeper of {space.name}: first make another member ({names}) one: {command}")
    return not others


def leave(store: Store, home: Home, space: Space, *, is_erased: bool, dissolves: bool = False) -> int:
    """Leave a team and, if ``is_erased`` is set, delete the teammates' memories here; return how many were deleted.

    Args:
        dissolves: this person is the last member, so the hub deletes the team and all that was shared in it.
    """
    server = server_of(store, space)
    with _connect(Keyring(home.hub_keys), server) as connection:
        if dissolves:
            connection.ask("team-dissolve", {"ns": space.ns_id})
        else:
            connection.ask("team-role", {"ns": space.ns_id, "member": server.member_id, "role": ""})
    with store.transaction() as tx:
        theirs = [said for said in said_in_space(tx, space.id) if said.author != server.member_id]
        gone = remove_received(tx, theirs) if is_erased else 0
        drop_space(tx, space.id)
    return gone


def mute(store: Store, name: str) -> int:
    """Stop storing a teammate's memories, and delete them from this machine, without notifying the teammate.

    Return how many were deleted.
    """
    member = _require_member(store, name)
    with store.transaction() as tx:
        return mute_member(tx, member)


def unmute(store: Store, name: str) -> None:
    """Unmute a teammate, so that the next round fetches their memories again."""
    member = _require_member(store, name)
    with store.transaction() as tx:
        unmute_member(tx, member)


def _require_member(store: Store, name: str) -> Member:
    """Return a teammate by name. Raises NotFound or BadRequest."""
    servers = dict.fromkeys(space.server_id for space in team_spaces(store) if space.server_id is not None)
    members = [member for server_id in servers for member in list_members(store, server_id)]
    fitting = [member for member in members if member.name == name]
    if not fitting:
        raise NotFound(f"no teammate {name[:60]!r} is known here; `engram team members` fetches the list from the hub")
    if len(fitting) > 1:
        raise BadRequest(f"two hubs have a member called {name}: leave one of the hubs, or forget memories one by one")
    return fitting[0]


def report_memory(store: Store, home: Home, episode_id: str, reason: str) -> Space:
    """Report a teammate's memory to the keepers of its team, and return the team. Raises NotFound."""
    spaces = {space.id: space for space in team_spaces(store)}
    for memory in said_of_memory(store, episode_id):
        space = spaces.get(memory.space_id)
        if space is None or memory.is_forgotten:
            continue
        request = {"ns": space.ns_id, "author": memory.author, "memory": memory.memory_id.hex(), "reason": reason}
        with _connect(Keyring(home.hub_keys), server_of(store, space)) as connection:
            connection.ask("team-report", request)
        return space
    raise NotFound(f"{episode_id[:60]} did not come from a team")


def list_reported(store: Store, home: Home, space: Space, *, settle: str = "") -> list[Reported]:
    """Return the memories reported to a team's keepers, after closing the reports of the memory ``settle``."""
    request: dict[str, Any] = {"ns": space.ns_id}
    # Shares of two members who imported the same memory have the same id.
    memories = {(said.author, said.memory_id.hex()): said for said in said_in_space(store, space.id)}
    if settle:
        fitting = [said for said in memories.values() if settle in (said.episode_id, said.memory_id.hex())]
        if not fitting:
            listed = "`engram team reports` lists what members reported"
            raise NotFound(f"no memory {settle[:60]!r} is shared with {space.name}; {listed}")
        request["drop"] = {"author": fitting[0].author, "memory": fitting[0].memory_id.hex()}
    with _connect(Keyring(home.hub_keys), server_of(store, space)) as connection:
        told: Sequence[dict[str, Any]] = connection.ask("team-reports", request)["reports"]
    with store.transaction() as tx:
        change_space(tx, space.id, reports=len({(row["author"], row["memory"]) for row in told}))
    reported = []
    for row in told:
        said = memories.get((int(row["author"]), str(row["memory"])))
        memory = None if said is None else find_memory(store, said.episode_id)
        reported.append(
            Reported(
                memory_id=str(row["memory"]),
                episode_id="" if memory is None else memory.episode_id,
                summary="" if memory is None else memory.summary,
                by=str(row["by"]),
                reason=str(row["reason"]),
                at_ms=int(row["at_ms"]),
            )
        )
    return reported


def _connect(keyring: Keyring, server: Server) -> Connection:
    return Connection(server.url, keyring.token(server.url))
