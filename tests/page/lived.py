"""A memory in which something has happened: sessions, turns, memories that rest on them, and what became of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from showing import show

from engram.enums import Actor, Channel, Kind, Scope, Verdict, Voice
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.sessions import prompt_outcomes
from engram.models.sessions.prompt_outcomes import Candidate, Outcome
from engram.transcripts.turns import Action, EntryRef, Role, TextBlock
from tests.models.conversations import make_turn, store_project, store_session, store_turn

SESSION = "5d4da058-9547-4d8d-9e6a-f1b36f34670a"
#: What was asked, what was answered, and the memory of it.
PROMPT = "How do we round the VAT of an invoice?"
REPLY = "I looked into it. vat_cents cut the half cent off; the fix is integer arithmetic in harbor/vat.py. Tests pass."
SUMMARY = "vat_cents cut the half cent off; the fix is integer arithmetic in harbor/vat.py."
QUIET = "yes, go on"
ERROR = "AssertionError: 1"
#: The days ago at which `live_earlier` lets something happen, and the tokens that Claude was shown on each.
EARLIER_DAYS, EARLIER_TOKENS = (4, 2), 5


@dataclass(frozen=True, slots=True)
class Lived:
    """What happened."""

    fix: Memory
    #: About the same; in force.
    other: Memory
    turn_id: int


def uuid_of(number: int) -> str:
    """A uuid of an entry."""
    return f"00000000-0000-4000-8000-{number:012d}"


def live(store: Store, *, project: str = "harbor", session: str = SESSION, number: int = 1) -> Lived:
    """Make one of everything."""
    now = store.now_ms()
    place = store_project(store, project)
    store_session(store, session, project, at_ms=now - 2_000)
    failed = Action(tool_use_id="", tool="Bash", command="pytest", is_error=True, exit_code=1, error_line=ERROR)
    edited = Action(tool_use_id="", tool="Edit", files=("harbor/vat.py",), is_edit=True)
    said = (
        TextBlock(uuid_of(number), Role.USER, PROMPT, line=17),
        TextBlock(uuid_of(number + 1), Role.ASSISTANT, REPLY, "m", offset=6, line=18),
    )
    turn = make_turn(
        uuid_of(number),
        PROMPT,
        session_id=session,
        at_ms=now - 2_000,
        actions=(failed, edited),
        said=said,
        entries=tuple(EntryRef(block.uuid, block.offset, 5, block.line) for block in said),
    )
    turn_id = store_turn(store, turn, project)
    store_turn(store, make_turn(uuid_of(number + 2), QUIET, session_id=session, at_ms=now - 1_000), project)
    fix, other = (
        Memory(
            episode_id=new_memory_id(),
            kind=Kind.FIX,
            summary=summary,
            content=f"{summary}\n\nIt was cut by int(...).",
            session_id=session,
            project_id=place.id,
            scope=Scope.PROJECT,
            voice=Voice.ASSISTANT,
            entities=("harbor/vat.py", "vat_cents"),
            facts=("changed harbor/vat.py",),
            questions=("Why do taxes come out too low?",),
            quality=0.6,
            created_at_ms=now - 2_000 + index,
        )
        for index, summary in enumerate((SUMMARY, "VAT is stored as integer cents, see harbor/vat.py."))
    )
    evidence = [Evidence(uuid_of(number + 1), session, turn_id)]
    with store.transaction() as tx:
        fix, other = (add_memory(tx, memory, evidence, actor=Actor.MODEL, action="extract") for memory in (fix, other))
        show(store, fix.episode_id, session, prompt_key="p", score=0.71, tokens=31, at_ms=now - 2_000)
        considered = (
            Candidate(0, fix.episode_id, Verdict.SHOWN, 0.71, 0.18, {"source": 0.7, "rare": 9.0, "rivals": 0.2}),
            Candidate(1, other.episode_id, Verdict.BELOW_FLOOR, 0.12, 0.18, {"source": 0.3, "rare": 1.0}),
        )
        add = [
            (Verdict.SHOWN, now - 2_000, considered, 20, 0.71, 0.18),
            (Verdict.TOO_SHORT, now - 1_000, (), 0, None, None),
        ]
        prompt_outcomes.add_outcomes(tx, [_outcome(session, place.id, *values) for values in add])
    return Lived(fix, other, turn_id)


def live_earlier(store: Store, *, project: str = "harbor", session: str = SESSION) -> None:
    """Let one memory be kept and one shown on each of two earlier days, none of them yesterday."""
    place = store_project(store, project)
    for days in EARLIER_DAYS:
        at_ms = store.now_ms() - days * 86_400_000
        memory = Memory(
            episode_id=new_memory_id(),
            kind=Kind.FACT,
            summary=f"The beacon of {project} was lit {days} days ago.",
            content="",
            session_id=session,
            project_id=place.id,
            scope=Scope.PROJECT,
            voice=Voice.USER,
            created_at_ms=at_ms,
        )
        with store.transaction() as tx:
            made = add_memory(tx, memory, [], actor=Actor.MODEL, action="extract")
            tx.run("UPDATE episode SET kept_at_ms = ? WHERE id = ?", [at_ms, made.id])
            show(store, made.episode_id, session, prompt_key=f"earlier {days}", tokens=EARLIER_TOKENS, at_ms=at_ms)


def _outcome(
    session: str,
    project_id: int,
    verdict: Verdict,
    at_ms: int,
    considered: Sequence[Candidate],
    candidates: int,
    score: float | None,
    floor: float | None,
) -> Outcome:
    return Outcome(
        session_id=session,
        channel=Channel.PROMPT,
        verdict=verdict,
        at_ms=at_ms,
        prompt_key=f"p{at_ms}",
        project_id=project_id,
        candidates=candidates,
        score=score,
        floor=floor,
        considered=tuple(considered),
        duration_ms=12,
    )
