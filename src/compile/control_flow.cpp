// Control flow in a program: eager calls, and in a capture one node with the graphs of its functions.
#include "compile/control_flow.h"

#include <fmt/core.h>

#include <algorithm>

#include "autograd/autograd.h"
#include "autograd/node.h"
#include "compile/recorder.h"
#include "strata/ops.h"
#include "tensor/generator.h"

namespace strata {
namespace graph {
namespace {

// What the functions draw that a program would not have called is put back.
class Rewound {
 public:
  Rewound() = default;
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;
  ~Rewound() { default_generator().set_state(state_); }

 private:
  const Generator::State state_ = default_generator().state();
};

void check_defined(const Tensors& tensors, const char* what) {
  for (size_t i = 0; i < tensors.size(); ++i) STRATA_CHECK(tensors[i], Type, "{} {} is an undefined tensor", what, i);
}

Tensors call_purely(const PureFunction& f, const Tensors& given, const char* what) {
  std::vector<uint32_t> versions;
  versions.reserve(given.size());
  for (const Tensor& t : given) versions.push_back(t->version());
  Tensors results = f(given);
  for (size_t i = 0; i < given.size(); ++i)
    STRATA_CHECK(given[i]->version() == versions[i], Runtime,
                 "{} writes to its argument {} in place; it must return the new value instead", what, i);
  check_defined(results, what);
  return results;
}

// Whether a tensor was made since then: nobody else holds it, or the tape says so.
bool is_new(const Tensor& t, uint64_t first_order) {
  const TensorImpl& root = t->base ? *t->base : *t;
  if (const strata::Node* n = node_of(root); n && n->order >= first_order) return true;
  if (t->storage && t->storage->external && t.is_cpu()) return false;  // of NumPy and others
  const int32_t own = t->base ? 2 : 1;
  return t->refs.load() == 1 && root.refs.load() == 1 && t->storage && t->storage->refs.load() == own;
}
// The results of an eager call: memory of their own.
Tensors own_results(Tensors results, const Tensors& given, uint64_t first_order) {
  for (Tensor& t : results)
    if (!is_new(t, first_order)) t = clone(t);
  std::set<const Storage*> outside;
  add_storages(outside, given);
  copy_shared(results, std::move(outside));
  return results;
}
uint64_t order_now() { return thread_state.grad_mode ? next_order() : UINT64_MAX; }

// Sees the calls of an eager loop in a capture, and notes the memory that they make.
class Collector final : public Observer {
 public:
  explicit Collector(InnerMemory& memory) : memory_(memory) { inside_composites = Inside::Always; }
  void before(const OpRecord&, Form, const Args&, const Tensor*) override {}
  void after(const OpRecord& op, const Tensor* outs, size_t count) override {
    if (op.view_fn) return;
    for (size_t k = 0; k < count; ++k)
      if (outs[k] && outs[k]->storage) memory_.add(outs[k]->storage);
  }
  void failed() override {}
  void copies(const TensorImpl&, const TensorImpl& to) override { memory_.add(to.storage); }
  void reads(const Storage*, const char*) override {}
  void looks_at_grad(const TensorImpl&) override {}
  void sets_generator() override {}

 private:
  InnerMemory& memory_;
};

// In a program that is captured. No recorder sees what is called here.
class Capturing {
 public:
  Capturing(Recorder& recorder, Control control)
      : recorder_(recorder), hidden_(nullptr), record_(record_of(control)), first_order_(next_order()) {
    attempt([&] { node_ = recorder.begin(record_); });
  }
  ~Capturing() { recorder_.add_control(first_order_, next_order(), memory_); }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  std::vector<ValueId> values_of(const Tensors& tensors) const {
    std::vector<ValueId> ids;
    for (const Tensor& t : tensors) ids.push_back(recorder_.value_for_use(*t));
    return ids;
  }
  Recorder& recorder() const { return recorder_; }
  Node& node() { return node_; }
  bool holds() const { return !recorder_.lenient() || recorder_.refused().empty(); }

