"""How tokens read: as their text where somebody gave one, else as their numbers. front/tokens.js says the same.

Whoever shows tokens may give as `token_text`
    a tokenizer   anything with decode(list of tokens) → text, such as one of transformers or tokenizers
    a mapping     from a token to its text
    a function    from a token to its text

A *piece* is what one token adds to a text. A tokenizer's pieces bring their own blanks, and stand next to each other as
they are; from a mapping or a function they do so only if one of them begins or ends with a blank. A piece may be a part
of a character (*partial*): a byte or two of its UTF-8. It reads as "�" alone, and as the character where its other parts
stand beside it.
"""

import codecs
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pagedkv.viz.names import cut


class Decodes(Protocol):
    """A tokenizer, as far as it is needed here."""

    def decode(self, tokens: list[int], /) -> str: ...


TokenText = Mapping[int, str] | Callable[[int], str] | Decodes | None

_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_NO_BYTES: Mapping[int, bytes] = {}


def as_token_text(token_text: TokenText) -> Callable[[int], str] | None:
    """A function from a token to its text; tokens that a mapping does not know read as their numbers."""
    if token_text is None:
        return None
    if isinstance(token_text, Mapping):
        return lambda token: cut(str(token_text.get(token, token)))
    if callable(getattr(token_text, "decode", None)):  # first: the tokenizers of transformers are functions as well
        return Pieces(token_text)
    if callable(token_text):
        return lambda token: cut(str(token_text(token)))
    raise TypeError(f"token_text maps a token to its text: a dict or a function, not a {type(token_text).__name__}; "
                    "or it is a tokenizer with decode(tokens)")


class Pieces:
    """A tokenizer's pieces, token by token.

    partial   the bytes of the tokens met so far that are parts of characters
    """

    def __init__(self, tokenizer: Decodes):
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}
        self.partial: dict[int, bytes] = {}

    def __call__(self, token: int) -> str:
        text = self._texts.get(token)
        if text is None:
            text = self._texts[token] = cut(self._read(token))
        return text

    def _read(self, token: int) -> str:
        decode = self._tokenizer.decode
        alone, twice = decode([token]), decode([token, token])
        # Many tokenizers leave out the blank that a text begins with; the second of two has it.
        text = twice[len(alone):] if twice.startswith(alone) and len(twice) > len(alone) else alone
        if not text:  # a special token, which this tokenizer does not tell
            return self._name(token) or str(token)
        if _UNREADABLE in text:
            part = _bytes_in_name(self._name(token))
            if part is not None:
                self.partial[token] = part
        return text

    def _name(self, token: int) -> str | None:
        """What the vocabulary calls it."""
        for method in ("convert_ids_to_tokens", "id_to_token"):
            if hasattr(self._tokenizer, method):
                name = getattr(self._tokenizer, method)(token)
                return name if isinstance(name, str) else None
        return None


def read_tokens(tokens: Sequence[int], token_text: Callable[[int], str] | None, joins: bool) -> list[str]:
    """The pieces of these tokens, one for each; put together they are the text, in one line. A character that several
    tokens make stands in the piece of its last one, the others are empty.

    joins   whether pieces bring their own blanks; if not, one stands before each but the first
    """
    partial = getattr(token_text, "partial", _NO_BYTES)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = []
    for token in tokens:
        text = str(token) if token_text is None else token_text(token)  # before the look whether it is partial
        if token in partial:
            text = decoder.decode(partial[token])
        elif partial:
            text = decoder.decode(b"", True) + text  # what was begun and not finished reads as "�"
            decoder.reset()
        pieces.append((" " if pieces and not joins else "") + text.replace("\n", "⏎").replace("\t", " "))
    if pieces and partial:
        pieces[-1] += decoder.decode(b"", True)
    return pieces


def tokens_in_words(tokens: Sequence[int], token_text: Callable[[int], str] | None, most: int = 64) -> str:
    """The tokens in one line, the first `most` of them. Between two of them stands a blank, unless one brings its own:
    then what a tokenizer has cut up is put together again."""
    if isinstance(token_text, Pieces):
        text = "".join(read_tokens(tokens[:most], token_text, True)).strip()
        return text if len(tokens) <= most else f"{text} …"
    words = [str(token) if token_text is None else token_text(token) for token in tokens[:most]]
    own = any(word != word.strip() for word in words)
    text = ("" if own else " ").join(words).replace("\n", "⏎").strip()
    return text if len(tokens) <= most else f"{text} …"


def _byte_alphabet() -> dict[str, int]:
    """The letters that stand for bytes in the vocabulary of a byte-level tokenizer, as GPT-2's was the first to have
    it: printable ones of Latin-1 for themselves, and those from U+0100 on for the others, in their order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _bytes_in_name(name: str | None) -> bytes | None:
    """The bytes that a token stands for, from its name in a vocabulary of bytes: "ä½", or "<0xE4>"."""
    if not name:
        return None
    if name.startswith("<0x") and name.endswith(">"):
        try:
            return bytes([int(name[3:-1], 16)])
        except ValueError:
            return None
    return bytes(map(_BYTE_OF.__getitem__, name)) if all(letter in _BYTE_OF for letter in name) else None
