"""utils.data: data sets, samplers, collating, loaders with and without workers, and failing workers."""

import collections
import glob
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import strata
from strata.utils import data
from strata.utils.data import DataLoader, TensorDataset, worker

WORKERS = [0, 1, 3]


class Squares(data.Dataset):
    """Samples that are not slices of tensors: no fast path."""

    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return strata.full((2,), float(i)), i * i, {"name": f"n{i}", "half": i / 2}


def numbers(n):
    return TensorDataset(strata.arange(n), strata.arange(2.0 * n).reshape(n, 2))


def generator(seed):
    return strata.Generator().manual_seed(seed)


@pytest.fixture(autouse=True)
def nothing_left_in_shared_memory():
    yield
    assert not glob.glob(os.path.join(worker.FOLDER, f"strata-{os.getpid()}-*"))


# --- order and contents --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_come_in_order(workers):
    for drop_last, sizes in ((False, [8, 8, 4]), (True, [8, 8])):
        loader = DataLoader(Squares(), batch_size=8, num_workers=workers, drop_last=drop_last)
        assert len(loader) == len(sizes)
        for _ in range(2):
            batches = list(loader)
            assert [len(b[1]) for b in batches] == sizes
            start = 0
            for (tensors, squares, more), n in zip(batches, sizes, strict=True):
                expected = np.arange(start, start + n)
                assert (
                    np.array_equal(tensors.numpy(), np.stack([expected, expected], 1)) and squares.dtype == strata.int64
                )
                assert np.array_equal(squares.numpy(), expected**2) and more["name"] == [f"n{i}" for i in expected]
                assert more["half"].dtype == strata.float64 and np.array_equal(more["half"].numpy(), expected / 2)
                start += n


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("make", [numbers, Squares])
def test_shuffling_is_the_generators_and_the_same_in_cpp(workers, make):
    # tests/nn/data/loader_test.cpp has the same numbers.
    loader = DataLoader(make(10), batch_size=4, shuffle=True, num_workers=workers, generator=generator(7))
    order = [[int(v) for b in loader for v in (b[0] if make is numbers else b[0][:, 0])] for _ in range(2)]
    assert order == [[2, 9, 5, 4, 8, 3, 1, 7, 0, 6], [3, 0, 4, 6, 9, 7, 1, 2, 5, 8]]
    assert order[0] == strata.randperm(10, generator=generator(7)).tolist()


@pytest.mark.parametrize("workers", WORKERS)
def test_the_fast_path_gives_what_collating_gives(workers):
    fields = strata.arange(30), strata.randn(30, 2, 3).transpose(1, 2), strata.rand(30) > 0.5, strata.zeros(30, 0)
    fast = DataLoader(TensorDataset(*fields), batch_size=7, num_workers=workers)
    slow = DataLoader(TensorDataset(*fields), batch_size=7, collate_fn=data.default_collate)
    for a, b in zip(fast, slow, strict=True):
        assert type(a) is type(b) is list and all(
            strata.equal(x, y) and x.dtype == y.dtype for x, y in zip(a, b, strict=True)
        )
    for (batch,) in DataLoader(TensorDataset(fields[0]), batch_size=30):
        batch.zero_()  # a batch is a copy
    assert fields[0][5] == 5
    subset = data.Subset(data.Subset(TensorDataset(*fields), list(range(29, -1, -1))), strata.arange(5))
    (batch,) = DataLoader(subset, batch_size=5, num_workers=workers)
    assert batch[0].tolist() == [29, 28, 27, 26, 25] == [int(subset[i][0]) for i in range(5)]


@pytest.mark.parametrize("workers", WORKERS)
def test_empty_and_single(workers):
    assert list(DataLoader(numbers(0), batch_size=3, shuffle=True, num_workers=workers)) == []
    assert list(DataLoader(Squares(0), batch_size=3, num_workers=workers)) == []
    assert [b[0].tolist() for b in DataLoader(numbers(1), batch_size=3, num_workers=workers)] == [[0]]
    without = list(DataLoader(Squares(3), batch_size=None, num_workers=workers))
    assert [s[1] for s in without] == [0, 1, 4] and without[2][0].tolist() == [2, 2]


