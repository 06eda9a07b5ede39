"""Execution providers: the devices of Strata under onnxruntime's names."""

from .. import _C

_DEVICES = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}


def get_all_providers():
    return ["CUDAExecutionProvider", "CPUExecutionProvider"]


def get_available_providers():
    from .. import cuda

    return ["CUDAExecutionProvider"] * cuda.is_available() + ["CPUExecutionProvider"]


def get_device():
    return "GPU" if len(get_available_providers()) > 1 else "CPU"


def device_of(providers, options):
    """The device of the first provider, and the names of all. A provider that is not there is an error, never the CPU."""
    if not providers:
        return _C.device("cpu"), ["CPUExecutionProvider"]
    names, chosen = [], None
    for i, provider in enumerate(providers):
        name, own = provider if isinstance(provider, tuple) else (provider, (options or [{}] * len(providers))[i])
        if name not in _DEVICES:
            raise ValueError(
                f"strata.onnxruntime: there is no provider {name!r}; known are {', '.join(_DEVICES)}. For other "
                "devices of Strata use strata.onnx.load(path, device)"
            )
        if name not in get_available_providers():
            raise RuntimeError(
                f"strata.onnxruntime: {name} was asked for and is not available on this machine; `strata devices` says "
                "why. Ask for CPUExecutionProvider to run on the CPU"
            )
        if chosen is None:
            kind = _DEVICES[name]
            chosen = _C.device(f"cuda:{int(own.get('device_id', 0))}" if kind == "cuda" else "cpu")
        names.append(name)
    return chosen, names if "CPUExecutionProvider" in names else [*names, "CPUExecutionProvider"]
