"""Claim N9: the mapping table Netty ↔ KV cache, each row run on both sides, with its two corrections."""

import threading

import pytest

from pagedkv.lab import mapping, snippets
from pagedkv.lab.mapping import mapping_table, run_row
from pagedkv.lab.mapping_rows import HOLDS, IN_PART, MISLEADING, ROWS
from pagedkv.lab.snippets import run_java, run_python

# key → verdict, what Java prints, what Python prints
EXPECTED = {
    "pool": (IN_PART, "chunks: 0\nchunks: 1\nchunks: 1\nbuffers in use: 0",
             "blocks: 512\nblocks: 512\nblocks: 512\nblocks in use: 0"),
    "chunk": (HOLDS, "512 pages, 507 of them free", "512 blocks, 507 of them free"),
    "page": (HOLDS, "a page is 8192 bytes\n40960 bytes take 5 pages", "a block is 16 tokens\n75 tokens take 5 blocks"),
    "subpage": (IN_PART, "room for 8 buffers, 6 left\na and b in one page: true",
                "room for 16 tokens, 14 left\na and b in one block: False"),
    "refcount": (HOLDS, "allocated: 1\nretained: 2\nreleased: 0", "allocated: 1\nretained: 2\nreleased: 0"),
    "release": (HOLDS, "refCnt: 0, decrement: 1",
                "block 0 is already free (refcount 0): release each reference only once"),
    "duplicate": (MISLEADING, "shared by 2\nthe original now reads B\nthe write was seen: true",
                  "shared by 2\nthe parent still reads A\nthe write was seen: False"),
    "cache": (MISLEADING, "given back, the arena saw: 0\ntaken twice, the arena saw: 1",
              "given back, the pool saw: 0\ntaken twice, the pool saw: 1"),
    "table": (HOLDS, "position 37: piece 2, offset 5",
              "position 37: piece 2, offset 5\nthe table: [2, 3, 4] so it lies in block 4"),
    "slice": (HOLDS, "the pool has 7\nthe pool has 7", "the pool has 7\nthe pool has 7"),
    "intern": (IN_PART, "shared: false\nshared: true\nits beginning is shared: false",
               "shared: False\nshared: True\nits beginning is shared: True"),
    "capacity": (IN_PART, "capacity 16, at most 64\n48 written: 64\n48 more: refused\nstill 48",
                 "num_blocks 64\n48 taken: num_blocks 64\n48 more: refused\nstill 48"),
    "fragmentation": (IN_PART, "every second piece is free\ntwo pieces fit the holes: false",
                      "every second piece is free\ntwo pieces fit the holes: True\nthey are [60, 62]"),
}


def test_every_row_has_an_expectation():
    """Claim N9."""
    assert [row.key for row in ROWS] == list(EXPECTED)


@pytest.mark.parametrize("key", EXPECTED)
def test_what_both_sides_print(key):
    """Claim N9. Twice: what a first run leaves behind must not show in the second."""
    for _ in range(2):
        run = run_row(key)
        assert (run.java.error, run.python.error) == ("", "")
        assert (run.row.verdict, run.java.output.strip(), run.python.output.strip()) == EXPECTED[key]


def test_netty_shares_writes_and_a_fork_does_not():
    """Claim N9, first correction: retainedDuplicate() is not copy-on-write."""
    run = run_row("duplicate")
    assert run.row.verdict == MISLEADING
    assert "retainedDuplicate()" in run.java.code and "the write was seen: true" in run.java.output
    assert "the write was seen: False" in run.python.output


def test_the_thread_cache_is_a_stock_of_free_memory():
    """Claim N9, second correction: the counterpart of PoolThreadCache is a worker's local cache, not the block table.
    What is given back to it, the arena does not hear of; what is taken from it neither."""
    run = run_row("cache")
    assert run.row.verdict == MISLEADING and run.row.kv == "block table"
    assert "taken twice, the arena saw: 1" in run.java.output
    assert "taken twice, the pool saw: 1" in run.python.output


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_code_fits_beside_its_counterpart(row):
    assert [line for line in (row.java + row.python).splitlines() if len(line) > 57] == []


def test_an_unknown_row_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="no pair 'nothing'.*duplicate"):
        run_row("nothing")


