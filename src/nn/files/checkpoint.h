// Saving and loading: safetensors both ways.
#pragma once
#include "nn/files/safetensors.h"

namespace strata {

// Writes named tensors as a safetensors file, whole or not at all: whatever goes wrong, whenever the process is killed, the
// path names the old file or the new one. A full disk and the like throw Io.
STRATA_API void save(const std::string& path, const TensorDict& tensors, const Metadata& metadata = {});

// Reads it back without copying: memory is that of the file until it is written to.
STRATA_API SafeTensors load(const std::string& path);

}  // namespace strata
