"""A disk of its own for a run: ext4 as mkfs makes it, on a loop device, past the page cache of what lies below."""

import contextlib
import os
import shutil
import subprocess
import tempfile


@contextlib.contextmanager
def fresh_disk(parent="/var/tmp", gigabytes=40):
    """A directory on a new, empty file system; the image is sparse, and gone afterwards."""
    root = tempfile.mkdtemp(prefix="protectfs-disk.", dir=parent)
    image, directory = f"{root}/image", f"{root}/disk"
    mounted = False
    try:
        os.mkdir(directory)
        with open(image, "wb") as file:
            file.truncate(gigabytes << 30)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        device = subprocess.run(
            ["losetup", "--find", "--show", "--direct-io=on", image], check=True, capture_output=True, text=True).stdout.strip()
        try:
            subprocess.run(["mount", device, directory], check=True)
            mounted = True
        finally:
            # It goes with the mount.
            subprocess.run(["losetup", "--detach", device], check=False)
        yield directory
    finally:
        if mounted:
            subprocess.run(["umount", directory], check=False)
        shutil.rmtree(root, ignore_errors=True)
