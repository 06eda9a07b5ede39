// A loaded module: its variables in device memory, its kernels decoded on demand.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "cuda/vgpu/decoder.h"
#include "cuda/vgpu/device.h"

namespace strata::cuda::vgpu {

namespace {
// Parsing dominates the cost of loading: recent modules are cached for the next device that loads them.
std::shared_ptr<const ptx::Module> parse_once(std::string_view text) {
  constexpr size_t kKept = 64;
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, std::shared_ptr<const ptx::Module>, std::less<>>;
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(text); found != known->end()) return found->second;
  auto parsed = std::make_shared<const ptx::Module>(ptx::parse(text));
  if (known->size() == kKept) known->clear();
  known->emplace(text, parsed);
  return parsed;
}
}  // namespace

Module::Module(std::string_view text, Memory& memory) : memory_(memory), parsed_(parse_once(text)) {
  try {
    for (const auto& v : parsed_->variables) {
      if (v.space == Space::Shared || v.bytes == 0) continue;
      const uint64_t address = memory.allocate(v.bytes, std::max<uint64_t>(v.align, 256));
      STRATA_CHECK(address, OutOfMemory, "vgpu: no device memory for variable '{}' of {} bytes", v.name, v.bytes);
      variables_[v.name] = {address, v.bytes};
      auto* at = reinterpret_cast<uint8_t*>(address);
      std::memset(at, 0, v.bytes);
      std::copy(v.init.begin(), v.init.end(), at);
      memory.mark_written(address, v.bytes);
    }
    for (const auto& v : parsed_->variables)
      for (const auto& [offset, name] : v.pointers) {
        const auto* target = variable(name);
        STRATA_CHECK(target && v.bytes - offset >= 8, Value, "PTX line {}: '{}' is not a variable with a known address",
                     v.line, name);
        uint64_t value = 0;
        auto* at = reinterpret_cast<uint8_t*>(variables_[v.name].address + offset);
        std::memcpy(&value, at, 8);
        value += target->address;
        std::memcpy(at, &value, 8);
      }
  } catch (...) {
    for (const auto& [name, v] : variables_) memory_.release(v.address);
    throw;
  }
}

Module::~Module() {
  for (const auto& [name, v] : variables_) memory_.release(v.address);
}

const Program* Module::kernel(const std::string& name) {
  if (const auto known = programs_.find(name); known != programs_.end()) return known->second.get();
  const ptx::Function* f = parsed_->find(name);
  if (!f || !f->entry || !f->defined) return nullptr;
  Symbols symbols;
  for (const auto& [variable, place] : variables_) symbols[variable] = place.address;
  return (programs_[name] = std::make_unique<Program>(decode(*parsed_, *f, symbols))).get();
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> out;
  for (const auto& f : parsed_->functions)
    if (f->entry && f->defined) out.push_back(f->name);
  return out;
}

const Module::Variable* Module::variable(const std::string& name) const {
  const auto v = variables_.find(name);
  return v == variables_.end() ? nullptr : &v->second;
}

}  // namespace strata::cuda::vgpu
