"""The entry of one op in docs/reference: its signatures, facts from the records and an example."""

import doctest
import inspect
import re

import signatures
import strata
from strata import _C

LETTERS = {
    "f": "strata.randn({})",
    "p": "strata.rand({}) + 0.1",
    "u": "strata.rand({}) * 1.9 - 0.95",
    "o": "strata.rand({}) + 1.1",
    "z": "strata.rand({}) * 0.9 + 0.05",
    "b": "strata.rand({}) > 0.5",
}


def public_path(name):
    return f"strata.{name}"


def resolve(path):
    """The object named 'strata.linalg.det'."""
    value = strata
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


# --- examples --------------------------------------------------------------------------------------------------------


def sample_value(text, kind):
    """One argument of a sample text (see src/dispatch/samples.h) as Python source."""
    if text.startswith("[") and kind.startswith("Tensor"):
        return "[" + ", ".join(sample_value(t, "Tensor") for t in signatures.split(text[1:-1])) + "]"
    if text.startswith("t32["):
        return f"strata.tensor({text[3:].replace(',', ', ').replace(',  ', ', ')}, dtype=strata.int32)"
    if text.startswith("t["):
        return f"strata.tensor({text[1:].replace(',', ', ')})"
    made = re.fullmatch(r"([fpuozsmb]|[iq]\d+)\(([\d,]*)\)", text)
    if made:
        letter, sizes = made[1], ", ".join(made[2].split(","))
        if letter[0] == "i":
            shape = f"({sizes},)" if sizes and "," not in sizes else f"({sizes})"
            return f"strata.randint({letter[1:]}, {shape})"
        if letter[0] == "q":
            bounds, dtype = {"q8": ("-128, 128", "int8"), "q4": ("0, 256", "uint8"), "q32": ("0, 2**31", "int32")}[
                letter
            ]
            return f"strata.randint({bounds}, ({sizes}{'' if ',' in sizes else ','}), dtype=strata.{dtype})"
        if letter in "sm":
            *batch, n = [s for s in made[2].split(",")][:-1]
            eye = f"strata.eye({n})"
            return f"strata.randn({sizes}) * 0.1 + {eye}" if letter == "m" else f"{eye} * 2 + strata.ones({sizes})"
        return LETTERS[letter].format(sizes or "()")
    if kind.startswith("dtype"):
        return "strata." + text.strip("'")
    return {"inf": "float('inf')", "-inf": "-float('inf')"}.get(
        text, text.replace(",", ", ").replace(",  ", ", ") if text.startswith("[") else text
    )


def example(record, schema, path):
    """Lines of source that call the op as its first sample with elements does."""
    texts = [t.lstrip("~!") for t in record["samples"]]
    text = next((t for t in texts if not re.search(r"\((?:\d+,)*0(?:,\d+)*\)|^\[0", t)), texts[0])
    if record["name"] in EXAMPLES:
        return EXAMPLES[record["name"]]
    lines, call = [], []
    for position, item in enumerate(signatures.split(text)):
        named = re.match(r"(\w+)=", item)
        param = next(p for p in schema.params if p.name == named[1]) if named else schema.params[position]
        value = sample_value(item[named.end() :] if named else item, param.kind)
        if "strata." in value and not param.kind.startswith("dtype"):
            name = param.name if param.name not in ("input", "tensor") else "x"
            lines.append(f"{name} = {value}")
            value = name
        call.append(f"{named[1]}={value}" if named else value)
    return [*lines, f"{path}({', '.join(call)})"]


