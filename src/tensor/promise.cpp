#include "tensor/promise.h"

namespace strata {

std::atomic<int> promising{0};
Promiser* promisers[kMostPromisers] = {};

static uint16_t next_place() {
  static std::atomic<uint16_t> taken{0};
  for (uint16_t n = taken.load(); n + size_t{1} < kMostPromisers;)
    if (taken.compare_exchange_weak(n, static_cast<uint16_t>(n + 1))) return static_cast<uint16_t>(n + 1);
  return 0;
}
Promiser::Promiser() : place(next_place()) {
  if (place) promisers[place] = this;  // nobody looks there before a storage has this place
}
STRATA_THREAD_LOCAL_DECL thread_local constinit Promiser* own_promiser = nullptr;
STRATA_THREAD_LOCAL_DECL thread_local constinit ReadObserver* own_read_observer = nullptr;

void keep_promises(const Storage* s, const char* why) {
  if (own_read_observer && s) own_read_observer->reads(s, why);
  if (own_promiser) own_promiser->keep(why);
  if (!s) return;
  if (Promiser* other = promiser_of(*s)) other->keep(why);
}

void tell_of_grad(const TensorImpl& t) {
  if (own_read_observer) own_read_observer->looks_at_grad(t);
}
void tell_of_generator() {
  if (own_read_observer) own_read_observer->sets_generator();
}

void drop_promise(Storage& s) {
  if (Promiser* promiser = promiser_of(s)) promiser->drop(s);
  set_promiser(s, nullptr);
}

}  // namespace strata
