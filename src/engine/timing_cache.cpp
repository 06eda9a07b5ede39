#include "engine/timing_cache.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "dispatch/tuning_store.h"

namespace strata::engine {

std::string device_key(Device device) {
  if (device.type == DeviceType::Cpu) return "cpu";
  const std::string file = tuning_file(device);  // named after the GPU, its driver and libraries
  const size_t slash = file.rfind('/');
  return file.empty() ? to_string(device) : file.substr(slash == std::string::npos ? 0 : slash + 1);
}

TimingCache TimingCache::read(const std::string& path) {
  TimingCache cache;
  try {
    const auto file = FileBytes::read(path);
    const auto json = nlohmann::json::parse(reinterpret_cast<const char*>(file->data()),
                                            reinterpret_cast<const char*>(file->data()) + file->size());
    for (const auto& [device, calls] : json.at("times").items())
      for (const auto& [call, times] : calls.items())
        for (const auto& [kernel, us] : times.items())
          if (us.is_number() && us.get<double>() >= 0) cache.entries_[device][call][kernel] = us.get<double>();
  } catch (const Error&) { cache.entries_.clear(); } catch (const nlohmann::json::exception&) {
    cache.entries_.clear();
  }
  return cache;
}

void TimingCache::write(const std::string& path) const {
  TimingCache all = read(path);
  all.add_all(*this);
  const nlohmann::json json = {{"format", "strata timing cache"}, {"times", all.entries_}};
  write_file(path, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::optional<TimingCache::Times> TimingCache::find(const std::string& device, const std::string& call) const {
  const std::lock_guard lock(lock_);
  const auto calls = entries_.find(device);
  if (calls == entries_.end()) return {};
  const auto times = calls->second.find(call);
  return times == calls->second.end() ? std::nullopt : std::optional(times->second);
}
void TimingCache::add(const std::string& device, const std::string& call, Times times) {
  const std::lock_guard lock(lock_);
  entries_[device][call] = std::move(times);
}
void TimingCache::add_all(const TimingCache& other) {
  const Entries theirs = other.copy();
  const std::lock_guard lock(lock_);
  for (const auto& [device, calls] : theirs)
    for (const auto& [call, times] : calls) entries_[device][call] = times;
}
size_t TimingCache::size() const {
  const std::lock_guard lock(lock_);
  size_t count = 0;
  for (const auto& [device, calls] : entries_) count += calls.size();
  return count;
}
TimingCache::Entries TimingCache::copy() const {
  const std::lock_guard lock(lock_);
  return entries_;
}
TimingCache& TimingCache::operator=(const TimingCache& o) {
  Entries theirs = o.copy();
  const std::lock_guard lock(lock_);
  entries_ = std::move(theirs);
  return *this;
}

}  // namespace strata::engine
