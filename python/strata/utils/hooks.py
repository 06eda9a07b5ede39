"""RemovableHandle: returned when a hook is registered."""

import itertools

_ids = itertools.count()


class RemovableHandle:
    """Removes a hook: by remove(), or at the end of a with block."""

    def __init__(self, hooks, extra=None):
        self.hooks, self.extra, self.id = hooks, extra, next(_ids)

    def remove(self):
        """Removes the hook; a second call does nothing."""
        self.hooks.pop(self.id, None)
        if self.extra is not None:
            self.extra.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def add(hooks, hook, prepend=False, flags=None, flagged=False):
    """Puts a hook into an ordered dictionary; flags is a second one for marked hooks."""
    handle = RemovableHandle(hooks, flags)
    hooks[handle.id] = hook
    if flagged:
        flags[handle.id] = True
    if prepend:
        for key in [k for k in hooks if k != handle.id]:  # a plain dict keeps the order of insertion
            hooks[key] = hooks.pop(key)
    return handle
