// Fuzz target: safetensors files, with the structure that save() puts among the metadata.
#include "files/safetensors.h"

#include "nn/files/tree.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  fuzz::expect_typed_errors([&] {
    SafeTensors contents = files::read_safetensors(FileBytes::copy(fuzz::bytes_of(data, size), "fuzz"));
    uint64_t bytes = 0;
    for (const auto& [name, t] : contents.tensors) {
      for (size_t i = 0; i < static_cast<size_t>(t.numel()) * size_of(t.dtype()); ++i)
        bytes += std::to_integer<uint64_t>(t.bytes()[i]) < 256;
      if (name.size() > size) __builtin_trap();
    }
    if (bytes > size) __builtin_trap();  // every byte belongs to one tensor
    files::to_tree(std::move(contents), "fuzz");
  });
  return 0;
}
