// Reads pickles without running them: an interpreter of the few opcodes that build data. Everything that would call or
// import something else is rejected by name.
#pragma once
#include "nn/files/tree.h"

namespace strata::files {

// Resolves the pickle's persistent ids: the memory of tensors.
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  virtual Ref<Storage> storage(const std::string& key, uint64_t bytes) = 0;
};

// `budget`: memory limit of the result, without the tensors' data.
STRATA_API Tree read_pickle(Bytes pickle, const std::string& file, StorageSource& storages, size_t budget);

}  // namespace strata::files
