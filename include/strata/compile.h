// strata::compile(f): a function that gives the same results and computes pointwise ops in groups.
#pragma once
#include <type_traits>
#include <utility>
#include <vector>

#include "dispatch/deferred.h"

namespace strata {

template <class F> class Compiled {
 public:
  explicit Compiled(F f) : f_(std::move(f)) {}

  // The results of f. Groups of ops are computed when one of their results is needed, at the latest before this returns.
  template <class... Args> auto operator()(Args&&... args) {
    Deferral deferral;
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Args...>>) {
      f_(std::forward<Args>(args)...);
      deferral.finish();
    } else {
      auto result = f_(std::forward<Args>(args)...);
      deferral.finish();
      return result;
    }
  }
  // Calls f, and returns the groups of ops that were computed together.
  template <class... Args> std::vector<FusedGroup> explain(Args&&... args) {
    std::vector<FusedGroup> groups;
    const auto run = [&] {
      const Deferral deferral(&groups);
      return f_(std::forward<Args>(args)...);
    };
    if constexpr (std::is_void_v<decltype(run())>) run();
    else [[maybe_unused]] const auto held = run();  // a result that nobody holds would not be computed
    return groups;
  }

 private:
  F f_;
};

// Memory whose address was taken before must not be written to inside f by other means than ops: a deferred op may read it later.
template <class F> Compiled<F> compile(F f) { return Compiled<F>(std::move(f)); }

}  // namespace strata
