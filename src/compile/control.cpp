#include "compile/control.h"

#include <fmt/core.h>

#include <algorithm>

#include "autograd/autograd.h"
#include "base/interrupt.h"
#include "compile/recorder.h"
#include "strata/ops.h"

namespace strata::graph {
namespace {

// What OpRecord::define() reads from a schema, without an entry in the registry.
OpRecord* described(const char* name, std::initializer_list<Param> params, std::initializer_list<Value> defaults) {
  auto* record = new OpRecord;  // never destroyed, as those of ops
  record->name = name;
  record->schema = record->name.c_str();
  record->params = params;
  for (const Value& v : defaults) record->defaults.v[record->defaults.size++] = v;
  record->positional = static_cast<uint32_t>(params.size());
  for (const Param& p : params)
    if (!p.has_default) ++record->required;
  record->outputs = 0;
  record->returns_list = true;
  record->takes_tensors = true;
  return record;
}
constexpr Param with_default(std::string_view name, ParamType type, bool optional = false) {
  return {.name = name, .type = type, .optional = optional, .has_default = true};
}

struct Records {
  const OpRecord* of[4] = {};
  Records() {
    using enum ParamType;
    of[1] = described("cond", {{"pred", ParamType::Tensor}, {"operands", Tensors}}, {{}, {}});
    of[2] = described(
      "while_loop",
      {{"carried", Tensors}, {"others", Tensors}, with_default("max_trips", Int, true), with_default("stacked", Int)},
      {{}, {}, {}, int64_t{0}});
    of[3] = described("scan",
                      {{"init", Tensors},
                       {"xs", Tensors},
                       {"others", Tensors},
                       with_default("dim", Int),
                       with_default("reverse", Bool),
                       with_default("length", Int, true)},
                      {{}, {}, {}, int64_t{0}, false, {}});
  }
};
const Records& records() {
  static const Records all;
  return all;
}

// What carried values keep.
struct Kept {
  DType dtype;
  Device device;
  std::vector<int64_t> shape, strides;
  explicit Kept(const Tensor& t)
      : dtype(t.dtype()),
        device(t.device()),
        shape(t.sizes().begin(), t.sizes().end()),
        strides(t.strides().begin(), t.strides().end()) {}
  bool has_type_of(const Tensor& t) const {
    return t->dtype == dtype && t->device == device && std::ranges::equal(t.sizes(), shape);
  }
  ValueType type() const { return {dtype, device, shape, strides}; }
  bool has_layout_of(const Tensor& t) const {
    return std::ranges::equal(t.strides(), strides) || same_layout(type_of(*t), type());
  }
};
std::vector<Kept> kept(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

void check_types(const Tensors& next, const std::vector<Kept>& want, const char* what) {
  for (size_t k = 0; k < want.size(); ++k)
    STRATA_CHECK(want[k].has_type_of(next[k]), Value,
                 "{} returned {} for carried value {}, which is {}; carried values keep their dtype, shape and device",
                 what, to_string(type_of(*next[k])), k, to_string(want[k].type()));
}
void keep_layouts(Tensors& next, const std::vector<Kept>& want) {
  for (size_t k = 0; k < want.size(); ++k)
    if (!want[k].has_layout_of(next[k])) next[k] = clone_strided(next[k], IntList(want[k].strides));
}

}  // namespace

Control control_of(const OpRecord& op) {
  for (size_t k = 1; k < std::size(records().of); ++k)
    if (records().of[k] == &op) return static_cast<Control>(k);
  return Control::None;
}
const OpRecord& record_of(Control control) { return *records().of[static_cast<size_t>(control)]; }
const OpRecord* control_record(std::string_view name) {
  for (size_t k = 1; k < std::size(records().of); ++k)
    if (records().of[k]->name == name) return records().of[k];
  return nullptr;
}
const char* name_of_body(Control control, size_t body) {
  switch (control) {
    case Control::Cond: return body == 0 ? "true_fn" : "false_fn";
    case Control::While: return body == 0 ? "cond_fn" : "body_fn";
    case Control::Scan: return "combine_fn";
    case Control::None: break;
  }
  return "";
}

size_t list_of_others(Control control) {
  return control == Control::Cond ? kOperands : control == Control::While ? kLoopOthers : kScanOthers;
}
size_t first_of_others(const Node& n) {
  switch (control_of(*n.op)) {
    case Control::While: return list_of(n, kCarried).size();
    case Control::Scan: return list_of(n, kInit).size() + list_of(n, kXs).size();
    default: return 0;
  }
}
bool draws_random_numbers(const Node& n) {
  return n.op->random || std::ranges::any_of(n.bodies, [](const Graph& body) {
           return std::ranges::any_of(body.nodes, draws_random_numbers);
         });
}
bool decides_by_values(const Graph& graph) {
  bool decides = false;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node& n : g.nodes) {
      const Control control = control_of(*n.op);
      decides |= control == Control::Cond || control == Control::While;
    }
  });
  return decides;
}

