"""GlusterFS 10: a volume of two bricks with data and an arbiter, which one server has; a client for each host."""

import pathlib
import time

from hosts.network import Engine, run


class GlusterFS(Engine):
    # What a reader may see while another host replaces a file: none.
    unkept = ["gone"]
    # How long a client that is gone keeps its locks, at most: TCP's keepalive finds it (20 + 9 × 2 s by default).
    sustain = 40
    # Locks that were lost are not taken again in silence (client.strict-locks): the descriptor that had one fails.
    settings = {
        "client.strict-locks": "on", "network.ping-timeout": "10", "performance.write-behind": "on",
        "performance.stat-prefetch": "off", "performance.quick-read": "off", "performance.io-cache": "off",
        "performance.open-behind": "off",
    }
    mount_options = ["--entry-timeout=0", "--attribute-timeout=0", "--negative-timeout=0"]

    def start(self):
        work = self.directory / "gluster"
        work.mkdir()
        (work / "glusterd.vol").write_text(
            "volume management\n  type mgmt/glusterd\n"
            f"  option working-directory {work}\n  option run-directory {work}\n"
            f"  option transport-type socket\n  option transport.socket.listen-port 24007\n"
            f"  option glusterd-sockfile {work}/socket\n  option base-port 49152\nend-volume\n")
        self.begin("glusterd", "server", "glusterd", "--no-daemon", "--volfile", work / "glusterd.vol",
                   "--pid-file", work / "pid", "--log-file", work / "log")
        for _ in range(120):
            if self.gluster("volume", "list", check=False).returncode == 0:
                break
            time.sleep(0.5)
        bricks = [f"{self.network.server_address}:{self.directory}/brick{number}" for number in [1, 2, 3]]
        self.gluster("volume", "create", "store", "replica", "3", "arbiter", "1", *bricks, "force")
        for name, value in self.settings.items():
            self.gluster("volume", "set", "store", name, value)
        self.gluster("volume", "start", "store")

    def gluster(self, *words, check=True):
        return run(*self.network.inside(
            "server", "gluster", "--mode=script", f"--glusterd-sock={self.directory}/gluster/socket", *words), check=check)

    def mount(self, name):
        """Mounts it on a host; returns where."""
        point = self.directory / name
        point.mkdir(exist_ok=True)
        for _ in range(60):
            run(*self.network.inside(
                name, "glusterfs", *self.mount_options, f"--volfile-server={self.network.server_address}",
                "--volfile-id=store", f"--log-file={self.directory}/client.{name}.log", str(point)))
            self.mounted.append(point)
            if run("ls", str(point), check=False).returncode == 0:
                return point
            run("umount", "-l", str(point), check=False)
            time.sleep(0.5)
        raise RuntimeError(f"{name} does not mount")

    def stop(self):
        # Its bricks are processes of their own. Without a server this fails.
        self.gluster("volume", "stop", "store", "force", check=False)
        super().stop()
        for log in pathlib.Path("/var/log/glusterfs/bricks").glob(f"{str(self.directory)[1:].replace('/', '-')}-*"):
            log.unlink()
