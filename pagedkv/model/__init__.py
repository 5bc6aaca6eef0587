"""A real, small language model: fetched once, kept on this machine, loaded without a network.

    from pagedkv.model import load_model
    model, tokenizer = load_model()

It is SmolLM2-135M-Instruct (Apache-2.0): 30 layers, 9 query heads in groups of 3 over 3 KV heads, 64 elements per head,
so a token takes 22.5 KiB of KV cache in fp16. Small enough for a CPU, and a model like any other.

- The *cache* is the folder on this machine where the model is kept (`cache.py`).
- A *source* is a place to get it from (`sources.py`): a Python package that carries the weights, else the hub.
- To *convert* is to read the source's format once, which takes half a minute, and to write what transformers reads in a
  second or two (`making.py`).

`python -m pagedkv.model` does all that beforehand. Importing this package loads neither torch nor transformers.
"""

from pagedkv.model.errors import ModelNotAvailable
from pagedkv.model.loading import is_ready, load_model
from pagedkv.model.making import ensure_model

__all__ = ["ModelNotAvailable", "ensure_model", "is_ready", "load_model"]
