"""Nested containers as flat lists of leaves and back: tuples, named tuples, lists, dicts, OrderedDicts, and registered types."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

PyTree = Any
Context = Any


class NodeDef(NamedTuple):
    """A type of node: how it becomes children and a context, and how it is made of them."""

    type: type
    flatten_fn: Callable
    unflatten_fn: Callable
    flatten_with_keys_fn: Callable | None


class SequenceKey(NamedTuple):
    """The step to a child of a list or tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx}]"

    def get(self, sequence):
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """The step to a child of a dict."""

    key: object

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """The step to a child that is an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


SUPPORTED_NODES = {}  # type -> NodeDef


class TreeSpec(NamedTuple):
    """How leaves form a tree: the type of the node, what it needs besides children, and their specs. A leaf has no type."""

    type: object
    context: object
    children_specs: list

    @property
    def num_leaves(self):
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)

    def is_leaf(self):
        return self.type is None

    def unflatten(self, leaves):
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __new__(cls):
        return super().__new__(cls, None, None, [])


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, flatten_with_keys_fn=None, **_):
    """Makes a type a node: flatten_fn(node) -> (children, context), unflatten_fn(children, context) -> node."""
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _numbered(children):
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def _list_flatten(x):
    return x, None


def _list_unflatten(children, context):
    return list(children)


def _list_flatten_with_keys(x):
    return _numbered(x), None


def _tuple_flatten(x):
    return list(x), None


def _tuple_unflatten(children, context):
    return tuple(children)


def _tuple_flatten_with_keys(x):
    return _numbered(x), None


def _dict_flatten(x):
    return list(x.values()), list(x)


def _dict_unflatten(children, context):
    return dict(zip(context, children, strict=True))


def _dict_flatten_with_keys(x):
    return [(MappingKey(key), value) for key, value in x.items()], list(x)


def _deque_flatten_with_keys(x):
    return _numbered(x), x.maxlen


def _defaultdict_context(x):
    return x.default_factory, list(x)


def _named_flatten(x):
    return list(x), type(x)


def _named_unflatten(children, context):
    return context(*children) if hasattr(context, "_fields") else context(children)


def _named_flatten_with_keys(x):
    fields = x._fields if hasattr(x, "_fields") else type(x).__match_args__
    return [(GetAttrKey(name), child) for name, child in zip(fields, x, strict=True)], type(x)


register_pytree_node(list, _list_flatten, _list_unflatten, flatten_with_keys_fn=_list_flatten_with_keys)
register_pytree_node(tuple, _tuple_flatten, _tuple_unflatten, flatten_with_keys_fn=_tuple_flatten_with_keys)
register_pytree_node(dict, _dict_flatten, _dict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(
    OrderedDict,
    _dict_flatten,
    lambda c, keys: OrderedDict(zip(keys, c, strict=True)),
    flatten_with_keys_fn=_dict_flatten_with_keys,
)
register_pytree_node(
    deque,
    lambda x: (list(x), x.maxlen),
    lambda c, n: deque(c, n),
    flatten_with_keys_fn=_deque_flatten_with_keys,
)
register_pytree_node(
    defaultdict,
    lambda d: (list(d.values()), _defaultdict_context(d)),
    lambda c, context: defaultdict(context[0], zip(context[1], c, strict=True)),
    flatten_with_keys_fn=lambda d: (_dict_flatten_with_keys(d)[0], _defaultdict_context(d)),
)
register_pytree_node(namedtuple, _named_flatten, _named_unflatten, flatten_with_keys_fn=_named_flatten_with_keys)


def is_namedtuple_instance(x):
    """Whether x is of a type made by collections.namedtuple() or typing.NamedTuple."""
    return isinstance(x, tuple) and hasattr(x, "_fields")


_is_namedtuple_instance = is_namedtuple_instance


def _get_node_type(tree):
    """The key of the tree's node in SUPPORTED_NODES; the type itself if it is a leaf."""
    kind = type(tree)
    if kind in SUPPORTED_NODES or not isinstance(tree, tuple):
        return kind
    # The results of ops with names, such as return_types.max, are structure sequences.
    return namedtuple if hasattr(kind, "_fields") or hasattr(kind, "n_sequence_fields") else kind


def tree_is_leaf(tree, is_leaf=None):
    """Whether the tree is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec)."""
    if tree_is_leaf(tree, is_leaf):
        return [tree], LeafSpec()
    children, context = SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)
    leaves, specs = [], []
    for child in children:
        below, spec = tree_flatten(child, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, TreeSpec(type(tree), context, specs)


def tree_unflatten(leaves, treespec):
    """The tree that tree_flatten() took apart, with other leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: the spec has {treespec.num_leaves} leaves, found {len(leaves)}")
    return _build(iter(leaves), treespec)


def _build(leaves, spec):
    if spec.type is None:
        return next(leaves)
    children = [_build(leaves, child) for child in spec.children_specs]
    return SUPPORTED_NODES[spec.type if spec.type in SUPPORTED_NODES else namedtuple].unflatten_fn(
        children, spec.context
    )


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree with func applied to its leaves, and to those of further trees of the same form."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(r, is_leaf)[0] for r in rests]
    return tree_unflatten([func(*x) for x in zip(leaves, *others, strict=True)], spec)


def tree_map_only(kind, func, tree, is_leaf=None):
    """tree_map() for leaves of one type."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


def tree_leaves(tree, is_leaf=None):
    """The leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    """The spec."""
    return tree_flatten(tree, is_leaf)[1]


def tree_all(pred, tree, is_leaf=None):
    """Whether all leaves satisfy the predicate."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether any leaf satisfies the predicate."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), ...], spec), where a path is a tuple of keys."""
    return _paths(tree, (), is_leaf), tree_structure(tree, is_leaf)


def _paths(tree, before, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        return [(before, tree)]
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(f"the paths in {type(tree)} are unknown: register it with flatten_with_keys_fn")
    return [
        found for key, child in node.flatten_with_keys_fn(tree)[0] for found in _paths(child, (*before, key), is_leaf)
    ]


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map() of a function that gets the path of each leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [tree_flatten(r, is_leaf)[0] for r in rests]
    made = [func(path, leaf, *rest) for (path, leaf), *rest in zip(found, *others, strict=True)]
    return tree_unflatten(made, spec)


def keystr(path):
    """The path as text: ['a'][0].b."""
    return "".join(map(str, path))


def key_get(obj, path):
    """The part of a tree at a path."""
    for key in path:
        obj = key.get(obj)
    return obj


def tree_iter(tree, is_leaf=None):
    """An iterator over the leaves."""
    return iter(tree_leaves(tree, is_leaf))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls func for its effect on the leaves, and returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree
