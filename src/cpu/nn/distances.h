// Distances in a p-norm between a row and the rows of a matrix, and their gradients: one column of vectors per row of the
// matrix, so that rows of any length fill the vectors and no sum goes across one.
#pragma once
#include <algorithm>
#include <cstdint>

namespace strata::cpu {

// The rows of a matrix as panels of this many columns: element k of row j is at [j / width][k][j % width]. Rows beyond the
// last are zero.
template <class T> constexpr int64_t kDistanceColumns = 256 / static_cast<int64_t>(sizeof(T));
template <class T> int64_t distance_panels(int64_t rows) {
  return (rows + kDistanceColumns<T> - 1) / kDistanceColumns<T>;
}
void pack_distance_panels(const float* rows, int64_t count, int64_t d, float* panels);
void pack_distance_panels(const double* rows, int64_t count, int64_t d, double* panels);

// Distances of a row of d elements from the first `columns` rows of a panel.
void distances_to_panel(const float* row, const float* panel, int64_t d, int64_t columns, double p, float* out);
void distances_to_panel(const double* row, const double* panel, int64_t d, int64_t columns, double p, double* out);

// out (d elements) = the gradient of the sum of g * distances, with respect to the row: `distances` are those from the
// `count` rows of panels. Equal rows have no gradient.
void distance_gradient(const float* row, const float* panels, int64_t d, int64_t count, const float* g,
                       const float* distances, double p, float* out);
void distance_gradient(const double* row, const double* panels, int64_t d, int64_t count, const double* g,
                       const double* distances, double p, double* out);

}  // namespace strata::cpu
