"""Decide the answer to a prompt, both for a hook and for a dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engram.embedding.embedder import Embedder
from engram.enums import Channel, Verdict
from engram.models.engine.transaction import Store
from engram.models.sessions import sessions
from engram.models.sessions.prompt_outcomes import Outcome
from engram.notes.standing import standing_text
from engram.recollection.choose_bites import (
    Bite,
    InjectionRequest,
    RatedHit,
    ToolCall,
    bites_of,
    find_decisive,
    recorded_candidates,
)
from engram.recollection.hook_files import PendingBites
from engram.recollection.ledger import Ledger, with_verdict
from engram.recollection.prompts import (
    SAME_MOMENT_MS,
    AskedPrompt,
    Claim,
    FilteredPrompt,
    LatestPrompts,
    SessionScope,
    Topics,
    belongs_to,
    digest_of,
    filter_prompt,
    key_of,
)
from engram.recollection.quotation_bites import may_quote, rate_for_call, rate_for_prompt, rate_quotations
from engram.recollection.render_bites import MAX_OUTPUT_CHARACTERS, bites_text, hook_output, shown_words
from engram.recollection.session_start import SessionStarts
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.git_files import read_branch

if TYPE_CHECKING:
    from engram.search.searcher import Searcher

# -- Select the bites for a prompt or a tool call.

#: Channels whose bites count towards a prompt's limit.
_OF_PROMPTS = (Channel.PROMPT, Channel.TOOL)


@dataclass(frozen=True, slots=True)
class Selection:
    """The hits chosen for a prompt or tool call, or the reason why there are none."""

    verdict: Verdict
    project_id: int | None = None
    #: Every hit considered, best first; those with the verdict SHOWN become bites.
    rated: tuple[RatedHit, ...] = ()

    @classmethod
    def of(cls, rated: Sequence[RatedHit], project_id: int | None) -> Selection:
        decisive = find_decisive(rated)
        return cls(Verdict.NOTHING_NEAR if decisive is None else decisive.verdict, project_id, tuple(rated))

    @property
    def bites(self) -> list[Bite]:
        return bites_of(self.rated)

    def figures(self) -> dict[str, Any]:
        """Return the fields of ``Outcome`` that describe the selection."""
        decisive = find_decisive(self.rated)
        return {
            "verdict": self.verdict,
            "candidates": len(self.rated),
            "score": None if decisive is None else round(decisive.score, 4),
            "floor": None if decisive is None else round(decisive.floor, 4),
            "considered": recorded_candidates(self.rated),
        }


@dataclass(frozen=True, slots=True)
class BiteSelector:
    """Chooses bites, taking into account what a session has been shown. Thread-safe."""

    searcher: Searcher
    settings: Settings
    ledger: Ledger
    scope: SessionScope

    def select(self, session_id: str, prompt: AskedPrompt, call: ToolCall | None = None) -> Selection:
        """Choose bites for a prompt or one of its tool calls, up to the number left for the prompt. Stores nothing.

        Pending bites count as not shown.
        """
        injections = self.ledger.of_session(session_id)
        given_ids = {
            injection.episode_id
            for injection in injections
            if injection.state == "shown"
            and injection.channel in _OF_PROMPTS
            and belongs_to(prompt, injection.prompt_key, injection.at_ms)
        }
        remaining = self.settings.bites - len(given_ids)
        if remaining <= 0:
            return Selection(Verdict.USED_UP)
        refusal = self.scope.refusal(session_id, prompt.cwd, prompt.project_id)
        if refusal is not None:
            return Selection(refusal)
        project_id = self.project_id(session_id, prompt)
        request = InjectionRequest(
            text=call.text if call else prompt.text,
            session_id=session_id,
            project_id=project_id,
            shown=self.ledger.delivered_ids(session_id, injections) | given_ids,
            bites=remaining,
            now_ms=self.ledger.now_ms(),
            branch=read_branch(prompt.cwd),
            in_context=partial(self.ledger.in_context, session_id),
            file_saying=standing_text(self.scope.store, project_id).file_saying,
        )
        if call:
            rated = rate_for_call(self.searcher, request, call)
        else:
            rated = rate_for_prompt(self.searcher, request)
            if self.settings.quotations and may_quote(rated):
                rated = [*rated, *rate_quotations(self.scope.store, self.searcher, request)]
        return Selection.of(within_budget(rated, self.settings.bite_tokens), request.project_id)

    def project_id(self, session_id: str, prompt: AskedPrompt) -> int | None:
        """Return the row id of a prompt's project; None if it has none."""
        if prompt.project_id is not None:
            return prompt.project_id
        return self.scope.project_id(session_id, prompt.cwd)


def within_budget(rated: Sequence[RatedHit], tokens: int) -> list[RatedHit]:
    """Return the hits, giving the verdict NO_ROOM to those that exceed the budget as bites."""
    fitting = {bite.episode_id for bite, _ in shown_words(bites_of(rated), tokens)}
    return [
        replace(rated_hit, verdict=Verdict.NO_ROOM)
        if rated_hit.verdict is Verdict.SHOWN and rated_hit.hit.id not in fitting
        else rated_hit
        for rated_hit in rated
    ]


