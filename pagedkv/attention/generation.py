"""`Generation`: several texts that grow at the same time, one token each at every step.

A *step* is one pass of the model. Each text gets its most likely next token (*greedy*), which is appended when the next
step begins; then the new token's keys and values are computed. A text ends with a token that says so (*eos*, end of
sequence), or when it has enough tokens; its blocks are given back at once, while the others go on. Texts may join and
fork between two steps.
"""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack

from pagedkv.core.arguments import as_count
from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.manager import Sequence
from pagedkv.core.tokens import as_token


class Text:
    """One of them.

    owner      its name, as in events
    prompt     the tokens it began with; of a fork, those of the text it came from, its new ones included
    tokens     the new ones
    sequence   in the manager; freed when the text has ended
    ended_by   "eos", "length" or "stopped"; None while it grows
    """

    def __init__(self, owner: Hashable, prompt: list[int], sequence: Sequence, most_tokens: int):
        self.owner, self.prompt, self.sequence, self.most_tokens = owner, prompt, sequence, most_tokens
        self.tokens: list[int] = []
        self.ended_by: str | None = None

    def __repr__(self) -> str:
        return f"<{self.owner}: {len(self.prompt)} + {len(self.tokens)} tokens, {self.ended_by or 'growing'}>"

    @property
    def _is_due(self) -> bool:
        """Whether its last token, which came from the last step, is not appended yet."""
        return self.sequence.num_tokens < len(self.prompt) + len(self.tokens)


class Generation:
    """Made by `PagedModel.generation`. Iterating over it runs the steps; each gives the texts that got a token.

    texts      all of them, in the order in which they came
    """

    def __init__(self, paged, max_new_tokens: int, eos_token_id: int | Iterable[int] | None = None):
        self._paged = paged
        self.max_new_tokens = as_count(max_new_tokens, "max_new_tokens")
        self._ends = _eos_tokens(paged.model, eos_token_id)
        self.texts: list[Text] = []
        self.num_steps = 0

    @property
    def growing(self) -> list[Text]:
        return [text for text in self.texts if text.ended_by is None]

    def add(self, prompt: Iterable[int], owner: Hashable = None, salt: str | bytes | None = None,
            max_new_tokens: int | None = None) -> Text:
        """A text that joins at the next step."""
        most = self.max_new_tokens if max_new_tokens is None else as_count(max_new_tokens, "max_new_tokens")
        seq = self._paged.add(prompt, owner, salt)
        text = Text(seq.owner, list(self._paged.tokens(seq)), seq, most)
        self.texts.append(text)
        if not most:
            self._end(text, "length")
        return text

    def fork(self, text: Text, token: int, owner: Hashable = None, max_new_tokens: int | None = None) -> Text:
        """A second text that goes on with `token` where this one goes on with its last token, or, before its first
        step, with its first one. Both share all blocks so far. `token` counts as the first of max_new_tokens."""
        if text.ended_by is not None:
            raise ValueError(f"{text.owner} has ended: fork a text that still grows")
        most = text.most_tokens - max(len(text.tokens) - 1, 0) if max_new_tokens is None else max_new_tokens
        most, token = as_count(most, "max_new_tokens"), as_token(token)
        self._paged.check_tokens([token])
        seq = self._paged.fork(text.sequence, owner)
        child = Text(seq.owner, list(self._paged.tokens(seq)), seq, most)
        self.texts.append(child)
        if most:
            self._take(child, token)
        else:
            self._end(child, "length")
        return child

    def stop(self, text: Text) -> None:
        """End a text now, and give its blocks back."""
        if text.ended_by is None:
            self._end(text, "stopped")

    def step(self) -> list[Text]:
        """One step of all texts that still grow; none: []. Raises OutOfBlocks if they do not all find room for one more
        token: then nothing has happened, and it can be repeated once something was freed."""
        growing = self.growing
        if not growing:
            return []
        due = [text for text in growing if text._is_due]
        try:
            self._paged.append([text.sequence for text in due], [text.tokens[-1] for text in due])
        except OutOfBlocks as error:
            raise OutOfBlocks(f"step {self.num_steps}, {len(growing)} texts are growing: {error}. Their sequences are "
                              "as they were: end one with generation.stop(text) and go on, or make the PagedModel with "
                              "more blocks") from None
        logits = self._paged.forward([text.sequence for text in growing])
        self.num_steps += 1
        for text, token in zip(growing, logits.argmax(-1).tolist()):
            self._take(text, token)
        return growing

    def __iter__(self) -> Iterator[list[Text]]:
        while self.growing:
            yield self.step()

    def close(self) -> None:
        """Stop all that still grow. If freeing one raises, the others are freed all the same."""
        with ExitStack() as ending:
            for text in reversed(self.growing):
                ending.callback(self._end, text, "stopped")

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def _take(self, text: Text, token: int) -> None:
        text.tokens.append(token)
        if token in self._ends:
            self._end(text, "eos")
        elif len(text.tokens) >= text.most_tokens:
            self._end(text, "length")

    def _end(self, text: Text, why: str) -> None:
        text.ended_by = why
        if text.sequence.is_live:
            self._paged.free(text.sequence)


def _eos_tokens(model, eos_token_id: int | Iterable[int] | None) -> set[int]:
    if eos_token_id is None:
        generation_config = getattr(model, "generation_config", None)
        eos_token_id = getattr(generation_config, "eos_token_id", None)
        if eos_token_id is None:
            eos_token_id = getattr(model.config, "eos_token_id", None)
    if eos_token_id is None:
        return set()
    if hasattr(eos_token_id, "tolist"):  # a tensor, an array or a number of NumPy's
        eos_token_id = eos_token_id.tolist()
    return {as_token(token) for token in (eos_token_id if isinstance(eos_token_id, Iterable) else [eos_token_id])}
