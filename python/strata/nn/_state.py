"""state_dict and load_state_dict of modules."""

import itertools
import warnings
from collections import OrderedDict, namedtuple

from .. import _C
from ..autograd import no_grad
from ..utils import hooks
from .parameter import Parameter, is_lazy

EXTRA = "_extra_state"


class IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The result of load_state_dict; both lists are empty if everything matched."""

    __slots__ = ()

    def __repr__(self):
        return (
            "<All keys matched successfully>"
            if not self.missing_keys and not self.unexpected_keys
            else f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"
        )


def _quoted(names):
    return ", ".join(f'"{n}"' for n in names)


class StateDict:
    """The part of Module that converts it to named tensors and back."""

    _version = 1

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        persistent = ((n, b) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set)
        for name, tensor in itertools.chain(self._parameters.items(), persistent):
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def get_extra_state(self):
        """Extra state of a subclass for its state_dict; set_extra_state() restores it."""
        raise RuntimeError("get_extra_state: override it together with set_extra_state")

    def set_extra_state(self, state):
        """Restores the state returned by get_extra_state()."""
        raise RuntimeError("set_extra_state: override it together with get_extra_state")

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Parameters and persistent buffers by path; detached, sharing memory, unless keep_vars."""
        for value, name in zip(args, ("destination", "prefix", "keep_vars"), strict=False):  # PyTorch's old order
            destination, prefix, keep_vars = (
                value if name == "destination" else destination,
                value if name == "prefix" else prefix,
                value if name == "keep_vars" else keep_vars,
            )
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = {"version": self._version}
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            found = hook(self, destination, prefix, destination._metadata.get(prefix[:-1], {}))
            destination = destination if found is None else found
        return destination

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        persistent = {n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set}
        own = {n: t for n, t in itertools.chain(self._parameters.items(), persistent.items()) if t is not None}
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, key, tensor, state_dict[key], assign, error_msgs)
            elif strict and name not in self._optional_names:
                missing_keys.append(key)
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if prefix + EXTRA in state_dict:
                self.set_extra_state(state_dict[prefix + EXTRA])
            elif strict:
                missing_keys.append(prefix + EXTRA)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    known = first in self._modules if rest else first in own
                    if not known:
                        unexpected_keys.append(key)

    def _load_one(self, name, key, tensor, given, assign, errors):
        if not isinstance(given, _C.Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected strata.Tensor or Tensor-like object from '
                f"checkpoint but received {type(given)}"
            )
            return
        if is_lazy(tensor):
            with no_grad():
                tensor.materialize(given.shape)
        if tensor.dim() == 0 and tuple(given.shape) == (1,):  # as old files of PyTorch have it
            given = given[0]
        if tuple(given.shape) != tuple(tensor.shape):
            errors.append(
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in "
                f"current model is {tensor.shape}."
            )
            return
        if assign:
            if name in self._parameters and not isinstance(given, Parameter):
                given = Parameter(given, requires_grad=tensor.requires_grad)
            setattr(self, name, given)
            return
        if tensor.is_meta and not given.is_meta:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
                "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
                "corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with no_grad():
                tensor.copy_(given)
        except Exception as e:
            errors.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.shape} and '
                f"whose dimensions in the checkpoint are {given.shape}, an exception occurred : {e.args}."
            )

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies values in by name; assign=True uses the given tensors themselves. Returns the names that did not match."""
        if not hasattr(state_dict, "keys"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        missing, unexpected, errors = [], [], []

        def load(module, prefix):
            local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    load(child, prefix + name + ".")
            keys = IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError("a load_state_dict post hook changes the keys in place and returns nothing")

        load(self, "")
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            lines = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
        return IncompatibleKeys(missing, unexpected)

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata) after state_dict."""
        return hooks.add(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) before state_dict."""
        return hooks.add(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) before loading."""
        return hooks.add(self._load_state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """The older name of register_load_state_dict_pre_hook, without the module among the hook's arguments."""
        return self.register_load_state_dict_pre_hook(hook if with_module else lambda module, *args: hook(*args))

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) after loading; it may change the lists in place."""
        return hooks.add(self._load_state_dict_post_hooks, hook)
