// A header of the user's project, with the name of one of Strata's sources.
#pragma once
inline int own_error() { return 3; }
