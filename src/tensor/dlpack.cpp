#include "tensor/dlpack.h"

#include <fmt/core.h>

#include <algorithm>

namespace strata::dlpack {
namespace {

struct Exported {
  DLManagedTensor managed;
  Tensor tensor;
  int64_t shape[kMaxDims], strides[kMaxDims];
};

DLDataType code_of(DType t) {
  STRATA_CHECK(!kFloat8Types.has(t), Type, "DLPack has no code for {}; convert with .to() first", name_of(t));
  const auto bits = static_cast<uint8_t>(8 * size_of(t));
  const uint8_t code = t == DType::Bool   ? kBool
                       : t == DType::BF16 ? kBfloat
                       : is_complex(t)    ? kComplex
                       : is_floating(t)   ? kFloat
                       : is_signed(t)     ? kInt
                                          : kUInt;
  return {code, bits, 1};
}

DType dtype_of_code(DLDataType t) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto candidate = static_cast<DType>(i);
    if (kFloat8Types.has(candidate)) continue;
    const DLDataType code = code_of(candidate);
    if (code.code == t.code && code.bits == t.bits && t.lanes == 1) return candidate;
  }
  fail(ErrorKind::Type, fmt::format("from_dlpack: element type with code {}, {} bits and {} lanes is not supported",
                                    t.code, t.bits, t.lanes));
}
}  // namespace

DLManagedTensor* export_tensor(const Tensor& t) {
  STRATA_CHECK(!t.requires_grad(), Runtime, "Can't export tensors that require gradient, use tensor.detach()");
  require_host(*t, "a DLPack capsule");
  STRATA_CHECK(!t->storage || !t->storage->read_only, Runtime,
               "a DLPack capsule cannot say that its memory is read-only; clone() the tensor first");
  const DLDataType type = code_of(t.dtype());
  need_values(t->storage.get(), "dlpack");
  if (t->storage) t->storage->shared = true;
  auto* e = new Exported{{}, alias(*t), {}, {}};  // keeps this memory, even if the tensor is changed later
  for (int d = 0; d < t.dim(); ++d) {
    e->shape[d] = t->shape[d];
    e->strides[d] = t->strides[d];
  }
  e->managed.dl_tensor = {t.bytes(), {kCpuDevice, 0}, t.dim(), type, e->shape, e->strides, 0};
  e->managed.manager_ctx = e;
  e->managed.deleter = [](DLManagedTensor* m) { delete static_cast<Exported*>(m->manager_ctx); };
  return &e->managed;
}

Tensor import_tensor(DLManagedTensor* managed) {
  STRATA_CHECK(managed, Value, "from_dlpack: the pointer is null");
  const DLTensor& from = managed->dl_tensor;
  STRATA_CHECK(from.device.device_type == kCpuDevice, Runtime,
               "from_dlpack: the array is on device type {}; only CPU memory can be shared by this build",
               from.device.device_type);
  STRATA_CHECK(from.ndim >= 0 && from.ndim <= kMaxDims, Runtime,
               "from_dlpack: the array has {} dimensions; a tensor has at most {}", from.ndim, kMaxDims);
  STRATA_CHECK(from.ndim == 0 || from.shape, Runtime, "from_dlpack: the array has {} dimensions and no shape",
               from.ndim);
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = dtype_of_code(from.dtype);
  t->set_shape(Shape(from.shape, static_cast<size_t>(from.ndim)));
  if (from.strides) {
    std::copy_n(from.strides, from.ndim, t->strides);
    checked_numel(t.shape());
    t->update_contiguous();
  } else {
    t->set_contiguous_strides();
  }
  int64_t last = 0;  // offset of the last element
  for (int d = 0; d < t->ndim; ++d) {
    STRATA_CHECK(t->strides[d] >= 0, Runtime, "from_dlpack: stride {} of dimension {} is negative; make a copy first",
                 t->strides[d], d);
    last += (t->shape[d] - 1) * t->strides[d];
  }
  auto* data = static_cast<std::byte*>(from.data) + from.byte_offset;
  STRATA_CHECK(t->numel == 0 || from.data, Runtime, "from_dlpack: the array has {} elements and no memory", t->numel);
  STRATA_CHECK(reinterpret_cast<uintptr_t>(data) % size_of(real_type(t->dtype)) == 0, Runtime,
               "from_dlpack: the array's elements are not aligned to their size; make a copy first");
  t->storage = adopt_memory(
    data, t->numel ? static_cast<size_t>(last + 1) * size_of(t->dtype) : 0,
    [](void* p) {
      auto* m = static_cast<DLManagedTensor*>(p);
      if (m->deleter) m->deleter(m);
    },
    managed);
  t->storage->shared = true;  // its producer may write to it at any time
  t->data = data;
  return t;
}

}  // namespace strata::dlpack
