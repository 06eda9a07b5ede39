"""strata.fft, stft and istft against NumPy: all lengths, dimensions, norms, dtypes and gradients."""

import numpy as np
import pytest
import strata
from strata.autograd import gradcheck, gradgradcheck

LENGTHS = [*range(1, 41), 49, 64, 97, 100, 121, 128, 210, 243, 256, 360, 625, 961, 1009, 1024, 2048, 3000, 4096, 4099]
LONG = [5000, 8192, 10007, 16384, 3 * 2**13, 2**17, 31**3]
TOLERANCE = {strata.float32: 2e-6, strata.float64: 5e-15}


def signal(rng, *shape, real=False, dtype=strata.float64):
    a = rng.normal(size=shape) if real else rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return strata.tensor(a, dtype=dtype if real else dtype.to_complex())


def assert_near(got, want, dtype, n):
    want = np.asarray(want)
    assert got.shape == want.shape
    bound = TOLERANCE[dtype] * max(1, np.log2(max(n, 2))) * max(1e-30, np.abs(want).max(initial=0))
    assert np.abs(got.numpy() - want).max(initial=0) <= bound


@pytest.mark.parametrize("n", LENGTHS + LONG)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_every_length(n, dtype):
    rng = np.random.default_rng(n)
    z, x = signal(rng, 3, n, dtype=dtype), signal(rng, 3, n, real=True, dtype=dtype)
    assert_near(strata.fft.fft(z), np.fft.fft(z.numpy().astype(complex)), dtype, n)
    assert_near(strata.fft.ifft(z), np.fft.ifft(z.numpy().astype(complex)), dtype, n)
    assert_near(strata.fft.rfft(x), np.fft.rfft(x.numpy().astype(float)), dtype, n)
    half = strata.fft.rfft(x)
    assert_near(strata.fft.irfft(half, n), np.fft.irfft(half.numpy().astype(complex), n), dtype, n)
    assert_near(strata.fft.fft(x), np.fft.fft(x.numpy().astype(float)), dtype, n)
    assert half.dtype is dtype.to_complex() and strata.fft.irfft(half, n).dtype is dtype


@pytest.mark.parametrize("lines", [1, 2, 7, 8, 17, 100])
@pytest.mark.parametrize("n", [12, 37, 256, 6000, 2**15])
def test_numbers_of_lines_and_dimensions(lines, n):
    rng = np.random.default_rng(lines)
    z = signal(rng, lines, n)
    a = z.numpy()
    assert_near(strata.fft.fft(z), np.fft.fft(a), strata.float64, n)
    columns = z.t().contiguous()
    assert_near(strata.fft.fft(columns, dim=0), np.fft.fft(a.T, axis=0), strata.float64, n)
    assert_near(strata.fft.fft(z.t(), dim=0), np.fft.fft(a.T, axis=0), strata.float64, n)
    assert_near(strata.fft.rfft(columns.real, dim=0), np.fft.rfft(a.T.real, axis=0), strata.float64, n)
    middle = signal(rng, 3, 10, lines)
    assert_near(strata.fft.fft(middle, dim=1), np.fft.fft(middle.numpy(), axis=1), strata.float64, 10)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_norms_and_sizes(norm):
    rng = np.random.default_rng(0)
    z, x = signal(rng, 4, 9), signal(rng, 4, 9, real=True)
    for n in (None, 5, 9, 14):
        for dim in (0, 1, -1):
            for name, t in (("fft", z), ("ifft", z), ("rfft", x), ("irfft", z), ("hfft", z), ("ihfft", x)):
                got = getattr(strata.fft, name)(t, n, dim, norm)
                assert_near(got, getattr(np.fft, name)(t.numpy(), n, dim, norm), strata.float64, 16)
    for s, dim in ((None, (0, 1)), ((5, 6), (1, 0)), ((3, 12), (0, 1))):
        for name, t in (("fftn", z), ("ifftn", z), ("rfftn", x), ("irfftn", z), ("fft2", z), ("rfft2", x), ("irfft2", z), ("ifft2", z)):  # fmt: skip
            got = getattr(strata.fft, name)(t, s, dim, norm)
            assert_near(got, getattr(np.fft, name)(t.numpy(), s, dim, norm), strata.float64, 64)
    # NumPy has no hfftn: the inverse of the real transform of the conjugate, with the norms exchanged.
    other = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
    assert_near(strata.fft.hfft2(z, norm=norm), np.fft.irfft2(z.numpy().conj(), norm=other), strata.float64, 64)
    assert_near(strata.fft.ihfftn(x, norm=norm), np.fft.rfftn(x.numpy(), norm=other).conj(), strata.float64, 64)


def test_integers_are_transformed_as_floats_and_narrow_floats_are_refused():
    assert strata.fft.fft(strata.tensor([1, 2, 3])).dtype is strata.complex64
    assert strata.fft.rfft(strata.tensor([True, False])).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Unsupported dtype float16"):
        strata.fft.fft(strata.ones(4, dtype=strata.float16))
    with pytest.raises(NotImplementedError, match="rfft: the complex64 dtype is not supported"):
        strata.fft.rfft(strata.ones(4, dtype=strata.complex64))


