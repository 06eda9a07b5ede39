"""Schemas of custom ops: read from a text or from the annotations of a function, printed, and applied to arguments."""

import collections.abc
import dataclasses
import inspect
import numbers
import operator
import re
import types
import typing

from .. import _C

_ELEMENTS = ("Tensor", "int", "float", "bool", "Scalar", "str", "dtype", "device")
_OTHER_NAMES = {"SymInt": "int", "ScalarType": "dtype", "Device": "device"}  # PyTorch's names of the same types
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MISSING = inspect.Parameter.empty


@dataclasses.dataclass(frozen=True)
class Type:
    """Tensor, Tensor?, int[], int[2], Tensor?[]: an element, whether it is a list, and what may be None."""

    element: str
    is_list: bool = False
    optional: bool = False
    optional_items: bool = False
    length: int = 0  # of int[2]: a single number stands for a list of this length

    def __str__(self):
        items = f"[{self.length or ''}]" if self.is_list else ""
        items = "?" + items if self.optional_items else items
        return self.element + items + ("?" if self.optional else "")

    @property
    def is_tensor(self):
        return self.element == "Tensor"


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    type: Type
    default: object = _MISSING
    keyword_only: bool = False
    written: str = ""  # the letters of Tensor(a!)

    def __str__(self):
        text = str(self.type)
        if self.written:
            text = text.replace("Tensor", f"Tensor({self.written}!)", 1)
        text += " " + self.name
        return text if self.default is _MISSING else f"{text}={_default_text(self.default)}"


def _default_text(value):
    if isinstance(value, _C.dtype):
        return str(value).removeprefix("strata.")
    if isinstance(value, (str, _C.device)):
        return f"'{value}'"
    return str(list(value)) if isinstance(value, tuple) else str(value)


class Schema:
    """The parameters and results of an op."""

    def __init__(self, parameters, results):
        self.parameters, self.results = tuple(parameters), results  # results: a Type, or a tuple of them
        self.positional = tuple(p for p in self.parameters if not p.keyword_only)
        self.keywords = tuple(p for p in self.parameters if p.keyword_only)
        self.written = tuple(p.name for p in self.parameters if p.written)

    def __str__(self):
        parts = [str(p) for p in self.positional]
        if self.keywords:
            parts += ["*", *(str(p) for p in self.keywords)]
        results = self.results
        made = "(" + ", ".join(map(str, results)) + ")" if isinstance(results, tuple) else str(results)
        return f"({', '.join(parts)}) -> {made}"

    # --- calls ---------------------------------------------------------------------------------------------------------

    def bind(self, op, args, kwargs):
        """The values of all parameters in order, converted and with defaults. Raises TypeError as a function would."""
        if len(args) > len(self.positional):
            raise self._error(op, f"takes {len(self.positional)} positional arguments but {len(args)} were given")
        values, given = [], 0
        for place, p in enumerate(self.parameters):
            if not p.keyword_only and place < len(args):
                if p.name in kwargs:
                    raise self._error(op, f"got multiple values for argument '{p.name}'")
                value = args[place]
            elif p.name in kwargs:
                value, given = kwargs[p.name], given + 1
            elif p.default is not _MISSING:
                values.append(p.default)
                continue
            else:
                raise self._error(op, f"missing required argument '{p.name}'")
            try:
                values.append(converted(value, p.type))
            except (TypeError, OverflowError) as error:
                raise self._error(op, f"argument '{p.name}' must be {p.type}, {error}") from None
        if given < len(kwargs):
            known = {p.name for p in self.parameters}
            unknown = next((name for name in kwargs if name not in known), None)
            raise self._error(op, f"got an unexpected keyword argument '{unknown}'")
        return values

    def _error(self, op, what):
        return TypeError(f"{op}: {what}\n  {op}{self}")

    def check_results(self, who, made):
        """Raises TypeError unless a kernel returned what the schema says."""
        if isinstance(self.results, tuple):
            if not self.results:
                fits = made is None or made == ()
            else:
                fits = isinstance(made, (tuple, list)) and len(made) == len(self.results)
                fits = fits and all(_fits_result(v, t) for v, t in zip(made, self.results, strict=True))
        else:
            fits = _fits_result(made, self.results)
        if not fits:
            expected = str(self).rpartition("-> ")[2]
            raise TypeError(f"{who} returned {_described(made)}, but its schema says {expected}")


def _described(value):
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {', '.join(_described(v) for v in value) or 'nothing'}"
    return type(value).__name__


