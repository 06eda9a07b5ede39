#include "tensor/promise.h"

namespace strata {

std::atomic<int> promising{0};
STRATA_THREAD_LOCAL_DECL thread_local constinit Promiser* own_promiser = nullptr;

void keep_promises(const Storage* s, const char* why) {
  if (own_promiser) own_promiser->keep(why);
  if (!s) return;
  if (Promiser* other = promiser_of(*s)) other->keep(why);
}

void drop_promise(Storage& s) {
  if (Promiser* promiser = promiser_of(s)) promiser->drop(s);
  set_promiser(s, nullptr);
}

}  // namespace strata
