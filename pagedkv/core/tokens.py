"""Token ids, of whatever integer type they come in, as the bytes that a prefix cache compares.

A token id is an integer that fits int32. Whether a tokenizer gives a list, NumPy's int64 or a tensor of torch, a
prompt becomes one buffer of 4 bytes per token, in the machine's byte order; a slice of it is one block's contents.
"""

from array import array
from collections.abc import Iterable
from struct import error as StructError, pack

from pagedkv.core.arguments import as_integer

TOKEN_BYTES = 4
_INT32 = {code for code in "il" if array(code).itemsize == TOKEN_BYTES}  # the machine's letters for it


def as_token_bytes(token_ids: Iterable[int]) -> bytes:
    """A prompt as bytes: 4 for each token. An array of int32, Python's or NumPy's, is not converted.

    Raises TypeError for anything but a flat sequence of integers, ValueError for an id that does not fit int32. (A mask
    is refused as a whole; a single bool in a list counts as 0 or 1, since a look at each type would cost more than all
    the rest.)"""
    kind = type(token_ids)
    if kind is list or kind is tuple:
        return pack_tokens(token_ids)
    if kind is array and token_ids.typecode in _INT32:
        return token_ids.tobytes()
    if isinstance(token_ids, (str, bytes, bytearray)) or not isinstance(token_ids, Iterable):
        raise TypeError(f"token ids are a sequence of integers, such as [101, 7592], got {_short(token_ids)}")
    try:
        view = memoryview(token_ids)
    except TypeError:
        return _packed_slowly(token_ids)
    if view.ndim == 1 and view.itemsize == TOKEN_BYTES and view.format in _INT32:
        return view.tobytes()
    return _packed_slowly(token_ids)


def as_token(token: object) -> int:
    """One token id as a plain int. Raises TypeError for a non-integer, ValueError if it does not fit int32."""
    token = as_integer(token, "a token id")
    if not -2**31 <= token < 2**31:
        raise ValueError(f"a token id fits int32, got {token}")
    return token


def as_tokens(buffer: bytes) -> tuple[int, ...]:
    """The token ids in a buffer."""
    return tuple(memoryview(buffer).cast("i"))


def pack_tokens(token_ids: list | tuple) -> bytes:
    """Token ids as bytes. Raises as `as_token_bytes`, and names the first id that is wrong."""
    try:
        return pack(f"={len(token_ids)}i", *token_ids)  # faster than array("i", token_ids)
    except StructError:
        for position, token in enumerate(token_ids):
            try:
                as_token(token)
            except (TypeError, ValueError) as error:
                raise type(error)(f"position {position}: {error}") from None
        raise


def _packed_slowly(token_ids: Iterable) -> bytes:
    """Whatever has to become a list first: int64 arrays, tensors, ranges, generators."""
    values = token_ids.tolist() if hasattr(token_ids, "tolist") else list(token_ids)
    if not isinstance(values, list) or bool in map(type, values):  # a mask is not a prompt
        raise TypeError(f"token ids are a flat sequence of integers, got {_short(token_ids)}")
    return pack_tokens(values)


def _short(value: object, most: int = 60) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}… ({type(value).__name__})"
