#include "system/explain/layers.h"

#include <fmt/core.h>

#include <hwy/targets.h>
#include <algorithm>

#include "base/parallel.h"
#include "cuda/runtime/runtime.h"
#include "record/formula.h"
#include "system/devices/devices.h"

namespace strata::journey {
namespace {
namespace key = tracing::key;
using tracing::Event, tracing::Recording;

constexpr tracing::Key kThreads{"threads", tracing::Key::Kind::Integer}, kPieces{"pieces", tracing::Key::Kind::Integer};

std::string bytes_text(double n) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int step = 0;
  for (; n >= 1000 && step < 4; ++step) n /= 1000;
  return fmt::format("{:.3g} {}", n, kUnits[step]);
}
std::string joined(const std::vector<std::string>& words, const char* between = ", ") {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : between) + w;
  return text;
}
// "1 block", "3 blocks"
std::string many(int64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

// The instruction set of the SIMD kernels on this machine.
const char* simd_target() {
  const int64_t have = hwy::SupportedTargets();
  return have & HWY_AVX3 ? "AVX-512" : have & HWY_AVX2 ? "AVX2" : have & HWY_NEON ? "NEON" : "baseline";
}

std::vector<std::string> tensors(const Recording& r, const Event& e, const tracing::Key& wanted) {
  std::vector<std::string> all;
  for (const tracing::Fact& f : r.facts(e))
    if (*f.key == wanted) {
      std::string sizes;
      for (const int64_t n : f.sizes) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", n);
      all.push_back(fmt::format("{}[{}]", f.text, sizes));
    }
  return all;
}

std::string params_of(const OpRecord& op, uint32_t mask) {
  std::vector<std::string> names;
  for (size_t i = 0; i < op.params.size() && i < 32; ++i)
    if (mask >> i & 1) names.emplace_back(op.params[i].name);
  return joined(names);
}

const char* kind_of(const OpRecord& op) {
  return op.composite_fn ? "a composite: made of other ops"
         : op.view_fn    ? "a view: shares the memory of its input"
         : op.formulas   ? "pointwise: one formula for every element"
                         : "with its own kernels";
}

}  // namespace

Describer::Describer(const tracing::Trace& trace, std::string device)
    : trace_(trace), recording_(trace.recording()), device_(std::move(device)) {}

double Describer::us(uint32_t event) const {
  const Event& e = recording_.events[event];
  return static_cast<double>(e.end_ns - e.begin_ns) / 1e3;
}

Layer Describer::call(const Seen& s) const {
  Layer l{"call", "from C++: strata::call(record, arguments)", {}, {}};
  if (s.backward >= 0) {
    l.text =
      fmt::format("the backward engine, at the step of {}", recording_.events[static_cast<size_t>(s.backward)].name);
    l.us = us(static_cast<uint32_t>(s.backward));
  } else if (s.python >= 0) {
    const Event& e = recording_.events[static_cast<size_t>(s.python)];
    l.us = us(static_cast<uint32_t>(s.python));
    if (const char* file = recording_.text(e, key::file)) {
      l.text = fmt::format("{}:{} in {}", file, recording_.integer(e, key::line, 0), recording_.text(e, key::function));
      l.facts = {{"file", file},
                 {"line", fmt::format("{}", recording_.integer(e, key::line, 0))},
                 {"function", recording_.text(e, key::function)}};
    } else {
      l.text = "from Python";
    }
  } else if (s.depth > 0) {
    l.text = "the op around this one";
  }
  return l;
}

Layer Describer::binding(const Seen& s) const {
  Layer l{"binding", "", {}, {}};
  const OpRecord& op = *s.record;
  std::vector<std::string> names{"strata." + op.name};
  for (const char* alias : op.aliases) names.push_back(std::string("strata.") + alias);
  if (op.method && !op.internal && !op.params.empty()) names.push_back("Tensor." + op.name);
  if (op.name == "add" || op.name == "sub" || op.name == "mul" || op.name == "div" || op.name == "matmul")
    names.emplace_back(op.name == "add"   ? "+"
                       : op.name == "sub" ? "-"
                       : op.name == "mul" ? "*"
                       : op.name == "div" ? "/"
                                          : "@");
  l.facts = {{"python names", joined(names)}};
  if (s.python < 0) {
    l.text = "none: the caller is C++";
    return l;
  }
  l.us = us(static_cast<uint32_t>(s.python)) - us(s.span);
  l.text = "puts the arguments into an array on the stack, and makes a Python object of the result";
  return l;
}

