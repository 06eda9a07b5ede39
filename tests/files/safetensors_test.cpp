#include "files/safetensors.h"

#include <fmt/core.h>

#include <gtest/gtest.h>

#include <filesystem>

#include "nn/files/checkpoint.h"
#include "strata/ops.h"
#include "tests/expect_error.h"
#include "tests/ops/exact.h"
#include "tests/temp_folder.h"

namespace strata {
namespace {

using testing::get;
using testing::TempFolder;

std::string length_prefix(uint64_t n) {
  std::string s(8, '\0');
  for (size_t i = 0; i < 8; ++i) s[i] = static_cast<char>(n >> (8 * i) & 0xff);
  return s;
}
std::string file_with(const std::string& header, const std::string& data = "") {
  return length_prefix(header.size()) + header + data;
}
void read_text(const std::string& bytes) {
  files::read_safetensors(FileBytes::copy(std::as_bytes(std::span(bytes)), "weights"));
}

TEST(SafeTensors, WritesTheBytesOfTheFormat) {
  TempFolder folder;
  save(folder / "a", {{"x", arange(3)}, {"flag", ones({1}, DType::Bool)}}, {{"by", "me"}});
  const std::string header = R"({"__metadata__":{"by":"me"},"x":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},)"
                             R"("flag":{"dtype":"BOOL","shape":[1],"data_offsets":[24,25]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string data(25, '\0');
  data[8] = 1;
  data[16] = 2;
  data[24] = 1;
  EXPECT_EQ(get(folder / "a"), file_with(padded, data));
}

TEST(SafeTensors, RoundTripKeepsEveryDtypeShapeAndTheOrder) {
  TempFolder folder;
  TensorDict in;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    in.emplace_back(fmt::format("t{}", i), to(arange(6.0), dtype));
    in.emplace_back(fmt::format("empty{}", i), make_tensor(Shape(std::initializer_list<int64_t>{0, 3}), dtype));
    in.emplace_back(fmt::format("scalar{}", i), to(full({}, 1.0), dtype));
    in.emplace_back(fmt::format("strided{}", i), t(to(reshape(arange(6.0), {2, 3}), dtype)));
  }
  save(folder / "f", in, {{"k", "v"}, {"\xc3\xa9", ""}});
  const SafeTensors out = load(folder / "f");
  EXPECT_EQ(out.metadata, (Metadata{{"k", "v"}, {"\xc3\xa9", ""}}));
  ASSERT_EQ(out.tensors.size(), in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(out.tensors[i].first, in[i].first);
    const Tensor &a = in[i].second, &b = out.tensors[i].second;
    EXPECT_EQ(a.dtype(), b.dtype());
    EXPECT_EQ(to_string(a.shape()), to_string(b.shape()));
    EXPECT_TRUE(b.is_contiguous());
    EXPECT_EQ(testing::difference(to(a, DType::F64), to(b, DType::F64)), "") << in[i].first;
  }
  EXPECT_EQ(folder.count(), 1U);
}

TEST(SafeTensors, NoTensorsAndPaddingAreFine) {
  TempFolder folder;
  save(folder / "f", {});
  EXPECT_TRUE(load(folder / "f").tensors.empty());
  read_text(file_with("{}   "));
}

TEST(SafeTensors, LoadedTensorsAreWritableAndTheFileStaysAsItIs) {
  TempFolder folder;
  save(folder / "f", {{"a", zeros({4})}, {"b", zeros({4})}});
  const std::string before = get(folder / "f");
  Tensor a, b;
  {
    const SafeTensors loaded = load(folder / "f");
    a = loaded.tensors[0].second;
    b = loaded.tensors[1].second;
  }
  add_(a, 1);
  EXPECT_EQ(sum(a).item<double>(), 4);
  EXPECT_EQ(sum(b).item<double>(), 0);
  EXPECT_EQ(a->version(), 1U);  // a write to one weight does not change its neighbour
  EXPECT_EQ(b->version(), 0U);
  EXPECT_EQ(get(folder / "f"), before);
  save(folder / "f", {{"a", a}});  // over the file that a came from
  EXPECT_EQ(sum(load(folder / "f").tensors[0].second).item<double>(), 4);
  EXPECT_EQ(sum(b).item<double>(), 0);
}

TEST(SafeTensors, TensorsThatAreNotAlignedAreCopied) {
  const std::string header =
    R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"d":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})";
  std::string data(9, '\0');
  const double value = 2.5;
  std::memcpy(data.data() + 1, &value, 8);
  const std::string bytes = file_with(header, data);
  const SafeTensors f = files::read_safetensors(FileBytes::copy(std::as_bytes(std::span(bytes)), "f"));
  EXPECT_EQ(f.tensors[1].second.item<double>(), 2.5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(f.tensors[1].second.bytes()) % 8, 0U);
}

