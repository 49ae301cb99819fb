"""The answer to a prompt: one decision, for the hook that asks and for the dry run that explains it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from engram.embedding.embedder import Embedder
from engram.enums import Channel, Verdict
from engram.models import sessions
from engram.models.outcomes import Outcome
from engram.models.store import Store
from engram.recollection.effects import Effects
from engram.recollection.prompt_filter import FilteredPrompt, filter_prompt
from engram.recollection.prompts import SAME_MOMENT_MS, AskedPrompt, Claim, LatestPrompts, digest_of, key_of
from engram.recollection.render import MAX_OUTPUT_CHARACTERS, bites_text, hook_output
from engram.recollection.selection import BiteSelector, Selection
from engram.recollection.session_start import SessionStarts
from engram.recollection.topics import Topics
from engram.recollection.verdicts import find_decisive, recorded_candidates
from engram.settings import Settings

#: Sources of a prompt that no person sent.
MACHINE_SOURCES = ("system", "loop_wakeup", "schedule_wakeup", "poll_event")
EVENT = "UserPromptSubmit"


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """The answer to a prompt, and how it came about."""

    #: What the hook prints: one JSON object on one line, or nothing.
    output: bytes
    #: The text that was searched for; "" for none.
    text: str
    selection: Selection
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class PromptAnswerer:
    """Decides what a prompt is answered. Any thread may call any method.

    It changes nothing itself: what an answer changes goes to the ``Effects`` that it is given.
    """

    store: Store
    settings: Settings
    redact: Callable[[str, Collection[bytes]], str]
    embedder: Embedder | None
    prompts: LatestPrompts
    topics: Topics
    selector: BiteSelector
    starts: SessionStarts

    def answer(self, payload: Mapping[str, object], effects: Effects, project_id: int | None = None) -> PromptAnswer:
        """Decide what a prompt is answered.

        Args:
            payload: what Claude Code gives the hook UserPromptSubmit.
            effects: receives what the answer changes.
            project_id: the project that is asked about; None for that of session and folder.
        """
        began_seconds = self.store.clock.steady_seconds()
        session_id, cwd = text_of(payload, "session_id"), text_of(payload, "cwd")
        refusal = self._refusal(payload)
        filtered = FilteredPrompt("", refusal) if refusal else self.filter(session_id, payload.get("prompt"))
        prompt = AskedPrompt(
            key=key_of(payload, filtered.text),
            digest=digest_of(filtered.text),
            text=filtered.text,
            at_ms=self.store.now_ms(),
            cwd=cwd,
            project_id=project_id,
        )
        briefing = "" if refusal else effects.take_missed_briefing(session_id, prompt)
        selection = self._select(session_id, prompt, filtered, effects)
        selection, output = self._render(briefing, selection)
        if selection.bites:
            effects.note_shown(session_id, prompt, selection.bites)
        took_seconds = self.store.clock.steady_seconds() - began_seconds
        outcome = self.outcome_of(session_id, prompt, selection, Channel.PROMPT, duration_ms=int(took_seconds * 1000))
        if not self._is_same_moment(session_id, prompt, outcome):
            effects.record(outcome, cwd)
        return PromptAnswer(output, prompt.text, selection, outcome)

    def filter(self, session_id: str, prompt: object) -> FilteredPrompt:
        """Return the redacted part of a prompt that is searched for, or why there is none."""
        known = sessions.known_values(self.store, session_id)
        return filter_prompt(self.redact(prompt, known) if isinstance(prompt, str) else None)

    def outcome_of(
        self,
        session_id: str,
        prompt: AskedPrompt,
        selection: Selection,
        channel: Channel,
        *,
        verdict: Verdict | None = None,
        digest: str = "",
        duration_ms: int = 0,
    ) -> Outcome:
        """Return the outcome of a selection. Its project may be missing: ``SessionScope.complete`` adds it.

        Args:
            session_id: Claude Code's session.
            prompt: the prompt that the selection was made for, or that the tool call belongs to.
            selection: what was chosen.
            channel: how it is shown.
            verdict: what becomes of what was chosen; by default it is shown.
            digest: the hash of a tool call's text; by default that of the prompt.
            duration_ms: how long it took.
        """
        decisive, rated = find_decisive(selection.rated), selection.rated
        with_vectors = any(rated_hit.hit.cosine is not None for rated_hit in rated)
        outcome = Outcome(
            session_id=session_id,
            channel=channel,
            verdict=selection.verdict,
            at_ms=prompt.at_ms if channel is Channel.PROMPT else self.store.now_ms(),
            prompt_key=prompt.key,
            digest=digest or (prompt.digest if prompt.text else ""),
            project_id=selection.project_id if prompt.project_id is None else prompt.project_id,
            candidates=len(rated),
            score=None if decisive is None else round(decisive.score, 4),
            floor=None if decisive is None else round(decisive.floor, 4),
            is_text_only=not with_vectors if rated else self.embedder is None,
            duration_ms=duration_ms,
            considered=recorded_candidates(rated),
        )
        return outcome if verdict is None else with_verdict(outcome, verdict)

    def _refusal(self, payload: Mapping[str, object]) -> Verdict | None:
        """Return why a prompt is not looked at; None if it is."""
        if not self.settings.inject:
            return Verdict.INJECT_OFF
        if payload.get("agent_id"):
            return Verdict.SUBAGENT
        return Verdict.NOT_TYPED if text_of(payload, "source") in MACHINE_SOURCES else None

    def _select(self, session_id: str, prompt: AskedPrompt, filtered: FilteredPrompt, effects: Effects) -> Selection:
        """Choose bites for a prompt that a hook asks about; none if another hook has asked about it."""
        if filtered.verdict is not None:
            return Selection(filtered.verdict)
        if self.starts.is_unread_replay(session_id):
            return Selection(Verdict.UNREAD_FORK)
        claim = effects.claim(session_id, prompt)
        if claim is Claim.ASKED_BEFORE:
            return Selection(Verdict.ASKED_BEFORE)
        if claim is Claim.NEW and self.topics.is_same(session_id, prompt.text):
            return Selection(Verdict.SAME_TOPIC)
        effects.withdraw(session_id)
        return self.selector.select(session_id, prompt)

    def _render(self, briefing: str, selection: Selection) -> tuple[Selection, bytes]:
        """Return what the hook prints, and the selection without the bites that have no room beside the briefing."""
        shown = bites_text(selection.bites, self.settings.bite_tokens)
        if not briefing or len(briefing) + 1 + len(shown) <= MAX_OUTPUT_CHARACTERS:
            output = hook_output(EVENT, "\n".join(part for part in (briefing, shown) if part))
            if output or not selection.bites:
                return selection, output
        rated = [
            replace(rated_hit, verdict=Verdict.NO_ROOM) if rated_hit.verdict is Verdict.SHOWN else rated_hit
            for rated_hit in selection.rated
        ]
        return Selection.of(rated, selection.project_id), hook_output(EVENT, briefing)

    def _is_same_moment(self, session_id: str, prompt: AskedPrompt, outcome: Outcome) -> bool:
        """Return True for a hook that is registered twice: what became of the prompt is recorded already."""
        latest = self.prompts.find(session_id)
        is_repeated = outcome.verdict is Verdict.ASKED_BEFORE
        return is_repeated and latest is not None and prompt.at_ms - latest.at_ms < SAME_MOMENT_MS


def with_verdict(outcome: Outcome, verdict: Verdict) -> Outcome:
    """Return an outcome that something else became of what was chosen, such as that it waits."""
    if outcome.verdict is not Verdict.SHOWN:
        return outcome
    considered = [
        replace(candidate, verdict=verdict) if candidate.verdict is Verdict.SHOWN else candidate
        for candidate in outcome.considered
    ]
    return replace(outcome, verdict=verdict, considered=tuple(considered))


def text_of(payload: Mapping[str, object], name: str) -> str:
    """Return a text of a hook's payload; "" if it is missing or no text."""
    value = payload.get(name)
    return value if isinstance(value, str) else ""
