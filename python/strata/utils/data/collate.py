"""Collates a list of samples to a batch, as torch.utils.data does."""

from collections.abc import Mapping, Sequence

from ... import _C


def _is_array(x):
    return type(x).__module__ == "numpy"


def default_convert(data):
    """Converts arrays to tensors, inside containers too; everything else is unchanged."""
    if isinstance(data, _C.Tensor) or isinstance(data, (str, bytes)):
        return data
    if _is_array(data):
        return data if data.dtype.kind in "SUO" else _C.as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence):
        return [default_convert(x) for x in data]
    return data


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors, stacked."""
    return _C.ops["stack"](list(batch))


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Arrays, as tensors, stacked."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(f"default_collate: arrays of dtype {batch[0].dtype} cannot become tensors; give a collate_fn")
    return _C.ops["stack"]([_C.as_tensor(x) for x in batch])


collate_numpy_scalar_fn = collate_numpy_array_fn


def collate_float_fn(batch, *, collate_fn_map=None):
    """Floats, as a tensor of float64."""
    return _C.tensor(list(batch), dtype=_C.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Integers or bools, as a tensor."""
    return _C.tensor(list(batch))


def collate_str_fn(batch, *, collate_fn_map=None):
    """Texts and bytes, unchanged."""
    return batch


# What default_collate does with samples of a type; a program may add its own types. Arrays are found without importing NumPy.
default_collate_fn_map = {
    _C.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _function_for(sample, functions):
    if function := functions.get(type(sample)):
        return function
    if _is_array(sample):
        return collate_numpy_array_fn
    return next((f for kind, f in functions.items() if isinstance(sample, kind)), None)


def collate(batch, *, collate_fn_map=None):
    """Collates samples by the function for their type in collate_fn_map, and containers recursively."""
    first = batch[0]
    if collate_fn_map is not None and (function := _function_for(first, collate_fn_map)):
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}. Give a collate_fn"
    )


def default_collate(batch):
    """Collates samples to a batch: tensors and arrays are stacked, numbers become a tensor, containers recursively."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