# -- The answer to a prompt.

#: Values of ``source`` for prompts that no person sent.
MACHINE_SOURCES = ("system", "loop_wakeup", "schedule_wakeup", "poll_event")
EVENT = "UserPromptSubmit"


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    #: The hook's output: one JSON object on one line, or nothing.
    output: bytes
    #: The text that was searched for; "" for none.
    text: str
    selection: Selection
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class PromptAnswerer:
    """Decides the answer to a prompt. Thread-safe."""

    store: Store
    settings: Settings
    embedder: Embedder | None
    prompts: LatestPrompts
    topics: Topics
    selector: BiteSelector
    starts: SessionStarts
    ledger: Ledger
    pending: PendingBites

    def answer(
        self, payload: Mapping[str, object], project_id: int | None = None, *, is_dry: bool = False
    ) -> PromptAnswer:
        """Decide the answer to a prompt, and record what it shows; the outcome is stored after the answer was sent.

        Args:
            project_id: the project to ask in; None to derive it from the session and folder.
            is_dry: record, claim and withdraw nothing, and deliver no missed briefing. The decision is the same.
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
        briefing = "" if refusal or is_dry else self.starts.missed_briefing(session_id, prompt)
        selection = self._select(session_id, prompt, filtered, is_dry=is_dry)
        selection, output = self._render(briefing, selection)
        if selection.bites and not is_dry:
            self.ledger.note_shown(session_id, prompt.key, selection.bites)
            self.topics.note(session_id, prompt.text)
        took_seconds = self.store.clock.steady_seconds() - began_seconds
        # At least 1, to distinguish it from a prompt that no hook asked about (``count_asked_prompts``).
        took_ms = max(1, int(took_seconds * 1000))
        outcome = self.outcome_of(session_id, prompt, selection, Channel.PROMPT, duration_ms=took_ms)
        if not is_dry and not self._is_same_moment(session_id, prompt, outcome):
            self.ledger.record(outcome, cwd)
        return PromptAnswer(output, prompt.text, selection, outcome)

    def filter(self, session_id: str, prompt: object) -> FilteredPrompt:
        """Return the redacted part of a prompt to search for, or why there is none."""
        known = sessions.known_values(self.store, session_id)
        return filter_prompt(redact(prompt, known) if isinstance(prompt, str) else None)

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
        """Return the outcome of a selection. ``SessionScope.complete`` adds its project if that is missing.

        Args:
            verdict: the verdict on the chosen bites; SHOWN by default.
            digest: the hash of a tool call's text; the prompt's hash by default.
        """
        rated = selection.rated
        with_vectors = any(rated_hit.hit.cosine is not None for rated_hit in rated)
        outcome = Outcome(
            session_id=session_id,
            channel=channel,
            at_ms=prompt.at_ms if channel is Channel.PROMPT else self.store.now_ms(),
            prompt_key=prompt.key,
            digest=digest or (prompt.digest if prompt.text else ""),
            project_id=selection.project_id if prompt.project_id is None else prompt.project_id,
            is_text_only=not with_vectors if rated else self.embedder is None,
            duration_ms=duration_ms,
            **selection.figures(),
        )
        return outcome if verdict is None else with_verdict(outcome, verdict)

    def _refusal(self, payload: Mapping[str, object]) -> Verdict | None:
        """Return why a prompt is not considered; None if it is considered."""
        if not self.settings.inject:
            return Verdict.INJECT_OFF
        if payload.get("agent_id"):
            return Verdict.SUBAGENT
        return Verdict.NOT_TYPED if text_of(payload, "source") in MACHINE_SOURCES else None

    def _select(self, session_id: str, prompt: AskedPrompt, filtered: FilteredPrompt, *, is_dry: bool) -> Selection:
        """Choose bites for a prompt; none if another hook has already asked about it."""
        if filtered.verdict is not None:
            return Selection(filtered.verdict)
        if self.starts.is_unread_replay(session_id):
            return Selection(Verdict.UNREAD_FORK)
        claim = self.prompts.check(session_id, prompt) if is_dry else self.prompts.claim(session_id, prompt)
        if claim is Claim.ASKED_BEFORE:
            return Selection(Verdict.ASKED_BEFORE)
        if claim is Claim.NEW and self.topics.is_same(session_id, prompt.text):
            return Selection(Verdict.SAME_TOPIC)
        if not is_dry:
            self.pending.withdraw(session_id)
        return self.selector.select(session_id, prompt)

    def _render(self, briefing: str, selection: Selection) -> tuple[Selection, bytes]:
        """Return the selection and the hook's output, dropping the bites if they don't fit next to the briefing."""
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
        """Return True if the outcome is already recorded because the same hook is registered twice."""
        latest = self.prompts.find(session_id)
        is_repeated = outcome.verdict is Verdict.ASKED_BEFORE
        return is_repeated and latest is not None and prompt.at_ms - latest.at_ms < SAME_MOMENT_MS


def text_of(payload: Mapping[str, object], name: str) -> str:
    """Return a string in a hook's payload; "" if it is missing or not a string."""
    value = payload.get(name)
    return value if isinstance(value, str) else ""
