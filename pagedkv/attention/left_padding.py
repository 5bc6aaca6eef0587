"""How many columns of padding a batch has in front of each row."""

import torch


def left_padding(input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> list[int]:
    """Both are [batch, tokens]; the mask has 0 where there is padding, 1 elsewhere, and None means none.

    Raises ValueError for padding that is not on the left, for a row of nothing else, and for a mask of another
    shape."""
    if attention_mask is None:
        return [0] * len(input_ids)
    if attention_mask.shape != input_ids.shape:
        raise ValueError(f"the attention_mask is {list(attention_mask.shape)}, the input_ids are "
                         f"{list(input_ids.shape)}: both come from the same call of the tokenizer")
    mask = attention_mask.ne(0).cpu()
    counts = mask.sum(1).tolist()
    width = mask.shape[1]
    for row, count in enumerate(counts):
        if not count:
            raise ValueError(f"row {row} is nothing but padding: a prompt has at least one token")
        if not mask[row, width - count:].all():
            raise ValueError(f"row {row} is not padded on the left: set tokenizer.padding_side = 'left'. A text that "
                             "is padded on the right would have to go on after its padding")
    return [width - count for count in counts]
