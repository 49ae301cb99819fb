"""Estimate what extraction with a language model would cost: ``python benchmarks/llm_cost.py CORPUS [--caps]``.

CORPUS contains folders that each serve as a Claude configuration folder. Nothing is sent anywhere: a stand-in for the
server answers with one memory for every third text, at most eight, counts a token for every four characters, and
searches every byte that it receives for things that redaction must have removed. ``live`` extracts as the worker does
while somebody works (after 5 messages, then every 15), ``import`` extracts whole sessions at once, and ``reword``
requests better wording for what the local extractor keeps of them. ``--caps`` keeps the default caps and reports how
much was left to the local extractor.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
from claude_price import claude_dollars

from engram.extraction.candidate import ExtractionContext, NearMemory
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.model_request import MAX_MEMORIES
from engram.extraction.model.openai_provider import OpenAIExtractor
from engram.extraction.model.provider import Budget, price_of
from engram.ingest.read_sources import ingest_all
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import list_sessions
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts.turns import Turn

CHARACTERS_A_TOKEN = 4
#: Number of words in each question that an answer contains for a memory.
QUESTION_WORDS = 11
#: Number of words in the title that an answer contains for a memory.
TITLE_WORDS = 7
MODELS = ("gpt-4.1-nano", "gpt-4.1-mini", "gpt-4o-mini", "gpt-5-nano", "gpt-5-mini")
_ENTRY = re.compile(r"^\[(e\d+)\] (?:user|assistant)(?: [\d-]+ [\d:]+)?: (.*)$", re.MULTILINE)
_LINE = re.compile(r"^\[(m\d+)\] .*the line now: (.*)$", re.MULTILINE)
_SECRET = re.compile(
    rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|AKIA[A-Z0-9]{16}|sk-[A-Za-z0-9]{40,}|-----BEGIN [A-Z ]*PRIVATE KEY)"
)


class StandIn:
    """Answers like OpenAI's server."""

    def __init__(self) -> None:
        self.calls = self.input_tokens = self.output_tokens = self.longest = self.secrets = 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        asked = json.loads(request.content)
        text = "".join(message["content"] for message in asked["input"])
        if lines := _LINE.findall(asked["input"][1]["content"]):
            answer = json.dumps({"memories": [_wording(*one) for one in lines]})
        else:
            entries = _ENTRY.findall(asked["input"][1]["content"])
            memories = [_memory(*one) for one in entries[::3]][:MAX_MEMORIES]
            answer = json.dumps({"memories": memories, "rolling_summary": text[-480:]})
        used = len(text) // CHARACTERS_A_TOKEN, len(answer) // CHARACTERS_A_TOKEN
        self.calls += 1
        self.input_tokens += used[0]
        self.output_tokens += used[1]
        self.longest = max(self.longest, used[0])
        self.secrets += len(_SECRET.findall(request.content))
        return httpx2.Response(200, json=_body(answer, *used))


def _memory(short: str, text: str) -> dict[str, Any]:
    words = text.split()
    return {
        "action": "new",
        "target": None,
        "kind": "fact",
        "summary": " ".join(words[:30]) or "-",
        "passages": [" ".join(words[:60])],
        "entities": words[:6],
        "questions": [" ".join(words[start : start + QUESTION_WORDS]) for start in (0, QUESTION_WORDS)],
        "title": " ".join(words[:TITLE_WORDS]),
        "importance": "normal",
        "scope": "project",
        "evidence": [short],
    }


def _wording(short: str, text: str) -> dict[str, Any]:
    words = text.split()
    return {"id": short, "summary": " ".join(words[:30]), "kind": "fact", "entities": words[:4]}


def _body(answer: str, input_tokens: int, output_tokens: int) -> dict[str, Any]:
    part = {"type": "output_text", "text": answer, "annotations": []}
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "tools": [],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "output": [{"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [part]}],
        "usage": {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def groups(turns: Sequence[Turn], settings: Settings, *, is_live: bool) -> Iterator[list[Turn]]:
    """Yield the turns of each extraction of a session."""
    waiting: list[Turn] = []
    messages, wanted = 0, settings.extract_first_messages if is_live else 1_000_000_000
    for turn in turns:
        waiting.append(turn)
        messages += turn.message_count
        if messages >= wanted:
            yield waiting
            waiting, messages, wanted = [], 0, settings.extract_every_messages
    if waiting:
        yield waiting


def run(store: Store, settings: Settings, *, is_live: bool) -> dict[str, Any]:
    """Extract every session; nothing but the spending is stored."""
    server = StandIn()
    extractor = OpenAIExtractor(
        settings, Budget(store, settings), LocalExtractor(), api_key="none", transport=httpx2.MockTransport(server)
    )
    before = store.value("SELECT total(dollars) FROM spend")
    turns_seen = local = kept = extractions = 0
    for session in reversed(list_sessions(store)):
        turns = [stored.turn for stored in turns_of_session(store, session.id)]
        context = ExtractionContext(project="demo", project_id=session.project_id, session_cap=100_000)
        for group in groups(turns, settings, is_live=is_live):
            found = extractor.propose(group, context)
            context = dataclasses.replace(
                context,
                rolling_summary=extractor.rolling_summary,
                known=(*context.known, *(one.summary for one in found))[-20:],
                own=(*context.own, *(NearMemory(one.summary) for one in found))[-20:],
            )
            kept += len(found)
            local += sum(bool(one.extractor) for one in found)
            extractions += 1
        turns_seen += len(turns)
    dollars = store.value("SELECT total(dollars) FROM spend") - before
    a_thousand = 1000 / max(1, turns_seen)
    return {
        "turns": turns_seen,
        "extractions": extractions,
        "calls": server.calls,
        "input_tokens": server.input_tokens,
        "output_tokens": server.output_tokens,
        "longest_request_tokens": server.longest,
        "secrets_sent": server.secrets,
        "candidates": kept,
        "by_the_local_extractor": local,
        "dollars_in_the_ledger": round(dollars, 4),
        "per_1000_turns": {
            "calls": round(server.calls * a_thousand),
            "input_tokens": round(server.input_tokens * a_thousand),
            "output_tokens": round(server.output_tokens * a_thousand),
            "dollars": {
                model: round(
                    a_thousand
                    * price_of(dataclasses.replace(settings, llm_model=model)).dollars(
                        server.input_tokens, server.output_tokens
                    ),
                    4,
                )
                for model in MODELS
            }
            | claude_dollars(
                server.calls * a_thousand, server.input_tokens * a_thousand, server.output_tokens * a_thousand
            ),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--caps", action="store_true", help="keep the default caps (default: none)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder) / "home", extractor="openai")
        settings.places.prepare()
        clock = FixedClock(at_ms=int(time.time() * 1000))
        with open_store(settings.places.memory_db, clock=clock) as store:
            for one in sorted(p for p in arguments.corpus.iterdir() if (p / "projects").is_dir()):
                ingest_all(store, settings=dataclasses.replace(settings, claude_folder=one), redact=redact)
            if not arguments.caps:
                settings = dataclasses.replace(
                    settings,
                    llm_calls_per_hour=10**9,
                    llm_dollars_per_day=1e9,
                    llm_dollars_per_hour=1e9,
                    llm_dollars_per_project=1e9,
                )
            found = {"import": run(store, settings, is_live=False)}
            clock.advance(7 * 86_400)
            found["live"] = run(store, settings, is_live=True)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
