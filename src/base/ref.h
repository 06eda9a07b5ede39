// Ref: an owning pointer to an object with an intrusive count, and small scope helpers.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace strata {

// T has a public `std::atomic<int32_t> refs`, initially 1, and `static void destroy(T*)`.
template <class T> class Ref {
 public:
  Ref() = default;
  static Ref adopt(T* fresh) {
    Ref r;
    r.p_ = fresh;
    return r;
  }
  static Ref share(T* p) {
    if (p) p->refs.fetch_add(1, std::memory_order_relaxed);
    return adopt(p);
  }
  Ref(const Ref& o) : Ref(share(o.p_)) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_) drop(p_);
  }
  // The sole owner may skip the locked decrement: no other thread can access the count.
  static void drop(T* p) {
    if (p->refs.load(std::memory_order_acquire) == 1 || p->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
      T::destroy(p);
  }
  T* get() const { return p_; }
  T* release() { return std::exchange(p_, nullptr); }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  T* p_ = nullptr;
};

// An object that is created on first use, by whichever thread comes first, and destroyed with its owner.
template <class T> class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { delete get(); }
  T* get() const { return p_.load(std::memory_order_acquire); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  explicit operator bool() const { return get() != nullptr; }
  template <class U = T> U& make() {  // all callers must use the same U
    if (T* p = get()) return static_cast<U&>(*p);
    auto* fresh = new U;
    T* before = nullptr;
    if (p_.compare_exchange_strong(before, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return static_cast<U&>(*before);
  }

 private:
  std::atomic<T*> p_{nullptr};
};

// Sets a variable for the duration of a scope.
template <class T> struct Scoped {
  Scoped(T& variable, T value) : target(variable), before(std::exchange(variable, value)) {}
  ~Scoped() { target = before; }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  T& target;
  T before;
};

}  // namespace strata
