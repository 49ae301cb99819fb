"""SessionStart: the same relay as a prompt's; the worker sees by the payload that a briefing is wanted.

Run as ``python -I -S briefing.py``: 250 ms, then silence; exits 0 whatever is broken.
"""

import posix
import sys


def main() -> None:
    """Relay one payload by the code of ``prompt.py``, which lies beside this file."""
    try:
        sys.dont_write_bytecode = True
        sys.path.insert(0, __file__.rpartition("/")[0].rpartition("/")[0])
        from engram_hooks import prompt

        prompt.main()
    except BaseException:  # noqa: BLE001 - the edge of a hook
        pass
    posix._exit(0)


if __name__ == "__main__":
    main()
