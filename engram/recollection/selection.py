"""Selects the bites that a session gets for a prompt or a tool call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from engram.enums import Channel, Verdict
from engram.notes.standing import standing_text
from engram.recollection.choose import Bite, InjectionRequest, RatedHit, Thresholds, bites_of
from engram.recollection.ledger import Ledger
from engram.recollection.prompts import AskedPrompt, belongs_to
from engram.recollection.quotations import may_quote, rate_quotations
from engram.recollection.recall import Searcher, rate_for_call, rate_for_prompt
from engram.recollection.render import shown_words
from engram.recollection.scope import SessionScope
from engram.recollection.tool_context import ToolCall
from engram.recollection.verdicts import find_decisive
from engram.settings import Settings
from engram.transcripts.git_files import read_branch

#: Channels of what counts against the bites of a prompt.
_OF_PROMPTS = (Channel.PROMPT, Channel.TOOL)


@dataclass(frozen=True, slots=True)
class Selection:
    """What was chosen for a prompt or tool call, and why nothing was."""

    verdict: Verdict
    project_id: int | None = None
    #: Every memory that was considered, the best first; those with the verdict SHOWN become bites.
    rated: tuple[RatedHit, ...] = ()

    @classmethod
    def of(cls, rated: Sequence[RatedHit], project_id: int | None) -> Selection:
        """Return the selection of rated memories."""
        decisive = find_decisive(rated)
        return cls(Verdict.NOTHING_NEAR if decisive is None else decisive.verdict, project_id, tuple(rated))

    @property
    def bites(self) -> list[Bite]:
        """The bites, the most relevant first."""
        return bites_of(self.rated)


@dataclass(frozen=True, slots=True)
class BiteSelector:
    """Joins what a session was shown to the choice of bites. Any thread may call it."""

    searcher: Searcher
    settings: Settings
    ledger: Ledger
    scope: SessionScope
    thresholds: Thresholds

    def select(self, session_id: str, prompt: AskedPrompt, call: ToolCall | None = None) -> Selection:
        """Choose bites for a prompt or one of its tool calls, as many as the prompt has left. Stores nothing.

        What waits for the session counts as not shown.
        """
        injections = self.ledger.of_session(session_id)
        shown = [injection for injection in injections if injection.state == "shown"]
        shown_ids = {injection.episode_id for injection in shown}
        given_ids = {
            injection.episode_id
            for injection in shown
            if injection.channel in _OF_PROMPTS and belongs_to(prompt, injection.prompt_key, injection.at_ms)
        }
        remaining = self.settings.bites - len(given_ids)
        if remaining <= 0:
            return Selection(Verdict.USED_UP)
        refusal = self.scope.refusal(session_id, prompt.cwd, prompt.project_id)
        if refusal is not None:
            return Selection(refusal)
        pending_ids = {injection.episode_id for injection in injections if injection.state == "pending"} - shown_ids
        told_ids = self.ledger.told(session_id) - pending_ids
        project_id = self.project_id(session_id, prompt)
        request = InjectionRequest(
            text=call.text if call else prompt.text,
            session_id=session_id,
            project_id=project_id,
            shown=told_ids | given_ids,
            bites=remaining,
            now_ms=self.ledger.now_ms(),
            branch=read_branch(prompt.cwd),
            in_context=partial(self.ledger.in_context, session_id),
            file_saying=standing_text(self.scope.store, project_id).file_saying,
        )
        if call:
            rated = rate_for_call(self.searcher, request, call)
        else:
            rated = rate_for_prompt(self.searcher, request, self.thresholds)
            if self.settings.quotations and may_quote(rated):
                rated = [*rated, *rate_quotations(self.scope.store, self.searcher, request)]
        return Selection.of(within_budget(rated, self.settings.bite_tokens), request.project_id)

    def project_id(self, session_id: str, prompt: AskedPrompt) -> int | None:
        """Return the row id of the project that a prompt is asked in; None for none."""
        if prompt.project_id is not None:
            return prompt.project_id
        return self.scope.project_id(session_id, prompt.cwd)


def within_budget(rated: Sequence[RatedHit], tokens: int) -> list[RatedHit]:
    """Return the memories with only those shown whose bites fit the budget."""
    fitting = {bite.episode_id for bite, _ in shown_words(bites_of(rated), tokens)}
    return [
        replace(rated_hit, verdict=Verdict.NO_ROOM)
        if rated_hit.verdict is Verdict.SHOWN and rated_hit.hit.id not in fitting
        else rated_hit
        for rated_hit in rated
    ]
