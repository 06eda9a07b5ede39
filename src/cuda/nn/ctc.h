// Connectionist temporal classification on a device. Tensors are contiguous; targets are int64.
#pragma once
#include <span>

#include "record/kernel.h"

namespace strata::cuda {

// log_probs [steps, n, classes], float or double; labels of sequence i begin at starts[i]. Returns a label that is out
// of range, if there is one.
std::optional<int64_t> ctc_loss(const TensorImpl& log_probs, const TensorImpl& targets, std::span<const int64_t> starts,
                                IntList input_lengths, IntList target_lengths, int64_t blank, bool zero_infinity,
                                const TensorImpl& loss, const TensorImpl& grad, Workspace& workspace);

}  // namespace strata::cuda
