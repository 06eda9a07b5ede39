"""Less settled parts of fx."""
