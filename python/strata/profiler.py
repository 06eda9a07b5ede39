"""PyTorch's profiler over strata.tracing(): profile, schedule, record_function, key_averages, export_chrome_trace."""

from .torch.profiler import (
    EventList,
    ProfilerAction,
    ProfilerActivity,
    emit_nvtx,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "EventList",
    "ProfilerAction",
    "ProfilerActivity",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
