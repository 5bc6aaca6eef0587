"""The texts of sequences: what is stored for each at every frame, the same in Python and in the browser's own code."""

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from pagedkv.core.events import Event, Recording, record
from pagedkv.core.manager import KVCacheManager
from pagedkv.viz import BlockGrid, KVCacheView
from pagedkv.viz.tape import Tape
from pagedkv.viz.texts import cut_in_the_middle, most_telling, texts_at
from pagedkv.viz.texts_plot import _line_starts
from pagedkv.viz.tokens import as_token_text, read_tokens, tokens_in_words
from pagedkv.viz.words import caption
from tests.viz.kv_recordings import BY_HAND, WORDS, chat, copy_frame, random_chat
from tests.viz.recordings import SHARED_AND_CACHED, random_recording, told
from tests.viz.tokenizers import TOKENIZER, ByteTokenizer, generated

JS = Path(__file__).with_name("js")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")

GENERATED = generated(device=True)
MIB = 2**20


def read(tape, frame):
    """Owner → its text, at a frame."""
    return {tape.owners[text.owner]: "".join(read_tokens(text.tokens, tape.token_text, tape.joins_pieces)).strip()
            for text in texts_at(tape, frame)}


def tape_of(recording, token_text=TOKENIZER):
    return Tape(recording, token_text=token_text, texts=True)


def text_of(tape, frame, owner):
    text, = [each for each in texts_at(tape, frame) if tape.owners[each.owner] == owner]
    return text


def frame_after(recording, op, owner, number=0):
    """The frame at which this owner's event of that kind has been carried out."""
    return 1 + [at for at, event in enumerate(recording.events) if (event.op, event.owner) == (op, owner)][number]


# ── what a text is ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_and_what_is_appended():
    tape, recording = tape_of(chat(), WORDS), chat()
    first = frame_after(recording, "allocate", "A")
    assert read(tape, first - 1) == {}
    assert read(tape, first) == {
        "A": "<s> You are a helpful assistant . Answer in one short sentence What is paging ? It"}
    text = text_of(tape, first, "A")
    assert (text.num_there, text.num_tokens, text.is_finished) == (0, 17, False)
    assert [len(stretch.tokens) for stretch in text.stretches] == [4, 4, 4, 4, 1]
    assert read(tape, frame_after(recording, "write", "A"))["A"].endswith("What is paging ? It maps")


def test_a_cached_prefix_was_there_already_and_is_shared():
    tape, recording = tape_of(chat(), WORDS), chat()
    found = frame_after(recording, "retain", "B")
    assert read(tape, found)["B"] == "<s> You are a helpful assistant . Answer in one short sentence"
    text = text_of(tape, frame_after(recording, "allocate", "B"), "B")
    assert (text.num_there, text.num_tokens) == (12, 17)
    assert [stretch.shared for stretch in text.stretches] == [True, True, True, False, False]
    assert read(tape, frame_after(recording, "allocate", "B"))["B"].endswith("short sentence Who wrote Faust ? Goethe")


def test_a_fork_that_goes_on_in_another_way():
    tape, recording = tape_of(chat(), WORDS), chat()
    forked = frame_after(recording, "retain", "C")
    assert read(tape, forked)["C"] == read(tape, forked)["A"]
    assert text_of(tape, forked, "C").num_there == 19
    # a copy stands beside its source for a moment, and nobody's text is longer by it
    copied = copy_frame(recording)
    assert tape.copy_under_way(copied) and tape.copy_under_way(copied + 1)
    assert read(tape, copied) == read(tape, copied + 1) == read(tape, forked)
    end = frame_after(recording, "release", "B") - 1
    assert read(tape, end)["C"].endswith("It maps pages to sharing saves blocks")
    assert read(tape, end)["A"].endswith("It maps pages frames")
    assert not text_of(tape, end, "C").stretches[-1].shared


def test_who_has_finished_keeps_its_text_even_after_its_blocks_hold_something_else():
    tape = tape_of(GENERATED)
    ends = {owner: [at for at, event in enumerate(GENERATED.events) if event.op == "release" and event.owner == owner
                    and "replaced_by" not in event.detail][0] for owner in "ABCD"}
    last = read(tape, len(tape))
    assert last == {owner: read(tape, at)[owner] for owner, at in ends.items()}
    for owner, at in ends.items():
        assert not text_of(tape, at, owner).is_finished and text_of(tape, at + 1, owner).is_finished
        assert not any(stretch.shared for stretch in text_of(tape, at + 1, owner).stretches)
    # all of them are evicted at the end but two, and a prefix that was found is told of nevertheless
    assert sum(event.op == "evict" for event in GENERATED.events) > 5
    assert last["B"] == "You are a helpful assistant . Answer in one short sentence . Where do blocks go ? They live anywhere 🙂 ."
    assert last["C"].startswith(last["A"][:90]) and last["C"].endswith("physical places .⏎The table says where")
    assert last["D"].endswith("What is café ? 你好 .")


