"""Modules that hold others, and lists and dictionaries of parameters."""

import operator

from .. import _C
from .module import Module, _indented
from .parameter import Parameter


def _index(container, i):
    n = len(container)
    i = operator.index(i)
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range")
    return str(i % n)


class _ListOfModules(Module):
    """Shared parts of Sequential and ModuleList: modules by number."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def _name(self, i):
        return list(self._modules)[int(_index(self, i))]

    def __setitem__(self, i, module):
        setattr(self, self._name(i), module)

    def __delitem__(self, i):
        names = list(self._modules)
        for name in names[i] if isinstance(i, slice) else [self._name(i)]:
            delattr(self, name)
        self._renumber(list(self._modules.items()))

    def _renumber(self, items):
        values = [m for _, m in items]
        self._modules.clear()
        for i, module in enumerate(values):
            self._modules[str(i)] = module

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Adds several modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index, module):
        """Inserts a module before the one at index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        values = list(self)
        values.insert(index, module)
        self._renumber(list(enumerate(values)))
        return self if isinstance(self, Sequential) else None

    def pop(self, key):
        """Removes a module and returns it."""
        module = self[key]
        del self[key]
        return module

    def __iadd__(self, other):
        return self.extend(other)

    def __add__(self, other):
        made = type(self)()
        return made.extend(list(self)).extend(list(other))


class Sequential(_ListOfModules):
    """Applies each module to the result of the previous one. An OrderedDict gives them names."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            items = args[0].items()
        else:
            items = ((str(i), m) for i, m in enumerate(args))
        for name, module in items:
            self.add_module(name, module)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(dict(list(self._modules.items())[i]))
        return self._modules[self._name(i)]

    def _renumber(self, items):
        if all(str(name).isdigit() for name, _ in items):
            super()._renumber(items)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_ListOfModules):
    """Modules by number, called by the module that holds the list."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(list(self)[i])
        return self._modules[self._name(i)]

    def __repr__(self):
        groups = []  # equal neighbours are one line: (0-2): 3 x Linear(...)
        for i, text in enumerate(map(repr, self)):
            if groups and groups[-1][1] == text:
                groups[-1][2] = i
            else:
                groups.append([i, text, i])
        if not groups:
            return f"{self._get_name()}()"
        lines = [
            f"({a}): {_indented(text)}" if a == b else f"({a}-{b}): {b - a + 1} x {_indented(text)}"
            for a, text, b in groups
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Removes all."""
        self._modules.clear()

    def pop(self, key):
        """Removes a module and returns it."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """Pairs of name and module."""
        return self._modules.items()

    def update(self, modules):
        """Adds modules from a mapping or from pairs of name and module."""
        for name, module in modules.items() if hasattr(modules, "items") else modules:
            self[name] = module


def _as_parameter(value):
    return Parameter(value) if isinstance(value, _C.Tensor) and not isinstance(value, Parameter) else value


def _tensor_text(value):
    size = "x".join(map(str, value.shape))
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{str(value.dtype)} of size {size}]"


class ParameterList(Module):
    """Parameters by number; plain tensors become parameters."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self):
        return self._size

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)([self[k] for k in range(*i.indices(len(self)))])
        return getattr(self, _index(self, i))

    def __setitem__(self, i, value):
        setattr(self, _index(self, i), _as_parameter(value))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def append(self, value):
        """Adds a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Adds several values at the end."""
        if isinstance(values, _C.Tensor) or not hasattr(values, "__iter__"):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values):
        return self.extend(values)

    def extra_repr(self):
        lines = [
            f"  ({i}): {_tensor_text(v) if isinstance(v, _C.Tensor) else 'Object of type: ' + type(v).__name__}"
            for i, v in enumerate(self)
        ]
        return "\n".join(lines)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters by name; plain tensors become parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key, value):
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def get(self, key, default=None):
        """The value of a name, or the default."""
        return self[key] if key in self else default

    def pop(self, key):
        """Removes a value and returns it."""
        value = self[key]
        del self[key]
        return value

    def keys(self):
        """The names."""
        return self._keys.keys()

    def values(self):
        """The values."""
        return (self[k] for k in self._keys)

    def items(self):
        """Pairs of name and value."""
        return ((k, self[k]) for k in self._keys)

    def update(self, parameters):
        """Adds values from a mapping or from pairs of name and value."""
        for name, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[name] = value

    def extra_repr(self):
        lines = [
            f"  ({k}): {_tensor_text(v) if isinstance(v, _C.Tensor) else 'Object of type: ' + type(v).__name__}"
            for k, v in self.items()
        ]
        return "\n".join(lines)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterDict should not be called.")
