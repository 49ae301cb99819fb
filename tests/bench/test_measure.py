"""The figures of a run, and the data sets they are taken on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.datasets import read_code_questions, read_locomo, read_longmemeval
from bench.measure import QuestionResult, ShownHit, compare, question_figures, summarise
from engram.errors import BadRequest


def asked(*hits: ShownHit, wanted: str = "ab", name: str = "q") -> QuestionResult:
    return QuestionResult(name, "fix", frozenset(wanted), hits)


def shown(evidence: str, words: int = 10) -> ShownHit:
    return ShownHit(tuple(evidence), "word " * words)


def test_recall_counts_each_evidence_once_at_the_rank_that_shows_it() -> None:
    found = question_figures(asked(shown("x"), shown("a"), shown("a"), shown("b")))

    assert (found["recall@1"], found["recall@3"], found["recall@5"]) == (0, 0.5, 1)


def test_recall_in_words_stops_where_the_words_are_spent() -> None:
    found = question_figures(asked(shown("a", 150), shown("b", 100)))

    assert (found["recall in 200 words"], found["recall in 400 words"]) == (0.5, 1)


def test_a_hit_that_shows_nothing_new_gains_nothing() -> None:
    assert question_figures(asked(shown("a"), shown("b")))["ndcg@10"] == 1
    assert question_figures(asked(shown("a"), shown("a"), shown("b")))["ndcg@10"] < 1


def test_a_summary_has_intervals_categories_and_the_idle_hits() -> None:
    summary = summarise([asked(shown("ab")), asked(shown("x"), name="r"), asked(shown("x"), wanted="", name="s")])

    assert summary.questions == 2
    assert summary.figures["recall@10"] == 50
    assert summary.intervals["recall@10"] > 0
    assert summary.by_category["fix"]["questions"] == 2
    assert summary.hits_unanswerable == 1


def test_a_paired_difference_is_taken_question_by_question() -> None:
    better = [asked(shown("ab"), name=str(number)) for number in range(8)]
    worse = [asked(shown("x"), name=str(number)) for number in range(8)]

    found = compare(better, worse, "recall@10")

    assert (found["difference"], found["low"], found["p"]) == (100, 100, 0)


def test_locomo_repairs_malformed_evidence_and_leaves_out_the_fifth_category(tmp_path: Path) -> None:
    said = [{"speaker": "Ann", "dia_id": f"D1:{place}", "text": "Hi"} for place in (1, 2)]
    questions = [
        {"question": "When?", "category": 2, "evidence": ["D1:1; D1:02"]},
        {"question": "Who?", "category": 1, "evidence": ["D:1:2", "D9:9"]},
        {"question": "No?", "category": 5, "evidence": ["D1:1"]},
        {"question": "Lost?", "category": 4, "evidence": []},
    ]
    conversation = {"speaker_a": "Ann", "session_1": said, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([{"sample_id": "c", "conversation": conversation, "qa": questions}]))

    (chat,) = read_locomo(path)

    assert [sorted(one.wanted) for one in chat.questions] == [["c/D1:1", "c/D1:2"], ["c/D1:2"]]
    assert [unit.id for unit in chat.units] == ["c/D1:1", "c/D1:2"]


def test_longmemeval_takes_the_marked_turns_as_what_is_wanted(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "I moved to Rome.", "has_answer": True},
        {"role": "assistant", "content": "Nice"},
    ]
    one = {
        "question_id": "q1",
        "question": "Where do I live?",
        "question_type": "single-session-user",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s1"],
        "answer_session_ids": ["s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [turns],
    }
    path = tmp_path / "long.json"
    path.write_text(json.dumps([one]))

    (chat,) = read_longmemeval(path)

    assert chat.questions[0].wanted == {"q1/s1/0"}
    assert chat.questions[0].now_ms is not None
    assert chat.questions[0].now_ms > chat.units[0].at_ms


@pytest.mark.parametrize("content", ["", "{", '[{"a": 1}]', "[1]"])
def test_a_file_of_another_form_is_refused_with_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "some.json"
    path.write_text(content)

    for read in (read_locomo, read_longmemeval):
        with pytest.raises(BadRequest, match=r"some\.json"):
            list(read(path))
    if content:
        with pytest.raises(BadRequest, match=r"some\.json"):
            read_code_questions(path)
