#include "cuda/custom/reduction_source.h"

#include <fmt/core.h>

#include "base/error.h"

namespace strata::cuda {
namespace {

// Adds the offset of an index to the offsets of the tensors. The last dimension needs no remainder.
std::string located(const std::string& index, const std::string& kind, const std::string& steps,
                    const std::string& last) {
  return fmt::format(
    "    strata_index strata_rest = {0};\n"
    "    for (int strata_d = 0; strata_d + 1 < strata_layout.{1}_dims; ++strata_d) {{\n"
    "      const strata_index strata_size = strata_layout.{1}_size[strata_d];\n"
    "      const long long strata_at = strata_rest % strata_size;\n"
    "      strata_rest /= strata_size;\n{2}    }}\n"
    "    if (strata_layout.{1}_dims > 0) {{\n"
    "      const int strata_d = strata_layout.{1}_dims - 1;\n"
    "      const long long strata_at = strata_rest;\n{3}    }}\n",
    index, kind, steps, last);
}

// A block has `threads` threads for each of its results; thread strata_y combines every threads-th element, beginning
// with its own, four at a time so that their loads overlap. Then the threads are combined pairwise. Threads without an
// element take no part, so that the identity is not needed.
constexpr const char* kBegin = R"(  __shared__ strata_value strata_shared[STRATA_THREADS];
  const int strata_own = strata_layout.threads, strata_results = STRATA_THREADS / strata_own;
  const bool strata_rows = strata_layout.rows;
  const int strata_x = strata_rows ? threadIdx.x / strata_own : threadIdx.x % strata_results;
  const int strata_y = strata_rows ? threadIdx.x % strata_own : threadIdx.x / strata_results;
  const strata_index strata_k = (strata_index)blockIdx.x * strata_results + strata_x;
  const strata_index strata_begin = (strata_index)blockIdx.y * strata_layout.chunk;
  const strata_index strata_left = strata_layout.gone - strata_begin;
  const strata_index strata_count = strata_left < strata_layout.chunk ? strata_left : strata_layout.chunk;
  const bool strata_inside = strata_k < strata_layout.kept;
  const long long n = strata_layout.elements;
  strata_value strata_sum{};
)";
constexpr const char* kCombine = R"(  const bool strata_in_warp = strata_rows && strata_own <= 32;
  strata_shared[threadIdx.x] = strata_sum;
  strata_in_warp ? __syncwarp() : __syncthreads();
  for (int strata_half = strata_own / 2; strata_half > 0; strata_half /= 2) {
    if (strata_y < strata_half && strata_y + strata_half < strata_count)
      strata_shared[threadIdx.x] = strata_combine(
        strata_shared[threadIdx.x], strata_shared[threadIdx.x + (strata_rows ? strata_half : strata_half * strata_results)]);
    strata_in_warp ? __syncwarp() : __syncthreads();
  }
  if (strata_y != 0 || !strata_inside) return;
)";

// Combines the elements of a thread; `element` is the body of a function of strata_i that returns one.
std::string loop(const std::string& base, const std::string& element) {
  return "  if (strata_inside) {\n" + base +
         "  const auto strata_element = [&](const strata_index strata_i) -> strata_value {\n" + element + "  };\n" +
         R"(  strata_index strata_i = strata_begin + strata_y;
  const strata_index strata_end = strata_begin + strata_count;
  if (strata_i < strata_end) strata_sum = strata_element(strata_i);
  for (strata_i += strata_own; strata_i + 3 * strata_own < strata_end; strata_i += 4 * strata_own) {
    const strata_value strata_a = strata_element(strata_i), strata_b = strata_element(strata_i + strata_own);
    const strata_value strata_c = strata_element(strata_i + 2 * strata_own);
    const strata_value strata_d = strata_element(strata_i + 3 * strata_own);
    strata_sum = strata_combine(
      strata_sum, strata_combine(strata_combine(strata_a, strata_b), strata_combine(strata_c, strata_d)));
  }
  for (; strata_i < strata_end; strata_i += strata_own)
    strata_sum = strata_combine(strata_sum, strata_element(strata_i));
  }
)";
}

std::string expression(const std::string& name, const char* what, const std::string& text) {
  return fmt::format("(strata_value)(\n#line 1 \"{}: {}\"\n{}\n)", name, what, text);
}
}  // namespace