def test_inverse_transforms_check_their_sizes():
    z = strata.ones(3, dtype=strata.complex64)
    with pytest.raises(RuntimeError, match="3 elements cannot be the spectrum of 8 real numbers"):
        strata._C.ops["_fft_c2r"](z, 0, 8, 1.0)
    with pytest.raises(RuntimeError, match="2 or 3 dimensions"):
        strata.istft(z, 4)


def test_frequencies_and_shifts():
    for n in (1, 2, 5, 8):
        np.testing.assert_allclose(strata.fft.fftfreq(n, 0.3, dtype=strata.float64).numpy(), np.fft.fftfreq(n, 0.3))
        np.testing.assert_allclose(strata.fft.rfftfreq(n, 0.3, dtype=strata.float64).numpy(), np.fft.rfftfreq(n, 0.3))
    x = strata.arange(20).view(4, 5)
    for dim in (None, 0, (0, 1), -1):
        assert (strata.fft.fftshift(x, dim).numpy() == np.fft.fftshift(x.numpy(), dim)).all()
        assert (strata.fft.ifftshift(x, dim).numpy() == np.fft.ifftshift(x.numpy(), dim)).all()


@pytest.mark.parametrize("n", [6, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_gradients(name, n):
    rng = np.random.default_rng(1)
    t = signal(rng, 2, 5, real=name in ("rfft", "ihfft")).requires_grad_()

    def run(t):
        return getattr(strata.fft, name)(t, n, norm="ortho")

    assert gradcheck(run, (t,)) and gradgradcheck(run, (t,))


@pytest.mark.parametrize("device", ["vgpu", "meta"])
def test_other_devices(device):
    z = signal(np.random.default_rng(2), 3, 10, dtype=strata.float32)
    there = strata.fft.fft2(z.to(device))
    assert there.device.type == device and there.shape == (3, 10)
    if device != "meta":
        assert strata.allclose(there.cpu(), strata.fft.fft2(z), atol=1e-5)
        half = strata.fft.rfft(z.real.to(device))
        assert strata.allclose(strata.fft.irfft(half, 10).cpu(), z.real, atol=1e-5)


# --- short-time transforms -------------------------------------------------------------------------------------------


def direct_stft(x, n_fft, hop, window, center, pad_mode):
    if center:
        x = np.pad(x, n_fft // 2, mode=pad_mode)
    frames = [x[i : i + n_fft] * window for i in range(0, len(x) - n_fft + 1, hop)]
    return np.stack([np.fft.rfft(f) for f in frames], 1)


@pytest.mark.parametrize("n_fft, hop", [(16, 4), (15, 5), (16, 7)])
@pytest.mark.parametrize("center", [True, False])
def test_stft_agrees_with_direct_transforms(n_fft, hop, center):
    x = np.random.default_rng(3).normal(size=101)
    window = strata.hann_window(n_fft, dtype=strata.float64)
    for mode, there in (("reflect", "reflect"), ("constant", "constant")):
        got = strata.stft(
            strata.tensor(x), n_fft, hop, window=window, center=center, pad_mode=mode, return_complex=True
        )
        assert_near(got, direct_stft(x, n_fft, hop, window.numpy(), center, there), strata.float64, 64)
    pairs = strata.stft(strata.tensor(x), n_fft, hop, window=window, center=center, return_complex=False)
    assert pairs.shape[-1] == 2


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("win_length", [16, 12])
def test_istft_is_the_inverse(normalized, onesided, win_length):
    x = signal(np.random.default_rng(4), 2, 96, real=True).requires_grad_()
    window = strata.hamming_window(win_length, dtype=strata.float64)
    kept = dict(hop_length=4, win_length=win_length, window=window, normalized=normalized, onesided=onesided)

    def there_and_back(x):
        return strata.istft(strata.stft(x, 16, **kept, return_complex=True), 16, **kept, length=96)

    assert strata.allclose(there_and_back(x), x)
    one = x[:1, :40].detach().requires_grad_()
    assert gradcheck(lambda x: strata.stft(x, 8, 4, return_complex=True), (one,))


def test_istft_of_a_window_with_gaps_raises():
    z = strata.stft(strata.randn(64), 16, 16, window=strata.hann_window(16), center=False, return_complex=True)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        strata.istft(z, 16, 16, window=strata.hann_window(16), center=False)


@pytest.mark.parametrize("name, there", [("hann", np.hanning), ("hamming", np.hamming), ("blackman", np.blackman), ("bartlett", np.bartlett)])  # fmt: skip
def test_windows(name, there):
    make = getattr(strata, f"{name}_window")
    for n in (0, 1, 2, 7, 16):
        np.testing.assert_allclose(make(n, periodic=False, dtype=strata.float64).numpy(), there(n), atol=1e-15)
        if n > 1:
            np.testing.assert_allclose(make(n, dtype=strata.float64).numpy(), there(n + 1)[:-1], atol=1e-15)
