"""What is asked of the kernel between measurements."""

import os


def drop_caches():
    """Writes everything back, and empties the page cache and those of names and inodes."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


def forget_peak(process):
    """Starts the peak of a process's memory anew."""
    with open(f"/proc/{process}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
