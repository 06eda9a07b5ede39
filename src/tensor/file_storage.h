// Storages over the bytes of a file.
#pragma once
#include <memory>

#include "base/file.h"
#include "tensor/tensor.h"

namespace strata::files {

// The storage of bytes at `offset` of the file, which it keeps alive; a copy if the offset is not aligned.
STRATA_API Ref<Storage> storage_in(const std::shared_ptr<FileBytes>& file, size_t offset, size_t bytes, DType dtype);

}  // namespace strata::files
