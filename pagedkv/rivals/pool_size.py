"""How large is a pool that is allocated at the start? The product of five numbers, of which one is easily forgotten.

The formula (sequences × blocks each, plus some slack, × a block's bytes) counts the bytes of one block *in one layer*
only: each of a model's layers has keys and values of its own. With 256 sequences of 128 blocks, 15 % slack and 0.5 MiB
per block and layer, one layer takes 18.4 GiB and 32 layers 588.8 GiB (claim B8). So the number of layers has no default
here, and a device that cannot hold the result is an error.
"""

from pagedkv.core.arguments import as_count
from pagedkv.core.memory import as_text


def preallocated_pool_blocks(max_sequences: int, max_blocks_per_sequence: int, slack_percent: int = 15) -> int:
    """Blocks for so many sequences of the greatest length, and some percent more, rounded up."""
    sequences = _at_least_1(max_sequences, "max_sequences")
    blocks = sequences * _at_least_1(max_blocks_per_sequence, "max_blocks_per_sequence")
    return -(-blocks * (100 + as_count(slack_percent, "slack_percent")) // 100)


def preallocated_pool_bytes(max_sequences: int, max_blocks_per_sequence: int, layer_block_bytes: int, num_layers: int,
                            slack_percent: int = 15, device_bytes: int | None = None) -> int:
    """The bytes of such a pool over all layers. layer_block_bytes: keys and values of one block in one layer.

    With device_bytes, raises ValueError if the device has less; the message says how many sequences it could hold."""
    blocks = preallocated_pool_blocks(max_sequences, max_blocks_per_sequence, slack_percent)
    block_bytes = _at_least_1(layer_block_bytes, "layer_block_bytes") * _at_least_1(num_layers, "num_layers")
    pool_bytes = blocks * block_bytes
    if device_bytes is not None and pool_bytes > device_bytes:
        fit = device_bytes * 100 // (block_bytes * max_blocks_per_sequence * (100 + slack_percent))
        raise ValueError(
            f"{blocks:,} blocks of {num_layers} × {as_text(layer_block_bytes)} are {as_text(pool_bytes)}, and the "
            f"device has {as_text(device_bytes)}: enough for {fit} sequences of full length. Lower max_sequences or "
            "max_blocks_per_sequence; few sequences reach the greatest length, and a paged pool need not provide for "
            "all of them")
    return pool_bytes


def _at_least_1(value: object, what: str) -> int:
    value = as_count(value, what)
    if not value:
        raise ValueError(f"{what} is at least 1")
    return value
