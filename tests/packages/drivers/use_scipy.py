"""SciPy: its functions for the array API standard take tensors and return tensors."""

import os
import sys

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported
for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
    del sys.modules[name]  # SciPy must meet the tensors as Strata's own, not as PyTorch's

import numpy as np
import scipy.fft
import scipy.ndimage
import scipy.signal
import scipy.special
import scipy.stats
import strata

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 3))
y = x @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=40)
t, u = strata.from_numpy(x), strata.from_numpy(y)


def same(ours, theirs, rtol=1e-9):
    """Tensors, with the values that SciPy computes from NumPy's arrays."""
    assert isinstance(ours, strata.Tensor), type(ours)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=rtol, atol=1e-12)


for function in (scipy.stats.skew, scipy.stats.kurtosis, scipy.stats.gmean, scipy.stats.sem, scipy.stats.variation):
    data, array = (abs(t), abs(x)) if function is scipy.stats.gmean else (t, x)
    same(function(data, axis=0), function(array, axis=0))
same(scipy.stats.zscore(t), scipy.stats.zscore(x))
same(scipy.stats.moment(t, order=3), scipy.stats.moment(x, order=3))
ours, theirs = scipy.stats.ttest_1samp(t, 0.1), scipy.stats.ttest_1samp(x, 0.1)
same(ours.statistic, theirs.statistic)
same(ours.pvalue, theirs.pvalue)
ours, theirs = scipy.stats.pearsonr(t[:, 0], u), scipy.stats.pearsonr(x[:, 0], y)
same(ours.statistic, theirs.statistic)
same(scipy.special.logsumexp(t, axis=1), scipy.special.logsumexp(x, axis=1))
same(scipy.special.softmax(t, axis=1), scipy.special.softmax(x, axis=1))
for function in (scipy.special.erf, scipy.special.gammaln, scipy.special.ndtr, scipy.special.i0):
    same(function(abs(t)), function(abs(x)))
same(scipy.fft.fft(u), scipy.fft.fft(y))
same(scipy.fft.irfft(scipy.fft.rfft(t, axis=0), axis=0, n=40), x)
same(scipy.fft.fftfreq(5, xp=strata.array_api), np.fft.fftfreq(5), rtol=1e-6)
same(scipy.signal.detrend(u), scipy.signal.detrend(y), rtol=1e-7)
same(scipy.signal.hilbert(u), scipy.signal.hilbert(y))
same(scipy.ndimage.gaussian_filter(t, 1.0), scipy.ndimage.gaussian_filter(x, 1.0))
