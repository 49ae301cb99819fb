"""Answer a failing tool call with how the same failure was fixed before, and list the programs that have failed."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from engram.enums import Channel, Verdict
from engram.models.engine.transaction import Store
from engram.models.sessions import sessions
from engram.models.sessions.failures_and_commits import failed_programs
from engram.models.sessions.prompt_outcomes import Outcome
from engram.models.shown.injections import agent_key
from engram.recollection.choose_bites import Bite, InjectionRequest
from engram.recollection.hook_files import PendingBites, RecollectionFiles
from engram.recollection.ledger import Ledger
from engram.recollection.past_fixes import Failure, read_failure, recall_failure
from engram.recollection.prompt_answer import text_of
from engram.recollection.prompts import AskedPrompt, SessionScope, digest_of, remember
from engram.recollection.render_bites import failure_text, hook_output
from engram.recollection.session_start import SessionStarts
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.git_files import read_branch
from engram.transcripts.turns import Action

logger = logging.getLogger(__name__)

EVENT = "PostToolUseFailure"
#: Budget of a line about a failure, in tokens.
MAX_FAILURE_TOKENS = 90
#: Maximum number of sessions and subagents for which failures are remembered.
MAX_CONTEXTS = 500
#: Maximum number of programs in the list of those that the hook asks about.
MAX_PROGRAMS = 500


class SeenFailures:
    """Remembers the failures of each session and subagent, so that each failure is answered once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: OrderedDict[str, set[int]] = OrderedDict()

    def is_new(self, context: str, failure: Failure) -> bool:
        """Record a failure of a session or subagent; return False if half of its error was seen there before."""
        with self._lock:
            seen = self._keys.get(context, set())
            remember(self._keys, context, seen | set(failure.keys), MAX_CONTEXTS)
            return 2 * len(seen & set(failure.keys)) < len(failure.keys)

    def take_back(self, context: str, failure: Failure) -> None:
        """Record that a failure was not answered, so that it is new again."""
        with self._lock:
            self._keys.get(context, set()).difference_update(failure.keys)

    def forget(self, session_id: str) -> None:
        """Forget the failures of a session whose context was emptied."""
        with self._lock:
            self._keys.pop(session_id, None)


@dataclass(frozen=True, slots=True)
class FailedTool:
    """A failing tool call, and the session or subagent that made it."""

    session_id: str
    cwd: str
    failure: Failure
    #: Id of the subagent that made the call; "" for the session itself.
    agent_id: str = ""

    @property
    def context(self) -> str:
        """A key that identifies the session or subagent that sees the error."""
        return f"{self.session_id} {self.agent_id}" if self.agent_id else self.session_id

    @property
    def key(self) -> str:
        digest = digest_of(" ".join(map(str, self.failure.keys)))
        return agent_key(self.agent_id, digest) if self.agent_id else f"error:{digest}"