bool truth_of(const Tensor& t, const char* what) {
  STRATA_CHECK(t.numel() == 1, Value, "{} has {} elements (shape {}); expected one, such as (x > 0).any()", what,
               t.numel(), strata::to_string(t.sizes()));
  const autograd::NoGrad off;
  return (t.dtype() == DType::Bool ? t : ne(t, 0)).item<bool>();
}

void check_carried(const Tensors& carried, const Tensors& results, const char* what) {
  STRATA_CHECK(results.size() >= carried.size(), Value,
               "{} returned {} tensors; expected one for each of {} carried values", what, results.size(),
               carried.size());
  check_types(results, kept(carried), what);
}
Tensor without_gaps(const Tensor& t) { return t->is_dense() ? t : clone(t); }

Tensors run_while(const std::function<bool(const Tensors&)>& go_on, const Function& body, Tensors carried, Trips trips,
                  const std::function<Tensors()>& no_rows) {
  for (Tensor& t : carried) t = without_gaps(t);
  const std::vector<Kept> want = kept(carried);
  std::vector<Tensors> rows(trips.stacked);
  for (int64_t trip = 0; (!trips.max || trip < *trips.max) && go_on(carried); ++trip) {
    poll_interrupt();
    Tensors next = body(std::move(carried));
    STRATA_CHECK(next.size() == want.size() + trips.stacked, Value,
                 "while_loop: body_fn returned {} tensors; expected {}, one for each carried value{}", next.size(),
                 want.size() + trips.stacked, trips.stacked ? ", and the stacked results" : "");
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(std::move(next[want.size() + k]));
    next.resize(want.size());
    check_types(next, want, "while_loop: body_fn");
    keep_layouts(next, want);
    carried = std::move(next);
  }
  if (trips.stacked == 0) return carried;
  if (rows[0].empty()) std::ranges::move(no_rows(), std::back_inserter(carried));
  else
    for (const Tensors& r : rows) carried.push_back(stack(r));
  return carried;
}

Tensors run_scan(const Function& combine, Tensors init, const Tensors& xs, Steps steps,
                 const std::function<Tensors()>& no_rows) {
  for (Tensor& t : init) t = without_gaps(t);
  const std::vector<Kept> want = kept(init);
  std::vector<Tensors> slices, rows;
  for (const Tensor& x : xs)
    slices.push_back(unbind(contiguous(steps.dim == 0 ? x : movedim(x, {steps.dim}, {int64_t{0}}))));
  std::vector<Kept> row_types;
  for (int64_t step = 0; step < steps.count; ++step) {
    poll_interrupt();
    const auto at = static_cast<size_t>(steps.reverse ? steps.count - 1 - step : step);
    Tensors given = std::move(init);
    for (Tensors& s : slices) given.push_back(std::move(s[at]));
    Tensors next = combine(std::move(given));
    const size_t most = want.size();
    STRATA_CHECK(next.size() >= most && (step == 0 || next.size() == most + rows.size()), Value,
                 "scan: combine_fn returned {} tensors; expected {} carried values and {}", next.size(), most,
                 step ? fmt::format("{} results, as in its first call", rows.size()) : "the results of the step");
    Tensors results(next.begin() + static_cast<ptrdiff_t>(most), next.end());
    next.resize(most);
    if (step == 0) {
      row_types = kept(results);
      rows.resize(results.size());
    }
    for (size_t k = 0; k < results.size(); ++k) {
      STRATA_CHECK(row_types[k].has_type_of(results[k]), Value,
                   "scan: result {} of combine_fn is {}; it was {} in the first call", k,
                   to_string(type_of(*results[k])), to_string(row_types[k].type()));
      STRATA_CHECK(steps.dim <= results[k].dim(), Index,
                   "scan: result {} of combine_fn has {} dimensions; it cannot be stacked along dimension {}", k,
                   results[k].dim(), steps.dim);
      rows[k].push_back(std::move(results[k]));
    }
    check_types(next, want, "scan: combine_fn");
    keep_layouts(next, want);
    init = std::move(next);
  }
  if (steps.count == 0) std::ranges::move(no_rows(), std::back_inserter(init));
  for (Tensors& r : rows) {
    if (steps.reverse) std::ranges::reverse(r);
    init.push_back(stack(r, steps.dim));
  }
  return init;
}

void add_storages(std::set<const Storage*>& storages, const Tensors& tensors) {
  for (const Tensor& t : tensors)
    if (t->storage) storages.insert(t->storage.get());
}
void copy_shared(Tensors& results, std::set<const Storage*> outside) {
  for (Tensor& t : results)
    if (!t->storage || !covers_its_storage(*t) || !outside.insert(t->storage.get()).second) t = clone(t);
}

}  // namespace strata::graph
