"""SessionStart: the same relay as for a prompt; the worker sees from the payload that a briefing is wanted.

Run as ``python -I -S briefing.py``. It answers within 250 ms or prints nothing, and always exits with 0. If there is a
memory but no worker, it reports that Engram is off, unless the session starts it.
"""

import posix
import sys

#: What Claude is shown if nothing is running; Claude tells the user if it matters. ``engram`` is written with the flag
#: that the memory folder needs.
OFF = (
    b'{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"Engram, the memory of this machine, '
    b"is off: nothing in this session is remembered, and no earlier session is found. The user can start it with "
    b'`engram service start`; `engram doctor` says more."}}\n'
)


def say_off(payload: bytes) -> bytes:
    """Return ``OFF`` if a session starts and the current folder, the memory folder, contains a memory; else b""."""
    source = payload.partition(b'"source":')[2].lstrip()
    if not source.startswith((b'"startup"', b'"resume"')):
        return b""
    try:
        posix.stat("memory.db")
    except FileNotFoundError:
        return b""
    return b"" if _starts_with_session() else OFF.replace(b"`engram ", b"`engram " + _flag())


def _flag() -> bytes:
    """Return the flag that names the memory folder; b"" for the default one, and for one that can't be named here.

    That is a relative path, or one that JSON or a shell would not take as it is.
    """
    folder = posix.environ.get(b"ENGRAM_HOME", b"")
    if folder in (b"", posix.environ.get(b"HOME", b"") + b"/.claude-memory"):
        return b""
    if folder[:1] != b"/" or any(byte < 32 or byte > 126 or byte in b"\"'\\`" for byte in folder):
        return b""
    is_plain = folder.translate(None, b"/.+-_").isalnum()
    return b"--home " + folder + b" " if is_plain else b"--home '" + folder + b"' "


def _starts_with_session() -> bool:
    try:
        file = posix.open("config.toml", posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except FileNotFoundError:
        return False
    for line in posix.read(file, 65_536).removeprefix(b"\xef\xbb\xbf").splitlines():
        name, _, value = line.partition(b"=")
        if name.strip(b" \t\"'") == b"start_with_session":
            return value.partition(b"#")[0].strip(b" \t\"'").lower() in (b"true", b"yes", b"on", b"1")
    return False


def main() -> None:
    """Relay one payload using the code of ``prompt.py``, which is in the same folder."""
    try:
        sys.dont_write_bytecode = True
        sys.path.insert(0, __file__.rpartition("/")[0].rpartition("/")[0])
        from engram_hooks import prompt

        prompt.main(say_off)
    except BaseException:  # noqa: BLE001 - the boundary of a hook
        pass
    posix._exit(0)


if __name__ == "__main__":
    main()
