"""Lists and dicts of node arguments: a change must go through Node.args, which keeps the users up to date."""


def _refuse(self, *args, **kwargs):
    raise NotImplementedError(
        f"'{type(self).__name__}' object does not support mutation. If you are attempting to modify the kwargs or args of a "
        "strata.fx.Node object, instead create a new copy of it and assign the copy to the node: new_args = ... # copy and "
        "mutate args; node.args = new_args"
    )


def _immutable(name, base, methods):
    def reduce(self):
        return type(self), (base(self),)

    changed = {method: _refuse for method in methods}
    return type(name, (base,), {**changed, "__reduce__": reduce, "__hash__": _hash, "__module__": __name__})


def _hash(self):
    return hash(tuple(self.items() if isinstance(self, dict) else self))


immutable_list = _immutable(
    "immutable_list",
    list,
    (
        "__delitem__",
        "__iadd__",
        "__imul__",
        "__setitem__",
        "append",
        "clear",
        "extend",
        "insert",
        "pop",
        "remove",
        "reverse",
        "sort",
    ),
)
immutable_dict = _immutable(
    "immutable_dict", dict, ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update")
)
