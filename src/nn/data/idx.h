// IDX, the format of the MNIST files: magic, sizes, then the elements in big-endian order.
#pragma once
#include <string>

#include "base/file.h"
#include "tensor/tensor.h"

namespace strata::data {

// A tensor of the file's shape and dtype (uint8, int8, int16, int32, float32, float64). The file may be compressed with
// gzip. Everything is checked before memory is allocated; errors throw Runtime and name the file and the field.
STRATA_API Tensor read_idx(const std::string& path);
STRATA_API Tensor read_idx(Bytes bytes, const std::string& name);  // of a file in memory; `name` is for messages

}  // namespace strata::data
