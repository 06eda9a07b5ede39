// Devices.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/api.h"

namespace strata {

enum class DeviceType : uint8_t { Cpu, Cuda, Vgpu, Mps, Meta };

struct STRATA_API Device {
  DeviceType type = DeviceType::Cpu;
  int8_t index = -1;  // -1: not given

  constexpr Device() = default;
  constexpr Device(DeviceType device_type, int8_t number = -1) : type(device_type), index(number) {}
  Device(std::string_view name);  // "cpu", "cuda", "cuda:0"; throws Runtime on anything else
  Device(const char* name) : Device(std::string_view(name)) {}
  Device(const std::string& name) : Device(std::string_view(name)) {}

  bool operator==(const Device&) const = default;
};

constexpr int kMaxDeviceIndex = 127;
STRATA_API int8_t device_index(int64_t number);          // throws Runtime outside of [0, kMaxDeviceIndex]
STRATA_API std::string to_string(Device d);              // "cpu", "cuda:0"
STRATA_API Device device_from_name(std::string_view s);  // throws Runtime on anything else
// The device as stored in tensors: with its number, or without for the CPU. Throws if it is not available, with what
// was found and what to do; never falls back to the CPU.
STRATA_API Device require_available(Device d);

}  // namespace strata