def test_who_takes_blocks_without_a_word_is_no_sequence():
    assert "others" in tape_of(GENERATED).owners and "others" not in read(tape_of(GENERATED), len(GENERATED))
    assert texts_at(tape_of(SHARED_AND_CACHED), 5) == []


def test_what_was_there_before_the_recording():
    manager = KVCacheManager(num_blocks=16, block_size=2)
    before = manager.add_sequence([1, 2, 3], owner="before")
    manager.add_sequence([5, 6, 7], owner="gone")
    with record(manager) as recording:
        found = manager.add_sequence([1, 2, 3, 4, 5], owner="found")
        manager.append_token(before, 8)
        manager.append_token(before, 9)
        manager.append_token(found, 6)
    tape = Tape(recording, token_text=None, texts=True)
    text = text_of(tape, len(tape), "found")
    assert (text.tokens, text.num_there, text.num_missing) == ([1, 2, 3, 4, 5, 6], 2, 0)
    old = text_of(tape, len(tape), "before")
    assert (old.tokens, old.num_missing, old.num_tokens) == ([9], 4, 5)


def test_an_owner_may_begin_again():
    tape = tape_of(told(("allocate", "A", [1], {"num_tokens": 1, "tokens": (5,)}), ("release", "A", [1]),
                        ("allocate", "A", [2], {"num_tokens": 1, "tokens": (6,)}), ("release", "A", [2]),
                        ("allocate", "A", [3])), None)
    assert [[(text.begin, text.is_finished, text.tokens) for text in texts_at(tape, frame)] for frame in range(6)] == [
        [], [(0, False, [5])], [(0, True, [5])], [(2, False, [6])], [(2, True, [6])], [(2, True, [6])]]


@pytest.mark.parametrize("seed", range(4))
def test_the_texts_are_the_tokens_of_the_sequences(seed):
    chance, manager, size = random.Random(seed), KVCacheManager(num_blocks=30, block_size=3), 3
    live, ended = {}, {}
    with record(manager) as recording:
        for number in range(120):
            kind = chance.random()
            if (kind < 0.3 or not live) and manager.num_free_blocks > 12:
                tokens = chance.choices(range(2), k=chance.randint(1, 4 * size))
                live[manager.add_sequence(tokens)] = tokens
            elif kind < 0.4 and manager.num_free_blocks > 12:
                seq = chance.choice(list(live))
                live[manager.fork(seq)] = list(live[seq])
            elif kind < 0.5 or manager.num_free_blocks <= 12:
                seq = chance.choice(list(live))
                ended[seq] = live.pop(seq)
                manager.free_sequence(seq)
            else:
                seq, token = chance.choice(list(live)), chance.randrange(2)
                manager.append_token(seq, token)
                live[seq].append(token)
    tape = Tape(recording, block_size_tokens=size, texts=True)
    texts = {tape.owners[text.owner]: text for text in texts_at(tape, len(tape))}
    assert {owner: text.tokens for owner, text in texts.items()} == \
        {seq.owner: tokens for seq, tokens in (live | ended).items()}
    assert {owner for owner, text in texts.items() if text.is_finished} == {seq.owner for seq in ended}
    assert all(texts[seq.owner].num_there == seq.num_cached_tokens for seq in live | ended)


# ── the same in the browser ──────────────────────────────────────────────────────────────────────────────────────────


def in_the_browser(messages, frames, most=None, wanted=()):
    """What the front end's modules make of these messages, under Node."""
    pieces = []
    for message in messages:
        packed = [name for name, value in message.items() if isinstance(value, bytes)]
        pieces.append(message | {name: base64.b64encode(message[name]).decode() for name in packed} | {"packed": packed})
    run = subprocess.run(["node", str(JS / "show_texts.mjs")], capture_output=True, text=True, timeout=60,
                         input=json.dumps({"pieces": pieces, "frames": frames, "most": most, "wanted": wanted}))
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def as_seen(tape, texts):
    """Texts as the browser writes them."""
    seen = []
    for text in texts:
        pieces = read_tokens(text.tokens, tape.token_text, tape.joins_pieces)
        seen.append({"owner": text.owner, "begin": text.begin, "there": text.num_there, "finished": text.is_finished,
                     "missing": text.num_missing, "numTokens": text.num_tokens,
                     "stretches": [[each.block, list(each.tokens), each.shared] for each in text.stretches],
                     "read": pieces, "words": tokens_in_words(text.tokens, tape.token_text, 5),
                     "cut": [list(cut_in_the_middle(pieces, room)) for room in (9, 40, 400)]})
    return seen


