"""The words of answers: what stands above hits."""

from __future__ import annotations

from engram_mcp.answers import DOUBTFUL, HEADER, recall_lines, search_lines

MEMORY = {"id": "ep_000000000000", "summary": "Logs go to stdout", "created_at": "2026-02-20T00:00:00Z"}
TURN = {"id": "turn_1#1", "kind": "turn", "text": "Logs go to stdout.", "session": "s-1", "role": "assistant"}


def test_an_answer_of_doubtful_hits_alone_says_so_above_them() -> None:
    for lines, hit in ((recall_lines, MEMORY), (search_lines, TURN)):
        assert lines([hit | {"doubtful": True}]).splitlines()[:2] == [HEADER, DOUBTFUL]


def test_one_hit_that_fits_is_enough_for_no_doubt() -> None:
    for lines, hit in ((recall_lines, MEMORY), (search_lines, TURN)):
        assert DOUBTFUL not in lines([hit | {"doubtful": True}, hit])
