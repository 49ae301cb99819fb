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
#: A task that waited longer has no subagent, in seconds: the call was refused.
MAX_AGE_SECONDS = 600.0
#: Names of the tools that start a subagent; the second is the older.
AGENT_TOOLS = frozenset(["Agent", "Task"])


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What a subagent was asked to do."""

    #: Type of the subagent; "" if the call named none.
    agent_type: str
    #: The task in the words of the agent that gives it, not redacted.
    prompt: str
    noted_at: float


class AgentTasks:
    """The tasks of calls whose subagents have not started yet. Any thread may call any method.

    The start of a subagent names neither its call nor its task. A subagent gets the oldest task of its type.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._changed = threading.Condition()
        self._tasks: OrderedDict[str, deque[AgentTask]] = OrderedDict()

    def note(self, session_id: str, agent_type: str, prompt: str) -> None:
        """Keep the task of a call until its subagent starts."""
        with self._changed:
            tasks = self._tasks.setdefault(session_id, deque(maxlen=MAX_TASKS))
            tasks.append(AgentTask(agent_type, prompt, time.monotonic()))
            self._tasks.move_to_end(session_id)
            while len(self._tasks) > MAX_SESSIONS:
                self._tasks.popitem(last=False)
            self._changed.notify_all()

    def take(self, session_id: str, agent_type: str, wait_seconds: float = MAX_WAIT_SECONDS) -> str:
        """Take out the task of a subagent that starts; "" if none is known in time."""
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            while (task := self._find(session_id, agent_type)) is None:
                if not self._changed.wait(deadline - time.monotonic()):
                    return ""
            self._tasks[session_id].remove(task)
            return task.prompt

    def _find(self, session_id: str, agent_type: str) -> AgentTask | None:
        """Return the oldest task of this type, or of none."""
        oldest = time.monotonic() - MAX_AGE_SECONDS
        tasks = [task for task in self._tasks.get(session_id, ()) if task.noted_at >= oldest]
        return next((task for task in tasks if task.agent_type in (agent_type, "")), None)
