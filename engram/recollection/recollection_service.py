"""The service behind the hooks: it answers a prompt with bites or nothing; late bites wait for the next tool call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from engram.embedding.embedder import Embedder
from engram.enums import Channel, Verdict
from engram.models.engine.transaction import Store
from engram.models.projects.projects import ProjectRow
from engram.models.sessions.prompt_outcomes import Candidate, Outcome
from engram.models.sessions.recent_work import latest_turn
from engram.models.work.work import settled_ms, watch_clock
from engram.paths import is_session_id
from engram.recollection import failure_hook, subagents
from engram.recollection.choose_bites import Bite, ToolCall, to_candidate
from engram.recollection.failure_hook import FailureAnswers
from engram.recollection.hook_files import PendingBites, RecollectionFiles
from engram.recollection.ledger import Ledger
from engram.recollection.prompt_answer import (
    EVENT,
    BiteSelector,
    PromptAnswer,
    PromptAnswerer,
    Selection,
    text_of,
)
from engram.recollection.prompts import AskedPrompt, LatestPrompts, SessionScope, Topics, digest_of, key_of
from engram.recollection.render_bites import bites_text, hook_output
from engram.recollection.session_start import EMPTYING_SOURCES, SessionStarts
from engram.recollection.subagents import AgentAnswers
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import DAY_MS
from engram.transcripts.turns import Action

if TYPE_CHECKING:
    from engram.search.searcher import Searcher

_START, _TOOL = "SessionStart", "PreToolUse"
#: Id for a session that doesn't exist yet. It differs from every real id and from "", which means no session.
NEW_SESSION = "(new session)"


class RecollectionService:
    """Decides what a session is shown. Thread-safe."""

    def __init__(
        self, store: Store, searcher: Searcher, settings: Settings, *, embedder: Embedder | None = None
    ) -> None:
        """Create the service.

        Args:
            embedder: used to compare the topics of prompts; without it, only their words are compared.
        """
        self._store = store
        self._settings = settings
        self._prompts = LatestPrompts()
        self._topics = Topics(embedder)
        scope = SessionScope(store, settings)
        self._ledger = Ledger(store, scope)
        self._pending = PendingBites(settings.places.recollections, self._ledger, self._prompts, self._topics)
        self._selector = BiteSelector(searcher, settings, self._ledger, scope)
        self._starts = SessionStarts(store, settings, self._ledger, self._pending, self._topics, scope)
        self._failures = FailureAnswers(
            store=store,
            settings=settings,
            ledger=self._ledger,
            pending=self._pending,
            scope=scope,
            files=RecollectionFiles(settings.places.recollections),
            starts=self._starts,
        )
        self._agents = AgentAnswers(store=store, ledger=self._ledger, selector=self._selector)
        self._answerer = PromptAnswerer(
            store=store,
            settings=settings,
            embedder=embedder,
            prompts=self._prompts,
            topics=self._topics,
            selector=self._selector,
            starts=self._starts,
            ledger=self._ledger,
            pending=self._pending,
        )

    def answer_hook(self, payload: Mapping[str, object]) -> bytes:
        """Return the output of a hook for its payload: one JSON object on one line, or nothing.

        Its content counts as shown from now on. Call ``write_down`` after sending it, or ``came_too_late`` if that
        fails.
        """
        session_id = text_of(payload, "session_id")
        if not is_session_id(session_id):
            return b""
        event, is_agents = payload.get("hook_event_name"), bool(payload.get("agent_id"))
        if event in (EVENT, _START) and not is_agents:
            self._failures.note_session(session_id, text_of(payload, "cwd"))
        if event == EVENT:
            return self._answerer.answer(payload).output
        if not self._settings.inject:
            return b""
        if event == _START and not is_agents:
            return self._start(session_id, payload)
        if event == failure_hook.EVENT:
            return self._failures.answer(payload)
        if event == subagents.EVENT:
            return self._agents.answer(payload)
        if event == _TOOL:
            self._agents.note_call(payload)
        return b""

    def explain(self, prompt: str, *, project: ProjectRow | None = None, session_id: str = "") -> PromptAnswer:
        """Return the answer that a prompt would get now, and the reason for it. Nothing is stored, claimed or
        withdrawn.

        Args:
            prompt: the prompt, as a person would type it.
            project: the project to ask in; None for the session's project, if any.
            session_id: the session to ask in; "" for a new one.
        """
        session_id = session_id or NEW_SESSION
        cwd = "" if project is None else project.root
        payload = {"hook_event_name": EVENT, "session_id": session_id, "cwd": cwd, "prompt": prompt}
        answer = self._answerer.answer(payload, None if project is None else project.id, is_dry=True)
        return replace(answer, outcome=self._selector.scope.complete(answer.outcome, cwd))

    def write_down(self) -> None:
        """Store what was shown and recorded. Call this after sending the answer, because it may wait for another
        writer.
        """
        self._ledger.write_down()
        self._failures.write_down()

    def came_too_late(self, payload: Mapping[str, object]) -> None:
        """Record that a hook exited before its answer arrived.

        Bites and lines about failures become pending, and a missed briefing is owed.
        """
        session_id = text_of(payload, "session_id")
        if not is_session_id(session_id):
            return
        if payload.get("hook_event_name") == _START:
            self._ledger.take_back_briefing(session_id)
            self.never_asked(payload)
            return
        if payload.get("hook_event_name") == failure_hook.EVENT:
            self._failures.came_too_late(payload, self._prompts.find(session_id))
            return
        if payload.get("hook_event_name") == subagents.EVENT:
            self._agents.came_too_late(payload)
            return
        text = self._answerer.filter(session_id, payload.get("prompt")).text
        key, latest = key_of(payload, text), self._prompts.find(session_id)
        self._starts.give_back(session_id, key)
        self._pending.take_back_answer(session_id, key)
        if latest is not None and latest.key == key:
            self._offer(session_id, latest)
        self._ledger.write_down()

    def never_asked(self, payload: Mapping[str, object]) -> None:
        """Record that a hook exited before its payload was read. The next prompt's answer delivers a missed briefing.

        A missed prompt needs no action, because it is read from the transcript and its bites then become pending.
        """
        session_id = text_of(payload, "session_id")
        is_start = payload.get("hook_event_name") == _START and not payload.get("agent_id")
        if is_start and is_session_id(session_id):
            self._starts.note_missed(session_id, text_of(payload, "source"))

    def recollect(self, session_id: str) -> bool:
        """Choose bites for the session's latest prompt, or for its latest tool call if the prompt has already been
        handled.

        Return True if bites are now pending.
        """
        turn = latest_turn(self._store, session_id) if is_session_id(session_id) else None
        if turn is None or not self._settings.inject:
            return False
        text, at_ms = self._answerer.filter(session_id, turn.turn.prompt).text, turn.turn.started_at_ms or 0
        digest = digest_of(text)
        prompt = AskedPrompt(key=digest, digest=digest, text=text, at_ms=at_ms, cwd=turn.turn.cwd)
        if text and not self._is_stale(prompt) and self._prompts.claim_written(session_id, prompt):
            return self._offer_unasked(session_id, prompt)
        return self._offer_for_latest_call(session_id, turn.turn.key, turn.turn.actions)

    def refresh(self, session_id: str) -> bool:
        """Choose bites for the latest prompt again after memories were added; return True if bites are pending."""
        prompt = self._prompts.find(session_id) if is_session_id(session_id) else None
        if prompt is None or not self._settings.inject or self._is_stale(prompt):
            return False
        return self._offer(session_id, prompt).verdict is Verdict.PENDING

    def about_tool(self, session_id: str, files: Sequence[str] = (), command: str = "", error: str = "") -> bool:
        """Choose a bite about a file or command for the next tool call; return True if it is pending.

        The bite counts towards the latest prompt's limit. Bites that are already pending are kept.
        """
        prompt = self._prompts.find(session_id) if is_session_id(session_id) else None
        if prompt is None or not self._settings.inject or self._is_stale(prompt):
            return False
        call = ToolCall(files=tuple(files), command=redact(command), error=redact(error))
        self._pending.settle(session_id)
        if not call.text or self._pending.is_pending(session_id):
            return False
        outcome = self._offer(session_id, prompt, call)
        # No memory mentions anything from most calls. These are not recorded, since they would crowd out the others.
        is_telling = outcome.candidates and outcome.verdict not in (Verdict.PENDING, Verdict.NOTHING_NEAR)
        if is_telling and self._prompts.is_new_silence(session_id, outcome.digest):
            self._ledger.record(outcome, prompt.cwd)
        return outcome.verdict is Verdict.PENDING

    def tidy(self) -> int:
        """Store what was shown, and tidy the pending files; return the number of affected files.

        Outcomes older than ``outcome_days`` are deleted.
        """
        self._ledger.write_down()
        watch_clock(self._store)
        now_ms = self._store.now_ms()
        self._ledger.drop_old(settled_ms(self._store) - self._settings.outcome_days * DAY_MS)
        return self._pending.tidy(
            stale_before_ms=now_ms - self._settings.stale_seconds * 1000,
            remove_before_ms=now_ms - self._settings.live_seconds * 1000,
        )

    def _start(self, session_id: str, payload: Mapping[str, object]) -> bytes:
        source = text_of(payload, "source")
        if source in EMPTYING_SOURCES:
            self._failures.seen.forget(session_id)
        return self._starts.answer(session_id, text_of(payload, "cwd"), source)

    def _offer_unasked(self, session_id: str, prompt: AskedPrompt) -> bool:
        """Choose bites for a prompt that no hook asked about; return True if they are pending."""
        if self._topics.is_same(session_id, prompt.text):
            selection = Selection(Verdict.SAME_TOPIC)
            outcome = self._answerer.outcome_of(session_id, prompt, selection, Channel.PROMPT)
        else:
            outcome = self._offer(session_id, prompt)
        if outcome.verdict is not Verdict.PENDING:
            self._ledger.record(replace(outcome, channel=Channel.PROMPT, at_ms=prompt.at_ms), prompt.cwd)
        return outcome.verdict is Verdict.PENDING

    def _offer_for_latest_call(self, session_id: str, turn_key: str, actions: Sequence[Action]) -> bool:
        """Choose a bite for the latest tool call of a turn, once per call."""
        if not actions or not self._prompts.is_new_call(session_id, f"{turn_key} {len(actions)}"):
            return False
        last, prompt = actions[-1], self._prompts.find(session_id)
        if prompt is not None and not self._is_stale(prompt) and self._failures.offer(session_id, prompt, last):
            return True
        return self.about_tool(session_id, last.files, last.command, last.error_line)

    def _offer(self, session_id: str, prompt: AskedPrompt, call: ToolCall | None = None) -> Outcome:
        """Choose bites and make them pending for the next tool call, in place of earlier ones.

        Return the outcome. Its verdict is PENDING (already recorded), WITHDRAWN if a hook or prompt was faster, or the
        reason why nothing is pending.
        """
        selection = self._selector.select(session_id, prompt, call)
        outcome = self._answerer.outcome_of(
            session_id,
            prompt,
            selection,
            Channel.TOOL,
            verdict=Verdict.PENDING,
            digest=digest_of(call.text) if call else "",
        )

        def render(bites: Sequence[Bite]) -> bytes:
            return hook_output(_TOOL, bites_text(bites, self._settings.bite_tokens))

        if not self._pending.put(session_id, prompt, selection.bites, render, outcome):
            return replace(outcome, verdict=Verdict.WITHDRAWN) if outcome.verdict is Verdict.PENDING else outcome
        if call is None:
            self._topics.note(session_id, prompt.text)
        return outcome

    def _is_stale(self, prompt: AskedPrompt) -> bool:
        return abs(self._store.now_ms() - prompt.at_ms) > self._settings.stale_seconds * 1000


# -- Explain how a prompt would be answered now.

#: Maximum number of memories and quotations that an explanation lists, most relevant first.
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class ExplainedMemory:
    candidate: Candidate
    summary: str


@dataclass(frozen=True, slots=True)
class Explanation:
    verdict: Verdict
    #: The redacted text that was searched for; "" for none.
    text: str
    #: Display name of the project; "" for none.
    project: str
    #: Number of memories and quotations considered.
    candidates: int
    #: Relevance of the memory that decided the outcome, and the minimum it had to reach; None if none was considered.
    score: float | None
    floor: float | None
    #: True if the search had no embedding model.
    is_text_only: bool
    duration_ms: int
    #: Most relevant first.
    memories: tuple[ExplainedMemory, ...]
    #: The text that Claude would be shown; "" for none.
    shown: str

    def to_json(self) -> dict[str, Any]:
        memories = [
            asdict(memory.candidate) | {"id": memory.candidate.episode_id, "summary": memory.summary}
            for memory in self.memories
        ]
        facts = asdict(self) | {"text_only": self.is_text_only, "memories": memories}
        del facts["is_text_only"]
        return facts

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Explanation:
        """Return the explanation that ``to_json`` wrote.

        Raises:
            KeyError: a key is missing, for example because another version wrote the JSON.
        """
        memories = [
            ExplainedMemory(
                Candidate(**_known_to(Candidate, {**memory, "episode_id": memory["id"]})), memory["summary"]
            )
            for memory in values["memories"]
        ]
        facts = _known_to(cls, {**values, "is_text_only": values["text_only"]})
        return cls(**facts | {"memories": tuple(memories)})


def explain(
    service: RecollectionService, prompt: str, project: ProjectRow | None = None, *, session_id: str = ""
) -> Explanation:
    """Explain which answer a prompt would get now, without changing anything."""
    answer = service.explain(prompt, project=project, session_id=session_id)
    outcome = answer.outcome
    output = json.loads(answer.output)["hookSpecificOutput"]["additionalContext"] if answer.output else ""
    return Explanation(
        verdict=outcome.verdict,
        text=answer.text,
        project="" if project is None else project.name,
        candidates=outcome.candidates,
        score=outcome.score,
        floor=outcome.floor,
        is_text_only=outcome.is_text_only,
        duration_ms=outcome.duration_ms,
        memories=tuple(
            ExplainedMemory(to_candidate(rated_hit), rated_hit.hit.text)
            for rated_hit in sorted(answer.selection.rated, key=lambda rated: -rated.score)[:MAX_LISTED]
        ),
        shown=str(output),
    )


def _known_to(record: type[Candidate | Explanation], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the values of a record's own fields. Raises KeyError if one is missing."""
    return {field.name: values[field.name] for field in fields(record)} | {
        "verdict": Verdict.from_stored(values["verdict"])
    }
