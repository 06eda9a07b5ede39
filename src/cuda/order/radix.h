// Radix sorts of contiguous lines.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

struct RadixSort {
  int64_t lines, n;  // of x
  int64_t keep;      // elements of each line that are written: [lines][keep]
  bool descending = false;
  int bits = 0;                         // keys are unsigned and below 2^bits; 0: compare elements of x's dtype
  const TensorImpl* payload = nullptr;  // numbers of 4 bytes to sort along, instead of the positions in the lines
};
// Writes the sorted elements and their positions (int64), or the payload (4 bytes); either may be null. Positions of 4
// bytes are those in all of x.
void radix_sort(const RadixSort& s, const TensorImpl& x, const TensorImpl* values, const TensorImpl* indices,
                Workspace& workspace);

}  // namespace strata::cuda
