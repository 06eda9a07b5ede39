"""Calls of every public op of the registry at any size, from the samples of its record: for every_op.py.

A sample such as "f(3,4), f(4), 1" becomes a call with about n elements in the first tensor with the most dimensions:
each size of that tensor is multiplied by one factor, and the same size elsewhere in the sample (also the bound of an
index, i4) follows it.
"""

import re

import signatures
from strata import _C

TENSOR = re.compile(r"([fpuozsmb]|i\d+)\(([\d,]*)\)")
# Trivial, or meaningless as a benchmark; combinations and vander grow with the square of their input.
LEFT_OUT = re.compile(
    r"^(_|.*_$|is_|empty|resize|set_|record|manual|numel|size|stride|nn\.init\.|combinations|vander|conj)"
)
# Samples that do not grow by themselves, because numbers in them are sizes or must stay small, as the windows of convolutions.
# {c} channels and {s} pixels along each side of a convolution; {n} elements, {r} their root, {t} a third, {b} blocks of 512.
FORMS = {
    "conv1d": "f(4,{c},{s}), f({c},{c},3), f({c})",
    "conv2d": "f(2,{c},{s},{s}), f({c},{c},3,3), f({c})",
    "conv3d": "f(1,{c},{s},{s},{s}), f({c},{c},3,3,3), f({c})",
    "conv_transpose1d": "f(4,{c},{s}), f({c},{c},3), f({c})",
    "conv_transpose2d": "f(2,{c},{s},{s}), f({c},{c},3,3), f({c})",
    "conv_transpose3d": "f(1,{c},{s},{s},{s}), f({c},{c},3,3,3), f({c})",
    "convolution": "f(2,{c},{s},{s}), f({c},{c},3,3), f({c}), [1,2], [0,1], [2,1], False, [0,0], 1",
    "broadcast_to": "f({r},1), [{r}, {r}]",
    "channel_shuffle": "f({b},32,4,4), 4",
    "cross": "f({t},3), f({t},3)",
    "expand": "f({r},1), [{r}, {r}]",
    "expand_copy": "f({r},1), [{r}, {r}]",
    "group_norm": "f({b},32,16), 8, f(32), f(32)",
    "linspace": "0, 1, {n}",
    "arange": "{n}",
    "rand": "[{n}]",
    "randn": "[{n}]",
    "zeros": "[{n}]",
    "unfold_copy": "f({n}), 0, 8, 8",
}


def sizes_of(text):
    return tuple(int(s) for s in text.split(",") if s)


def elements(shape):
    count = 1
    for s in shape:
        count *= s
    return count


class Case:
    """One op with the arguments of one sample, scaled to a size."""

    def __init__(self, name, text, n, layout):
        self.name, self.sample, self.n, self.layout = name, text, n, layout
        short = name.split(".")[-1]
        if short in FORMS:
            dims = int(re.search(r"\d|$", short)[0] or 2)
            channels = 4 if n < 100000 else 32
            side = max(4, round((n / channels / (8 >> dims)) ** (1 / dims)))
            self.text = FORMS[short].format(c=channels, s=side, n=n, r=round(n**0.5), t=n // 3, b=max(1, n // 512))
            return
        shapes = [sizes_of(m[2]) for m in TENSOR.finditer(text)]
        largest = max(shapes, key=len)  # the first of those with the most dimensions
        scaled = [s for s in largest if s > 1]
        factor = (n / elements(largest)) ** (1 / max(len(scaled), 1))
        grown = {s: max(2, round(s * factor)) for s in scaled}

        def grow(match):
            letter, shape = match[1], sizes_of(match[2])
            if letter[0] == "i" and int(letter[1:]) in grown:
                letter = f"i{grown[int(letter[1:])]}"
            return f"{letter}({','.join(str(grown.get(s, s)) for s in shape)})"

        self.text = TENSOR.sub(grow, text.lstrip("~!"))

    def arguments(self, make):
        """(args, kwargs) with make(letter, shape) for each tensor."""
        args, kwargs = [], {}
        for item in signatures.split(self.text):
            name, equals, value = item.partition("=")
            if equals and name.strip().isidentifier():
                kwargs[name.strip()] = self.value(value.strip(), make)
            else:
                args.append(self.value(item.strip(), make))
        return args, kwargs

    def value(self, text, make):
        tensor = TENSOR.fullmatch(text)
        if tensor:
            return make(tensor[1], sizes_of(tensor[2]))
        if text.startswith("["):
            return [self.value(t.strip(), make) for t in signatures.split(text[1:-1])]
        if text.startswith("t["):
            raise ValueError("values of an index are not scaled")
        constants = {"True": True, "False": False, "None": None, "inf": float("inf"), "-inf": -float("inf")}
        if text in constants:
            return constants[text]
        if text.startswith("'"):
            return text[1:-1]
        try:
            return int(text)
        except ValueError:
            return float(text)


def usable(sample):
    shapes = [sizes_of(m[2]) for m in TENSOR.finditer(sample)]
    return "t[" not in sample and "dtype=" not in sample and any(s for s in shapes) and all(0 not in s for s in shapes)


def samples():
    """{public name: sample}: of each op the usable sample with the most dimensions, the shortest of those."""
    best = {}
    for record in _C._records():
        name = record["name"]
        if record.get("internal") or LEFT_OUT.match(name.split(".")[-1]) or LEFT_OUT.match(name):
            continue
        key = (name, record["overload"])
        for sample in record["samples"]:
            if not usable(sample) and name.split(".")[-1] not in FORMS:
                continue
            dims = max((len(sizes_of(m[2])) for m in TENSOR.finditer(sample)), default=0)
            rank = (dims, -len(sample))
            if key not in best or rank > best[key][0]:
                best[key] = (rank, sample)
    return {key: sample for key, (_, sample) in sorted(best.items())}