  // Runs f, which may throw if the capture is strict. Otherwise the program goes on without a graph.
  template <class F> void attempt(const F& f) {
    if (!recorder_.lenient()) return f();
    if (!holds()) return;
    try {
      f();
    } catch (const std::exception& e) {
      recorder_.refuse(fmt::format("has a {} that no graph can hold: {}", record_.name, e.what()));
    }
  }
  Recorder::Part trace(const char* what, const PureFunction& f, const Tensors& inputs,
                       const std::vector<ValueId>& ids) {
    Recorder::Part part = recorder_.trace(
      what, [&](const Tensors& given) { return call_purely(f, given, what); }, inputs, ids);
    memory_.add(part.inside);
    STRATA_CHECK(part.objection.empty(), NotImplemented, "{}", part.objection);
    return part;
  }
  // Gives all bodies the same inputs: those of the node, then what any of them uses besides. Returns the values of these.
  std::vector<ValueId> join(std::initializer_list<Recorder::Part*> parts) {
    std::vector<ValueId> all;
    for (const Recorder::Part* p : parts)
      for (const ValueId id : p->others)
        if (std::ranges::find(all, id) == all.end()) all.push_back(id);
    for (Recorder::Part* p : parts) {
      Graph& g = p->graph;
      const std::vector<ValueId> own(g.inputs.end() - static_cast<ptrdiff_t>(p->others.size()), g.inputs.end());
      g.inputs.resize(g.inputs.size() - own.size());
      for (const ValueId id : all) {
        const auto found = std::ranges::find(p->others, id);
        g.inputs.push_back(found != p->others.end() ? own[static_cast<size_t>(found - p->others.begin())]
                                                    : recorder_.unused_input(g, id));
      }
      node_.bodies.push_back(std::move(g));
    }
    return all;
  }
  // Runs a loop eagerly.
  template <class F> Tensors run(const F& f) {
    Collector collector(memory_);
    const ObservedInstead seen(&collector);
    return f();
  }
  void add(const Tensors& results) { recorder_.add(std::move(node_), results); }

