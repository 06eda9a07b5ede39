#include "strata/strata.h"

#include "tensor/dlpack.h"
#include "tests/expect_error.h"

namespace strata {
namespace {
using namespace dlpack;  // NOLINT(google-build-using-namespace): the subject of this file

TEST(DLPack, RoundTripSharesMemoryForEveryDtype) {
  for (DType dtype : {DType::Bool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor a = transpose(full({2, 3}, 1, dtype), 0, 1);
    const Tensor b = import_tensor(export_tensor(a));
    EXPECT_EQ(b.dtype(), dtype);
    EXPECT_EQ(b.bytes(), a.bytes());
    EXPECT_TRUE(a->same_shape(*b));
    EXPECT_EQ(b.strides()[0], 1);
    EXPECT_EQ(b.strides()[1], 3);
  }
}

TEST(DLPack, TheReceiverKeepsTheMemoryAlive) {
  const size_t before = memory_stats().allocated_bytes;
  DLManagedTensor* managed = export_tensor(full({1000}, 5.0));
  EXPECT_EQ(memory_stats().allocated_bytes, before + 4000);
  {
    const Tensor t = import_tensor(managed);
    EXPECT_EQ(sum(t).item<double>(), 5000.0);
  }
  EXPECT_EQ(memory_stats().allocated_bytes, before);
}

struct Foreign {  // a foreign array, with a deleter that counts
  float values[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 2}, strides[2] = {3, 1};
  int deleted = 0;
  DLManagedTensor managed{{values, {kCpuDevice, 0}, 2, {TypeCode::kFloat, 32, 1}, shape, strides, 4},
                          this,
                          [](DLManagedTensor* m) { ++static_cast<Foreign*>(m->manager_ctx)->deleted; }};
};

TEST(DLPack, ImportsStridesAndOffsets) {
  Foreign f;
  {
    const Tensor t = import_tensor(&f.managed);
    EXPECT_EQ(sum(t).item<double>(), 2 + 3 + 5 + 6);
    EXPECT_FALSE(t.is_contiguous());
    add_(t, 10);
    EXPECT_EQ(f.values[1], 12.F);
    EXPECT_EQ(f.values[3], 4.F);
    EXPECT_EQ(f.deleted, 0);
  }
  EXPECT_EQ(f.deleted, 1);
  f.managed.dl_tensor.strides = nullptr;
  EXPECT_TRUE(import_tensor(&f.managed).is_contiguous());
}

TEST(DLPack, RefusedArraysStayWithTheirOwner) {
  Foreign f;
  f.managed.dl_tensor.dtype = {TypeCode::kFloat, 128, 1};
  EXPECT_ERROR(Type, "code 2, 128 bits and 1 lanes", import_tensor(&f.managed));
  f.managed.dl_tensor.dtype = {TypeCode::kFloat, 32, 4};
  EXPECT_ERROR(Type, "4 lanes", import_tensor(&f.managed));
  f.managed.dl_tensor.dtype.lanes = 1;
  f.managed.dl_tensor.device.device_type = kCudaDevice;
  EXPECT_ERROR(Runtime, "device type 2", import_tensor(&f.managed));
  f.managed.dl_tensor.device.device_type = kCpuDevice;
  for (int32_t ndim : {-1, 65, INT32_MIN}) {
    f.managed.dl_tensor.ndim = ndim;
    EXPECT_ERROR(Runtime, "dimensions", import_tensor(&f.managed));
  }
  f.managed.dl_tensor.ndim = 2;
  f.shape[0] = f.shape[1] = int64_t{1} << 32;
  EXPECT_ERROR(Runtime, "more elements than can be addressed", import_tensor(&f.managed));
  f.shape[0] = -1;
  EXPECT_ERROR(Runtime, "a size cannot be negative", import_tensor(&f.managed));
  EXPECT_EQ(f.deleted, 0);
}

TEST(DLPack, ExportRefusesWhatCannotBeShared) {
  EXPECT_ERROR(Runtime, "require gradient", export_tensor(ones({2}).set_requires_grad()));
  EXPECT_ERROR(Type, "DLPack has no code for float8_e4m3fn", export_tensor(to(ones({2}), kFloat8E4M3)));
}

}  // namespace
}  // namespace strata
