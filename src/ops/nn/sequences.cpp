// Sequences of different lengths: padded to one length, or packed without padding. Used by nn.utils.rnn of both
// languages.
#include <numeric>

#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

std::vector<int64_t> integers(const Tensor& t, const char* op, const char* name) {
  STRATA_CHECK(t.dim() == 1 && t.dtype() == DType::I64, Runtime,
               "{}: {} must be int64 of one dimension, got {} of shape {}", op, name, name_of(t.dtype()),
               to_string(t.shape()));
  if (t.is_meta()) refuse_shape_from_values(op);
  const Tensor c = contiguous(host_values(t));  // the host iterates over lengths, wherever the sequences are
  return {c.data<int64_t>(), c.data<int64_t>() + c.numel()};
}
// In host memory, where lengths and batch sizes stay for every device.
Tensor tensor_of(const std::vector<int64_t>& values) {
  const auto n = static_cast<int64_t>(values.size());
  Tensor t = make_tensor(Shape(&n, 1), DType::I64);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

// The position of each of n sequences in the batch: the given permutation, or the identity.
std::vector<int64_t> places_of(const Tensor& permutation, size_t n, const char* op, const char* name) {
  std::vector<int64_t> places(n);
  std::iota(places.begin(), places.end(), 0);
  if (!permutation) return places;
  std::vector<int64_t> given = integers(permutation, op, name), sorted = given;
  std::sort(sorted.begin(), sorted.end());
  STRATA_CHECK(sorted == places, Runtime, "{}: {} must have each of 0 to {} once, got {}", op, name,
               static_cast<int64_t>(n) - 1, to_string(given));
  return given;
}

// [a, b, ...] -> [a * b, ...] and back.
std::vector<int64_t> with_lead(std::vector<int64_t> lead, Shape shape, int drop) {
  lead.insert(lead.end(), shape.begin() + drop, shape.end());
  return lead;
}

// The row of each packed step in the padded batch, flattened.
struct Rows {
  int64_t steps, batch;
  bool batch_first;
  int64_t operator()(int64_t step, int64_t place) const {
    return batch_first ? place * steps + step : step * batch + place;
  }
};

}  // namespace

STRATA_OP(pack_padded_sequence,
          "_pack_padded_sequence(Tensor input, Tensor lengths, Tensor? order=None, bool batch_first=False) -> (Tensor, "
          "Tensor)")
  .doc(
    "The steps of padded sequences without padding, and the number of sequences that have each step; lengths descend, "
    "and order gives the batch index of the sequence of each length.")
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .composite([](const Tensor& input, const Tensor& lengths, const Tensor& order, bool batch_first) {
    const char* op = "pack_padded_sequence";
    STRATA_CHECK(input.dim() >= 2, Runtime, "{}: expected padded sequences [steps, batch, ...], got shape {}", op,
                 to_string(input.shape()));
    const std::vector<int64_t> sizes = integers(lengths, op, "lengths");
    const Rows row{input.size(batch_first ? 1 : 0), input.size(batch_first ? 0 : 1), batch_first};
    const auto n = static_cast<int64_t>(sizes.size());
    STRATA_CHECK(n == row.batch, Runtime,
                 "{}: Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={})", op, n, row.batch);
    STRATA_CHECK(n > 0 && *std::min_element(sizes.begin(), sizes.end()) > 0, Runtime,
                 "{}: Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0; "
                 "got {}",
                 op, to_string(sizes));
    STRATA_CHECK(std::is_sorted(sizes.rbegin(), sizes.rend()), Runtime,
                 "{}: `lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                 "`enforce_sorted=False` to sort them for you; got {}",
                 op, to_string(sizes));
    STRATA_CHECK(sizes[0] <= row.steps, Runtime,
                 "{}: Expected lengths of at most {} (the padded input's steps), got {}", op, row.steps, sizes[0]);
    const std::vector<int64_t> places = places_of(order, sizes.size(), op, "sorted_indices");
    std::vector<int64_t> rows, running;
    int64_t have = n;
    for (int64_t t = 0; t < sizes[0]; ++t) {
      while (sizes[static_cast<size_t>(have - 1)] <= t) --have;
      running.push_back(have);
      for (int64_t i = 0; i < have; ++i) rows.push_back(row(t, places[static_cast<size_t>(i)]));
    }
    const Tensor flat = reshape(input, with_lead({row.steps * row.batch}, input.shape(), 2));
    return std::array<Tensor, 2>{index_select(flat, 0, placed(tensor_of(rows))), tensor_of(running)};
  })
  .samples({"f(4,3,2), t[4,2,1]", "f(3,4,2), t[4,4,2], t[2,0,1], True", "f(2,2), t[2,1]", "f(2,2,0), t[2,1]"})
  .error("f(4,2), t[4]", ErrorKind::Runtime, "to be equal to batch_size, but got 1 (batch_size=2)")
  .error("f(4,2), t[4,0]", ErrorKind::Runtime, "greater than 0")
  .error("f(4,2), t[2,4]", ErrorKind::Runtime, "sorted in decreasing order")
  .error("f(4,2), t[5,4]", ErrorKind::Runtime, "at most 4")
  .error("f(4,2), t[4,4], t[1,1]", ErrorKind::Runtime, "each of 0 to 1 once")
  .error("f(4,0), t[]", ErrorKind::Runtime, "greater than 0")
  .error("f(4), t[4]", ErrorKind::Runtime, "expected padded sequences");

