"""Exit codes of the command line."""

from __future__ import annotations

#: All went well.
OK = 0
#: An expected failure; one line on stderr says which.
FAILED = 1
#: The command line itself cannot be understood.
USAGE = 2
#: A fault in Engram; the log has the traceback.
BROKEN = 70
#: The worker asks to be started again (its memory passed the limit).
RESTART = 75
#: Ended by Ctrl-C.
INTERRUPTED = 130