Layer Describer::record(const Seen& s) const {
  const OpRecord& op = *s.record;
  const Event& e = recording_.events[s.span];
  Layer l{"record", op.schema ? op.schema : op.name, {}, {}};
  const std::string_view doc = op.text;
  l.facts.push_back({"doc", std::string(doc.substr(0, doc.find('\n')))});
  l.facts.push_back({"kind", kind_of(op)});
  l.facts.push_back({"inputs", joined(tensors(recording_, e, key::input))});
  std::vector<std::string> results;
  for (const uint32_t k : s.kernels)
    for (std::string& t : tensors(recording_, recording_.events[k], key::output)) results.push_back(std::move(t));
  if (!results.empty()) l.facts.push_back({"results", joined(results)});
  l.facts.push_back({"dtype and shape", op.composite_fn ? "by the ops inside"
                                        : op.formulas ? "promotion of the inputs' dtypes, broadcasting of their shapes"
                                        : op.view_fn
                                          ? "the dtype of the input; shape and strides by the rule of the view"
                                          : "by the shape rule of the record"});
  l.us = us(s.span);
  return l;
}

Layer Describer::autograd(const Seen& s) const {
  const OpRecord& op = *s.record;
  Layer l{"autograd", "", {}, {}};
  const int64_t node = recording_.integer(recording_.events[s.span], key::node, 0);
  if (node > 0) {
    l.text = fmt::format("recorded as node {}", node);
    l.facts.push_back({"node", fmt::format("{}", node)});
    std::string saved = params_of(op, op.saved_inputs);
    if (op.saved_outputs) saved += saved.empty() ? "the result" : " and the result";
    l.facts.push_back({"saves", saved.empty() ? "shapes only" : saved});
  } else if (s.backward >= 0) {
    const Event& step = recording_.events[static_cast<size_t>(s.backward)];
    l.text = fmt::format("not recorded: it is part of the gradient of {}, node {}", step.name,
                         recording_.integer(step, key::node, 0));
  } else {
    l.text = op.composite_fn ? "the ops inside are recorded, not the composite"
             : s.depth > 0   ? "not recorded: the op around it has its own gradient, or no input requires one"
             : op.grad_fn    ? "not recorded: no input requires a gradient, or recording is off"
             : op.view_fn    ? "not recorded: no input requires a gradient"
                             : "the op has no gradient";
  }
  return l;
}

Layer Describer::kernels(const Seen& s) const {
  Layer l{"kernels", "", {}, {}, 0};
  for (const uint32_t c : s.choices) {
    const Event& e = recording_.events[c];
    l.us += us(c);
    const char* chosen = recording_.text(e, key::kernel);
    if (chosen) {
      l.text += (l.text.empty() ? "" : ", then ") + std::string(chosen);
      l.facts.push_back({"chosen", chosen});
    }
    if (const auto all = asked.find(c); all != asked.end()) {
      for (const auto& line : all->second)
        l.lines.push_back(fmt::format("{} ({}): {}", line.kernel->name, facts_of(*line.kernel), verdict(line)));
      continue;
    }
    for (const tracing::Fact& f : recording_.facts(e))
      if (*f.key == key::rejected) l.lines.emplace_back(f.text);
    if (chosen) l.lines.push_back(fmt::format("{}: chosen", chosen));
  }
  if (s.choices.empty())
    for (const uint32_t k : s.kernels) {
      l.text += (l.text.empty() ? "" : ", then ") + std::string(recording_.events[k].name);
      l.lines.push_back(fmt::format("{}: the only one for these arguments", recording_.events[k].name));
    }
  return l;
}

