"""torch.nn.parallel.scatter_gather: inputs for one device, and its outputs."""

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs, target_gpus, dim=0):
    """The inputs for the one device, in a list."""
    if len(target_gpus) > 1:
        raise NotImplementedError(f"scatter: Strata runs a module on one device, found {list(target_gpus)}; pass one")
    return [inputs]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """The positional and the keyword arguments for the one device."""
    return scatter(inputs, target_gpus, dim), scatter(kwargs or {}, target_gpus, dim)


def gather(outputs, target_device, dim=0):
    """The outputs of the one device."""
    (output,) = outputs
    return output
