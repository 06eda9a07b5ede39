"""Data sets: by index, as a stream, and combinations of them."""

import bisect
import itertools
import math
import types

from ... import _C


class Dataset:
    """Samples by index: define __getitem__ and __len__.

    A data set that can build a whole batch at once may also define get_batch(indices): it gets an int64 tensor and returns
    the collated samples, or None if it cannot. A loader without a collate_fn calls it first.
    """

    __class_getitem__ = classmethod(types.GenericAlias)  # Dataset[int] in annotations and base classes

    def __getitem__(self, index):
        raise NotImplementedError("a Dataset must define __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples as a stream: define __iter__. With several workers each has a copy; get_worker_info() tells them apart."""

    def __iter__(self):
        raise NotImplementedError("an IterableDataset must define __iter__")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Samples are the slices of tensors along their first dimension."""

    def __init__(self, *tensors):
        sizes = [t.size(0) for t in tensors]
        if len(set(sizes)) > 1:
            raise ValueError(f"TensorDataset: the tensors have {sizes} samples; all must have the same number")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0) if self.tensors else 0

    def get_batch(self, indices):
        return [t.index_select(0, indices) for t in self.tensors]


class Subset(Dataset):
    """The samples of another data set at some indices."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices
        self._places = None  # the indices as a tensor, created for the first batch

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)

    def get_batch(self, indices):
        if not hasattr(self.dataset, "get_batch"):
            return None
        if self._places is None:
            self._places = _C.tensor(list(map(int, self.indices)), dtype=_C.int64)
        return self.dataset.get_batch(self._places.index_select(0, indices))


class ConcatDataset(Dataset):
    """Concatenated data sets."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"index {index} is out of range for {len(self)} samples")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """Concatenated streams."""

    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __iter__(self):
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self):
        return sum(len(d) for d in self.datasets)


class StackDataset(Dataset):
    """Combined data sets: a sample is the tuple of theirs, or a dict if they are given by name."""

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset takes data sets either by position or by name, and at least one")
        self.datasets = args or kwargs
        sizes = [len(d) for d in (args or kwargs.values())]
        if len(set(sizes)) > 1:
            raise ValueError(f"Size mismatch between datasets: they have {sizes} samples")
        self._length = sizes[0]

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self):
        return self._length


def random_split(dataset, lengths, generator=None):
    """Subsets of the given lengths, or of fractions that sum to 1, in random order."""
    total = len(dataset)
    if (
        lengths
        and math.isclose(sum(lengths), 1)
        and sum(lengths) <= 1 + 1e-9
        and any(0 < x < 1 or x == 1 for x in lengths)
    ):
        fractions = lengths
        for x in fractions:
            if x < 0 or x > 1:
                raise ValueError(f"random_split: fraction {x} is not between 0 and 1")
        lengths = [math.floor(total * x) for x in fractions]
        for i in range(total - sum(lengths)):  # distribute the remainder
            lengths[i % len(lengths)] += 1
    if sum(lengths) != total:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset! The lengths {list(lengths)} sum to {sum(lengths)}, the data set has {total} samples"
        )
    order = _C.ops["randperm"](total, generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, lengths, strict=True)]
