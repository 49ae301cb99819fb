"""The tasks of subagents: what a tool call hands over, until the subagent that gets it starts."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass

#: Maximum number of bites that a subagent gets at its start.
MAX_AGENT_BITES = 3
#: Budget of those bites, in tokens.
MAX_AGENT_TOKENS = 120
#: Tasks of one session that wait for their subagents; beyond, the oldest is dropped.
MAX_TASKS = 32
#: Sessions whose tasks are remembered.
MAX_SESSIONS = 200
#: How long the start of a subagent waits for its task, which another hook brings, in seconds.
MAX_WAIT_SECONDS = 0.1
#: Subagents whose start is remembered.
MAX_STARTED = 1_000
#: Names of the tools that start a subagent; the second is the older.
AGENT_TOOLS = frozenset(["Agent", "Task"])


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What a subagent was asked to do."""

    #: Id of the tool call; "" if it is not known.
    call_id: str
    #: Type of the subagent; "" if the call named none.
    agent_type: str
    #: Id of the prompt during which the call was made; "" if it is not known.
    prompt_id: str
    #: The task in the words of the agent that gives it, not redacted.
    text: str


class AgentTasks:
    """The tasks of calls whose subagents have not started yet. Any thread may call any method.

    The start of a subagent names neither its call nor its task. A subagent gets the oldest task of its type and prompt.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._changed = threading.Condition()
        self._tasks: OrderedDict[str, deque[AgentTask]] = OrderedDict()
        #: Subagents that have started, with those of the hooks that are registered twice.
        self._started: OrderedDict[str, None] = OrderedDict()

    def note(self, session_id: str, task: AgentTask) -> None:
        """Keep the task of a call until its subagent starts; a hook that is registered twice brings it twice."""
        with self._changed:
            tasks = self._tasks.setdefault(session_id, deque(maxlen=MAX_TASKS))
            if not any(task.call_id and known.call_id == task.call_id for known in tasks):
                tasks.append(task)
            self._tasks.move_to_end(session_id)
            while len(self._tasks) > MAX_SESSIONS:
                self._tasks.popitem(last=False)
            self._changed.notify_all()

    def take(
        self,
        session_id: str,
        agent_id: str,
        agent_type: str,
        prompt_id: str = "",
        wait_seconds: float = MAX_WAIT_SECONDS,
    ) -> str:
        """Take out the task of a subagent that starts; "" if none is known in time, or if it has started before."""
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            if not self._begin(f"{session_id} {agent_id}"):
                return ""
            while (task := self._find(session_id, agent_type, prompt_id)) is None:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    return ""
            self._tasks[session_id].remove(task)
            return task.text

    def _begin(self, agent: str) -> bool:
        """Record that a subagent has started; returns False if it is known."""
        if agent in self._started:
            return False
        self._started[agent] = None
        while len(self._started) > MAX_STARTED:
            self._started.popitem(last=False)
        return True

    def _find(self, session_id: str, agent_type: str, prompt_id: str) -> AgentTask | None:
        """Return the oldest task of this type and prompt; a type or prompt that is not known fits any."""
        for task in self._tasks.get(session_id, ()):
            is_of_prompt = not prompt_id or task.prompt_id in (prompt_id, "")
            if is_of_prompt and task.agent_type in (agent_type, ""):
                return task
        return None
