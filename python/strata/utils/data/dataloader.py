"""DataLoader: batches of a data set, built in this process or by workers ahead of time."""

import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
import types
import weakref

from ... import _C
from ...tracing import record_function
from . import prefetch, worker
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

# Attributes that cannot be changed after construction.
_FIXED = frozenset(("batch_size", "batch_sampler", "dataset", "drop_last", "persistent_workers", "sampler"))
_MIX = 0x9E3779B97F4A7C15  # mixes the epoch number into the seeds


class _Forever(Sampler):
    """The sampler of a stream: there are no indices."""

    def __iter__(self):
        return itertools.repeat(None)


class _FetchSamples:
    """Batches of a data set by index."""

    def __init__(self, dataset, collate, batched, whole):
        self.dataset, self.collate, self.batched, self.whole = dataset, collate, batched, whole

    def start(self):
        pass

    def __call__(self, indices):
        if not self.batched:
            return self.collate(self._sample(indices))
        if self.whole:
            batch = self.dataset.get_batch(
                indices if isinstance(indices, _C.Tensor) else _C.tensor(indices, dtype=_C.int64)
            )
            if batch is not None:
                return batch
            self.whole = False
        if isinstance(indices, _C.Tensor):
            indices = indices.tolist()
        if hasattr(self.dataset, "__getitems__"):
            return self.collate(self.dataset.__getitems__(indices))
        return self.collate([self._sample(i) for i in indices])

    def _sample(self, index):
        try:
            return self.dataset[index]
        except Exception as error:
            error._strata_where = f", at index {index}"
            raise


class _FetchStream:
    """Batches of a stream: the next batch_size samples."""

    def __init__(self, dataset, collate, batched, drop_last):
        self.dataset, self.collate, self.batched, self.drop_last = dataset, collate, batched, drop_last

    def start(self):
        self.samples, self.count = iter(self.dataset), 0

    def __call__(self, indices):
        wanted = len(indices) if self.batched else 1
        try:
            got = list(itertools.islice(self.samples, wanted))
        except Exception as error:
            error._strata_where = f", after {self.count} samples of the stream"
            raise
        self.count += len(got)
        if not got or (self.batched and self.drop_last and len(got) < wanted):
            return worker.StreamEnd
        return self.collate(got if self.batched else got[0])