RECORDINGS = {"generated": (GENERATED, TOKENIZER), "chat": (chat(), WORDS), "numbers": (chat(), None),
              "by hand": (BY_HAND, lambda token: "x" * token), "random": (random_chat(1), {0: " a", 1: "b\n"}),
              "untold": (random_recording(3), None)}


@needs_node
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_browser_shows_the_same_texts(name):
    recording, token_text = RECORDINGS[name]
    tape, chance = Tape(recording, token_text=token_text, texts=True), random.Random(name)
    frames = [*range(len(tape) + 1), *chance.choices(range(len(tape) + 1), k=20)]
    for frame, shown in zip(frames, in_the_browser([tape.message()], frames)):
        assert shown["texts"] == as_seen(tape, texts_at(tape, frame)), frame
        assert shown["device"] == [tape.device_allocated_bytes[frame], tape.device_reserved_bytes[frame]]
        assert shown["tellsDevice"] == tape.tells_device


@needs_node
def test_a_tape_that_grows_tells_the_same():
    tape, pieces = Tape(Recording(GENERATED.num_blocks), token_text=TOKENIZER, texts=True), []
    pieces.append(tape.message())
    for begin, end in ((0, 1), (1, 2), (2, 30), (30, 31), (31, len(GENERATED))):
        known = len(tape), len(tape.owners), tape.num_notes
        tape.add(GENERATED.events[begin:end])
        pieces.append(tape.message(*known))
    frames = [len(GENERATED), 3, 40, 0, 29]
    whole = in_the_browser([Tape(GENERATED, token_text=TOKENIZER, texts=True).message()], frames)
    assert in_the_browser(pieces, frames) == whole


@needs_node
@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_the_same_ones_are_left_out(most):
    tape = tape_of(GENERATED)
    frames = list(range(0, len(tape) + 1, 7))
    for frame, shown in zip(frames, in_the_browser([tape.message()], frames, most, [1])):
        texts = texts_at(tape, frame)
        assert shown["texts"] == as_seen(tape, most_telling(texts, most, [1]))
        assert shown["more"] == len(texts) - len(shown["texts"])


def test_a_live_tape_splits_a_first_prompt_into_blocks():
    """Nobody said how long blocks are; the event that fills the first ones comes with the prompt's."""
    tape = Tape(Recording(32), texts=True)
    tape.add(chat().events[:2])
    assert [len(stretch.tokens) for stretch in texts_at(tape, 2)[0].stretches] == [4, 4, 4, 4, 1]


def test_texts_are_sent_only_where_they_are_asked_for():
    assert "texts" not in Tape(chat()).message() and "texts" not in KVCacheView(chat(), token_text=WORDS).tapes[0].message()
    assert Tape(chat(), texts=True).message()["texts"] is True
    assert KVCacheView(chat(), texts=True).tapes[0].message()["texts"] is True


# ── how tokens read ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_pieces_of_a_tokenizer():
    encode, pieces = TOKENIZER.encode, as_token_text(TOKENIZER)
    assert pieces(encode(" paging")[0]) == " paging", "the blank that decode leaves out at the beginning"
    assert pieces(ord(" ")) == " " and pieces(ord("x")) == "x"
    text = " What is café ? 你好\n🙂, ü"
    tokens = encode(text)
    read = read_tokens(tokens, pieces, True)
    assert len(read) == len(tokens) and "".join(read) == text.replace("\n", "⏎")
    assert tokens_in_words(tokens, pieces) == text.strip().replace("\n", "⏎")
    # half a character, and one that is broken off
    assert read_tokens(list("你".encode()[:2]), pieces, True) == ["", "�"]
    assert read_tokens([*"你".encode()[:2], ord("x")], pieces, True) == ["", "", "�x"]


def test_a_token_that_is_not_told_reads_as_its_name():
    class Silent(ByteTokenizer):
        def decode(self, tokens):
            return super().decode([token for token in tokens if token != 0])

        def convert_ids_to_tokens(self, token):
            return super().convert_ids_to_tokens(token) if token else "<|end|>"

    assert as_token_text(Silent(""))(0) == "<|end|>"


