// Fuzz target: PTX text, parsed, decoded and run for a while. Kernels may do anything inside the device's memory.
#include <string_view>

#include "base/parallel.h"
#include "cuda/vgpu/device.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cuda::vgpu;
  strata::set_num_threads(1);  // so that the same input is executed the same each time
  strata::fuzz::expect_typed_errors([&] {
    static const Profile profile = profile_of("ampere");
    Memory memory(1 << 20);
    Module module(std::string_view(reinterpret_cast<const char*>(data), size), memory);
    const uint64_t block = memory.allocate(4096);
    const std::vector<uint64_t> argument(4096, block);  // every parameter reads as the block's address
    for (const auto& name : module.kernels())
      strata::fuzz::expect_typed_errors([&] {
        const Program* p = module.kernel(name);
        if (!p || p->register_bytes > 1 << 20 || p->local_bytes > 1 << 14) return;
        const std::vector<const void*> params(p->params.size() + 1, argument.data());
        for (uint32_t checks : {0u, 15u}) {
          Launch launch{{2, 1, 1}, {40, 1, 1}};
          launch.instruction_limit = 20000;
          launch.checks = checks;
          run(*p, profile, memory, launch, params.data());
        }
      });
  });
  return 0;
}