def test_large_tensors_go_through_shared_memory_and_own_their_memory():
    x = strata.randn(40, 100, 100)
    for dtype in (strata.float32, strata.bfloat16, strata.bool, strata.float8_e5m2):
        loader = DataLoader(TensorDataset(x.to(dtype)), batch_size=10, num_workers=2)
        kept = [b[0] for b in loader]
        assert all(t.dtype == dtype for t in kept) and strata.equal(
            strata.cat([t.float() for t in kept]), x.to(dtype).float()
        )
        kept[0].copy_(kept[1])
        assert strata.equal(kept[0].float(), kept[1].float())


Point = collections.namedtuple("Point", "x y")


def test_collating():
    samples = [
        {"p": Point(i, [float(i), "t"]), "a": np.full(2, i, np.int16), "b": b"x", "t": (strata.tensor(i), True)}
        for i in range(3)
    ]
    batch = data.default_collate(samples)
    assert (
        isinstance(batch["p"], Point) and batch["p"].x.tolist() == [0, 1, 2] and batch["p"].y[0].dtype == strata.float64
    )
    assert (
        batch["p"].y[1] == ("t",) * 3
        and batch["a"].dtype == strata.int16
        and batch["a"].shape == (3, 2)
        and batch["b"] == [b"x"] * 3
    )
    assert isinstance(batch["t"], list) and batch["t"][1].dtype == strata.bool
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype == strata.float32
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="found <class 'object'>"):
        data.default_collate([object()])
    with pytest.raises(TypeError, match="cannot become tensors"):
        data.default_collate([np.array(["a"])])
    (pair,) = DataLoader(Squares(2), batch_size=2, collate_fn=lambda samples: [s[1] for s in samples])
    assert pair == [0, 1]


# --- data sets and samplers ------------------------------------------------------------------------------------------------


def test_combined_data_sets():
    both = numbers(3) + numbers(4)
    assert len(both) == 7 and [int(both[i][0]) for i in (0, 3, -1)] == [0, 0, 3]
    with pytest.raises(IndexError, match="7 is out of range"):
        both[7]
    with pytest.raises(ValueError):
        both[-8]
    stacked = data.StackDataset(a=numbers(2), b=Squares(2))
    assert int(stacked[1]["a"][0]) == 1 and stacked[1]["b"][1] == 1
    assert data.StackDataset(numbers(2), Squares(2))[1][1][1] == 1
    for bad in (
        lambda: data.StackDataset(numbers(2), numbers(3)),
        data.StackDataset,
        lambda: TensorDataset(strata.ones(2), strata.ones(3)),
    ):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(NotImplementedError):
        data.Dataset()[0]


def test_random_split():
    parts = data.random_split(numbers(10), [7, 3], generator=generator(1))
    order = [int(p[i][0]) for p in parts for i in range(len(p))]
    assert order == strata.randperm(10, generator=generator(1)).tolist()
    assert [len(p) for p in data.random_split(numbers(11), [0.5, 0.3, 0.2])] == [6, 3, 2]
    assert [len(p) for p in data.random_split(numbers(1), [1])] == [1]
    with pytest.raises(ValueError, match="sum to 9, the data set has 10"):
        data.random_split(numbers(10), [7, 2])