def test_bytes_as_another_vocabulary_writes_them():
    class Fallback(ByteTokenizer):
        def convert_ids_to_tokens(self, token):
            return f"<0x{token:02X}>"

    assert "".join(read_tokens(list("é你".encode()), as_token_text(Fallback("")), True)) == "é你"


def test_a_tokenizer_of_transformers():
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer, bare.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    bare.train_from_iterator(["the quick brown fox jumps over the lazy dog. " * 20], trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"],
        show_progress=False))
    tokens = bare.encode("the fox, 你好 🙂").ids
    for tokenizer in (bare, PreTrainedTokenizerFast(tokenizer_object=bare, eos_token="<|end|>")):
        pieces = as_token_text(tokenizer)
        assert "".join(read_tokens([*tokens, bare.token_to_id("<|end|>")], pieces, True)) == "the fox, 你好 🙂<|end|>"
        assert KVCacheView(GENERATED, token_text=tokenizer, texts=True).tapes[0].joins_pieces


def test_a_long_text_loses_its_middle():
    pieces = [" word"] * 1000
    head, tail = cut_in_the_middle(pieces, 300)
    assert head and tail > head and 5 * (head + tail) + 18 <= 300 < 5 * (head + tail) + 30
    assert cut_in_the_middle(["x" * 500], 10) == (0, 1), "the newest is always shown"
    assert cut_in_the_middle([], 10) == (0, 0) and cut_in_the_middle(["ab", "c"], 3) == (2, 0)
    assert cut_in_the_middle(["你好"], 3) == (0, 1) and cut_in_the_middle(["你好"], 4) == (1, 0)


# ── the widget and its picture ───────────────────────────────────────────────────────────────────────────────────────


def letters_in(view):
    return "\n".join(text.get_text() for axes in view.still().figure.axes for text in axes.texts)


def test_the_picture_has_the_texts_with_a_description(recwarn):
    view = KVCacheView(GENERATED, token_text=TOKENIZER, texts=True, frame=60)
    alt = view.still().alt
    assert "Texts: A (finished · 30 tokens): “You are a helpful … 16 tokens … to physical ones" in alt
    assert "D (20 tokens, 12 there already): “You are a helpful assistant ." in alt
    drawn = letters_in(view)
    assert "2 going on, 2 finished" in drawn and "there already: found in the cache, or shared by a fork" in drawn
    newest = [text for axes in view.still().figure.axes for text in axes.texts if text.get_weight() == "bold" and
              text.get_family() == ["monospace"] and text.get_text() != "abc"]
    assert [text.get_text() for text in newest] == ["e", "□"]
    view.still().png()
    assert not [str(each.message) for each in recwarn if "Glyph" in str(each.message)]


def drawn_texts(view):
    """The axes of the texts in the picture, drawn."""
    figure = view.still().figure
    figure.canvas.draw()
    return next(axes for axes in figure.axes if any(text.get_text() == "Texts" for text in axes.texts))


def test_what_stands_under_a_name_ends_before_the_text():
    """However many tokens there are."""
    events = told(("allocate", "A", range(22), {"num_tokens": 88, "tokens": tuple(range(88))}),
                  ("retain", "B", range(22), {"num_tokens": 88, "forked_from": "A"}),
                  ("allocate", "B", range(22, 29), {"num_tokens": 114, "tokens": tuple(range(26))}),
                  ("release", "B", [*range(29)], {})).events
    view = KVCacheView(Recording(32, events=events), block_size_tokens=4, texts=True, frame=4)
    axes = drawn_texts(view)
    state, = [text for text in axes.texts if text.get_text().startswith("finished · 114 tokens, 88 there")]
    first = min(text.get_window_extent().x0 for text in axes.texts
                if text.get_family() == ["monospace"] and text.get_text() != "abc")
    assert state.get_window_extent().x1 < first - 4


def test_lines_end_between_words():
    words = {number: f" word{number:02}" for number in range(30)}
    for length in (12, 13, 16, 19, 22, 24, 30):  # a picture takes a moment: both ends, and blocks full and not
        events = told(("allocate", "A", range(8), {"num_tokens": length, "tokens": tuple(range(length))})).events
        view = KVCacheView(Recording(32, events=events), block_size_tokens=4, texts=True, frame=1, token_text=words)
        drawn = [text.get_text() for text in drawn_texts(view).texts if text.get_family() == ["monospace"]]
        pieces = [word for text in drawn if text != "abc" for word in text.split()]
        left_out = [pieces.index("…"), len(pieces) - pieces[::-1].index("…")] if "…" in pieces else [0, 0]
        shown = pieces[:left_out[0]] + pieces[left_out[1]:]
        assert shown and set(shown) <= {word.strip() for word in words.values()}
        assert "…" in pieces or len(shown) == length
        assert shown[-1] == words[length - 1].strip(), "the newest is shown"


