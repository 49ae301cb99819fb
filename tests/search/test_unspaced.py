"""Words inside runs of letters that no space divides are found, and leave the text indexes with their texts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.models.engine.database import open_database
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.open_memory import open_store
from engram.models.search.fulltext import rebuild_indexes, search_notes
from engram.models.sessions.turn_changes import delete_turn
from engram.notes.note_index import index_notes
from engram.redaction import redact
from engram.search.question import Query
from engram.search.searcher import NOBODY_SAID_PHRASE, NOBODY_SAID_WORDS, Searcher
from engram.settings import Settings
from engram.text.words import MAX_PAIRS, in_pairs, terms_of
from tests.each_case import each_case
from tests.models.engine.test_migrations import TABLES_18
from tests.search.test_phrases import tell

TEXTS = {
    "chinese": "导入程序丢失数据行的原因是唯一索引冲突。我已经改为在事务中写入，并增加了测试。",
    "rare": "人名是𠮷野家，不是吉野家。",
    "japanese": "接続ログはサーバーの保管庫にあります。設定ファイルで場所を変えられます。",
    "half": "ﾃｽﾄは成功、々の字も、ひらがなだけのぶんもある。",
    "korean": "가져오기가 끊긴 이유는 고유 인덱스를 두 번 만들었기 때문입니다.",
    "thai": "ตัวนำเข้าเก็บข้อมูลซ้ำเพราะดัชนีไม่ถูกล็อก",
    "khmer": "ឯកសារកំណត់រចនាសម្ព័ន្ធបាត់។",
    "mixed": "请用Postgres重跑gen-x后再看日志2026年的报告，ERROR码是E42错误。",
    "english": "The walrus proxy keeps 40 connections open.",
}


@pytest.fixture
def searcher(store: Store) -> Searcher:
    for key, text in TEXTS.items():
        tell(store, key, text, project=key)
    return Searcher(store, Settings())


def keys_of(searcher: Searcher, text: str) -> set[str]:
    """The texts that hold a question word for word."""
    found, unsaid = searcher.look_up(Query(text, limit=20))
    assert unsaid == ""
    holding = [hit for hit in found if text.lower() in hit.text.lower()]
    return {place.uuid.removesuffix("-a") for hit in holding for place in hit.evidence}


@each_case(
    ("word", "key"),
    [
        ("索引", "chinese"),
        ("唯一索引", "chinese"),
        ("丢失", "chinese"),
        ("导入程序", "chinese"),
        ("冲突", "chinese"),
        ("误", "mixed"),
        ("𠮷野", "rare"),
        ("保管庫", "japanese"),
        ("保管", "japanese"),
        ("ログ", "japanese"),
        ("サーバー", "japanese"),
        ("変えられます", "japanese"),
        ("ﾃｽﾄ", "half"),
        ("々の字", "half"),
        ("がな", "half"),
        ("인덱스", "korean"),
        ("덱스", "korean"),
        ("끊긴 이유", "korean"),
        ("때문", "korean"),
        ("ข้อมูล", "thai"),
        ("ดัชนี", "thai"),
        ("เก็บ", "thai"),
        ("កំណត់", "khmer"),
        ("重跑gen-x后", "mixed"),
        ("gen-x", "mixed"),
        ("gen", "mixed"),
        ("Postgres", "mixed"),
        ("postgres重跑", "mixed"),
        ("2026年", "mixed"),
        ("E42错误", "mixed"),
        ("e42", "mixed"),
        ("walrus proxy", "english"),
    ],
)
def test_a_word_is_found_inside_a_run_of_letters(searcher: Searcher, word: str, key: str) -> None:
    assert keys_of(searcher, word) == {key}


@each_case(
    ("phrase", "key"),
    [
        ('"唯一索引冲突"', "chinese"),
        ("「設定ファイル」", "japanese"),
        ('"고유 인덱스"', "korean"),
        ('"เก็บข้อมูลซ้ำ"', "thai"),
        ('"日志2026年的报告"', "mixed"),
        ('"原因是唯一索引冲突。我已经改为在事务中写入，并增加了测试"', "chinese"),
    ],
)
def test_a_phrase_in_quotes_is_found_alone(searcher: Searcher, phrase: str, key: str) -> None:
    found, unsaid = searcher.look_up(Query(phrase, limit=20))

    assert ({place.uuid for hit in found for place in hit.evidence}, unsaid) == ({f"{key}-a"}, "")


@each_case("text", ['"引索"', '"索引唯一"', '"덱인"', '"ロサ"', '"gen-x 重跑"'])
def test_letters_in_another_order_are_not_a_phrase(searcher: Searcher, text: str) -> None:
    assert searcher.look_up(Query(text))[1] == NOBODY_SAID_PHRASE


@each_case("text", ["引索", "海象", "덱인", "ブタ"])
def test_what_nobody_said_is_named(searcher: Searcher, text: str) -> None:
    assert searcher.look_up(Query(text))[1] == f"Nobody said “{text}”; closest:"


def test_it_is_said_that_nobody_said_the_words_together(searcher: Searcher) -> None:
    assert searcher.look_up(Query("索引 walrus"))[1] == NOBODY_SAID_WORDS


@each_case(
    ("question", "key"),
    [
        ("为什么导入程序会丢失数据行？", "chinese"),
        ("ログはどこにありますか？", "japanese"),
        ("인덱스는 왜 두 번 만들었나요?", "korean"),
        ("ข้อมูลซ้ำเพราะอะไร", "thai"),
        ("重跑 gen-x 出错", "mixed"),
    ],
)
def test_a_question_finds_the_text_that_shares_its_letters(searcher: Searcher, question: str, key: str) -> None:
    first, *_ = searcher.search(Query(question))

    assert {place.uuid for place in first.evidence} >= {f"{key}-a"}


def test_a_word_that_a_passage_ends_within_is_found(store: Store) -> None:
    tell(store, "t1", "甲" * 897 + "数据库连接池" + "乙" * 50)

    found, unsaid = Searcher(store, Settings()).look_up(Query("据库连接"))

    assert ("据库连接" in found[0].text, unsaid) == (True, "")


def test_memories_are_found_and_corrected(store: Store, keep: Callable[..., Memory]) -> None:
    keep("导入程序的唯一索引冲突", content="在事务中写入", entities=("连接池",), questions=("为什么丢失数据行？",))
    searcher = Searcher(store, Settings())

    for word in ("索引", "事务", "接池", "丢失"):
        assert len(searcher.recall(Query(word))) == 1, word
    assert searcher.recall(Query("海象")) == []
    assert store.find_damage() == ""


def test_notes_are_found_and_leave_nothing_behind(store: Store, settings: Settings) -> None:
    note = settings.places.notes / "说明.md"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("# 数据库说明\n连接池的上限是二十。\n", encoding="utf-8")
    index_notes(store, settings, redact)
    assert len(search_notes(store, ["连接池"], 5)) == len(search_notes(store, ["说明"], 5)) == 1
    assert store.find_damage() == ""

    note.write_text("# Database\nThe limit is twenty.\n", encoding="utf-8")
    index_notes(store, settings, redact)

    assert search_notes(store, ["连接"], 5) == []
    assert store.find_damage() == ""


def words_left(store: Store, index: str) -> set[str]:
    store.rows(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_{index} USING fts5vocab('main', '{index}', 'row')")
    return {str(word) for (word,) in store.rows(f"SELECT term FROM temp.words_{index}")}


def forget_all(store: Store) -> None:
    with store.transaction() as tx:
        for (turn_id,) in tx.rows("SELECT id FROM turn"):
            delete_turn(tx, int(turn_id))


def test_the_views_hold_the_words_that_are_written_and_forgetting_takes_all_of_them(
    searcher: Searcher, store: Store
) -> None:
    for count in (63, 64, 65, 128, 129, 700):
        tell(store, f"n{count}", ("数据x" * count)[:count], project=f"n{count}")
    assert store.find_damage() == ""
    before = words_left(store, "passage_fts")
    assert {"索引", "ログ", "인덱"} <= before

    rebuild_indexes(store)
    assert words_left(store, "passage_fts") == before
    forget_all(store)

    assert words_left(store, "passage_fts") == set()
    assert store.find_damage() == ""


@pytest.fixture(params=["sqlite3", "cysqlite"])
def of_version_18(
    request: pytest.FixtureRequest, settings: Settings, store: Store, keep: Callable[..., Memory]
) -> Store:
    """A memory whose indexes the version before wrote, opened by this one."""
    for key, text in TEXTS.items():
        tell(store, key, text)
    keep("导入程序的唯一索引冲突", content="在事务中写入", entities=("连接池",))
    keep("The walrus proxy", content="keeps connections")
    note = settings.places.notes / "a.md"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("# 数据库说明\n连接池的上限是二十。\n", encoding="utf-8")
    index_notes(store, settings, redact)
    store.close()
    database = open_database(store.path, "sqlite3")
    for statement in (*TABLES_18, "INSERT INTO episode_fts(episode_fts) VALUES ('delete-all')"):
        database.execute_sql(statement)
    database.execute_sql(
        "INSERT INTO episode_fts(rowid, summary, content, entities) "
        "SELECT id, summary, content, entities || ' ' || questions FROM episode"
    )
    database.execute_sql("UPDATE meta SET value = '18' WHERE key = 'schema_version'")
    database.execute_sql("PRAGMA user_version = 18")
    database.close()
    return open_store(store.path, driver=request.param)


def test_what_the_version_before_indexed_is_found_and_can_be_forgotten(of_version_18: Store) -> None:
    store = of_version_18
    assert store.find_damage() == ""
    assert keys_of(Searcher(store, Settings()), "索引") == {"chinese"}
    assert len(search_notes(store, ["连接"], 5)) == 1
    assert len(Searcher(store, Settings()).recall(Query("连接"))) == 1
    fresh = {index: words_left(store, index) for index in ("passage_fts", "episode_fts", "note_fts")}

    rebuild_indexes(store)
    assert {index: words_left(store, index) for index in fresh} == fresh
    assert not any("导入程序" in word for words in fresh.values() for word in words)
    forget_all(store)

    assert words_left(store, "passage_fts") == set()
    assert store.find_damage() == ""


@each_case(
    ("text", "terms"),
    [
        ("唯一索引", ["唯一", "一索", "索引"]),
        ("误", ["误"]),
        ("误 walrus", ["walrus"]),
        ("重跑gen-x后", ["gen", "重跑"]),
        ("the walrus proxy, of snake_case", ["walrus", "proxy", "snake_case", "snake", "case"]),
        ("ๆ ก็", ["ก็"]),
        ("。、「」", []),
    ],
)
def test_a_question_is_searched_by_pairs(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms


def test_a_long_question_has_a_bounded_number_of_pairs() -> None:
    assert len(terms_of("".join(chr(0x4E00 + number) for number in range(3_000)))) == MAX_PAIRS


@each_case(
    ("text", "held"),
    [
        ("唯一索引", " 唯一  一索  索引  引 "),
        ("a误b", "a 误 b"),
        ("naïve Ünïcode, ελληνικά и русский", "naïve Ünïcode, ελληνικά и русский"),
        ("接続・ログ。", " 接続  続 ・ ログ  グ 。"),
        ("", ""),
    ],
)
def test_only_letters_of_these_scripts_are_paired(text: str, held: str) -> None:
    assert in_pairs(text) == held