def _fits_result(value, kind):
    if kind.is_list:
        return isinstance(value, (tuple, list)) and all(isinstance(v, _C.Tensor) for v in value)
    expected = {"Tensor": _C.Tensor, "bool": bool, "int": int, "float": (int, float), "Scalar": (bool, int, float)}
    return isinstance(value, expected[kind.element])


def converted(value, kind):
    """The value as the type of a parameter. Raises TypeError with what was found."""
    if value is None and kind.optional:
        return None
    if not kind.is_list:
        return _converted_element(value, kind.element)
    if kind.length and isinstance(value, numbers.Real):
        return [_converted_element(value, kind.element)] * kind.length
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"not {type(value).__name__}")
    return [None if v is None and kind.optional_items else _converted_element(v, kind.element) for v in value]


def _converted_element(value, element):
    if element == "Tensor":
        fits = isinstance(value, _C.Tensor)
    elif element == "int":
        if not isinstance(value, (_C.Tensor, float)):
            return operator.index(value)
        fits = False
    elif element == "float":
        if isinstance(value, numbers.Real):
            return float(value)
        fits = False
    elif element == "bool":
        fits = isinstance(value, bool) or type(value).__name__ == "bool_"
        value = bool(value) if fits else value
    elif element == "Scalar":
        fits = isinstance(value, numbers.Real)
    elif element == "device":
        if isinstance(value, (str, _C.device)):
            return _C.device(value)
        fits = False
    else:
        fits = isinstance(value, str if element == "str" else _C.dtype)
    if not fits:
        raise TypeError(f"not {type(value).__name__}")
    return value


# --- from the annotations of a function ------------------------------------------------------------------------------


def _of_annotation(annotation, where):
    """The Type of an annotation."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = tuple(a for a in arguments if a is not type(None))
        if set(rest) in ({int, float}, {int, float, bool}):
            inner = Type("Scalar")
        elif len(rest) == 1:
            inner = _of_annotation(rest[0], where)
        else:
            raise _unsupported(annotation, where)
        return dataclasses.replace(inner, optional=len(rest) < len(arguments))
    if origin in (list, collections.abc.Sequence) or (origin is tuple and arguments[-1:] == (...,)):
        item = _of_annotation(arguments[0], where)
        if item.is_list or (item.optional and not item.is_tensor):
            raise _unsupported(annotation, where)
        return Type(item.element, is_list=True, optional_items=item.optional)
    by_class = {int: "int", float: "float", bool: "bool", str: "str", _C.dtype: "dtype", _C.device: "device"}
    if isinstance(annotation, type) and issubclass(annotation, _C.Tensor):
        return Type("Tensor")
    if isinstance(annotation, type) and annotation in by_class:
        return Type(by_class[annotation])
    raise _unsupported(annotation, where)


def _unsupported(annotation, where):
    return ValueError(
        f"infer_schema: {where} has the annotation {annotation}; supported are Tensor, int, float, bool, str, dtype, "
        "device, int | float, Sequence[...] and Optional[...] of these"
    )


def _results_of(annotation):
    if annotation in (None, type(None)):
        return ()
    if typing.get_origin(annotation) is tuple and typing.get_args(annotation)[-1:] != (...,):
        return tuple(_checked_result(_of_annotation(a, "a result")) for a in typing.get_args(annotation))
    return _checked_result(_of_annotation(annotation, "the result"), True)


def _checked_result(kind, is_only=False):
    single = not kind.is_list and kind.element in ("Tensor", "int", "float", "bool", "Scalar")
    if kind.optional or kind.optional_items or not (single or (is_only and kind.is_tensor)):
        raise ValueError(
            f"a result is {kind}; results are Tensor, int, float, bool, a tuple of these, Tensor[] or nothing"
        )
    return kind


def of_function(function, mutates_args):
    """The schema of a function with annotations. `mutates_args`: names of parameters, or "unknown" for all tensors."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise ValueError(f"infer_schema: an annotation cannot be evaluated: {error}") from None
    kinds = inspect.Parameter
    parameters, letters = [], iter(range(len(signature.parameters)))
    for name, p in signature.parameters.items():
        if p.kind not in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY):
            raise ValueError(
                f"infer_schema: parameter {name} must be a plain one; *args, **kwargs and / are not available"
            )
        if p.annotation is kinds.empty:
            raise ValueError(f"infer_schema: parameter {name} must have a type annotation")
        kind = _of_annotation(p.annotation, f"parameter {name}")
        is_written = kind.is_tensor if mutates_args == "unknown" else name in mutates_args
        if is_written and not kind.is_tensor:
            raise ValueError(f"infer_schema: mutates_args names {name}, which is {kind}; only tensors can be mutated")
        written = f"a{next(letters)}" if is_written else ""
        default = p.default
        if default is not _MISSING:
            try:
                default = converted(default, kind)
            except (TypeError, OverflowError) as error:
                raise ValueError(f"infer_schema: the default of {name} must be {kind}, {error}") from None
            if isinstance(default, list):
                default = tuple(default)
        parameters.append(Parameter(name, kind, default, p.kind is kinds.KEYWORD_ONLY, written))
    if mutates_args != "unknown":
        for name in mutates_args:
            if name not in signature.parameters:
                raise ValueError(f"infer_schema: mutates_args names {name!r}, which is not a parameter")
    if signature.return_annotation is inspect.Signature.empty:
        raise ValueError("infer_schema: the function needs an annotation of its result, or schema=")
    return Schema(parameters, _results_of(signature.return_annotation))


