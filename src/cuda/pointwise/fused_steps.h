// A group without a kernel of its own: its ops run one by one.
#pragma once
#include "cuda/runtime/stream.h"
#include "record/fused.h"

namespace strata::cuda {

// Makes a stream the current one of this thread, for launchers that use that one.
class InStreamOf {
 public:
  explicit InStreamOf(const Stream& s) : outer_(Stream::current(s.gpu())) { Stream::swap_current(s); }
  ~InStreamOf() { Stream::swap_current(outer_); }
  InStreamOf(const InStreamOf&) = delete;
  InStreamOf& operator=(const InStreamOf&) = delete;

 private:
  Stream outer_;
};

void run_steps(const FusedProgram& program, const Stream& stream);

}  // namespace strata::cuda
