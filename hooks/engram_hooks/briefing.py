"""SessionStart: the same relay as for a prompt; the worker sees in the payload that it wants a briefing.

Run as ``python -I -S briefing.py``. It answers within 250 ms or stays silent, and always exits 0.
"""

import posix
import sys


def main() -> None:
    """Relay one payload with the code of ``prompt.py``, which lies beside this file."""
    try:
        sys.dont_write_bytecode = True
        sys.path.insert(0, __file__.rpartition("/")[0].rpartition("/")[0])
        from engram_hooks import prompt

        prompt.main()
    except BaseException:  # noqa: BLE001 - the boundary of a hook
        pass
    posix._exit(0)


if __name__ == "__main__":
    main()
