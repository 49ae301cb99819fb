"""Exit codes of the command line."""

from __future__ import annotations

#: Success.
OK = 0
#: An expected failure; one line on stderr explains it.
FAILED = 1
#: The command line is wrong.
USAGE = 2
#: A bug in Engram; the log has the traceback.
BROKEN = 70
#: The worker asks to be restarted: its memory passed the limit.
RESTART = 75
#: Interrupted by Ctrl-C.
INTERRUPTED = 130
