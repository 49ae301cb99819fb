"""The MCP server that an agent starts: relays lines to the worker, which serves all sessions (``session.py``).

It imports almost nothing, because every session waits for it. If there is no worker, this process becomes the server.
"""

import _socket
import gc
import json
import os
import select
import signal
from contextlib import suppress

from engram_mcp import HELLO, is_asked_again, note_requests

#: First line from a worker that serves this session; a worker that does not understand the relay hangs up.
WELCOME = b"engram-mcp 1\n"
#: Prefixes of the environment variables that are sent to the worker.
NAMES = (b"ENGRAM_", b"CLAUDE_PROJECT_DIR", b"CLAUDE_CODE_SESSION_ID", b"CLAUDE_MEMORY_")
#: Timeouts for the welcome and the last answers, and interval between checks that the agent is still running, all in
#: seconds; number of checks without any data after which a worker that owes an answer counts as hung.
WELCOME_SECONDS, END_SECONDS, PARENT_SECONDS, SILENT_LOOKS = 5.0, 10.0, 5.0, 6
LOST = "Engram's worker ended or hung during this call, which may or may not have taken effect. Call again."


def main() -> None:
    """Serve over stdin and stdout until the agent closes them, kills this process or dies."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(OSError):  # the folder may no longer exist
        os.environ.setdefault("CLAUDE_PROJECT_DIR", os.getcwd())
    os.environ["ENGRAM_HOME"] = os.path.abspath(os.path.expanduser(os.environ.get("ENGRAM_HOME") or "~/.claude-memory"))
    parent, said = os.getppid(), b""
    while server := connect():
        if not (said := relay(server, said, parent)):
            return
    gc.disable()  # importing creates many objects, all of which are kept
    from engram_mcp.session import main as serve  # takes 60 MB and a second of processor time

    serve(said)


def connect() -> _socket.socket | None:
    """Connect to a worker that serves this session; return None if there is none."""
    facts = b"\0".join(b"%s=%s" % variable for variable in os.environb.items() if variable[0].startswith(NAMES))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(WELCOME_SECONDS)
    with suppress(OSError):
        # A relative name keeps the address short enough, however long the folder's path is.
        os.chdir(os.environ["ENGRAM_HOME"])
        connection.connect("mcp.sock")
        connection.sendall(b"engram-mcp 1 %d\n%s" % (len(facts), facts))
        if connection.recv(len(WELCOME)) == WELCOME:
            connection.settimeout(None)
            return connection
    return None


def relay(server: _socket.socket, said: bytes, parent: int) -> bytes:
    """Relay in both directions, beginning with ``said`` by the agent. Return what the next server must get, if any."""
    waiting: dict[str, dict[str, object]] = {}
    heard, has_left, own, silent, ready = b"", False, server.fileno(), 0, [0]
    while os.getppid() == parent and (ready or not has_left) and silent < SILENT_LOOKS:
        *lines, said = said.split(b"\n")
        with suppress(OSError):  # a worker that has exited is noticed below
            server.sendall(b"".join(line + b"\n" for line in lines))
            server.shutdown(_socket.SHUT_WR) if has_left else None
        note_requests(waiting, map(parse, lines))
        seconds = END_SECONDS if has_left else PARENT_SECONDS
        ready = select.select([own] if has_left else [0, own], (), (), seconds)[0]
        silent = 0 if ready or not waiting else silent + 1
        if own in ready:
            chunk = b""
            with suppress(OSError):
                chunk = server.recv(65_536)
            *lines, heard = (heard + chunk).split(b"\n")
            for line in lines:
                os.write(1, line + b"\n")
                if (asked := waiting.pop(repr(parse(line).get("id")), {})).get("method") == "initialize":
                    os.environ[HELLO] = json.dumps(asked)
            if not chunk:
                break
        if 0 in ready:
            said += (chunk := os.read(0, 65_536)) or b"\n"
            has_left = not chunk
    for asked in waiting.values():
        if not is_asked_again(asked, has_hung=silent == SILENT_LOOKS):
            error = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32000, "message": LOST}}
            os.write(1, json.dumps(error).encode() + b"\n")
        else:
            said = json.dumps(asked).encode() + b"\n" + said
    # Connect to the next server only once there is something to send; the worker may be running again by then.
    while b"\n" not in said and not has_left and os.getppid() == parent:
        if select.select([0], (), (), PARENT_SECONDS)[0]:
            said += (chunk := os.read(0, 65_536))
            has_left = not chunk
    return said if os.getppid() == parent and not has_left else b""


def parse(line: bytes) -> dict[str, object]:
    """Parse the message in a line; return {} if there is none."""
    with suppress(ValueError, RecursionError):
        message = json.loads(line)
        return message if isinstance(message, dict) else {}
    return {}


if __name__ == "__main__":
    main()
