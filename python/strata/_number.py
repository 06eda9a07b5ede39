"""A number that tells whether a function has computed with it, or decided by it, instead of only passing it to ops."""

from ._tensor import Tensor

_ASKS = """abs add bool ceil divmod eq float floor floordiv format ge gt hash int le lt mod mul ne neg pos pow radd rdivmod repr
rfloordiv rmod rmul round rpow rsub rtruediv str sub truediv trunc reduce reduce_ex getnewargs""".split()


class Number(float):
    __slots__ = ("used",)

    def __new__(cls, value):
        self = super().__new__(cls, value)
        self.used = False
        return self


def _asking(name):
    plain = getattr(float, name)

    def ask(self, *args):
        if args and isinstance(args[0], Tensor):
            return NotImplemented  # the tensor's method makes it an argument of an op
        self.used = True
        return plain(self, *args)

    return ask


for _name in (*(f"__{name}__" for name in _ASKS), "as_integer_ratio", "hex", "is_integer", "conjugate"):
    setattr(Number, _name, _asking(_name))
Number.real = property(lambda self: _asking("__pos__")(self))
Number.imag = property(lambda self: 0.0)
