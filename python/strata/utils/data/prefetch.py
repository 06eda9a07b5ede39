"""Batches in pinned memory, and batches on a device, copied one ahead."""

from collections.abc import Mapping, Sequence

import strata

_side = {}  # a stream for each device, never destroyed: memory belongs to its stream


def each_tensor(f, data, other=lambda x: x):
    """The same containers with f applied to every tensor, and other to objects that can move themselves to a device."""
    if isinstance(data, strata.Tensor):
        return f(data)
    if hasattr(data, "to"):
        return other(data)
    if isinstance(data, Mapping):
        return {key: each_tensor(f, value, other) for key, value in data.items()}
    if isinstance(data, tuple):
        parts = [each_tensor(f, x, other) for x in data]
        return type(data)(*parts) if hasattr(data, "_fields") else tuple(parts)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [each_tensor(f, x, other) for x in data]
    return data


def _pin(kind):
    return lambda t: t.pin_memory(kind) if t.device.type == "cpu" else t


def pinned(batches, kind):
    """Each batch in pinned memory; custom batch types pin themselves, if they can."""
    for batch in batches:
        own = getattr(batch, "pin_memory", None)
        yield own() if own and not isinstance(batch, strata.Tensor) else each_tensor(_pin(kind), batch)


def ahead(batches, device):
    """Each batch on the device. The next one is copied in a separate stream, while work on this one is queued."""
    gpu = getattr(strata, device.type)
    if device.index is None:
        device = strata.device(device.type, gpu.current_device())
    if device not in _side:
        _side[device] = gpu.Stream(device)
    side, batches = _side[device], iter(batches)

    def fetch():
        """A batch and the event of its copy; None and the error of the next batch; or None at the end."""
        try:
            batch = next(batches)
            with gpu.stream(side):
                pin = _pin(device.type)
                batch = each_tensor(lambda t: pin(t).to(device, non_blocking=True), batch)
                return batch, side.record_event()
        except StopIteration:
            return None
        except Exception as error:  # raised when its batch is due
            return None, error

    def used(t):
        t.record_stream(gpu.current_stream(device))  # it belongs to the side stream: once freed, it waits for this one
        return t

    try:
        upcoming = fetch()
        while upcoming is not None:
            batch, event = upcoming
            if isinstance(event, Exception):
                raise event
            gpu.current_stream(device).wait_event(event)
            batch = each_tensor(used, batch, lambda x: x.to(device))
            upcoming = fetch()
            yield batch
            del batch
    finally:
        if hasattr(batches, "close"):
            batches.close()
