#include "cpu/onednn_loader.h"

#include <fmt/core.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/library.h"
#include "base/parallel.h"
#include "base/region.h"
#include "tensor/allocator.h"

namespace strata::cpu {
namespace {

// oneDNN frees memory by address only: the cache line before it stores the block.
constexpr size_t kLine = 64;

constexpr onednn::Host kHost = {
  detail::region_threads,
  [](size_t bytes) -> void* {
    try {
      if (bytes > SIZE_MAX / 4) return nullptr;
      const size_t lines = (bytes + kLine - 1) / kLine;
      Storage* block = allocate((lines + 1) * kLine).release();
      std::memcpy(block->data, &block, sizeof(void*));
      return block->data + kLine;
    } catch (const Error&) { return nullptr; }
  },
  [](void* memory) {
    Storage* block = nullptr;
    std::memcpy(&block, static_cast<std::byte*>(memory) - kLine, sizeof(void*));
    Ref<Storage>::drop(block);
  },
  detail::start_region,
  detail::finish_region,
  [](TeamBarrier& barrier, int members) { barrier.wait(members); },
};

// A file in the folder of libstrata.
std::string beside_this(const std::string& file) {
  Dl_info self;
  if (!dladdr(reinterpret_cast<const void*>(&onednn_table), &self) || !self.dli_fname) return file;
  const std::string own = self.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + file;
}

struct Module {
  const onednn::Table* table = nullptr;
  std::string why;

  Module() {
    if (const char* off = std::getenv("STRATA_NO_ONEDNN"); off && *off == '1') {
      why = "oneDNN is switched off by STRATA_NO_ONEDNN";
      return;
    }
    Library library({.name = "the oneDNN module",
                     .files = {beside_this("strata_onednn.so")},
                     .variable = "STRATA_ONEDNN_MODULE",
                     .own_first = true});
    const auto get = library.need<onednn::TableFunction>(onednn::kTableSymbol);
    why = library.why();
    if (!get) return;
    table = get(&kHost);
  }
};

const Module& module() {
  static const auto* m = new Module;
  return *m;
}
}  // namespace

const onednn::Table* onednn_table() { return module().table; }
const char* onednn_missing() { return module().why.c_str(); }

void onednn_failed(const char* op) {
  fail(ErrorKind::Internal, fmt::format("{}: {}", op, module().table->last_error()));
}

}  // namespace strata::cpu
