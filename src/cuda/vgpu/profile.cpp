// The built-in profiles, profiles from JSON, and occupancy.
#include "cuda/vgpu/profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace strata::cuda::vgpu {

namespace {

Profile built_in(std::string_view name) {
  Profile p;
  p.name = std::string(name);
  p.memory = uint64_t{16} << 30;
  if (name == "turing") {
    p.major = 7;
    p.minor = 5;
    p.multiprocessors = 40;
    p.threads_per_sm = 1024;
    p.blocks_per_sm = 16;
    p.shared_per_sm = 64 << 10;
    p.shared_optin = 64 << 10;
    p.l2_bytes = 4 << 20;
    p.clock_khz = 1590000;
    p.bandwidth = 320e9;
    p.f64_per_sm = 2;
  } else if (name == "ampere") {
    p.major = 8;
    p.minor = 0;
    p.multiprocessors = 108;
    p.threads_per_sm = 2048;
    p.blocks_per_sm = 32;
    p.shared_per_sm = 164 << 10;
    p.shared_optin = 163 << 10;
    p.l2_bytes = 40 << 20;
    p.clock_khz = 1410000;
    p.bandwidth = 1555e9;
  } else if (name == "hopper") {
    p.major = 9;
    p.minor = 0;
    p.multiprocessors = 132;
    p.threads_per_sm = 2048;
    p.blocks_per_sm = 32;
    p.shared_per_sm = 228 << 10;
    p.shared_optin = 227 << 10;
    p.l2_bytes = 50 << 20;
    p.clock_khz = 1785000;
    p.bandwidth = 3350e9;
    p.f32_per_sm = 128;
    p.f64_per_sm = 64;
  } else {
    fail(ErrorKind::Value,
         fmt::format("vgpu: no device profile '{}'; use turing, ampere, hopper, or a JSON object", name));
  }
  return p;
}

template <class T> void read(const nlohmann::json& json, const char* name, T& value, double least, double most) {
  const auto field = json.find(name);
  if (field == json.end()) return;
  STRATA_CHECK(field->is_number() && field->get<double>() >= least && field->get<double>() <= most, Value,
               "vgpu: field '{}' of the device profile must be a number from {} to {}, found {}", name, least, most,
               field->dump());
  value = field->get<T>();
}

Profile from_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  STRATA_CHECK(json.is_object(), Value, "vgpu: the device profile is not a JSON object");
  for (const auto& [key, value] : json.items()) {
    constexpr std::string_view kFields[] = {"base",
                                            "name",
                                            "major",
                                            "minor",
                                            "multiprocessors",
                                            "threads_per_sm",
                                            "blocks_per_sm",
                                            "registers_per_sm",
                                            "shared_per_sm",
                                            "shared_per_block",
                                            "shared_optin",
                                            "f32_per_sm",
                                            "f64_per_sm",
                                            "special_per_sm",
                                            "l2_bytes",
                                            "clock_khz",
                                            "memory",
                                            "bandwidth"};
    STRATA_CHECK(std::find(std::begin(kFields), std::end(kFields), key) != std::end(kFields), Value,
                 "vgpu: the device profile has an unknown field '{}'", key);
    STRATA_CHECK((key != "base" && key != "name") || value.is_string(), Value,
                 "vgpu: field '{}' of the device profile must be a text", key);
  }
  Profile p = built_in(json.value("base", std::string("ampere")));
  p.name = json.value("name", p.name);
  read(json, "major", p.major, 7, 12);
  read(json, "minor", p.minor, 0, 9);
  read(json, "multiprocessors", p.multiprocessors, 1, 4096);
  read(json, "threads_per_sm", p.threads_per_sm, 32, 65536);
  read(json, "blocks_per_sm", p.blocks_per_sm, 1, 1024);
  read(json, "registers_per_sm", p.registers_per_sm, 1024, 1 << 24);
  read(json, "shared_per_sm", p.shared_per_sm, 1024, 1 << 24);
  read(json, "shared_per_block", p.shared_per_block, 1024, 1 << 24);
  read(json, "shared_optin", p.shared_optin, 1024, 1 << 24);
  read(json, "f32_per_sm", p.f32_per_sm, 1, 4096);
  read(json, "f64_per_sm", p.f64_per_sm, 1, 4096);
  read(json, "special_per_sm", p.special_per_sm, 1, 4096);
  read(json, "l2_bytes", p.l2_bytes, 0, 1 << 30);
  read(json, "clock_khz", p.clock_khz, 1, 1 << 30);
  read(json, "memory", p.memory, 1 << 20, 1e15);
  read(json, "bandwidth", p.bandwidth, 1, 1e15);
  return p;
}

}  // namespace

Profile profile_of(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{' ? from_json(text) : built_in(text);
}

Occupancy occupancy(const Profile& p, uint32_t threads, uint32_t registers, uint32_t shared_bytes) {
  const int warps = static_cast<int>((std::max(threads, 1u) + 31) / 32);
  const int per_warp = static_cast<int>((std::max(registers, 1u) * 32 + 255) / 256 * 256);  // allocated in units of 256
  // From Ampere on, a block uses one more kilobyte of shared memory, which is reserved by the system.
  const int reserved = p.major >= 8 ? 1024 : 0, granule = p.major >= 8 ? 128 : 256;
  const int shared = (static_cast<int>(shared_bytes) + reserved + granule - 1) / granule * granule;
  const std::pair<int, const char*> limits[] = {{p.threads_per_sm / (warps * 32), "threads"},
                                                {p.blocks_per_sm, "blocks"},
                                                {p.registers_per_sm / per_warp / warps, "registers"},
                                                {shared ? p.shared_per_sm / shared : p.blocks_per_sm, "shared memory"}};
  Occupancy out{limits[0].first, limits[0].second};
  for (const auto& [blocks, name] : limits)
    if (blocks < out.blocks) out = {blocks, name};
  out.fraction = static_cast<double>(out.blocks) * warps * 32 / p.threads_per_sm;
  return out;
}

}  // namespace strata::cuda::vgpu
