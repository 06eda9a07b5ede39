#include "cuda/runtime/module.h"

#include <fmt/core.h>

#include <cstdlib>

#include "base/error.h"
#include "cuda/runtime/images.h"

namespace strata::cuda {

Code::Code(std::string name, std::string bytes, Kind kind) : bytes_(std::move(bytes)), kind_(kind) {
  static std::atomic<uint64_t> count{0};
  name_ = fmt::format("{}#{}", name, count.fetch_add(1, std::memory_order_relaxed));
}

driver::CUmodule Modules::load(const Code& code) {
  if (code.kind() == Code::Kind::Ptx) return load_ptx(gpu_, cache_, code.name(), code.bytes().c_str());
  STRATA_CHECK(gpu_.runtime.type == DeviceType::Cuda, NotImplemented,
               "{}: the virtual GPU runs PTX, not machine code; compile to PTX", code.name());
  driver::CUmodule module = nullptr;
  gpu_.check(gpu_.table().cuModuleLoadData(&module, code.bytes().data()), "load kernels");
  return module;
}

driver::CUmodule Modules::load(const std::string& file) {
  const Image* image = nullptr;
  for (const Image& i : images())
    if (file == i.name) image = &i;
  if (!image) fail(ErrorKind::Internal, fmt::format("there are no device kernels of the name '{}'", file));
  const driver::Table& t = gpu_.table();
  driver::CUmodule module = nullptr;
  // Machine code if there is some for this device; the driver decides. The virtual GPU only reads PTX.
  driver::CUresult r = driver::kNoBinaryForGpu;
  if (gpu_.runtime.type == DeviceType::Cuda && !std::getenv("STRATA_CUDA_FORCE_PTX"))
    if (const std::string machine = image->machine.unpack(image->name); !machine.empty())
      r = t.cuModuleLoadData(&module, machine.data());
  if (r == driver::kNoBinaryForGpu || r == driver::kInvalidImage)
    return load_ptx(gpu_, cache_, file, image->ptx.unpack(image->name));
  gpu_.check(r, "load kernels");
  return module;
}

driver::CUfunction Modules::find(const std::string& file, const std::string& kernel, const Code* code) {
  gpu_.activate();
  std::lock_guard lock(mutex_);
  Loaded& l = loaded_[file];
  if (!l.module) l.module = code ? load(*code) : load(file);
  driver::CUfunction& function = l.functions[kernel];
  if (!function) gpu_.check(gpu_.table().cuModuleGetFunction(&function, l.module, kernel.c_str()), "find a kernel");
  return function;
}

std::string Modules::name_of(driver::CUfunction function) {
  std::lock_guard lock(mutex_);
  for (const auto& [file, l] : loaded_)
    for (const auto& [name, f] : l.functions)
      if (f == function) return name;
  return "(unknown)";
}

Modules::~Modules() {
  for (const auto& [file, l] : loaded_)
    if (l.module && gpu_.enter()) gpu_.table().cuModuleUnload(l.module);
}

driver::CUfunction Function::on(Gpu& gpu) const {
  if (gpu.place >= kRemembered) return gpu.modules->find(file_, kernel_, code_.get());
  std::atomic<driver::CUfunction>& f = loaded_[gpu.runtime.type == DeviceType::Vgpu][gpu.place];
  driver::CUfunction found = f.load(std::memory_order_acquire);
  if (!found) f.store(found = gpu.modules->find(file_, kernel_, code_.get()), std::memory_order_release);
  return found;
}

}  // namespace strata::cuda
