"""Parses module records (src/nn/modules/*.modules), from which the modules of both languages are generated.

docs/internals/modules.md describes the format.
"""

import ast
import dataclasses
import pathlib
import re

import signatures

HEAD = re.compile(r"(\w[\w#]*)\((.*)\)(?: for ([\d ]+))?$")
FORWARD = re.compile(r"(\w+)\((.*?)\)(?: -> ([^:]+))?: (.*)$")
TENSOR = re.compile(r"(\w+) \[(.*?)\]((?: (?:int64|optional|transient))*)(?: if (.*?))? = (\w+)(?:\((.*)\))?$")


class RecordError(signatures.DefinitionError):
    pass


@dataclasses.dataclass
class Argument:
    kind: str  # int, float, bool, str, int?, int[2], int|int[2], ...; "legacy" for Python's size_average and reduce
    name: str
    default: str | None
    keyword_only: bool = False


@dataclasses.dataclass
class Tensors:
    """A parameter or a buffer."""

    name: str
    shape: list  # of expressions; "*x" for the items of x
    condition: str | None
    init: str
    arguments: str
    dtype: str | None = None
    optional: bool = False
    persistent: bool = True


@dataclasses.dataclass
class Method:
    name: str
    params: list  # of Argument
    result: str
    body: str


class Record:
    """One module."""

    def __init__(self, family, head, lines, number=None):
        self.family, self.number = family, number
        self.name, inside, _ = HEAD.match(head).groups()
        self.arguments, keyword_only = [], False
        for item in signatures.split(inside):
            if item == "*":
                keyword_only = True
            else:
                self.arguments.append(argument(item, keyword_only))
        self.doc, self.tensors, self.attributes, self.methods = "", [], [], []
        self.repr, self.samples, self.checks, self.values = [], [], [], []
        self.after, self.base, self.takes_anything = None, None, False
        for line in lines:
            self.read(line)
        takes = self.forward.params
        for made, inputs in self.samples:
            given = len(signatures.split(inputs))
            if not sum(p.default is None for p in takes) <= given <= len(takes):
                raise RecordError(f"sample `({made}) | {inputs}` has {given} inputs, forward takes {len(takes)}")

    def read(self, line):
        word, _, rest = line.partition(" ")
        if line.startswith("doc: "):
            self.doc = line[5:]
        elif word in ("parameter", "buffer"):
            self.tensors.append((word, tensor(rest)))
        elif word == "value":  # a tensor given to the constructor, kept as a buffer
            self.values.append(rest)
        elif word == "attribute":
            found = re.fullmatch(r"(\w+): (\S+) = (.*)", rest)
            if not found:
                raise RecordError(f"cannot read `{line}`: the form is `attribute name: type = expression`")
            self.attributes.append(found.groups())
        elif line == "takes anything":  # Python's constructor ignores arguments
            self.takes_anything = True
        elif word == "base":  # of the Python class, besides Module
            self.base = rest
        elif word == "after:":  # runs at the end of reset_parameters
            self.after = rest
        elif word == "check":
            condition, _, message = rest.partition(" else ")
            self.checks.append((condition, message.strip('"')))
        elif word.startswith("repr"):
            condition, _, text = line.removeprefix("repr").partition(": ")
            self.repr.append((condition.removeprefix(" if ").strip() or None, text))
        elif word.startswith("sample"):
            number, _, text = line.removeprefix("sample").partition(": ")
            if not number.strip() or number.strip() == str(self.number):
                made, _, inputs = text.partition(" | ")
                self.samples.append((made.strip()[1:-1], inputs.strip()))
        elif found := FORWARD.match(line):
            name, params, result, body = found.groups()
            params = [argument(p) for p in signatures.split(params)]
            self.methods.append(Method(name, params, result or "Tensor", body))
        else:
            raise RecordError(f"cannot read `{line}`")

    @property
    def forward(self):
        for m in self.methods:
            if m.name == "forward":
                return m
        raise RecordError("there is no line `forward(Tensor input) -> Tensor: expression`")

    @property
    def parameters(self):
        return [t for kind, t in self.tensors if kind == "parameter"]

    @property
    def buffers(self):
        return [t for kind, t in self.tensors if kind == "buffer"]

    def stored(self):
        """Attributes the module keeps, with their types: arguments that no tensor hides, then derived ones, which may
        replace an argument."""
        hidden = {t.name for _, t in self.tensors} | set(self.values)
        kept = {a.name: a.kind for a in self.arguments if a.kind != "legacy" and a.name not in hidden}
        kept.update({name: kind for name, kind, _ in self.attributes})
        return kept


def argument(text, keyword_only=False):
    kind, _, rest = text.partition(" ")
    name, equals, default = rest.partition("=")
    if not name.isidentifier():
        raise RecordError(f"argument `{text}` does not have the form `type name` or `type name=default`")
    return Argument(kind, name, default if equals else None, keyword_only)


def tensor(text):
    found = TENSOR.match(text)
    if not found:
        raise RecordError(f"cannot read `{text}`: the form is `name [sizes] = initializer(arguments)`")
    name, shape, flags, condition, init, arguments = found.groups()
    words = flags.split()
    return Tensors(
        name,
        signatures.split(shape),
        condition,
        init,
        arguments or "",
        "int64" if "int64" in words else None,
        "optional" in words,
        "transient" not in words,
    )


def logical_lines(text):
    """Lines without comments; one that is indented by more than two joins the one before it."""
    lines = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        if line.startswith("   "):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.rstrip())
    return lines


def read(path):
    """The records of one file. `for 1 2 3` after a head makes one record per number, which replaces # (and twice the number
    replaces @)."""
    path = pathlib.Path(path)
    blocks = []
    for line in logical_lines(path.read_text()):
        if line.startswith("  "):
            blocks[-1][1].append(line.strip())
        else:
            blocks.append((line, []))
    records = []
    for head, lines in blocks:
        found = HEAD.match(head)
        if not found:
            raise RecordError(f"{path.name}: cannot read `{head}`")
        try:
            for number in (found[3] or "").split() or [None]:
                fill = numbered(number)
                records.append(Record(path.stem, fill(head), [fill(x) for x in lines], number))
        except RecordError as e:
            raise RecordError(f"{path.name}: {head}: {e}") from e
    return records


def numbered(number):
    if number is None:
        return lambda s: s
    return lambda s: s.replace("#", number).replace("@", str(2 * int(number)))


def parse(expression):
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as e:
        raise RecordError(f"`{expression}` is not an expression: {e.msg}") from e


def mentions(node, names):
    """Whether an expression uses one of the names."""
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))


def texts(records, write):
    """write(record) for all records, joined; an error names the record."""
    parts = []
    for r in records:
        try:
            parts.append(write(r))
        except RecordError as e:
            raise RecordError(f"{r.family}.modules: {r.name}: {e}") from e
    return "".join(parts)
