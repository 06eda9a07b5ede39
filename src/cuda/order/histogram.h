// Counts of numbers on a device.
#pragma once
#include "tensor/tensor.h"

namespace strata::cuda {

struct IntegerRange {
  int64_t low, high;
};
IntegerRange integer_range(const TensorImpl& x);  // of integers, at least one; waits for the device

// counts (int64) gets the number of times that each of 0, 1, 2, … occurs; x has no negative number.
void count_integers(const TensorImpl& x, const TensorImpl& counts);
// counts (int64) gets the number of elements of x in equal bins between low and high.
void count_bins(const TensorImpl& x, double low, double high, const TensorImpl& counts);

}  // namespace strata::cuda
