// Times of kernels by device and call, so that the next build measures nothing. A file of JSON that a person can read.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/api.h"
#include "tensor/device.h"

namespace strata::engine {

// What times depend on besides the call: the device, its driver, and this version.
STRATA_API std::string device_key(Device device);

class STRATA_API TimingCache {
 public:
  using Times = std::map<std::string, double>;  // microseconds by kernel
  // The entries of a file that can be understood; a file that is not there or is damaged gives none.
  static TimingCache read(const std::string& path);
  // Adds the entries to those of the file. Throws Io.
  void write(const std::string& path) const;

  std::optional<Times> find(const std::string& device, const std::string& call) const;
  void add(const std::string& device, const std::string& call, Times times);
  void add_all(const TimingCache& other);
  size_t size() const;

  TimingCache() = default;
  TimingCache(const TimingCache& o) : entries_(o.copy()) {}
  TimingCache& operator=(const TimingCache& o);

 private:
  using Entries = std::map<std::string, std::map<std::string, Times>>;  // by device, by call
  Entries copy() const;
  mutable std::mutex lock_;
  Entries entries_;
};

}  // namespace strata::engine
