"""torch.signal.windows. The numbers are PyTorch 2.15's; NumPy has some of the symmetric ones."""

import numpy as np
import pytest
import strata
from strata.torch.signal import windows

PERIODIC = [  # of 5 elements
    ("gaussian", {"std": 2.0}, [0.4578, 0.7548, 0.9692, 0.9692, 0.7548]),
    ("cosine", {}, [0.2588, 0.7071, 0.9659, 0.9659, 0.7071]),
    ("exponential", {"tau": 2.0}, [0.2865, 0.4724, 0.7788, 0.7788, 0.4724]),
    ("exponential", {"tau": 2.0, "center": 1.0}, [0.6065, 1.0, 0.6065, 0.3679, 0.2231]),
    ("nuttall", {}, [0.0004, 0.1105, 0.7983, 0.7983, 0.1105]),
    ("general_hamming", {"alpha": 0.6}, [0.2, 0.4764, 0.9236, 0.9236, 0.4764]),
    ("general_cosine", {"a": [0.5, 0.3, 0.2]}, [0.4, 0.2455, 0.8045, 0.8045, 0.2455]),
    ("kaiser", {"beta": 3.0}, [0.2049, 0.6247, 0.9522, 0.9522, 0.6247]),
    ("hann", {}, [0.0, 0.3455, 0.9045, 0.9045, 0.3455]),
    ("hamming", {}, [0.08, 0.3979, 0.9121, 0.9121, 0.3979]),
    ("blackman", {}, [0.0, 0.2008, 0.8492, 0.8492, 0.2008]),
    ("bartlett", {}, [0.0, 0.4, 0.8, 0.8, 0.4]),
]


@pytest.mark.parametrize("name, options, expected", PERIODIC)
def test_periodic_windows(name, options, expected):
    function = getattr(windows, name)
    found = function(5, sym=False, **options)
    assert found.dtype is strata.float32 and np.allclose(found.numpy(), expected, atol=6e-5)
    if "center" not in options:  # a symmetric window is one element longer
        assert strata.allclose(function(6, **options)[:5], found, atol=1e-6)
        assert function(1, **options).tolist() == [1] and function(0, **options).shape == (0,)


NUMPY = [("hann", np.hanning), ("hamming", np.hamming), ("blackman", np.blackman), ("bartlett", np.bartlett)]


@pytest.mark.parametrize("name, there", NUMPY)
@pytest.mark.parametrize("n", [2, 7, 16])
def test_symmetric_windows(name, there, n):
    assert np.allclose(getattr(windows, name)(n, dtype=strata.float64).numpy(), there(n), atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_kaiser(n):
    for found in (
        strata.kaiser_window(n, False, 3.0, dtype=strata.float64),
        windows.kaiser(n, beta=3.0, dtype=strata.float64),
    ):
        assert np.allclose(found.numpy(), np.kaiser(n, 3.0), atol=1e-12)
    assert np.allclose(strata.kaiser_window(n).numpy(), np.kaiser(n + 1, 12.0)[:n] if n > 1 else np.ones(n), atol=1e-6)


ERRORS = [
    (lambda: windows.hann(-1), "non-negative"),
    (lambda: windows.gaussian(3, std=-1.0), "must be positive"),
    (lambda: windows.exponential(3, center=1.0), "Center must be None"),
    (lambda: windows.exponential(3, tau=0.0), "Tau must be positive"),
    (lambda: windows.kaiser(3, beta=-1.0), "non-negative"),
    (lambda: windows.general_cosine(3, a=[]), "cannot be empty"),
    (lambda: windows.hann(3, dtype=strata.float16), "float32 or float64"),
]


@pytest.mark.parametrize("call, message", ERRORS)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_windows_may_require_gradients():
    assert windows.hann(3, requires_grad=True).requires_grad and strata.signal.windows is windows
