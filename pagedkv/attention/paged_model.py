"""`PagedModel`: a model of transformers whose keys and values lie in the blocks of a pool.

    paged = PagedModel(model, num_blocks=512)
    with paged.sequence(token_ids) as seq:
        logits = paged.forward([seq])           # of the token that comes next
        paged.append(seq, logits[0].argmax())
        logits = paged.forward([seq])

It holds the model together with a `KVCacheManager`, which knows which block holds which tokens, and a `KVStorage`, in
which the keys and values are. A *pass* runs the model once over the tokens that are not computed yet, of any number of
sequences: a *prefill* where there are many of one, a *decode* step where each has one. They stand one behind the other
in a batch of 1, without padding.

The order of things in a pass is what the manager asks for: carry out the block copies, write the new tokens' keys and
values, go on. If a pass fails nothing of it counts, and it can be repeated.
"""

import inspect
import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary, ref

import torch

from pagedkv.attention.backends import backend as backend_function, choose_backend
from pagedkv.attention.batch import PagedBatch
from pagedkv.attention.generation import Generation
from pagedkv.attention.model_check import check_model, check_storage
from pagedkv.attention.progress import Progress, ProgressOfAll
from pagedkv.attention.step import PagedStep, split
from pagedkv.attention.transformers_cache import PagedCache, packed_pass
from pagedkv.attention.trial import try_out
from pagedkv.core.arguments import as_count
from pagedkv.core.errors import UseAfterFree
from pagedkv.core.events import Event
from pagedkv.core.manager import KVCacheManager, Sequence
from pagedkv.core.tokens import as_token_bytes, as_tokens, pack_tokens
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage
from pagedkv.storage.shared_storage import SharedKVStorage

Span = tuple[Progress, int, int]  # of one sequence, the positions from … up to but not including


