"""torch.ops.aten: Strata's ops under the names of PyTorch's dispatcher, with their overloads."""

from .. import _C
from ..library._custom_op import Namespace

# Names of the dispatcher for functions that programs call otherwise.
_OTHER_NAMES = {
    "_local_scalar_dense": "item",
    "_to_copy": "to",
    "_unsafe_view": "view",
    "_pin_memory": "pin_memory",
    "alias": "view_as",
    "constant_pad_nd": "pad",
}
_HOMES = ("", "nn.functional.", "linalg.", "special.", "fft.")


class Packet:
    """An op and its overloads, which are one function here: aten.add, aten.add.Tensor and aten.add.default."""

    def __init__(self, name, function):
        self.__name__, self._function = name, function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def overloads(self):
        """The names of the overloads."""
        return ["default"]

    def __repr__(self):
        return f"<op aten.{self.__name__}>"


class Aten(Namespace):
    """The namespace: an op is found by its name among the functions and the methods of tensors."""

    def __getattr__(self, name):
        wanted = _OTHER_NAMES.get(name, name)
        for home in _HOMES:
            function = _C.ops.get(home + wanted)
            if function is not None:
                break
        else:
            function = getattr(_C.Tensor, wanted, None) if not name.startswith("__") else None
        if function is None:
            raise AttributeError(f"strata.ops.aten has no op {name!r}")
        packet = Packet(name, function)
        setattr(self, name, packet)
        return packet
