#include "cpu/onednn_loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/parallel.h"
#include "tensor/allocator.h"

namespace strata::cpu {
namespace {

constexpr onednn::Host kHost = {
  num_threads,
  [](size_t bytes) -> void* {
    try {
      return allocate(bytes).release()->data;
    } catch (const Error&) { return nullptr; }
  },
  [](void* memory) {
    Ref<Storage>::drop(reinterpret_cast<Storage*>(static_cast<std::byte*>(memory) - sizeof(Storage)));
  },
};

struct Module {
  const onednn::Table* table = nullptr;
  std::string why;

  Module() {
    if (const char* off = std::getenv("STRATA_NO_ONEDNN"); off && *off == '1') {
      why = "oneDNN is switched off by STRATA_NO_ONEDNN";
      return;
    }
    open_thread_team();  // before oneDNN brings libgomp along: the spin count is read when it is loaded
    Dl_info self;
    std::string path = "strata_onednn.so";
    if (dladdr(reinterpret_cast<const void*>(&onednn_table), &self) && self.dli_fname) {
      const std::string file = self.dli_fname;
      const size_t slash = file.rfind('/');
      if (slash != file.npos) path = file.substr(0, slash + 1) + path;
    }
    if (const char* given = std::getenv("STRATA_ONEDNN_MODULE")) path = given;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      why = std::string("the oneDNN module could not be opened: ") + dlerror();
      return;
    }
    const auto get = reinterpret_cast<onednn::TableFunction>(dlsym(library, onednn::kTableSymbol));
    if (get) table = get(&kHost);
    else why = path + " is not Strata's oneDNN module";
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
