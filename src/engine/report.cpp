#include "engine/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata::engine {
namespace {

using Json = nlohmann::ordered_json;

// Valid UTF-8, which JSON needs: other bytes become a replacement character.
std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

Json ports_json(const std::vector<Port>& ports) {
  Json list = Json::array();
  for (const Port& p : ports) {
    Json dims = Json::array();
    for (const Port::Dim& d : p.dims) {
      if (d.size >= 0) dims.push_back(d.size);
      else if (d.name.empty()) dims.push_back(nullptr);
      else dims.push_back(d.name);
    }
    list.push_back({{"name", p.name},
                    {"type", p.kind == onnx::TypeInfo::Kind::Tensor ? onnx::name_of(p.element) : "value"},
                    {"shape", p.has_shape ? dims : Json()},
                    {"optional", p.optional}});
  }
  return list;
}
Json profiles_json(const std::vector<OptimizationProfile>& profiles) {
  Json list = Json::array();
  for (const OptimizationProfile& p : profiles) {
    Json ranges = Json::object();
    for (const auto& [name, r] : p.ranges) ranges[name] = {{"min", r.min}, {"opt", r.opt}, {"max", r.max}};
    list.push_back(ranges);
  }
  return list;
}
double seconds_of(const LayerProfile& l) { return l.milliseconds / 1e3; }
double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }
double share(double rate, double peak) { return peak > 0 ? rate / peak : 0; }
double total_of(const std::vector<LayerProfile>& layers) {
  double total = 0;
  for (const LayerProfile& l : layers) total += l.milliseconds;
  return total;
}
// What limits the layer, as a share of the device's peak.
double share_of_peak(const LayerProfile& l, const Peaks& peaks) {
  const double flops = share(rate(l.flops, seconds_of(l)), peaks.flops),
               bytes = share(rate(static_cast<double>(l.bytes), seconds_of(l)), peaks.bytes);
  return std::min(1.0, std::max(flops, bytes));  // caches are faster than the memory
}
std::string kernel_text(const LayerProfile& l) {
  return l.kernel.empty() ? "(chosen in each run)" : l.kernel + " (" + l.source + ")";
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? '?' : c;
    }
  }
  return out;
}

std::string describe(const Engine& engine) {
  const BuilderConfig& c = engine.config();
  Json precisions = Json::array({"float32"});
  if (c.fp16) precisions.push_back("float16");
  if (c.bf16) precisions.push_back("bfloat16");
  if (c.int8) precisions.push_back("int8");
  int64_t bytes = 0;
  const auto weights = engine.network().weights();
  for (const auto& [name, t] : weights) bytes += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
  Json tactics = Json::object();
  for (const auto& [device, keys] : engine.tactics())
    for (const auto& [key, list] : keys) tactics[device][key] = list.size();
  return dump({{"device", strata::to_string(engine.device())},
               {"inputs", ports_json(engine.inputs())},
               {"outputs", ports_json(engine.outputs())},
               {"precisions", precisions},
               {"level", c.level},
               {"profiles", profiles_json(c.profiles)},
               {"nodes", engine.network().node_count()},
               {"ops", engine.network().op_counts()},
               {"weights", weights.size()},
               {"weight_bytes", bytes},
               {"tactics", tactics},
               {"constant_bytes", engine.constant_bytes()},
               {"graphs", engine.keys()}});
}

std::string describe(const Engine& engine, std::span<const onnx::Value> inputs) {
  engine.check_inputs(inputs);
  const auto s = engine.specialization(inputs);
  const std::string key = key_of(inputs);
  if (!s) return dump({{"key", key}, {"interpreted", engine.why_interpreted(key)}});
  Json decisions = Json::array();
  for (const Decision& d : s->decisions)
    decisions.push_back(
      {{"pass", d.pass}, {"where", d.where}, {"what", d.what}, {"applied", d.applied}, {"bytes", d.bytes}});
  size_t kinds[3] = {};
  for (const StepKind k : s->kinds) ++kinds[static_cast<size_t>(k)];
  return dump({{"key", key},
               {"nodes_captured", s->nodes_captured},
               {"nodes", s->graph().nodes.size()},
               {"kernels", kinds[0]},
               {"views", kinds[1]},
               {"calls", kinds[2]},
               {"arena_bytes", s->arena_bytes},
               {"least_bytes", least_bytes(s->blocks)},
               {"decisions", decisions},
               {"graph", graph::to_string(s->graph())}});
}