class DataLoader:
    """Iterates over a data set in batches; the arguments are those of torch.utils.data.DataLoader.

    With num_workers > 0, that many processes build batches ahead of time. The order depends on the generator's seed only, not on
    the workers. pin_memory=True puts batches into page-locked memory of pin_memory_device (default "cuda"), and has no
    effect without such a device. prefetch_device="cuda" returns batches on that device: each is copied during the work on
    the previous one.

    >>> loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    >>> for inputs, targets in loader: ...
    """

    _made = False

    __class_getitem__ = classmethod(types.GenericAlias)  # DataLoader[int]

    def __init__(
        self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
        pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *,
        prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True, prefetch_device=None,
    ):  # fmt: skip
        if not isinstance(num_workers, int) or num_workers < 0:
            raise ValueError(
                f"num_workers option should be a non-negative integer, got {num_workers}; use num_workers=0 to disable multiprocessing."
            )
        if timeout < 0:
            raise ValueError(f"timeout option should be non-negative, got {timeout}")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor <= 0:
            raise ValueError(f"prefetch_factor option should be positive, got {prefetch_factor}")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.timeout, self.generator = dataset, num_workers, timeout, generator
        self.prefetch_factor, self.persistent_workers = (
            prefetch_factor or (2 if num_workers else None),
            persistent_workers,
        )
        self.pin_memory, self.pin_memory_device, self.worker_init_fn = pin_memory, pin_memory_device, worker_init_fn
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self.prefetch_device = None if prefetch_device is None else _C.device(prefetch_device)
        if self.prefetch_device is not None and self.prefetch_device.type == "meta":
            raise ValueError("DataLoader: prefetch_device must be a device with memory, got meta")

        stream = isinstance(dataset, IterableDataset)
        if stream and shuffle not in (None, False):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
            )
        if stream and (sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader with IterableDataset: expected unspecified sampler and batch_sampler options")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = (
                _Forever()
                if stream
                else RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = (
            batch_size,
            drop_last,
            sampler,
            batch_sampler,
        )
        batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        if stream:
            self._fetch = _FetchStream(dataset, self.collate_fn, batched, drop_last)
        else:
            whole = batched and collate_fn is None and hasattr(dataset, "get_batch")
            self._fetch = _FetchSamples(dataset, self.collate_fn, batched, whole)
        self._passes, self._pool = 0, None
        self._made = True

    def __setattr__(self, name, value):
        if self._made and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized: make another one"
            )
        object.__setattr__(self, name, value)

    def _indices(self):
        """The request for each batch: a tensor, a list, or one index."""
        if self.batch_sampler is None:
            return iter(self.sampler)
        tensors = (
            getattr(self.batch_sampler, "_tensors", lambda: None)() if getattr(self._fetch, "whole", False) else None
        )
        return iter(self.batch_sampler) if tensors is None else tensors

    def _next_seed(self):
        """The seed of this epoch's workers. Nothing is drawn from the generator: the order must not depend on the workers."""
        self._passes += 1
        return ((self.generator or _C.default_generator).initial_seed() + self._passes * _MIX) % 2**62

    def __iter__(self):
        batches = self._placed()
        return _recorded(batches) if _C._trace_is_on() else batches

    def _placed(self):
        """The batches, on the way to a device if that was asked for."""
        if self.prefetch_device is not None and self.prefetch_device.type != "cpu":
            return prefetch.ahead(self._batches(), self.prefetch_device)
        kind = _C.device(self.pin_memory_device or "cuda").type
        if self.pin_memory and kind != "cpu" and _C._device_count(kind):
            return prefetch.pinned(self._batches(), kind)
        return self._batches()

    def _batches(self):
        if self.num_workers == 0:
            return self._here()
        if self._pool is None or not self._pool.alive():
            self._pool = _Pool(self)
        pool = self._pool
        if not self.persistent_workers:
            self._pool = None
        return pool.run(self._indices(), self._next_seed(), not self.persistent_workers)

    def _here(self):
        indices = self._indices()
        self._fetch.start()
        for wanted in indices:
            batch = self._fetch(wanted)
            if batch is worker.StreamEnd:
                return
            yield batch

    def __len__(self):
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def _recorded(batches):
    """The batches, with a span around the wait for each."""
    while True:
        with record_function("enumerate(DataLoader)"):
            try:
                batch = next(batches)
            except StopIteration:
                return
        yield batch


class _DatasetKind:
    """How samples are read: by index, or from a stream."""

    Map, Iterable = 0, 1


