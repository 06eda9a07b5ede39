"""Op schemas as Python signatures, shared by gen_docs.py and gen_stubs.py.

A schema reads `add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor`; see src/record/schema.cpp.
"""

import dataclasses
import keyword
import re

NAMESPACES = ("nn.functional.", "nn.init.", "linalg.", "special.", "fft.", "vision.ops.")
# STRATA_OP(id, "schema"), the literal in one piece or several.
DEFINITION = re.compile(r'STRATA_OP\(\s*(\w+),\s*((?:"[^"]*"\s*)+)\)')
TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Tensor | None]",
    "Scalar": "Number",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "int[]": "int | Sequence[int]",
    "int?[]": "int | Sequence[int | None]",
    "float[]": "float | Sequence[float]",
    "str": "str",
    "dtype": "dtype",
    "device": "device | str",
    "Generator": "Generator",
}


class DefinitionError(Exception):
    """A definition that cannot be read. The generators print its message alone, without a traceback."""


# The memory annotation of a tensor's type: Tensor(a), Tensor(a!), Tensor(a!:condition).
MEMORY = re.compile(r"Tensor\(([a-z])(!?)(?::(\w+))?\)")


def plain(schema):
    """The schema without memory annotations: `Tensor(a!)[]` becomes `Tensor[]`."""
    return MEMORY.sub("Tensor", schema)


def split(text):
    """Splits at commas outside brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text + ","):
        quoted ^= c == "'"
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0 and not quoted:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in parts if p]


@dataclasses.dataclass
class Param:
    kind: str
    name: str
    default: str | None
    keyword_only: bool

    @property
    def optional(self):
        return self.kind.endswith("?")

    def annotation(self, numbers):
        text = TYPES[self.kind.removesuffix("?")]
        if numbers and text == "Tensor":
            text = "Tensor | Number"
        return text + " | None" if self.optional else text

    def value(self):
        """The default as Python writes it."""
        if self.kind.startswith("dtype") and self.default != "None":
            return f"strata.{self.default}"
        return {"inf": "float('inf')", "-inf": "float('-inf')"}.get(self.default, self.default)


class Schema:
    """A schema, taken apart."""

    def __init__(self, text):
        self.text = text
        full, inside, self.result = re.fullmatch(r"([\w.]+)\((.*)\) -> (.*)", plain(text)).groups()
        space = next((n for n in NAMESPACES if full.startswith(n)), "")
        short, _, self.overload = full.removeprefix(space).partition(".")
        self.name = space + short
        self.params, keyword_only = [], False
        for item in split(inside):
            if item == "*":
                keyword_only = True
                continue
            kind, rest = item.split(" ", 1)
            name, _, default = rest.partition("=")
            self.params.append(Param(kind, name, default or None, keyword_only))

    @property
    def outputs(self):
        """Names of several outputs, '' for one without a name; None for a single tensor or a list."""
        if not self.result.startswith("("):
            return None
        return [item.partition(" ")[2] for item in split(self.result[1:-1])]

    def returns(self):
        if self.outputs is None:
            return "tuple[Tensor, ...]" if self.result == "Tensor[]" else "Tensor"
        return f"tuple[{', '.join(['Tensor'] * len(self.outputs))}]" if self.outputs else "None"

    def takes_trailing(self, params=None):
        """The list that may be given as separate arguments, as in x.view(2, 3): a required one that comes last."""
        positional = [p for p in (self.params if params is None else params) if not p.keyword_only]
        if positional and positional[-1].default is None and positional[-1].kind in ("int[]", "Tensor[]"):
            return positional[-1]
        return None

    def arguments(self, *, numbers=False, out=False, types=True, lenient=False):
        """The text between the brackets. Python allows no required parameter after one with a default: such a one is
        shown as keyword-only, or (lenient, for stubs) with a default."""
        parts, star, defaulted = [], False, False
        for p in self.params:
            name = p.name + "_" if keyword.iskeyword(p.name) else p.name
            default = p.value() if p.default is not None else None
            awkward = defaulted and default is None and not star and not p.keyword_only
            if awkward and lenient:
                default = "..."
            if (p.keyword_only or (awkward and not lenient)) and not star:
                parts.append("*")
                star = True
            defaulted |= default is not None
            text = f"{name}: {p.annotation(numbers)}" if types else name
            if default is not None:
                text += f" = {default}" if types else f"={default}"
            parts.append(text)
            if keyword.iskeyword(p.name):  # uniform_'s `from`: cannot be written as a keyword
                parts.append("/")
        if out:
            kind = "Tensor" if self.outputs is None else self.returns()
            parts += [] if star else ["*"]
            parts.append(f"out: {kind} | None = None" if types else "out=None")
        return ", ".join(parts)
