#include "files/safetensors_header.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

namespace strata::files {
namespace {

// Builds the header from the parser's events, so that everything is checked: no tree of unknown depth and size is
// built.
class HeaderReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit HeaderReader(const std::string& file) : file_(file) {}
  Header header;

  bool start_object(size_t) {
    if (place_ == Place::Start) place_ = Place::Top;
    else if (place_ == Place::Entry) place_ = header_key_ == kMetadataKey ? Place::Metadata : Place::Fields;
    else wrong("an object", "");
    if (place_ == Place::Fields) {
      entry_ = {};
      fields_ = 0;
      entry_.name = header_key_;
    }
    return true;
  }
  bool key(string_t& text) {
    if (place_ == Place::Top) {
      STRATA_CHECK(names_.insert(text).second, Runtime, "'{}': the header names '{}' twice", file_, text);
      STRATA_CHECK(names_.size() <= kMaxTensors + 1, Runtime, "'{}': the header names more than {} tensors", file_,
                   kMaxTensors);
      header_key_ = text;
      place_ = Place::Entry;
    } else {
      key_ = text;
      if (place_ == Place::Metadata)
        STRATA_CHECK(header.metadata.emplace(text, "").second, Runtime, "'{}': __metadata__ names '{}' twice", file_,
                     text);
      else take_field(text);
    }
    return true;
  }
  bool end_object() {
    if (place_ == Place::Fields) {
      STRATA_CHECK(fields_ == 7, Runtime, "'{}': tensor '{}' lacks one of dtype, shape and data_offsets", file_,
                   entry_.name);
      header.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::Top ? Place::Done : Place::Top;
    return true;
  }
  bool start_array(size_t) {
    if (place_ != Place::Fields || key_ == "dtype") wrong("a list", "");
    place_ = key_ == "shape" ? Place::Shape : Place::Offsets;
    offsets_ = 0;
    return true;
  }
  bool end_array() {
    STRATA_CHECK(place_ == Place::Shape || offsets_ == 2, Runtime,
                 "'{}': data_offsets of tensor '{}' are {} numbers; expected 2", file_, entry_.name, offsets_);
    place_ = Place::Fields;
    return true;
  }
  bool string(string_t& text) {
    if (place_ == Place::Metadata) header.metadata[key_] = text;
    else if (place_ == Place::Fields && key_ == "dtype") entry_.dtype = dtype_named(text);
    else wrong("the text '" + text.substr(0, 60) + "'", "");
    return true;
  }
  bool number_unsigned(number_unsigned_t v) {
    if (place_ == Place::Shape) {
      STRATA_CHECK(v <= static_cast<number_unsigned_t>(INT64_MAX), Runtime,
                   "'{}': the shape of tensor '{}' has a size of {}", file_, entry_.name, v);
      STRATA_CHECK(entry_.shape.size() < kMaxDims, Runtime, "'{}': tensor '{}' has more than {} dimensions", file_,
                   entry_.name, kMaxDims);
      entry_.shape.push_back(static_cast<int64_t>(v));
    } else if (place_ == Place::Offsets) {
      (offsets_ == 0 ? entry_.begin : entry_.end) = v;
      STRATA_CHECK(++offsets_ <= 2, Runtime, "'{}': data_offsets of tensor '{}' are more than 2 numbers", file_,
                   entry_.name);
    } else wrong(fmt::format("the number {}", v), "");
    return true;
  }
  bool number_integer(number_integer_t v) {
    return wrong(fmt::format("the number {}", v), "; sizes and offsets are not negative");
  }
  bool number_float(number_float_t, const string_t& text) {
    return wrong("the number " + text, "; sizes and offsets are integers");
  }
  bool boolean(bool v) { return wrong(v ? "true" : "false", ""); }
  bool null() { return wrong("null", ""); }
  bool binary(binary_t&) { return false; }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    fail(ErrorKind::Runtime,
         fmt::format("'{}': the header is not valid JSON at byte {} ({}); the file is damaged or no safetensors "
                     "file",
                     file_, position + 8, e.what()));
  }

 private:
  enum class Place { Start, Top, Entry, Fields, Metadata, Shape, Offsets, Done };

  bool wrong(const std::string& found, const char* more) const {
    fail(ErrorKind::Runtime,
         fmt::format("'{}': unexpected {} in the header{}{}; expected {{name: {{dtype, shape, data_offsets}}}}", file_,
                     found, header_key_.empty() ? "" : " at '" + header_key_ + "'", more));
  }
  void take_field(const std::string& name) {
    const unsigned bit = name == "dtype" ? 1 : name == "shape" ? 2 : name == "data_offsets" ? 4 : 0;
    STRATA_CHECK(bit, Runtime, "'{}': tensor '{}' has the unknown field '{}'", file_, entry_.name, name);
    STRATA_CHECK(!(fields_ & bit), Runtime, "'{}': tensor '{}' has the field '{}' twice", file_, entry_.name, name);
    fields_ |= bit;
  }
  DType dtype_named(const std::string& text) const {
    for (int i = 0; i < kDTypeCount; ++i)
      if (text == format_name(static_cast<DType>(i))) return static_cast<DType>(i);
    fail(ErrorKind::Runtime,
         fmt::format("'{}': tensor '{}' is of dtype '{}', which Strata does not have; convert it before saving", file_,
                     entry_.name, text.substr(0, 60)));
  }

  const std::string& file_;
  Place place_ = Place::Start;
  std::string header_key_, key_;
  std::unordered_set<std::string> names_;
  HeaderEntry entry_;
  unsigned fields_ = 0;
  int offsets_ = 0;
};
}  // namespace

// The format has no name for complex128; only save() of checkpoints writes it.
const char* format_name(DType t) { return t == DType::C128 ? "C128" : info_of(t).file_name; }

uint64_t header_length(Bytes start, const std::string& name) {
  STRATA_CHECK(start.size() >= 8, Runtime,
               "'{}' has {} bytes, too few for a safetensors file; it is truncated or something else", name,
               start.size());
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= std::to_integer<uint64_t>(start[i]) << (8 * i);
  STRATA_CHECK(length <= kMaxHeader, Runtime,
               "'{}': the header length is {}; at most {} is allowed. Is this a safetensors file?", name, length,
               kMaxHeader);
  return length;
}

Header read_header(Bytes file, const std::string& name) {
  const uint64_t length = header_length(file, name);
  STRATA_CHECK(length <= file.size() - 8, Runtime,
               "'{}': the header length is {}, but only {} bytes follow; the file is truncated", name, length,
               file.size() - 8);
  const auto* text = reinterpret_cast<const char*>(file.data()) + 8;
  HeaderReader reader(name);
  nlohmann::json::sax_parse(text, text + length, &reader);
  reader.header.size = 8 + length;
  return std::move(reader.header);
}

}  // namespace strata::files
