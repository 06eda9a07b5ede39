"""What inspect.signature() says of ops; imported when it is first asked."""

import ast
import inspect
import keyword
import re

from . import _C

Parameter = inspect.Parameter
_MEMORY = re.compile(r"Tensor\([a-z]!?(?::\w+)?\)")
_NUMBERS = {"inf": float("inf"), "-inf": float("-inf")}


def _split(text):
    """Splits at commas outside brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text + ","):
        quoted ^= c == "'"
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0 and not quoted:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in parts if p]


def _default(kind, text):
    if text in _NUMBERS:
        return _NUMBERS[text]
    if kind == "dtype" and text != "None":
        return getattr(_C, text)
    return ast.literal_eval(text)


def _parameters(schema):
    """(kind, name, default, keyword-only) of each parameter of a schema."""
    inside = re.fullmatch(r"[\w.]+\((.*)\) -> .*", _MEMORY.sub("Tensor", schema))[1]
    named_only = False
    for item in _split(inside):
        if item == "*":
            named_only = True
            continue
        kind, rest = item.split(" ", 1)
        name, _, default = rest.partition("=")
        yield kind, name, _default(kind.removesuffix("?"), default) if default else Parameter.empty, named_only


def _one(schema):
    """The parameters of one schema. A required list that comes last may be given item by item: view(2, 3)."""
    given = list(_parameters(schema))
    last = max((i for i, p in enumerate(given) if not p[3]), default=None)
    found, defaulted = [], False
    for i, (kind, name, default, named_only) in enumerate(given):
        trailing = i == last and default is Parameter.empty and kind in ("int[]", "Tensor[]")
        if keyword.iskeyword(name):  # the `from` of random_
            name += "_"
        if named_only or (defaulted and default is Parameter.empty):
            found.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default))
        elif trailing:
            found.append(Parameter(name, Parameter.VAR_POSITIONAL))
        else:
            found.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default))
            defaulted |= default is not Parameter.empty
    return found


def _common(schemas):
    """The first parameters that several overloads share; others are any."""
    found = []
    for same in zip(*map(_one, schemas), strict=False):
        if len({(p.name, p.kind) for p in same}) > 1 or same[0].kind != Parameter.POSITIONAL_OR_KEYWORD:
            break
        if any(p.default != same[0].default for p in same):
            break
        found.append(same[0])
    return [*found, Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)]


def signature_of(schemas, out, inplace):
    """The inspect.Signature of an op with these overloads, and with the arguments out= and inplace= where it takes them."""
    if len(schemas) > 1:
        return inspect.Signature(_common(schemas))
    found = _one(schemas[0])
    if inplace and all(p.name != "inplace" for p in found):
        found.append(Parameter("inplace", Parameter.KEYWORD_ONLY, default=False))
    if out:
        found.append(Parameter("out", Parameter.KEYWORD_ONLY, default=None))
    found.sort(key=lambda p: p.kind)  # a list that comes last is before what can only be named
    return inspect.Signature(found)
