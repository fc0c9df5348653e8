"""What scripts/kill-test.py and scripts/powercut-test.py share: a load on a mount that keeps account of what was
acknowledged, and a check of what a crash left against that account.
"""
