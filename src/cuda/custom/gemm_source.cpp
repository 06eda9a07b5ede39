#include "cuda/custom/gemm_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "cuda/custom/elementwise_source.h"

namespace strata::gemm {
namespace {

bool begins_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_word(char c) { return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)); }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)); }

// Names that are not tensors or numbers of the caller.
bool is_known(std::string_view word) {
  static const std::set<std::string_view> words{
    "acc",      "m",       "n",       "batch",   "true",     "false",    "int",      "long",     "float",
    "double",   "bool",    "char",    "short",   "unsigned", "signed",   "const",    "auto",     "sizeof",
    "int8_t",   "int16_t", "int32_t", "int64_t", "uint8_t",  "uint16_t", "uint32_t", "uint64_t", "static_cast",
    "INFINITY", "NAN",     "M_PI",    "M_E",     "and",      "or",       "not",      "xor"};
  return words.contains(word);
}

std::string without_spaces(std::string_view text) {
  std::string out;
  std::ranges::copy_if(text, std::back_inserter(out), [](char c) { return !is_space(c); });
  return out;
}

// The end of the brackets that open at `at`.
size_t closing(const std::string& text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '(') ++depth;
    if ((text[i] == ']' || text[i] == ')') && --depth == 0) return i;
  }
  fail(ErrorKind::Value, fmt::format("gemm: the epilogue \"{}\" has a bracket that is not closed", text));
}

// The indices between brackets: "m, f(n, 1)" has two.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c == ',' && depth == 0) out.emplace_back();
    else out.back() += c;
  }
  for (std::string& index : out) index = without_spaces(index);
  return out;
}

struct Word {
  size_t begin, end;
  bool is_member, is_called;
  size_t bracket;  // position of a [ after it, or npos
};
std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> out;
  for (size_t i = 0; i < text.size();) {
    if (std::isdigit(static_cast<unsigned char>(text[i]))) {  // a number with its suffix: 1e3f
      while (i < text.size() && (in_word(text[i]) || text[i] == '.')) ++i;
      continue;
    }
    if (!begins_word(text[i])) {
      ++i;
      continue;
    }
    Word w{i, i, false, false, std::string::npos};
    while (w.end < text.size() && in_word(text[w.end])) ++w.end;
    size_t before = w.begin, after = w.end;
    while (before > 0 && is_space(text[before - 1])) --before;
    while (after < text.size() && is_space(text[after])) ++after;
    const std::string_view head = std::string_view(text).substr(0, before);
    w.is_member = head.ends_with('.') || head.ends_with("::") || head.ends_with("->");
    const std::string_view rest = std::string_view(text).substr(after);
    w.is_called = rest.starts_with('(') || rest.starts_with("::");
    if (rest.starts_with('[')) w.bracket = after;
    out.push_back(w);
    i = w.end;
  }
  return out;
}

void note_use(ExtraUse& use, bool is_first, const std::vector<std::string>& indices) {
  using Kind = ExtraUse::Kind;
  const Kind kind = indices.empty() ? Kind::Number : indices.size() == 1 ? Kind::Vector : Kind::Matrix;
  const bool row = indices.size() == 2 ? indices[0] == "m" && indices[1] == "n" : !indices.empty() && indices[0] == "n";
  const bool column = indices.size() == 1 && indices[0] == "m";
  if (is_first) {
    use.kind = kind;
    use.by_row = row;
    use.by_column = column;
    return;
  }
  STRATA_CHECK(use.kind == kind, Value, "gemm: '{}' is used with different numbers of indices in the epilogue",
               use.name);
  use.by_row &= row;
  use.by_column &= column;
}

// residual[m, n] as residual[m][n]: in C++ the comma would drop the first index.
std::string with_single_indices(const std::string& text) {
  std::string out = text;
  for (const Word& w : words_of(text)) {
    if (w.bracket == std::string::npos) continue;
    int depth = 0;
    for (size_t i = w.bracket; i < closing(text, w.bracket); ++i) {
      depth += (text[i] == '[' || text[i] == '(') - (text[i] == ']' || text[i] == ')');
      if (text[i] == ',' && depth == 1) out[i] = '\x01';
    }
  }
  for (size_t at; (at = out.find('\x01')) != out.npos;) out.replace(at, 1, "][");
  return out;
}

