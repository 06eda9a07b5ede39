// Checkpoints of torch.save: a zip archive with data.pkl and one member per storage.
#pragma once
#include "nn/files/tree.h"

namespace strata::files {

STRATA_API Tree read_torch(const std::shared_ptr<FileBytes>& file);
STRATA_API bool is_zip(Bytes file);
STRATA_API bool is_bare_pickle(Bytes file);  // PyTorch's format before version 1.6, or another program's

}  // namespace strata::files
