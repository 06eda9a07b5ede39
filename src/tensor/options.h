// TensorOptions: dtype, device and requires_grad of a new tensor, in any order, and short names of dtypes and devices.
#pragma once
#include <optional>

#include "tensor/device.h"
#include "tensor/dtype.h"

namespace strata {

// zeros({2, 3}, dtype(kInt64).device("cuda")). What is not given has the default of the function that takes them.
class TensorOptions {
 public:
  TensorOptions() = default;
  explicit TensorOptions(DType dtype) : dtype_(dtype) {}  // explicit: zeros({2}, kInt64) takes the dtype itself
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType device) : device_(Device(device)) {}
  TensorOptions(const char* device) : device_(Device(device)) {}

  [[nodiscard]] TensorOptions dtype(std::optional<DType> dtype) const {
    TensorOptions changed = *this;
    changed.dtype_ = dtype;
    return changed;
  }
  [[nodiscard]] TensorOptions device(std::optional<Device> device) const {
    TensorOptions changed = *this;
    changed.device_ = device;
    return changed;
  }
  [[nodiscard]] TensorOptions device(DeviceType type, int64_t index) const {
    return device(Device(type, device_index(index)));
  }
  [[nodiscard]] TensorOptions requires_grad(bool on) const {
    TensorOptions changed = *this;
    changed.requires_grad_ = on;
    return changed;
  }

  std::optional<DType> dtype() const { return dtype_; }
  std::optional<Device> device() const { return device_; }
  bool requires_grad() const { return requires_grad_; }

 private:
  std::optional<DType> dtype_;
  std::optional<Device> device_;
  bool requires_grad_ = false;
};

inline TensorOptions dtype(DType dtype) { return TensorOptions(dtype); }
inline TensorOptions device(Device device) { return {device}; }
inline TensorOptions device(DeviceType type, int64_t index) { return TensorOptions().device(type, index); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

// Other names of the dtypes.
inline constexpr DType kByte = kUInt8, kChar = kInt8, kShort = kInt16, kInt = kInt32, kLong = kInt64;
inline constexpr DType kHalf = kFloat16, kFloat = kFloat32, kDouble = kFloat64;
inline constexpr DType kFloat8_e4m3fn = kFloat8E4M3, kFloat8_e5m2 = kFloat8E5M2;

inline constexpr DeviceType kCPU = DeviceType::Cpu, kCUDA = DeviceType::Cuda, kVGPU = DeviceType::Vgpu,
                            kMeta = DeviceType::Meta;

}  // namespace strata
