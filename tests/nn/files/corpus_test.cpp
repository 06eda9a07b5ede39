// The fuzz targets' seeds and past findings, in every build: each is read or rejected with a typed error.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "nn/data/idx.h"
#include "nn/files/checkpoint.h"
#include "nn/files/pickle.h"
#include "nn/files/torch_file.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {

struct Zeros : files::StorageSource {
  Ref<Storage> storage(const std::string&, uint64_t bytes) override {
    STRATA_CHECK(bytes <= 4096, Runtime, "too large");
    Ref<Storage> s = allocate(bytes);
    std::fill_n(s->data, bytes, std::byte{0});
    return s;
  }
};

// Number of files that were read; all others end in a strata::Error.
int replay(const std::string& name, const std::function<void(const std::shared_ptr<FileBytes>&)>& read) {
  int good = 0, all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STRATA_CORPUS) + "/" + name)) {
    ++all;
    try {
      read(FileBytes::map(entry.path().string()));
      ++good;
    } catch (const Error& e) { EXPECT_NE(e.kind(), ErrorKind::Internal) << entry.path() << e.what(); }
  }
  EXPECT_GE(all, 4) << name;
  return good;
}

TEST(FuzzCorpus, IsReadOrRefused) {
  EXPECT_GE(replay("idx", [](const auto& file) { data::read_idx(file->bytes(), file->name()); }), 9);
  EXPECT_GE(replay("safetensors", [](const auto& file) { files::read_any(file); }), 4);
  EXPECT_GE(replay("torch",
                   [](const auto& file) {
                     Zeros zeros;
                     if (files::is_zip(file->bytes())) files::read_torch(file);
                     else files::read_pickle(file->bytes(), file->name(), zeros, 1 << 20);
                   }),
            7);
}

}  // namespace
}  // namespace strata
