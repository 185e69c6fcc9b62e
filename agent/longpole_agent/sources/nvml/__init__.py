"""NVIDIA GPUs through NVML. Only this package knows pynvml."""
