"""Recollection joined to storage: a prompt in, bites or nothing out; late bites wait for the next tool call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from engram.embedding.embedder import Embedder
from engram.enums import Channel, Verdict
from engram.models import sessions
from engram.models.outcomes import Outcome
from engram.models.recent import latest_turn
from engram.models.store import Store
from engram.paths import is_session_id
from engram.recollection.choose import Bite, Thresholds
from engram.recollection.ledger import Ledger
from engram.recollection.pending import PendingBites
from engram.recollection.prompt_filter import search_text
from engram.recollection.prompts import AskedPrompt, Claim, LatestPrompts, digest_of, key_of
from engram.recollection.render import MAX_OUTPUT_CHARACTERS, bites_text, hook_output
from engram.recollection.scope import SessionScope
from engram.recollection.searching import Searcher
from engram.recollection.selection import BiteSelector
from engram.recollection.session_start import SessionStarts
from engram.recollection.tool_context import ToolCall
from engram.recollection.topics import Topics
from engram.redaction import redact as redact_text
from engram.settings import Settings
from engram.transcripts.record import Action

#: Sources of a prompt that no person sent.
_MACHINE_SOURCES = ("system", "loop_wakeup", "schedule_wakeup", "poll_event")
_PROMPT, _START, _TOOL = "UserPromptSubmit", "SessionStart", "PreToolUse"


class RecollectionService:
    """Decides what a session is reminded of. Any thread may call any method."""

    def __init__(
        self,
        store: Store,
        searcher: Searcher,
        settings: Settings,
        *,
        redact: Callable[[str, Collection[bytes]], str] = redact_text,
        embedder: Embedder | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        """Prepare.

        Args:
            store: the open memory.
            searcher: ranks memories and passages.
            settings: budgets, folders and time limits.
            redact: removes secrets, those whose digests are given included.
            embedder: tells whether two prompts are about the same topic; without it, words decide.
            thresholds: how relevant a memory must be; the fitted ones by default.
        """
        self._store = store
        self._settings = settings
        self._redact = redact
        self._prompts = LatestPrompts()
        self._topics = Topics(embedder, settings.topic_threshold)
        self._ledger = Ledger(store, keeps_outcomes=settings.outcome_days > 0)
        self._pending = PendingBites(settings.places.recollections, self._ledger, self._prompts, self._topics)
        scope = SessionScope(store, settings)
        self._selector = BiteSelector(searcher, settings, self._ledger, scope, thresholds or Thresholds())
        self._starts = SessionStarts(store, settings, self._ledger, self._pending, self._topics, scope)

    def answer_hook(self, payload: Mapping[str, object]) -> bytes:
        """Return what a hook prints for its payload: one JSON object on one line, or nothing.

        Its content counts as shown from now on. Call ``write_down`` after it was sent, or ``came_too_late`` if it could
        not be sent.
        """
        session_id, cwd = _text(payload, "session_id"), _text(payload, "cwd")
        if not self._settings.inject or not is_session_id(session_id) or payload.get("agent_id"):
            return b""
        event = payload.get("hook_event_name")
        if event == _START:
            return self._starts.answer(session_id, cwd, _text(payload, "source"))
        if event == _PROMPT and _text(payload, "source") not in _MACHINE_SOURCES:
            return self._answer_prompt(session_id, cwd, payload)
        return b""

    def write_down(self) -> None:
        """Store what was shown. Call it after the answer was sent, since it may wait for another writer."""
        self._ledger.write_down()

    def came_too_late(self, payload: Mapping[str, object]) -> None:
        """Note that a hook ended before its answer came: bites wait for the next tool call, a briefing is owed."""
        session_id = _text(payload, "session_id")
        if not is_session_id(session_id):
            return
        if payload.get("hook_event_name") == _START:
            self._ledger.take_back_briefing(session_id)
            self.never_asked(payload)
            return
        text = self._searchable(session_id, payload.get("prompt"))
        key, latest = key_of(payload, text), self._prompts.find(session_id)
        self._starts.give_back(session_id, key)
        self._pending.take_back_answer(session_id, key)
        if latest is not None and latest.key == key:
            self._offer(session_id, latest)

    def never_asked(self, payload: Mapping[str, object]) -> None:
        """Note that a hook ended before its payload was read: the next prompt brings the missed briefing.

        A missed prompt needs nothing: it is read in the transcript, and its bites wait for the next tool call.
        """
        session_id = _text(payload, "session_id")
        is_start = payload.get("hook_event_name") == _START and not payload.get("agent_id")
        if is_start and is_session_id(session_id):
            self._starts.note_missed(session_id, _text(payload, "source"))

    def recollect(self, session_id: str) -> bool:
        """Choose bites for the session's latest prompt, or for its latest tool call if the prompt was handled before.

        Returns True if bites now wait for the next tool call.
        """
        turn = latest_turn(self._store, session_id) if is_session_id(session_id) else None
        if turn is None or not self._settings.inject:
            return False
        text, at_ms = self._searchable(session_id, turn.turn.prompt), turn.turn.started_at_ms or 0
        digest = digest_of(text)
        prompt = AskedPrompt(key=digest, digest=digest, text=text, at_ms=at_ms, cwd=turn.turn.cwd)
        if text and not self._is_stale(prompt) and self._prompts.claim_written(session_id, prompt):
            return not self._topics.is_same(session_id, text) and self._offer(session_id, prompt)
        return self._offer_for_latest_call(session_id, turn.turn.key, turn.turn.actions)

    def refresh(self, session_id: str) -> bool:
        """Choose again for the latest prompt, since there are new memories; returns True if bites wait."""
        prompt = self._prompts.find(session_id) if is_session_id(session_id) else None
        if prompt is None or not self._settings.inject or self._is_stale(prompt):
            return False
        return self._offer(session_id, prompt)

    def about_tool(self, session_id: str, files: Sequence[str] = (), command: str = "", error: str = "") -> bool:
        """Choose a bite about a file or command for the next tool call; returns True if it waits.

        It counts against the bites of the latest prompt. What waits already stays.
        """
        prompt = self._prompts.find(session_id) if is_session_id(session_id) else None
        if prompt is None or not self._settings.inject or self._is_stale(prompt):
            return False
        call = ToolCall(files=tuple(files), command=self._redact(command, ()), error=self._redact(error, ()))
        self._pending.settle(session_id)
        if not call.text or self._pending.is_pending(session_id):
            return False
        return self._offer(session_id, prompt, call)

    def tidy(self) -> int:
        """Store what was shown, settle and withdraw pending files, remove leftovers; returns the number of files."""
        self._ledger.write_down()
        now_ms = self._store.now_ms()
        return self._pending.tidy(
            stale_before_ms=now_ms - self._settings.stale_seconds * 1000,
            remove_before_ms=now_ms - self._settings.live_seconds * 1000,
        )

    def _answer_prompt(self, session_id: str, cwd: str, payload: Mapping[str, object]) -> bytes:
        text = self._searchable(session_id, payload.get("prompt"))
        prompt = AskedPrompt(
            key=key_of(payload, text), digest=digest_of(text), text=text, at_ms=self._store.now_ms(), cwd=cwd
        )
        briefing = self._starts.missed_briefing(session_id, prompt)
        bites = self._bites_of(session_id, prompt) if text and not self._starts.is_unread_replay(session_id) else []
        shown = bites_text(bites, self._settings.bite_tokens)
        if briefing and len(briefing) + 1 + len(shown) > MAX_OUTPUT_CHARACTERS:
            bites, shown = [], ""
        if bites:
            self._ledger.note_shown(session_id, prompt.key, bites)
            self._topics.note(session_id, text)
        return hook_output(_PROMPT, "\n".join(part for part in (briefing, shown) if part))

    def _bites_of(self, session_id: str, prompt: AskedPrompt) -> list[Bite]:
        """Choose bites for a prompt that a hook asks about; none if another hook has asked about it."""
        claim = self._prompts.claim(session_id, prompt)
        if claim is Claim.ASKED_BEFORE or (claim is Claim.NEW and self._topics.is_same(session_id, prompt.text)):
            return []
        self._pending.withdraw(session_id)
        return self._selector.select(session_id, prompt)

    def _offer_for_latest_call(self, session_id: str, turn_key: str, actions: Sequence[Action]) -> bool:
        """Choose a bite for the latest tool call of a turn, once per call."""
        if not actions or not self._prompts.is_new_call(session_id, f"{turn_key} {len(actions)}"):
            return False
        last = actions[-1]
        return self.about_tool(session_id, last.files, last.command, last.error_line)

    def _searchable(self, session_id: str, prompt: object) -> str:
        known = sessions.known_values(self._store, session_id)
        return search_text(self._redact(prompt, known)) if isinstance(prompt, str) else ""

    def _offer(self, session_id: str, prompt: AskedPrompt, call: ToolCall | None = None) -> bool:
        """Choose bites and let them wait for the next tool call, in place of what waits there."""
        bites = self._selector.select(session_id, prompt, call)
        data = hook_output(_TOOL, bites_text(bites, self._settings.bite_tokens))
        outcome = Outcome(
            session_id=session_id,
            channel=Channel.TOOL,
            verdict=Verdict.PENDING,
            at_ms=self._store.now_ms(),
            prompt_key=prompt.key,
        )
        if not self._pending.put(session_id, prompt, bites, data, outcome):
            return False
        if call is None:
            self._topics.note(session_id, prompt.text)
        return True

    def _is_stale(self, prompt: AskedPrompt) -> bool:
        return abs(self._store.now_ms() - prompt.at_ms) > self._settings.stale_seconds * 1000


def _text(payload: Mapping[str, object], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""
