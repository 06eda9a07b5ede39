"""onnxruntime.capi: where programs look for the exceptions."""

from . import onnxruntime_inference_collection, onnxruntime_pybind11_state

__all__ = ["onnxruntime_inference_collection", "onnxruntime_pybind11_state"]
