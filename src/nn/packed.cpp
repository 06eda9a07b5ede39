// Sequences of different lengths; implemented by ops that Python shares.
#include "nn/packed.h"

#include "strata/ops.h"

namespace strata::nn::utils::rnn {
namespace {
Tensor as_int64(std::span<const int64_t> values) {
  Tensor t = empty({static_cast<int64_t>(values.size())}, DType::I64);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}
}  // namespace

PackedSequence::PackedSequence(Tensor d, Tensor sizes, Tensor sorted, Tensor unsorted)
    : data(std::move(d)),
      batch_sizes(std::move(sizes)),
      sorted_indices(std::move(sorted)),
      unsorted_indices(unsorted ? std::move(unsorted) : invert_permutation(sorted_indices)) {}
PackedSequence PackedSequence::to(DType dtype) const {
  return {strata::to(data, dtype), batch_sizes, sorted_indices, unsorted_indices};
}
PackedSequence PackedSequence::to(Device device) const {
  const auto move = [&](const Tensor& t) { return t ? strata::to(t, std::optional<Device>(device)) : Tensor(); };
  return {move(data), batch_sizes, move(sorted_indices), move(unsorted_indices)};
}

Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation) return {};
  return scatter(empty_like(permutation), 0, permutation,
                 strata::to(arange(permutation.numel()), std::optional<Device>(permutation.device())));
}

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first, bool enforce_sorted) {
  Tensor sizes = strata::to(lengths, DType::I64), order;
  if (!enforce_sorted) {
    const auto sorted = sort(sizes, true, -1, true);
    sizes = sorted[0];
    order = strata::to(sorted[1], std::optional<Device>(input.device()));
  }
  const auto packed = _pack_padded_sequence(input, sizes, order, batch_first);
  return {packed[0], packed[1], order};
}
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths, bool batch_first,
                                    bool enforce_sorted) {
  return pack_padded_sequence(input, as_int64(lengths), batch_first, enforce_sorted);
}

std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& s, bool batch_first, Scalar padding_value,
                                              std::optional<int64_t> total_length) {
  STRATA_CHECK(s.data && s.batch_sizes, Value, "pad_packed_sequence: the packed sequence is empty; pack one first");
  const auto padded =
    _pad_packed_sequence(s.data, s.batch_sizes, s.unsorted_indices, batch_first, padding_value, total_length);
  return {padded[0], padded[1]};
}

Tensor pad_sequence(std::span<const Tensor> sequences, bool batch_first, Scalar padding_value,
                    std::string_view padding_side) {
  return _pad_sequence(sequences, batch_first, padding_value, padding_side);
}

std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths, bool batch_first) {
  STRATA_CHECK(padded.dim() >= 2, Runtime,
               "unpad_sequence: expected padded sequences [steps, batch, ...], got shape {}",
               to_string(padded.shape()));
  const Tensor sizes = contiguous(strata::to(lengths, DType::I64));
  const int64_t batch = padded.size(batch_first ? 0 : 1), steps = padded.size(batch_first ? 1 : 0);
  STRATA_CHECK(sizes.dim() == 1 && sizes.numel() == batch, Value,
               "unpad_sequence: expected one length for each of the {} sequences, got shape {}", batch,
               to_string(sizes.shape()));
  std::vector<Tensor> sequences;
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t n = sizes.data<int64_t>()[i];
    STRATA_CHECK(n >= 0 && n <= steps, Value, "unpad_sequence: lengths must be from 0 to {} (the padded steps), got {}",
                 steps, n);
    sequences.push_back(narrow(select(padded, batch_first ? 0 : 1, i), 0, 0, n));
  }
  return sequences;
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  const Tensor padded = pad_sequence(sequences);
  std::vector<int64_t> lengths;
  lengths.reserve(sequences.size());
  for (const Tensor& s : sequences) lengths.push_back(s.size(0));
  return pack_padded_sequence(padded, lengths, false, enforce_sorted);
}

std::vector<Tensor> unpack_sequence(const PackedSequence& packed) {
  const auto [padded, lengths] = pad_packed_sequence(packed, true);
  return unpad_sequence(padded, lengths, true);
}

}  // namespace strata::nn::utils::rnn
