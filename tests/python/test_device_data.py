"""DataLoader with a device: pinned batches, batches copied one ahead, errors at their batch, no missing wait."""

import collections
import os
import subprocess
import sys

import pytest
import strata
from strata.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

DEVICE = os.environ.get("STRATA_TEST_DEVICE", "vgpu")
gpu = getattr(strata, DEVICE)
Pair = collections.namedtuple("Pair", "x y")


def numbers(n):
    return TensorDataset(strata.arange(n, dtype=strata.float32), strata.arange(n) * 10)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_on_the_device_in_order(workers):
    strata.manual_seed(3)
    here = list(DataLoader(numbers(23), batch_size=5, shuffle=True, num_workers=workers))
    strata.manual_seed(3)
    loader = DataLoader(numbers(23), batch_size=5, shuffle=True, num_workers=workers, prefetch_device=DEVICE)
    there = list(loader)
    assert len(there) == len(here) == len(loader) == 5
    for a, b in zip(here, there, strict=True):
        assert [t.device.type for t in b] == [DEVICE] * 2 and [t.tolist() for t in a] == [t.tolist() for t in b]


def test_containers_keep_their_kind_and_what_is_no_tensor_stays():
    def collate(samples):
        x = strata.stack([s[0] for s in samples])
        return {"pair": Pair(x, "text"), "list": [x, 3], "tuple": (None, x)}

    for options in ({"prefetch_device": DEVICE}, {"pin_memory": True, "pin_memory_device": DEVICE}):
        (batch,) = DataLoader(numbers(3), batch_size=3, collate_fn=collate, **options)
        assert type(batch["pair"]) is Pair and batch["pair"].y == "text"
        assert batch["list"][1] == 3 and batch["tuple"][0] is None and type(batch["tuple"]) is tuple
        for t in (batch["pair"].x, batch["list"][0], batch["tuple"][1]):
            assert t.tolist() == [0, 1, 2]
            assert t.device.type == DEVICE if "prefetch_device" in options else t.is_pinned()


def test_packed_sequences_move_themselves():
    def collate(samples):
        return strata.nn.utils.rnn.pack_sequence([strata.ones(3, 2), strata.ones(2, 2)])

    (packed,) = DataLoader(numbers(2), batch_size=2, collate_fn=collate, prefetch_device=DEVICE)
    assert packed.data.device.type == DEVICE and packed.batch_sizes.device.type == "cpu"


def test_an_error_comes_where_its_batch_is_due():
    class Broken(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            if i == 2:
                raise KeyError("no sample 2")
            return strata.tensor(float(i))

    seen = []
    with pytest.raises(KeyError, match="no sample 2"):
        for batch in DataLoader(Broken(), prefetch_device=DEVICE):
            seen.append(batch.item())
    assert seen == [0, 1]


def test_a_stream_and_a_pass_that_is_left():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([strata.tensor([float(i)]) for i in range(5)])

    loader = DataLoader(Stream(), batch_size=2, prefetch_device=DEVICE)
    assert next(iter(loader)).tolist() == [[0], [1]]
    assert [len(b) for b in loader] == [2, 2, 1]
    assert list(DataLoader(numbers(0), prefetch_device=DEVICE)) == []


def test_the_cpu_is_a_device_too():
    (batch,) = DataLoader(numbers(2), batch_size=2, prefetch_device="cpu")
    assert batch[0].device.type == "cpu" and batch[0].tolist() == [0, 1]
    with pytest.raises(RuntimeError):
        DataLoader(numbers(2), prefetch_device="nowhere")


# In delayed mode queued work runs as late as possible, in an order drawn from the seed: without the event, a batch would be read before
# it was copied; without record_stream or the side stream, a later copy would write into a batch that is still being read.
DELAYED = """
import strata
from strata import vgpu
from strata.utils.data import DataLoader, TensorDataset
x = strata.arange(40 * 1000, dtype=strata.float32).reshape(40, 1000)
total = strata.zeros(1000, device="vgpu")
sums = []
for epoch in range(2):
    for (batch,) in DataLoader(TensorDataset(x), batch_size=4, prefetch_device="vgpu"):
        total += batch.sum(0)
        sums.append(batch.sum())
assert strata.equal(total.cpu(), 2 * x.sum(0))
assert [s.item() for s in sums] == [x[i : i + 4].sum().item() for i in range(0, 40, 4)] * 2
print("right")
"""


@pytest.mark.parametrize("seed", range(1, 4))
def test_no_wait_is_missing(seed):
    env = {**os.environ, "STRATA_VGPU_DELAYED": str(seed)}
    done = subprocess.run([sys.executable, "-c", DELAYED], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "right", done.stderr
