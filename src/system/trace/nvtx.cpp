// Spans as ranges of NVTX, which Nsight Systems shows.
#include "base/library.h"
#include "base/trace_ranges.h"
#include "system/trace/trace.h"

namespace strata::tracing {
namespace {

struct Nvtx {
  Library library{{.name = "NVTX",
                   .files = {"libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1"},
                   .variable = "STRATA_NVTX",
                   .advice = "install it with the CUDA toolkit, or with pip install nvidia-nvtx-cu12"}};
  Ranges ranges{library.need<int (*)(const char*)>("nvtxRangePushA"), library.need<int (*)()>("nvtxRangePop")};
};
const Nvtx& nvtx() {
  static const auto* const one = new Nvtx;
  return *one;
}

}  // namespace

void send_ranges(bool on) {
  if (on) nvtx().library.require();
  ranges.store(on ? &nvtx().ranges : nullptr);
}

int push_range(const char* name) {
  const Nvtx& n = nvtx();
  return n.library ? n.ranges.push(name) : -1;
}
int pop_range() {
  const Nvtx& n = nvtx();
  return n.library ? n.ranges.pop() : -1;
}

}  // namespace strata::tracing
