#include "onnx/tensor_data.h"

#include <charconv>
#include <cstring>

#include "base/checked.h"
#include "onnx/messages.h"
#include "tensor/file_storage.h"

namespace strata::onnx {
namespace {

int bits_of(ElementType type) {
  switch (type) {
    case ElementType::UInt4:
    case ElementType::Int4:
    case ElementType::Float4E2M1: return 4;
    case ElementType::UInt2:
    case ElementType::Int2: return 2;
    case ElementType::Float6E2M3:
    case ElementType::Float6E3M2: return 6;
    case ElementType::Float8E4M3FNUZ:
    case ElementType::Float8E5M2FNUZ:
    case ElementType::Float8E8M0: return 8;
    default: return 8 * static_cast<int>(size_of(storage_dtype(type)));
  }
}

// The field that holds the numbers of a type, if not raw_data does.
uint32_t typed_field(ElementType type) {
  switch (type) {
    case ElementType::Float:
    case ElementType::Complex64: return field::kFloatData;
    case ElementType::Double:
    case ElementType::Complex128: return field::kDoubleData;
    case ElementType::Int64: return field::kInt64Data;
    case ElementType::UInt32:
    case ElementType::UInt64: return field::kUInt64Data;
    case ElementType::String: return field::kStringData;
    default: return field::kInt32Data;
  }
}

struct Place {  // of external data
  std::string_view location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};
uint64_t number_in(std::string_view text, std::string_view key) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  STRATA_CHECK(error == std::errc() && end == text.data() + text.size(), Runtime,
               "external data has {} '{}', expected a number of bytes", key, text);
  return value;
}
void read_entry(std::string_view bytes, Place& place) {
  std::string_view key, value;
  Message in(bytes);
  while (in.next()) switch (in.field()) {
      case field::kKey: key = in.view(); break;
      case field::kValue: value = in.view(); break;
      default: in.skip();
    }
  if (key == "location") place.location = value;
  else if (key == "offset") place.offset = number_in(value, key);
  else if (key == "length") place.length = number_in(value, key);
  else STRATA_CHECK(key == "checksum" || key == "basepath", Runtime, "external data has an unknown key '{}'", key);
}

// What the message holds besides name, type and shape.
struct Contents {
  std::string_view raw;
  bool has_raw = false;
  std::vector<std::string> strings;
  std::string numbers;  // bytes as raw_data would have them
  uint32_t found = 0;   // the typed field that holds numbers
  Place place;
};
template <class T> void append(std::string& bytes, T v, size_t width) {
  char text[sizeof(T)];
  std::memcpy(text, &v, sizeof v);
  bytes.append(text, width);
}
Contents read_contents(const TensorData& data, ElementType type) {
  Contents c;
  const size_t width =
    static_cast<size_t>(std::max(bits_of(type == ElementType::String ? ElementType::UInt8 : type), 8)) / 8;
  Message in(data.message);
  const auto typed = [&](uint32_t f) {
    STRATA_CHECK(f == typed_field(type), Runtime, "field {} holds values, which is not that of the element type {}", f,
                 name_of(type));
    c.found = f;
  };
  while (in.next()) switch (in.field()) {
      case field::kRawData:
        c.raw = in.view();
        c.has_raw = true;
        break;
      case field::kFloatData:
        typed(in.field());
        in.numbers([&](float v) { append(c.numbers, v, sizeof v); });
        break;
      case field::kDoubleData:
        typed(in.field());
        in.long_numbers([&](double v) { append(c.numbers, v, sizeof v); });
        break;
      case field::kInt32Data:
      case field::kInt64Data:
      case field::kUInt64Data: {
        typed(in.field());
        const size_t bytes = std::min(width, sizeof(int64_t));
        in.integers([&](int64_t v) { append(c.numbers, v, bytes); });
        break;
      }
      case field::kStringData:
        typed(in.field());
        c.strings.emplace_back(in.view());
        break;
      case field::kExternalData: read_entry(in.view(), c.place); break;
      default: in.skip();
    }
  return c;
}

Tensor over_bytes(const std::shared_ptr<FileBytes>& file, std::string_view bytes, Shape shape, DType dtype) {
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = dtype;
  t->set_shape(shape);
  t->set_contiguous_strides();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  const bool inside = file && begin >= file->data() && begin + bytes.size() <= file->data() + file->size();
  if (inside && !bytes.empty()) {
    t->storage = files::storage_in(file, static_cast<size_t>(begin - file->data()), bytes.size(), dtype);
  } else {
    t->storage = allocate(bytes.size());
    if (!bytes.empty()) std::memcpy(t->storage->data, bytes.data(), bytes.size());
  }
  t->data = t->storage->data;
  return t;
}

// Codes of less than 8 bits, one per byte: the first is in the lowest bits.
std::vector<uint8_t> unpack(std::string_view bytes, int64_t count, int bits) {
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t at = i * static_cast<size_t>(bits), byte = at / 8, shift = at % 8;
    unsigned word = static_cast<uint8_t>(bytes[byte]);
    if (shift + static_cast<size_t>(bits) > 8) word |= unsigned{static_cast<uint8_t>(bytes[byte + 1])} << 8;
    codes[i] = static_cast<uint8_t>(word >> shift & ((1u << bits) - 1));
  }
  return codes;
}

