"""MooseFS 3.0: one master, one chunk server, a client for each host."""

import pathlib
import time

from hosts.network import Engine, run


class MooseFS(Engine):
    # What a reader may see while another host replaces a file: the old or the new one.
    unkept = []
    # How long a client that is gone keeps its locks, in seconds; a day by default.
    sustain = 20
    keeps_out = False

    def start(self):
        for name in ["master", "chunks", "disk"]:
            (self.directory / name).mkdir()
        common = "WORKING_USER=root\nWORKING_GROUP=root\nNICE_LEVEL=0\n"
        (self.directory / "exports.cfg").write_text("* / rw,alldirs,maproot=0\n")
        (self.directory / "disks.cfg").write_text(f"{self.directory}/disk\n")
        (self.directory / "master.cfg").write_text(
            f"{common}DATA_PATH={self.directory}/master\nEXPORTS_FILENAME={self.directory}/exports.cfg\n"
            f"SESSION_SUSTAIN_TIME={self.sustain}\n")
        (self.directory / "chunks.cfg").write_text(
            f"{common}DATA_PATH={self.directory}/chunks\nHDD_CONF_FILENAME={self.directory}/disks.cfg\n"
            f"MASTER_HOST={self.network.server_address}\nBIND_HOST={self.network.server_address}\n"
            "HDD_FSYNC_BEFORE_CLOSE=1\nHDD_LEAVE_SPACE_DEFAULT=64MiB\n")
        empty = pathlib.Path("/var/lib/mfs/metadata.mfs.empty").read_bytes()
        (self.directory / "master/metadata.mfs").write_bytes(empty)
        for program, name in [("mfsmaster", "master"), ("mfschunkserver", "chunks")]:
            self.begin(name, "server", program, "-c", f"{self.directory}/{name}.cfg", "-d", "start")

    def mount(self, name):
        """Mounts it on a host; returns where. Extended attributes, in which records are, are not to be remembered."""
        point = self.directory / name
        point.mkdir(exist_ok=True)
        for _ in range(60):
            mounted = run(*self.network.inside(
                name, "mfsmount", "-H", self.network.server_address, "-o", "mfsxattrcacheto=0,mfsattrcacheto=0",
                str(point)), check=False)
            if mounted.returncode == 0:
                self.mounted.append(point)
                return point
            time.sleep(0.5)
        raise RuntimeError(f"{name} does not mount: {mounted.stdout}")
