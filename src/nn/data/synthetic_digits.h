// Synthetic digits, drawn by distorted strokes: a set of the size and form of MNIST that needs no files.
#pragma once
#include <cstdint>

#include "nn/data/image_sets.h"

namespace strata::data {

// n images of 28 x 28. Image i depends on the seed and on first + i only: the same for any number of threads, and
// consecutive ranges fit together.
STRATA_API ImageSet draw_digits(int64_t first, int64_t n, uint64_t seed);

// 60,000 to train on, or 10,000 others to test with.
STRATA_API ImageSet synthetic_digits(bool train, uint64_t seed = 0);

}  // namespace strata::data
