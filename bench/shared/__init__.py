"""What the benchmarks of file systems share: programs that are run, file systems by their descriptions, devices, cold caches."""
