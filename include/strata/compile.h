// strata::compile(f): a function that gives the same results and computes pointwise ops in groups. With Replay, calls run the
// graph of an earlier call.
#pragma once
#include <array>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "compile/replay.h"
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

// For compile(): later calls do not run the function but the graph of an earlier one, if their tensors are of the same types and all
// other arguments are equal. What the function captures must not change otherwise; calls 2, 4, 8, ... run it as an audit.
struct Replay {
  graph::Recording::States states = {};  // tensors that it captures and writes to, such as net.named_buffers()
};

namespace detail {
// The arguments of a call: its tensors, and the rest as bytes.
struct CallArguments {
  std::vector<Tensor> tensors;
  std::string rest;
  template <class T> void add(const T& value) {
    if constexpr (std::is_same_v<T, Tensor>) {
      tensors.push_back(value);
    } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
      add(value.size());
      tensors.insert(tensors.end(), value.begin(), value.end());
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      const std::string_view text = value;
      add(text.size());
      rest += text;
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>,
                    "a replayed function takes tensors, vectors of tensors, numbers and texts");
      rest.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
};
template <class R> std::vector<Tensor> tensors_of_result(R result) {
  if constexpr (std::is_same_v<R, Tensor>) return {std::move(result)};
  else if constexpr (std::is_same_v<R, std::vector<Tensor>>) return result;
  else return std::apply([](auto&... t) { return std::vector<Tensor>{Tensor(std::move(t))...}; }, result);
}
template <class R> R result_of_tensors(std::vector<Tensor> tensors) {
  if constexpr (std::is_same_v<R, Tensor>) {
    return std::move(tensors[0]);
  } else if constexpr (std::is_same_v<R, std::vector<Tensor>>) {
    return tensors;
  } else {
    const auto filled = [&]<size_t... i>(std::index_sequence<i...>) { return R{std::move(tensors[i])...}; };
    return filled(std::make_index_sequence<std::tuple_size_v<R>>());
  }
}
}  // namespace detail

// The result of compile(f, Replay{}). Threads may share it; their calls wait for each other.
template <class F> class Replayed {
 public:
  Replayed(F f, Replay options) : f_(std::move(f)), replayer_(std::move(options.states)) {}

  // f takes tensors, vectors of tensors, numbers and texts; it returns a Tensor, or a vector, tuple or array of tensors.
  template <class... Args> auto operator()(const Args&... args) {
    using Result = std::invoke_result_t<F&, const Args&...>;
    detail::CallArguments given;
    (given.add(args), ...);
    const auto program = [&](const std::vector<Tensor>&) { return detail::tensors_of_result<Result>(f_(args...)); };
    return detail::result_of_tensors<Result>(replayer_.call(given.rest, given.tensors, program));
  }
  // One for each kind of calls; see graph::Recording.
  const graph::Replayer& replayer() const { return replayer_; }

 private:
  F f_;
  graph::Replayer replayer_;
};

template <class F> Replayed<F> compile(F f, Replay options) { return Replayed<F>(std::move(f), std::move(options)); }

}  // namespace strata