std::string_view external_bytes(const Place& place, const FileBytes& file) {
  const uint64_t size = file.size(), offset = place.offset;
  STRATA_CHECK(offset <= size && place.length.value_or(0) <= size - std::min(offset, size), Runtime,
               "external data from byte {} with {} bytes is outside of '{}' ({} bytes)", offset,
               place.length.value_or(0), place.location, size);
  return {reinterpret_cast<const char*>(file.data()) + offset, place.length.value_or(size - offset)};
}

Value make_checked(const TensorData& data, ExternalFiles& files) {
  const auto type = static_cast<ElementType>(data.type);
  if (type != ElementType::String) (void)storage_dtype(type);  // refuses unknown types
  for (const int64_t d : data.dims)
    STRATA_CHECK(d >= 0, Runtime, "its shape is {}; sizes are not negative", to_string(Shape(data.dims)));
  const int64_t count = checked_numel(data.dims);
  Contents c = read_contents(data, type);
  if (type == ElementType::String) {
    STRATA_CHECK(!c.has_raw && !data.external && static_cast<int64_t>(c.strings.size()) == count, Runtime,
                 "{} strings for the shape {}", c.strings.size(), to_string(Shape(data.dims)));
    return Value::of(Strings{data.dims, std::move(c.strings)});
  }
  STRATA_CHECK(!(c.has_raw && c.found) && !(data.external && (c.found || !c.raw.empty())), Runtime,
               "it has values in two places");
  std::string_view bytes = c.has_raw ? c.raw : std::string_view(c.numbers);
  std::shared_ptr<FileBytes> file = c.has_raw ? files.model_file() : nullptr;
  if (data.external) {
    if (files.are_attached()) {
      const Tensor& weight = files.attached(c.place.location);
      if (!is_carried(type)) {
        STRATA_CHECK(weight.dtype() == storage_dtype(type) && std::ranges::equal(weight.shape(), data.dims), Runtime,
                     "its values are {} {}; the network has {} {}", name_of(weight.dtype()), to_string(weight.shape()),
                     name_of(type), to_string(Shape(data.dims)));
        return weight;
      }
      STRATA_CHECK(weight.dtype() == DType::U8, Runtime, "its codes are {}; expected bytes", name_of(weight.dtype()));
      bytes = {reinterpret_cast<const char*>(weight.bytes()), static_cast<size_t>(weight.numel())};
    } else {
      file = files.open(std::string(c.place.location));
      bytes = external_bytes(c.place, *file);
    }
  }
  const int bits = bits_of(type);
  const int64_t need = ((Checked(count) * bits + 7).get()) / 8;
  STRATA_CHECK(static_cast<int64_t>(bytes.size()) == need, Runtime, "{} bytes of values, the shape {} of {} needs {}",
               bytes.size(), to_string(Shape(data.dims)), name_of(type), need);
  if (!is_carried(type)) return over_bytes(file, bytes, data.dims, storage_dtype(type));
  const std::vector<uint8_t> codes = unpack(bytes, count, bits);
  return {decode_codes(codes.data(), data.dims, type), type};
}
}  // namespace

const std::shared_ptr<FileBytes>& ExternalFiles::open(const std::string& name) {
  STRATA_CHECK(!model_.folder.empty(), Runtime,
               "external data in '{}', but the model was not read from a file, so its folder is unknown", name);
  std::shared_ptr<FileBytes>& file = open_[name];
  if (!file) file = FileBytes::map_below(model_.folder, name);
  return file;
}

const Tensor& ExternalFiles::attached(std::string_view location) const {
  const auto found = model_.attached.find(location);
  STRATA_CHECK(found != model_.attached.end(), Runtime, "the weight '{}' is missing", location);
  return found->second;
}

Tensor external_codes(const TensorData& data, ExternalFiles& files) {
  const Contents c = read_contents(data, static_cast<ElementType>(data.type));
  if (files.are_attached()) return files.attached(c.place.location);
  const auto& file = files.open(std::string(c.place.location));
  const std::string_view bytes = external_bytes(c.place, *file);
  return over_bytes(file, bytes, Shape({static_cast<int64_t>(bytes.size())}), DType::U8);
}

Value make_value(const TensorData& data, ExternalFiles& files) {
  const std::string& file = files.model_file() ? files.model_file()->name() : std::string();
  return reading(file, [&] {
    try {
      return make_checked(data, files);
    } catch (const Error& e) { fail(e.kind(), "tensor '" + std::string(data.name) + "': " + e.what()); }
  });
}

}  // namespace strata::onnx
