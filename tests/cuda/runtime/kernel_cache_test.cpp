// The cache of compiled kernels: stored code is found again, damaged or foreign code is compiled again, a read-only
// folder is not an error.
#include "cuda/runtime/kernel_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/driver/vgpu.h"
#include "cuda/driver/wrap.h"
#include "cuda/runtime/images.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace strata::cuda {
namespace {

using testing::TempFolder;

std::string only_file(const TempFolder& folder) {
  return std::filesystem::directory_iterator(folder.path())->path().string();
}

TEST(KernelCache, FindsWhatItKept) {
  const TempFolder folder;
  const KernelCache cache(folder / "a/b");
  const std::string key = KernelCache::key("ptx", 9, 0, 12040), code(
                                                                  "\x7f"
                                                                  "ELF\0\n code",
                                                                  11);
  EXPECT_EQ(cache.find(key), std::nullopt);
  cache.store(key, code);
  EXPECT_EQ(cache.find(key), code);
  for (const std::string& other : {KernelCache::key("ptx ", 9, 0, 12040), KernelCache::key("ptx", 8, 9, 12040),
                                   KernelCache::key("ptx", 9, 0, 12050)})
    EXPECT_EQ(cache.find(other), std::nullopt);
}

TEST(KernelCache, DamagedAndForeignFilesAreIgnoredAndRewritten) {
  const TempFolder folder;
  const KernelCache cache(folder.path());
  const std::string key = KernelCache::key("ptx", 9, 0, 12040), code = "some machine code";
  cache.store(key, code);
  const std::string path = only_file(folder), whole = testing::get(path);
  const auto refused = [&](const std::string& bytes) {
    testing::put(path, bytes);
    return cache.find(key) == std::nullopt;
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    ASSERT_TRUE(refused(flipped)) << "byte " << i;
    ASSERT_TRUE(refused(whole.substr(0, i))) << "cut at " << i;
  }
  EXPECT_TRUE(refused(whole + "x"));
  EXPECT_TRUE(refused("something else"));
  const std::string other = KernelCache::key("other", 9, 0, 12040);
  cache.store(other, code);  // the file of another key under this name
  testing::put(path, testing::get(folder / (other + ".kernel")));
  EXPECT_EQ(cache.find(key), std::nullopt);
  cache.store(key, code);
  EXPECT_EQ(cache.find(key), code);
}

TEST(KernelCache, AFolderThatCannotBeWrittenKeepsNothing) {
  const TempFolder folder;
  testing::put(folder / "file", "");
  const KernelCache cache(folder / "file/kernels"), none("");
  for (const KernelCache* c : {&cache, &none}) {
    c->store("key", "code");
    EXPECT_EQ(c->find("key"), std::nullopt);
  }
}

// A separate virtual device, with its calls counted.
struct PtxCompiled : ::testing::Test {
  PtxCompiled()
      : recorder(driver::open_vgpu({.memory = 64 << 20})), runtime(DeviceType::Vgpu, started(recorder.table())) {}
  static const driver::Table& started(const driver::Table& t) {
    EXPECT_EQ(t.cuInit(0), driver::kSuccess);
    return t;
  }
  int64_t compiled() const {
    const auto calls = recorder.calls();
    return std::count_if(calls.begin(), calls.end(),
                         [](const driver::Call& c) { return std::string_view(c.name) == "cuLinkComplete"; });
  }
  // Loads the kernels of copy.cu and looks up one of them.
  void load(const KernelCache& cache) {
    runtime[0].activate();
    const auto& all = images();
    const auto image =
      std::find_if(all.begin(), all.end(), [](const Image& i) { return std::string_view(i.name) == "copy"; });
    ASSERT_NE(image, all.end());
    driver::CUmodule module = load_ptx(runtime[0], cache, "copy", image->ptx.unpack(image->name));
    driver::CUfunction function = nullptr;
    EXPECT_EQ(recorder.table().cuModuleGetFunction(&function, module, "Copy_f32"), driver::kSuccess);
    EXPECT_EQ(recorder.table().cuModuleUnload(module), driver::kSuccess);
  }
  driver::Recorder recorder;
  Runtime runtime;
  TempFolder folder;
};

TEST_F(PtxCompiled, Once) {
  const KernelCache cache(folder.path());
  for (int i = 0; i < 3; ++i) load(cache);
  EXPECT_EQ(compiled(), 1);
  ASSERT_EQ(folder.count(), 1u);
  const std::string path = only_file(folder), whole = testing::get(path);
  testing::put(path, whole.substr(0, whole.size() / 2));
  load(cache);  // compiled and cached again
  EXPECT_EQ(compiled(), 2);
  EXPECT_EQ(testing::get(path), whole);
  load(KernelCache(""));
  EXPECT_EQ(compiled(), 2);
}

// A complete file with this key, but the driver rejects its code.
TEST_F(PtxCompiled, AgainWhereTheDriverDoesNotTakeIt) {
  const KernelCache cache(folder.path());
  load(cache);
  const std::string key = std::filesystem::path(only_file(folder)).stem().string();
  cache.store(key,
              "\x7f"
              "ELF of another card");
  load(cache);
  EXPECT_EQ(compiled(), 2);
  load(cache);
  EXPECT_EQ(compiled(), 2);
}

TEST_F(PtxCompiled, ErrorsHaveTheCompilersLog) {
  for (const KernelCache& cache : {KernelCache(folder.path()), KernelCache("")}) {
    runtime[0].activate();
    EXPECT_ERROR(Runtime, "could not load the kernels of broken.cu. This build has machine code for sm_",
                 load_ptx(runtime[0], cache, "broken", ".version 8.0\n.target sm_75\nnonsense\n"));
    EXPECT_ERROR(Runtime, "PTX line 3",
                 load_ptx(runtime[0], cache, "broken", ".version 8.0\n.target sm_75\nnonsense\n"));
  }
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace strata::cuda