Layer Describer::memory(const Seen& s) const {
  Layer l{"memory", "", {}, {}, 0};
  if (s.allocations.empty()) {
    l.text = "no new memory: the result is written into memory that exists";
    l.us = -1;
    return l;
  }
  int64_t all = 0, reused = 0;
  for (const uint32_t a : s.allocations) {
    const Event& e = recording_.events[a];
    l.us += us(a);
    const int64_t bytes = recording_.integer(e, key::bytes, 0), address = recording_.integer(e, key::address, 0);
    const bool hit = recording_.integer(e, key::pool_hit, 0) != 0;
    all += bytes;
    reused += hit;
    // The op that had the same block before, in this recording.
    std::string before;
    int64_t latest = INT64_MIN;
    if (hit && address)
      for (size_t i = 0; i < recording_.events.size(); ++i) {
        const Event& o = recording_.events[i];
        if (o.layer != tracing::Layer::Runtime || std::string_view(o.name) != "allocate" || o.begin_ns >= e.begin_ns ||
            o.begin_ns < latest || recording_.integer(o, key::address, 0) != address)
          continue;
        latest = o.begin_ns;
        before.clear();
        for (int32_t p = trace_.parent(i); p >= 0 && before.empty(); p = trace_.parent(static_cast<size_t>(p)))
          if (recording_.events[static_cast<size_t>(p)].layer == tracing::Layer::Op)
            before = fmt::format(", which an earlier {} had", recording_.events[static_cast<size_t>(p)].name);
      }
    std::string from = hit ? "a cached block" + before : "new";
    if (!hit) {
      std::vector<std::string> calls;
      for (const uint32_t d : s.driver)
        for (int32_t p = trace_.parent(d); p >= 0; p = trace_.parent(static_cast<size_t>(p)))
          if (p == static_cast<int32_t>(a)) calls.emplace_back(recording_.events[d].name);
      from += calls.empty() ? on_device(s) ? "" : ", from the system" : ", from " + joined(calls);
    }
    l.lines.push_back(fmt::format("{}: {}", bytes_text(static_cast<double>(bytes)), from));
  }
  l.text = fmt::format("{} for results and workspace, {} of {} from the cache", bytes_text(static_cast<double>(all)),
                       reused, many(static_cast<int64_t>(s.allocations.size()), "block"));
  l.facts.push_back({"bytes", fmt::format("{}", all)});
  return l;
}

