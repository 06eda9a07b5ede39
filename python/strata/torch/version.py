"""torch.version: the PyTorch version whose names Strata has, and none of the back ends that were not built in."""

import strata

from .torch_version import TorchVersion

__version__ = TorchVersion(f"2.15.0+strata{strata.__version__}")
debug = False
cuda = None
git_version = "unknown"
hip = None
xpu = rocm = None
