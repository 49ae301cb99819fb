"""Answer the start of a subagent with memories for its task, which is taken from the tool call that started it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from engram.enums import Channel
from engram.models.engine.transaction import Store
from engram.models.sessions import sessions
from engram.models.sessions.prompt_outcomes import Outcome
from engram.models.shown.injections import agent_key
from engram.recollection.choose_bites import InjectionRequest
from engram.recollection.ledger import Ledger
from engram.recollection.prompt_answer import BiteSelector, Selection, text_of, within_budget
from engram.recollection.prompts import digest_of, filter_prompt, remember
from engram.recollection.quotation_bites import rate_for_prompt
from engram.recollection.render_bites import bites_text, hook_output
from engram.redaction import redact
from engram.transcripts.git_files import read_branch

#: Maximum number of bites that a subagent gets at its start.
MAX_AGENT_BITES = 3
#: Budget of those bites, in tokens.
MAX_AGENT_TOKENS = 120
#: Maximum number of tasks in a session that wait for their subagents; beyond that, the oldest is dropped.
MAX_TASKS = 32
#: Maximum number of sessions for which tasks are remembered.
MAX_SESSIONS = 200
#: Maximum time that the start of a subagent waits for its task, which another hook sends, in seconds.
MAX_WAIT_SECONDS = 0.1
#: Maximum number of subagents for which the start is remembered.
MAX_STARTED = 1_000
#: Current and previous names of the tool that starts a subagent.
AGENT_TOOLS = frozenset(["Agent", "Task"])


@dataclass(frozen=True, slots=True)
class AgentTask:
    #: Id of the tool call; "" if unknown.
    call_id: str
    #: Type of the subagent; "" if the call specified none.
    agent_type: str
    #: Id of the prompt during which the call was made; "" if unknown.
    prompt_id: str
    #: The task as worded by the parent agent, not redacted.
    text: str


class AgentTasks:
    """The tasks of calls whose subagents have not started yet. Thread-safe.

    The start of a subagent identifies neither its call nor its task, so the subagent is assigned the oldest task with
    its type and prompt.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: OrderedDict[str, deque[AgentTask]] = OrderedDict()
        #: Subagents that have started; a hook that is registered twice reports each twice.
        self._started: OrderedDict[str, None] = OrderedDict()

    def note(self, session_id: str, task: AgentTask) -> None:
        """Keep a call's task until its subagent starts. Repeated reports of the same call are ignored."""
        with self._changed:
            tasks = self._tasks.get(session_id) or deque(maxlen=MAX_TASKS)
            if not any(task.call_id and known.call_id == task.call_id for known in tasks):
                tasks.append(task)
            remember(self._tasks, session_id, tasks, MAX_SESSIONS)
            self._changed.notify_all()

    def take(
        self,
        session_id: str,
        agent_id: str,
        agent_type: str,
        prompt_id: str = "",
        wait_seconds: float = MAX_WAIT_SECONDS,
    ) -> str:
        """Remove and return the task of a starting subagent; "" if none arrives in time or it has started before."""
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            if (agent := f"{session_id} {agent_id}") in self._started:
                return ""
            remember(self._started, agent, None, MAX_STARTED)
            while (task := self._find(session_id, agent_type, prompt_id)) is None:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    return ""
            self._tasks[session_id].remove(task)
            return task.text

    def _find(self, session_id: str, agent_type: str, prompt_id: str) -> AgentTask | None:
        """Return the oldest task with this type and prompt; an unknown type or prompt matches any."""
        for task in self._tasks.get(session_id, ()):
            is_of_prompt = not prompt_id or task.prompt_id in (prompt_id, "")
            if is_of_prompt and task.agent_type in (agent_type, ""):
                return task
        return None


# -- Answer the start of a subagent.

EVENT = "SubagentStart"


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """Decides, once per subagent, what it is shown at its start. Thread-safe.

    A subagent has its own budget and its own ledger entries; its bites don't count as shown to its parent.
    """

    store: Store
    ledger: Ledger
    selector: BiteSelector
    tasks: AgentTasks = field(default_factory=AgentTasks)

    def note_call(self, payload: Mapping[str, object]) -> None:
        given = payload.get("tool_input")
        session_id = payload.get("session_id")
        if payload.get("tool_name") not in AGENT_TOOLS or not isinstance(given, dict):
            return
        if isinstance(session_id, str) and isinstance(given.get("prompt"), str):
            task = AgentTask(
                call_id=text_of(payload, "tool_use_id"),
                agent_type=text_of(given, "subagent_type"),
                prompt_id=text_of(payload, "prompt_id"),
                text=text_of(given, "prompt"),
            )
            self.tasks.note(session_id, task)

    def answer(self, payload: Mapping[str, object]) -> bytes:
        """Return the output of the SubagentStart hook; b"" if the task is unknown or no memory is relevant to it."""
        session_id, agent_id, agent_type = (text_of(payload, name) for name in ("session_id", "agent_id", "agent_type"))
        # Claude Code's internal subagents, such as the one that summarises the conversation when it is compacted, have
        # no type.
        if not (agent_id and agent_type):
            return b""
        task = self.tasks.take(session_id, agent_id, agent_type, text_of(payload, "prompt_id"))
        if not task or self.ledger.ids_shown_to_agent(session_id, agent_id):
            return b""
        known = sessions.known_values(self.store, session_id)
        filtered = filter_prompt(redact(task, known))
        if filtered.verdict is not None:
            selection = Selection(filtered.verdict)
        else:
            selection = self._select(session_id, text_of(payload, "cwd"), filtered.text)
        key = agent_key(agent_id)
        if selection.bites:
            self.ledger.note_shown(session_id, key, selection.bites, Channel.AGENT)
        self.ledger.record(self._outcome(session_id, key, filtered.text, selection), text_of(payload, "cwd"))
        return hook_output(EVENT, bites_text(selection.bites, MAX_AGENT_TOKENS))

    def came_too_late(self, payload: Mapping[str, object]) -> None:
        """Record that the hook exited before its answer arrived, so that nothing was shown."""
        session_id, agent_id = text_of(payload, "session_id"), text_of(payload, "agent_id")
        if agent_id:
            self.ledger.take_back_line(session_id, agent_key(agent_id))

    def _select(self, session_id: str, cwd: str, text: str) -> Selection:
        """Choose bites for a task as for a prompt. The subagent's context is empty, so nothing counts as shown."""
        refusal = self.selector.scope.refusal(session_id, cwd)
        if refusal is not None:
            return Selection(refusal)
        request = InjectionRequest(
            text=text,
            session_id=session_id,
            project_id=self.selector.scope.project_id(session_id, cwd),
            bites=MAX_AGENT_BITES,
            now_ms=self.ledger.now_ms(),
            branch=read_branch(cwd),
        )
        rated = rate_for_prompt(self.selector.searcher, request)
        return Selection.of(within_budget(rated, MAX_AGENT_TOKENS), request.project_id)

    def _outcome(self, session_id: str, key: str, text: str, selection: Selection) -> Outcome:
        return Outcome(
            session_id=session_id,
            channel=Channel.AGENT,
            at_ms=self.ledger.now_ms(),
            prompt_key=key,
            digest=digest_of(text) if text else "",
            project_id=selection.project_id,
            **selection.figures(),
        )
