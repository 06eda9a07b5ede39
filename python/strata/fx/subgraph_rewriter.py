"""replace_pattern: replaces parts of a graph that look like a pattern."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import nn
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr
from .node import Node, map_arg


class Match(NamedTuple):
    """Where a pattern was found: the pattern's last node, and the graph's node for each node of the pattern."""

    anchor: Any
    nodes_map: dict


@dataclass
class ReplacedPatterns:
    """A match, and the nodes that were put in its place."""

    anchor: Any
    nodes_map: dict
    replacements: list = field(default_factory=list)


def _graph_of(pattern):
    if isinstance(pattern, Graph):
        return pattern
    return pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


class _Matcher:
    """Compares a graph backwards from one node with a pattern from its output."""

    def __init__(self, pattern, ignore_literals=False):
        self.pattern, self.ignore_literals = pattern, ignore_literals
        output = next(n for n in reversed(pattern.nodes) if n.op == "output")
        if isinstance(output.args[0], Node):
            self.anchors = [output.args[0]]
        else:
            self.anchors = output.all_input_nodes
        self.returned = output.args[0]

    def at(self, node):
        """node of the pattern -> node of the graph, or None."""
        self.found = {}
        if not self._same(self.anchors[0], node):
            return None
        for anchor in self.anchors[1:]:
            if anchor not in self.found:
                return None
        inner = {g for p, g in self.found.items() if p.op != "placeholder"}
        returned = {self.found[a] for a in self.anchors}
        for g in inner - returned:
            if any(user not in inner for user in g.users):
                return None  # something outside needs a value that would disappear
        return dict(self.found)

    def _same(self, p, g):
        if isinstance(p, Node):
            if p in self.found:
                known = self.found[p]
                return known is g or (not isinstance(g, Node) and known == g)
            if p.op == "placeholder":
                self.found[p] = g
                return True
            if not isinstance(g, Node) or p.op != g.op or not self._same_target(p, g):
                return False
            if len(p.args) != len(g.args) or p.kwargs.keys() != g.kwargs.keys():
                return False
            self.found[p] = g
            pairs = [*zip(p.args, g.args, strict=True), *((p.kwargs[k], g.kwargs[k]) for k in p.kwargs)]
            if all(self._same(a, b) for a, b in pairs):
                return True
            self.found.pop(p, None)
            return False
        if isinstance(g, Node):
            return False
        if isinstance(p, (list, tuple)):
            return isinstance(g, (list, tuple)) and len(p) == len(g) and all(map(self._same, p, g))
        if isinstance(p, dict):
            return isinstance(g, dict) and p.keys() == g.keys() and all(self._same(p[k], g[k]) for k in p)
        return self.ignore_literals or (type(p) is type(g) and p == g)

    def _same_target(self, p, g):
        if p.op in ("get_attr", "call_module"):
            return self._last_part(p.target) == self._last_part(g.target)
        return p.target == g.target

    @staticmethod
    def _last_part(target):
        return target.rpartition(".")[2]


def replace_pattern(gm, pattern, replacement):
    """Replaces every part of gm's graph that does what `pattern` does by `replacement`; returns the matches.

    Both are functions or modules with the same inputs. Matches do not overlap.
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm, pattern, replacement=None, match_filters=None, ignore_literals=False, replacement_callback=None, **_
):
    """replace_pattern() for the matches that all filters(match, original_graph, pattern_graph) accept; the replacement may
    depend on the match: replacement_callback(match, original_graph, pattern_graph)."""
    return _replace(gm, pattern, replacement, match_filters or [], ignore_literals, replacement_callback)


def _replace(gm, pattern, replacement, filters=(), ignore_literals=False, callback=None):
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    fixed = None if replacement is None else _graph_of(replacement)
    matcher = _Matcher(pattern_graph, ignore_literals)
    matches, used = [], set()
    for node in reversed(graph.nodes):
        found = matcher.at(node)
        if found is None:
            continue
        inner = {g for p, g in found.items() if p.op != "placeholder"}
        match = Match(matcher.anchors[0], found)
        if inner & used or not all(f(match, graph, pattern_graph) for f in filters):
            continue
        used |= inner
        matches.append(match)
    matches.reverse()
    result, renamed = [], {}
    for match in matches:
        new = fixed if callback is None else _graph_of(callback(match, graph, pattern_graph))
        made = _substitute(graph, pattern_graph, matcher, new, match, renamed)
        result.append(ReplacedPatterns(match.anchor, match.nodes_map, made))
    _adopt_attributes(gm, replacement)
    gm.recompile()
    return result


def _substitute(graph, pattern, matcher, new, match, renamed):
    def current(value):
        while isinstance(value, Node) and value in renamed:
            value = renamed[value]
        return value

    inputs = [n for n in pattern.nodes if n.op == "placeholder"]
    new_inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(inputs) != len(new_inputs):
        raise AssertionError(
            f"the pattern has {len(inputs)} inputs and the replacement {len(new_inputs)}; they must have the same"
        )
    values = {b: current(match.nodes_map[a]) for a, b in zip(inputs, new_inputs, strict=True) if a in match.nodes_map}
    inner = [g for p, g in match.nodes_map.items() if p.op != "placeholder"]
    users = [u for anchor in matcher.anchors for u in match.nodes_map[anchor].users if u not in inner]
    with graph.inserting_before(min(users, key=graph._position) if users else max(inner, key=graph._position)):
        value, _ = _copy_into(graph, new, values)
    made = [values[n] for n in new.nodes if n.op not in ("placeholder", "output") and n in values]
    olds = [match.nodes_map[a] for a in matcher.anchors]
    news = [value] if isinstance(value, Node) else [v for v in value if isinstance(v, Node)]
    if len(olds) != len(news):
        raise AssertionError(f"the pattern returns {len(olds)} values and the replacement {len(news)}")
    for old, replaced in zip(olds, news, strict=True):
        old.replace_all_uses_with(replaced)
        renamed[old] = replaced
    for node in reversed(graph.nodes):
        if node in inner and not node.users:
            graph.erase_node(node)
    return made


def _copy_into(graph, new, values):
    for node in new.nodes:
        if node in values:
            continue
        if node.op == "output":
            return map_arg(node.args[0], lambda n: values[n]), node
        values[node] = graph.node_copy(node, lambda n: values[n])
    raise AssertionError("the replacement has no output")


def _adopt_attributes(gm, replacement):
    """Modules and tensors of the replacement that gm lacks; unused ones of gm are removed."""
    gm.delete_all_unused_submodules()
    if not isinstance(replacement, nn.Module):
        return
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        try:
            holder = gm
            for part in node.target.split("."):
                holder = getattr(holder, part)
        except AttributeError:
            value = replacement
            for part in node.target.split("."):
                value = getattr(value, part)
            _assign_attr(value, gm, node.target)
