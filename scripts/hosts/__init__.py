"""What scripts/hosts-test.py runs on: hosts in network namespaces, and file systems that serve them."""
