// Views, joins, indices and new tensors as nodes of ONNX.
#include "onnx/export/exporter.h"
#include "onnx/value.h"

namespace strata::onnx::to_shapes {
namespace {

using E = Exporter;

std::string x(E& e) { return e.value("input"); }
// A size of 0 is 0: without allowzero it would keep that of the input.
std::string reshaped(E& e, const std::string& v) {
  return e.out.node("Reshape", {v, e.shape_of_result()}, {{"allowzero", int64_t{1}}});
}
Names to_result_shape(E& e) { return {reshaped(e, x(e))}; }
Names permute(E& e) { return {e.out.node("Transpose", {x(e)}, {{"perm", e.axes("dims")}})}; }
Names swapped(E& e, int64_t a, int64_t b) {
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < e.rank("input"); ++d) perm.push_back(d);
  if (!perm.empty()) std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
  return {e.out.node("Transpose", {x(e)}, {{"perm", perm}})};
}
Names transpose(E& e) { return swapped(e, e.axis("dim0"), e.axis("dim1")); }
Names t(E& e) { return e.rank("input") < 2 ? Names{x(e)} : swapped(e, 0, 1); }
Names mt(E& e) { return swapped(e, e.rank("input") - 2, e.rank("input") - 1); }
Names unsqueeze(E& e) {
  const int64_t d = e.integer("dim"), n = e.rank("input") + 1;
  return {e.out.node("Unsqueeze", {x(e), e.out.ints({d < 0 ? d + n : d})})};
}
Names expand(E& e) { return {e.out.node("Expand", {x(e), e.shape_of_result()})}; }
Names cat(E& e) {
  const int64_t d = e.integer("dim");
  const int64_t n = static_cast<int64_t>(e.result_shape().size());
  return {e.out.node("Concat", e.values("tensors", e.result_dtype()), {{"axis", d < 0 ? d + n : d}})};
}
Names stack(E& e) {
  const int64_t d = e.integer("dim"), n = static_cast<int64_t>(e.result_shape().size()), axis = d < 0 ? d + n : d;
  Names parts;
  for (const std::string& p : e.values("tensors", e.result_dtype()))
    parts.push_back(e.out.node("Unsqueeze", {p, e.out.ints({axis})}));
  return {e.out.node("Concat", parts, {{"axis", axis}})};
}
// Parts of the sizes that the results have.
Names split_along(E& e, std::string_view input) {
  const int64_t axis = e.axis("dim", input);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < e.results(); ++i) sizes.push_back(e.result_shape(i)[static_cast<size_t>(axis)]);
  return e.out.nodes("Split", {e.value(input), e.out.ints(sizes)}, {{"axis", axis}}, e.results());
}
Names split(E& e) { return split_along(e, "tensor"); }
Names split_input(E& e) { return split_along(e, "input"); }
Names unbind(E& e) {
  const int64_t axis = e.axis("dim");
  Names out;
  for (size_t i = 0; i < e.results(); ++i)
    out.push_back(e.out.node("Gather", {x(e), e.out.integer(static_cast<int64_t>(i))}, {{"axis", axis}}));
  return out;
}
std::string sliced(E& e, const std::string& start, const std::string& end, int64_t axis, int64_t step) {
  return e.out.node("Slice", {x(e), start, end, e.out.ints({axis}), e.out.ints({step})});
}
Names slice(E& e) {
  const std::string start = e.given("start") ? e.sizes("start") : e.out.ints({0});
  return {sliced(e, start, e.given("end") ? e.sizes("end") : e.out.ints({INT64_MAX}), e.axis("dim"),
                 e.integer_or("step", 1))};
}
Names narrow(E& e) {
  if (!e.ints_or_none("start").empty()) {
    const int64_t n = e.shape("input").at(static_cast<size_t>(e.axis("dim"))), given = e.integer("start"),
                  start = given < 0 ? given + n : given;
    return {
      sliced(e, e.out.ints({start}), e.out.node("Add", {e.out.ints({start}), e.sizes("length")}), e.axis("dim"), 1)};
  }
  const std::string start = e.sizes("start");
  return {sliced(e, start, e.out.node("Add", {start, e.sizes("length")}), e.axis("dim"), 1)};
}
Names select(E& e) {
  return {e.out.node("Gather", {x(e), e.out.node("Squeeze", {e.sizes("index")})}, {{"axis", e.axis("dim")}})};
}
Names flip(E& e) {
  if (e.ints("dims").empty()) return {x(e)};
  const std::vector<int64_t> axes = e.axes("dims");
  const std::vector<int64_t> last(axes.size(), -1), before(axes.size(), INT64_MIN);
  return {e.out.node("Slice", {x(e), e.out.ints(last), e.out.ints(before), e.out.ints(axes), e.out.ints(last)})};
}
Names repeat(E& e) {
  const std::vector<int64_t> repeats = e.ints("repeats");
  std::vector<int64_t> shape(repeats.size() - e.shape("input").size(), 1);
  std::string in = x(e);
  for (size_t i = 0; i < shape.size(); ++i) in = e.out.node("Unsqueeze", {in, e.out.ints({0})});
  return {e.out.node("Tile", {in, e.out.ints(repeats)})};
}
Names pad_constant(E& e) {
  const std::vector<int64_t> given = e.ints("pad");
  const auto n = static_cast<size_t>(e.rank("input"));
  std::vector<int64_t> pads(2 * n);
  for (size_t k = 0; k < given.size() / 2; ++k) {
    pads[n - 1 - k] = given[2 * k];
    pads[2 * n - 1 - k] = given[2 * k + 1];
  }
  const bool all = e.given("value");
  return {e.out.node("Pad", {x(e), e.out.ints(pads), e.out.number(all ? e.number("value") : 0, e.result_dtype())})};
}
Names pad(E& e) {
  const std::string mode = e.text("mode");
  if (mode.empty() || mode == "constant") return pad_constant(e);
  const std::vector<int64_t> given = e.ints("pad");
  std::vector<int64_t> before, after, axes;
  for (size_t k = 0; k < given.size() / 2; ++k) {
    before.push_back(given[2 * k]);
    after.push_back(given[2 * k + 1]);
    axes.push_back(e.rank("input") - 1 - static_cast<int64_t>(k));
  }
  before.insert(before.end(), after.begin(), after.end());
  const std::string other = mode == "replicate" ? "edge" : mode == "circular" ? "wrap" : mode;
  if (other == "wrap" && e.out.opset() < 19) e.refuse("circular padding needs opset 19");
  return {e.out.node("Pad", {x(e), e.out.ints(before), "", e.out.ints(axes)}, {{"mode", other}})};
}
Names gather(E& e) { return {e.out.node("GatherElements", {x(e), e.value("index")}, {{"axis", e.axis("dim")}})}; }
Names index_select(E& e) {
  const std::string y = e.out.node("Gather", {x(e), e.value("index")}, {{"axis", e.axis("dim")}});
  return {e.rank("index") == 0 ? reshaped(e, y) : y};
}
Names embedding(E& e) {
  if (e.given("max_norm")) e.refuse("max_norm is not supported");
  return {e.out.node("Gather", {e.value("weight"), e.value("input")}, {{"axis", int64_t{0}}})};
}
// The part of src that the index covers.
std::string covered(E& e) {
  if (e.shape("index") == e.shape("src")) return e.value("src");
  const std::vector<int64_t> zeros(e.shape("index").size());
  return e.out.node("Slice", {e.value("src"), e.out.ints(zeros), e.out.node("Shape", {e.value("index")})});
}
Names scattered(E& e, const std::string& updates, const char* reduction) {
  return {e.out.node("ScatterElements", {x(e), e.value("index"), updates},
                     {{"axis", e.axis("dim")}, {"reduction", std::string(reduction)}})};
}
Names scatter(E& e) { return scattered(e, covered(e), "none"); }
Names scatter_add(E& e) { return scattered(e, covered(e), "add"); }
Names scatter_value(E& e) {
  const std::string v = e.value("value", e.result_dtype());
  return scattered(e, e.out.node("Expand", {v, e.out.node("Shape", {e.value("index")})}), "none");
}
Names triangle(E& e, bool upper) {
  return {e.out.node("Trilu", {x(e), e.out.integer(e.integer_or("diagonal", 0))}, {{"upper", int64_t{upper}}})};
}
Names tril(E& e) { return triangle(e, false); }
Names triu(E& e) { return triangle(e, true); }
Names convert(E& e) { return {e.value("input", e.result_dtype())}; }
Names filled(E& e, double v) {
  return {e.out.node("Expand", {e.out.number(v, e.result_dtype()), e.shape_of_result()})};
}
Names zeros(E& e) { return filled(e, 0); }
Names ones(E& e) { return filled(e, 1); }
Names full(E& e) { return filled(e, e.number("fill_value")); }
Names fill(E& e) { return filled(e, e.number("value")); }
Names arange(E& e) {
  const DType t = e.result_dtype();
  return {e.out.node("Range", {e.out.number(0, t), e.value("end", t), e.out.number(1, t)})};
}
Names arange_from(E& e) {
  const DType t = e.result_dtype();
  return {e.out.node("Range", {e.value("start", t), e.value("end", t), e.value("step", t)})};
}
Names one_hot(E& e) {
  const int64_t classes = e.integer("num_classes");
  if (classes < 0) e.refuse("give num_classes");
  const std::string values = e.out.ints({0, 1});
  return {e.out.node("OneHot", {x(e), e.out.integer(classes), values})};
}
Names pixel_shuffle(E& e) {
  if (e.rank("input") != 4) e.refuse("the input must have four dimensions");
  return {
    e.out.node("DepthToSpace", {x(e)}, {{"blocksize", e.integer("upscale_factor")}, {"mode", std::string("CRD")}})};
}
Names pixel_unshuffle(E& e) {
  if (e.rank("input") != 4) e.refuse("the input must have four dimensions");
  const int64_t r = e.integer("downscale_factor");
  const std::vector<int64_t>& s = e.shape("input");
  const std::string parts = e.out.node("Reshape", {x(e), e.out.ints({-1, s[1], s[2] / r, r, s[3] / r, r})});
  const std::string order = e.out.node("Transpose", {parts}, {{"perm", std::vector<int64_t>{0, 1, 3, 5, 2, 4}}});
  return {reshaped(e, order)};
}
Names dropout(E& e) {
  for (const char* flag : {"train", "training"})
    for (const Param& p : e.params())
      if (p.name == flag && e.flag(flag) && e.number("p") != 0)
        e.refuse("the module is in training mode; call eval() first");
  return {x(e)};
}