std::string reduction_source(const std::string& name, std::span<const ElementwiseSlot> inputs,
                             std::span<const ElementwiseSlot> outputs, const ReductionFormulas& formulas, DType type,
                             bool wide) {
  std::string numbers_and_inputs, bases, base_steps, offsets, offset_steps, loads;
  size_t tensors = 0;
  const auto step = [&](const std::string& variable, const char* kind, size_t which) {
    return fmt::format("      {} += strata_at * strata_layout.{}_stride[{}][strata_d];\n", variable, kind, which);
  };
  for (const ElementwiseSlot& s : inputs) {
    const std::string& x = s.parameter->name;
    if (s.is_number) {
      numbers_and_inputs += fmt::format("const {} strata_v_{}, ", c_type(s.type, false), x);
    } else {
      numbers_and_inputs += fmt::format("const {}* strata_p_{}, ", c_type(s.stored, true), x);
      bases += fmt::format("    long long strata_b_{} = 0;\n", x);
      base_steps += step("strata_b_" + x, "kept", tensors);
      offsets += fmt::format("    long long strata_o_{0} = strata_b_{0};\n", x);
      offset_steps += step("strata_o_" + x, "gone", tensors++);
    }
    loads += declared(s, fmt::format("strata_p_{0}[strata_o_{0}]", x));
  }
  std::string results, result_offsets, result_steps, variables, stores;
  for (const ElementwiseSlot& s : outputs) {
    const std::string& y = s.parameter->name;
    results += fmt::format("{}* strata_p_{}, ", c_type(s.stored, true), y);
    result_offsets += fmt::format("    long long strata_o_{} = 0;\n", y);
    result_steps += step("strata_o_" + y, "kept", tensors++);
    variables += fmt::format("    {} {}{{}};\n", c_type(s.type, false), y);
    stores += fmt::format("    strata_store(strata_p_{0}[strata_o_{0}], {0});\n", y);
  }
  const std::string start = bases + located("strata_k", "kept", base_steps, base_steps);
  const std::string map = offsets + "    {\n" + located("strata_i", "gone", offset_steps, offset_steps) + "    }\n" +
                          loads + "    const long long i = strata_i;\n    return " +
                          expression(name, "map_expr", formulas.map) + ";\n";
  const std::string reduced =
    formulas.identity ? "n == 0 ? " + expression(name, "identity", *formulas.identity) + " : " : std::string();
  const std::string finish = fmt::format(
    "{}{}    const strata_value a = {}strata_shared[threadIdx.x];\n{}    {{\n#line 1 \"{}: post_map_expr\"\n{}\n;\n    "
    "}}\n{}",
    result_offsets, located("strata_k", "kept", result_steps, result_steps), reduced, variables, name, formulas.post,
    stores);
  const std::string layout = fmt::format(
    "struct strata_Layout {{\n  long long kept, gone, elements, chunk, threads, rows, kept_dims, gone_dims, "
    "kept_size[{0}], gone_size[{0}], kept_stride[{1}][{0}], gone_stride[{1}][{0}];\n}};\n",
    kAxesMost, tensors);
  const std::string partial = "    strata_partials[blockIdx.y * (strata_index)strata_layout.kept + strata_k]";
  return fmt::format("#define STRATA_THREADS {}\n{}{}typedef {} strata_index;\ntypedef {} strata_value;\n{}",
                     kReductionThreads, kernel_prelude(), placeholder_types(inputs, outputs),
                     wide ? "unsigned long long" : "unsigned", c_type(type, false), layout) +
         "__device__ __forceinline__ strata_value strata_combine(const strata_value a, const strata_value b) {\n"
         "  return " +
         expression(name, "reduce_expr", formulas.reduce) + ";\n}\n" +
         fmt::format(
           "extern \"C\" __global__ void {}({}{}strata_value* strata_partials, const strata_Layout "
           "strata_layout) {{\n",
           name, numbers_and_inputs, results) +
         kBegin + loop(start, map) + kCombine + "  if (gridDim.y > 1) {\n" + partial +
         " = strata_shared[threadIdx.x];\n    return;\n  }\n" + finish + "}\n" +
         fmt::format(
           "extern \"C\" __global__ void {}_partials({}const strata_value* strata_partials, const strata_Layout "
           "strata_layout) {{\n",
           name, results) +
         kBegin + loop("", "    return strata_partials[strata_i * (strata_index)strata_layout.kept + strata_k];\n") +
         kCombine + finish + "}\n";
}

}  // namespace strata::cuda
