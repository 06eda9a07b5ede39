// Shared parts of all losses: reduction of the loss per element.
#pragma once
#include <fmt/core.h>

#include "strata/ops.h"

namespace strata {

enum class LossReduction : uint8_t { None, Mean, Sum, BatchMean };

// `size_average` and `reduce` are PyTorch's deprecated arguments and take precedence if given.
inline LossReduction reduction_of(const char* op, std::optional<bool> size_average, std::optional<bool> reduce,
                                  std::string_view name) {
  if (size_average || reduce)
    return !reduce.value_or(true)        ? LossReduction::None
           : size_average.value_or(true) ? LossReduction::Mean
                                         : LossReduction::Sum;
  if (name == "none") return LossReduction::None;
  if (name == "mean" || name == "elementwise_mean") return LossReduction::Mean;
  if (name == "sum") return LossReduction::Sum;
  if (name == "batchmean") return LossReduction::BatchMean;
  fail(ErrorKind::Value,
       fmt::format("{}: {} is not a valid value for reduction; use 'none', 'mean' or 'sum'", op, name));
}
inline const char* name_of(LossReduction r) {  // of those that losses over classes have
  return r == LossReduction::None ? "none" : r == LossReduction::Mean ? "mean" : "sum";
}
inline Tensor reduced(const Tensor& loss, LossReduction reduction) {
  if (reduction == LossReduction::None) return loss;
  return reduction == LossReduction::Mean ? mean(loss) : sum(loss);
}

// Losses over classes: checks the shapes and dtypes of an input [n, c, ...], its class indices and the classes' weights.
void check_nll(const TensorImpl& x, const TensorImpl& t, const Value& weight);
// The class, which must exist.
int64_t checked_class(int64_t t, int64_t classes);

}  // namespace strata
