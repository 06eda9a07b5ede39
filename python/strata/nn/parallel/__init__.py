"""Wrappers that spread a module over devices. Strata runs on one: DataParallel is the module itself, under `.module`."""

from ..module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Runs the module on its own device. More than one device is refused."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError(
                f"DataParallel: Strata runs a module on one device, found device_ids={list(device_ids)}; pass one, or none"
            )
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = list(device_ids or []), output_device

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Not in this version: raises when it is created."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(
            "DistributedDataParallel is not in this version of Strata, which trains in one process on one device; use the "
            "module itself"
        )


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """The module's output, computed on its own device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