 private:
  Recorder& recorder_;
  const ObservedInstead hidden_;
  const OpRecord& record_;
  const uint64_t first_order_;
  InnerMemory memory_;
  Node node_;
};

Recorder* current_recorder() {
  auto* recorder = dynamic_cast<Recorder*>(current_observer());
  return recorder && (!recorder->lenient() || recorder->refused().empty()) ? recorder : nullptr;
}

// Memory of their own for the arguments of a loop's functions, so that tensors from outside are not taken for them.
Tensors stand_ins(const Tensors& tensors) {
  const autograd::NoGrad off;
  Tensors copies;
  for (const Tensor& t : tensors) {
    copies.push_back(clone(t.requires_grad() ? detach(t) : t));
    if (t.requires_grad()) copies.back().set_requires_grad();
  }
  return copies;
}
// Traces a loop's function. What becomes part of the tape in some trip is so in all trips of the graph.
Recorder::Part trace_body(Capturing& capturing, const char* what, const PureFunction& f, Tensors& inputs,
                          const std::vector<ValueId>& ids, size_t carried) {
  for (;;) {
    Recorder::Part part = capturing.trace(what, f, inputs, ids);
    bool more = false;
    for (size_t k = 0; k < std::min(carried, part.outputs.size()); ++k)
      if (part.outputs[k].requires_grad() && !inputs[k].requires_grad()) {
        inputs[k].set_requires_grad();
        more = true;
      }
    if (!more) return part;
  }
}

// One element of a dimension less, which has the type of the slices of x.
Tensor slice_like(const Tensor& x, int64_t dim) {
  const autograd::NoGrad off;
  const Tensor moved = movedim(x.requires_grad() ? detach(x) : x, {dim}, {int64_t{0}});
  Tensor slice = moved.size(0) ? clone(contiguous(select(moved, 0, 0))) : zeros(moved.sizes().subspan(1), x.options());
  if (x.requires_grad()) slice.set_requires_grad();
  return slice;
}
// With no elements along a new dimension.
Tensor no_rows_of(const Tensor& row, int64_t dim) {
  std::vector<int64_t> shape(row.sizes().begin(), row.sizes().end());
  STRATA_CHECK(dim <= row.dim(), Index,
               "scan: a result of combine_fn has {} dimensions; it cannot be stacked along dimension {}", row.dim(),
               dim);
  shape.insert(shape.begin() + dim, 0);
  return zeros(shape, row.options());
}
// The stacked results of a loop that runs not once: its function is called to know their types.
Tensors rows_of_no_trips(const PureFunction& f, const Tensors& given, size_t carried, int64_t dim, const char* what) {
  const Rewound rewound;
  const autograd::NoGrad off;
  const Tensors results = call_purely(f, given, what);
  Tensors rows;
  for (size_t k = carried; k < results.size(); ++k) rows.push_back(no_rows_of(results[k], dim));
  return rows;
}

void check_branches(const Tensors& a, const Tensors& b) {
  STRATA_CHECK(a.size() == b.size(), Value, "cond: true_fn returned {} tensors, false_fn {}; they must return the same",
               a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    const ValueType x = type_of(*a[k]), y = type_of(*b[k]);
    STRATA_CHECK(x.dtype == y.dtype && x.shape == y.shape && x.device == y.device, Value,
                 "cond: result {} of true_fn is {}, that of false_fn {}; in a graph they must be the same", k,
                 to_string(x), to_string(y));
    STRATA_CHECK(same_layout(x, y), Value,
                 "cond: result {} of true_fn has strides {}, that of false_fn {}; in a graph they must be the same: "
                 "return x.contiguous()",
                 k, strata::to_string(Shape(x.strides.data(), x.strides.size())),
                 strata::to_string(Shape(y.strides.data(), y.strides.size())));
  }
}

Tensors capture_cond(Capturing& c, CondCall& call) {
  call.taken = truth_of(call.pred, "cond: pred");
  Tensors results[2];
  Recorder::Part parts[2];
  for (const bool branch : {true, false}) {  // always in this order, so that captures are alike
    const char* what = branch ? "cond: true_fn" : "cond: false_fn";
    const PureFunction& f = branch ? call.true_fn : call.false_fn;
    const size_t k = branch ? 0 : 1;
    const auto run = [&] {
      parts[k] = c.trace(what, f, call.operands, c.values_of(call.operands));
      results[k] = std::move(parts[k].outputs);
      std::set<const Storage*> outside = parts[k].outside;
      add_storages(outside, call.operands);
      copy_shared(results[k], std::move(outside));
    };
    const Generator::State before = default_generator().state();
    c.attempt(run);
    if (branch == call.taken && c.holds()) continue;
    default_generator().set_state(before);
    if (branch != call.taken) continue;
    const uint64_t first = order_now();
    results[k] = own_results(call_purely(f, call.operands, what), call.operands, first);
  }
  c.attempt([&] {
    check_branches(results[0], results[1]);
    if (call.mismatch)
      if (const std::string why = call.mismatch(); !why.empty()) fail(ErrorKind::Value, why);
    Node& n = c.node();
    ValueList operands{c.values_of(call.operands)};
    const ValueId pred = c.recorder().value_of(*call.pred);
    const std::vector<ValueId> others = c.join({&parts[0], &parts[1]});
    operands.ids.insert(operands.ids.end(), others.begin(), others.end());
    n.args = {ValueRef{pred}, std::move(operands)};
  });
  Tensors& taken = results[call.taken ? 0 : 1];
  if (c.holds()) c.add(taken);
  return std::move(taken);
}

using Predicate = std::function<Tensor(const Tensors&)>;

Tensors eager_while(const Predicate& cond_fn, const PureFunction& body_fn, const Tensors& carried,
                    const LoopOptions& options) {
  const uint64_t first = order_now();
  const auto go_on = [&](const Tensors& now) {
    const Tensors is =
      call_purely([&](const Tensors& given) { return Tensors{cond_fn(given)}; }, now, "while_loop: cond_fn");
    return truth_of(is[0], "while_loop: the result of cond_fn");
  };
  const auto body = [&](Tensors now) { return call_purely(body_fn, now, "while_loop: body_fn"); };
  const auto no_rows = [&] { return rows_of_no_trips(body_fn, carried, carried.size(), 0, "while_loop: body_fn"); };
  return own_results(run_while(go_on, body, carried, {options.max_trips, options.stacked}, no_rows), carried, first);
}
void capture_while(Capturing& c, const Predicate& cond_fn, const PureFunction& body_fn, const Tensors& carried,
                   const LoopOptions& options) {
  const Rewound rewound;
  const std::vector<ValueId> ids = c.values_of(carried);
  Tensors inputs = stand_ins(carried);
  Recorder::Part body = trace_body(c, "while_loop: body_fn", body_fn, inputs, ids, carried.size());
  Recorder::Part condition = c.trace(
    "while_loop: cond_fn", [&](const Tensors& given) { return Tensors{cond_fn(given)}; }, inputs, ids);
  truth_of(condition.outputs[0], "while_loop: the result of cond_fn");
  check_carried(carried, body.outputs, "while_loop: body_fn");
  STRATA_CHECK(body.outputs.size() == carried.size() + options.stacked, Value,
               "while_loop: body_fn returned {} tensors; expected {} carried and {} stacked ones", body.outputs.size(),
               carried.size(), options.stacked);
  const std::vector<ValueId> others = c.join({&condition, &body});
  c.node().args = {ValueList{ids}, ValueList{others}, Argument(), static_cast<int64_t>(options.stacked)};
  if (options.max_trips) c.node().args[kMaxTrips] = *options.max_trips;
}

Tensors eager_scan(const PureFunction& f, const Tensors& init, const Tensors& xs, const Steps& steps) {
  const uint64_t first = order_now();
  const auto combine = [&](Tensors given) { return call_purely(f, given, "scan: combine_fn"); };
  const auto no_rows = [&] {
    Tensors given = init;
    for (const Tensor& x : xs) given.push_back(slice_like(x, steps.dim));
    return rows_of_no_trips(f, given, init.size(), steps.dim, "scan: combine_fn");
  };
  Tensors given = init;
  given.insert(given.end(), xs.begin(), xs.end());
  return own_results(run_scan(combine, init, xs, steps, no_rows), given, first);
}
void capture_scan(Capturing& c, const PureFunction& f, const Tensors& init, const Tensors& xs, const Steps& steps) {
  const Rewound rewound;
  Tensors given = stand_ins(init);
  for (const Tensor& x : xs) given.push_back(slice_like(x, steps.dim));
  const std::vector<ValueId> carried = c.values_of(init), sliced = c.values_of(xs);
  std::vector<ValueId> ids = carried;
  ids.insert(ids.end(), sliced.begin(), sliced.end());
  Recorder::Part part = trace_body(c, "scan: combine_fn", f, given, ids, init.size());
  check_carried(init, part.outputs, "scan: combine_fn");
  const std::vector<ValueId> others = c.join({&part});
  c.node().args = {ValueList{carried}, ValueList{sliced}, ValueList{others}, steps.dim, steps.reverse, Argument()};
  if (xs.empty()) c.node().args[kLength] = steps.count;
}

}  // namespace

bool is_capturing() { return current_recorder(); }

Tensors run(CondCall& call) {
  STRATA_CHECK(call.pred, Type, "cond: pred is an undefined tensor");
  check_defined(call.operands, "cond: operand");
  if (Recorder* recorder = current_recorder()) {
    Capturing capturing(*recorder, Control::Cond);
    return capture_cond(capturing, call);
  }
  call.taken = truth_of(call.pred, "cond: pred");
  const uint64_t first = order_now();
  return own_results(call_purely(call.taken ? call.true_fn : call.false_fn, call.operands,
                                 call.taken ? "cond: true_fn" : "cond: false_fn"),
                     call.operands, first);
}

}  // namespace graph

std::vector<Tensor> cond(const Tensor& pred, const PureFunction& true_fn, const PureFunction& false_fn,
                         const std::vector<Tensor>& operands) {
  graph::CondCall call{.pred = pred, .true_fn = true_fn, .false_fn = false_fn, .operands = operands};
  return graph::run(call);
}

std::vector<Tensor> while_loop(const std::function<Tensor(const std::vector<Tensor>&)>& cond_fn,
                               const PureFunction& body_fn, const std::vector<Tensor>& carried,
                               const LoopOptions& options) {
  using namespace graph;
  STRATA_CHECK(!carried.empty(), Value, "while_loop: expected at least one carried tensor");
  check_defined(carried, "while_loop: carried value");
  Recorder* recorder = current_recorder();
  if (!recorder) return eager_while(cond_fn, body_fn, carried, options);
  Capturing capturing(*recorder, Control::While);
  capturing.attempt([&] { capture_while(capturing, cond_fn, body_fn, carried, options); });
  const Tensors results = capturing.run([&] { return eager_while(cond_fn, body_fn, carried, options); });
  if (capturing.holds()) capturing.add(results);
  return results;
}

std::vector<Tensor> scan(const PureFunction& combine_fn, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
                         const ScanOptions& options) {
  using namespace graph;
  check_defined(init, "scan: init");
  check_defined(xs, "scan: xs");
  STRATA_CHECK(!xs.empty() || options.length, Value, "scan: without xs, expected a length");
  Steps steps{.dim = options.dim, .reverse = options.reverse, .count = options.length.value_or(0)};
  for (size_t k = 0; k < xs.size(); ++k) {
    if (k == 0) steps.dim = normalize_dim(options.dim, xs[0].dim(), "scan");
    STRATA_CHECK(steps.dim < xs[k].dim(), Index, "scan: xs {} has {} dimensions; there is no dimension {}", k,
                 xs[k].dim(), steps.dim);
    if (k == 0 && !options.length) steps.count = xs[0].size(steps.dim);
    STRATA_CHECK(xs[k].size(steps.dim) == steps.count, Value, "scan: xs {} has size {} in dimension {}; expected {}", k,
                 xs[k].size(steps.dim), steps.dim, steps.count);
  }
  STRATA_CHECK(steps.count >= 0 && steps.dim >= 0, Value,
               "scan: the length is {} and dim {}; without xs neither may be negative", steps.count, steps.dim);
  Recorder* recorder = current_recorder();
  if (!recorder) return eager_scan(combine_fn, init, xs, steps);
  Capturing capturing(*recorder, Control::Scan);
  capturing.attempt([&] { capture_scan(capturing, combine_fn, init, xs, steps); });
  const Tensors results = capturing.run([&] { return eager_scan(combine_fn, init, xs, steps); });
  if (capturing.holds()) capturing.add(results);
  return results;
}

}  // namespace strata
