"""Counts and sizes that no machine has memory for are rejected at once; long legitimate calls can be interrupted."""

import signal
import subprocess
import sys

import pytest
import strata
from strata import nn
from strata.nn import functional as F

X = strata.ones(3)
BOMBS = {
    "vander": lambda: strata.vander(X, 2**31),
    "linalg.vander": lambda: strata.linalg.vander(X, N=2**40),
    "tensor_split": lambda: strata.tensor_split(X, 2**63 - 1),
    "chunk": lambda: strata.chunk(strata.ones(0, 3), 2**32),
    "hsplit": lambda: strata.hsplit(strata.ones(0), 2**40),
    "unbind": lambda: strata.ones(1).expand(2**40).unbind(),
    "tril_indices": lambda: strata.tril_indices(2**40, 4),
    "triu_indices": lambda: strata.triu_indices(4, 2**40),
    "combinations": lambda: strata.combinations(X, 2**32, True),
    "bincount": lambda: strata.bincount(strata.tensor([2**40])),
    "one_hot": lambda: F.one_hot(strata.tensor([2**40])),
    "repeat_interleave": lambda: strata.repeat_interleave(X, strata.tensor([1, 1, 2**40])),
    "histogramdd": lambda: strata.histogramdd(strata.ones(4, 2), [2**30, 2**30]),
    "histc": lambda: strata.histc(X, 2**40),
    "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(strata.ones(1, 3, 8, 7), 2**32),
    "adaptive_max_pool1d": lambda: F.adaptive_max_pool1d(strata.ones(1, 3, 8), 2**40),
    "interpolate": lambda: F.interpolate(strata.ones(1, 1, 4), 2**40),
    "pad": lambda: F.pad(strata.ones(1, 1, 4), (2**40, 0), "replicate"),
    "mvlgamma": lambda: strata.mvlgamma(X + 2, 2**40),
    "randperm": lambda: strata.randperm(2**40),
    "empty": lambda: strata.empty(2**45),
    "RandomSampler": lambda: iter(strata.utils.data.RandomSampler(range(3), num_samples=2**40)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_refused_by_size(name):
    with pytest.raises(RuntimeError):
        result = BOMBS[name]()
        next(iter(result))  # a sampler counts when it is asked


LIMITED = """
import resource, strata
strata.set_memory_limit(8 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    strata.{call}
except strata.OutOfMemoryError as e:
    assert "tried to allocate" in str(e), e
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "call", ["combinations(strata.ones(4), 255, True)", "repeat_interleave(strata.tensor([2**28]))"]
)
def test_index_lists_are_counted_against_the_memory_limit(call):
    ended = subprocess.run([sys.executable, "-c", LIMITED.format(call=call)], capture_output=True, text=True)
    assert int(ended.stdout) < 64 << 10, ended.stderr  # KiB that were used before the refusal


LAYERS = {
    "RNN": lambda: nn.RNN(3, 4, num_layers=2**40),
    "TransformerEncoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2**40),
    "TransformerDecoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2**40),
    "Transformer": lambda: nn.Transformer(8, 2, num_encoder_layers=2**40, num_decoder_layers=1, dim_feedforward=8),
}


@pytest.mark.parametrize("name", LAYERS)
def test_more_layers_than_anyone_has_are_refused(name):
    with pytest.raises(ValueError, match="at most 10000"):
        LAYERS[name]()


OVERFLOWS = {
    "hann_window": (RuntimeError, lambda at: strata.hann_window(2**63 - 1, device=at)),
    "fftfreq": (RuntimeError, lambda at: strata.fft.fftfreq(2**63 - 1, device=at)),
    "empty_permuted": (RuntimeError, lambda at: strata.empty_permuted([4, 2**63 - 1], [0, 1], device=at)),
    "max_unpool3d": (
        RuntimeError,
        lambda at: strata.nn.functional.max_unpool3d(
            strata.ones(1, 1, 1, 1, 1, device=at),
            strata.zeros(1, 1, 1, 1, 1, dtype=strata.int64, device=at),
            2**54,
            2**54,
        ),
    ),
    "gru": (
        RuntimeError,
        lambda at: strata.gru(
            strata.ones(2, 1, 3, device=at), strata.ones(1, 1, 3, device=at), [], True, 2**62, 0.0, False, True, False
        ),
    ),
    "istft": (
        RuntimeError,
        lambda at: strata.istft(strata.ones(3, 4, dtype=strata.complex64).to(at), 4, length=2**63 - 1),
    ),
    "pixel_shuffle": (ValueError, lambda at: strata.pixel_shuffle(strata.ones(1, 4, 2, 2, device=at), 2**32)),
    "bincount": (RuntimeError, lambda at: strata.bincount(strata.tensor([2**63 - 1], device=at))),
    "repeat_interleave": (
        RuntimeError,
        lambda at: strata.repeat_interleave(strata.ones(2, device=at), strata.tensor([2**62, 2**62], device=at)),
    ),
    "fractional_max_pool2d": (
        RuntimeError,
        lambda at: F.fractional_max_pool2d(strata.ones(1, 1, 8, 8, device=at), 2**63 - 1, output_ratio=0.5),
    ),
    "as_strided": (RuntimeError, lambda at: strata.ones(3, device=at).as_strided((2,), (1,), 2**63 - 1)),
    "as_strided_scatter": (
        RuntimeError,
        lambda at: strata.as_strided_scatter(
            strata.ones(3, 4, device=at), strata.ones(2, 2, device=at), [2, 2], [4, 1], 2**63 - 1
        ),
    ),
    "unfold": (RuntimeError, lambda at: F.unfold(strata.ones(1, 1, 4, 4, device=at), 2, padding=2**63 - 1)),
    "max_unpool1d": (
        RuntimeError,
        lambda at: F.max_unpool1d(
            strata.ones(1, 1, 2, device=at), strata.tensor([[[0, 1]]], device=at), 2**63 - 1, 2**62
        ),
    ),
    "empty": (RuntimeError, lambda at: strata.empty(2**62, 0, 2**62, device=at)),
}


@pytest.mark.parametrize("name", OVERFLOWS)
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_arithmetic_that_would_wrap_is_refused(name, device):
    kind, call = OVERFLOWS[name]
    with pytest.raises(kind):
        call(device)


def test_long_loops_can_be_interrupted():
    """Within the op: without the poll, the signal would wait until all the tensors are made."""

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Stop):
            while True:
                strata.tensor_split(X, 2**21)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