@pytest.mark.parametrize("name", ["pool", " Pool ", "PoolArena", "gpu memory pool"])
def test_a_row_is_found_by_its_key_and_by_either_name(name):
    assert run_row(name).row.key == "pool"


def test_a_row_reads_as_text():
    text = str(run_row("duplicate"))
    assert text.startswith("retainedDuplicate()  ↔  fork + copy-on-write:  misleading\n")
    assert "    ByteBuf duplicate = original.retainedDuplicate();\n" in text
    assert "  > the write was seen: true\n" in text and text.endswith("  > the write was seen: False")


def press(table, key):
    """What the browser sends when the button of a row is pressed."""
    table._handle_msg({"content": {"data": {"method": "custom", "content": {"run": key}}}, "buffers": []})


def test_a_button_runs_its_row():
    """Claim N9."""
    table = mapping_table()
    assert table.runs == {}
    press(table, "duplicate")
    press(table, "refcount")
    press(table, "refcount")
    assert {key: run["times"] for key, run in table.runs.items()} == {"duplicate": 1, "refcount": 2}
    shown = table.runs["duplicate"]
    assert "the write was seen: true" in shown["java"]["output"]
    assert "the write was seen: False" in shown["python"]["output"]
    assert "retainedDuplicate" in shown["java"]["code"] and "<span" in shown["java"]["code"]


@pytest.mark.parametrize("content", ["duplicate", {}, {"run": "nothing"}, {"run": None}, None])
def test_a_message_that_is_none_of_the_buttons_does_nothing(content):
    table = mapping_table()
    table._handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})
    assert table.runs == {}


def test_a_button_answers_on_another_thread_too():
    """A kernel answers buttons on a thread of their own; what Java prints then stays in the row."""
    table = mapping_table()
    thread = threading.Thread(target=press, args=(table, "refcount"))
    thread.start()
    thread.join()
    assert "retained: 2" in table.runs["refcount"]["java"]["output"]


def test_what_a_row_prints_is_not_printed_in_the_notebook(capsys):
    run_row("refcount")
    assert capsys.readouterr().out == ""


def test_without_widgets_the_table_is_text_and_html():
    """Claim N9: on GitHub all pairs can be read, each with its verdict in words."""
    table = mapping_table()
    data, _ = table._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == repr(table)
    for row in ROWS:
        assert f"{row.netty}  ↔  {row.kv}:  {row.verdict}\n" in data["text/plain"]
        assert f"<b>{row.verdict}</b>" in data["text/html"]
    assert data["text/html"].count("<tr>") == len(ROWS) + 1


def test_without_java_the_python_side_still_runs(monkeypatch):
    from pagedkv.java import jvm
    from pagedkv.java.jdk import JdkNotFound

    def no_jdk():
        raise JdkNotFound("No JDK 17 or newer was found.")

    monkeypatch.setattr(jvm, "start", no_jdk)
    run = run_row("refcount")
    assert run.java.error == "Java does not start: JdkNotFound: No JDK 17 or newer was found."
    assert run.java.output == "" and "retained: 2" in run.python.output
    assert mapping._shown(run.java, mapping.JavaLexer())["error"] == run.java.error


def test_java_that_does_not_compile():
    ran = run_java("int wrong = ;")
    assert "error in line 1" in ran.error and ran.output == ""


def test_java_that_throws():
    ran = run_java('System.out.print("so far");\nthrow new IllegalStateException("no more");')
    assert (ran.output, ran.error) == ("so far", "IllegalStateException: no more")
    assert str(ran) == "so far\nIllegalStateException: no more"


def test_python_that_raises():
    ran = run_python("print('a', 1, sep='-')\nraise LookupError('no more')")
    assert (ran.output, ran.error) == ("a-1\n", "LookupError: no more")


def test_python_that_is_no_python():
    assert run_python("1 +").error.startswith("SyntaxError")


def test_a_snippet_sees_no_names_of_another():
    run_python("left_behind = 1")
    assert run_python("print(left_behind)").error == "NameError: name 'left_behind' is not defined"


def test_nothing_printed_is_said():
    assert str(run_python("1 + 1")) == "(nothing printed)"
    assert snippets.Ran("x", "", "boom").__str__() == "boom"
