"""What notebook 05 runs: prompts made of words, and small experiments with managers of sequences."""

from collections.abc import Callable, Iterable

from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.manager import KVCacheManager, Sequence
from pagedkv.java import jclass
from pagedkv.lab.sharing_pictures import Row


class Words:
    """A tokenizer for pictures: each word is one token, numbered in the order in which words are first seen.

        words = Words()
        words("What is paging ?")     # [0, 1, 2, 3]
        words.text                    # {0: "What", 1: "is", …}, for the pictures
    """

    def __init__(self):
        self.text: dict[int, str] = {}
        self._tokens: dict[str, int] = {}

    def __call__(self, text: str) -> list[int]:
        tokens = []
        for word in text.split():
            token = self._tokens.setdefault(word, len(self._tokens))
            self.text[token] = word
            tokens.append(token)
        return tokens

    def read(self, tokens: Iterable[int]) -> str:
        """The words of these tokens, and · for a place where none was written."""
        return " ".join(self.text.get(token, "·") for token in tokens)


def found_while_evicting(make_manager: Callable[..., KVCacheManager], num_full_blocks: int = 4,
                         block_size: int = 4) -> list[int]:
    """A prompt is served and freed in a pool that it fills. Then others take block after block: how many of the
    prompt's blocks are found again after each one."""
    manager = make_manager(num_blocks=num_full_blocks + 1, block_size=block_size)
    prompt = list(range(num_full_blocks * block_size + 1))
    manager.free_sequence(manager.add_sequence(prompt))
    manager.pool.allocate(1)  # the one that was never full, hence is empty
    found = [len(manager.find(prompt))]
    for _ in range(num_full_blocks):
        manager.pool.allocate(1)
        found.append(len(manager.find(prompt)))
    return found


def serve_until_full(manager: KVCacheManager, serve: Callable[[KVCacheManager, int], Sequence], most: int) -> int:
    """How many requests are served, one after the other, until the manager refuses one; `most` if it refuses none."""
    for number in range(most):
        try:
            serve(manager, number)
        except OutOfBlocks:
            return number
    return most


def ask(manager: KVCacheManager, prompt: Iterable[int], salt: str | None = None) -> int:
    """A short request with this prompt: how many of its tokens need not be computed. What it waits for its first token
    tells as much to whoever sent it."""
    with manager.sequence(prompt, salt=salt) as seq:
        return seq.num_cached_tokens


def spy_out(manager: KVCacheManager, known: list[int], candidates: dict[str, list[int]], filler: int,
            salt: str | None = None) -> dict[str, int]:
    """What somebody learns who can only send prompts and take the time: for each candidate the number of tokens behind
    `known` that somebody else has computed before. Each guess fills a block, else it would not be looked up."""
    size = manager.block_size
    learnt = {}
    for name, tokens in candidates.items():
        prompt = known + tokens
        padded = prompt + [filler] * (-len(prompt) % size) + [filler]  # the last token is never looked up
        learnt[name] = max(0, ask(manager, padded, salt) - len(known) // size * size)
    return learnt


def fork_rows() -> list[Row]:
    """What A and its fork B read at the end of `pagedkv.sharing.ForkDemo`: without a copy, then with one."""
    demo = jclass("pagedkv.sharing.ForkDemo")
    rows = []
    for name, rule in (("no copy", "NaiveFork"), ("copied", "CopyOnWrite")):
        result = demo.run(jclass(f"pagedkv.sharing.{rule}")())
        common = [1, 2, 3, 4, 5, 6]
        for who, blocks, tokens, last in (("A", result.blocksOfA(), result.tokensOfA(), 7),
                                          ("B", result.blocksOfB(), result.tokensOfB(), 8)):
            rows.append(Row(f"{name}: {who}", list(map(int, blocks)), list(map(int, tokens)), [*common, last]))
    return rows
