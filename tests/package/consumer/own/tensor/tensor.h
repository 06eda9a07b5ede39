// A header of the user's project, with the name of one of Strata's sources.
#pragma once
struct Tensor {
  int rank = 2;
};
