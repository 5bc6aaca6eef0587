"""How large is a pool that is allocated at the start? The product of five numbers, of which one is easily forgotten.

The formula (sequences × blocks each, plus some slack, × a block's bytes) counts the bytes of one block *in one layer*
only: each of a model's layers has keys and values of its own. With 256 sequences of 128 blocks, 15 % slack and 0.5 MiB
per block and layer, one layer takes 18.4 GiB and 32 layers 588.8 GiB (claim B8). So the number of layers has no default
here, and a device that cannot hold the result is an error.

The arithmetic is that of every plan for a pool, and so lies with the others in `pagedkv.core.sizing`.
"""

from pagedkv.core.sizing import preallocated_pool_blocks, preallocated_pool_bytes

__all__ = ["preallocated_pool_blocks", "preallocated_pool_bytes"]
