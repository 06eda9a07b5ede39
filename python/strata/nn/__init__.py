"""Neural networks: modules, functions, initial values.

The modules are loaded on first use, so that importing strata stays fast.
"""

import importlib

from . import functional
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

# The names defined in each file.
_FILES = {
    "module": ["Module"],
    "containers": ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"],
    "multihead": ["MultiheadAttention"],
    "recurrent": ["RNNBase", "RNNCellBase", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"],
    "transformer": [
        "Transformer",
        "TransformerEncoder",
        "TransformerEncoderLayer",
        "TransformerDecoder",
        "TransformerDecoderLayer",
    ],
    "loss": ["AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss", "TripletMarginWithDistanceLoss"],
    "sync_batchnorm": ["SyncBatchNorm"],
    "parallel": ["DataParallel"],
    "lazy": [
        "LazyLinear",
        *[f"LazyConv{n}d" for n in (1, 2, 3)],
        *[f"LazyConvTranspose{n}d" for n in (1, 2, 3)],
        *[f"LazyBatchNorm{n}d" for n in (1, 2, 3)],
        *[f"LazyInstanceNorm{n}d" for n in (1, 2, 3)],
    ],
}
_HOME = {name: file for file, names in _FILES.items() for name in names}

__all__ = list(_HOME)
__all__ += ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init", "utils"]


def __getattr__(name):
    if name in ("init", "utils", "modules", "parallel"):
        return importlib.import_module(f".{name}", __name__)
    if name.startswith("_") or name in _FILES:  # a file of its own, which the import statement finds by itself
        raise AttributeError(f"module 'strata.nn' has no attribute '{name}'")
    home = importlib.import_module(f".{_HOME.get(name, '_modules')}", __name__)
    try:
        value = getattr(home, name)
    except AttributeError:
        raise AttributeError(f"module 'strata.nn' has no attribute '{name}'") from None
    globals()[name] = value
    return value


def __dir__():
    return sorted({*__all__, *importlib.import_module("._modules", __name__).__all__})
