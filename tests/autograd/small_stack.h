// Runs a function on a thread with a stack of 256 KiB: a recursion over a long graph would overflow it.
#pragma once
#include <pthread.h>

#include <exception>
#include <functional>

#include "base/error.h"

namespace strata::testing {

inline void on_small_stack(const std::function<void()>& f) {
  struct Work {
    const std::function<void()>& f;
    std::exception_ptr error;
  } work{f, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  STRATA_ASSERT(pthread_attr_setstacksize(&attributes, 256 << 10) == 0);
  pthread_t thread;
  const auto run = [](void* p) -> void* {
    auto& w = *static_cast<Work*>(p);
    try {
      w.f();
    } catch (...) { w.error = std::current_exception(); }
    return nullptr;
  };
  STRATA_ASSERT(pthread_create(&thread, &attributes, run, &work) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace strata::testing
