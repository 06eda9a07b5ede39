// Parses "add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor" once, when the record is defined. Tensor(a)
// means that a result with the same letter may share the memory, Tensor(a!) that the op writes to it,
// Tensor(a!:training) that it does so if the bool parameter `training` is true.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "record/op.h"

namespace strata {
namespace {

std::string_view trim(std::string_view s) {
  while (s.starts_with(' ')) s.remove_prefix(1);
  while (s.ends_with(' ')) s.remove_suffix(1);
  return s;
}

[[noreturn]] void bad_schema(const char* schema, const char* why) {
  fail(ErrorKind::Internal, fmt::format("schema \"{}\": {}", schema, why));
}

// Commas inside brackets do not separate.
std::vector<std::string_view> split(std::string_view s) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && (s[i] == '[' || s[i] == '(')) ++depth;
    if (i < s.size() && (s[i] == ']' || s[i] == ')')) --depth;
    if (i == s.size() || (s[i] == ',' && depth == 0)) {
      if (!trim(s.substr(begin, i - begin)).empty()) parts.push_back(trim(s.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return parts;
}

struct TypeName {
  std::string_view text;
  ParamType type;
};
constexpr TypeName kTypes[] = {{"Tensor", ParamType::Tensor},     {"Tensor[]", ParamType::Tensors},
                               {"Tensor?[]", ParamType::Tensors}, {"Scalar", ParamType::Scalar},
                               {"int", ParamType::Int},           {"float", ParamType::Float},
                               {"bool", ParamType::Bool},         {"int[]", ParamType::Ints},
                               {"int?[]", ParamType::Ints},       {"float[]", ParamType::Floats},
                               {"str", ParamType::Str},           {"dtype", ParamType::DType},
                               {"device", ParamType::Device},     {"Generator", ParamType::Generator}};

Value parse_number(std::string_view s) {
  if (s == "inf") return HUGE_VAL;
  if (s == "-inf") return -HUGE_VAL;
  const auto read = [s](auto number) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), number);
    if (s.empty() || error != std::errc{} || end != s.data() + s.size())
      fail(ErrorKind::Internal, fmt::format("'{}' is no default value", s));
    return Value(number);
  };
  return s.find_first_of(".e") == s.npos ? read(int64_t{0}) : read(0.0);
}

Value parse_default(std::string_view s, ParamType type) {  // strings point into the literal
  if (s == "None") return {};
  if (s == "True" || s == "False") return s == "True";
  if (s.starts_with('\'')) return s.substr(1, s.size() - 2);
  if (type == ParamType::DType) return dtype_from_name(s);
  if (s.starts_with('[')) {
    const auto parts = split(s.substr(1, s.size() - 2));
    auto* ints = new int64_t[parts.size() + 1];  // freed never, like the record
    for (size_t i = 0; i < parts.size(); ++i) ints[i] = parse_number(parts[i]).integer();
    return IntList(Shape(ints, parts.size()));
  }
  Value number = parse_number(s);
  if (type == ParamType::Ints) {
    auto* one = new int64_t(number.integer());
    return IntList(Shape(one, 1));
  }
  if (type == ParamType::Float) return number.number();
  return number;
}

// A type and its memory annotation: "Tensor(a!:training)?" is the type "Tensor?".
struct Memory {
  std::string type;
  char letter = 0;
  bool written = false;
  std::string_view only_if = {};
};
Memory parse_memory(std::string_view text, const char* schema) {
  const size_t open = text.find('('), close = text.find(')');
  if (open == text.npos) return {std::string(text)};
  std::string_view inside = text.substr(open + 1, close - open - 1);
  Memory m{std::string(text.substr(0, open)) + std::string(text.substr(close + 1))};
  if (close == text.npos || inside.empty() || text.substr(0, open) != "Tensor")
    bad_schema(schema, "memory is written as Tensor(a), Tensor(a!) or Tensor(a!:condition)");
  m.letter = inside[0];
  inside.remove_prefix(1);
  m.written = inside.starts_with('!');
  if (inside.starts_with("!:")) m.only_if = inside.substr(2);
  else if (inside.size() > m.written) bad_schema(schema, "the memory of a tensor is named by one letter");
  return m;
}

constexpr std::string_view kNamespaces[] = {"nn.functional.", "nn.init.", "linalg.", "special.", "fft.", "vision.ops."};

Param parse_param(std::string_view text, std::string_view type, const char* schema) {
  const size_t space = text.find(' '), equals = std::min(text.find('='), text.size());
  Param p{text.substr(space + 1, equals - space - 1), ParamType::Tensor};
  p.has_default = equals < text.size();
  p.optional = type.ends_with('?');
  if (p.optional) type.remove_suffix(1);
  const auto found = std::ranges::find(kTypes, type, &TypeName::text);
  if (found == std::end(kTypes)) bad_schema(schema, "unknown type");
  p.type = found->type;
  p.optional_items = type == "Tensor?[]";
  return p;
}
}  // namespace

