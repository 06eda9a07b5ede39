#include "tensor/device.h"

#include <fmt/core.h>

#include <charconv>

#include "base/error.h"
#include "tensor/device_hooks.h"

namespace strata {
static constexpr const char* kNames[] = {"cpu", "cuda", "vgpu", "mps", "meta"};

int8_t device_index(int64_t number) {
  STRATA_CHECK(number >= 0 && number <= kMaxDeviceIndex, Runtime,
               "device number {} is out of range; expected 0 to {}, fewer than there are devices", number,
               kMaxDeviceIndex);
  return static_cast<int8_t>(number);
}

std::string to_string(Device d) {
  const char* name = kNames[static_cast<int>(d.type)];
  return d.index < 0 ? name : fmt::format("{}:{}", name, d.index);
}

Device device_from_name(std::string_view s) {
  const std::string_view name = s.substr(0, s.find(':'));
  for (int i = 0; i < 5; ++i) {
    if (name != kNames[i]) continue;
    Device d{static_cast<DeviceType>(i), -1};
    if (name.size() == s.size()) return d;
    const std::string_view digits = s.substr(name.size() + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), d.index);
    STRATA_CHECK(error == std::errc() && end == digits.data() + digits.size() && d.index >= 0, Runtime,
                 "invalid device '{}': after ':' comes a device number, as in '{}:0'", s, name);
    return d;
  }
  fail(ErrorKind::Runtime,
       fmt::format("invalid device '{}'; expected cpu, cuda, vgpu, mps or meta, with an optional number as in 'cuda:0'",
                   s));
}

Device::Device(std::string_view name) : Device(device_from_name(name)) {}

Device require_available(Device d) {
  if (d.type == DeviceType::Cpu) {
    STRATA_CHECK(d.index <= 0, Runtime, "device '{}' is not available: there is one CPU; use device='cpu'",
                 to_string(d));
    return {};
  }
  if (d.type == DeviceType::Meta) {  // one device for all numbers
    devices_in_use = true;
    return {DeviceType::Meta, -1};
  }
  STRATA_CHECK(
    (d.type == DeviceType::Cuda || d.type == DeviceType::Vgpu) && device_hooks.open, Runtime,
    "device '{}' is not available: this build of Strata has the devices cpu, cuda, vgpu and meta; use device='cpu'",
    to_string(d));
  return device_hooks.open(d);
}

}  // namespace strata
