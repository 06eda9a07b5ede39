// Wrappers around a table: one opens a trace span for every call; two are for tests, to make a call fail or to log all
// calls.
#pragma once
#include <string>
#include <vector>

#include "cuda/driver/api.h"

namespace strata::cuda::driver {

// Trace spans of layer Driver around the calls; costs one relaxed load while tracing is off. One per driver, since a
// table has no context pointer.
const Table& traced_libcuda(const Table& below);
const Table& traced_vgpu(const Table& below);

// For the same reason one wrapper of each kind can exist at a time; a second throws Error(Runtime).

// Call n (counted from 1 over all entries except the error texts) returns `code` without reaching the table below.
class STRATA_API FaultInjector {
 public:
  FaultInjector(const Table& below, uint64_t n, CUresult code);
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;
  const Table& table() const { return table_; }
  uint64_t calls() const;      // so far
  const char* failed() const;  // the entry that failed; null: call n has not happened

 private:
  Table table_;
};

struct Call {
  const char* name;
  CUresult result;
};

class STRATA_API Recorder {
 public:
  explicit Recorder(const Table& below);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  const Table& table() const { return table_; }
  std::vector<Call> calls() const;

 private:
  Table table_;
};

}  // namespace strata::cuda::driver
