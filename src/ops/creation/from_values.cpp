#include "ops/creation/from_values.h"

#include <cstring>

#include "base/checked.h"
#include "strata/ops/movement/copy.h"

namespace strata {
namespace {

DType default_of(const std::vector<Scalar>& values) {
  bool floats = values.empty(), integers = false;
  for (const Scalar& v : values) {
    floats |= v.is_float();
    integers |= v.kind == Scalar::Kind::Int;
  }
  return floats ? default_dtype() : integers ? DType::I64 : DType::Bool;
}

// The dtype and device of the options, and requires_grad.
Tensor finish(const Tensor& made, DType dtype, const TensorOptions& options) {
  Tensor result = to(made, options.device(), dtype);
  if (options.requires_grad()) result.set_requires_grad();
  return result;
}

// What from_blob returned, and the user's deleter.
struct Blob {
  void* data;
  std::function<void(void*)> deleter;
};

}  // namespace

TensorValues::TensorValues(std::initializer_list<TensorValues> rows) {
  shape_.push_back(static_cast<int64_t>(rows.size()));
  if (rows.size() == 0) return;
  const std::vector<int64_t>& first = rows.begin()->shape_;
  for (const TensorValues& row : rows) {
    STRATA_CHECK(row.shape_ == first, Value,
                 "tensor: the lists of one level must have the same length, found shapes {} and {}", to_string(first),
                 to_string(row.shape_));
    values_.insert(values_.end(), row.values_.begin(), row.values_.end());
  }
  shape_.insert(shape_.end(), first.begin(), first.end());
}

Tensor tensor(const TensorValues& values, const TensorOptions& options) {
  const DType dtype = options.dtype().value_or(default_of(values.values()));
  const bool exact = is_floating(dtype) || is_complex(dtype);  // otherwise integers, which a double may not hold
  const Tensor host = make_tensor(values.shape(), exact ? DType::F64 : DType::I64);
  int64_t i = 0;
  for (const Scalar& v : values.values()) {
    if (exact) host.data<double>()[i] = v.to_double();
    else host.data<int64_t>()[i] = dtype == DType::Bool ? v.to_double() != 0 : v.to_int();
    ++i;
  }
  return finish(host, dtype, options);
}

Tensor tensor_from_memory(const void* data, int64_t count, DType from, const TensorOptions& options) {
  const Tensor host = make_tensor({&count, 1}, from);
  if (count > 0) std::memcpy(host.bytes(), data, host.nbytes());
  const DType natural = is_floating(from) ? default_dtype() : from == DType::Bool ? from : DType::I64;
  return finish(host, options.dtype().value_or(natural), options);
}

Tensor from_blob(void* data, IntList sizes, IntList strides, std::function<void(void*)> deleter,
                 const TensorOptions& options) {
  STRATA_CHECK(!options.device() || options.device()->type == DeviceType::Cpu, Value,
               "from_blob: the memory is the host's, but device '{}' was asked for; copy the result with to()",
               to_string(*options.device()));
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = options.dtype().value_or(default_dtype());
  t->set_shape(sizes);
  t->set_contiguous_strides();
  Checked last = 0;
  if (strides.size) {
    STRATA_CHECK(strides.size == sizes.size, Value, "from_blob: {} sizes and {} strides", sizes.size, strides.size);
    for (size_t d = 0; d < strides.size; ++d) {
      STRATA_CHECK(strides[d] >= 0, Value, "from_blob: stride {} of dimension {} is negative", strides[d], d);
      t->strides[d] = strides[d];
    }
    t->update_contiguous();
  }
  for (int d = 0; d < t->ndim; ++d) last = last + Checked(std::max<int64_t>(t->shape[d] - 1, 0)) * t->strides[d];
  STRATA_CHECK(t->numel == 0 || data, Value, "from_blob: {} elements at a null pointer", t->numel);
  STRATA_CHECK(reinterpret_cast<uintptr_t>(data) % size_of(t->dtype) == 0, Value,
               "from_blob: the address is not aligned to elements of {}", name_of(t->dtype));
  const int64_t elements = t->numel ? (last + 1).get() : 0;
  t->storage = adopt_memory(
    data, static_cast<size_t>((Checked(elements) * static_cast<int64_t>(size_of(t->dtype))).get()),
    [](void* p) {
      const std::unique_ptr<Blob> blob(static_cast<Blob*>(p));
      if (blob->deleter) blob->deleter(blob->data);
    },
    new Blob{data, std::move(deleter)});
  t->data = static_cast<std::byte*>(data);
  t->storage->shared = true;
  if (options.requires_grad()) t.set_requires_grad();
  return t;
}

}  // namespace strata