const char* type_of_sums(const Config& c) {
  return c.dtype == DType::F64 ? "double" : c.dtype == DType::I8 ? "int" : "float";
}

// Of results and factors in memory.
const char* stored_type(DType t) {
  return t == DType::F8E4M3   ? "strata::gemm::Float8E4M3"
         : t == DType::F8E5M2 ? "strata::gemm::Float8E5M2"
                              : cuda::c_type(t, true);
}
}  // namespace

namespace {
void read_names(const std::string& text, std::vector<ExtraUse>& out) {
  STRATA_CHECK(text.find_first_not_of(" \t\r\n") != text.npos, Value,
               "gemm: the epilogue is empty; expected an expression such as \"relu(acc + bias[n])\"");
  for (const std::string_view bad : {";", "{", "}", "#", "\"", "'", "\\", "//", "/*"})
    STRATA_CHECK(text.find(bad) == text.npos, Value,
                 "gemm: the epilogue \"{}\" has '{}', but must be one C++ expression; put functions into the preamble",
                 text, bad);
  STRATA_CHECK(text.find('\0') == text.npos, Value, "gemm: the epilogue has a NUL character");
  for (const Word& w : words_of(text)) {
    const std::string name = text.substr(w.begin, w.end - w.begin);
    if (w.is_member || w.is_called) continue;
    STRATA_CHECK(!is_known(name) || w.bracket == text.npos, Value,
                 "gemm: '{}' is reserved and cannot be the name of a tensor in the epilogue", name);
    if (is_known(name)) continue;
    STRATA_CHECK(!name.starts_with("strata"), Value, "gemm: '{}' is reserved; choose another name", name);
    std::vector<std::string> indices;
    if (w.bracket != text.npos) {
      const size_t end = closing(text, w.bracket);
      indices = split(std::string_view(text).substr(w.bracket + 1, end - w.bracket - 1));
      size_t after = end + 1;
      while (after < text.size() && is_space(text[after])) ++after;
      if (after < text.size() && text[after] == '[') {  // residual[m][n]
        STRATA_CHECK(indices.size() == 1, Value, "gemm: '{}' has more than two indices in the epilogue", name);
        const size_t second = closing(text, after);
        indices.push_back(without_spaces(std::string_view(text).substr(after + 1, second - after - 1)));
      }
    }
    STRATA_CHECK(indices.size() <= 2, Value, "gemm: '{}' has {} indices in the epilogue; a tensor has one or two", name,
                 indices.size());
    const auto found = std::ranges::find(out, name, &ExtraUse::name);
    const bool is_first = found == out.end();
    if (is_first) out.push_back({name, ExtraUse::Kind::Number});
    note_use(is_first ? out.back() : *found, is_first, indices);
  }
}
}  // namespace

std::vector<ExtraUse> read_epilogue(const Config& config) {
  std::vector<ExtraUse> out;
  read_names(config.epilogue, out);
  if (!config.second.empty()) read_names(config.second, out);
  return out;
}

