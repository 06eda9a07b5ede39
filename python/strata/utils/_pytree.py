"""Nested containers as flat lists of leaves and back: tuples, named tuples, lists, dicts, OrderedDicts, and registered types."""

from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

_nodes = {}  # type -> (flatten, unflatten)


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


def register_pytree_node(cls, flatten_fn, unflatten_fn, **_):
    """Makes a type a node: flatten_fn(node) -> (children, context), unflatten_fn(children, context) -> node."""
    _nodes[cls] = (flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _dict_parts(d):
    return list(d.values()), list(d)


register_pytree_node(list, lambda x: (x, None), lambda c, _: list(c))
register_pytree_node(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register_pytree_node(dict, _dict_parts, lambda c, keys: dict(zip(keys, c, strict=True)))
register_pytree_node(OrderedDict, _dict_parts, lambda c, keys: OrderedDict(zip(keys, c, strict=True)))
register_pytree_node(deque, lambda x: (list(x), x.maxlen), lambda c, n: deque(c, n))
register_pytree_node(
    defaultdict,
    lambda d: (list(d.values()), (d.default_factory, list(d))),
    lambda c, context: defaultdict(context[0], zip(context[1], c, strict=True)),
)
_named = (lambda x: (list(x), type(x)), lambda c, kind: kind(*c))


def _node(tree):
    kind = type(tree)
    if kind in _nodes:
        return kind, _nodes[kind]
    return (tuple, _named) if isinstance(tree, tuple) and hasattr(tree, "_fields") else (None, None)


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec)."""
    kind, functions = (None, None) if is_leaf is not None and is_leaf(tree) else _node(tree)
    if kind is None:
        return [tree], LeafSpec()
    children, context = functions[0](tree)
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
    return (_nodes.get(spec.type) or _named)[1](children, spec.context)


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
