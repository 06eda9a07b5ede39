// DLPack: the exchange format between array libraries (ABI of https://dmlc.github.io/dlpack, version 0 and 1).
#pragma once
#include <cstdint>

#include "tensor/tensor.h"

namespace strata::dlpack {

enum DeviceCode : int32_t { kCpuDevice = 1, kCudaDevice = 2 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct DLDevice {
  int32_t device_type, device_id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

STRATA_API DLManagedTensor* export_tensor(const Tensor& t);  // shares the memory; the receiver calls deleter
STRATA_API Tensor import_tensor(DLManagedTensor* managed);   // takes ownership of `managed`

}  // namespace strata::dlpack
