#include "engine/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "autograd/autograd.h"
#include "compile/capture.h"
#include "compile/passes.h"
#include "strata/ops.h"
#include "tensor/device.h"
#include "tensor/generator.h"

namespace strata::engine {
namespace {

using Point = std::vector<int64_t>;  // the sizes of the dimensions that vary

// The dimensions that vary, and where they are.
struct Varying {
  std::vector<graph::Graph::Dim> dims = {};
  std::vector<graph::Axis> axes = {};

  // `together`: sizes of one axis with the same limits are one.
  Varying(const std::vector<Input>& inputs, bool together) {
    std::map<std::vector<int64_t>, size_t> known;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t axis = 0; axis < inputs[i].opt.size(); ++axis) {
        const int64_t min = inputs[i].min[axis], max = inputs[i].max[axis];
        if (min == max) continue;
        const std::vector<int64_t> key = together
                                           ? std::vector<int64_t>{static_cast<int64_t>(axis), min, max}
                                           : std::vector<int64_t>{static_cast<int64_t>(i), static_cast<int64_t>(axis)};
        const auto [at, is_new] = known.emplace(key, dims.size());
        if (is_new) dims.push_back({fmt::format("s{}", dims.size()), min, max});
        axes.push_back({i, axis, at->second});
      }
  }
  // Where the program is followed: each size and up to three more in total.
  std::vector<Point> points() const {
    Point low;
    for (const auto& d : dims) low.push_back(std::max<int64_t>(d.min, 2));
    std::vector<Point> all = {low};
    Point steps(dims.size(), 0);
    const auto add = [&](auto&& self, size_t d, int left) -> void {
      if (d == dims.size()) {
        Point p = low;
        for (size_t k = 0; k < p.size(); ++k) p[k] += steps[k];
        if (p != low) all.push_back(p);
        return;
      }
      for (steps[d] = 0; steps[d] <= left; ++steps[d]) self(self, d + 1, left - static_cast<int>(steps[d]));
      steps[d] = 0;
    };
    add(add, 0, graph::kMaxDegree);
    return all;
  }
};

class Tracer {
 public:
  Tracer(const TensorFunction& program, const std::vector<Input>& inputs, Device device)
      : program_(program), inputs_(inputs), device_(device) {}

  graph::Graph run() {
    bool varies = false;
    for (const Input& i : inputs_) varies |= i.min != i.max;
    if (!varies) return follow({}, {});
    std::string reason = fmt::format("at most {} sizes can vary", graph::kMaxVarying);
    for (const bool together : {false, true}) {
      const Varying varying(inputs_, together);
      if (varying.dims.size() > graph::kMaxVarying) continue;
      for (const int64_t least : {1, 2}) try {  // many programs are the same for size 1
          return follow_all(varying, least);
        } catch (const Error& e) { reason = e.what(); }
    }
    fail(ErrorKind::Runtime, "engine: no graph for all these sizes: " + reason);
  }

 private:
  graph::Graph follow(const Varying* varying, const Point& point) {
    std::vector<Tensor> examples;
    graph::CaptureOptions options;
    options.composites = false;
    Generator generator(0);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<int64_t> shape = inputs_[i].opt;
      if (varying)
        for (const graph::Axis& a : varying->axes)
          if (a.input == i) shape[a.axis] = point[a.dim];
      const Tensor x = is_floating(inputs_[i].dtype)
                         ? to(randn(shape, &generator, TensorOptions(DType::F32)), inputs_[i].dtype)
                         : zeros(shape, TensorOptions(inputs_[i].dtype));
      examples.push_back(to(x, device_));
      options.input_names.push_back(inputs_[i].name.empty() ? fmt::format("input_{}", i) : inputs_[i].name);
    }
    const autograd::NoGrad off;
    return graph::capture(program_, examples, options);
  }
  graph::Graph follow_all(const Varying& varying, int64_t least) {
    std::vector<Point> points = varying.points();
    Point smallest;
    std::vector<graph::Graph::Dim> dims = varying.dims;
    for (auto& d : dims) {
      d.min = d.min == 0 ? 0 : std::max(d.min, least);
      smallest.push_back(d.min);
    }
    points.push_back(smallest);
    std::vector<graph::Graph> captures;
    captures.reserve(points.size());
    for (const Point& p : points) captures.push_back(follow(&varying, p));
    return graph::generalize(captures, points, dims, varying.axes);
  }

  const TensorFunction& program_;
  const std::vector<Input>& inputs_;
  Device device_;
};

}  // namespace

std::shared_ptr<const Network> trace(const TensorFunction& program, const std::vector<Input>& inputs, Device device) {
  for (const Input& i : inputs) {
    bool ordered = i.min.size() == i.opt.size() && i.opt.size() == i.max.size();
    for (size_t d = 0; ordered && d < i.opt.size(); ++d)
      ordered = 0 <= i.min[d] && i.min[d] <= i.opt[d] && i.opt[d] <= i.max[d];
    STRATA_CHECK(ordered, Value,
                 "engine: an input with the sizes {}, {} and {}; expected as many sizes with min <= opt <= max",
                 strata::to_string(Shape(i.min)), strata::to_string(Shape(i.opt)), strata::to_string(Shape(i.max)));
  }
  graph::Graph g = Tracer(program, inputs, require_available(device)).run();
  graph::remove_unused(g);
  const autograd::NoGrad off;
  for (graph::Graph::State& s : g.states) s.tensor = clone(s.tensor);  // the program may change its weights
  return std::make_shared<GraphNetwork>(std::move(g), device);
}

}  // namespace strata::engine
