"""How tokens read: as their text where somebody gave one, else as their numbers. front/tokens.js says the same."""

from collections.abc import Callable, Mapping, Sequence

from pagedkv.viz.names import cut

TokenText = Mapping[int, str] | Callable[[int], str] | None


def as_token_text(token_text: TokenText) -> Callable[[int], str] | None:
    """A function from a token to its text; tokens that a mapping does not know read as their numbers."""
    if token_text is None:
        return None
    if isinstance(token_text, Mapping):
        return lambda token: cut(str(token_text.get(token, token)))
    if callable(token_text):
        return lambda token: cut(str(token_text(token)))
    raise TypeError(f"token_text maps a token to its text: a dict or a function, not a {type(token_text).__name__}")


def tokens_in_words(tokens: Sequence[int], token_text: Callable[[int], str] | None, most: int = 64) -> str:
    """The tokens in one line, the first `most` of them. Between two of them stands a blank, unless one brings its own:
    then what a tokenizer has cut up is put together again."""
    words = [str(token) if token_text is None else token_text(token) for token in tokens[:most]]
    own = any(word != word.strip() for word in words)
    text = ("" if own else " ").join(words).replace("\n", "⏎").strip()
    return text if len(tokens) <= most else f"{text} …"
