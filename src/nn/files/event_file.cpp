#include "nn/files/event_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "base/file.h"

namespace strata {
namespace {
namespace fs = std::filesystem;

// CRC-32C, rotated and shifted as TFRecord wants it, so that a sum over a sum differs.
uint32_t masked_crc(std::string_view data) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit) made[i] = made[i] >> 1 ^ (made[i] & 1 ? 0x82F63B78u : 0);
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char c : data) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 255];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

// Little endian, as all machines that Strata runs on.
template <class T> std::string_view bytes_of(const T& v) { return {reinterpret_cast<const char*>(&v), sizeof v}; }

std::string host_name() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 && *name ? name : "host";
}

double seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

struct EventFile::File {
  std::string path;
  std::FILE* file = nullptr;
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (file) std::fclose(file);
  }

  void write(const std::string& event) {
    const uint64_t size = event.size();
    const uint32_t of_size = masked_crc(bytes_of(size)), of_event = masked_crc(event);
    for (const std::string_view part : {bytes_of(size), bytes_of(of_size), std::string_view(event), bytes_of(of_event)})
      if (std::fwrite(part.data(), 1, part.size(), file) != part.size()) fail_io(errno, path);
  }
  // A Summary with one value.
  void add(std::string_view tag, int64_t step, const std::string& value_fields) {
    std::string value, summary, event;
    protozero::pbf_writer of_value(value), of_summary(summary), of_event(event);
    of_value.add_string(1, tag.data(), tag.size());
    value += value_fields;
    of_summary.add_message(1, value);
    of_event.add_double(1, seconds());
    of_event.add_int64(2, step);
    of_event.add_message(5, summary);
    write(event);
  }
};

EventFile::EventFile(const std::string& folder) : file_(std::make_unique<File>()) {
  static std::atomic<int> number{0};
  std::error_code error;
  fs::create_directories(folder, error);
  STRATA_CHECK(!error, Io, "event file: cannot make the folder {}: {}", folder, error.message());
  file_->path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, static_cast<int64_t>(seconds()),
                            host_name(), getpid(), number++);
  file_->file = std::fopen(file_->path.c_str(), "wbx");
  if (!file_->file) fail_io(errno, file_->path);
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(1, seconds());
  writer.add_string(3, "brain.Event:2");
  file_->write(event);
}
EventFile::~EventFile() = default;
EventFile::EventFile(EventFile&&) noexcept = default;
EventFile& EventFile::operator=(EventFile&&) noexcept = default;

const std::string& EventFile::path() const { return file_->path; }

void EventFile::add_scalar(std::string_view tag, double value, int64_t step) {
  std::string fields;
  protozero::pbf_writer(fields).add_float(2, static_cast<float>(value));
  file_->add(tag, step, fields);
}

void EventFile::add_text(std::string_view tag, std::string_view text, int64_t step) {
  constexpr int kString = 7, kOne = 1;  // of DataType; the length of the tensor
  std::string fields, plugin, metadata, size, shape, tensor;
  protozero::pbf_writer(plugin).add_string(1, "text");
  protozero::pbf_writer(metadata).add_message(1, plugin);
  protozero::pbf_writer(size).add_int64(1, kOne);
  protozero::pbf_writer(shape).add_message(2, size);
  protozero::pbf_writer of_tensor(tensor), of_value(fields);
  of_tensor.add_enum(1, kString);
  of_tensor.add_message(2, shape);
  of_tensor.add_bytes(8, text.data(), text.size());
  of_value.add_message(9, metadata);
  of_value.add_message(8, tensor);
  file_->add(tag, step, fields);
}

void EventFile::flush() {
  if (std::fflush(file_->file) != 0) fail_io(errno, file_->path);
}

}  // namespace strata
