"""Less common names of torch.cuda."""

import functools
import types

from .. import _C
from .._devices import Devices
from ..random import get_rng_state as _cpu_state

NAMES = """is_bf16_supported is_tf32_supported get_rng_state get_rng_state_all set_rng_state set_rng_state_all seed seed_all
initial_seed ipc_collect memory_cached max_memory_cached reset_max_memory_allocated reset_max_memory_cached get_arch_list nvtx random
utilization default_generators has_half StreamContext""".split()
has_half = True
default_generators = ()
_devices = Devices("cuda")


class StreamContext:
    """A with block whose ops run in a stream; None changes nothing."""

    def __init__(self, stream):
        self._context = _devices.stream(stream)

    def __enter__(self):
        self._context.__enter__()

    def __exit__(self, *error):
        return self._context.__exit__(*error)


def is_bf16_supported(including_emulation=True):
    """Whether the device computes in bfloat16; every device of this version does."""
    return _devices.is_available()


def is_tf32_supported():
    """Whether there is a device with TF32."""
    return _devices.is_available() and _devices.get_device_capability()[0] >= 8


def get_rng_state(device="cuda"):
    """The state of the default generator, which draws for all devices."""
    return _cpu_state()


def set_rng_state(new_state, device="cuda"):
    """Sets the state of the default generator."""
    _C.default_generator.set_state(new_state)


def get_rng_state_all():
    """One state per device."""
    return [get_rng_state() for _ in range(_devices.device_count())]


def set_rng_state_all(new_states):
    """Sets the states of get_rng_state_all()."""
    for state in new_states:
        set_rng_state(state)


def seed():
    """Takes a fresh seed from the system."""
    _C.default_generator.seed()


seed_all = seed


def initial_seed():
    """The seed in use."""
    return _C.default_generator.initial_seed()


def ipc_collect():
    """Nothing to collect: device memory is not shared between processes."""


def memory_cached(device=None):
    """The older name of memory_reserved()."""
    return _devices.memory_reserved(device)


def max_memory_cached(device=None):
    """The older name of max_memory_reserved()."""
    return _devices.max_memory_reserved(device)


def reset_max_memory_allocated(device=None):
    """The older name of reset_peak_memory_stats()."""
    _devices.reset_peak_memory_stats(device)


reset_max_memory_cached = reset_max_memory_allocated


def get_arch_list():
    """The architecture of the current device: kernels are compiled for it when it is first used, or come with the library."""
    return ["sm_{}{}".format(*_devices.get_device_capability())] if _devices.is_available() else []


def utilization(device=None):
    """Raises: it needs NVIDIA's management library."""
    raise NotImplementedError("torch.cuda.utilization is not in this version of Strata; run nvidia-smi")


class _Range:
    """A range that NVIDIA's profilers show, if NVTX is installed: in a with block, or of a function."""

    def __init__(self, message, *args, **kwargs):
        self._message = message.format(*args, **kwargs)

    def __enter__(self):
        _C._nvtx_push(self._message)
        return self

    def __exit__(self, *_):
        _C._nvtx_pop()

    def __call__(self, f):
        @functools.wraps(f)
        def ranged(*args, **kwargs):
            with self:
                return f(*args, **kwargs)

        return ranged


def _mark(message):
    _C._nvtx_push(message)
    _C._nvtx_pop()


nvtx = types.SimpleNamespace(
    range=_Range,
    range_push=_C._nvtx_push,
    range_pop=_C._nvtx_pop,
    mark=_mark,
    annotate=_Range,
)
random = types.SimpleNamespace(
    get_rng_state=get_rng_state, set_rng_state=set_rng_state, manual_seed=_C.manual_seed, seed=seed
)
