#include "cpu/onednn_loader.h"

#include <fmt/core.h>

#include <dlfcn.h>
#include <pthread.h>

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

// A child of fork() has none of libgomp's threads, but the thread that forked still has its team and would wait for it
// forever. Its calls run serially; threads started in the child get teams of their own.
STRATA_THREAD_LOCAL bool lost_team = false;

// oneDNN frees memory by address only: the cache line before it stores the block.
constexpr size_t kLine = 64;

constexpr onednn::Host kHost = {
  [] { return lost_team ? 1 : num_threads(); },
  [](size_t bytes) -> void* {
    try {
      if (bytes > SIZE_MAX / 4) return nullptr;
      const size_t lines = (bytes + kLine - 1) / kLine;
      Storage* block = allocate((lines + 1) * kLine).release();
      std::memcpy(block->data, &block, sizeof block);
      return block->data + kLine;
    } catch (const Error&) { return nullptr; }
  },
  [](void* memory) {
    Storage* block = nullptr;
    std::memcpy(&block, static_cast<std::byte*>(memory) - kLine, sizeof block);
    Ref<Storage>::drop(block);
  },
  detail::start_region,
  detail::finish_region,
  [](TeamBarrier& barrier, int members) { barrier.wait(members); },
};

// While another thread of the program uses Strata's threads, oneDNN uses libgomp's (onednn/openmp.cpp). They spin for
// milliseconds by default, which halves the speed of two processes side by side. libgomp reads the count from the
// environment once, when it is loaded, so it is loaded here and not along with oneDNN.
constexpr int kFewCores = 4;
void open_libgomp() {
  constexpr const char* kName = "libgomp.so.1";
  if (dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return;
  const bool ours = !std::getenv("GOMP_SPINCOUNT") && !std::getenv("OMP_WAIT_POLICY");
  // Measured with a small network: 7% slower alone than with endless spinning, and two such processes on two cores
  // together reach 94% of one alone (58% with a count of 3000). Waking many threads takes longer than waking one, and
  // processes seldom use all of many cores: there the count is about as long as our own threads wait for work.
  if (ours) setenv("GOMP_SPINCOUNT", hardware_threads() > kFewCores ? "5000" : "700", 1);
  dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (ours) unsetenv("GOMP_SPINCOUNT");  // not for child processes
}

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
    open_libgomp();
    Library library({.name = "the oneDNN module",
                     .files = {beside_this("strata_onednn.so")},
                     .variable = "STRATA_ONEDNN_MODULE",
                     .own_first = true});
    const auto get = library.need<onednn::TableFunction>(onednn::kTableSymbol);
    why = library.why();
    if (!get) return;
    pthread_atfork(nullptr, nullptr, [] { lost_team = true; });
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
