"""CephFS 16: a monitor, a manager, one device in memory and one metadata server; ceph-fuse on each host."""

import os
import time
import uuid

from hosts.network import Engine, run


class CephFS(Engine):
    # What a reader may see while another host replaces a file: the old or the new one.
    unkept = []
    # After how many seconds a client that is gone is evicted and blocklisted: 60 and 300 by default.
    timeout = 30
    sustain = 30

    def __init__(self, network, directory):
        super().__init__(network, directory)
        self.configuration = self.directory / "ceph.conf"

    def start(self):
        cluster = uuid.uuid4()
        self.configuration.write_text(
            f"[global]\nfsid = {cluster}\nmon host = v1:{self.network.server_address}:6789\nmon initial members = a\n"
            "auth cluster required = none\nauth service required = none\nauth client required = none\n"
            "ms bind msgr2 = false\nms bind ipv6 = false\n"
            "osd pool default size = 1\nosd pool default min size = 1\nosd crush chooseleaf type = 0\n"
            "mon allow pool size one = true\nmon warn on pool no redundancy = false\nosd objectstore = memstore\n"
            "memstore device bytes = 1073741824\nosd max object name len = 256\nosd max object namespace len = 64\n"
            f"run dir = {self.directory}\nlog file = {self.directory}/$name.$pid.log\npid file = {self.directory}/$name.$pid.pid\n"
            f"mon cluster log file = {self.directory}/cluster.log\n"
            f"admin socket = {self.directory}/$name.$pid.asok\ncrash dir = {self.directory}\n"
            f"mon data = {self.directory}/mon\nosd data = {self.directory}/osd\nmgr data = {self.directory}/mgr\n"
            f"mds data = {self.directory}/mds\nmon pg warn min per osd = 0\n"
            + "".join(f"[{kind}]\npublic addr = {self.network.server_address}\n" for kind in ["mon", "mgr", "osd", "mds"]))
        for name in ["mon", "osd", "mgr", "mds"]:
            (self.directory / name).mkdir()
        monitors = self.directory / "monmap"
        run("monmaptool", "--create", "--fsid", str(cluster), "--addv", "a",
            f"[v1:{self.network.server_address}:6789]", str(monitors))
        self.inside("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(monitors))
        self.serve("ceph-mon", "a")
        self.wait_for("", "status")
        self.serve("ceph-mgr", "a")
        self.ceph("osd", "new", str(device := uuid.uuid4()))
        self.inside("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", str(device))
        self.serve("ceph-osd", "0")
        self.serve("ceph-mds", "a")
        for pool in ["metadata", "data"]:
            self.ceph("osd", "pool", "create", pool, "8")
        self.ceph("fs", "new", "store", "metadata", "data")
        self.ceph("fs", "set", "store", "session_timeout", str(self.timeout))
        self.ceph("fs", "set", "store", "session_autoclose", str(self.timeout))
        self.wait_for("up:active", "mds", "stat")

    def inside(self, program, *words, check=True):
        return run(*self.network.inside("server", program, "-c", self.configuration, *words), check=check)

    def ceph(self, *words, check=True):
        # A monitor that has just begun may refuse any command.
        for _ in range(10):
            done = self.inside("ceph", "--connect-timeout", "10", *words, check=False)
            if done.returncode == 0 or not check:
                return done
            time.sleep(1)
        raise RuntimeError(f"ceph {' '.join(words)}: {done.stdout}")

    def wait_for(self, part, *words):
        """Waits until a command succeeds and prints something."""
        for _ in range(180):
            shown = self.ceph(*words, check=False)
            if shown.returncode == 0 and part in shown.stdout:
                return
            time.sleep(0.5)
        raise RuntimeError(f"ceph {' '.join(words)}: {shown.stdout}")

    def serve(self, program, identifier):
        self.begin(program, "server", program, "-c", self.configuration, "-i", identifier, "-f")

    def mount(self, name):
        """Mounts it on a host; returns where."""
        point = self.directory / name
        point.mkdir(exist_ok=True)
        client = self.begin(
            f"client.{name}", name, "ceph-fuse", "-c", self.configuration, "-f", "--id", "admin", str(point))
        self.mounted.append(point)
        for _ in range(600):
            if os.path.ismount(point):
                return point
            if client.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"{name} does not mount: {(self.directory / f'client.{name}.log').read_text()}")

    def mount_again(self, name):
        # One that was blocklisted is refused everything.
        run("umount", "-l", str(self.directory / name))
        self.mount(name)
