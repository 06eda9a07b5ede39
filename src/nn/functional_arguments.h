// Functions of nn::functional for the argument types of modules, shared by generated sources.
#pragma once
#include "nn/functional.h"
#include "strata/ops.h"

namespace strata::nn {
namespace functional {

// Templates, so that plain lists and strings still resolve to the ops themselves.
#define STRATA_CONV(name)                                                                                 \
  template <size_t n>                                                                                     \
  Tensor name(const Tensor& input, const Tensor& weight, const Tensor& bias, const Ints<n>& stride,       \
              const Padding<n>& padding, const Ints<n>& dilation, int64_t groups) {                       \
    if (!padding.word.empty())                                                                            \
      return strata::name(input, weight, bias, stride, std::string_view(padding.word), dilation, groups); \
    return strata::name(input, weight, bias, stride, IntList(padding.amounts), dilation, groups);         \
  }
STRATA_CONV(conv1d)
STRATA_CONV(conv2d)
STRATA_CONV(conv3d)
#undef STRATA_CONV

// Pools whose output sizes may be taken from the input.
#define STRATA_ADAPTIVE(n)                                                                                      \
  inline Tensor adaptive_avg_pool##n##d(const Tensor& input, const KeepArg& size) {                             \
    return functional::adaptive_avg_pool##n##d(input, detail::keep_sizes(input, size, n));                      \
  }                                                                                                             \
  inline std::array<Tensor, 2> adaptive_max_pool##n##d_with_indices(const Tensor& input, const KeepArg& size) { \
    return functional::adaptive_max_pool##n##d_with_indices(input, detail::keep_sizes(input, size, n));         \
  }
STRATA_ADAPTIVE(1)
STRATA_ADAPTIVE(2)
STRATA_ADAPTIVE(3)
#undef STRATA_ADAPTIVE

}  // namespace functional

namespace detail {

template <size_t n> std::vector<Tensor> listed(const std::array<Tensor, n>& a) { return {a.begin(), a.end()}; }
template <size_t n> std::array<Tensor, n> unlisted(const std::vector<Tensor>& list) {
  std::array<Tensor, n> a;
  std::copy_n(list.begin(), n, a.begin());
  return a;
}

}  // namespace detail
}  // namespace strata::nn
