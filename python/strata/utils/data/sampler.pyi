# Types of sampler.py.
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from ..._C import Generator, Tensor

_T_co = TypeVar("_T_co", covariant=True)

class Sampler(Generic[_T_co]):
    def __init__(self, data_source: Any = None) -> None: ...
    def __iter__(self) -> Iterator[_T_co]: ...

class SequentialSampler(Sampler[int]):
    data_source: Sized
    def __init__(self, data_source: Sized) -> None: ...
    def __len__(self) -> int: ...

class RandomSampler(Sampler[int]):
    data_source: Sized
    replacement: bool
    generator: Generator | None
    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None: ...
    @property
    def num_samples(self) -> int: ...
    def __len__(self) -> int: ...

class SubsetRandomSampler(Sampler[int]):
    indices: Sequence[int]
    generator: Generator | None
    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None: ...
    def __len__(self) -> int: ...

class WeightedRandomSampler(Sampler[int]):
    weights: Tensor
    num_samples: int
    replacement: bool
    generator: Generator | None
    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...

class BatchSampler(Sampler[list[int]]):
    sampler: Iterable[int]
    batch_size: int
    drop_last: bool
    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None: ...
    def __len__(self) -> int: ...
