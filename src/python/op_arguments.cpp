#include "python/op_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "python/number_arguments.h"

namespace strata::python {
namespace {

PyObject *out_name, *layout_name, *pin_memory_name, *inplace_name;

// NumPy's names of parameters, which PyTorch accepts.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
  {"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "input"},    {"x1", "input"},
  {"x2", "other"}, {"self", "input"},       {"axis1", "dim1"}, {"axis2", "dim2"}};

// Arithmetic of plain numbers gives a tensor, as in PyTorch: div(1, 2). Other ops need a tensor among their operands.
bool takes_only_numbers(const OpRecord& op) {
  return op.name == "add" || op.name == "sub" || op.name == "mul" || op.name == "div" || op.name == "floor_divide";
}

const char* kind_name(const Param& p) {
  static const char* const names[] = {"Tensor",        "tuple of Tensors", "Number",          "int", "float",
                                      "bool",          "tuple of ints",    "tuple of floats", "str", "strata.dtype",
                                      "strata.device", "Generator"};
  return names[static_cast<int>(p.type)];
}

}  // namespace

Overload::Overload(const OpRecord& record)
    : op(&record), numbers(number_parameters(record)), count(record.defaults.size), positional(record.positional) {
  for (uint32_t i = 0; i < count; ++i) {
    const Param& p = record.params[i];
    const uint32_t bit = 1u << i;
    if (p.type == ParamType::Tensor) tensors |= bit;
    if (p.type == ParamType::Tensor || p.type == ParamType::Tensors || p.type == ParamType::Ints) measured |= bit;
    if (i < record.required && !p.has_default) without_default |= bit;
    names[i] = PyUnicode_FromStringAndSize(p.name.data(), static_cast<Py_ssize_t>(p.name.size()));
    PyUnicode_InternInPlace(&names[i]);
  }
  needs_tensor = record.numbers && tensors && !takes_only_numbers(record);
  if (!positional) return;
  const ParamType last = record.params[positional - 1].type;
  tail = last == ParamType::Ints ? Tail::Ints : last == ParamType::Tensors ? Tail::Tensors : Tail::None;
}

bool Attempt::reject(std::string reason) {
  why = std::move(reason);
  return false;
}

bool Attempt::put_other(const Overload& o, uint32_t i, PyObject* value) {
  const Param& p = o.op->params[i];
  const bool fits = p.type != ParamType::Tensor || (o.numbers >> i & 1) || value == Py_None || is_tensor(value);
  if (fits && parser.value(*o.op, p, value, parser.args[i])) [[likely]]
    return true;
  return reject(fmt::format("argument '{}' (position {}) must be {}, not {}", p.name, i + 1, kind_name(p),
                            Py_TYPE(value)->tp_name));
}

bool Attempt::refuse_list(const Overload& o, uint32_t at, const char* expected) {
  return reject(fmt::format("argument '{}' must be {}", o.op->params[at].name, expected));
}

bool Attempt::keyword(const Overload& o, PyObject* name, PyObject* value, uint32_t& filled) {
  const OpRecord& op = *o.op;
  const uint32_t count = o.count;
  uint32_t i = 0;
  while (i < count && o.names[i] != name) ++i;
  if (i == count)
    for (i = 0; i < count && PyUnicode_Compare(o.names[i], name) != 0;) ++i;
  if (i == count) {
    if (PyUnicode_Compare(name, out_name) == 0 && op.has_out) return assign(out, value == Py_None ? nullptr : value);
    if (PyUnicode_Compare(name, inplace_name) == 0 && inplace_keyword) return assign(inplace, truth_of(value));
    if (PyUnicode_Compare(name, layout_name) == 0 ||
        (PyUnicode_Compare(name, pin_memory_name) == 0 && !truth_of(value)))
      return true;
    const std::string text = shown(name);
    for (const auto& [other, ours] : kOtherNames)
      if (text == other)
        for (i = 0; i < count && op.params[i].name != ours;) ++i;
    if (i == count) return reject(fmt::format("got an unexpected keyword argument '{}'", text));
  }
  if (filled >> i & 1) return reject(fmt::format("got multiple values for argument '{}'", op.params[i].name));
  filled |= 1u << i;
  return put(o, i, value);
}

bool Attempt::has_tensor(const Overload& o) const {
  return std::any_of(parser.args.v, parser.args.v + o.count,
                     [](const Value& v) { return v.tag == Tag::Tensor || v.tag == Tag::Tensors; });
}

bool Attempt::read(const Overload& o, PyObject* const* values, uint32_t given, PyObject* keywords) {
  Args& args = parser.args;
  args.size = o.count;
  uint32_t taken = given, alone = given;  // parameters that get values; those that get one each
  if (given >= o.positional) {
    taken = alone = o.positional;
    if (o.tail == Overload::Tail::Ints) {
      PyObject* last = values[given - 1];  // var(1, False) has other parameters than view(2, 3)
      if (!PyBool_Check(last) && (given > taken || PyLong_Check(last)) && !put_ints(o, values, given, --alone))
        return false;
    } else if (o.tail == Overload::Tail::Tensors && is_tensor(values[taken - 1])) {
      if (!put_tensors(o, values, given, --alone)) return false;
    }
    if (given > taken && alone == taken) [[unlikely]]
      return reject(
        fmt::format("takes {} positional argument{} but {} were given", taken, taken == 1 ? "" : "s", given));
  }
  for (uint32_t i = 0; i < alone; ++i)
    if (!put(o, i, values[i])) return false;
  for (uint32_t i = taken; i < o.count; ++i) args[i] = o.op->defaults[i];
  uint32_t filled = (1u << taken) - 1;
  if (keywords) {
    const Py_ssize_t named = PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t k = 0; k < named; ++k)
      if (!keyword(o, PyTuple_GET_ITEM(keywords, k), values[given + k], filled)) return false;
  }
  if (const uint32_t missing = o.without_default & ~filled) [[unlikely]]
    return reject(
      fmt::format("missing required argument '{}'", o.op->params[static_cast<size_t>(std::countr_zero(missing))].name));
  if (o.needs_tensor && !args.is_tensor(0) && !has_tensor(o)) [[unlikely]]
    return reject("at least one argument must be a Tensor");
  return true;
}

bool init_op_arguments() {
  out_name = PyUnicode_InternFromString("out");
  layout_name = PyUnicode_InternFromString("layout");
  pin_memory_name = PyUnicode_InternFromString("pin_memory");
  inplace_name = PyUnicode_InternFromString("inplace");
  return out_name && layout_name && pin_memory_name && inplace_name;
}

}  // namespace strata::python