def test_samplers():
    assert list(data.SequentialSampler(range(4))) == [0, 1, 2, 3]
    assert sorted(data.RandomSampler(range(50))) == list(range(50))
    more = list(data.RandomSampler(range(4), num_samples=10))
    assert len(more) == 10 and sorted(more[:4]) == sorted(more[4:8]) == [0, 1, 2, 3]
    assert set(data.RandomSampler(range(3), replacement=True, num_samples=200)) == {0, 1, 2}
    assert sorted(data.SubsetRandomSampler([5, 9, 2])) == [2, 5, 9]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 20)) == {1}
    assert (
        list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
        and len(data.BatchSampler(range(5), 2, True)) == 2
    )
    for bad in (
        lambda: data.BatchSampler(range(3), 0, False), lambda: data.BatchSampler(range(3), 1, 1), lambda: data.RandomSampler(range(3), num_samples=0),
        lambda: data.WeightedRandomSampler([[1.0]], 1), lambda: data.WeightedRandomSampler([1.0], 0),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            bad()
    loader = DataLoader(numbers(9), batch_sampler=[[1, 2], [8]])
    assert [b[0].tolist() for b in loader] == [[1, 2], [8]] and len(loader) == 2
    loader = DataLoader(Squares(9), sampler=[3, 1], batch_size=2)
    assert next(iter(loader))[1].tolist() == [9, 1]


class Stream(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


@pytest.mark.parametrize("workers", WORKERS)
def test_streams(workers):
    for persistent in (False, True) if workers else (False,):
        loader = DataLoader(Stream(17), batch_size=3, num_workers=workers, persistent_workers=persistent)
        for _ in range(2):
            assert sorted(v for b in loader for v in b.tolist()) == list(range(17))
    assert all(len(b) == 3 for b in DataLoader(Stream(17), batch_size=3, num_workers=workers, drop_last=True))
    with pytest.raises(TypeError):
        len(loader)
    # tests/nn/data/stream_test.cpp has the same batches.
    shared = [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    assert [b.tolist() for b in DataLoader(Stream(11), batch_size=2, num_workers=3)] == shared
    assert [int(v) for v in DataLoader(Stream(2) + Stream(3), batch_size=None)] == [0, 1, 0, 1, 2]


def test_bad_options_are_named():
    for options, text in (
        (dict(batch_size=0), "batch_size should be a positive integer"), (dict(num_workers=-1), "num_workers"), (dict(timeout=-1), "timeout"),
        (dict(prefetch_factor=2), "prefetch_factor"), (dict(prefetch_factor=0, num_workers=1), "prefetch_factor"), (dict(persistent_workers=True), "persistent_workers"),
        (dict(shuffle=True, sampler=[1]), "mutually exclusive"), (dict(batch_sampler=[[1]], batch_size=2), "mutually exclusive"), (dict(batch_size=None, drop_last=True), "drop_last"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            DataLoader(numbers(3), **options)
    for options in (dict(shuffle=True), dict(sampler=[1]), dict(batch_sampler=[[1]])):
        with pytest.raises(ValueError, match="IterableDataset"):
            DataLoader(Stream(3), **options)
    assert data.get_worker_info() is None
    assert next(iter(DataLoader(numbers(3), pin_memory=True)))[0].tolist() == [0]


# --- workers ---------------------------------------------------------------------------------------------------------------


class WhoAmI(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        info = data.get_worker_info()
        return (
            info.id,
            info.num_workers,
            info.seed,
            os.getpid(),
            strata.rand(1).item(),
            int(os.environ.get("STRATA_TEST_MARK", -1)),
        )


def mark(worker_id):
    os.environ["STRATA_TEST_MARK"] = str(worker_id)


def test_workers_know_themselves_and_have_seeds_of_their_own():
    loader = DataLoader(WhoAmI(), num_workers=2, worker_init_fn=mark, generator=generator(5), persistent_workers=True)
    first, second = list(loader), list(loader)
    ids = [int(b[0]) for b in first]
    assert ids == [0, 1] * 4 and all(int(b[1]) == 2 for b in first) and [int(b[5]) for b in first] == ids
    assert len({int(b[2]) for b in first + second}) == 4  # a seed for each worker and pass
    assert len({b[4].item() for b in first + second}) == 16  # and so other random numbers
    assert {int(b[3]) for b in first} == {int(b[3]) for b in second} and os.getpid() not in {int(b[3]) for b in first}
    again = list(DataLoader(WhoAmI(), num_workers=2, worker_init_fn=mark, generator=generator(5)))
    assert [b[4].item() for b in again] == [b[4].item() for b in first]


def test_spawned_workers():
    loader = DataLoader(numbers(6), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert [b[0].tolist() for b in loader] == [[0, 1], [2, 3], [4, 5]]


class Broken(data.Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 10

    def __getitem__(self, i):
        if i == 7:
            raise self.error
        return i


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    "error, kind",
    [
        (KeyError("lost"), KeyError),
        (ValueError("lost"), ValueError),
        (TwoArguments(1, "lost"), RuntimeError),
        (StopIteration("lost"), RuntimeError),
    ],
)
def test_what_a_dataset_raises_names_worker_and_index(error, kind):
    seen = []
    with pytest.raises(kind) as caught:
        for batch in DataLoader(Broken(error), batch_size=2, num_workers=2):
            seen.append(batch.tolist())
    text = str(caught.value)
    assert f"Caught {type(error).__name__} in DataLoader worker process 1, at index 7" in text
    assert (
        "Original Traceback" in text
        and "in __getitem__" in text
        and "lost" in text
        and seen == [[0, 1], [2, 3], [4, 5]]
    )
    with pytest.raises(type(error) if kind is not RuntimeError or type(error) is TwoArguments else RuntimeError):
        list(DataLoader(Broken(error), batch_size=2))


def raise_at_start(worker_id):
    raise OSError("no such disk")


def test_workers_that_cannot_start_are_named():
    with pytest.raises(OSError, match="worker process 0 while starting(.|\n)*no such disk"):
        list(DataLoader(numbers(4), num_workers=1, worker_init_fn=raise_at_start))


class Deadly(data.Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 10

    def __getitem__(self, i):
        if i == 6:
            os.kill(os.getpid(), signal.SIGKILL) if self.how == "kill" else os._exit(3)
        return i


@pytest.mark.parametrize("how, text", [("kill", "was killed by SIGKILL"), ("exit", "exited with status 3")])
def test_a_worker_that_dies_is_an_error_not_a_hang(how, text):
    with pytest.raises(
        RuntimeError, match=rf"DataLoader worker \d \(pid \d+\) {text} while it worked on indices \[6, 7\]"
    ):
        list(DataLoader(Deadly(how), batch_size=2, num_workers=2))


class Slow(data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        time.sleep(60)


def test_timeout():
    with pytest.raises(RuntimeError, match="timed out after 0.2 seconds"):
        loader = DataLoader(Slow(), num_workers=1, timeout=0.2)
        it = iter(loader)
        next(it)


def test_leaving_early_ends_the_workers():
    for persistent in (False, True):
        loader = DataLoader(
            TensorDataset(strata.zeros(64, 200, 200)), batch_size=2, num_workers=2, persistent_workers=persistent
        )
        assert next(iter(loader))[0].shape == (2, 200, 200)
        assert len(list(loader)) == 32  # and a new pass starts afresh
        del loader


MAIN = """
import os, sys, time, strata
from strata.utils.data import DataLoader, Dataset

class Endless(Dataset):
    def __len__(self): return 10**9
    def __getitem__(self, i): return os.getpid()

it = iter(DataLoader(Endless(), num_workers=2))
print(int(next(it)), int(next(it)), flush=True)
time.sleep(60)
"""


def test_workers_leave_when_the_main_process_is_killed():
    main = subprocess.Popen([sys.executable, "-c", MAIN], stdout=subprocess.PIPE, text=True)
    workers = [int(p) for p in main.stdout.readline().split()]
    main.kill()
    main.wait()
    main.stdout.close()

    def running(pid):
        try:
            with open(f"/proc/{pid}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    ends = time.monotonic() + 30
    while any(map(running, workers)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert len(workers) == 2 and not any(map(running, workers))


def test_what_a_loader_is_built_from_cannot_be_changed():
    loader = DataLoader(range(4), batch_size=2)
    for name in ("batch_size", "dataset", "sampler", "batch_sampler", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.timeout = 3
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]


def test_types_of_a_program_are_collated_by_its_functions():
    from strata.utils.data.collate import collate, collate_tensor_fn, default_collate, default_collate_fn_map

    class Point:
        def __init__(self, x):
            self.x = x

    def collate_points(batch, *, collate_fn_map=None):
        return [p.x for p in batch]

    functions = {**default_collate_fn_map, Point: collate_points}
    found = collate([(Point(1), 1.5, "a"), (Point(2), 2.5, "b")], collate_fn_map=functions)
    assert found[0] == [1, 2] and found[1].tolist() == [1.5, 2.5] and found[2] == ("a", "b")
    assert collate([{"p": Point(3)}], collate_fn_map=functions) == {"p": [3]}
    with pytest.raises(TypeError, match="Point"):
        default_collate([Point(1)])
    default_collate_fn_map[Point] = collate_points
    try:
        assert default_collate([Point(1), Point(2)]) == [1, 2]
    finally:
        del default_collate_fn_map[Point]
    assert collate_tensor_fn([strata.ones(1), strata.zeros(1)]).tolist() == [[1], [0]]
