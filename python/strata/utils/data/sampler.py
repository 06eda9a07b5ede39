"""Samplers: the order in which a loader takes the samples.

Random orders come from one randperm (or multinomial, randint) per epoch, drawn from the generator: the C++ loader draws the
same, so one seed gives one order in both languages, for any number of workers."""

import types

from ... import _C


class Sampler:
    """An order of indices: define __iter__, and __len__ if the number is known."""

    __class_getitem__ = classmethod(types.GenericAlias)  # Sampler[int]

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError("a Sampler must define __iter__")


class _TensorSampler(Sampler):
    """A sampler that has its whole order as a tensor: a loader splits it without converting to Python numbers."""

    _is_long = False  # whether the order is too long for one tensor

    def _order(self):
        raise NotImplementedError

    def __iter__(self):
        return iter(self._order().tolist())


class SequentialSampler(_TensorSampler):
    """0, 1, 2, …"""

    def __init__(self, data_source):
        self.data_source = data_source

    def _order(self):
        return _C.ops["arange"](len(self.data_source))

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(_TensorSampler):
    """A random order, or independent draws with replacement=True; num_samples of them if given."""

    _PIECE = 1 << 20  # more draws with replacement than this are made piece by piece, not kept as one tensor

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source, self.replacement, self.generator, self._num_samples = (
            data_source,
            replacement,
            generator,
            num_samples,
        )
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if num_samples is None and len(data_source) == 0 and replacement:
            raise ValueError("RandomSampler: the data set is empty; there is nothing to draw from")

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _pieces(self):
        n, wanted = len(self.data_source), self.num_samples
        for start in range(0, wanted, self._PIECE):
            count = min(self._PIECE, wanted - start)
            yield from _C.ops["randint"](0, n, (count,), generator=self.generator).tolist()

    @property
    def _is_long(self):
        return self.replacement and self.num_samples > self._PIECE

    def __iter__(self):
        return self._pieces() if self._is_long else super().__iter__()

    def _order(self):
        n, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            return _C.ops["randint"](0, n, (wanted,), generator=self.generator)
        _C._check_host_memory(wanted, 8, "RandomSampler")
        rounds = [_C.ops["randperm"](n, generator=self.generator) for _ in range(max(1, -(-wanted // max(n, 1))))]
        return (rounds[0] if len(rounds) == 1 else _C.ops["cat"](rounds))[:wanted]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(_TensorSampler):
    """The given indices in random order."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def _order(self):
        places = _C.tensor([int(i) for i in self.indices], dtype=_C.int64)
        return places.index_select(0, _C.ops["randperm"](len(self.indices), generator=self.generator))

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(_TensorSampler):
    """num_samples indices, drawn by weight."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = _C.as_tensor(weights, dtype=_C.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def _order(self):
        return self.weights.multinomial(self.num_samples, self.replacement, generator=self.generator)

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices of another sampler; the last is shorter, or dropped with drop_last."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def _tensors(self):
        """The batches as tensors, None if the sampler does not know its order beforehand."""
        if not isinstance(self.sampler, _TensorSampler) or type(self) is not BatchSampler or self.sampler._is_long:
            return None
        order = self.sampler._order()
        batches = order.split(self.batch_size) if len(order) else ()
        return iter(batches[:-1] if self.drop_last and batches and len(batches[-1]) < self.batch_size else batches)

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
