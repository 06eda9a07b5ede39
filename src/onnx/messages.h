// Protocol-buffer messages read in place, with the kind of each field checked: a wrong one is an error of the file.
#pragma once
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace strata::onnx {

inline std::string_view text_of(protozero::data_view v) { return {v.data(), v.size()}; }

class Message {
 public:
  explicit Message(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}
  bool next() { return reader_.next(); }
  uint32_t field() const { return reader_.tag(); }
  void skip() { reader_.skip(); }
  std::string_view view() {
    need(protozero::pbf_wire_type::length_delimited);
    return text_of(reader_.get_view());
  }
  int64_t integer() {
    need(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  float number() {
    need(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }
  double long_number() {
    need(protozero::pbf_wire_type::fixed64);
    return reader_.get_double();
  }
  // A repeated number is one field with all values, or a field per value.
  template <class F> void integers(F&& take) {
    if (reader_.has_wire_type(protozero::pbf_wire_type::length_delimited))
      for (const int64_t v : reader_.get_packed_int64()) take(v);
    else take(integer());
  }
  template <class F> void numbers(F&& take) {
    if (reader_.has_wire_type(protozero::pbf_wire_type::length_delimited))
      for (const float v : reader_.get_packed_float()) take(v);
    else take(number());
  }
  template <class F> void long_numbers(F&& take) {
    if (reader_.has_wire_type(protozero::pbf_wire_type::length_delimited))
      for (const double v : reader_.get_packed_double()) take(v);
    else take(long_number());
  }

 private:
  void need(protozero::pbf_wire_type type) const {
    STRATA_CHECK(reader_.has_wire_type(type), Runtime, "field {} has another kind than ONNX's", reader_.tag());
  }
  protozero::pbf_reader reader_;
};

// Runs f, which reads messages of `file`, and turns what protozero throws into an error that names the file.
template <class F> auto reading(const std::string& file, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const protozero::exception& e) {
    fail(ErrorKind::Runtime, "'" + file + "' is damaged or not an ONNX model: " + e.what());
  } catch (const Error& e) { fail(e.kind(), "'" + file + "': " + e.what()); }
}

}  // namespace strata::onnx
