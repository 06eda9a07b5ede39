"""The same values in different memory orders, for tests whose results must not depend on it."""

import numpy as np
import strata

LAYOUTS = ("contiguous", "last", "gaps", "transposed", "offset")


def laid_out(values, layout, channels=1, dtype=strata.float32):
    """A tensor of the values of a NumPy array. `channels` is the dimension of channels, which "last" puts innermost."""
    a = np.asarray(values)
    if layout == "last" and a.ndim > 2:
        order = [d for d in range(a.ndim) if d != channels] + [channels]
    elif layout == "transposed":
        order = list(range(a.ndim))[::-1]
    else:
        order = list(range(a.ndim))
    plain = strata.tensor(a.transpose(order).tolist(), dtype=dtype).reshape(tuple(a.shape[d] for d in order))
    if layout == "gaps" and a.ndim:
        plain = strata.stack([plain, plain + 1000], -1)[..., 0]
    elif layout == "offset":
        plain = strata.cat([strata.full((3,), 1000, dtype=dtype), plain.reshape(-1)])[3:].view(plain.shape)
    t = plain.permute(tuple(int(d) for d in np.argsort(order))) if a.ndim else plain
    return t.detach()