Layer Describer::launch(const Seen& s) const {
  Layer l{"launch", "", {}, {}, 0};
  int64_t results = 0;
  for (const uint32_t k : s.kernels)
    for (const tracing::Fact& f : recording_.facts(recording_.events[k]))
      if (*f.key == key::output) {
        int64_t n = 1;
        for (const int64_t size : f.sizes) n *= size;
        results += n;
      }
  const cuda::Properties* p = nullptr;
  if (const Device d = device_from_name(device_); d.type == DeviceType::Cuda || d.type == DeviceType::Vgpu)
    p = &cuda::Runtime::gpu(d).properties;
  for (const LaunchSeen& seen : s.launches) {
    const Event& e = recording_.events[seen.span];
    l.us += us(seen.span);
    const auto n = [&](const tracing::Key& k) { return recording_.integer(e, k, 0); };
    const int64_t blocks = n(key::grid_x) * n(key::grid_y) * n(key::grid_z),
                  threads = n(key::block_x) * n(key::block_y) * n(key::block_z);
    double occupancy = 0;
    for (const tracing::Fact& f : recording_.facts(e))
      if (*f.key == key::occupancy) occupancy = f.number;
    const char* kernel = recording_.text(e, key::kernel);
    if (!kernel) {
      l.lines.push_back(fmt::format("{}: the library chooses its kernels, grid and block", e.name));
      continue;
    }
    l.lines.push_back(fmt::format(
      "{}: grid {}x{}x{}, block {}x{}x{}, {} bytes of shared memory, {} registers a thread, occupancy {:.0f}%", kernel,
      n(key::grid_x), n(key::grid_y), n(key::grid_z), n(key::block_x), n(key::block_y), n(key::block_z), n(key::shared),
      n(key::registers), 100 * occupancy));
    std::string why =
      fmt::format("  {} of {} for {}", many(blocks, "block"), many(threads, "thread"), many(results, "result"));
    if (blocks > 0 && threads > 0 && results > 0)
      why += fmt::format(", {:.3g} a thread", static_cast<double>(results) / static_cast<double>(blocks * threads));
    if (p && p->multiprocessors > 0 && occupancy > 0 && threads > 0) {
      const double each = std::max(1.0, occupancy * p->max_threads_per_multiprocessor / static_cast<double>(threads));
      const double waves = static_cast<double>(blocks) / (each * p->multiprocessors);
      why += waves < 1 ? fmt::format("; they fill {:.0f}% of {} multiprocessors with room for {:.0f} each", 100 * waves,
                                     p->multiprocessors, each)
                       : fmt::format("; {:.1f} waves on {} multiprocessors with room for {:.0f} each", waves,
                                     p->multiprocessors, each);
    }
    if (seen.counters && *seen.counters->occupancy.limiter)
      why += fmt::format(", limited by {}", seen.counters->occupancy.limiter);
    l.lines.push_back(why);
    if (l.facts.empty())
      l.facts = {{"kernel", kernel},
                 {"grid", fmt::format("{}x{}x{}", n(key::grid_x), n(key::grid_y), n(key::grid_z))},
                 {"block", fmt::format("{}x{}x{}", n(key::block_x), n(key::block_y), n(key::block_z))},
                 {"shared_bytes", fmt::format("{}", n(key::shared))},
                 {"registers", fmt::format("{}", n(key::registers))},
                 {"occupancy", fmt::format("{:.3g}", occupancy)}};
  }
  l.text = many(static_cast<int64_t>(s.launches.size()), "kernel") + " on " + device_;
  return l;
}

Layer Describer::loops(const Seen& s) const {
  Layer l{"launch", "", {}, {}};
  bool own = false;
  for (const uint32_t k : s.kernels) {
    const char* source = recording_.text(recording_.events[k], key::source);
    own |= source && std::string_view(source) == "own";
  }
  l.facts.push_back({"SIMD target", simd_target()});
  if (!own) {
    l.text = fmt::format("the library's own loops and threads; {} processors", hardware_threads());
    return l;
  }
  if (s.loops.empty()) {
    l.text =
      fmt::format("one piece on the calling thread: too little work to share among {}", many(num_threads(), "thread"));
    l.facts.push_back({"threads", "1"});
    l.facts.push_back({"pieces", "1"});
  }
  for (const uint32_t i : s.loops) {
    const Event& e = recording_.events[i];
    const int64_t threads = recording_.integer(e, kThreads, 1), pieces = recording_.integer(e, kPieces, 1);
    if (l.text.empty()) {
      l.text = fmt::format("{} on {}", many(pieces, "piece"), many(threads, "thread"));
      l.facts.push_back({"threads", fmt::format("{}", threads)});
      l.facts.push_back({"pieces", fmt::format("{}", pieces)});
    }
    l.lines.push_back(
      fmt::format("{}: {} on {}, {:.2f} us", e.name, many(pieces, "piece"), many(threads, "thread"), us(i)));
  }
  return l;
}

Layer Describer::driver(const Seen& s) const {
  Layer l{"driver", "", {}, {}, 0};
  for (const uint32_t d : s.driver) {
    l.us += us(d);
    l.lines.push_back(fmt::format("{}  {:.2f} us", recording_.events[d].name, us(d)));
  }
  l.text = many(static_cast<int64_t>(s.driver.size()), "call") + " in order";
  return l;
}

double Describer::copy_us(double bytes) {
  const auto rounded = static_cast<int64_t>(bytes);
  auto [at, fresh] = copies_.try_emplace(rounded, 0);
  if (fresh) at->second = 1e6 * static_cast<double>(rounded) / devices::copy_rate(device_from_name(device_), rounded);
  return at->second;
}

