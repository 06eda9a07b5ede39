// Control flow as nodes of a graph: cond, while_loop and scan. Their records are no ops of the pipeline: they only describe the
// arguments, and what such a node computes is in its bodies.
//
//   node        arguments                                        bodies                        inputs of the bodies
//   cond        pred, [operands]                                 true_fn, false_fn             operands
//   while_loop  [carried], [others], max_trips, stacked          cond_fn, body_fn              carried, others
//   scan        [init], [xs], [others], dim, reverse, length     combine_fn                    carried, slices of xs, others
//
// A body uses nothing else from outside and writes to nothing outside. body_fn returns the next carried values, then `stacked` values
// of this trip; combine_fn the next carried values, then those that are stacked. Results never share memory with anything.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string_view>

#include "compile/graph.h"

namespace strata::graph {

enum class Control : uint8_t { None, Cond, While, Scan };
Control control_of(const OpRecord& op);
const OpRecord& record_of(Control control);
const OpRecord* control_record(std::string_view name);  // null: there is none
const char* name_of_body(Control control, size_t body);
constexpr size_t kMostNested = 32;  // bodies inside each other

// The places of arguments.
constexpr size_t kPred = 0, kOperands = 1;
constexpr size_t kCarried = 0, kLoopOthers = 1, kMaxTrips = 2, kStacked = 3;
constexpr size_t kInit = 0, kXs = 1, kScanOthers = 2, kScanDim = 3, kReverse = 4, kLength = 5;
inline const std::vector<ValueId>& list_of(const Node& n, size_t arg) { return std::get<ValueList>(n.args[arg]).ids; }
// The list of values that a pass may extend and shorten: inputs of all bodies that stay the same in a loop. They are the last.
size_t list_of_others(Control control);
size_t first_of_others(const Node& n);     // among the inputs of a body
bool draws_random_numbers(const Node& n);  // or a node in its bodies
// Whether a run reads values of tensors to decide what to call.
bool decides_by_values(const Graph& graph);

// --- the same loops for eager calls and for execution -----------------------------------------------------------------
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(Tensors)>;

// Whether the only element is not zero. Throws Value if there are several.
bool truth_of(const Tensor& t, const char* what);
struct Trips {
  std::optional<int64_t> max = {};
  size_t stacked = 0;
};
// The results, which may share memory with what is carried or with each other. `no_rows`: the stacked values of no trips.
Tensors run_while(const std::function<bool(const Tensors&)>& go_on, const Function& body, Tensors carried, Trips trips,
                  const std::function<Tensors()>& no_rows);
struct Steps {
  int64_t dim = 0;
  bool reverse = false;
  int64_t count = 0;
};
// `combine` gets what is carried and the slices of xs.
Tensors run_scan(const Function& combine, Tensors init, const Tensors& xs, Steps steps,
                 const std::function<Tensors()>& no_rows);
// The first of the results must have the dtypes, shapes and devices of what is carried.
void check_carried(const Tensors& carried, const Tensors& results, const char* what);
// Carried values keep the layout that they start with, which has no gaps.
Tensor without_gaps(const Tensor& t);

// Results that share memory with each other, with more than they show, or with one of these become copies.
void copy_shared(Tensors& results, std::set<const Storage*> outside);
void add_storages(std::set<const Storage*>& storages, const Tensors& tensors);

}  // namespace strata::graph
