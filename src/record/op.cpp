// Reads "add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor" once, when the record is defined, and keeps the registry.
#include "record/op.h"

#include <charconv>
#include <cstring>
#include <deque>
#include <unordered_map>

namespace strata {

STRATA_THREAD_LOCAL ThreadState thread_state;

namespace {

struct Registry {
  std::vector<OpRecord*> ops;
  std::unordered_map<std::string, OpRecord*> by_name;  // "name" (first overload) and "name.overload"
  std::deque<std::string> texts;                       // names that records point to
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

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

constexpr struct {
  std::string_view text;
  ParamType type;
} kTypes[] = {{"Tensor", ParamType::Tensor},     {"Tensor[]", ParamType::Tensors},
              {"Tensor?[]", ParamType::Tensors}, {"Scalar", ParamType::Scalar},
              {"int", ParamType::Int},           {"float", ParamType::Float},
              {"bool", ParamType::Bool},         {"int[]", ParamType::Ints},
              {"int?[]", ParamType::Ints},       {"float[]", ParamType::Floats},
              {"str", ParamType::Str},           {"dtype", ParamType::DType},
              {"device", ParamType::Device},     {"Generator", ParamType::Generator}};

Value parse_number(std::string_view s) {
  if (s == "inf") return HUGE_VAL;
  if (s == "-inf") return -HUGE_VAL;
  if (s.find_first_of(".e") == s.npos) {
    int64_t i = 0;
    std::from_chars(s.data(), s.data() + s.size(), i);
    return i;
  }
  double f = 0;
  std::from_chars(s.data(), s.data() + s.size(), f);
  return f;
}

Value parse_default(std::string_view s, ParamType type) {  // strings keep pointing into the literal
  if (s == "None") return {};
  if (s == "True" || s == "False") return s == "True";
  if (s.starts_with('\'')) return s.substr(1, s.size() - 2);
  if (type == ParamType::DType) return dtype_from_name(s);
  if (s.starts_with('[')) {
    const auto parts = split(s.substr(1, s.size() - 2));
    auto* ints = new int64_t[parts.size() + 1];  // lives as long as the record: for ever
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

constexpr std::string_view kNamespaces[] = {"nn.functional.", "nn.init.", "linalg.", "special."};
}  // namespace

const std::vector<OpRecord*>& all_ops() { return registry().ops; }

const OpRecord& find_op(std::string_view name, std::string_view overload) {
  std::string key(name);
  if (!overload.empty()) key += "." + std::string(overload);
  const auto found = registry().by_name.find(key);
  if (found == registry().by_name.end()) fail(ErrorKind::Internal, "there is no op '" + key + "'");
  return *found->second;
}

OpRecord& OpRecord::define(const char* op_schema) {
  schema = op_schema;
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

  const std::string_view result = trim(all.substr(arrow + 4));
  if (result == "Tensor[]") {
    returns_list = true, outputs = 0;
  } else if (result.starts_with('(')) {
    outputs = 0;  // and stays so for "()": the op changes its arguments
    for (std::string_view one : split(result.substr(1, result.size() - 2))) {
      ++outputs;
      const size_t space = one.find(' ');
      if (space != one.npos) output_names.emplace_back(one.substr(space + 1));
    }
    if (outputs > kMaxOutputs) bad_schema(schema, "too many outputs");
  } else if (result != "Tensor") {
    bad_schema(schema, "a result is Tensor, Tensor[], (Tensor a, Tensor b) or ()");
  }

  bool keyword_only = false;
  for (std::string_view one : split(all.substr(open + 1, arrow - open - 1))) {
    if (one == "*") {
      keyword_only = true;
      continue;
    }
    const size_t space = one.find(' '), equals = std::min(one.find('='), one.size());
    if (space == one.npos) bad_schema(schema, "a parameter is `type name`");
    Param p{one.substr(space + 1, equals - space - 1), ParamType::Tensor};
    p.keyword_only = keyword_only, p.has_default = equals < one.size();
    std::string_view type = one.substr(0, space);
    if ((p.optional = type.ends_with('?'))) type.remove_suffix(1);
    bool known = false;
    for (const auto& t : kTypes)
      if (t.text == type) p.type = t.type, known = true;
    p.optional_items = type == "Tensor?[]";
    if (!known) bad_schema(schema, "unknown type");
    if (params.size() == Args::kMax) bad_schema(schema, "too many parameters");
    defaults.v[defaults.size++] = p.has_default ? parse_default(one.substr(equals + 1), p.type) : Value();
    const bool tensors = p.type == ParamType::Tensor || p.type == ParamType::Tensors;
    if (tensors && !p.optional && !p.has_default) needed |= static_cast<uint16_t>(1u << params.size());
    if (!p.has_default) required = static_cast<uint32_t>(params.size() + 1);
    if (!keyword_only) positional = static_cast<uint32_t>(params.size() + 1);
    params.push_back(p);
  }
  if (params.empty() || params[0].type != ParamType::Tensor) method = false;

  Registry& r = registry();
  r.ops.push_back(this);
  r.by_name.try_emplace(name, this);
  if (!overload.empty() && !r.by_name.try_emplace(name + "." + overload, this).second)
    bad_schema(schema, "defined twice");
  return *this;
}

OpRecord& OpRecord::alias_nn() { return alias(registry().texts.emplace_back("nn.functional." + name).c_str()); }

void SavedArgs::save(const Args& args, uint32_t mask, bool keep_shapes) {
  const auto copy_bytes = [](const void* from, size_t bytes) {
    void* copy = std::malloc(bytes + 1);
    if (!copy) throw std::bad_alloc();
    if (bytes) std::memcpy(copy, from, bytes);  // an empty list may have no address
    return static_cast<const char*>(copy);
  };
  for (uint32_t i = 0; i < args.size; ++i) {
    Value v = args[i];
    if (v.tag == Tag::Tensor) {
      if (mask >> i & 1) versions_[i] = v.tensor->version(), v.tensor = Ref<TensorImpl>::share(v.tensor).release();
      else if (keep_shapes) v.tensor = shape_only(*v.tensor).release();
      else v = Value();
    } else if (v.tag == Tag::Tensors) {
      const bool values = mask >> i & 1;
      auto* copy = new Tensor[v.size];
      list_versions_ = std::make_unique<uint32_t[]>(v.size);
      for (uint32_t k = 0; k < v.size; ++k) {
        if (!v.tensors[k]) continue;
        list_versions_[k] = v.tensors[k]->version();
        copy[k] = values ? v.tensors[k] : shape_only(*v.tensors[k]);
      }
      v.tensors = copy;
    } else if (v.tag == Tag::Ints) {
      v.ints = reinterpret_cast<const int64_t*>(copy_bytes(v.ints, v.size * sizeof(int64_t)));
    } else if (v.tag == Tag::Floats) {
      v.floats = reinterpret_cast<const double*>(copy_bytes(v.floats, v.size * sizeof(double)));
    } else if (v.tag == Tag::Str) {
      v.str = copy_bytes(v.str, v.size);
    } else if (v.tag == Tag::Generator) {
      v = Value();  // a gradient never draws; the generator may be gone by then
    }
    args_[i] = v, args_.size = i + 1;  // owned from here on, also when a later one throws
  }
}

void SavedArgs::clear() {
  for (uint32_t i = 0; i < args_.size; ++i) {
    const Value& v = args_[i];
    switch (v.tag) {
      case Tag::Tensor: Ref<TensorImpl>::drop(v.tensor); break;
      case Tag::Tensors: delete[] v.tensors; break;
      case Tag::Ints:
      case Tag::Floats:
      case Tag::Str: std::free(const_cast<char*>(v.str)); break;
      default: break;
    }
  }
  args_.size = 0;
}

}  // namespace strata
