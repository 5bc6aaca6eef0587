"""`SharedKVStorage`: keys and values in a pool that several processes share.

    paged = PagedModel(model, storage=SharedKVStorage.create_for("kv", model, num_blocks=512))    in one process
    paged = PagedModel(model, storage=SharedKVStorage.join("kv", model))                          in the others

It is a `KVStorage` on the CPU whose tensor lies in shared memory. Within a block of the pool the order is that of
`KVStorage.data` without the blocks:

    [0 keys | 1 values, layer, KV head, offset in the block, number of the head]

so a block is one piece of memory, for `SharedPool.buffer` and for Java too. Seen as `data` the same bytes are strided: from
one block to the next it is `stride_bytes` of the pool.

The pool knows sizes in bytes and tokens, not what they mean. So all who join have to say the same model; what can be
compared, the bytes of a block and the tokens in it, is.
"""

import torch

from pagedkv.shared import SharedPool
from pagedkv.storage.kv_storage import KVStorage, Rows, dtype_of, sizes_of


class SharedKVStorage(KVStorage):
    """The keys and values of the blocks of `pool`, a `SharedPool` with tokens_per_block.

    pool     whose blocks these are; closing it is up to whoever made it. A tensor of this storage keeps the memory mapped
             after that, but must not be used any more

    The rest as in `KVStorage`. Raises ValueError if the pool's blocks are not of the size that this model needs."""

    def __init__(self, pool: SharedPool, num_layers: int, num_kv_heads: int, head_dim: int,
                 dtype: torch.dtype = torch.float16, zero_on_reuse: bool = False):
        if not isinstance(pool, SharedPool):
            raise TypeError(f"a shared storage needs a SharedPool, got {pool!r}")
        if not pool.tokens_per_block:
            raise ValueError(f"the pool {pool.name!r} does not know how many tokens a block has: create it with "
                             "tokens_per_block=16, or as many as it is to have")
        self.pool = pool
        super().__init__(num_layers, num_kv_heads, head_dim, pool.num_blocks, pool.tokens_per_block, dtype, "cpu",
                         zero_on_reuse)

    @classmethod
    def create(cls, name: str, num_layers: int, num_kv_heads: int, head_dim: int, num_blocks: int, block_size: int = 16,
               dtype: torch.dtype = torch.float16, zero_on_reuse: bool = False, replace: bool = False) -> "SharedKVStorage":
        """Make the pool as well, see `SharedPool.create`."""
        block_bytes = 2 * num_layers * num_kv_heads * head_dim * block_size * dtype.itemsize
        pool = SharedPool.create(name, num_blocks, block_bytes, tokens_per_block=block_size, replace=replace)
        try:
            return cls(pool, num_layers, num_kv_heads, head_dim, dtype, zero_on_reuse)
        except BaseException:
            pool.close()
            pool.unlink()
            raise

    @classmethod
    def create_for(cls, name: str, model, num_blocks: int, block_size: int = 16, dtype: torch.dtype | None = None,
                   replace: bool = False) -> "SharedKVStorage":
        """`create` for a model of transformers, or its configuration; the model's dtype if none is given."""
        return cls.create(name, *sizes_of(model), num_blocks, block_size, dtype_of(model, dtype), replace=replace)

    @classmethod
    def join(cls, name: str, model, dtype: torch.dtype | None = None) -> "SharedKVStorage":
        """Join the pool of this name, for the same model in the same dtype."""
        pool = SharedPool.join(name)
        try:
            return cls(pool, *sizes_of(model), dtype_of(model, dtype))
        except BaseException:
            pool.close()
            raise

    def _allocate(self) -> None:
        pool, vector_bytes = self.pool, self.vector_bytes
        if pool.block_bytes != self.block_bytes:
            raise ValueError(f"the pool {pool.name!r} has blocks of {pool.block_bytes} bytes; {self.block_size} tokens take "
                             f"{self.block_bytes} in this model and {self.dtype}: it was made for another one")
        if pool.stride_bytes % vector_bytes:
            raise ValueError(f"from one block of the pool {pool.name!r} to the next it is {pool.stride_bytes} bytes, which is "
                             f"no multiple of the {vector_bytes} of one key: take more tokens in a block, or no guards")
        flat = torch.frombuffer(pool.all_blocks(), dtype=self.dtype)
        per_block = pool.stride_bytes // self.dtype.itemsize
        heads, size, dim = self.num_kv_heads, self.block_size, self.head_dim
        per_layer = heads * size * dim
        self.data = flat.as_strided((2, self.num_layers, self.num_blocks, heads, size, dim),
                                    (self.num_layers * per_layer, per_layer, per_block, size * dim, dim, 1))
        # As rows, a token's keys of one head each, all blocks; a layer's rows begin where its first one is.
        self._rows_per_block = per_block // dim
        rows = flat[:len(flat) // dim * dim].view(-1, dim)
        self._layers = [(rows[layer * heads * size:], rows[(self.num_layers + layer) * heads * size:])
                        for layer in range(self.num_layers)]

    def rows_unchecked(self, slots: torch.Tensor) -> Rows:
        size = self.block_size
        first = (slots // size)[:, None] * self._rows_per_block + (slots % size)[:, None]
        return Rows(len(slots), (first + torch.arange(self.num_kv_heads) * size).view(-1))

