"""torch._tensor_str: how tensors are printed."""

import contextlib

from .. import _functions


def _tensor_str(self, indent):
    """The elements as text."""
    text = repr(self.detach())
    return text.removeprefix("tensor(").removesuffix(")")


def _str(self, *, tensor_contents=None):
    """What repr() prints."""
    return repr(self)


@contextlib.contextmanager
def printoptions(**options):
    """A with block with other print options."""
    before = _functions.get_printoptions()
    _functions.set_printoptions(**options)
    try:
        yield
    finally:
        _functions.set_printoptions(**before)
