"""Small workloads for pictures: the same calls on whatever pool they are given, the same on every run.

A *workload* is a function that takes a pool and calls it. It keeps each request's blocks in a list, the request's
*table*, as a server would.
"""

import random

PROMPT_BLOCKS = 10  # the prompt that most requests begin with
NUM_BLOCKS = 96     # enough for `a_few_requests`


def a_few_requests(pool, seed: int = 11) -> None:
    """Six requests, A to F, come one after the other, grow block by block, and finish. All but D begin with the same
    prompt and share its blocks with a request that runs. Needs a pool of NUM_BLOCKS blocks."""
    rng = random.Random(seed)
    waiting = list("ABCDEF")
    tables: dict[str, list[int]] = {}
    lengths = {name: PROMPT_BLOCKS + rng.randint(8, 16) for name in waiting}
    while waiting or tables:
        if waiting and rng.random() < 0.4:
            name = waiting.pop(0)
            tables[name] = _begin(pool, name, tables)
        for name in rng.sample(sorted(tables), len(tables)):
            if len(tables[name]) < lengths[name]:
                tables[name] += pool.allocate(1, owner=name)
            else:
                pool.release(tables.pop(name), owner=name)


def _begin(pool, name: str, tables: dict[str, list[int]]) -> list[int]:
    """The blocks that a new request begins with: those of the prompt, shared if somebody has them."""
    holder = next((other for other in tables if other != "D"), None)
    if name == "D" or holder is None:
        return pool.allocate(PROMPT_BLOCKS, owner=name)
    prompt = tables[holder][:PROMPT_BLOCKS]
    pool.retain(prompt, owner=name)
    return prompt