# Better examples for ops whose first sample is not instructive.
EXAMPLES = {
    "_int_mm": ["x = strata.ones(3, 4, dtype=strata.int8)", "strata._int_mm(x, x.t())"],
    "_scaled_mm": [
        "x, scale = strata.ones(3, 4).to(strata.float8_e4m3fn), strata.tensor(0.5)",
        "strata._scaled_mm(x, x.t(), scale, scale, out_dtype=strata.float32)",
    ],
    "searchsorted": [
        "edges = strata.tensor([1.0, 3.0, 5.0])",
        "strata.searchsorted(edges, strata.tensor([0.5, 3.0, 9.0]))",
    ],
    "bucketize": ["edges = strata.tensor([1.0, 3.0, 5.0])", "strata.bucketize(strata.tensor([0.5, 3.0, 9.0]), edges)"],
    "istft": ["spectrum = strata.stft(strata.randn(64), 16, return_complex=True)", "strata.istft(spectrum, 16)"],
    "histogram": ["strata.histogram(strata.randn(30), strata.linspace(-3, 3, 7))"],
    "bernoulli": ["strata.bernoulli(strata.rand(3))"],
    "quantile": ["strata.quantile(strata.randn(3, 4), strata.tensor([0.25, 0.75]), 0)"],
    "nanquantile": ["strata.nanquantile(strata.randn(3, 4), strata.tensor([0.25, 0.75]), 0)"],
    "tensordot": ["strata.tensordot(strata.randn(2, 3, 4), strata.randn(4, 3, 5), dims=([1, 2], [1, 0]))"],
    "lu_unpack": ["LU, pivots = strata.linalg.lu_factor(strata.randn(3, 3))", "strata.lu_unpack(LU, pivots)"],
    "linalg.lu_solve": [
        "LU, pivots = strata.linalg.lu_factor(strata.randn(3, 3))",
        "strata.linalg.lu_solve(LU, pivots, strata.randn(3, 2))",
    ],
    "lu_solve": [
        "LU, pivots = strata.linalg.lu_factor(strata.randn(3, 3))",
        "strata.lu_solve(strata.randn(3, 2), LU, pivots)",
    ],
    "nn.functional.max_unpool2d": [
        "x = strata.randn(1, 1, 4, 4)",
        "values, indices = strata.nn.functional.max_pool2d(x, 2, return_indices=True)",
        "strata.nn.functional.max_unpool2d(values, indices, 2)",
    ],
    "ctc_loss": [
        "log_probs = strata.randn(5, 2, 4).log_softmax(-1)",
        "targets = strata.randint(1, 4, (2, 2))",
        "strata.nn.functional.ctc_loss(log_probs, targets, strata.tensor([5, 5]), strata.tensor([2, 2]))",
    ],
    "nn.functional.cross_entropy": ["strata.nn.functional.cross_entropy(strata.randn(3, 4), strata.randint(4, (3,)))"],
    "index_put_": ["x = strata.zeros(5, 3)", "x.index_put_((strata.tensor([0, 2]),), strata.ones(3))"],
    "index_put": ["x = strata.zeros(5, 3)", "strata.index_put(x, (strata.tensor([0, 2]),), strata.ones(3))"],
}


# --- one op ----------------------------------------------------------------------------------------------------------


def dtype_text(dtypes):
    every = {d for d in vars(_C).values() if isinstance(d, strata.dtype)}
    floats = {d for d in every if d.is_floating_point}
    float8 = {d for d in floats if d.itemsize == 1}
    floating, integer = floats - float8, every - floats - {strata.bool, strata.uint64}
    complex_ = {d for d in every if d.is_complex}
    known = {
        "all": every,
        "all but float8": every - float8,
        "all but float8 and bool": every - float8 - {strata.bool},
        "all but float8 and complex": every - float8 - complex_,
        "all but float8, complex and bool": every - float8 - complex_ - {strata.bool},
        "integer and bool": every - floats - complex_,
        "integer": every - floats - complex_ - {strata.bool},
        "all but float8 and uint64": {*floating, *integer, strata.bool},
        "all but float8, uint64 and bool": {*floating, *integer},
        "floating": {*floating, *float8},
        "floating but float8": floating,
        "integer but uint64, and bool": {*integer, strata.bool},
        "integer but uint64": integer,
    }
    names = (str(d).removeprefix("strata.") for d in dtypes)
    return next((text for text, members in known.items() if members == set(dtypes)), ", ".join(names))


def unwrapped(path):
    """The Python function that wraps an op, None if users call the op itself."""
    value = resolve(path)
    return None if isinstance(value, _C.Op) else value


