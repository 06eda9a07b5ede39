#include "dispatch/tuning_store.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/sha256.h"
#include "cuda/libs/libraries.h"
#include "cuda/runtime/kernel_cache.h"
#include "record/precision.h"

namespace strata {
namespace {

using Json = nlohmann::json;
constexpr size_t kMostBytes = size_t{64} << 20;  // of a file; a longer one is not ours
constexpr int kFormat = 1;

std::string text_of(const TensorImpl& t) {
  return fmt::format("{}[{}] strides {} offset {}", name_of(t.dtype), fmt::join(t.shape, t.shape + t.ndim, ","),
                     fmt::join(t.strides, t.strides + t.ndim, ","), reinterpret_cast<uintptr_t>(t.data) % 16);
}

std::string text_of(const Value& v) {
  switch (v.tag) {
    case Tag::None: return "None";
    case Tag::Tensor: return text_of(*v.tensor);
    case Tag::Float: return fmt::format("{}", v.f);
    case Tag::Bool: return v.i ? "True" : "False";
    case Tag::Complex: return fmt::format("{}+{}j", v.complex->re, v.complex->im);
    case Tag::Ints: return fmt::format("[{}]", fmt::join(v.ints, v.ints + v.size, ","));
    case Tag::Floats: return fmt::format("[{}]", fmt::join(v.floats, v.floats + v.size, ","));
    case Tag::Str: return fmt::format("'{}'", std::string_view(v.str, v.size));
    case Tag::Generator: return "generator";
    case Tag::Tensors: {
      std::string text;
      for (const Tensor& t : v.tensor_list()) text += (text.empty() ? "" : "; ") + (t ? text_of(*t) : "None");
      return "[" + text + "]";
    }
    default: return fmt::format("{}", v.i);
  }
}

Json identity_of(const cuda::Gpu& gpu) {
  int driver = 0;
  gpu.check(gpu.table().cuDriverGetVersion(&driver), "tell the driver's version");
  Json libraries = Json::object();
  for (const cuda::Vendor v : {cuda::Vendor::CublasLt, cuda::Vendor::Cudnn}) {
    const cuda::VendorLibrary& library = cuda::vendor_library(v);
    libraries[library.library.name()] = library.version;
  }
  return {{"device", gpu.properties.name},
          {"compute_capability", fmt::format("{}.{}", gpu.properties.major, gpu.properties.minor)},
          {"driver", driver},
          {"libraries", libraries}};
}

// Where a file would be, without opening the libraries that its name depends on.
std::string folder_of(Device device) {
  if (device.type != DeviceType::Cuda && device.type != DeviceType::Vgpu) return "";
  if (!cuda::KernelCache::of(device.type).keeps()) return "";
  return cuda::cache_folder() + "/tuning";
}

std::string path_in(const std::string& folder, const Json& identity) {
  const std::string text = identity.dump();
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  std::string name;
  for (const char c : identity["device"].get<std::string>())
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return fmt::format("{}/{}-{}.json", folder, name, sha256({bytes, text.size()}).substr(0, 12));
}

KernelTimes times_in(const Json& entry) {
  KernelTimes times;
  if (!entry.is_object()) return times;
  for (const auto& [kernel, time] : entry.items())
    if (time.is_number() && time.get<double>() > 0) times[kernel] = time.get<double>();
  return times;
}

TuningTable read_file(const std::string& path, const Json& identity) {
  TuningTable table;
  Json all;
  try {
    const auto file = FileBytes::read(path, kMostBytes);
    const auto* text = reinterpret_cast<const char*>(file->data());
    all = Json::parse(text, text + file->size(), nullptr, false);
  } catch (const Error&) { return table; }  // there is none, or it cannot be read
  if (!all.is_object() || all.value("format", Json()) != kFormat || all.value("identity", Json()) != identity)
    return table;
  const auto times = all.find("microseconds");
  if (times == all.end() || !times->is_object()) return table;
  for (const auto& [call, entry] : times->items())
    if (KernelTimes found = times_in(entry); !found.empty()) table[call] = std::move(found);
  return table;
}
}  // namespace

std::string signature_of(const Call& c) {
  std::string text = fmt::format("{}(", c.op.name);
  for (uint32_t i = 0; i < c.args.size; ++i) text += (i ? ", " : "") + text_of(c.args[i]);
  text += ") ->";
  for (uint32_t o = 0; o < c.op.outputs; ++o) text += " " + text_of(*c.outs[o]);
  if (allow_tf32_products()) text += ", TF32 products";
  if (allow_tf32_convolutions()) text += ", TF32 convolutions";
  return text;
}

std::string tuning_file(Device device) {
  const std::string folder = folder_of(device);
  return folder.empty() ? "" : path_in(folder, identity_of(cuda::Runtime::gpu(device)));
}

TuningTable read_tuning(Device device) {
  const std::string folder = folder_of(device);
  std::error_code error;
  if (folder.empty() || !std::filesystem::is_directory(folder, error)) return {};
  const Json identity = identity_of(cuda::Runtime::gpu(device));
  return read_file(path_in(folder, identity), identity);
}

void write_tuning(Device device, const TuningTable& measured) {
  const std::string folder = folder_of(device);
  if (folder.empty() || measured.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  STRATA_CHECK(!error, Io, "cannot make the folder {} for the times of kernels: {}; STRATA_CACHE_DIR names another one",
               folder, error.message());
  const Json identity = identity_of(cuda::Runtime::gpu(device));
  const std::string path = path_in(folder, identity);
  TuningTable all = read_file(path, identity);  // another process may have added to it
  for (const auto& [call, times] : measured) all[call] = times;
  write_file(path, Json{{"format", kFormat}, {"identity", identity}, {"microseconds", all}}.dump(1) + "\n");
}

}  // namespace strata
