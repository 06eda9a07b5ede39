// Products, convolutions, norms, pools, attention and recurrent layers as nodes of ONNX.
#include <cmath>
#include <functional>
#include <limits>

#include "onnx/export/exporter.h"

namespace strata::onnx::to_networks {
namespace {

using E = Exporter;
using Ints = std::vector<int64_t>;

std::string x(E& e) { return e.value("input", e.result_dtype()); }
std::string plus(E& e, const std::string& y, std::string_view name) {
  return e.given(name) ? e.out.node("Add", {y, e.value(name, e.result_dtype())}) : y;
}
std::string number(E& e, double v) { return e.out.number(v, e.result_dtype()); }

// --- products --------------------------------------------------------------------------------------------------------------
Names product(E& e, std::string_view a, std::string_view b) {
  const DType t = e.result_dtype();
  return {e.out.node("MatMul", {e.value(a, t), e.value(b, t)})};
}
Names matmul(E& e) { return product(e, "input", "other"); }
Names mm(E& e) { return product(e, "input", "mat2"); }
Names mv(E& e) { return product(e, "input", "vec"); }
Names dot(E& e) { return product(e, "input", "tensor"); }
Names linear(E& e) {
  if (e.rank("input") == 2 && e.rank("weight") == 2) {
    Names inputs{x(e), e.value("weight", e.result_dtype())};
    if (e.given("bias")) inputs.push_back(e.value("bias", e.result_dtype()));
    return {e.out.node("Gemm", inputs, {{"transB", int64_t{1}}})};
  }
  const Ints perm = e.rank("weight") == 1 ? Ints{0} : Ints{1, 0};
  const std::string weight = e.out.node("Transpose", {e.value("weight", e.result_dtype())}, {{"perm", perm}});
  return {plus(e, e.out.node("MatMul", {x(e), weight}), "bias")};
}
Names add_product(E& e, std::string_view a, std::string_view b) {
  const DType t = e.result_dtype();
  const auto times = [&](const std::string& v, std::string_view factor) {
    return e.number_or(factor, 1) == 1 ? v : e.out.node("Mul", {v, number(e, e.number(factor))});
  };
  return {
    e.out.node("Add", {times(x(e), "beta"), times(e.out.node("MatMul", {e.value(a, t), e.value(b, t)}), "alpha")})};
}
Names addmm(E& e) { return add_product(e, "mat1", "mat2"); }
Names baddbmm(E& e) { return add_product(e, "batch1", "batch2"); }
Names einsum(E& e) {
  if (e.text("equation").find('.') != std::string::npos) e.refuse("an ellipsis is not supported; name all dimensions");
  return {e.out.node("Einsum", e.values("operands", e.result_dtype()), {{"equation", e.text("equation")}})};
}

// --- convolutions ----------------------------------------------------------------------------------------------------------
Ints spread(Ints v, size_t n, int64_t otherwise) {
  if (v.empty()) v.assign(1, otherwise);
  if (v.size() == 1) v.assign(n, v[0]);
  return v;
}
Ints twice(const Ints& v) {
  Ints both = v;
  both.insert(both.end(), v.begin(), v.end());
  return both;
}
// Inputs without a batch dimension get one.
Names batched(E& e, int64_t dims, const std::string& input, const std::function<Names(const std::string&)>& f) {
  if (e.rank("input") == dims + 2) return f(input);
  Names out = f(e.out.node("Unsqueeze", {input, e.out.ints({0})}));
  for (std::string& name : out) name = e.out.node("Squeeze", {name, e.out.ints({0})});
  return out;
}
Names convolution_of(E& e, bool transposed) {
  const size_t n = e.shape("weight").size() - 2;
  return batched(e, static_cast<int64_t>(n), x(e), [&](const std::string& in) -> Names {
    Names inputs{in, e.value("weight", e.result_dtype())};
    if (e.given("bias")) inputs.push_back(e.value("bias", e.result_dtype()));
    Attributes a{{"strides", spread(e.ints("stride"), n, 1)},
                 {"pads", twice(spread(e.ints("padding"), n, 0))},
                 {"dilations", spread(e.ints("dilation"), n, 1)},
                 {"group", e.integer("groups")}};
    if (transposed) a.push_back({"output_padding", spread(e.ints("output_padding"), n, 0)});
    return {e.out.node(transposed ? "ConvTranspose" : "Conv", inputs, a)};
  });
}
Names conv(E& e) { return convolution_of(e, false); }
Names quantize(E& e) {
  const DType bytes = e.result_dtype();
  return {e.out.node("QuantizeLinear", {e.value("input", DType::F32), e.out.number(e.number("scale"), DType::F32),
                                        e.out.number(e.number("zero"), bytes)})};
}
Names dequantize(E& e) {
  return {e.out.node("DequantizeLinear", {e.value("input"), e.out.number(e.number("scale"), DType::F32),
                                          e.out.number(e.number("zero"), e.dtype("input"))})};
}
Names dequantize_channels(E& e) {
  return {e.out.node("DequantizeLinear", {e.value("input"), e.value("scales")}, {{"axis", e.integer("dim")}})};
}
Names conv_transpose(E& e) { return convolution_of(e, true); }
Names convolution(E& e) { return convolution_of(e, e.flag("transposed")); }

// --- norms -----------------------------------------------------------------------------------------------------------------
// A weight of the shape, or a constant.
std::string weight_or(E& e, std::string_view name, const Ints& shape, double otherwise) {
  if (e.given(name)) return e.value(name, e.result_dtype());
  return e.out.node("Expand", {number(e, otherwise), e.out.ints(shape)});
}
Names batch_norm(E& e) {
  if (e.flag("training")) e.refuse("the module is in training mode; call eval() first");
  if (!e.given("running_mean") || !e.given("running_var")) e.refuse("it has no running statistics");
  const Ints channels{e.shape("input").at(1)};
  const DType t = e.result_dtype();
  return {e.out.node("BatchNormalization",
                     {x(e), weight_or(e, "weight", channels, 1), weight_or(e, "bias", channels, 0),
                      e.value("running_mean", t), e.value("running_var", t)},
                     {{"epsilon", e.number("eps")}})};
}
Names layer_norm(E& e) {
  const Ints shape = e.ints("normalized_shape");
  Names inputs{x(e), weight_or(e, "weight", shape, 1)};
  if (e.given("bias")) inputs.push_back(e.value("bias", e.result_dtype()));
  return {e.out.node("LayerNormalization", inputs,
                     {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", e.number("eps")}})};
}
Names rms_norm(E& e) {
  if (!e.given("eps")) e.refuse("give eps");
  const Ints shape = e.ints("normalized_shape");
  Ints axes;
  for (int64_t d = -static_cast<int64_t>(shape.size()); d < 0; ++d) axes.push_back(d);
  const std::string in = x(e), mean = e.out.node("ReduceMean", {e.out.node("Mul", {in, in}), e.out.ints(axes)},
                                                 {{"keepdims", int64_t{1}}});
  const std::string root = e.out.node("Sqrt", {e.out.node("Add", {mean, number(e, e.number("eps"))})}),
                    y = e.out.node("Div", {in, root});
  return {e.given("weight") ? e.out.node("Mul", {y, e.value("weight", e.result_dtype())}) : y};
}
// Normalizes rows of [N * groups, ...]; then the weight of each channel.
Names group_norm(E& e) {
  const Ints& shape = e.shape("input");
  const int64_t channels = shape.at(1), groups = e.integer("num_groups");
  const std::string rows = e.out.node("Reshape", {x(e), e.out.ints({0, groups, -1})});
  const std::string y = e.out.node("InstanceNormalization",
                                   {rows, e.out.node("Expand", {number(e, 1), e.out.ints({groups})}),
                                    e.out.node("Expand", {number(e, 0), e.out.ints({groups})})},
                                   {{"epsilon", e.number("eps")}});
  std::string out = e.out.node("Reshape", {y, e.shape_of_result()}, {{"allowzero", int64_t{1}}});
  Ints per_channel(shape.size() - 1, 1);
  per_channel[0] = channels;
  const auto channelwise = [&](std::string_view name) {
    return e.out.node("Reshape", {e.value(name, e.result_dtype()), e.out.ints(per_channel)});
  };
  if (e.given("weight")) out = e.out.node("Mul", {out, channelwise("weight")});
  if (e.given("bias")) out = e.out.node("Add", {out, channelwise("bias")});
  return {out};
}
Names instance_norm(E& e) {
  if (!e.flag("use_input_stats")) e.refuse("running statistics are not supported");
  const Ints channels{e.shape("input").at(1)};
  return {e.out.node("InstanceNormalization",
                     {x(e), weight_or(e, "weight", channels, 1), weight_or(e, "bias", channels, 0)},
                     {{"epsilon", e.number("eps")}})};
}
Names local_response_norm(E& e) {
  if (e.integer("size") % 2 == 0) e.refuse("an even size is not supported");
  if (e.rank("input") != 4) e.refuse("the input must have four dimensions");
  return {e.out.node(
    "LRN", {x(e)},
    {{"size", e.integer("size")}, {"alpha", e.number("alpha")}, {"beta", e.number("beta")}, {"bias", e.number("k")}})};
}
Names normalize(E& e) {
  const double p = e.number("p");
  if (p != 1 && p != 2) e.refuse("norms of another order than 1 and 2 are not supported");
  const std::string in = x(e);
  const std::string norm =
    e.out.node(p == 1 ? "ReduceL1" : "ReduceL2", {in, e.out.ints(e.axes("dim"))}, {{"keepdims", int64_t{1}}});
  return {e.out.node("Div", {in, e.out.node("Max", {norm, number(e, e.number("eps"))})})};
}

// --- pools -----------------------------------------------------------------------------------------------------------------
Attributes pool_attributes(E& e, size_t n) {
  const Ints kernel = spread(e.ints("kernel_size"), n, 1);
  const Ints stride = e.given("stride") && !e.ints("stride").empty() ? spread(e.ints("stride"), n, 1) : kernel;
  return {{"kernel_shape", kernel},
          {"strides", stride},
          {"pads", twice(spread(e.ints("padding"), n, 0))},
          {"ceil_mode", int64_t{e.flag("ceil_mode")}}};
}
Names max_pool_of(E& e, size_t n) {
  return batched(e, static_cast<int64_t>(n), x(e), [&](const std::string& in) -> Names {
    Attributes a = pool_attributes(e, n);
    a.push_back({"dilations", spread(e.ints("dilation"), n, 1)});
    return {e.out.node("MaxPool", {in}, a)};
  });
}
template <size_t n> Names max_pool(E& e) { return max_pool_of(e, n); }
Names max_pool_core(E& e) { return max_pool_of(e, e.ints("kernel_size").size()); }
template <int64_t n> Names avg_pool(E& e) {
  if constexpr (n > 1)
    if (e.given("divisor_override")) e.refuse("divisor_override is not supported");
  if (e.flag("ceil_mode") && e.out.opset() < 19) e.refuse("ceil_mode needs opset 19");
  return batched(e, n, x(e), [&](const std::string& in) -> Names {
    Attributes a = pool_attributes(e, n);
    a.push_back({"count_include_pad", int64_t{e.flag("count_include_pad")}});
    return {e.out.node("AveragePool", {in}, a)};
  });
}
// Windows of one size; the sizes must be multiples.
Names adaptive(E& e, const char* op, const char* global) {
  const Ints& in = e.shape("input");
  const Ints want = e.ints("output_size");
  const int64_t n =
    static_cast<int64_t>(e.result_shape().size()) - (e.rank("input") - static_cast<int64_t>(want.size()) >= 2 ? 2 : 1);
  const Ints size = spread(want, static_cast<size_t>(n), 1);
  Ints kernel;
  bool all_one = true;
  for (size_t d = 0; d < size.size(); ++d) {
    const int64_t have = in[in.size() - size.size() + d], out = size[d] < 0 ? have : size[d];
    if (out <= 0 || have % out != 0) e.refuse("the sizes of the input are no multiples of output_size");
    all_one &= out == 1;
    kernel.push_back(have / out);
  }
  return batched(e, n, x(e), [&](const std::string& v) -> Names {
    if (all_one) return {e.out.node(global, {v})};
    return {e.out.node(op, {v}, {{"kernel_shape", kernel}, {"strides", kernel}})};
  });
}
Names adaptive_avg(E& e) { return adaptive(e, "AveragePool", "GlobalAveragePool"); }
Names adaptive_max(E& e) { return adaptive(e, "MaxPool", "GlobalMaxPool"); }

Names interpolate(E& e) {
  if (e.flag("antialias")) e.refuse("antialias is not supported");
  const std::string mode = e.text("mode");
  const bool cubic = mode == "bicubic", nearest = mode == "nearest" || mode.empty();
  if (!nearest && !cubic && mode != "bilinear" && mode != "linear" && mode != "trilinear")
    e.refuse("mode '" + mode + "' is not supported");
  Attributes a{{"mode", std::string(nearest ? "nearest"
                                    : cubic ? "cubic"
                                            : "linear")},
               {"coordinate_transformation_mode", std::string(nearest                   ? "asymmetric"
                                                              : e.flag("align_corners") ? "align_corners"
                                                                                        : "pytorch_half_pixel")},
               {"cubic_coeff_a", -0.75}};
  if (nearest) a.push_back({"nearest_mode", std::string("floor")});
  return {e.out.node("Resize", {x(e), "", "", e.shape_of_result()}, a)};
}

// --- attention -------------------------------------------------------------------------------------------------------------
Names attention_with(E& e, std::string_view mask_name) {
  const DType t = e.result_dtype();
  const auto rank = e.rank("key");
  Ints perm;
  for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
  std::swap(perm[static_cast<size_t>(rank - 1)], perm[static_cast<size_t>(rank - 2)]);
  const double scale =
    e.given("scale") ? e.number("scale") : 1 / std::sqrt(static_cast<double>(e.shape("query").back()));
  const std::string keys = e.out.node("Transpose", {e.value("key", t)}, {{"perm", perm}});
  std::string scores = e.out.node("Mul", {e.out.node("MatMul", {e.value("query", t), keys}), number(e, scale)});
  const double infinity = std::numeric_limits<double>::infinity();
  if (e.flag("is_causal")) {
    const std::string ones = e.out.node("Expand", {e.out.number(1, DType::F32), e.out.node("Shape", {scores})});
    const std::string seen = e.out.node("Trilu", {ones}, {{"upper", int64_t{0}}});
    scores = e.out.node("Where", {e.cast(seen, DType::F32, DType::Bool), scores, number(e, -infinity)});
  }
  if (e.given(mask_name)) {
    const std::string mask = e.value(mask_name);
    scores = e.dtype(mask_name) == DType::Bool ? e.out.node("Where", {mask, scores, number(e, -infinity)})
                                               : e.out.node("Add", {scores, e.cast(mask, e.dtype(mask_name), t)});
  }
  return {e.out.node("MatMul", {e.out.node("Softmax", {scores}, {{"axis", int64_t{-1}}}), e.value("value", t)})};
}

Names attention(E& e) {
  if (e.number("dropout_p") != 0) e.refuse("dropout is not supported");
  if (e.flag("enable_gqa")) e.refuse("enable_gqa is not supported");
  return attention_with(e, "attn_mask");
}
Names attention_core(E& e) { return attention_with(e, "mask"); }

// --- recurrent layers ------------------------------------------------------------------------------------------------------
// Weights of a layer in ONNX's order of gates, with directions as the first dimension.
std::string stacked_gates(E& e, const Names& parts, int64_t gates, const Ints& order) {
  Names directions;
  for (const std::string& p : parts) {
    const Names g =
      e.out.nodes("Split", {p}, {{"axis", int64_t{0}}, {"num_outputs", gates}}, static_cast<size_t>(gates));
    Names sorted;
    for (const int64_t k : order) sorted.push_back(g[static_cast<size_t>(k)]);
    const std::string all = gates == 1 ? p : e.out.node("Concat", sorted, {{"axis", int64_t{0}}});
    directions.push_back(e.out.node("Unsqueeze", {all, e.out.ints({0})}));
  }
  return directions.size() == 1 ? directions[0] : e.out.node("Concat", directions, {{"axis", int64_t{0}}});
}
Names recurrent(E& e, const char* op, int64_t gates, const Ints& order, Attributes attributes) {
  const int64_t layers = e.integer("num_layers"), directions = e.flag("bidirectional") ? 2 : 1;
  const bool biases = e.flag("has_biases"), batch_first = e.flag("batch_first"), cell = gates == 4;
  if (e.flag("train") && e.number("dropout") != 0) e.refuse("the module is in training mode; call eval() first");
  if (e.rank("input") != 3) e.refuse("the input must have a batch dimension");
  const Names params = e.values("params");
  const size_t per = biases ? 4 : 2;
  if (params.size() != static_cast<size_t>(layers * directions) * per) e.refuse("projections are not supported");
  Names hx = cell ? e.values("hx") : Names{e.value("hx")};
  std::string y = x(e);
  if (batch_first) y = e.out.node("Transpose", {y}, {{"perm", Ints{1, 0, 2}}});
  Names last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    Names w, r, b;
    for (int64_t d = 0; d < directions; ++d) {
      const size_t at = static_cast<size_t>(layer * directions + d) * per;
      w.push_back(params[at]);
      r.push_back(params[at + 1]);
      if (biases)
        b.push_back(e.out.node(
          "Concat",
          {stacked_gates(e, {params[at + 2]}, gates, order), stacked_gates(e, {params[at + 3]}, gates, order)},
          {{"axis", int64_t{1}}}));
    }
    const auto state = [&](const std::string& all) {
      return e.out.node(
        "Slice", {all, e.out.ints({layer * directions}), e.out.ints({(layer + 1) * directions}), e.out.ints({0})});
    };
    const std::string bias = b.empty() ? "" : b.size() == 1 ? b[0] : e.out.node("Concat", b, {{"axis", int64_t{0}}});
    Names inputs{y, stacked_gates(e, w, gates, order), stacked_gates(e, r, gates, order), bias, "", state(hx[0])};
    if (cell) inputs.push_back(state(hx[1]));
    Attributes a = attributes;
    a.push_back({"hidden_size", e.shape_of("params", 1).back()});
    a.push_back({"direction", std::string(directions == 2 ? "bidirectional" : "forward")});
    const Names out = e.out.nodes(op, inputs, a, cell ? 3 : 2);
    // [steps, directions, batch, hidden] as [steps, batch, directions * hidden]
    y =
      e.out.node("Reshape", {e.out.node("Transpose", {out[0]}, {{"perm", Ints{0, 2, 1, 3}}}), e.out.ints({0, 0, -1})});
    last_h.push_back(out[1]);
    if (cell) last_c.push_back(out[2]);
  }
  if (batch_first) y = e.out.node("Transpose", {y}, {{"perm", Ints{1, 0, 2}}});
  const auto joined = [&](const Names& parts) {
    return parts.size() == 1 ? parts[0] : e.out.node("Concat", parts, {{"axis", int64_t{0}}});
  };
  Names results{y, joined(last_h)};
  if (cell) results.push_back(joined(last_c));
  return results;
}
Names lstm(E& e) { return recurrent(e, "LSTM", 4, {0, 3, 1, 2}, {}); }
Names gru(E& e) { return recurrent(e, "GRU", 3, {1, 0, 2}, {{"linear_before_reset", int64_t{1}}}); }
Names rnn_tanh(E& e) { return recurrent(e, "RNN", 1, {0}, {}); }

const ExportEntry kEntries[] = {
  {"matmul", nullptr, matmul},
  {"mm", nullptr, mm},
  {"bmm", nullptr, mm},
  {"mv", nullptr, mv},
  {"dot", nullptr, dot},
  {"nn.functional.linear", nullptr, linear},
  {"addmm", nullptr, addmm},
  {"baddbmm", nullptr, baddbmm},
  {"einsum", nullptr, einsum},
  {"conv1d", nullptr, conv},
  {"conv2d", nullptr, conv},
  {"conv3d", nullptr, conv},
  {"conv_transpose1d", nullptr, conv_transpose},
  {"conv_transpose2d", nullptr, conv_transpose},
  {"conv_transpose3d", nullptr, conv_transpose},
  {"convolution", nullptr, convolution},
  {"_quantize", nullptr, quantize},
  {"_dequantize", nullptr, dequantize},
  {"_dequantize_channels", nullptr, dequantize_channels},
  {"nn.functional.batch_norm", nullptr, batch_norm},
  {"_batch_norm_layer", nullptr, batch_norm},
  {"native_batch_norm", nullptr, batch_norm},
  {"_layer_norm", nullptr, layer_norm},
  {"_attention", nullptr, attention_core},
  {"_max_pool_codes", nullptr, max_pool_core},
  {"_max_pool", nullptr, max_pool_core},
  {"layer_norm", nullptr, layer_norm},
  {"rms_norm", nullptr, rms_norm},
  {"group_norm", nullptr, group_norm},
  {"nn.functional.instance_norm", nullptr, instance_norm},
  {"nn.functional.local_response_norm", nullptr, local_response_norm},
  {"nn.functional.normalize", nullptr, normalize},
  {"max_pool1d", nullptr, max_pool<1>},
  {"max_pool2d", nullptr, max_pool<2>},
  {"max_pool3d", nullptr, max_pool<3>},
  {"avg_pool1d", nullptr, avg_pool<1>},
  {"nn.functional.avg_pool2d", nullptr, avg_pool<2>},
  {"nn.functional.avg_pool3d", nullptr, avg_pool<3>},
  {"adaptive_avg_pool1d", nullptr, adaptive_avg},
  {"nn.functional.adaptive_avg_pool2d", nullptr, adaptive_avg},
  {"nn.functional.adaptive_avg_pool3d", nullptr, adaptive_avg},
  {"nn.functional.adaptive_max_pool1d", nullptr, adaptive_max},
  {"nn.functional.adaptive_max_pool2d", nullptr, adaptive_max},
  {"nn.functional.adaptive_max_pool3d", nullptr, adaptive_max},
  {"nn.functional.interpolate", nullptr, interpolate},
  {"nn.functional.scaled_dot_product_attention", nullptr, attention},
  {"lstm", nullptr, lstm},
  {"gru", nullptr, gru},
  {"rnn_tanh", nullptr, rnn_tanh},
};
}  // namespace

ExportTable table() { return kEntries; }

}  // namespace strata::onnx::to_networks
