#include "cpu/onednn/module.h"

#include <omp.h>

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

Threads::Threads() : before_(omp_get_max_threads()), wanted_(host->threads()) {
  if (wanted_ != before_) omp_set_num_threads(wanted_);
}
Threads::~Threads() {
  if (wanted_ != before_) omp_set_num_threads(before_);
}

namespace {
constexpr Table kTable = {matmul_ready,
                          convolution_ready,
                          matmul,
                          matmul_weight,
                          matmul_pack,
                          convolution,
                          convolution_weight_bytes,
                          convolution_pack,
                          [] { return error_text().c_str(); },
                          "oneDNN 3"};
}  // namespace
}  // namespace strata::onednn

extern "C" [[gnu::visibility("default")]] const strata::onednn::Table* strata_onednn_table(
  const strata::onednn::Host* library) {
  strata::onednn::host = library;
  return &strata::onednn::kTable;
}
