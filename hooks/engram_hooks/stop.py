"""Stop: put ``ingest(session_id)`` into the queue, so that the rest of the file is read and the turn closed.

Run by the interpreter that Engram is installed in; it runs detached, so that nobody waits for it. Whatever is broken, it is silent and exits 0.
"""

import _thread
import os
import signal
import time

#: After this many seconds the hook is gone, whatever it waits for.
SECONDS = 5.0
#: Then the system ends it, even where a thread holds the interpreter.
ALARM_SECONDS = 8


def main() -> None:
    """Enqueue the task; ends the process with status 0 in any case."""
    try:
        signal.alarm(ALARM_SECONDS)
        _thread.start_new_thread(_give_up, ())
        from engram_hooks.doorbell import ring

        ring("ingest")
    except BaseException:  # noqa: BLE001 - the edge of a hook
        pass
    os._exit(0)


def _give_up() -> None:
    time.sleep(SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
