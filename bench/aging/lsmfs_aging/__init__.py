"""The aging harness. Reading order: cli, engine, workloads, stage, scan, results, report."""
