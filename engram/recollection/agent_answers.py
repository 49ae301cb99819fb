"""Answers the start of a subagent with the memories that belong to its task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from engram.enums import Channel
from engram.models import sessions
from engram.models.injections import agent_key
from engram.models.outcomes import Outcome
from engram.models.store import Store
from engram.recollection.choose import InjectionRequest
from engram.recollection.ledger import Ledger
from engram.recollection.prompt_filter import filter_prompt
from engram.recollection.prompts import digest_of
from engram.recollection.recall import rate_for_prompt
from engram.recollection.render import bites_text, hook_output
from engram.recollection.selection import BiteSelector, Selection, within_budget
from engram.recollection.subagents import AGENT_TOOLS, MAX_AGENT_BITES, MAX_AGENT_TOKENS, AgentTask, AgentTasks
from engram.recollection.verdicts import find_decisive, recorded_candidates

EVENT = "SubagentStart"


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """Decides what a subagent is shown at its start, once. Any thread may call any method.

    It has its own budget and ledger: what it gets is neither taken from its parent nor counted against it.
    """

    store: Store
    redact: Callable[[str, Collection[bytes]], str]
    ledger: Ledger
    selector: BiteSelector
    tasks: AgentTasks = field(default_factory=AgentTasks)

    def note_call(self, payload: Mapping[str, object]) -> None:
        """Keep the task of a tool call that starts a subagent."""
        given = payload.get("tool_input")
        session_id = payload.get("session_id")
        if payload.get("tool_name") not in AGENT_TOOLS or not isinstance(given, dict):
            return
        if isinstance(session_id, str) and isinstance(given.get("prompt"), str):
            task = AgentTask(
                call_id=_text(payload, "tool_use_id"),
                agent_type=_text(given, "subagent_type"),
                prompt_id=_text(payload, "prompt_id"),
                text=_text(given, "prompt"),
            )
            self.tasks.note(session_id, task)

    def answer(self, payload: Mapping[str, object]) -> bytes:
        """Return what the hook SubagentStart prints; b"" if nothing belongs to the task, or if it is not known."""
        session_id, agent_id, agent_type = (_text(payload, name) for name in ("session_id", "agent_id", "agent_type"))
        # Claude Code's own helpers, such as the one that writes the summary of a compaction, have no type.
        if not (agent_id and agent_type):
            return b""
        task = self.tasks.take(session_id, agent_id, agent_type, _text(payload, "prompt_id"))
        if not task or self.ledger.told_agent(session_id, agent_id):
            return b""
        known = sessions.known_values(self.store, session_id)
        filtered = filter_prompt(self.redact(task, known))
        if filtered.verdict is not None:
            selection = Selection(filtered.verdict)
        else:
            selection = self._select(session_id, _text(payload, "cwd"), filtered.text)
        key = agent_key(agent_id)
        if selection.bites:
            self.ledger.note_shown(session_id, key, selection.bites, Channel.AGENT)
        self.ledger.record(self._outcome(session_id, key, filtered.text, selection), _text(payload, "cwd"))
        return hook_output(EVENT, bites_text(selection.bites, MAX_AGENT_TOKENS))

    def came_too_late(self, payload: Mapping[str, object]) -> None:
        """Note that the hook ended before its answer came: nothing was shown."""
        session_id, agent_id = _text(payload, "session_id"), _text(payload, "agent_id")
        if agent_id:
            self.ledger.take_back_line(session_id, agent_key(agent_id))

    def _select(self, session_id: str, cwd: str, text: str) -> Selection:
        """Choose bites for a task as for a prompt. Its context is empty: what its parent knows, it does not."""
        refusal = self.selector.scope.refusal(session_id, cwd)
        if refusal is not None:
            return Selection(refusal)
        request = InjectionRequest(
            text=text,
            session_id=session_id,
            project_id=self.selector.scope.project_id(session_id, cwd),
            bites=MAX_AGENT_BITES,
            now_ms=self.ledger.now_ms(),
        )
        rated = rate_for_prompt(self.selector.searcher, request, self.selector.thresholds)
        return Selection.of(within_budget(rated, MAX_AGENT_TOKENS), request.project_id)

    def _outcome(self, session_id: str, key: str, text: str, selection: Selection) -> Outcome:
        decisive = find_decisive(selection.rated)
        return Outcome(
            session_id=session_id,
            channel=Channel.AGENT,
            verdict=selection.verdict,
            at_ms=self.ledger.now_ms(),
            prompt_key=key,
            digest=digest_of(text) if text else "",
            project_id=selection.project_id,
            candidates=len(selection.rated),
            score=None if decisive is None else round(decisive.score, 4),
            floor=None if decisive is None else round(decisive.floor, 4),
            considered=recorded_candidates(selection.rated),
        )


def _text(given: Mapping[str, object], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