def test_where_lines_begin():
    assert _line_starts("", 10) == [0] == _line_starts("abcde fghi", 10)
    assert _line_starts("abcde fghij", 10) == [0, 6]
    assert _line_starts("abcde      fghij", 10) == [0, 11], "blanks at the end of a line take no room"
    assert _line_starts("abc " + "x" * 25, 10) == [0, 4, 14, 24], "a word that is longer than a line"
    assert _line_starts("x" * 10 + " y", 10) == [0, 11]


def test_without_texts_the_picture_is_as_it_was():
    view = KVCacheView(chat(), token_text=WORDS, frame=10)
    assert "Texts" not in letters_in(view) and "Texts" not in view.still().alt
    plain = KVCacheView(SHARED_AND_CACHED, texts=True)
    assert "Texts" not in letters_in(plain) and plain.still().png() == KVCacheView(SHARED_AND_CACHED).still().png()


@pytest.mark.parametrize("recording", [Recording(0), Recording(4), random_recording(2, trusted=True),
                                       random_chat(1, 400, 2, 60), BY_HAND],
                         ids=["no blocks", "no events", "random", "large", "by hand"])
def test_any_recording_with_texts(recording):
    for frame in (0, len(recording) // 2, len(recording)):
        assert KVCacheView(recording, texts=True, frame=frame).still().png().startswith(b"\x89PNG")


def test_the_devices_memory():
    view = KVCacheView(GENERATED, frame=60)
    tape = view.tapes[0]
    assert tape.device_allocated_bytes[:3].tolist() == [-1, 900 * MIB, 903 * MIB]
    assert view.still().alt.endswith("Device memory: allocated 1.05 GiB, reserved 1.25 GiB")
    assert "device memory, 0 … 1.56 GiB" in letters_in(view) and "reserved 1.25 GiB" in letters_in(view)
    none = KVCacheView(generated(), frame=60)
    assert not none.tapes[0].tells_device and "evice memory" not in letters_in(none) + none.still().alt
    assert "device_reserved" not in none.tapes[0].message()


@pytest.mark.parametrize("figure", [None, "many", 1.5, -1, True, 2**60])
def test_whatever_the_device_says_is_shown_or_left_out(figure):
    grid = BlockGrid(told(("allocate", "A", [1], {"device_allocated_bytes": figure, "device_reserved_bytes": figure}),
                          ("allocate", "A", [2], {"device_allocated_bytes": 5, "device_reserved_bytes": 7})))
    assert grid.tapes[0].device_reserved_bytes.tolist() == [-1, -1, 7]
    assert grid.still().png() and grid.get_state("tapes")


def test_live(monkeypatch, capsys):
    sent = []
    monkeypatch.setattr(KVCacheView, "send", lambda self, content, buffers=None: sent.append(content))

    class Paged:
        """A model with a paged cache, as far as a recording sees it."""
        num_blocks, num_free_blocks, source, observer = 32, 32, "live CUDA pool · NVIDIA H200", None

        def refcounts(self):
            return [0] * 32

        def cache_contents(self):
            return []

    paged = Paged()
    with KVCacheView.live(paged, token_text=TOKENIZER, texts=True) as view:
        for event in GENERATED.events:
            paged.observer(event)
        with pytest.raises(RuntimeError, match="another observer"):
            with KVCacheView.live(paged):
                pass
    assert paged.observer is None and {"token_text", "token_joins", "texts"} <= set(sent[0]["tape"])
    assert {"told", "device_allocated"} <= set(sent[0]["columns"])
    assert view.frame == len(GENERATED) and view.recording.source == "live CUDA pool · NVIDIA H200"
    assert read(view.tapes[0], len(GENERATED)) == read(tape_of(GENERATED), len(GENERATED))
    assert repr(view).startswith("KV cache · live CUDA pool · NVIDIA H200 · 32 blocks")
    with pytest.raises(TypeError, match="colour"):
        with KVCacheView.live(paged, colour="red"):
            pass
    assert paged.observer is None, "what cannot be shown is not observed either"


def test_a_caption_with_half_a_character():
    tape = tape_of(told(("allocate", "A", [1], {"num_tokens": 1, "tokens": (0xE4,)}),
                        ("write", "A", [1], {"num_tokens": 3, "tokens": (0xBD, 0xA0)})))
    assert caption(tape, 2) == "A writes “��” into block 1"
    assert isinstance(told(("allocate", "A", [1])).events[0], Event) and read(tape, 2) == {"A": "你"}
