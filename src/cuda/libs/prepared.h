// What a library has prepared (descriptors, chosen algorithms), kept by the geometry of the call.
#pragma once
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace strata::cuda {

// Geometry is compared by its bytes, so it must have no padding. Owners are never destroyed: the library may be unloaded
// before static destructors run.
template <class Geometry, class Prepared> class PreparedCalls {
 public:
  // The prepared call for this geometry; the first time, the one that make() returns.
  template <class Make> std::shared_ptr<Prepared> find(const Geometry& geometry, Make make) {
    static_assert(std::has_unique_object_representations_v<Geometry>);
    const std::lock_guard hold(lock_);
    if (const auto known = kept_.find(geometry); known != kept_.end()) return known->second;
    if (kept_.size() >= kMost) kept_.clear();
    return kept_[geometry] = make();
  }

 private:
  static constexpr size_t kMost = 4096;
  static std::string_view bytes_of(const Geometry& g) { return {reinterpret_cast<const char*>(&g), sizeof g}; }
  struct Hash {
    size_t operator()(const Geometry& g) const { return std::hash<std::string_view>()(bytes_of(g)); }
  };
  struct Equal {
    bool operator()(const Geometry& a, const Geometry& b) const { return bytes_of(a) == bytes_of(b); }
  };
  std::mutex lock_;
  std::unordered_map<Geometry, std::shared_ptr<Prepared>, Hash, Equal> kept_;
};

}  // namespace strata::cuda