# --- from a text -----------------------------------------------------------------------------------------------------


def _split(text):
    """Parts between commas outside of brackets and strings."""
    parts, depth, quoted, begin = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == "'"
        depth += 0 if quoted else (c in "([") - (c in ")]")
        if c == "," and depth == 0 and not quoted:
            parts.append(text[begin:i].strip())
            begin = i + 1
    last = text[begin:].strip()
    return [*parts, last] if last or parts else []


_TYPE = re.compile(r"([A-Za-z]+)(?:\((\w+)(!?)\))?(\?)?(\[\d*\])?(\?)?$")


def _read_type(text, schema):
    found = _TYPE.match(text)
    element = _OTHER_NAMES.get(found[1], found[1]) if found else None
    if element not in _ELEMENTS:
        raise ValueError(f"schema {schema!r}: unknown type {text!r}; there are {', '.join(_ELEMENTS)}, with [] and ?")
    if found[2] and (element != "Tensor" or not found[3]):
        raise ValueError(
            f"schema {schema!r}: {text!r}; a tensor that is written is Tensor(a!), results share no memory"
        )
    is_list = found[5] is not None
    optional = bool(found[6]) or (bool(found[4]) and not is_list)
    length = int(found[5][1:-1] or 0) if is_list else 0
    return Type(element, is_list, optional, is_list and bool(found[4]), length), found[2] or ""


def _read_default(text, kind, schema):
    plain = {"None": None, "True": True, "False": False}
    try:
        if text in plain:
            value = plain[text]
        elif text.startswith("'") and text.endswith("'") and len(text) > 1:
            value = text[1:-1]
        elif kind.element == "dtype":
            value = getattr(_C, text)
        elif text.startswith("[") and text.endswith("]"):
            item = dataclasses.replace(kind, is_list=False)
            return tuple(_read_default(part, item, schema) for part in _split(text[1:-1]))
        else:
            value = float(text) if re.search(r"[.e]|inf|nan", text) else int(text)
        return converted(value, kind)
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"schema {schema!r}: {text!r} is no default value of type {kind}") from None


def of_text(schema):
    """The schema of a text "(Tensor x, float by=1.0) -> Tensor"."""
    if not isinstance(schema, str):
        raise TypeError(f"schema must be a str, got {type(schema).__name__}")
    text = schema.strip()
    arrow = text.rfind("->")
    inside = text[:arrow].strip()
    if arrow < 0 or not inside.startswith("(") or not inside.endswith(")"):
        raise ValueError(f"schema {schema!r}: expected '(Tensor x, ...) -> Tensor'")
    parameters, keyword_only = [], False
    for part in _split(inside[1:-1]):
        if part == "*":
            keyword_only = True
            continue
        declared, equals, default = part.partition("=")
        kind_text, _, name = declared.strip().rpartition(" ")
        if not _IDENTIFIER.fullmatch(name) or not kind_text:
            raise ValueError(f"schema {schema!r}: a parameter is 'type name', got {part!r}")
        if any(p.name == name for p in parameters):
            raise ValueError(f"schema {schema!r}: parameter {name!r} is there twice")
        kind, written = _read_type(kind_text.strip(), schema)
        value = _read_default(default.strip(), kind, schema) if equals else _MISSING
        if not equals and not keyword_only and parameters and parameters[-1].default is not _MISSING:
            raise ValueError(f"schema {schema!r}: parameter {name!r} without a default follows one with a default")
        parameters.append(Parameter(name, kind, value, keyword_only, written))
    made = text[arrow + 2 :].strip()
    if made.startswith("(") and made.endswith(")"):
        results = tuple(_checked_result(_read_type(part.split(" ")[0], schema)[0]) for part in _split(made[1:-1]))
        results = results[0] if len(results) == 1 else results  # "(Tensor)" is "Tensor"
    else:
        results = _checked_result(_read_type(made, schema)[0], True)
    return Schema(parameters, results)
