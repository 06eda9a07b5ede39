// Fuzz target: IDX files, packed and not.
#include "nn/data/idx.h"

#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  fuzz::expect_typed_errors([&] {
    const Tensor t = strata::data::read_idx(fuzz::bytes_of(data, size), "fuzz");
    uint64_t sum = 0;  // every element can be read
    for (size_t i = 0; i < static_cast<size_t>(t.numel()) * size_of(t.dtype()); ++i)
      sum += std::to_integer<uint64_t>(t.bytes()[i]);
    if (sum > 0 && t.numel() == 0) __builtin_trap();
  });
  return 0;
}
