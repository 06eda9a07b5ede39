"""Stand-ins for what PyTorch has and Strata lacks. They can be imported and named; using them raises."""

import sys
import types

# What to use instead, by the longest matching name.
_INSTEAD = {
    "torch.distributed": "run one process per program; Strata trains on one device",
    "torch.nn.parallel.DistributedDataParallel": "use the module itself; Strata trains on one device",
    "torch.onnx": "save the state_dict() and rebuild the model where it is needed",
    "torch.ao": "there are no quantized tensors: use quantize_dynamic(), quantize_int8() with linear_int8(), or strata.amp.fp8",
    "torch.quantization": "there are no quantized tensors: use quantize_dynamic(), or strata.amp.fp8",
    "torch.sparse": "use sparse_coo_tensor() or sparse_csr_tensor()",
    "torch.utils.cpp_extension": "use load_inline, or strata.library for ops in C++",
    "torchvision.models": "define the network with nn modules",
}


def explain(name):
    """The text of the error for a missing name."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        if hint := _INSTEAD.get(".".join(parts[:n])):
            return f"{name} is not in this version of Strata; {hint}"
    return f"{name} is not in this version of Strata; docs/usage/differences.md lists what is missing"


class MissingType(type):
    """The type of stand-ins: a class, so that a program can inherit from it and ask isinstance()."""

    def __call__(cls, *args, **kwargs):
        raise NotImplementedError(explain(cls._missing_name))

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return missing(f"{cls._missing_name}.{name}")

    def __getitem__(cls, item):  # an annotation: Future[Tensor]
        return cls

    def __repr__(cls):
        return f"<{cls._missing_name}: not in Strata>"


def missing(name):
    """A stand-in for the PyTorch name `name`."""
    home, _, own = name.rpartition(".")
    return MissingType(own, (), {"_missing_name": name, "__module__": home, "__doc__": explain(name)})


class MissingModule(types.ModuleType):
    """A module of PyTorch that Strata lacks: importing from it works.

    package: where Strata has names of that file; the others are stand-ins.
    """

    def __init__(self, name, package=None):
        super().__init__(name, explain(name))
        self.__path__ = []
        # The package may have an object of this name, which the import hides: the function nn.utils.weight_norm, cuda.memory.
        self._hidden = getattr(package, name.rpartition(".")[2], None)
        self._package = package

    def __call__(self, *args, **kwargs):
        if not callable(self._hidden):
            raise NotImplementedError(explain(self.__name__))
        return self._hidden(*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        full = f"{self.__name__}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        found = [getattr(home, name, None) for home in (self._hidden, self._package)]
        value = next((v for v in found if v is not None), None)
        self.__dict__[name] = value = missing(full) if value is None else value
        return value
