// safetensors: eight bytes of header length, a JSON header with dtype, shape and offsets of each tensor, then their
// bytes.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace strata {

using TensorDict = std::vector<std::pair<std::string, Tensor>>;  // in order, names unique
using Metadata = std::map<std::string, std::string>;

// The contents of a file. Writing to a tensor does not change the file.
struct STRATA_API SafeTensors {
  TensorDict tensors;
  Metadata metadata;
};

namespace files {

// Errors in the file throw Runtime with its name and the field.
STRATA_API SafeTensors read_safetensors(const std::shared_ptr<FileBytes>& file);

// Writes the bytes of a file with these contents, piece by piece. Strided tensors are written in row-major order.
class STRATA_API SafeTensorsWriter {
 public:
  SafeTensorsWriter(const TensorDict& tensors, const Metadata& metadata);
  size_t size() const { return header_.size() + data_size_; }
  template <class Sink> void write(Sink&& sink) const {  // sink(Bytes)
    sink(std::as_bytes(std::span(header_)));
    for (const Tensor& t : order_) {
      const Tensor dense = row_major(t);
      sink(Bytes(dense.bytes(), static_cast<size_t>(dense.numel()) * size_of(dense.dtype())));
    }
  }

 private:
  static Tensor row_major(const Tensor& t);
  std::string header_;
  std::vector<Tensor> order_;
  size_t data_size_ = 0;
};

}  // namespace files
}  // namespace strata
