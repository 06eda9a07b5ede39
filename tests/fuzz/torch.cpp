// Fuzz target: checkpoints of torch.save as a whole and, since a zip's checksums hide it from mutations, the pickle alone.
#include "nn/files/torch_file.h"

#include "nn/files/pickle.h"
#include "tests/fuzz/target.h"

namespace {
using namespace strata;  // NOLINT(google-build-using-namespace): a program of its own

struct Zeros : files::StorageSource {
  Ref<Storage> storage(const std::string& key, uint64_t bytes) override {
    STRATA_CHECK(bytes <= 4096, Runtime, "storage '{}' is too large", key);
    Ref<Storage> s = allocate(bytes);
    std::fill_n(s->data, bytes, std::byte{0});
    return s;
  }
};

// Reads the corners of every tensor: they must be inside its storage.
void touch(const Tree& tree) {
  if (const auto* t = tree.get<Tensor>()) {
    if (t->numel() == 0) return;
    int64_t last = 0;
    for (int d = 0; d < t->dim(); ++d) last += (t->size(d) - 1) * t->strides()[static_cast<size_t>(d)];
    const auto item = static_cast<int64_t>(size_of(t->dtype()));
    const volatile std::byte first = t->bytes()[0], end = t->bytes()[(last + 1) * item - 1];
    (void)first;
    (void)end;
  } else if (const auto* list = tree.get<TreeList>()) {
    for (const Tree& item : list->items) touch(item);
  } else if (const auto* dict = tree.get<TreeDict>()) {
    for (const Tree& value : dict->values) touch(value);
  }
}
}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::expect_typed_errors([&] {
    const Bytes bytes = fuzz::bytes_of(data, size);
    if (files::is_zip(bytes)) return touch(files::read_torch(FileBytes::copy(bytes, "fuzz")));
    Zeros zeros;
    touch(files::read_pickle(bytes, "fuzz", zeros, size + (16 << 20)));
  });
  return 0;
}
