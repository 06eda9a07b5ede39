// Pickles, read without running them: an interpreter of the few opcodes that build data. What would call or import anything
// else is refused by its name.
#pragma once
#include "nn/files/tree.h"

namespace strata::files {

// What the pickle's persistent ids stand for: the memory behind tensors.
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  virtual Ref<Storage> storage(const std::string& key, uint64_t bytes) = 0;
};

// `budget`: how much memory the result may take, tensors' data not counted.
STRATA_API Tree read_pickle(Bytes pickle, const std::string& file, StorageSource& storages, size_t budget);

}  // namespace strata::files