namespace {

// What an epilogue reads: members, their initializers, and statements of Hopper's kernels (gemm_readers.cuh).
struct Members {
  std::string declared, initializers, ahead, begin, columns, held;
};

Members members_of(const Config& c, const std::vector<ExtraUse>& extras, const Variant& v) {
  const char* sum = type_of_sums(c);
  Members out;
  for (size_t i = 0; i < extras.size(); ++i) {
    const ExtraUse& x = extras[i];
    const char* stored = cuda::c_type(v.extras[i], true);
    if (x.kind == ExtraUse::Kind::Number) {
      const char* real = c.dtype == DType::I8 ? "float" : sum;
      out.declared +=
        fmt::format("  {} {};\n", is_floating(v.extras[i]) ? real : cuda::c_type(v.extras[i], false), x.name);
      out.initializers += v.numbers[i] ? fmt::format(", {}(strata_p.extras[{}].value)", x.name, i)
                                       : fmt::format(", {}(strata::gemm::scalar<{}, {}>(strata_p, {}, strata_batch))",
                                                     x.name, sum, stored, i);
      continue;
    }
    if (!v.hopper) {
      out.declared +=
        fmt::format("  strata::gemm::{}<{}, {}, {}> {};\n", x.kind == ExtraUse::Kind::Vector ? "Vector" : "Matrix", sum,
                    stored, !(x.by_row || x.by_column), x.name);
      out.initializers += fmt::format(", {}(strata_p, {}, strata_batch)", x.name, i);
      continue;
    }
    const std::string reader = fmt::format("strata_read_{}", x.name);
    std::string type = fmt::format("ColumnReader<{}, {}, strata_Config::kColumns>", sum, stored);
    if (x.by_column) type = fmt::format("RowReader<{}, {}>", sum, stored);
    else if (x.kind == ExtraUse::Kind::Matrix && v.reading[i] == Reading::Staged)
      type = fmt::format("StagedReader<{}, {}, strata_Config::kColumns>", sum, stored);
    else if (x.kind == ExtraUse::Kind::Matrix)
      type =
        fmt::format("MatrixReader<{}, {}, strata_Config::kColumns, {}>", sum, stored, v.reading[i] == Reading::Pairs);
    out.declared += fmt::format("  strata::gemm::{} {};\n", type, reader);
    out.initializers += fmt::format(", {}(strata_p, {}, strata_batch)", reader, i);
    out.ahead += fmt::format(" {}.ahead(strata_at);", reader);
    out.begin += fmt::format(" {}.begin(strata_at, strata_rows);", reader);
    out.columns += fmt::format(" {}.columns(strata_address);", reader);
    out.held += fmt::format("    const auto {} = {}.held(strata_j, strata_q, strata_e);\n", x.name, reader);
  }
  return out;
}

// One expression as a member function. The line directives make the compiler count lines from the first ones of the
// preamble and of the epilogue.
std::string function_of(const Config& c, const Variant& v, const Members& members, const char* name, const char* title,
                        const std::string& text) {
  return fmt::format(R"(  __device__ __forceinline__ auto {0}({1} acc, int m, int n, long long batch{2}) const {{
    using namespace strata::gemm::functions;
{3}    const {4} strata_result =
#line 1 "{5} of {6}"
{7}
#line 25 "{6}.cu"
    ;
    return strata_result;
  }}
)",
                     name, type_of_sums(c), v.hopper ? ", int strata_j, int strata_q, int strata_e" : "", members.held,
                     c.dtype == DType::I8 ? "auto" : type_of_sums(c), title, c.name, with_single_indices(text));
}

// The struct of the epilogue: its tensors and numbers as members, the expressions as member functions.
std::string epilogue_source(const Config& c, const std::vector<ExtraUse>& extras, const Variant& v) {
  const Members members = members_of(c, extras, v);
  std::string out = fmt::format(R"(struct strata_Epilogue {{
  int strata_unused;
{}  __device__ __forceinline__ strata_Epilogue(const strata::gemm::KernelParams& strata_p,
                                             const strata::gemm::{}& strata_batch)
      : strata_unused(0){} {{}}
)",
                                members.declared, v.hopper ? "TileBatch" : "BatchIndex", members.initializers);
  if (v.hopper)
    out += fmt::format(R"(  __device__ __forceinline__ void ahead(const strata::gemm::Piece& strata_at) {{{} }}
  __device__ __forceinline__ void begin(const strata::gemm::Piece& strata_at, unsigned strata_rows) {{{} }}
  __device__ __forceinline__ void columns(unsigned strata_address) {{{} }}
)",
                       members.ahead, members.begin, members.columns);
  out += function_of(c, v, members, "first", "epilogue", c.epilogue);
  if (!c.second.empty()) out += function_of(c, v, members, "second", "second epilogue", c.second);
  return out + "};\n";
}

