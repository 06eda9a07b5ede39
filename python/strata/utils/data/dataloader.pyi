# Types of dataloader.py. A batch is Any: collate_fn decides what it is.
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..._C import Generator
from ..._C import device as _device
from .dataset import Dataset
from .sampler import Sampler

_T_co = TypeVar("_T_co", covariant=True)

class DataLoader(Generic[_T_co]):
    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    pin_memory_device: str
    drop_last: bool
    timeout: float
    sampler: Any
    batch_sampler: Any
    collate_fn: Callable[[Any], Any]
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: Any
    generator: Generator | None
    prefetch_factor: int | None
    prefetch_device: _device | None
    persistent_workers: bool
    in_order: bool
    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        prefetch_device: _device | str | None = None,
    ) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...

class _BaseDataLoaderIter:
    def __init__(self, loader: DataLoader[Any]) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def __len__(self) -> int: ...

class _SingleProcessDataLoaderIter(_BaseDataLoaderIter): ...
class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter): ...

class _DatasetKind:
    Map: int
    Iterable: int