class PagedModel:
    """A causal language model of transformers, on a paged cache.

    num_blocks       of the pool, each with room for block_size tokens in all layers; 16 if nothing is said
    dtype            what the model computes in; it can be left out
    backend          of the attention: see `pagedkv.attention.backends`
    int8             store keys and values in INT8
    zero_on_reuse    wipe blocks that are handed out again
    max_query_tokens of one pass: a longer prompt is computed in several, which bounds the memory that a pass needs
    storage          one that exists already, instead of num_blocks, block_size, int8 and zero_on_reuse. It belongs to
                     one PagedModel at a time: another one would hand out the same blocks. With a `SharedKVStorage` the
                     blocks are those of a pool in shared memory, and what another process has computed is found

    manager, storage, backend   its parts; add, append, fork and free through this object, not through the manager
    source                      what it is, for people to read

    A model that is new is tried out first, on a few tokens: it has to give the same logits as without a cache. Raises
    ValueError, with the reason, for one that does not, and for a storage that does not fit the model; OutOfDeviceMemory
    if the pool does not fit.

    One thread at a time for a model, however many of these it has.
    """

    _of_storages: "WeakKeyDictionary[KVStorage, ref[PagedModel]]" = WeakKeyDictionary()

    def __init__(self, model, num_blocks: int | None = None, block_size: int | None = None,
                 dtype: torch.dtype | None = None, backend: str = "auto", int8: bool = False,
                 zero_on_reuse: bool = False, max_query_tokens: int = 2048, storage: KVStorage | None = None):
        check_model(model)
        if storage is None:
            if num_blocks is None:
                raise TypeError("how large is the pool? Give num_blocks, or a storage")
            kind = Int8KVStorage if int8 else KVStorage
            if dtype is not None and dtype != model.dtype:
                raise ValueError(f"the model computes in {model.dtype}, and keys and values of {dtype} were asked for: "
                                 f"leave the dtype out, or convert the model with model.to({dtype})")
            storage = kind.for_model(model, num_blocks, 16 if block_size is None else block_size, model.dtype,
                                     model.device, zero_on_reuse)
        else:
            _check_the_same(storage, num_blocks=num_blocks, block_size=block_size, dtype=dtype, int8=int8 or None,
                            zero_on_reuse=zero_on_reuse or None)
        check_storage(model, storage)
        self.max_query_tokens = as_count(max_query_tokens, "max_query_tokens")
        if not self.max_query_tokens:
            raise ValueError("max_query_tokens is at least 1")
        try_out(model)
        owner = self._of_storages.get(storage)
        if owner is not None and owner() is not None:
            raise ValueError("this storage belongs to another PagedModel, which hands out its blocks: make a storage "
                             "for each, or use that PagedModel")
        self._of_storages[storage] = ref(self)
        self.model, self.storage = model, storage
        self.manager = KVCacheManager(pool=storage.pool) if isinstance(storage, SharedKVStorage) else \
            KVCacheManager(storage.num_blocks, storage.block_size)
        self.backend = choose_backend(backend, storage)
        self._attend = backend_function(self.backend)
        self.progress = ProgressOfAll(storage.block_size)
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._copies: list[tuple[int, int]] = []  # taken from the manager, and not carried out yet
        self._most_tokens = getattr(model.config, "max_position_embeddings", None)
        self._vocab_size = model.get_input_embeddings().weight.shape[0]
        self.abandoned: list = []  # what PagedCaches held that nobody holds any more
        self._observer: Callable[[Event], None] | None = None

    def __repr__(self) -> str:
        return f"<PagedModel: {self.source}, attention {self.backend}, {self.manager!r}>"

    # ── what can be observed: the same as of a pool ──────────────────────────────────────────────────────────────────

    @property
    def source(self) -> str:
        device = self.storage.device
        if device.type == "cuda":
            return f"live CUDA pool · {torch.cuda.get_device_name(device)}"
        path = str(getattr(self.model.config, "_name_or_path", "") or "").rstrip("/")
        return f"KV cache of {path.rsplit('/', 1)[-1] or type(self.model).__name__} on the CPU"

    @property
    def num_blocks(self) -> int:
        return self.manager.num_blocks

    @property
    def block_size(self) -> int:
        return self.manager.block_size

    @property
    def num_free_blocks(self) -> int:
        self._free_abandoned()
        return self.manager.num_free_blocks

    def refcount(self, block: int) -> int:
        self._free_abandoned()
        return self.manager.refcount(block)

    def refcounts(self) -> list[int]:
        self._free_abandoned()
        return self.manager.refcounts()

    def cache_contents(self) -> list[Event]:
        return self.manager.cache_contents()

    @property
    def observer(self) -> Callable[[Event], None] | None:
        """Called with the manager's events. On a GPU their detail also says what PyTorch has allocated and reserved."""
        return self._observer

    @observer.setter
    def observer(self, observer: Callable[[Event], None] | None) -> None:
        self._observer = observer
        on_gpu = self.storage.device.type == "cuda" and observer is not None
        self.manager.observer = self._tell_with_device_memory if on_gpu else observer

    def _tell_with_device_memory(self, event: Event) -> None:
        device = self.storage.device
        self._observer(event._replace(detail=event.detail | {
            "device_allocated_bytes": torch.cuda.memory_allocated(device),
            "device_reserved_bytes": torch.cuda.memory_reserved(device)}))

    # ── sequences ────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, token_ids: Iterable[int], owner: Hashable = None, salt: str | bytes | None = None) -> Sequence:
        """A new sequence with this prompt. Nothing is computed yet.

        Raises what `KVCacheManager.add_sequence` raises, and ValueError for more tokens than the model has positions,
        and for an id that is not in its vocabulary."""
        self._free_abandoned()
        if _is_batch(token_ids):
            raise TypeError("this is a batch, and a sequence has one prompt, [tokens]: add_all takes several")
        tokens = list(as_tokens(as_token_bytes(token_ids)))
        self._check_length(len(tokens))
        self.check_tokens(tokens)
        before = self.manager.live_sequences[-1:]
        try:
            seq = self.manager.add_sequence(tokens, salt, owner)
        except BaseException:
            for new in self.manager.live_sequences[-1:]:
                if (new,) != before:  # it was an observer that raised, and nobody would ever free this one
                    self.manager.free_sequence(new, new.num_cached_tokens)
            raise
        self.progress.add(seq, tokens)
        return seq

    def add_all(self, prompts: Iterable[Iterable[int]], salt: str | bytes | None = None) -> list[Sequence]:
        """Several at once: all of them or, if one is refused, none."""
        seqs: list[Sequence] = []
        try:
            for prompt in prompts:
                seqs.append(self.add(prompt, salt=salt))
        except BaseException:
            self.free(seqs[::-1])
            raise
        return seqs

    @contextmanager
    def sequence(self, token_ids: Iterable[int], owner: Hashable = None, salt: str | bytes | None = None
                 ) -> Iterator[Sequence]:
        """`add` for a `with` block: it is freed on every way out."""
        seq = self.add(token_ids, owner, salt)
        try:
            yield seq
        finally:
            if seq.is_live:
                self.free(seq)

    def append(self, seqs: Sequence | Iterable[Sequence], tokens: int | Iterable[int]) -> None:
        """One more token for each of these sequences, or one for a single one: all of them or, with OutOfBlocks, none.
        Raises ValueError where the model has no more positions, and for a token that is not in its vocabulary."""
        self._free_abandoned()
        if isinstance(seqs, Sequence):
            seqs, tokens = [seqs], [tokens]
        seqs = list(seqs)
        tokens = tokens.tolist() if isinstance(tokens, torch.Tensor) else \
            [token.item() if isinstance(token, torch.Tensor) else token for token in tokens]
        all_progress = [self._progress(seq) for seq in seqs]
        for progress in all_progress:
            self._check_length(len(progress.tokens) + 1)
        pack_tokens(tokens)  # refuses what is no token id
        self.check_tokens(tokens)
        try:
            self.manager.append_tokens(seqs, tokens)
        finally:  # if an observer has raised, they are appended
            for progress, token in zip(all_progress, tokens):
                if progress.seq.num_tokens > len(progress.tokens):
                    progress.tokens.append(int(token))

    def fork(self, seq: Sequence, owner: Hashable = None) -> Sequence:
        """A second sequence with the same tokens, in the same blocks. What the first has not computed yet is computed
        now, since a slot that is still empty would be copied empty."""
        progress = self._progress(seq)
        if not progress.is_written:
            self._compute([progress], [])
        before = self.manager.live_sequences[-1:]
        try:
            child = self.manager.fork(seq, owner)
        except BaseException:
            for new in self.manager.live_sequences[-1:]:
                if (new,) != before:
                    self.manager.free_sequence(new)
            raise
        self.progress.fork(progress, child)
        return child

    def free(self, seqs: Sequence | Iterable[Sequence]) -> None:
        """Give the blocks back. What is computed can be found until the blocks are needed. Raises DoubleFree for a
        sequence that is freed already; the others are freed all the same."""
        with ExitStack() as freeing:
            for seq in reversed([seqs] if isinstance(seqs, Sequence) else list(seqs)):
                freeing.callback(self._free, seq)

    def _free(self, seq: Sequence) -> None:
        if seq not in self.progress:
            self.manager.free_sequence(seq)  # refuses, and says why
            return
        progress = self.progress[seq]
        begin = progress.begin
        self.progress.drop(seq)
        self.manager.free_sequence(seq, begin if begin < len(progress.tokens) else None)

    def _free_abandoned(self) -> None:
        while self.abandoned:
            self.abandoned.pop().give_back()

    def tokens(self, seq: Sequence) -> tuple[int, ...]:
        """All tokens of a sequence."""
        return tuple(self._progress(seq).tokens)

    def _progress(self, seq: Sequence) -> Progress:
        try:
            progress = self.progress[seq]
        except (KeyError, TypeError):
            if isinstance(seq, Sequence) and not seq.is_live:
                raise UseAfterFree(f"{seq.owner} is freed") from None
            if isinstance(seq, Sequence):
                raise ValueError(f"{seq.owner} was not added to this PagedModel: add it with "
                                 "paged.add(token_ids)") from None
            raise TypeError(f"expected a sequence of this PagedModel, got {seq!r}") from None
        if seq.num_tokens != len(progress.tokens):
            raise ValueError(f"{seq.owner} has {seq.num_tokens} tokens in the manager, and {len(progress.tokens)} were "
                             "given here: append, fork and free through the PagedModel, which has to know the tokens")
        return progress

    def _check_length(self, num_tokens: int) -> None:
        if self._most_tokens is not None and num_tokens > self._most_tokens:
            raise ValueError(f"the model has positions for {self._most_tokens:,} tokens (max_position_embeddings), and "
                             f"the sequence would have {num_tokens:,}")

    def check_tokens(self, tokens: list[int]) -> None:
        """Raises ValueError, which names the first of them that is not in the model's vocabulary."""
        size = self._vocab_size
        if tokens and not (0 <= min(tokens) and max(tokens) < size):
            place, token = next((place, token) for place, token in enumerate(tokens) if not 0 <= token < size)
            raise ValueError(f"position {place}: {token} is no token of this model; its ids go from 0 to {size - 1:,} "
                             f"(vocab_size {size:,})")

    # ── computing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def forward(self, seqs: Sequence | Iterable[Sequence]) -> torch.Tensor:
        """The logits of the token that comes next, [len(seqs), vocabulary], in the order of `seqs`.

        Computes every token of these sequences that is not computed yet, and before that those of other sequences
        whose blocks they share. Where nothing is left to compute, the last token alone is computed once more."""
        seqs = [seqs] if isinstance(seqs, Sequence) else list(seqs)
        wanted = [self._progress(seq) for seq in seqs]
        if not wanted:
            raise ValueError("forward needs at least one sequence")
        if len(set(wanted)) < len(wanted):
            raise ValueError("a sequence is named twice")
        return self._compute(wanted, wanted)

    def logits_of_all(self, token_ids: Iterable[int]) -> torch.Tensor:
        """The logits after each of these tokens, [tokens, vocabulary]: what the model would have said at every place of
        a given text (*teacher forcing*). All of it is computed, and nothing of it can be found afterwards."""
        with self.sequence(token_ids, salt=f"logits of all {os.getpid()} {id(self)}") as seq:
            progress = self.progress[seq]
            parts = []
            try:
                for spans in self._passes([(progress, 0, len(progress.tokens))]):
                    parts.append(self._run(spans, None))
            finally:
                progress.begin = 0  # so that free forgets the blocks
        return torch.cat(parts)

    def compute(self, spans: list[Span]) -> None:
        """Compute these positions, whose logits nobody wants."""
        for part in self._passes(sorted(spans, key=lambda span: span[0].number)):
            self._run(part, [])

    def _compute(self, todo: list[Progress], wanted: list[Progress]) -> torch.Tensor | None:
        spans = []
        of_interest = set(wanted)
        for progress in self.progress.plan(todo):
            end = len(progress.tokens)
            begin = min(progress.begin, end - 1) if progress in of_interest else progress.begin
            if begin < end:
                spans.append((progress, begin, end))
        found: list[Progress] = []
        logits = []
        for part in self._passes(spans):
            ends = [(row, progress) for row, progress in _last_rows(part) if progress in of_interest]
            result = self._run(part, [row for row, _ in ends])
            if ends:
                logits.append(result)
                found += [progress for _, progress in ends]
        if not wanted:
            return None
        result = logits[0] if len(logits) == 1 else torch.cat(logits)
        if found == wanted:
            return result
        place = {progress: row for row, progress in enumerate(found)}
        return result[[place[progress] for progress in wanted]]

    def _passes(self, spans: list[Span]) -> Iterator[list[Span]]:
        """The same spans, cut and put together so that each list has at most max_query_tokens."""
        part, room = [], self.max_query_tokens
        for progress, begin, end in spans:
            while begin < end:
                cut = min(end, begin + room)
                part.append((progress, begin, cut))
                room -= cut - begin
                begin = cut
                if not room:
                    yield part
                    part, room = [], self.max_query_tokens
        if part:
            yield part

    def _run(self, spans: list[Span], rows: list[int] | None) -> torch.Tensor:
        """One pass. The logits of these rows, [rows, vocabulary]; None: of all."""
        step = self.begin_step(spans)
        tokens = [token for progress, begin, end in spans for token in progress.tokens[begin:end]]
        keep = {}
        if self._keeps_logits and rows is not None and len(rows) < len(tokens):
            # for at least one row, as 0 would mean all
            keep["logits_to_keep"] = torch.tensor(rows or [0], device=self.storage.device)
        logits = packed_pass(self.model, step, tokens, **keep).logits[0]
        self.end_step(spans)
        if rows is not None and not keep and len(rows) < len(tokens):
            logits = logits[rows]
        return logits

    # ── the parts of a pass, for whoever runs the model otherwise ────────────────────────────────────────────────────

    def begin_step(self, spans: list[Span], rows: list[int] | None = None) -> PagedStep:
        """What has to happen before a pass over these positions; `rows`: see `PagedStep`. Those that the sequences wait
        for, and that are not in this pass, are computed first."""
        ends = {progress: end for progress, _, end in spans}
        missing = [other for progress in ends for other, needed in progress.waits_for.items()
                   if max(other.begin, ends.get(other, 0)) < needed]
        if missing:
            self._compute(missing, [])
        self._carry_out_copies()
        new = []
        for progress in ends:
            new += progress.seq.block_table[progress.num_prepared_blocks:]
        if new:
            self.storage.prepare(new)
            for progress in ends:
                progress.num_prepared_blocks = len(progress.seq.block_table)
        what = ([progress.seq.block_table for progress in ends], list(ends.values()),
                [end - begin for _, begin, end in spans], self.storage)
        batch, written = PagedBatch.build(*what), None
        if any(begin < progress.begin for progress, begin, _ in spans):
            flags = [position >= progress.begin for progress, begin, end in spans for position in range(begin, end)]
            # made here, not on the device: there one would have to wait for how many they are
            written = torch.tensor([row for row, flag in enumerate(flags) if flag], dtype=torch.int64,
                                   device=self.storage.device)
        if rows is not None:
            rows = torch.tensor(rows, device=self.storage.device)
        return PagedStep(self.storage, self._attend, batch, rows, written, () if batch.is_decode else split(*what))

    def end_step(self, spans: list[Span]) -> None:
        """The pass has gone through: these positions are written."""
        for progress, _, end in spans:
            if end > progress.begin:
                progress.begin = end
                self.manager.mark_written(progress.seq, end)

    def _carry_out_copies(self) -> None:
        """Copies that could be left half done, by an interrupt, are done again: what is copied was not changed
        meanwhile, and a block that is both source and target is never copied together with others."""
        self._copies += self.manager.take_block_copies()
        while self._copies:
            sources, targets = zip(*self._copies)
            together = len(self._copies) if set(sources).isdisjoint(targets) else 1
            self.storage.copy_blocks(self._copies[:together])
            del self._copies[:together]

    # ── generating ───────────────────────────────────────────────────────────────────────────────────────────────────

    def generation(self, prompts: Iterable[Iterable[int]] = (), max_new_tokens: int = 64,
                   eos_token_id: int | Iterable[int] | None = None, salt: str | bytes | None = None) -> Generation:
        """Greedy generation that can be watched, step by step; more prompts and forks may join later.

            with paged.generation(prompts, max_new_tokens=40) as generation:
                for step in generation:
                    ..."""
        generation = Generation(self, max_new_tokens, eos_token_id)
        try:
            for prompt in prompts:
                generation.add(prompt, salt=salt)
        except BaseException:
            generation.close()
            raise
        return generation

    def generate(self, prompts: Iterable[Iterable[int]], max_new_tokens: int = 64,
                 eos_token_id: int | Iterable[int] | None = None, salt: str | bytes | None = None) -> list[list[int]]:
        """The most likely continuation of each prompt, all of them together: the new tokens, at most max_new_tokens,
        with the one that ends the text if it came.

        eos_token_id   what ends a text; None: what the model's configuration says; []: nothing does
        Raises OutOfBlocks if the pool is too small; then all of these sequences are freed."""
        with self.generation(prompts, max_new_tokens, eos_token_id, salt) as generation:
            for _ in generation:
                pass
            return [text.tokens for text in generation.texts]

    def cache_for(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None,
                  salt: str | bytes | None = None) -> PagedCache:
        """A cache for `model.generate`, with the prompts of this batch; see `PagedCache`.

            with paged.cache_for(**inputs) as cache:
                tokens = model.generate(**inputs, cache=cache)

        Raises OutOfBlocks if the prompts do not fit, ValueError for a batch that is not padded on the left."""
        return PagedCache(self, input_ids, attention_mask, salt)


def _last_rows(spans: list[Span]) -> Iterator[tuple[int, Progress]]:
    """The row of each sequence's last token, for those whose last token is in these spans."""
    row = 0
    for progress, begin, end in spans:
        row += end - begin
        if end == len(progress.tokens):
            yield row - 1, progress


def _check_the_same(storage: KVStorage, **asked) -> None:
    """Raises ValueError if something else was asked for than this storage has."""
    has = {"num_blocks": storage.num_blocks, "block_size": storage.block_size, "dtype": storage.dtype,
           "int8": isinstance(storage, Int8KVStorage), "zero_on_reuse": storage.zero_on_reuse}
    for name, value in asked.items():
        if value is not None and value != has[name]:
            raise ValueError(f"{name} is {value}, and the storage has {has[name]}: leave it out, or make the storage "
                             "that way")


def _is_batch(token_ids) -> bool:
    first = token_ids[0] if isinstance(token_ids, (list, tuple)) and token_ids else None
    return getattr(token_ids, "ndim", 1) > 1 or isinstance(first, (list, tuple)) or getattr(first, "ndim", 0) > 0