// The matrix instruction of Hopper.
std::string instruction_of(const Config& c, const Variant& v) {
  const int n = v.hopper->shape.n;
  if (!is_in_units(c)) return fmt::format("Wgmma<{}, {}, {}, {}>", n, c.dtype == DType::BF16, v.a_along_k, v.b_along_k);
  const auto name = [](DType t) { return t == DType::F8E4M3 ? "E4M3" : "E5M2"; };
  const std::string format = c.tf32                   ? "TF32"
                             : c.dtype == DType::I8   ? "S8"
                             : v.a_dtype == v.b_dtype ? name(v.a_dtype)
                                                      : fmt::format("{}Times{}", name(v.a_dtype), name(v.b_dtype));
  return fmt::format("WgmmaAlongK<{}, strata::cuda::hopper::KFormat::{}>", n, format);
}

std::string config_source(const Config& c, const Variant& v) {
  const std::string common = fmt::format(
    "struct strata_Config {{\n  typedef {} Element;\n  typedef {} Result;\n  typedef {} Second;\n"
    "  static constexpr bool kAAlongK = {}, kBAlongK = {}, kAmax = {};\n  static constexpr int kResults = {};\n",
    c.tf32 ? "strata::gemm::Tf32" : stored_type(c.dtype), stored_type(*c.out_dtype),
    stored_type(c.second.empty() ? *c.out_dtype : *c.second_dtype), v.a_along_k, v.b_along_k, c.amax,
    c.second.empty() ? 1 : 2);
  if (v.hopper) {
    const cuda::hopper::TileShape& t = v.hopper->shape;
    return common +
           fmt::format(
             "  typedef strata::cuda::hopper::{} Instruction;\n  static constexpr int kColumns = {};\n"
             "  static constexpr strata::cuda::hopper::TileShape kShape = {{{}, {}, {}, {}, {}, {}, {}}};\n}};\n",
             instruction_of(c, v), std::min(t.n, 64), t.m, t.n, t.load_m, t.stages, t.cluster, t.blocks_per_sm,
             t.ping_pong);
  }
  return common +
         fmt::format(R"(  static constexpr int kM = {}, kN = {}, kK = {}, kStages = {}, kWarpsM = {}, kWarpsN = {};
  static constexpr int kAVector = {}, kBVector = {};
}};
)",
                     c.tile[0], c.tile[1], depth_in_units(c), c.stages, c.warps[0], c.warps[1], v.a_vector, v.b_vector);
}

std::string function_source(const Config& c, const Variant& v) {
  if (v.hopper) {
    const cuda::hopper::TileShape& t = v.hopper->shape;
    return fmt::format(R"(extern "C" __global__ void __launch_bounds__({}, {}) __cluster_dims__({}, 1, 1)
{}(const __grid_constant__ strata::gemm::HopperParams strata_p) {{
  strata::gemm::run_hopper<strata_Config, strata_Epilogue>(strata_p);
}}
)",
                       cuda::hopper::kThreads, t.blocks_per_sm, t.cluster, c.name);
  }
  const int threads = is_on_tensor_cores(c) ? c.warps[0] * c.warps[1] * 32 : 256;
  // Two blocks per multiprocessor if its registers hold their sums and about 56 other values per thread.
  const int blocks = 65536 / (2 * threads) >= c.tile[0] * c.tile[1] / threads + 56 ? 2 : 1;
  return fmt::format(R"(extern "C" __global__ void __launch_bounds__({}, {})
{}(const __grid_constant__ strata::gemm::KernelParams strata_p) {{
  extern __shared__ __align__(128) char strata_memory[];
  strata::gemm::run<strata_Config, strata_Epilogue>(strata_p, strata_memory);
}}
)",
                     threads, blocks, c.name);
}
}  // namespace

std::string kernel_source(const Config& c, const std::vector<ExtraUse>& extras, const Variant& v) {
  return fmt::format(
           "#include <math.h>\n#include \"cuda/custom/{}.cuh\"\n#line 1 \"preamble of {}\"\n{}\n#line 1 \"{}.cu\"\n",
           v.hopper ? "gemm_hopper_template" : "gemm_template", c.name, c.preamble, c.name) +
         config_source(c, v) + epilogue_source(c, extras, v) + function_source(c, v);
}

}  // namespace strata::gemm
