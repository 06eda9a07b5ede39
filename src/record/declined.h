// How a planned kernel gives a call back when it runs.
#pragma once
#include "base/error.h"

namespace strata {

// Thrown by the run function of a planned kernel, before it has changed anything, if a library rejects what it accepted
// while planning. The kernel must object to this call from then on; dispatch runs the next one that accepts it. If there
// is none, the caller gets this error.
class STRATA_API Declined : public Error {
 public:
  explicit Declined(const std::string& reason) : Error(ErrorKind::Runtime, reason) {}
};

}  // namespace strata
