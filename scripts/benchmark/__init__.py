"""What scripts/bench.sh measures: workloads side by side on several file systems, and the limits that protectfs keeps."""
