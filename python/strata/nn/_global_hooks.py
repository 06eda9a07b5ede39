"""Hooks of all modules, and of what modules register: PyTorch's register_module_* functions."""

from ..utils import hooks

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# The tables of a module that has no hooks of its own.
forward_pre_hooks, forward_hooks, backward_hooks, backward_pre_hooks = {}, {}, {}, {}
hooks_with_kwargs, hooks_always_called = {}, {}  # marked forward hooks
_registered = {"_parameters": {}, "_buffers": {}, "_modules": {}}


class _Handle(hooks.RemovableHandle):
    """Removes a hook of all modules."""

    def remove(self):
        super().remove()
        hooks_always_called.pop(self.id, None)
        _tell_modules()


def _tell_modules():
    """Calls look for hooks only while there are some."""
    from .module import Module

    Module._hooked = bool(forward_pre_hooks or forward_hooks or backward_hooks or backward_pre_hooks)


def _add(table, hook, flagged=False):
    handle = _Handle(table, hooks_with_kwargs)
    table[handle.id] = hook
    if flagged:
        hooks_with_kwargs[handle.id] = True
    _tell_modules()
    return handle


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward of every module; a returned value replaces args."""
    return _add(forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output) after the forward of every module; a returned value replaces the output."""
    handle = _add(forward_hooks, hook, with_kwargs)
    if always_call:
        hooks_always_called[handle.id] = True
    return handle


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) in the backward of every module; a returned value replaces grad_input."""
    return _add(backward_hooks, hook)


register_module_backward_hook = register_module_full_backward_hook  # the older name


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) in the backward of every module; a returned value replaces grad_output."""
    return _add(backward_pre_hooks, hook)


# --- what modules register -------------------------------------------------------------------------------------------------


def replaced(table, module, name, value):
    """The value that hooks put in the place of a parameter, buffer or child that is being registered."""
    for hook in list(_registered[table].values()):
        found = hook(module, name, value)
        value = value if found is None else found
    return value


def _registration(table, hook):
    return hooks.add(_registered[table], hook)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) when register_parameter() adds one; a returned value replaces it."""
    return _registration("_parameters", hook)


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) when register_buffer() adds one; a returned value replaces it."""
    return _registration("_buffers", hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, child) when a child is added; a returned value replaces it."""
    return _registration("_modules", hook)
