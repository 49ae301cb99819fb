#!/usr/bin/env python3
"""Stands in for the ``claude`` command: answers as Claude Code 2.1.197 did in print mode, or fails as it is told.

``STAND_IN_MODE`` names the behaviour, or is a JSON object of keys to change in a good result; ``STAND_IN_LOG`` names a
file that gets one JSON line a call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

KNOWN_FLAGS = {
    "-p",
    "--model",
    "--safe-mode",
    "--tools",
    "--strict-mcp-config",
    "--no-session-persistence",
    "--system-prompt",
    "--output-format",
    "--json-schema",
    "--max-budget-usd",
}
ANSWER = {
    "memories": [
        {
            "kind": "decision",
            "summary": "Invoices round VAT half up because the tax office does",
            "passages": ["we round VAT half up because the tax office does"],
            "evidence": ["e1"],
        }
    ],
    "rolling_summary": "Rounding of VAT.",
}


def result(**changes: object) -> str:
    """The object that print mode writes, with some keys changed."""
    return json.dumps(
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "api_error_status": None,
            "num_turns": 2,
            "result": json.dumps(ANSWER),
            "total_cost_usd": 0.00425,
            "usage": {"input_tokens": 1000, "output_tokens": 50},
            "modelUsage": {
                "claude-haiku-4-5-20251001": {
                    "inputTokens": 1000,
                    "outputTokens": 650,
                    "cacheReadInputTokens": 20,
                    "cacheCreationInputTokens": 3,
                }
            },
            "structured_output": ANSWER,
            "terminal_reason": "completed",
            **changes,
        }
    )


FREE = {"total_cost_usd": 0, "modelUsage": {}, "structured_output": None}


def main() -> int:
    """Behave as ``STAND_IN_MODE`` says."""
    mode = os.environ.get("STAND_IN_MODE", "well")
    text = sys.stdin.read()
    call = {
        "argv": sys.argv[1:],
        "stdin": text,
        "cwd": os.getcwd(),
        "folder": os.listdir(),
        "environ": dict(os.environ),
        "pid": os.getpid(),
        "group": os.getpgid(0),
    }
    with open(os.environ["STAND_IN_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps(call) + "\n")
    flags = {flag for flag in sys.argv[1:] if flag.startswith("-")}
    if flags - KNOWN_FLAGS:
        sys.stderr.write(f"error: unknown option '{(flags - KNOWN_FLAGS).pop()}'\n")
        return 1
    if mode == "well":
        print(result())
    elif mode == "prose":
        print(result(structured_output=None, result="Here it is:\n```json\n" + json.dumps(ANSWER) + "\n```"))
    elif mode == "never":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        time.sleep(600)
    elif mode == "stubborn":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    elif mode == "child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
        print(result())
    elif mode == "garbage":
        os.write(1, bytes(range(256)) * 20)
    elif mode == "empty":
        pass
    elif mode == "error":
        sys.stderr.write("TypeError: cannot read properties of undefined\n")
        return 1
    elif mode == "huge":
        for _ in range(200):
            sys.stdout.write("x" * 65_536)
    elif mode == "login":
        print(result(is_error=True, result="Not logged in · Please run /login", **FREE))
        return 1
    elif mode == "flag":
        sys.stderr.write("error: unknown option '--safe-mode'\n")
        return 1
    elif mode == "limit":
        print(result(is_error=True, result="Claude AI usage limit reached|1795000000", **FREE))
        return 1
    elif mode == "overloaded":
        print(result(is_error=True, api_error_status=529, result="API Error: 529 Overloaded", **FREE))
        return 1
    elif mode == "long":
        print(result(is_error=True, api_error_status=400, result="Prompt is too long", **FREE))
        return 1
    elif mode == "budget":
        print(result(is_error=True, subtype="error_max_budget_usd", total_cost_usd=0.21, structured_output=None))
        return 1
    elif mode == "lingering":
        print(result(), flush=True)
        time.sleep(600)
    elif mode == "half":
        print(result()[:200], flush=True)
        time.sleep(600)
    elif mode.startswith("{"):
        print(result()[:-1] + ", " + mode[1:])
    else:
        raise SystemExit(f"unknown mode {mode}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
