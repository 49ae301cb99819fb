"""UserPromptSubmit: relay stdin to engram.sock, and a complete answer to stdout.

It exits within 1.5 s, or within 250 ms if no worker sends a sign of life and no restart has been announced.

Run as ``python -I -S prompt.py``. It imports only built-in modules and ``_socket``, because any other import takes as
long as everything else together. It prints nothing on failure and always exits with 0.
"""

import _socket
import _thread
import posix
import time

#: Maximum size of a payload and of an answer, in bytes; larger ones are dropped.
PAYLOAD_BYTES = 1_048_576
ANSWER_BYTES = 65_536
#: The hook exits after this many seconds without a sign of life. The interpreter's startup and exit take the rest of
#: the 250 ms that a prompt may wait for a dead or hanging worker.
SECONDS = 0.2
#: How long it waits after each sign of life, and in total, in seconds.
LIFE_SECONDS = 0.5
MAX_SECONDS = 1.5
#: A file that announces a worker; how long the announcement is valid after the file's last change, in seconds; how long
#: the hook waits before it tries to connect again, in seconds.
COMING = "worker.coming"
COMING_SECONDS = 10.0
AGAIN_SECONDS = 0.03
#: Precedes the payload and lets the worker send spaces, as signs of life, before the answer.
TAKES_SIGNS = b"\n"
#: Beginning and end of the only output that is printed, and keys that it must not contain.
BEGIN, END = b'{"hookSpecificOutput"', b"}}"
REFUSED_KEYS = (b'"permission', b'"decision', b'"updated', b'"continue', b'"stop', b'"suppress')


#: Monotonic time at which the hook gives up, in seconds.
_give_up_at = [0.0]


def main(say_off=None) -> None:  # type: ignore[no-untyped-def]  # "typing" costs as much as all the rest
    """Relay one payload; always exit with status 0.

    ``say_off`` is called in the memory folder with the payload if no worker is listening; it returns what to print.
    """
    try:
        _give_up_at[0] = time.monotonic() + SECONDS
        _thread.start_new_thread(_give_up, ())
        if posix.environ.get(b"ENGRAM_DISABLE", b"0") in (b"", b"0"):
            _relay(say_off)
    except BaseException:  # noqa: BLE001 - the boundary of a hook
        pass
    posix._exit(0)


def _give_up() -> None:
    while (left := _give_up_at[0] - time.monotonic()) > 0:
        time.sleep(left)
    posix._exit(0)


def _relay(say_off=None) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + MAX_SECONDS
    payload = _read_payload()
    if not payload:
        return
    # A relative name keeps the address short enough, however long the folder's path is.
    posix.chdir(posix.environ.get(b"ENGRAM_HOME") or posix.environ[b"HOME"] + b"/.claude-memory")
    connection = _connect(end, say_off is None)  # type: ignore[no-untyped-call]
    if connection is None:
        if say_off is not None and not _is_coming():
            posix.write(1, say_off(payload))
        return
    connection.sendall(TAKES_SIGNS + payload)
    connection.shutdown(_socket.SHUT_WR)
    answer = b""
    while chunk := connection.recv(ANSWER_BYTES):
        if not answer:
            # A sign of life, or the beginning of the answer, whose rest must follow soon.
            _give_up_at[0] = min(time.monotonic() + (SECONDS if chunk.strip() else LIFE_SECONDS), end)
        answer = (answer + chunk).lstrip()
        if len(answer) > ANSWER_BYTES:
            return
    if is_whole(answer):
        while answer:
            answer = answer[posix.write(1, answer) :]


def _connect(end, may_wait):  # type: ignore[no-untyped-def]
    """Connect to the worker; return None if no worker is listening and none has been announced."""
    while True:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.connect("engram.sock")
        except (ConnectionRefusedError, FileNotFoundError):
            connection.close()
            if not may_wait or not _is_coming():
                return None
            _give_up_at[0] = end
            time.sleep(AGAIN_SECONDS)
        else:
            if _give_up_at[0] == end:
                _give_up_at[0] = min(time.monotonic() + LIFE_SECONDS, end)
            return connection


def _is_coming() -> bool:
    try:
        facts = posix.lstat(COMING)
    except OSError:
        return False
    return facts.st_mode & 0o170000 == 0o100000 and -1.0 < time.time() - facts.st_mtime < COMING_SECONDS  # only a file


def _read_payload() -> bytes:
    """Return all of stdin; b"" if it is too long."""
    payload = b""
    while chunk := posix.read(0, PAYLOAD_BYTES):
        payload += chunk
        if len(payload) > PAYLOAD_BYTES:
            return b""
    return payload


def is_whole(answer: bytes) -> bool:
    """Return True for a complete answer that only adds context."""
    # A string that follows a colon is a value, not a key, even if it begins with one of these words.
    keys = answer.replace(b':"', b":")
    return answer.startswith(BEGIN) and answer.rstrip().endswith(END) and not any(key in keys for key in REFUSED_KEYS)


if __name__ == "__main__":
    main()