// --- layers -----------------------------------------------------------------------------------------------------------
std::vector<LayerProfile> profile(ExecutionContext& context, std::span<const onnx::Value> inputs, int times) {
  STRATA_CHECK(times > 0, Value, "engine: a profile of {} runs; expected 1 or more", times);
  const auto held = context.hold();
  context.engine().check_inputs(inputs);
  Runner* runner = context.runner_for(inputs);
  STRATA_CHECK(runner, NotImplemented, "engine: there is no graph for these inputs to show layers of: {}",
               context.engine().why_interpreted(key_of(inputs)));
  return runner->profile(runner->what().inputs_of(inputs), times);
}

std::string profile_json(const std::vector<LayerProfile>& layers, const Peaks& peaks) {
  Json list = Json::array();
  for (const LayerProfile& l : layers) {
    Json rejected = Json::array();
    for (const auto& [kernel, reason] : l.rejected) rejected.push_back({{"kernel", kernel}, {"reason", reason}});
    list.push_back({{"name", l.name},
                    {"op", l.op},
                    {"milliseconds", l.milliseconds},
                    {"bytes", l.bytes},
                    {"flops", l.flops},
                    {"gbytes_per_second", rate(static_cast<double>(l.bytes), seconds_of(l)) / 1e9},
                    {"gflops_per_second", rate(l.flops, seconds_of(l)) / 1e9},
                    {"share_of_peak", share_of_peak(l, peaks)},
                    {"kernel", l.kernel},
                    {"source", l.source},
                    {"rejected", rejected}});
  }
  return dump({{"total_milliseconds", total_of(layers)}, {"layers", list}});
}

std::string profile_text(const std::vector<LayerProfile>& layers, const Peaks& peaks) {
  const double total = total_of(layers);
  std::string text = fmt::format("{:>10} {:>6} {:>9} {:>9}{}  layer\n", "ms", "%", "GFLOP/s", "GB/s",
                                 peaks.flops > 0 || peaks.bytes > 0 ? "  peak" : "");
  std::vector<const LayerProfile*> order;
  order.reserve(layers.size());
  for (const LayerProfile& l : layers) order.push_back(&l);
  std::ranges::stable_sort(order, std::greater<>(), [](const LayerProfile* l) { return l->milliseconds; });
  for (const LayerProfile* l : order) {
    text += fmt::format("{:>10.4f} {:>6.1f} {:>9.1f} {:>9.1f}", l->milliseconds,
                        total > 0 ? 100 * l->milliseconds / total : 0, rate(l->flops, seconds_of(*l)) / 1e9,
                        rate(static_cast<double>(l->bytes), seconds_of(*l)) / 1e9);
    if (peaks.flops > 0 || peaks.bytes > 0) text += fmt::format(" {:>4.0f}%", 100 * share_of_peak(*l, peaks));
    text += fmt::format("  {}: {}, {}\n", printable(l->name), l->op, kernel_text(*l));
  }
  return text + fmt::format("{:>10.4f}  all {} layers\n", total, layers.size());
}

std::string profile_html(const std::vector<LayerProfile>& layers, const Peaks& peaks, const std::string& title) {
  const double total = total_of(layers);
  std::string rows;
  for (const LayerProfile& l : layers) {
    std::string rejected;
    for (const auto& [kernel, reason] : l.rejected)
      rejected += fmt::format("<li>{}: {}</li>", escaped(kernel), escaped(reason));
    const double percent = total > 0 ? 100 * l.milliseconds / total : 0;
    rows += fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{:.4f}</td><td><div class=bar style=\"width:{:.1f}px\"></div>{:.1f}%</td>"
      "<td>{:.1f}</td><td>{:.1f}</td><td>{:.0f}%</td><td><details><summary>{}</summary><ul>{}</ul></details></td></"
      "tr>\n",
      escaped(l.name), escaped(l.op), l.milliseconds, 2 * percent, percent, rate(l.flops, seconds_of(l)) / 1e9,
      rate(static_cast<double>(l.bytes), seconds_of(l)) / 1e9, 100 * share_of_peak(l, peaks), escaped(kernel_text(l)),
      rejected);
  }
  return fmt::format(
    "<!doctype html><meta charset=utf-8><title>{0}</title>\n"
    "<style>body{{font:14px sans-serif}}td,th{{padding:2px 8px;text-align:left;vertical-align:top}}"
    ".bar{{background:#36c;height:10px;display:inline-block;margin-right:4px}}</style>\n"
    "<h1>{0}</h1><p>{1} layers, {2:.4f} ms</p>\n<table><tr><th>layer<th>op<th>ms<th>share<th>GFLOP/s<th>GB/s<th>of peak"
    "<th>kernel</tr>\n{3}</table>\n",
    escaped(title), layers.size(), total, rows);
}

