"""torch.nn.parallel.data_parallel."""

from . import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]
