"""interpolate of uint8 images against results that PyTorch 2.15 computed on a CPU, bit by bit."""

import json
import pathlib

import pytest
import strata
import strata.nn.functional as F

CASES = json.loads((pathlib.Path(__file__).parent / "interpolated_bytes.json").read_text())


def image(height, width, device="cpu"):
    i = strata.arange(height * width)
    return ((i * i * 37 + i * 11) % 256).to(strata.uint8).reshape(1, 1, height, width).to(device)


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(str(v) for k, v in c.items() if k != "result"))
def test_results_are_those_of_pytorch(case, device):
    options = {k: v for k, v in case.items() if k not in ("shape", "result")}
    got = F.interpolate(image(*case["shape"], device), **options)
    assert got.dtype is strata.uint8 and got.device.type == device
    assert got[0, 0].tolist() == case["result"]


def test_layout_and_batch_do_not_matter():
    x = strata.cat([image(9, 8), image(9, 8) // 2], 1).repeat(3, 1, 1, 1)
    want = F.interpolate(x, (5, 13), mode="bicubic", antialias=True)
    got = F.interpolate(x.contiguous(memory_format=strata.channels_last), (5, 13), mode="bicubic", antialias=True)
    assert strata.equal(got, want)
    assert strata.equal(want[2:, 1:], F.interpolate(image(9, 8) // 2, (5, 13), mode="bicubic", antialias=True))


def test_masks_of_a_volume():
    x = strata.arange(24, dtype=strata.uint8).reshape(1, 1, 2, 3, 4)
    assert strata.equal(F.interpolate(x, scale_factor=2)[..., ::2, ::2, ::2], x)
    assert strata.equal(F.interpolate(x[0], (6, 8)), F.interpolate(x[0].float(), (6, 8)).to(strata.uint8))


def test_a_narrow_result_is_the_mean_of_its_inputs():  # PyTorch writes other columns here
    x = image(6, 10)
    got = F.interpolate(x, (6, 1), mode="bilinear", antialias=True).float()
    assert (got - F.interpolate(x.float(), (6, 1), mode="bilinear", antialias=True)).abs().max() <= 1


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("dtype", [strata.uint8, strata.float32, strata.float64])
def test_factors_that_sizes_round(dtype, device):
    """Expected are PyTorch's: a copy for equal sizes, halved positions for twice the size."""
    x = image(9, 23, device).to(dtype)
    for mode, options in (("nearest", {}), ("bilinear", {}), ("bilinear", {"antialias": True})):
        assert strata.equal(F.interpolate(x, scale_factor=(1.05, 1.03), mode=mode, **options), x)
    twice = F.interpolate(x, scale_factor=(1, 2.030840639268458))
    assert twice.shape[-1] == 46 and strata.equal(twice, x.repeat_interleave(2, 3))
    line = F.interpolate(strata.arange(3.0, device=device).reshape(1, 1, 3).to(dtype), scale_factor=2.0684670209831366)
    assert line.flatten().tolist() == [0, 0, 0, 1, 1, 2]  # not in signals and volumes
    column = strata.arange(11.0, dtype=strata.float64, device=device).reshape(1, 1, 11).to(dtype)
    exact = F.interpolate(column, scale_factor=1.05, mode="nearest-exact")
    assert exact.flatten().tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    small = F.interpolate(column[..., :9], scale_factor=1.1, mode="nearest-exact")
    assert small.flatten().tolist() == [0, 1, 2, 3, 4, 5, 5, 6, 7]


def test_other_integers_are_refused():
    with pytest.raises(NotImplementedError, match="floating-point or uint8 input, got int16"):
        F.interpolate(image(4, 4).to(strata.int16), 3)
    with pytest.raises((NotImplementedError, RuntimeError), match="uint8"):
        F.interpolate(image(4, 4), 3, mode="area")