STRATA_OP(
  pad_packed_sequence,
  "_pad_packed_sequence(Tensor data, Tensor batch_sizes, Tensor? unsorted_indices=None, bool batch_first=False, "
  "Scalar padding_value=0, int? total_length=None) -> (Tensor, Tensor)")
  .doc("The padded form of packed sequences, and their lengths, in the order of unsorted_indices.")
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .composite([](const Tensor& data, const Tensor& batch_sizes, const Tensor& unsorted, bool batch_first, Scalar padding,
                std::optional<int64_t> total_length) {
    const char* op = "pad_packed_sequence";
    const std::vector<int64_t> sizes = integers(batch_sizes, op, "batch_sizes");
    STRATA_CHECK(!sizes.empty() && sizes.back() > 0 && std::is_sorted(sizes.rbegin(), sizes.rend()), Runtime,
                 "{}: batch sizes must be positive and fall, got {}", op, to_string(sizes));
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    STRATA_CHECK(data.dim() >= 1 && data.size(0) == total, Runtime,
                 "{}: batch sizes add up to {}, the data has shape {}", op, total, to_string(data.shape()));
    const auto longest = static_cast<int64_t>(sizes.size());
    STRATA_CHECK(total_length.value_or(longest) >= longest, Value,
                 "{}: Expected total_length to be at least the length of the longest sequence in input, but got "
                 "total_length={} and max sequence length being {}",
                 op, total_length.value_or(0), longest);
    const Rows row{total_length.value_or(longest), sizes[0], batch_first};
    const std::vector<int64_t> from = places_of(unsorted, static_cast<size_t>(sizes[0]), op, "unsorted_indices");
    std::vector<int64_t> places(from.size()), lengths(from.size()), rows;
    for (size_t i = 0; i < from.size(); ++i) places[static_cast<size_t>(from[i])] = static_cast<int64_t>(i);
    for (int64_t t = 0; t < longest; ++t)
      for (int64_t i = 0; i < sizes[static_cast<size_t>(t)]; ++i) {
        const int64_t place = places[static_cast<size_t>(i)];
        rows.push_back(row(t, place));
        ++lengths[static_cast<size_t>(place)];
      }
    const Tensor blank =
      full(with_lead({row.steps * row.batch}, data.shape(), 1), padding, data.dtype(), data.device());
    const std::vector<int64_t> lead =
      batch_first ? std::vector{row.batch, row.steps} : std::vector{row.steps, row.batch};
    return std::array<Tensor, 2>{
      reshape(index_copy(blank, 0, placed(tensor_of(rows)), data), with_lead(lead, data.shape(), 1)),
      tensor_of(lengths)};
  })
  .samples({"f(7,2), t[3,2,1,1]", "f(7,2), t[3,2,2], t[1,2,0], True, 5, 6", "f(3), t[2,1]", "f(3,0), t[2,1]"})
  .error("f(6,2), t[3,2]", ErrorKind::Runtime, "add up to 5")
  .error("f(5,2), t[2,3]", ErrorKind::Runtime, "positive and fall")
  .error("f(0,2), t[]", ErrorKind::Runtime, "positive and fall")
  .error("f(5,2), t[3,2], t[0,1]", ErrorKind::Runtime, "each of 0 to 2 once")
  .error("f(5,2), t[3,2], total_length=1", ErrorKind::Value, "total_length=1");

STRATA_OP(pad_sequence,
          "_pad_sequence(Tensor[] sequences, bool batch_first=False, Scalar padding_value=0, str padding_side='right') "
          "-> Tensor")
  .doc("Sequences of different lengths, stacked and padded to the longest.")
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .composite([](TensorList sequences, bool batch_first, Scalar padding, std::string_view side) {
    STRATA_CHECK(!sequences.empty(), Runtime, "pad_sequence: received an empty list of sequences");
    STRATA_CHECK(side == "left" || side == "right", Value,
                 "pad_sequence: padding_side should be either 'right' or 'left', but got {}", side);
    const Tensor& first = sequences[0];
    int64_t longest = 0;
    for (const Tensor& s : sequences) {
      STRATA_CHECK(s.dim() > 0 && first.dim() > 0 && s.shape().subspan(1).size() == first.shape().size() - 1 &&
                     std::equal(s.shape().begin() + 1, s.shape().end(), first.shape().begin() + 1),
                   Runtime, "pad_sequence: sequences [steps, ...] may differ in their steps only, got shapes {} and {}",
                   to_string(first.shape()), to_string(s.shape()));
      longest = std::max(longest, s.size(0));
    }
    std::vector<Tensor> padded;
    for (const Tensor& s : sequences) {
      const int64_t missing = longest - s.size(0);
      const Tensor hole = missing ? full(with_lead({missing}, s.shape(), 1), padding, s.dtype(), s.device()) : Tensor();
      padded.push_back(!missing ? s : side == "right" ? cat({s, hole}) : cat({hole, s}));
    }
    return stack(padded, batch_first ? 0 : 1);
  })
  .samples({"[f(3,2), f(1,2), f(2,2)]", "[f(1,2), f(3,2)], True, 5, 'left'", "[f(2), f(0)]", "[f(0,3), f(0,3)]"})
  .error("[]", ErrorKind::Runtime, "empty list of sequences")
  .error("[f(2,3), f(2,4)]", ErrorKind::Runtime, "may differ in their steps only")
  .error("[f(2)], padding_side='up'", ErrorKind::Value, "either 'right' or 'left', but got up");

}  // namespace strata
