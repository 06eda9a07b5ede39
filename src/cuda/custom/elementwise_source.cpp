#include "cuda/custom/elementwise_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "cuda/custom/source_text.h"

namespace strata::cuda {
namespace {

constexpr const char* kFormulaType = "T";  // of everything in a formula

bool begins_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)); }
bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}

const std::set<std::string, std::less<>>& keywords() {
  static const auto* words = new std::set<std::string, std::less<>>{
    "auto",     "bool",     "break",  "case",      "char",    "const",   "constexpr", "continue", "default",
    "do",       "double",   "else",   "false",     "float",   "for",     "if",        "int",      "long",
    "return",   "short",    "signed", "sizeof",    "static",  "struct",  "switch",    "template", "this",
    "true",     "typename", "union",  "unsigned",  "using",   "void",    "volatile",  "while",    "static_cast",
    "operator", "class",    "enum",   "namespace", "new",     "delete",  "goto",      "asm",      "and",
    "or",       "not",      "xor",    "int8_t",    "int16_t", "int32_t", "int64_t",   "uint8_t",  "uint16_t",
    "uint32_t", "uint64_t", "size_t", "INFINITY",  "NAN",     "i",       "n",         "blockIdx", "threadIdx",
    "blockDim", "gridDim"};
  return *words;
}

void check_name(const std::string& name, const char* what) {
  STRATA_CHECK(!name.empty() && begins_word(name[0]) && std::ranges::all_of(name, in_word), Value,
               "'{}' is not a name for {}", name, what);
  STRATA_CHECK(!keywords().contains(name) && !name.starts_with("strata_"), Value,
               "'{}' is reserved and cannot be the name of {}", name, what);
}

constexpr const char* kPrelude = "#include <math.h>\n#include \"cuda/custom/elements.cuh\"\n";
}  // namespace

const char* kernel_prelude() { return kPrelude; }

const char* c_type(DType t, bool in_memory) {
  switch (t) {
    case DType::Bool: return in_memory ? "unsigned char" : "bool";
    case DType::U8: return "unsigned char";
    case DType::I8: return "signed char";
    case DType::I16: return "short";
    case DType::I32: return "int";
    case DType::I64: return "long long";
    case DType::U16: return "unsigned short";
    case DType::U32: return "unsigned";
    case DType::U64: return "unsigned long long";
    case DType::F16: return in_memory ? "strata_half" : "float";
    case DType::BF16: return in_memory ? "strata_bfloat16" : "float";
    case DType::F32: return "float";
    case DType::F64: return "double";
    default:
      fail(ErrorKind::NotImplemented, fmt::format("dtype {} has no arithmetic in kernels; convert "
                                                  "the tensor to float16 or float32",
                                                  info_of(t).name));
  }
}

std::string placeholder_types(std::span<const ElementwiseSlot> inputs, std::span<const ElementwiseSlot> outputs) {
  std::string out;
  std::set<std::string> named;
  for (const auto slots : {inputs, outputs})
    for (const ElementwiseSlot& s : slots)
      if (s.parameter->type != info_of(s.type).name && named.insert(s.parameter->type).second)
        out += fmt::format("typedef {} {};\n", c_type(s.type, false), s.parameter->type);
  return out;
}

std::string declared(const ElementwiseSlot& s, const std::string& element) {
  const char* type = c_type(s.type, false);
  const std::string& name = s.parameter->name;
  if (s.is_number) return fmt::format("    const {} {} = strata_v_{};\n", type, name, name);
  return s.stored == DType::Bool ? fmt::format("    const {} {} = ({})({} != 0);\n", type, name, type, element)
                                 : fmt::format("    const {} {} = ({})strata_load({});\n", type, name, type, element);
}

bool is_dtype_name(std::string_view type) {
  return std::ranges::any_of(kDTypes, [&](const DTypeInfo& info) { return type == info.name; });
}

std::vector<ElementwiseParameter> read_parameters(const std::string& text, const char* what,
                                                  std::vector<std::string>& taken) {
  std::vector<ElementwiseParameter> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::vector<std::string> words;
    for (size_t i = at; i < end; ++i) {
      if (is_space(text[i])) continue;
      if (words.empty() || i == at || is_space(text[i - 1])) words.emplace_back();
      words.back() += text[i];
    }
    at = end + 1;
    if (words.empty() && out.empty() && at > text.size()) break;  // no parameters
    STRATA_CHECK(words.empty() || words[0] != "raw", NotImplemented, "raw parameters are not available; use RawKernel");
    STRATA_CHECK(words.size() == 2, Value, "expected a type and a name for {}, as in \"T x, float32 y\", got \"{}\"",
                 what, text);
    if (!is_dtype_name(words[0])) check_name(words[0], "a type");
    check_name(words[1], what);
    STRATA_CHECK(!contains(taken, words[1]), Value, "'{}' is declared twice", words[1]);
    taken.push_back(words[1]);
    out.push_back({words[0], words[1]});
  }
  return out;
}

