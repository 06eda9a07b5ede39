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


def default_collate(batch):
    """Collates samples to a batch: tensors and arrays are stacked, numbers become a tensor, containers recursively."""
    first = batch[0]
    if isinstance(first, _C.Tensor):
        return _C.ops["stack"](list(batch))
    if _is_array(first):
        if first.dtype.kind in "SUO":
            raise TypeError(f"default_collate: arrays of dtype {first.dtype} cannot become tensors; give a collate_fn")
        return _C.ops["stack"]([_C.as_tensor(x) for x in batch])
    if isinstance(first, float):
        return _C.tensor(list(batch), dtype=_C.float64)
    if isinstance(first, (bool, int)):
        return _C.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}. Give a collate_fn"
    )
