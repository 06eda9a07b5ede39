"""The import hook behind `import torch`: finds `torch.a.b` as strata.torch.a.b, else strata.a.b, else a stand-in.

torch.nn *is* strata.nn: both names give one module object. Only the module `torch` itself is an object of its own, because its
name, its version and what it prints differ.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types

import strata

from .. import _C
from ._files import FILES
from ._missing import MissingModule, missing
from .version import __version__

# Parts of PyTorch without a counterpart: importing from them works, see _missing.py.
_ABSENT = (
    "torch._C._distributed_c10d",
    "torch._C._distributed_rpc",
    "torch._dynamo._trace_wrapped_higher_order_op",
    "torch._dynamo.exc",
    "torch._functorch",
    "torch._guards",
    "torch._higher_order_ops",
    "torch._inductor",
    "torch._logging",
    "torch._ops",
    "torch._subclasses",
    "torch._export",
    "torch._prims",
    "torch._refs",
    "torch.ao",
    "torch.distributed",
    "torch.export",
    "torch.futures",
    "torch.fx",
    "torch.monitor",
    "torch.numa",
    "torch.nn.intrinsic",
    "torch.nn.qat",
    "torch.nn.quantized",
    "torch.nn.quantizable",
    "torch.nn.attention",
    "torch.onnx",
    "torch.package",
    "torch.quantization",
    "torch.sparse",
    "torch.testing._internal",
    "torch.utils._sympy",
    "torch.utils.bottleneck",
    "torch.utils.data.datapipes",
    "torch.utils.data.graph_settings",
    "torch.utils.flop_counter",
    "torch.utils.mobile_optimizer",
    "torchvision.models",
    "torchvision.io",
    "torchvision.transforms.functional",
    "torchvision.transforms.v2",
)


# Files of PyTorch whose names are in another file here.
_ELSEWHERE = {
    **{
        f"torch.optim.{file}": "strata.optim"
        for file in "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd".split()
    },
    "torch._jit_internal": "strata.torch.jit",
    "torch.jit.annotations": "strata.torch._jit_annotations",
    "torch._C._functorch": "strata.torch._functorch_names",
    "torch._custom_ops": "strata.library",
    "torch._dynamo.eval_frame": "strata.torch._dynamo",
    "torch._dynamo.utils": "strata.torch._dynamo",
    "torch._higher_order_ops.cond": "strata._control_flow",
    "torch._higher_order_ops.scan": "strata._control_flow",
    "torch._higher_order_ops.while_loop": "strata._control_flow",
    "torch._tensor": "strata._tensor",
    "torch._tensor_str": "strata.torch._tensor_str",
    "torch.mps": "strata.torch.other_devices",
    "torch.mtia": "strata.torch.other_devices",
    "torch.xpu": "strata.torch.other_devices",
    "torch.multiprocessing.spawn": "strata.multiprocessing",
    "torch.profiler.profiler": "strata.torch.profiler",
    "torch.utils._python_dispatch": "strata.torch._python_dispatch",
    "torch.utils.data._utils.worker": "strata.utils.data.worker",
    "torch._C": "strata._C",
    "torch.quantization": "strata.torch.ao.quantization",
    "torch.quantization.quantize": "strata.torch.ao.quantization",
    "torch.ao.quantization.quantize": "strata.torch.ao.quantization",
    "torch.nn.quantized": "strata.torch.ao.nn.quantized",
    "torch.nn.quantized.dynamic": "strata.torch.ao.nn.quantized.dynamic",
    "torch.autograd.grad_mode": "strata.autograd.modes",
    "torch.autograd.variable": "strata.autograd.older_names",
    "torch.autograd.profiler": "strata.torch.profiler",
    "torch.cuda.random": "strata.cuda._older_names",
    "torch.nn._reduction": "strata.nn._support",
    "torch.utils.data._utils": "strata.utils.data",
    "torch.utils.data._utils.collate": "strata.utils.data.collate",
    "torchvision.datasets.mnist": "strata.vision.datasets",
    "torchvision.datasets.cifar": "strata.vision.datasets",
    "torchvision.transforms.transforms": "strata.vision.transforms",
}


def _target(name):
    """The Strata module that a torch name means, None if there is none."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    package, _, rest = name.partition(".")
    homes = ("strata.torch.vision", "strata.vision") if package == "torchvision" else ("strata.torch", "strata")
    for home in homes:
        full = f"{home}.{rest}" if rest else home
        if full in sys.modules:
            return full
        try:
            if importlib.util.find_spec(full) is not None or full in sys.modules:  # the parent may have made it
                return full
        except ModuleNotFoundError:
            continue
        except ValueError:  # a module without a spec, made at run time
            return full
    return None


_STAND_IN = os.path.join(os.path.dirname(__file__), "stand_in")
_UNKNOWN = object()
_torchvision = _UNKNOWN


def _nearest(name):
    """The module that has the names of a file which Strata does not have: the innermost package that it does have, if any."""
    package = name.rpartition(".")[0]
    while package in FILES:
        package = package.rpartition(".")[0]
    return None if package == "torch" else importlib.import_module(package)


class _Loader(importlib.abc.Loader):
    """Returns a module that exists, and leaves it as it is."""

    def __init__(self, target):
        self.target = target

    def create_module(self, spec):
        if self.target is None:
            return MissingModule(spec.name, _nearest(spec.name) if spec.name in FILES else None)
        module = importlib.import_module(self.target)
        self.own_spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module):
        if self.target is not None and isinstance(module, types.ModuleType):
            module.__spec__ = self.own_spec  # the import system has just replaced it
            _add_stand_ins(module)