class _BaseDataLoaderIter:
    """One pass over a loader, as an object: the base of PyTorch's iterators. iter(loader) is a generator instead."""

    def __init__(self, loader):
        self._loader, self._batches = loader, iter(loader)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._batches)

    def __len__(self):
        return len(self._loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """PyTorch's iterator without workers."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """PyTorch's iterator with workers."""


class _Pool:
    """The worker processes of a loader and the pipes to them."""

    count = itertools.count()

    def __init__(self, loader):
        self.loader, context = loader, loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        prefix = os.path.join(worker.FOLDER, f"strata-{os.getpid()}-{next(self.count)}-")
        self.tasks, self.results, self.processes = [], [], []
        self.finalizer = weakref.finalize(self, _end, os.getpid(), self.processes, self.tasks, self.results, prefix)
        for i in range(loader.num_workers):
            theirs, tasks = context.Pipe(duplex=False)
            results, sent = context.Pipe(duplex=False)
            arguments = (i, loader.num_workers, loader._fetch, theirs, sent, prefix, loader.worker_init_fn, os.getpid())
            process = context.Process(target=worker.work, args=arguments, daemon=True)
            process.start()
            theirs.close(), sent.close()
            self.tasks.append(tasks), self.results.append(results), self.processes.append(process)
        self.busy = False
        self.next = 0  # number of the next requested batch; continues from epoch to epoch

    def alive(self):
        return self.finalizer.alive and not self.busy and all(p.is_alive() for p in self.processes)

    def close(self):
        self.finalizer()

    def run(self, indices, seed, close):
        """The batches of one epoch, in order."""
        self.busy = True
        finished = False
        try:
            for i in range(len(self.processes)):
                self._send(i, ("epoch", seed))
            yield from self._pass(indices)
            finished = True
        finally:
            self.busy = False
            if close or not finished:  # stopped early: batches are still pending
                self.close()

    def _pass(self, indices):
        sent, arrived, asked = {}, {}, itertools.cycle(range(len(self.processes)))
        running = set(range(len(self.processes)))  # workers whose stream has not ended
        due, more = self.next, True
        limit = self.loader.prefetch_factor * len(self.processes)
        while True:
            while more and running and len(sent) + len(arrived) < limit:
                try:
                    wanted = next(indices)
                except StopIteration:
                    more = False
                    break
                who = next(w for w in asked if w in running)
                sent[self.next] = who, wanted
                self._send(who, (self.next, wanted), sent)
                self.next += 1
            if due not in sent and due not in arrived:
                return
            while due not in arrived:
                number, batch = self._receive(sent)
                who = sent.pop(number)[0]
                if batch is worker.StreamEnd:
                    running.discard(who)
                arrived[number] = batch
            batch = arrived.pop(due)
            due += 1
            if isinstance(batch, worker.Failure):
                batch.reraise()
            if batch is not worker.StreamEnd:
                yield batch

    def _send(self, who, task, sent=None):
        try:
            self.tasks[who].send(task)
        except (BrokenPipeError, OSError):
            self._died(who, sent or {})

    def _receive(self, sent):
        """The next batch to arrive, whichever it is."""
        timeout = self.loader.timeout or None
        ends = time.monotonic() + timeout if timeout else None
        while True:
            left = max(0, ends - time.monotonic()) if ends else None
            ready = multiprocessing.connection.wait([*self.results, *(p.sentinel for p in self.processes)], left)
            for results in self.results:
                if results in ready:
                    try:
                        number, data, path = results.recv()
                    except (EOFError, OSError):
                        self._died(self.results.index(results), sent)
                    return number, worker.unpack(data, path)
            for who, process in enumerate(self.processes):
                if process.sentinel in ready:
                    self._died(who, sent)
            if not ready:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")

    def _died(self, who, sent):
        process = self.processes[who]
        process.join(5)
        code = process.exitcode
        how = (
            f"was killed by {signal.Signals(-code).name}"
            if code is not None and code < 0
            else f"exited with status {code}"
        )
        lost = next((w for _, (owner, w) in sorted(sent.items()) if owner == who), None)
        lost = lost.tolist() if isinstance(lost, _C.Tensor) else lost
        text = (
            ""
            if lost is None
            else f" while it worked on indices {lost if not isinstance(lost, list) or len(lost) <= 8 else str(lost[:8])[:-1] + ', …]'}"
        )
        raise RuntimeError(
            f"DataLoader worker {who} (pid {process.pid}) {how}{text}. Out of memory is a frequent cause; num_workers=0 shows errors in this process"
        )


def _end(owner, processes, tasks, results, prefix):
    """Asks the workers to exit, then stops them."""
    if os.getpid() != owner:  # a forked child has a copy of the pool, but not the workers
        return
    for pipe in tasks:
        try:
            pipe.send(None)
        except (BrokenPipeError, OSError):
            pass
        pipe.close()
    for pipe in results:  # a worker that is sending gets an error and exits
        pipe.close()
    ends = time.monotonic() + 2
    for process in processes:
        process.join(max(0, ends - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    worker.remove_files(prefix)