Formula read_formula(const std::string& formula) {
  const SourceText text(formula);
  const std::string_view code = text.code(0, text.size());  // without comments and strings
  std::vector<std::string> outputs, locals, inputs;
  std::string previous;  // the word before, if only spaces are between
  const auto at = [&](size_t i) { return i < code.size() ? code[i] : '\0'; };
  const auto in_number = [&](size_t i) {
    const bool sign = (at(i) == '+' || at(i) == '-') && (at(i - 1) == 'e' || at(i - 1) == 'E');
    return in_word(at(i)) || at(i) == '.' || sign;
  };
  for (size_t i = 0; i < code.size();) {
    const size_t begin = i;
    if (std::isdigit(static_cast<unsigned char>(at(i)))) {
      while (in_number(i)) ++i;
      previous.clear();
      continue;
    }
    if (!begins_word(at(i))) {
      if (!is_space(at(i++))) previous.clear();
      continue;
    }
    while (in_word(at(i))) ++i;
    const std::string word(code.substr(begin, i - begin));
    const size_t after = std::min(code.find_first_not_of(" \t\r\n", i), code.size());
    const bool is_member = begin > 0 && (code[begin - 1] == '.' || code[begin - 1] == ':');
    const bool is_called = at(after) == '(' || (at(after) == ':' && at(after + 1) == ':');
    const bool is_type = begins_word(at(after)) || word == kFormulaType;
    const bool is_assigned = at(after) == '=' && at(after + 1) != '=';
    const bool is_declared = !previous.empty() && previous != "else" && previous != "return";
    const bool is_known = keywords().contains(word) || contains(outputs, word) || contains(locals, word);
    if (!is_member && !is_called && !is_type && !is_known) {
      if (is_declared) locals.push_back(word);
      else if (is_assigned) outputs.push_back(word);
      else if (!contains(inputs, word)) inputs.push_back(word);
    }
    previous = word;
  }
  STRATA_CHECK(!outputs.empty(), Value,
               "elementwise: the formula \"{}\" assigns no output; expected \"out = a * x + y\"", formula);
  STRATA_CHECK(!inputs.empty(), Value, "elementwise: the formula \"{}\" has no inputs", formula);
  const auto joined = [](const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", kFormulaType, name);
    return out;
  };
  return {joined(inputs), joined(outputs)};
}

std::string elementwise_source(const std::string& name, const std::vector<ElementwiseSlot>& inputs,
                               const std::vector<ElementwiseSlot>& outputs, const std::string& operation, bool strided,
                               bool wide) {
  const std::string types = placeholder_types(inputs, outputs);
  std::string parameters, offsets, steps, loads, stores;
  size_t tensors = 0;
  const auto add_tensor = [&](const ElementwiseSlot& s, const char* constant) {
    const std::string& x = s.parameter->name;
    parameters += fmt::format("{}{}* strata_p_{}, ", constant, c_type(s.stored, true), x);
    if (strided) {
      offsets += fmt::format("    long long strata_o_{} = 0;\n", x);
      steps += fmt::format("      strata_o_{} += strata_at * strata_layout.stride[{}][strata_d];\n", x, tensors);
    }
    ++tensors;
    return fmt::format("strata_p_{}[{}]", x, strided ? "strata_o_" + x : "i");
  };
  for (const ElementwiseSlot& s : inputs) {
    if (s.is_number) parameters += fmt::format("const {} strata_v_{}, ", c_type(s.type, false), s.parameter->name);
    loads += declared(s, s.is_number ? "" : add_tensor(s, "const "));
  }
  for (const ElementwiseSlot& s : outputs) {
    const std::string element = add_tensor(s, "");
    loads += fmt::format("    {} {}{{}};\n", c_type(s.type, false), s.parameter->name);
    stores += fmt::format("    strata_store({}, {});\n", element, s.parameter->name);
  }
  const std::string layout = strided
                               ? fmt::format("struct strata_Layout {{ long long dims, size[{}], stride[{}][{}]; }};\n",
                                             kAxesMost, tensors, kAxesMost)
                               : "";
  const std::string locate = strided ? fmt::format(
                                         "{}    strata_index strata_rest = i;\n"
                                         "    for (int strata_d = 0; strata_d < strata_layout.dims; ++strata_d) {{\n"
                                         "      const strata_index strata_size = strata_layout.size[strata_d];\n"
                                         "      const long long strata_at = strata_rest % strata_size;\n"
                                         "      strata_rest /= strata_size;\n{}    }}\n",
                                         offsets, steps)
                                     : "";
  // The line directive makes the compiler count lines from the operation's first one.
  return fmt::format(
    "{}{}typedef {} strata_index;\n{}extern \"C\" __global__ void {}({}{}const long long strata_n) {{\n"
    "  const strata_index n = strata_n;\n"
    "  const strata_index strata_step = (strata_index)gridDim.x * blockDim.x;\n"
    "  for (strata_index i = (strata_index)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += strata_step) {{\n"
    "{}{}    {{\n#line 1 \"{}\"\n{};\n    }}\n{}  }}\n}}\n",
    kPrelude, types, wide ? "unsigned long long" : "unsigned", layout, name, parameters,
    strided ? "const strata_Layout strata_layout, " : "", locate, loads, name, operation, stores);
}

}  // namespace strata::cuda
