"""UserPromptSubmit: bytes of stdin to engram.sock, the answer to stdout: complete, or nothing within 250 ms.

Run as ``python -I -S prompt.py``. It imports only what is built into the interpreter and ``_socket``: anything more
costs as much as the whole rest. Whatever is broken, it is silent and exits 0.
"""

import _socket
import _thread
import posix
import time

#: Longest payload and longest answer, in bytes; anything longer is answered by silence.
PAYLOAD_BYTES = 1_048_576
ANSWER_BYTES = 65_536
#: After this many seconds the hook is gone, whatever it waits for; the interpreter's start and end take the rest of
#: the 250 ms that a prompt may wait.
SECONDS = 0.2
#: How the one object that may be printed begins and ends, and keys that no output may hold.
BEGIN, END = b'{"hookSpecificOutput"', b"}}"
REFUSED_KEYS = (b'"permission', b'"decision', b'"updated', b'"continue', b'"stop', b'"suppress')


def main() -> None:
    """Relay one payload; ends the process with status 0 in any case."""
    try:
        _thread.start_new_thread(_give_up, ())
        if posix.environ.get(b"ENGRAM_DISABLE", b"0") in (b"", b"0"):
            _relay()
    except BaseException:  # noqa: BLE001 - the edge of a hook
        pass
    posix._exit(0)


def _give_up() -> None:
    time.sleep(SECONDS)
    posix._exit(0)


def _relay() -> None:
    payload = _read_payload()
    if not payload:
        return
    # The relative name keeps the address short, however long the path of the folder is.
    posix.chdir(posix.environ.get(b"ENGRAM_HOME") or posix.environ[b"HOME"] + b"/.claude-memory")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect("engram.sock")
    connection.sendall(payload)
    connection.shutdown(_socket.SHUT_WR)
    answer = b""
    while chunk := connection.recv(ANSWER_BYTES):
        answer += chunk
        if len(answer) > ANSWER_BYTES:
            return
    if is_whole(answer):
        while answer:
            answer = answer[posix.write(1, answer) :]


def _read_payload() -> bytes:
    """All of stdin; nothing where it is empty or too long."""
    payload = b""
    while chunk := posix.read(0, PAYLOAD_BYTES):
        payload += chunk
        if len(payload) > PAYLOAD_BYTES:
            return b""
    return payload


def is_whole(answer: bytes) -> bool:
    """True for a complete answer that hands over context and nothing else."""
    return answer.startswith(BEGIN) and answer.rstrip().endswith(END) and not any(key in answer for key in REFUSED_KEYS)


if __name__ == "__main__":
    main()
