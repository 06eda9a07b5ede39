// Sequences of different lengths: padded, or packed without padding, which recurrent networks accept.
//
//   auto packed = nn::utils::rnn::pack_sequence({a, b}, false);
//   auto [output, state] = lstm(packed);
//   for (const Tensor& sequence : nn::utils::rnn::unpack_sequence(output)) ...
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace strata::nn::utils::rnn {

// The steps of several sequences without padding: data of all first steps, then of all second ones, ...
struct STRATA_API PackedSequence {
  Tensor data, batch_sizes;  // batch_sizes: int64, the number of sequences that have each step; descending
  Tensor sorted_indices, unsorted_indices;  // undefined if the sequences are in order of their lengths

  PackedSequence() = default;
  // unsorted_indices is the inverse of sorted_indices unless given.
  PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {}, Tensor unsorted_indices = {});
  PackedSequence to(DType dtype) const;  // the same with the data converted
  PackedSequence to(Device device) const;
};

// The inverse of a permutation; undefined if it is undefined.
STRATA_API Tensor invert_permutation(const Tensor& permutation);

// Packs padded sequences [steps, batch, ...]; enforce_sorted = false allows lengths in any order.
STRATA_API PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first = false,
                                               bool enforce_sorted = true);
STRATA_API PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                               bool batch_first = false, bool enforce_sorted = true);
// The padded form of packed sequences, and their lengths.
STRATA_API std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                                         Scalar padding_value = 0,
                                                         std::optional<int64_t> total_length = {});
// Stacks sequences of different lengths, padded to the longest at their end ("right") or beginning ("left").
STRATA_API Tensor pad_sequence(std::span<const Tensor> sequences, bool batch_first = false, Scalar padding_value = 0,
                               std::string_view padding_side = "right");
// The sequences of a padded tensor, each with its own length; views of it.
STRATA_API std::vector<Tensor> unpad_sequence(const Tensor& padded_sequences, const Tensor& lengths,
                                              bool batch_first = false);
STRATA_API PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);
STRATA_API std::vector<Tensor> unpack_sequence(const PackedSequence& packed_sequences);

}  // namespace strata::nn::utils::rnn
