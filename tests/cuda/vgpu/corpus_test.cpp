// The seeds and past findings of the PTX fuzz target, in every build: each runs or is rejected with a typed error.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cuda/vgpu/machine.h"

namespace strata::cuda::vgpu::testing {

namespace {

TEST(FuzzCorpus, PtxRunsOrIsRefused) {
  int ran = 0, all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STRATA_CORPUS) + "/ptx")) {
    ++all;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    try {
      Machine m(Whole{text.str()});
      const uint64_t block = m.put(std::vector<uint8_t>(4096));
      for (const auto& name : m.module.kernels()) {
        const Program* p = m.module.kernel(name);
        const std::vector<uint64_t> argument(4096, block);
        const std::vector<const void*> params(p->params.size() + 1, argument.data());
        Launch launch{{2, 1, 1}, {40, 1, 1}};
        launch.instruction_limit = 20000;
        run(*p, m.profile, m.memory, launch, params.data());
      }
      ++ran;
    } catch (const Error& e) { EXPECT_NE(e.kind(), ErrorKind::Internal) << entry.path() << e.what(); }
  }
  EXPECT_GE(all, 7);
  EXPECT_GE(ran, 6);
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