def _installed_torchvision():
    """The spec of a torchvision other than the stand-in beside this file, which runs on Strata as it is; None without one.

    The stand-in is before it on the path, so that processes find that first.
    """
    global _torchvision
    if _torchvision is _UNKNOWN:
        path = [folder for folder in sys.path if folder != _STAND_IN]
        spec = importlib.machinery.PathFinder.find_spec("torchvision", path)
        # The package strata-torch installs a copy of the stand-in.
        folders = spec.submodule_search_locations if spec else None
        _torchvision = spec if any(os.path.isdir(os.path.join(f, "models")) for f in folders or ()) else None
    return _torchvision


class _Finder(importlib.abc.MetaPathFinder):
    def find_distributions(self, context):
        """The distribution `torch`, for importlib.metadata."""
        if context.name is not None and context.name.lower() != "torch":
            return []
        from ._distribution import TorchDistribution

        return [TorchDistribution()]

    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in ("torch", "torchvision"):
            return None
        if package == "torchvision" and (installed := _installed_torchvision()) is not None:
            return installed if name == "torchvision" else None
        target = _target(name)
        if target is None and not name.startswith(tuple(f"{a}." for a in _ABSENT)) and name not in (*_ABSENT, *FILES):
            return None
        spec = importlib.util.spec_from_loader(name, _Loader(target), is_package=True)
        return spec


_torch_names = {}  # strata module name -> torch's


def _add_stand_ins(module):
    """Names that PyTorch's module of this name has and ours lacks become stand-ins."""
    name = module.__name__
    if name in _torch_names or not name.startswith("strata."):
        return
    if name.startswith("strata.vision"):
        theirs = "torchvision" + name.removeprefix("strata.vision")
    else:
        theirs = "torch" + (
            name.removeprefix("strata.torch") if name.startswith("strata.torch.") else name[len("strata") :]
        )
    _torch_names[name] = theirs
    from ._names import ABSENT

    names = [theirs, *(file for file, home in _ELSEWHERE.items() if home == name)]
    known = {n for file in names for n in ABSENT.get(file, "").split()}
    own = module.__dict__.get("__getattr__")
    below = {name.rpartition(".")[2] for name in _ABSENT if name.rpartition(".")[0] == theirs}
    if not known and not below:
        return

    def __getattr__(attribute):
        if own is not None:
            try:
                return own(attribute)
            except AttributeError:
                pass
        if attribute in below:
            return importlib.import_module(f"{theirs}.{attribute}")
        if attribute in known:
            return missing(f"{theirs}.{attribute}")
        raise AttributeError(f"module '{theirs}' has no attribute {attribute!r}")

    module.__getattr__ = __getattr__


class _Torch(types.ModuleType):
    """The module `torch`: Strata's names under the name of torch."""

    def __getattr__(self, name):
        if name.startswith("__") and name != "__config__":
            raise AttributeError(f"module 'torch' has no attribute {name!r}")
        value = _lookup(name)
        self.__dict__[name] = value
        return value

    def __dir__(self):
        return sorted({*self.__dict__, *dir(strata)})


def _lookup(name):
    """A name of torch that is not among Strata's eager ones."""
    try:
        value = getattr(strata, name)
    except AttributeError:
        pass
    else:
        if isinstance(value, types.ModuleType):
            _add_stand_ins(value)
        return value
    full = f"torch.{name}"
    if full in sys.modules:
        return sys.modules[full]
    if _target(full) is not None or full in _ABSENT or full in FILES:
        return importlib.import_module(full)
    from ._names import ABSENT

    if name in ABSENT["torch"].split():
        return missing(full)
    raise AttributeError(f"module 'torch' has no attribute {name!r}")


def is_installed():
    return isinstance(sys.modules.get("torch"), _Torch)


def install():
    if is_installed():
        return
    if "torch" in sys.modules:
        raise RuntimeError(
            "PyTorch has been imported already: import strata.torch_alias before anything that imports torch"
        )
    torch = _Torch("torch", "Strata under the names of PyTorch: see strata.torch.")
    torch.__dict__.update({k: v for k, v in strata.__dict__.items() if not k.startswith("__")})
    torch.torch = torch  # PyTorch's module has its own name too
    torch.__version__ = __version__
    torch.__file__, torch.__path__, torch.__package__ = strata.__file__, [], "torch"
    torch.__spec__ = importlib.util.spec_from_loader("torch", _Loader("strata"), is_package=True)
    torch.__all__ = list(strata.__all__)
    sys.modules["torch"] = torch
    _add_c_names()
    sys.modules["torch._C"] = _C
    sys.meta_path.insert(0, _Finder())
    # Processes that the program starts inherit the path, and find torch there: before PyTorch, if that is installed.
    sys.path.insert(1, _STAND_IN)
    _use_torch_names()


def _add_c_names():
    """Lets programs import from torch._C, which they treat as a package."""

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
        from . import _c_names

        return _c_names.find(name)

    _C.__path__ = []
    _C.__getattr__ = __getattr__


def _use_torch_names():
    """Printed types have torch's names, and files are written in PyTorch's format."""
    _C._set_package_name("torch")
    for kind in (_C.Tensor, _C.dtype, _C.device, _C.Size, _C.Generator):
        kind.__module__ = "torch"
    for name, module in list(sys.modules.items()):
        if name.startswith("strata.") and isinstance(module, types.ModuleType):
            _add_stand_ins(module)
    strata.nn.Parameter.__module__ = "torch.nn.parameter"
    from ..nn import modules

    modules.use_torch_names()
    strata.serialization.default_format = "torch"
