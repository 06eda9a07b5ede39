#include "cpu/onednn/module.h"

#include <cstdlib>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace strata::onednn {

const Host* host = nullptr;

dnnl::engine& engine() {
  static auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);  // never destroyed: threads may outlive static objects
  return *e;
}
dnnl::stream& stream() {
  static thread_local dnnl::stream s(engine());
  return s;
}
std::string& error_text() {
  static thread_local std::string text;
  return text;
}

namespace {

// Some virtual machines report the tile instructions (AMX) but no palette of tiles. oneDNN then configures no tiles, and
// its first product ends the process with SIGILL.
bool tiles_without_palette() {
#if defined(__x86_64__)
  constexpr unsigned kFeatures = 7, kTiles = 1U << 24, kPalettes = 0x1d;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) || !(d & kTiles)) return false;
  return !__get_cpuid_count(kPalettes, 0, &a, &b, &c, &d) || a == 0;
#else
  return false;
#endif
}

// Before any other call of oneDNN: it reads its limit once. A limit that the user set stays.
void limit_instructions() {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") || std::getenv("DNNL_MAX_CPU_ISA")) return;
  if (tiles_without_palette()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_fp16);
}

constexpr Table kTable = {matmul_ready,
                          convolution_ready,
                          matmul,
                          matmul_weight,
                          matmul_pack,
                          convolution,
                          convolution_weight_bytes,
                          convolution_pack,
                          convolution_wants_channels_last,
                          [] { return error_text().c_str(); },
                          "oneDNN 3"};
}  // namespace
}  // namespace strata::onednn

extern "C" [[gnu::visibility("default")]] const strata::onednn::Table* strata_onednn_table(
  const strata::onednn::Host* library) {
  strata::onednn::host = library;
  strata::onednn::limit_instructions();
  return &strata::onednn::kTable;
}
