// Decisions and loops by values of tensors, as functions: in eager programs they are the if, while and for that they replace; a capture
// makes one node of each, so that a graph decides again in each run.
//
// The functions must be pure: they return new values, and write neither to their arguments nor to tensors from outside. They may use
// tensors from outside. In a capture all of them run at least once, also those that the values do not select.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace strata {

// What a part of a program computes from tensors.
using PureFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// true_fn(operands) if the only element of pred is not zero, else false_fn(operands). Both return as many tensors, of the same dtypes,
// shapes and devices. The results share no memory with the operands.
STRATA_API std::vector<Tensor> cond(const Tensor& pred, const PureFunction& true_fn, const PureFunction& false_fn,
                                    const std::vector<Tensor>& operands = {});

struct LoopOptions {
  std::optional<int64_t> max_trips = {};  // ends the loop, whatever cond_fn returns
  size_t stacked = 0;                     // so many more results of body_fn, stacked over the trips
};
// What is carried after body_fn has replaced it as long as the only element that cond_fn returns is not zero; then the stacked
// results. Carried values keep their dtypes, shapes and devices.
STRATA_API std::vector<Tensor> while_loop(const std::function<Tensor(const std::vector<Tensor>&)>& cond_fn,
                                          const PureFunction& body_fn, const std::vector<Tensor>& carried,
                                          const LoopOptions& options = {});

struct ScanOptions {
  int64_t dim = 0;
  bool reverse = false;                // from the last slice to the first; the results are in the order of xs
  std::optional<int64_t> length = {};  // of the scan; needed if there are no xs
};
// combine_fn gets what is carried, then a slice of each of xs along dim; it returns what is carried next, then the results of
// this step. Returns what is carried at the end, then the results of the steps, stacked along dim.
STRATA_API std::vector<Tensor> scan(const PureFunction& combine_fn, const std::vector<Tensor>& init,
                                    const std::vector<Tensor>& xs, const ScanOptions& options = {});

namespace graph {
// cond() with what the bindings of a language add to it.
struct CondCall {
  Tensor pred;
  PureFunction true_fn, false_fn;
  std::vector<Tensor> operands;
  // In a capture, after both have run: how their results differ in more than tensors. Empty: they do not.
  std::function<std::string()> mismatch = {};
  bool taken = false;  // set by run: true_fn was
};
STRATA_API std::vector<Tensor> run(CondCall& call);
STRATA_API bool is_capturing();  // whether the calls of this thread become nodes of a graph
}  // namespace graph

}  // namespace strata