void OpRecord::read_schema() {
  const std::string_view all = schema;
  const size_t open = all.find('('), arrow = all.rfind(") ->");
  if (open == all.npos || arrow == all.npos) bad_schema(schema, "expected name(...) -> ...");

  std::string_view full_name = all.substr(0, open), prefix;
  for (std::string_view space : kNamespaces)
    if (full_name.starts_with(space)) prefix = space;
  std::string_view rest = full_name.substr(prefix.size());
  const size_t dot = rest.find('.');
  name = std::string(prefix) + std::string(rest.substr(0, dot));
  if (dot != rest.npos) overload = rest.substr(dot + 1);
  if (!prefix.empty()) method = false;

  read_params(all.substr(open + 1, arrow - open - 1));
  read_results(trim(all.substr(arrow + 4)));
}

void OpRecord::read_params(std::string_view text) {
  bool keyword_only = false;
  std::string_view condition;
  for (std::string_view one : split(text)) {
    if (one == "*") {
      keyword_only = true;
      continue;
    }
    if (one.find(' ') == one.npos) bad_schema(schema, "a parameter is `type name`");
    if (params.size() == Args::kMax) bad_schema(schema, "too many parameters");
    const Memory memory = parse_memory(one.substr(0, one.find(' ')), schema);
    Param p = parse_param(one, memory.type, schema);
    p.keyword_only = keyword_only;
    p.memory = memory.letter;
    if (!memory.only_if.empty()) condition = memory.only_if;
    const auto bit = static_cast<uint16_t>(1u << params.size());
    if (memory.written) written |= bit;
    const bool tensors = p.type == ParamType::Tensor || p.type == ParamType::Tensors;
    takes_tensors |= tensors;
    if (tensors && !p.optional && !p.has_default) needed |= bit;
    defaults.v[defaults.size++] = p.has_default ? parse_default(one.substr(one.find('=') + 1), p.type) : Value();
    params.push_back(p);
    if (!p.has_default) required = static_cast<uint32_t>(params.size());
    if (!keyword_only) positional = static_cast<uint32_t>(params.size());
  }
  if (params.empty() || params[0].type != ParamType::Tensor) method = false;
  if (condition.empty()) return;
  const auto found = std::ranges::find(params, condition, &Param::name);
  if (found == params.end() || found->type != ParamType::Bool)
    bad_schema(schema, "a write depends on a bool parameter");
  writes_if = static_cast<uint8_t>(found - params.begin());
}

void OpRecord::read_results(std::string_view text) {
  const auto add = [&](std::string_view type) {
    const Memory memory = parse_memory(type, schema);
    const bool given = std::ranges::any_of(params, [&](const Param& p) { return p.memory == memory.letter; });
    if (memory.letter && !given) bad_schema(schema, "a result shares memory that no parameter has");
    shared += memory.letter ? memory.letter : ' ';
    return memory.type;
  };
  if (!text.starts_with('(')) {
    const std::string type = add(text);
    if (type != "Tensor" && type != "Tensor[]")
      bad_schema(schema, "a result is Tensor, Tensor[], (Tensor a, Tensor b) or ()");
    returns_list = type == "Tensor[]";
    outputs = returns_list ? 0 : 1;
    return;
  }
  outputs = 0;  // stays 0 for "()": the op changes its arguments
  for (std::string_view one : split(text.substr(1, text.size() - 2))) {
    ++outputs;
    const size_t space = one.find(' ');
    if (space != one.npos) output_names.emplace_back(one.substr(space + 1));
    if (add(one.substr(0, space)) != "Tensor") bad_schema(schema, "each of several results is a Tensor");
  }
  if (outputs > kMaxOutputs) bad_schema(schema, "too many outputs");
}

std::string schema_of(const OpRecord& op, Form form) {
  std::string text = op.schema;
  if (form == Form::Plain) return text;
  if (form == Form::InPlace) {
    text.insert(op.name.size(), "_");
    text.replace(text.find("Tensor"), 6, "Tensor(a!)");
    return text.substr(0, text.rfind("->")) + "-> Tensor(a!)";
  }
  // A name for each written tensor: those of the results, if they have names.
  std::string targets = op.params.size() > op.positional ? ", " : op.params.empty() ? "*, " : ", *, ", results;
  for (uint32_t o = 0; o < op.outputs; ++o) {
    const std::string type = fmt::format("Tensor({}!)", static_cast<char>('a' + o));
    const std::string name = !op.output_names.empty() ? op.output_names[o]
                             : op.outputs == 1        ? "out"
                                                      : fmt::format("out{}", o);
    targets += (o ? ", " : "") + type + " " + name;
    results += (o ? ", " : "") + type;
  }
  return text.substr(0, text.rfind(") ->")) + targets + ") -> " + (op.outputs == 1 ? results : "(" + results + ")");
}

}  // namespace strata
