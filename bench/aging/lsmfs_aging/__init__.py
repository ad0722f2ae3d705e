"""The aging harness. Reading order: cli, engine, workloads, cold, devices, file_systems, results, report."""
