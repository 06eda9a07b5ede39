// A stream as the current one of this thread, for a scope.
#pragma once
#include "cuda/runtime/stream.h"

namespace strata::cuda {

class InStream {
 public:
  explicit InStream(const Stream& s) : outer_(Stream::current(s.gpu())) { Stream::set_current(s); }
  ~InStream() { Stream::set_current(outer_); }
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

 private:
  Stream outer_;
};

}  // namespace strata::cuda
