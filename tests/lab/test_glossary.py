"""The glossary: complete, sorted, and found by any of its words."""

import pytest

from pagedkv.lab.glossary import all_terms, glossary

TERMS = all_terms()


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.term)
def test_a_term_is_complete(term):
    assert term.term and term.chinese and term.meaning.endswith((".", "…"))
    assert all(text == text.strip() for text in term.columns)
    assert any("\u4e00" <= letter <= "\u9fff" for letter in term.chinese)


def test_no_term_twice_and_all_sorted():
    names = [term.term.casefold() for term in TERMS]
    assert names == sorted(set(names))
    assert len({term.chinese for term in TERMS}) == len(TERMS)


@pytest.mark.parametrize("name", [
    "arena", "block", "block table", "chunk", "copy-on-write", "decode", "double free", "eviction",
    "external fragmentation", "fragmentation", "free list", "internal fragmentation", "KV cache", "leak", "page",
    "paged attention", "pool", "prefill", "prefix cache", "reference count", "sequence", "subpage", "swap",
    "thread cache", "token", "use after free"])
def test_what_the_first_notebooks_use_is_there(name):
    assert name in [term.term for term in TERMS]


def test_without_a_word_everything():
    assert glossary().terms == TERMS
    assert glossary("  ").terms == TERMS


@pytest.mark.parametrize("word, term", [("Block Table", "block table"), ("块表", "block table"), ("refcnt", "reference count"),
                                        ("TLAB", "thread cache"), ("computes only", "KV cache")])
def test_found_by_a_word_of_any_column(word, term):
    assert term in [found.term for found in glossary(word).terms]
    assert len(glossary(word).terms) < len(TERMS)


def test_a_word_that_is_not_there():
    assert repr(glossary("blok")) == "Nothing here about 'blok'. Did you mean block?"
    assert f"shows all {len(TERMS)} terms" in repr(glossary("zzzz"))
    assert "&lt;zzz&gt;" in glossary("<zzz>")._repr_html_()
    assert "Nothing here about '12'" in repr(glossary(12))


@pytest.mark.parametrize("word, found, not_found", [("hole", None, "prefill"), ("oom", None, "block"),
                                                    ("copy on write", "copy-on-write", "block"), ("引用", "reference", "block")])
def test_words_are_found_by_their_beginning(word, found, not_found):
    names = [term.term for term in glossary(word).terms]
    assert not_found not in names and (found is None or found in names)


def test_how_it_is_shown():
    [term] = [term for term in TERMS if term.term == "subpage"]
    assert str(term) == "subpage  子页\n    Netty: PoolSubpage\n    Pages cut into equal small pieces for small buffers."
    html = glossary("subpage")._repr_html_()
    assert ">子页</td>" in html and ">PoolSubpage</td>" in html