// --- accuracy ---------------------------------------------------------------------------------------------------------
namespace {

// As double values on the host, in order.
std::vector<double> numbers_of(const Tensor& t) {
  const Tensor host = contiguous(to(t.is_cpu() ? t : to(t, Device()), DType::F64));
  const double* data = host.data<double>();
  return {data, data + host.numel()};
}

LayerError compare(const Tensor& got, const std::vector<float>& want) {
  LayerError e;
  const std::vector<double> values = numbers_of(got);
  double signal = 0, noise = 0, sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double w = static_cast<double>(want[i]);
    if (std::isnan(values[i]) && !std::isnan(w) && e.first_nan < 0) e.first_nan = static_cast<int64_t>(i);
    if (!std::isfinite(values[i]) || !std::isfinite(w)) continue;
    const double d = std::abs(values[i] - w);
    e.max_error = std::max(e.max_error, d);
    sum += d;
    noise += d * d;
    signal += w * w;
    ++count;
  }
  e.mean_error = count ? sum / static_cast<double>(count) : 0;
  e.sqnr = noise > 0 ? 10 * std::log10(std::max(signal, 1e-300) / noise) : std::numeric_limits<double>::infinity();
  return e;
}

}  // namespace

std::vector<LayerError> accuracy(const Engine& engine, std::span<const onnx::Value> inputs) {
  engine.check_inputs(inputs);
  const auto s = engine.specialization(inputs);
  STRATA_CHECK(s, NotImplemented, "engine: there is no graph for these inputs to compare layers of: {}",
               engine.why_interpreted(key_of(inputs)));
  const autograd::NoGrad off;
  std::string reason;
  PassOptions none;
  none.only_necessary = true;
  const auto exact = specialize(engine.network(), inputs, none, reason);
  STRATA_CHECK(exact, Runtime, "engine: the network cannot be followed any more: {}", reason);
  const std::vector<Tensor> given = s->inputs_of(inputs);
  std::map<std::string, std::vector<float>> want;
  std::map<std::string, std::vector<int64_t>> shapes;
  exact->program->inspect(given, [&](const graph::Node&, graph::ValueId id, const Tensor& t) {
    if (!is_floating(t.dtype())) return;
    const std::vector<double> values = numbers_of(t);
    const std::string& name = exact->graph().values[id].name;
    want.emplace(name, std::vector<float>(values.begin(), values.end()));
    shapes.emplace(name, std::vector<int64_t>(t.shape().begin(), t.shape().end()));
  });
  std::vector<LayerError> layers;
  s->program->inspect(given, [&](const graph::Node& n, graph::ValueId id, const Tensor& t) {
    const std::string& name = s->graph().values[id].name;
    const auto found = want.find(name);
    if (found == want.end() || !std::ranges::equal(t.shape(), shapes.at(name))) return;
    LayerError e = compare(t, found->second);
    e.name = n.source.empty() && n.scope.empty() ? name : name_of(s->graph(), n);
    e.op = n.op->name;
    e.dtype = strata::name_of(t.dtype());
    layers.push_back(std::move(e));
  });
  return layers;
}

std::string accuracy_json(const std::vector<LayerError>& layers) {
  Json list = Json::array();
  for (const LayerError& e : layers)
    list.push_back({{"name", e.name},
                    {"op", e.op},
                    {"dtype", e.dtype},
                    {"max_error", e.max_error},
                    {"mean_error", e.mean_error},
                    {"sqnr", std::isfinite(e.sqnr) ? Json(e.sqnr) : Json()},
                    {"first_nan", e.first_nan}});
  return dump({{"layers", list}});
}
std::string accuracy_text(const std::vector<LayerError>& layers) {
  std::string text =
    fmt::format("{:>12} {:>12} {:>8} {:>9}  layer\n", "max error", "mean error", "SQNR dB", "first NaN");
  for (const LayerError& e : layers)
    text += fmt::format("{:>12.4g} {:>12.4g} {:>8} {:>9}  {}: {}, {}\n", e.max_error, e.mean_error,
                        std::isfinite(e.sqnr) ? fmt::format("{:.1f}", e.sqnr) : "exact",
                        e.first_nan < 0 ? "-" : std::to_string(e.first_nan), printable(e.name), e.op, e.dtype);
  return text;
}

}  // namespace strata::engine
