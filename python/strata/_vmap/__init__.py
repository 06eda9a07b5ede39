"""vmap: functions of one slice that run on all slices at once. See docs/internals/vmap.md."""
