"""A made-up tokenizer for the tests of texts: it has what makes real ones difficult to read token by token."""

from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.events import Recording, record
from pagedkv.core.manager import KVCacheManager


class ByteTokenizer:
    """Words with the blank before them, and a token for each byte. Like many, it leaves out the blank at the beginning of
    a text, and its vocabulary has names in GPT-2's letters for bytes."""

    def __init__(self, words: str):
        self.words = [" " + word for word in words.split()]

    def encode(self, text: str) -> list[int]:
        """Words that it knows as one token each, everything else in bytes."""
        tokens, at = [], 0
        while at < len(text):
            known = max((word for word in self.words if text.startswith(word, at)), key=len, default=None)
            if known:
                tokens.append(256 + self.words.index(known))
                at += len(known)
            else:
                tokens += text[at].encode()
                at += 1
        return tokens

    def decode(self, tokens: list[int]) -> str:
        parts = [self.words[token - 256].encode() if token >= 256 else bytes([token]) for token in tokens]
        return b"".join(parts).decode(errors="replace").removeprefix(" ")

    def convert_ids_to_tokens(self, token: int) -> str:
        data = self.words[token - 256].encode() if token >= 256 else bytes([token])
        printable = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte]
        others = [byte for byte in range(256) if byte not in printable]
        return "".join(chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in data)

    def __call__(self, text: str) -> None:
        raise AssertionError("a tokenizer of transformers can be called, with a text: that is not how tokens are read")


TOKENIZER = ByteTokenizer("You are a helpful assistant . Answer in one short sentence What is paging ? Where do blocks go "
                          "Paging maps logical blocks to physical ones so nothing has be contiguous They live anywhere and "
                          "the table says where café")
SYSTEM_TEXT = " You are a helpful assistant . Answer in one short sentence ."


def generated(manager=None, between=lambda: None, device=False) -> Recording:
    """What a model does with several sequences at once: two questions with one beginning, a fork that goes on in another
    way, one that ends early, and one that comes later. `between` is called between two steps."""
    manager = manager or KVCacheManager(num_blocks=32, block_size=4)
    encode, recorder, mib = TOKENIZER.encode, None, 2**20
    if manager.observer is None:
        recorder = record(manager, "live CUDA pool · NVIDIA H200" if device else None)
    if device:
        hear = manager.observer
        manager.observer = lambda event: hear(event._replace(detail=event.detail | {
            "device_allocated_bytes": (900 + 3 * event.step) * mib,
            "device_reserved_bytes": (1024 + event.step // 12 * 64) * mib}))
    try:
        a = manager.add_sequence(encode(SYSTEM_TEXT + " What is paging ?"), owner="A")
        b = manager.add_sequence(encode(SYSTEM_TEXT + " Where do blocks go ?"), owner="B")
        answers = {a: encode(" Paging maps logical blocks to physical ones so nothing has to be contiguous ."),
                   b: encode(" They live anywhere 🙂 .")}
        step = 0
        while answers:
            if step == 6:
                c = manager.fork(a, owner="C")
                answers[c] = encode(" places .\nThe table says where")
            if step == 14:
                d = manager.add_sequence(encode(SYSTEM_TEXT + " What is café ?"), owner="D")
                answers[d] = encode(" 你好 .")
            between()
            manager.append_tokens(list(answers), [answer.pop(0) for answer in answers.values()])
            for seq in [seq for seq, answer in answers.items() if not answer]:
                manager.free_sequence(seq)
                del answers[seq]
            step += 1
        between()
        taken = []
        while manager.num_empty_blocks or manager.num_cached_blocks > 2:  # what was cached is evicted
            taken += manager.pool.allocate(1, "others")
    except OutOfBlocks as error:
        raise AssertionError("there are blocks enough") from error
    finally:
        if recorder is not None:
            recorder.stop()
    return recorder.recording if recorder else None
