"""The generators of ops and modules: an invalid definition gives one line that says where it is and what is wrong."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
OPS = [str(ROOT / "src/ops" / name) for name in ("pointwise/activations.cpp", "nn/init.cpp")]
sys.path.insert(0, str(ROOT / "tools"))

import gen_modules  # noqa: E402
import gen_modules_cpp  # noqa: E402
import gen_modules_python  # noqa: E402
import gen_ops  # noqa: E402
import module_records  # noqa: E402


def error_of(tmp_path, path, text):
    """What the build prints for a file with this text."""
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    sources = [str(file)] if file.suffix in (".cpp", ".h") else [*OPS, str(file)]
    command = [sys.executable, ROOT / "tools/gen_ops.py", tmp_path / "out", *sources]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "schema, message",
    [
        ("twice(Tensor input", "does not have the form `name(type name=default, ...) -> result`"),
        ("twice(Tensor input)", "does not have the form"),
        ("twice(Tensor) -> Tensor", "parameter `Tensor` does not have the form `type name=default`"),
        ("twice(tensor input) -> Tensor", "parameter `tensor input`: the type is not one of Tensor, "),
    ],
)
def test_invalid_schema(tmp_path, schema, message):
    said = error_of(tmp_path, "src/ops/mine.cpp", f'\nSTRATA_OP(twice, "{schema}")\n  .doc("2x.");\n')
    assert "src/ops/mine.cpp:2: STRATA_OP(twice): " in said and message in said


def test_functor_of_another_form(tmp_path):
    functor = "template <typename T> struct Twice : FloatOnly {\n  static constexpr int kInputs = 1;\n};\n"
    said = error_of(tmp_path, "src/device/functors/mine.h", functor)
    assert "mine.h:2: a functor starts with `template <class T> struct Name" in said


RECORD = """Scaled(float init=1.0)
  doc: scale * relu(x).
  parameter scale [1] = constant_(init)
  forward(Tensor input) -> Tensor: scale * relu(input) / 2
  repr: init={init}
  sample: (0.5) | f(2,3)
"""


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("relu(input)", "relu(x)", "`x` is none of init, scale, input"),
        ("relu(input)", "rely(input)", "there is no op `rely` and no op `nn.functional.rely`"),
        ("relu(input)", "sqrt(input)", "sqrt is a function of numbers here"),
        ("relu(input) / 2", "relu(input) ** 2", "name an op instead of the operator"),
        ("relu(input) / 2", "relu(input", "is not an expression"),
        ("(Tensor input)", "(input)", "argument `input` does not have the form `type name`"),
        ("(Tensor input)", "(tensor input)", "the type is not one of Tensor, "),
        ("forward(", "call(", "there is no line `forward("),
        ("constant_", "const_", "there is no initializer `nn.init.const_`"),
        ("scale [1]", "scale", "the form is `name [sizes] = initializer(arguments)`"),
        ("float init", "number init", "type `number` is not known"),
        (" | f(2,3)", "", "has 0 inputs, forward takes 1"),
        ("f(2,3)", "x(2,3)", "cannot read the sample input `x(2,3)`"),
        ("float init=1.0", "int size, float init", "sample `(0.5)` does not give init"),
    ],
)
def test_invalid_module(tmp_path, old, new, message):
    said = error_of(tmp_path, "src/nn/modules/mine.modules", RECORD.replace(old, new))
    assert "mine.modules: Scaled" in said and message in said


def test_operators_of_tensors(tmp_path):
    (tmp_path / "mine.modules").write_text(RECORD)
    records = module_records.read(tmp_path / "mine.modules")
    table = gen_modules.OpTable([op for source in OPS for op in gen_ops.read_ops(source)])
    assert "return ((s.scale * functional::relu(input)) / 2);" in gen_modules_cpp.source("mine", records, table)
    assert "F.relu(input) / 2" in gen_modules_python.module(records, table)
