"""SummaryWriter: event files that TensorBoard shows, written without its package."""

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
