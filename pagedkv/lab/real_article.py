"""The three classes of the manager article, to be run and looked at; nothing else uses them.

They count as the article's do: written down in few lines, with what is wrong in them left as it is (claim B11). The call
by which the article gets its memory does not exist in PyTorch, so `torch.zeros` stands there.
"""

import time

import torch


class Block:
    """A view of one block's keys and values, with a count."""

    def __init__(self, block_id: int, keys: torch.Tensor, values: torch.Tensor):
        self.block_id, self.keys, self.values = block_id, keys, values
        self.ref_count = 0
        self.owner: str | None = None
        self.last_access = 0.0

    def touch(self) -> None:
        self.ref_count += 1
        self.last_access = time.monotonic()


class BlockPool:
    """One tensor for all keys and one for all values: [block, token, head, head_dim], and no layer."""

    def __init__(self, num_blocks: int, block_size: int, num_heads: int, head_dim: int):
        self.block_size = block_size
        self.keys = torch.zeros(num_blocks, block_size, num_heads, head_dim)
        self.values = torch.zeros_like(self.keys)
        self.blocks = [Block(number, self.keys[number], self.values[number]) for number in range(num_blocks)]
        self.free = list(self.blocks)

    def allocate(self, owner: str) -> Block:
        block = self.free.pop()
        block.ref_count, block.owner = 1, owner
        return block

    def release(self, block: Block) -> None:
        block.ref_count -= 1
        if block.ref_count == 0:
            block.owner = None
            self.free.append(block)

    def free_owner(self, owner: str) -> None:
        """The second way back: it does not ask the count."""
        for block in self.blocks:
            if block.owner == owner:
                block.owner = None
                self.free.append(block)


class SequenceManager:
    """Which blocks a sequence has."""

    def __init__(self, pool: BlockPool):
        self.pool = pool
        self.sequences: dict[str, list[Block]] = {}

    def add_sequence(self, name: str, num_tokens: int) -> None:
        num_blocks = -(-num_tokens // self.pool.block_size)
        self.sequences[name] = [self.pool.allocate(name) for _ in range(num_blocks)]

    def write_kv(self, name: str, position: int, key: torch.Tensor, value: torch.Tensor) -> None:
        block = self.sequences[name][position // self.pool.block_size]
        block.keys[position % self.pool.block_size] = key
        block.values[position % self.pool.block_size] = value
        block.touch()

    def get_kv_cache(self, name: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        for block in self.sequences[name]:
            block.touch()
        return [(block.keys, block.values) for block in self.sequences[name]]

    def remove_sequence(self, name: str) -> None:
        for block in self.sequences.pop(name):
            self.pool.release(block)
