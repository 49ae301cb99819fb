"""Recollection joined to storage: a prompt in, bites or silence out; what comes too late waits for a tool call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from engram.embedding.embedder import Embedder
from engram.ingest.folder import scope_of_folder
from engram.models import contexts, sessions
from engram.models.injections import AT_START
from engram.models.recent import latest_turn
from engram.models.store import Store
from engram.paths import is_session_id
from engram.recollection.briefing import build_briefing
from engram.recollection.choose import Asking, Bite, Floors
from engram.recollection.files import RecollectionFiles
from engram.recollection.ledger import Ledger
from engram.recollection.prompt_filter import search_text
from engram.recollection.prompts import AskedPrompt, Claim, LatestPrompts, belongs_to, digest_of, key_of
from engram.recollection.recall import bites_at_hand, bites_for
from engram.recollection.render import OUTPUT_CHARS, bites_text, hook_output, shown_words
from engram.recollection.searching import Searcher
from engram.recollection.starts import Starts
from engram.recollection.tool_context import ToolCall
from engram.recollection.topics import Topics
from engram.redaction import redact as redact_text
from engram.settings import Settings
from engram.transcripts.project import is_excluded
from engram.transcripts.record import Action

logger = logging.getLogger(__name__)

#: Injected text is replayed there, so that nothing must be said again.
_REPLAYED = ("resume", "fork")
#: Claude's context is empty again there.
_EMPTIED = ("clear", "compact")
#: Prompts that no person sent.
_WOKEN = ("system", "loop_wakeup", "schedule_wakeup", "poll_event")
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
        floors: Floors | None = None,
    ) -> None:
        """``embedder`` tells whether two prompts are about one topic; without it words alone do."""
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._redact = redact
        self._floors = floors or Floors()
        self._prompts = LatestPrompts()
        self._topics = Topics(embedder, settings.topic_threshold)
        self._files = RecollectionFiles(settings.places.recollections)
        self._ledger = Ledger(store)
        self._starts = Starts()
        #: Held while a pending file and its rows in the ledger change together.
        self._handing_over = threading.RLock()

    # -- the socket

    def answer_hook(self, payload: Mapping[str, object]) -> bytes:
        """What a hook prints for its payload: one JSON object on one line, or nothing.

        What it holds counts as shown from now on. Call ``write_down`` once it is sent, ``came_too_late`` where it
        could not be sent.
        """
        session_id, cwd = _text(payload, "session_id"), _text(payload, "cwd")
        if not self._settings.inject or not is_session_id(session_id) or payload.get("agent_id"):
            return b""
        event = payload.get("hook_event_name")
        if event == _START:
            return self._brief(session_id, cwd, _text(payload, "source"))
        if event == _PROMPT and _text(payload, "source") not in _WOKEN:
            return self._answer_prompt(session_id, cwd, payload)
        return b""

    def write_down(self) -> None:
        """Write into memory.db what was shown; after an answer is sent, since this may wait for another writer."""
        self._ledger.write_down()

    def came_too_late(self, payload: Mapping[str, object]) -> None:
        """The hook was gone before the answer came: bites wait for the next tool call, a briefing is not counted."""
        session_id = _text(payload, "session_id")
        if not is_session_id(session_id):
            return
        if payload.get("hook_event_name") == _START:
            self._ledger.take_back_briefing(session_id)
            self.never_asked(payload)
            return
        text = self._searchable(session_id, payload.get("prompt"))
        key, latest = key_of(payload, text), self._prompts.find(session_id)
        if self._starts.give_back(session_id, key):
            self._ledger.take_back_briefing(session_id)
        with self._handing_over:
            self._ledger.take_back(session_id, key)
        if latest is not None and latest.key == key:
            self._offer(session_id, latest)

    def never_asked(self, payload: Mapping[str, object]) -> None:
        """A hook was gone before anybody looked at its payload: a briefing is made up at the next prompt.

        A prompt needs nothing: it is found in the transcript, and its bites wait for the next tool call.
        """
        session_id = _text(payload, "session_id")
        is_start = payload.get("hook_event_name") == _START and not payload.get("agent_id")
        if is_start and is_session_id(session_id) and _text(payload, "source") not in _REPLAYED:
            if _text(payload, "source") in _EMPTIED:
                # When it was emptied is read in the transcript: the payload says no time, and may be old.
                self._withdraw_all(session_id)
                self._ledger.note_briefing(session_id, "", is_new_context=True)
            self._starts.note_missed(session_id)

    def _answer_prompt(self, session_id: str, cwd: str, payload: Mapping[str, object]) -> bytes:
        text = self._searchable(session_id, payload.get("prompt"))
        prompt = AskedPrompt(key_of(payload, text), digest_of(text), text, self._store.now_ms(), cwd)
        briefing = self._make_up_briefing(session_id, prompt)
        bites = self._bites_of(session_id, prompt) if text and not self._is_unread_replay(session_id) else []
        shown = bites_text(bites, self._settings.bite_tokens)
        if briefing and len(briefing) + 1 + len(shown) > OUTPUT_CHARS:
            bites, shown = [], ""
        if bites:
            self._ledger.note_shown(session_id, prompt.key, bites)
            self._topics.note(session_id, text)
        return hook_output(_PROMPT, "\n".join(part for part in (briefing, shown) if part))

    def _bites_of(self, session_id: str, prompt: AskedPrompt) -> list[Bite]:
        """Bites for a prompt that a hook asks about; none where another hook has asked about it before."""
        claim = self._prompts.claim(session_id, prompt)
        if claim is Claim.ASKED_BEFORE or (claim is Claim.NEW and self._topics.is_same(session_id, prompt.text)):
            return []
        self._take_back(session_id)
        return self._choose(session_id, prompt)

    def _make_up_briefing(self, session_id: str, prompt: AskedPrompt) -> str:
        """The briefing that the session missed at its start; "" where it did not."""
        if not self._starts.take_missed(session_id, prompt.key):
            return ""
        text = self._briefing(session_id, prompt.cwd)
        if text:
            self._ledger.note_briefing(session_id, text, is_new_context=False)
        return text

    def _brief(self, session_id: str, cwd: str, source: str) -> bytes:
        if source in _REPLAYED:
            self._starts.note_replay(session_id)
            return b""
        if not self._starts.claim(session_id, source, self._store.now_ms()):
            return b""
        is_emptied = source in _EMPTIED
        if is_emptied:
            self._withdraw_all(session_id)
            self._ledger.note_context_start(session_id)
        elif self._ledger.was_briefed(session_id):
            return b""
        self._starts.note_briefed(session_id)
        text = self._briefing(session_id, cwd)
        if text or is_emptied:
            self._ledger.note_briefing(session_id, text, is_new_context=is_emptied)
        return hook_output(_START, text)

    def _withdraw_all(self, session_id: str) -> None:
        """The session's context is empty again."""
        self._take_back(session_id)
        self._topics.forget(session_id)

    def _briefing(self, session_id: str, cwd: str) -> str:
        if not self._may_show(session_id, cwd):
            return ""
        return build_briefing(
            self._store,
            self._settings,
            project_id=self._project_of(session_id, cwd),
            without=self._ledger.in_context(session_id),
        )

    def _is_unread_replay(self, session_id: str) -> bool:
        """True for a fork whose transcript was not read yet: which memories repeat what it holds is not known."""
        if not self._starts.is_replay(session_id):
            return False
        is_read = sessions.find_session(self._store, session_id) or contexts.copied_history(self._store, session_id)
        if is_read or not self._settings.capture:
            self._starts.end_replay(session_id)
            return False
        return True

    # -- the tasks

    def recollect(self, session_id: str) -> bool:
        """Look at the session's latest prompt, or, where it was looked at before, at its latest tool call.

        Returns True where bites now wait for the next tool call.
        """
        turn = latest_turn(self._store, session_id) if is_session_id(session_id) else None
        if turn is None or not self._settings.inject:
            return False
        text, at_ms = self._searchable(session_id, turn.turn.prompt), turn.turn.started_at_ms or 0
        digest = digest_of(text)
        prompt = AskedPrompt(digest, digest, text, at_ms, turn.turn.cwd)
        if text and not self._is_stale(prompt) and self._prompts.claim_written(session_id, prompt):
            return not self._topics.is_same(session_id, text) and self._offer(session_id, prompt)
        return self._look_at_hand(session_id, turn.turn.key, turn.turn.actions)

    def _look_at_hand(self, session_id: str, turn_key: str, actions: Sequence[Action]) -> bool:
        """Look at the latest tool call of a turn, once."""
        if not actions or not self._prompts.is_new_call(session_id, f"{turn_key} {len(actions)}"):
            return False
        last = actions[-1]
        return self.about_tool(session_id, last.files, last.command, last.error_line)

    def refresh(self, session_id: str) -> bool:
        """New memories are there: choose anew what waits, or what the latest prompt could have had."""
        prompt = self._prompts.find(session_id) if is_session_id(session_id) else None
        if prompt is None or not self._settings.inject or self._is_stale(prompt):
            return False
        return self._offer(session_id, prompt)

    def about_tool(self, session_id: str, files: Sequence[str] = (), command: str = "", error: str = "") -> bool:
        """Put what is remembered of a file or command at hand where the next tool call takes it; True where it waits.

        Counts against the bites of the prompt that the tool call belongs to; what waits already stays.
        """
        prompt = self._prompts.find(session_id) if is_session_id(session_id) else None
        if prompt is None or not self._settings.inject or self._is_stale(prompt):
            return False
        call = ToolCall(tuple(files), self._redact(command, ()), self._redact(error, ()))
        self._settle_session(session_id)
        if not call.text or self._files.is_pending(session_id):
            return False
        return self._offer(session_id, prompt, call)

    def tidy(self) -> int:
        """Read the receipts of hooks, withdraw what got stale, remove what is left over; returns how many files."""
        self._ledger.write_down()
        now_ms, settled = self._store.now_ms(), 0
        for receipt in self._files.receipts():
            settled += self._settle_session(receipt.session_id)
        for waiting in self._files.pending():
            if now_ms - waiting.written_at_ms > self._settings.stale_seconds * 1000:
                settled += self._take_back(waiting.session_id)
        return settled + self._files.remove_older(now_ms - self._settings.live_seconds * 1000)

    # -- the pieces

    def _searchable(self, session_id: str, prompt: object) -> str:
        known = sessions.known_values(self._store, session_id)
        return search_text(self._redact(prompt, known)) if isinstance(prompt, str) else ""

    def _choose(self, session_id: str, prompt: AskedPrompt, call: ToolCall | None = None) -> list[Bite]:
        """Bites for a prompt or a tool call of it, as many as the prompt may still have; what waits was not shown."""
        ledger = self._ledger.of_session(session_id)
        shown = [one for one in ledger if one.state == "shown"]
        given = [one for one in shown if one.channel != AT_START]
        had = {one.episode_id for one in given if belongs_to(prompt, one.prompt_key, one.at_ms)}
        remaining = self._settings.bites - len(had)
        if remaining <= 0 or not self._may_show(session_id, prompt.cwd):
            return []
        project_id, now_ms = self._project_of(session_id, prompt.cwd), self._store.now_ms()
        waiting = {one.episode_id for one in ledger if one.state == "pending"} - {one.episode_id for one in shown}
        told = self._ledger.told(session_id) - waiting
        text = call.text if call else prompt.text
        held = self._ledger.in_context(session_id)
        asking = Asking(text, session_id, project_id, told | had | held, remaining, now_ms)
        bites = bites_at_hand(self._searcher, asking, call) if call else bites_for(self._searcher, asking, self._floors)
        return [bite for bite, _ in shown_words(bites, self._settings.bite_tokens)]

    def _offer(self, session_id: str, prompt: AskedPrompt, call: ToolCall | None = None) -> bool:
        """Choose bites and put them where the next tool call takes them, in place of what waits there."""
        bites = self._choose(session_id, prompt, call)
        data = hook_output(_TOOL, bites_text(bites, self._settings.bite_tokens))
        with self._handing_over:
            latest = self._prompts.find(session_id)
            # A hook may have been faster, or the user may have gone on: then these bites are for nobody.
            if latest is None or latest.key != prompt.key or self._settle_session(session_id):
                return False
            self._take_back(session_id)
            if not data:
                return False
            self._ledger.note_pending(session_id, prompt.key, bites)
            self._files.put(session_id, data)
        if call is None:
            self._topics.note(session_id, latest.text)
        return True

    def _take_back(self, session_id: str) -> bool:
        """Withdraw what waits for a session; True where something did and no hook was faster."""
        with self._handing_over:
            self._settle_session(session_id)
            has_waited = self._files.withdraw(session_id)
            self._settle_session(session_id)
            self._ledger.drop_pending(session_id)
        if has_waited:
            self._topics.forget(session_id)
        return has_waited

    def _settle_session(self, session_id: str) -> bool:
        """Count what a hook has handed over as shown; True where it did."""
        with self._handing_over:
            if not self._files.take_receipt(session_id):
                return False
            self._ledger.mark_shown(session_id)
        return True

    def _is_stale(self, prompt: AskedPrompt) -> bool:
        return abs(self._store.now_ms() - prompt.at_ms) > self._settings.stale_seconds * 1000

    def _project_of(self, session_id: str, cwd: str) -> int | None:
        """Row id of the session's project; None for a root folder, or one that was never seen."""
        found = sessions.find_session(self._store, session_id)
        if found is not None and (found.project_id is not None or found.is_global):
            return found.project_id
        project = scope_of_folder(self._store, self._settings, cwd).project
        return None if project is None else project.id

    def _may_show(self, session_id: str, cwd: str) -> bool:
        """False for sessions that are excluded or paused."""
        found = sessions.find_session(self._store, session_id)
        folders = {cwd, found.cwd if found else ""} - {""}
        if any(is_excluded(folder, self._settings.exclude) for folder in folders):
            return False
        paused = sessions.paused_scopes(self._store)
        if not paused:
            return True
        project_id = self._project_of(session_id, cwd)
        project = None if project_id is None else sessions.project_by_id(self._store, project_id)
        return "" not in paused and (project is None or project.identity not in paused)


def _text(payload: Mapping[str, object], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""