@dataclass(frozen=True, slots=True)
class FailureAnswers:
    """Decides how to answer a failing command. Thread-safe."""

    store: Store
    settings: Settings
    ledger: Ledger
    pending: PendingBites
    scope: SessionScope
    files: RecollectionFiles
    starts: SessionStarts
    seen: SeenFailures = field(default_factory=SeenFailures)
    #: Session → folder, for sessions whose list of programs must be written.
    _due: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, payload: Mapping[str, object]) -> bytes:
        """Return the output of the PostToolUseFailure hook; usually empty."""
        failed = self._read(payload)
        if failed is None or not self.seen.is_new(failed.context, failed.failure):
            return b""
        bite, outcome = self._choose(failed, Verdict.SHOWN)
        self.ledger.record(outcome, failed.cwd)
        if bite is None:
            return b""
        self.ledger.note_shown(failed.session_id, failed.key, [bite], Channel.ERROR)
        return hook_output(EVENT, failure_text(bite, MAX_FAILURE_TOKENS))

    def offer(self, session_id: str, prompt: AskedPrompt, action: Action) -> bool:
        """Queue a line about a command that failed in the transcript, for the next tool call; return True if it is
        queued.

        Do nothing if the hook has already asked about the failure, or if something else is queued.
        """
        failure = read_failure(action.command, action.error_line, self._redact_line(session_id), (), action.error_keys)
        if failure is None or not action.is_error or self.pending.is_pending(session_id):
            return False
        failed = FailedTool(session_id=session_id, cwd=prompt.cwd, failure=failure)
        if not self.seen.is_new(failed.context, failure):
            return False
        bite, outcome = self._choose(failed, Verdict.PENDING)
        if bite is None:
            self.ledger.record(outcome, failed.cwd)
            return False
        return self._queue(failed, prompt, bite, outcome)

    def _queue(self, failed: FailedTool, prompt: AskedPrompt, bite: Bite, outcome: Outcome) -> bool:
        """Queue a line about a failure for the session's next tool call; return True if it is queued."""

        def render(bites: Sequence[Bite]) -> bytes:
            return hook_output("PreToolUse", failure_text(bites[0], MAX_FAILURE_TOKENS)) if bites else b""

        return self.pending.put(
            failed.session_id, prompt, [bite], render, outcome, channel=Channel.ERROR, key=failed.key
        )

    def came_too_late(self, payload: Mapping[str, object], prompt: AskedPrompt | None) -> None:
        """Record that the hook exited before its answer arrived, so that nothing was shown.

        The line is queued for the session's next tool call, unless something else is. A subagent has no queue.

        Args:
            prompt: the latest prompt of the session; None if it is unknown.
        """
        failed = self._read(payload)
        if failed is None:
            return
        self.ledger.take_back_line(failed.session_id, failed.key)
        is_queued = False
        if prompt is not None and not failed.agent_id and not self.pending.is_pending(failed.session_id):
            bite, outcome = self._choose(failed, Verdict.PENDING)
            is_queued = bite is not None and self._queue(failed, prompt, bite, outcome)
        if not is_queued:
            self.seen.take_back(failed.context, failed.failure)

    def note_session(self, session_id: str, cwd: str) -> None:
        """Make the next ``write_down`` write the session's list of programs."""
        with self._lock:
            self._due[session_id] = cwd

    def write_down(self) -> None:
        """Write which programs have failed before, for each session noted since the last call."""
        with self._lock:
            due = dict(self._due)
            self._due.clear()
        for session_id, cwd in due.items():
            may_show = self.settings.inject and self.scope.may_show(session_id, cwd)
            project_id = self.scope.project_id(session_id, cwd) if may_show else None
            programs = [] if project_id is None else failed_programs(self.store, project_id, session_id)
            try:
                self.files.put_failed_programs(session_id, programs[:MAX_PROGRAMS])
            except OSError as error:
                logger.warning("action=write_programs session=%s error=%s", session_id, error)

    def _read(self, payload: Mapping[str, object]) -> FailedTool | None:
        """Return the failing command in a payload; None for any other tool, or if a person interrupted it."""
        given = payload.get("tool_input")
        command = given.get("command") if isinstance(given, dict) else None
        session_id, error, folder = payload.get("session_id"), payload.get("error"), text_of(payload, "cwd")
        if not (isinstance(session_id, str) and isinstance(command, str) and isinstance(error, str)):
            return None
        if payload.get("is_interrupt") is True:
            return None
        session = sessions.find_session(self.store, session_id)
        branches = {session.branch if session is not None else "", read_branch(folder)}
        failure = read_failure(command, error, self._redact_line(session_id), branches)
        if failure is None:
            return None
        return FailedTool(session_id, folder, failure, agent_id=text_of(payload, "agent_id"))

    def _redact_line(self, session_id: str) -> Callable[[str], str]:
        known = sessions.known_values(self.store, session_id)
        return lambda line: redact(line, known)

    def _choose(self, failed: FailedTool, verdict: Verdict) -> tuple[Bite | None, Outcome]:
        """Return the line about a failure (or None) and the outcome, which gets ``verdict`` if there is a line."""
        began_seconds = self.store.clock.steady_seconds()
        session_id = failed.session_id
        request = InjectionRequest(
            text=failed.failure.command,
            session_id=session_id,
            project_id=self.scope.project_id(session_id, failed.cwd),
            shown=self._shown_to(failed),
            bites=1,
            now_ms=self.ledger.now_ms(),
            in_context=partial(self.ledger.in_context, session_id),
        )
        refusal = self.scope.refusal(session_id, failed.cwd)
        if refusal is None and self.starts.is_unread_replay(session_id):
            refusal = Verdict.UNREAD_FORK
        bite = None if refusal else recall_failure(self.store, failed.failure, request)
        took_seconds = self.store.clock.steady_seconds() - began_seconds
        return bite, Outcome(
            session_id=session_id,
            channel=Channel.ERROR,
            verdict=refusal or (Verdict.NOTHING_NEAR if bite is None else verdict),
            at_ms=request.now_ms,
            prompt_key=failed.key,
            project_id=request.project_id,
            candidates=0 if bite is None else 1,
            score=None if bite is None else bite.relevance,
            is_text_only=True,
            duration_ms=int(took_seconds * 1000),
        )

    def _shown_to(self, failed: FailedTool) -> set[str]:
        """Return the ids of the memories and quotations that the session or subagent has been shown."""
        if failed.agent_id:
            return self.ledger.ids_shown_to_agent(failed.session_id, failed.agent_id)
        return self.ledger.shown_ids(failed.session_id)