Layer Describer::cost(const Seen& s) {
  Layer l{"cost", "", {}, {}};
  double host = 0, device = 0, bytes = 0, flops = 0;
  bool timed = true;
  for (const uint32_t k : s.kernels) {
    host += us(k);
    bytes += static_cast<double>(recording_.integer(recording_.events[k], key::bytes, 0));
    flops += static_cast<double>(trace_.flops(k));
  }
  double estimated = 0;
  const char* bound = "";
  for (const LaunchSeen& seen : s.launches) {
    if (seen.device >= 0) device += us(static_cast<uint32_t>(seen.device));
    else timed = false;
    if (!seen.counters) continue;
    const cuda::vgpu::Counters& c = *seen.counters;
    estimated += 1e6 * c.estimated.seconds;
    bound = c.estimated.bound;
    l.lines.push_back(fmt::format(
      "{}: {} warps, {} warp instructions, SIMT efficiency {:.0f}%, {} requests of {:.3g} sectors, bound by {}",
      c.kernel, c.warps, c.warp_instructions, 100 * c.simt_efficiency(), c.global_requests, c.sectors_per_request(),
      c.estimated.bound));
  }
  const bool on_gpu = !s.launches.empty();
  const double time = estimated > 0 ? estimated : on_gpu && timed ? device : host;
  l.us = time;
  l.facts.push_back({"bytes", fmt::format("{:.0f}", bytes)});
  if (flops > 0) l.facts.push_back({"flops", fmt::format("{:.0f}", flops)});
  const char* clock = estimated > 0     ? "estimated for the GPU of the profile"
                      : on_gpu && timed ? "on the device"
                                        : "on the CPU";
  l.text = fmt::format("{:.2f} us {}, {} of memory traffic at least", time, clock, bytes_text(bytes));
  if (time <= 0 || bytes <= 0) return l;
  l.text += fmt::format(", {}/s", bytes_text(1e6 * bytes / time));
  if (estimated > 0) {
    l.facts.push_back({"bound", bound});
    return l;
  }
  const double copy = copy_us(bytes);
  double floor = copy;
  l.lines.push_back(
    fmt::format("a copy of as many bytes takes {:.2f} us: {:.0f}% of the speed of memory", copy, 100 * copy / time));
  if (flops > 8 * bytes) {
    if (product_rate_ < 0) product_rate_ = devices::product_rate(device_from_name(device_), DType::F32);
    const double product = 1e6 * flops / product_rate_;
    floor = std::max(floor, product);
    l.lines.push_back(
      fmt::format("{:.3g} GFLOP at {:.3g} TFLOP/s; a large float32 product reaches {:.3g}: {:.0f}% of it", flops / 1e9,
                  flops / time / 1e6, product_rate_ / 1e12, 100 * product / time));
  }
  const bool by_launch = time < 2 && us(s.span) > 2 * time;
  l.facts.push_back({"bound", by_launch ? "launch" : floor > copy ? "compute" : "memory"});
  l.facts.push_back({"of the roofline", fmt::format("{:.0f}%", 100 * std::min(1.0, floor / time))});
  return l;
}

Step Describer::describe(const Seen& s) {
  Step step;
  step.op = recording_.events[s.span].name;
  step.direction = s.backward >= 0 ? "backward" : "forward";
  step.depth = s.depth;
  step.us = us(s.span);
  step.layers.push_back(call(s));
  if (!s.record) return step;  // an op of the user, without a record
  if (s.depth == 0 && s.backward < 0) step.layers.push_back(binding(s));
  step.layers.push_back(record(s));
  step.layers.push_back(autograd(s));
  if (s.kernels.empty()) return step;
  step.layers.push_back(kernels(s));
  step.layers.push_back(memory(s));
  if (!s.launches.empty()) {
    step.layers.push_back(launch(s));
  } else if (!on_device(s)) {
    step.layers.push_back(loops(s));
  }
  if (on_device(s)) step.layers.push_back(driver(s));
  if (Layer l = code(s); !l.text.empty()) step.layers.push_back(std::move(l));
  step.layers.push_back(cost(s));
  return step;
}

}  // namespace strata::journey