TEST(SafeTensors, BadLengthsAreRefused) {
  EXPECT_ERROR(Runtime, "'weights' has 0 bytes", read_text(""));
  EXPECT_ERROR(Runtime, "'weights' has 7 bytes", read_text("1234567"));
  EXPECT_ERROR(Runtime, "the header length is 9223372036854775808", read_text(length_prefix(1ULL << 63) + "{}"));
  EXPECT_ERROR(Runtime, "the header length is 100000001; at most 100000000", read_text(length_prefix(100'000'001)));
  EXPECT_ERROR(Runtime, "the header length is 3, but only 2 bytes follow", read_text(length_prefix(3) + "{}"));
  EXPECT_ERROR(Runtime, "not valid JSON", read_text(length_prefix(0)));
}

std::string one(const std::string& shape, const std::string& offsets, const std::string& dtype = "F32") {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(SafeTensors, BadShapesAndOffsetsAreRefused) {
  const std::string four(4, '\0');
  // The product overflows to 4 elements in 64 bits.
  EXPECT_ERROR(Runtime, "more elements than can be addressed",
               read_text(file_with(one("[4194305,4194305,211106198978564]", "[0,4]"), four)));
  EXPECT_ERROR(Runtime, "more elements than can be addressed",
               read_text(file_with(one("[4194305,4194305,211106198978564]", "[0,16]"), std::string(16, 'x'))));
  EXPECT_ERROR(Runtime, "has a size of 9223372036854775808",
               read_text(file_with(one("[9223372036854775808]", "[0,4]"), four)));
  EXPECT_ERROR(Runtime, "not negative", read_text(file_with(one("[-1]", "[0,4]"), four)));
  EXPECT_ERROR(Runtime, "are integers", read_text(file_with(one("[1.5]", "[0,4]"), four)));
  EXPECT_ERROR(Runtime, "are integers", read_text(file_with(one("[1e3]", "[0,4]"), four)));
  std::string many = "[1";
  for (int d = 0; d < 64; ++d) many += ",1";
  many += "]";
  EXPECT_ERROR(Runtime, "more than 64 dimensions", read_text(file_with(one(many, "[0,4]"), four)));
  EXPECT_ERROR(Runtime, "are reversed: [4, 0]", read_text(file_with(one("[1]", "[4,0]"), four)));
  EXPECT_ERROR(Runtime, "are [0, 8], but the file has 4 bytes", read_text(file_with(one("[2]", "[0,8]"), four)));
  EXPECT_ERROR(Runtime, "span 4 bytes, its shape [2] of float32 needs 8",
               read_text(file_with(one("[2]", "[0,4]"), four)));
  EXPECT_ERROR(Runtime, "start at 4, after the end of the one before (0)",
               read_text(file_with(one("[1]", "[4,8]"), four + four)));
  EXPECT_ERROR(Runtime, "4 bytes after the last tensor", read_text(file_with(one("[1]", "[0,4]"), four + four)));
  EXPECT_ERROR(Runtime, "are 1 numbers; expected 2", read_text(file_with(one("[1]", "[0]"), four)));
  EXPECT_ERROR(Runtime, "more than 2 numbers", read_text(file_with(one("[1]", "[0,4,8]"), four)));
  EXPECT_ERROR(
    Runtime, "start at 2, before the end of the one before (4)",
    read_text(file_with(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
      "123456")));
  EXPECT_ERROR(
    Runtime, "start at 0, before the end of the one before (4)",
    read_text(file_with(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      four)));
  read_text(file_with(one("[1099511627776,1000,0]", "[0,0]")));  // empty
  EXPECT_ERROR(Runtime, "more elements than can be addressed",   // its strides would wrap
               read_text(file_with(one("[9223372036854775807,9223372036854775807,0]", "[0,0]"))));
}

TEST(SafeTensors, BadHeadersAreRefused) {
  EXPECT_ERROR(Runtime, "names 'w' twice",
               read_text(file_with(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{}})")));
  EXPECT_ERROR(Runtime, "has the field 'shape' twice", read_text(file_with(R"({"w":{"shape":[0],"shape":[1]}})")));
  EXPECT_ERROR(Runtime, "names 'k' twice", read_text(file_with(R"({"__metadata__":{"k":"1","k":"2"}})")));
  EXPECT_ERROR(Runtime, "lacks one of", read_text(file_with(R"({"w":{"dtype":"F32","shape":[0]}})")));
  EXPECT_ERROR(Runtime, "unknown field 'order'", read_text(file_with(R"({"w":{"order":"F32"}})")));
  EXPECT_ERROR(Runtime, "dtype 'U4'", read_text(file_with(one("[0]", "[0,0]", "U4"))));
  EXPECT_ERROR(Runtime, "unexpected the number 1", read_text(file_with(R"({"__metadata__":{"k":1}})")));
  EXPECT_ERROR(Runtime, "unexpected a list", read_text(file_with(R"([])")));
  EXPECT_ERROR(Runtime, "unexpected a list", read_text(file_with(std::string(1'000'000, '['))));
  EXPECT_ERROR(Runtime, "unexpected an object", read_text(file_with(R"({"w":{"dtype":{"a":{}}}})")));
  EXPECT_ERROR(Runtime, "unexpected null", read_text(file_with(R"({"w":null})")));
  EXPECT_ERROR(Runtime, "not valid JSON",
               read_text(file_with(R"({"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,0]}})")));
  EXPECT_ERROR(Runtime, "not valid JSON", read_text(file_with("{\"\xff\xfe\":{}}")));
  EXPECT_ERROR(Runtime, "not valid JSON", read_text(file_with("{}{}")));
  EXPECT_ERROR(Runtime, "bytes other than 0 and 1", read_text(file_with(one("[2]", "[0,2]", "BOOL"), "\1\2")));
  std::string many = "{";
  for (int i = 0; i <= 100'001; ++i)
    many += fmt::format("{}\"{}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", i ? "," : "", i);
  EXPECT_ERROR(Runtime, "more than 100000 tensors", read_text(file_with(many + "}")));
}

TEST(SafeTensors, WhatCannotBeSavedIsRefusedAndLeavesNothing) {
  TempFolder folder;
  EXPECT_ERROR(Value, "two tensors are named 'a'", save(folder / "f", {{"a", zeros({1})}, {"a", zeros({1})}}));
  EXPECT_ERROR(Value, "the format uses it", save(folder / "f", {{"__metadata__", zeros({1})}}));
  EXPECT_ERROR(Value, "tensor 'a' is undefined", save(folder / "f", {{"a", Tensor()}}));
  EXPECT_ERROR(Value, "not UTF-8", save(folder / "f", {{"\xff", zeros({1})}}));
  EXPECT_ERROR(Value, "not UTF-8", save(folder / "f", {}, {{"k", "\xc3"}}));
  EXPECT_ERROR(Io, "no file can be made in the folder", save(folder / "no/such/f", {}));
  EXPECT_EQ(folder.count(), 0U);
}

}  // namespace
}  // namespace strata