def op_signatures(path, name, records, sources):
    wrapper = unwrapped(path)
    if wrapper:
        return [f"{path}{inspect.signature(wrapper)}"]
    lines = []
    for r in records:
        schema = signatures.Schema(r["schema"])
        arguments = schema.arguments(numbers=sources[r["schema"]].numbers, out=r["out"])
        lines.append(f"{path}({arguments}) -> {schema.returns()}")
    return lines


def facts(name, records):
    """Facts about an op, as list items."""
    items = [f"dtypes: {' / '.join(dict.fromkeys(dtype_text(r['dtypes']) for r in records))}"]
    kernels = list(dict.fromkeys(" → ".join(f"`{k}`" for k in r["kernels"]) for r in records if r["kernels"]))
    made_of = {"composite": "written with other ops", "view": "a view: shares the memory of its input"}
    kinds = [made_of[k] for k in dict.fromkeys(r["kind"] for r in records) if k in made_of]
    items.append("runs: " + "; ".join([*kernels, *kinds]))
    random = any(r["random"] for r in records)
    items.append(
        "gradient: "
        + ("yes" if any(map(has_gradient, records)) else "none")
        + ("; draws random numbers" if random else "")
    )
    for r in records:
        outputs = signatures.Schema(r["schema"]).outputs
        if outputs and all(outputs):
            items.append(f"returns a named tuple: {', '.join(f'`{o}`' for o in outputs)}")
            break
    forms = []
    if any(r["method"] for r in records) and hasattr(strata.Tensor, name):
        forms.append(f"`Tensor.{name}`")
    if any(r["inplace"] for r in records):
        forms.append(f"in place `{public_path(name)}_`")
    aliases = list(dict.fromkeys(a for r in records for a in r["aliases"]))
    forms += [f"`{public_path(a)}`" for a in aliases]
    if forms:
        items.append("also: " + ", ".join(forms))
    return items


def has_gradient(record):
    """Whether a result of the op can be differentiated; of composites only a call can tell."""
    if not record["differentiable"] or record["kind"] != "composite":
        return record["differentiable"]
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    for text in record["samples"]:
        arguments = _C._sample(record["index"], text, dtype, 0)
        arguments = {name: with_gradient(value) for name, value in arguments.items()}
        try:
            result = _C.ops[record["name"]](**arguments)
        except RuntimeError:  # refuses inputs that require a gradient
            return False
        if any(t.requires_grad for t in (result if isinstance(result, tuple) else [result]) if t is not None):
            return True
    return False


def with_gradient(value):
    if isinstance(value, list):
        return [with_gradient(v) for v in value]
    if isinstance(value, strata.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.requires_grad_() * 1
    return value


def anchor(title):
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


def op_section(name, records, sources):
    path = public_path(name)
    wrapper = unwrapped(path)
    docs = list(dict.fromkeys(r["doc"].strip() for r in records))
    if wrapper:
        docs = [
            inspect.getdoc(wrapper),
            *[d[d.index(">>>") :] for d in docs if ">>>" in d and ops_session_fits(path, d)],
        ]
    texts, sessions = [], []
    for doc in docs:
        text, prompt, session = doc.partition(">>>")
        texts += [text.strip()] if text.strip() else []
        sessions += [(prompt + session).strip()] if prompt else []
    lines = [
        f"## {name}",
        "```text",
        *op_signatures(path, name, records, sources),
        "```",
        *"\n\n".join(texts).splitlines(),
        "",
    ]
    lines += [f"- {item}" for item in facts(name, records)]
    if sessions:
        lines += ["", "```pycon", *"\n".join(sessions).splitlines(), "```", ""]
    else:
        code = example(records[0], signatures.Schema(records[0]["schema"]), path)
        lines += ["", "```python", *code, "```", ""]
    return "\n".join(lines)


def ops_session_fits(path, doc):
    """Whether the session in an op's doc also holds for the Python function that wraps it."""
    tests = doctest.DocTestParser().get_doctest(doc, {"strata": strata}, path, None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    return runner.run(tests, out=lambda _: None).failed == 0