const ExportEntry kEntries[] = {
  {"reshape", nullptr, to_result_shape},
  {"view", nullptr, to_result_shape},
  {"flatten", nullptr, to_result_shape},
  {"unflatten", nullptr, to_result_shape},
  {"ravel", nullptr, to_result_shape},
  {"squeeze", nullptr, to_result_shape},
  {"squeeze.dim", nullptr, to_result_shape},
  {"squeeze.dims", nullptr, to_result_shape},
  {"view_as", nullptr, to_result_shape},
  {"reshape_as", nullptr, to_result_shape},
  {"permute", nullptr, permute},
  {"transpose", nullptr, transpose},
  {"t", nullptr, t},
  {"mT", nullptr, mt},
  {"unsqueeze", nullptr, unsqueeze},
  {"expand", nullptr, expand},
  {"expand_as", nullptr, expand},
  {"broadcast_to", nullptr, expand},
  {"cat", nullptr, cat},
  {"stack", nullptr, stack},
  {"split", nullptr, split},
  {"split.sizes", nullptr, split},
  {"split_with_sizes", nullptr, split_input},
  {"chunk", nullptr, split_input},
  {"tensor_split", nullptr, split_input},
  {"unbind", nullptr, unbind},
  {"slice", nullptr, slice},
  {"narrow", nullptr, narrow},
  {"select", nullptr, select},
  {"flip", nullptr, flip},
  {"repeat", nullptr, repeat},
  {"constant_pad_nd", nullptr, pad_constant},
  {"nn.functional.pad", nullptr, pad},
  {"gather", nullptr, gather},
  {"index_select", nullptr, index_select},
  {"nn.functional.embedding", nullptr, embedding},
  {"scatter", nullptr, scatter},
  {"scatter_add", nullptr, scatter_add},
  {"scatter.value", nullptr, scatter_value},
  {"tril", nullptr, tril},
  {"triu", nullptr, triu},
  {"to.dtype", nullptr, convert},
  {"to.device", nullptr, convert},
  {"to.other", nullptr, convert},
  {"type_as", nullptr, convert},
  {"zeros", nullptr, zeros},
  {"empty", nullptr, zeros},
  {"empty_like", nullptr, zeros},
  {"zeros_like", nullptr, zeros},
  {"ones", nullptr, ones},
  {"ones_like", nullptr, ones},
  {"zero", nullptr, zeros},
  {"full", nullptr, full},
  {"full_like", nullptr, full},
  {"fill", nullptr, fill},
  {"arange", nullptr, arange},
  {"arange.start", nullptr, arange_from},
  {"nn.functional.one_hot", nullptr, one_hot},
  {"pixel_shuffle", nullptr, pixel_shuffle},
  {"pixel_unshuffle", nullptr, pixel_unshuffle},
  {"dropout", nullptr, dropout},
  {"nn.functional.dropout", nullptr, dropout},
  {"nn.functional.dropout1d", nullptr, dropout},
  {"nn.functional.dropout2d", nullptr, dropout},
  {"nn.functional.dropout3d", nullptr, dropout},
  {"nn.functional.alpha_dropout", nullptr, dropout},
};
}  // namespace

ExportTable table() { return kEntries; }

}  // namespace strata::onnx::to_shapes
