"""torch.distributed: one process. The questions a program asks first are answered, the rest raises when it is called."""

from .._missing import missing

__all__ = ["barrier", "get_rank", "get_world_size", "init_process_group", "is_available", "is_initialized"]


def is_available():
    """False: there is one process."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_torchelastic_launched = is_available


def is_initialized():
    """False: there is no process group."""
    return False


def get_rank(group=None):
    """Raises: there is no process group. Ask is_initialized() first."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


get_world_size = get_rank


def init_process_group(*args, **kwargs):
    """Raises: there is one process."""
    raise NotImplementedError(
        "torch.distributed.init_process_group is not in this version of Strata, which trains in one process on one device; "
        "start the program without a launcher"
    )


def destroy_process_group(group=None):
    """Nothing to destroy."""


def barrier(*args, **kwargs):
    """Raises: there is no process group."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


class ReduceOp:
    """The names of reductions."""

    SUM, PRODUCT, MIN, MAX, AVG = range(5)


__path__ = []  # torch.distributed.fsdp and others are found as stand-ins


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.distributed' has no attribute {name!r}")
    return missing(f"torch.distributed.{name}")
