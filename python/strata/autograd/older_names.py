"""autograd.Variable and modules of torch.autograd that older programs import."""

import sys
import types

from .. import _C
from ..torch import profiler


class _VariableType(type):
    """isinstance(x, Variable) holds for every tensor, as since PyTorch 0.4."""

    def __instancecheck__(cls, thing):
        return isinstance(thing, _C.Tensor)

    def __subclasscheck__(cls, kind):
        return issubclass(kind, _C.Tensor)


class Variable(metaclass=_VariableType):
    """Variable(tensor): a tensor over the same memory, without its history."""

    def __new__(cls, data=None, requires_grad=False, volatile=False):
        made = _C.tensor([]) if data is None else data.detach()
        return made.requires_grad_() if requires_grad else made


variable = types.ModuleType(f"{__package__}.variable", "torch.autograd.variable.")
variable.Variable = Variable
sys.modules[variable.__name__] = variable
sys.modules[f"{__package__}.profiler"] = profiler
