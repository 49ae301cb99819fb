"""SessionEnd, and SessionStart after a compaction: enqueue ``flush(session_id)``.

Works without a running worker. Run by the interpreter that Engram is installed in, detached, so that nobody waits for
it: a machine that is busy or just woke up has time. Always silent, always exits 0.
"""

import _thread
import os
import signal
import time

#: The hook ends after this many seconds, whatever it waits for.
SECONDS = 5.0
#: After this many seconds the system ends it, even if a thread holds the interpreter.
ALARM_SECONDS = 8


def main() -> None:
    """Enqueue the task and exit with status 0 in any case."""
    try:
        signal.alarm(ALARM_SECONDS)
        _thread.start_new_thread(_give_up, ())
        from engram_hooks.doorbell import ring

        ring("flush")
    except BaseException:  # noqa: BLE001 - the boundary of a hook
        pass
    os._exit(0)


def _give_up() -> None:
    time.sleep(SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
