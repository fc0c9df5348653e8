"""Shows in Nautilus (GNOME Files, 43 and later) the protection class of files on protectfs mounts and whether they are
locked, and changes the class.

The class of a file is its extended attribute user.protectfs.class; what is locked comes from 'protectfs status --json';
'protectfs class set' makes the changes. All of that happens in the background, and Nautilus waits for none of it, also
where a daemon hangs. For files elsewhere, their path is compared with those of the mounts, which are read when the
table of mounts changes.
"""

import json
import sys
import time

import gi
from gi.repository import Gio, GLib, GObject, Nautilus

ATTRIBUTE = "xattr::protectfs.class"

# In the order of menus: the letter, and when files of the class are usable.
CLASSES = {
    "complete": ("A", "while unlocked"),
    "completeUnlessOpen": ("B", "opened while unlocked, then until closed"),
    "completeUntilFirstUserAuthentication": ("C", "from the first unlock until unmounted"),
    "completeWhenUserInactive": ("CX", "while unlocked, and for a period after the lock"),
    "none": ("D", "always"),
}

STATES = {
    "beforeFirstUnlock": "locked (before first unlock)",
    "unlocked": "unlocked",
    "gracePeriod": "unlocked (grace period)",
    "locked": "locked",
    "inactive": "locked (inactive)",
}

OBSTACLES = {
    None: "usable",
    "classLocked": "locked: it becomes usable with an unlock",
    "permissions": "not usable by this user: its permissions say so, not its class",
    "keyRevoked": "lost: its class key was erased, reset or rotated away",
    "keyMissing": "not usable: the keybag does not have its class key",
}

# How many files of a mount are asked at a time. A daemon that hangs holds up as many of GIO's threads.
QUESTIONS = 2
# How long 'protectfs status' may take, in seconds.
PATIENCE = "10"


class Mount:
    """A mount, and what is known of its files."""

    def __init__(self, path):
        self.path = path
        # The classes of files by their URI, as they were at the last answer, and until when nobody need ask again.
        self.classes, self.fresh = {}, {}
        # The URIs of files to be asked, in order (the values do not matter), and how many are being asked.
        self.questions = {}
        self.asked = 0
        # The classes whose files can be opened now; None where this user may not ask the daemon.
        self.usable = None
        # Whether its events are followed, and whether one has come: the first is there at once.
        self.is_watched = self.is_heard = False

    def has(self, path):
        return f"{path}/".startswith(f"{self.path}/")


class ProtectFS(GObject.GObject, Nautilus.InfoProvider, Nautilus.MenuProvider, Nautilus.PropertiesModelProvider):
    def __init__(self):
        super().__init__()
        self.mounts = {}
        self.monitor = Gio.UnixMountMonitor.get()
        self.monitor.connect("mounts-changed", self.read_mounts)
        self.read_mounts()

    def read_mounts(self, *_):
        entries = Gio.unix_mounts_get()[0]
        paths = [Gio.unix_mount_get_mount_path(e) for e in entries if Gio.unix_mount_get_fs_type(e) == "fuse.protectfs"]
        self.mounts = {path: self.mounts.get(path) or Mount(path) for path in paths}

    def mount_of(self, file):
        """The mount that a file is on, by its path alone; None for files elsewhere."""
        if not self.mounts or file.get_uri_scheme() != "file":
            return None
        path = file.get_location().get_path()
        return max((m for m in self.mounts.values() if m.has(path)), key=lambda m: len(m.path), default=None)

    # Emblems

    def update_file_info(self, file):
        """Shows what is known of a file, and asks again.

        This always returns at once. What it does not know yet is shown when Nautilus calls it again, after refresh().
        """
        mount = self.mount_of(file)
        if mount is None:
            return
        if not mount.is_watched:
            self.watch(mount)
        uri = file.get_uri()
        name = mount.classes.get(uri)
        if name in CLASSES:
            file.add_emblem(f"protectfs-{CLASSES[name][0].lower()}")
            if mount.usable is not None and name not in mount.usable:
                file.add_emblem("protectfs-locked")
        if mount.fresh.pop(uri, 0) < time.monotonic():
            mount.questions[uri] = None
            self.ask(mount)

    def ask(self, mount):
        while mount.questions and mount.asked < QUESTIONS:
            uri = next(iter(mount.questions))
            del mount.questions[uri]
            mount.asked += 1
            Gio.File.new_for_uri(uri).query_info_async(
                ATTRIBUTE, Gio.FileQueryInfoFlags.NOFOLLOW_SYMLINKS, GLib.PRIORITY_LOW, None, self.answered, mount, uri)

    def answered(self, location, result, mount, uri):
        mount.asked -= 1
        try:
            name = location.query_info_finish(result).get_attribute_string(ATTRIBUTE)
        except GLib.Error:
            # It is gone, or this user may not look at it: then Nautilus shows that.
            name = None
        if mount.classes.get(uri) != name:
            mount.classes[uri] = name
            self.refresh(mount, [uri])
        self.ask(mount)

    def refresh(self, mount, uris, is_fresh=True):
        """Has Nautilus call update_file_info() for the files that it still knows."""
        for uri in uris:
            file = Nautilus.FileInfo.lookup_for_uri(uri)
            if file is None:
                mount.classes.pop(uri, None)
            else:
                if is_fresh:
                    mount.fresh[uri] = time.monotonic() + 1
                file.invalidate_extension_info()

    # Lock state

    def watch(self, mount):
        """Follows the lock state of a mount for as long as it is there."""
        mount.is_watched = True
        # It ends with Nautilus.
        command = ["setpriv", "--pdeathsig", "TERM", "protectfs", "events", "--json", mount.path]
        try:
            process = Gio.Subprocess.new(command, Gio.SubprocessFlags.STDOUT_PIPE)
        except GLib.Error as error:
            print(f"protectfs-nautilus: {error.message}", file=sys.stderr)
            return
        events = Gio.DataInputStream.new(process.get_stdout_pipe())
        events.read_line_async(GLib.PRIORITY_DEFAULT, None, self.heard, mount)

    def heard(self, events, result, mount):
        line = events.read_line_finish_utf8(result)[0]
        if line is None:
            self.has_ended(mount)
            return
        mount.is_heard = True
        if json.loads(line)["event"] not in ("accessDenied", "eventsDropped"):
            run(["timeout", PATIENCE, "protectfs", "status", "--json", mount.path], self.knows_state, mount)
        events.read_line_async(GLib.PRIORITY_DEFAULT, None, self.heard, mount)

    def has_ended(self, mount):
        """Forgets a mount whose daemon has ended; another may be in its place. One of another user stays, stateless."""
        if mount.is_heard:
            self.mounts = {path: other for path, other in self.mounts.items() if other is not mount}
            self.read_mounts()
            self.refresh(mount, list(mount.classes))

    def knows_state(self, _, output, errors, mount):
        usable = None
        if output:
            usable = {entry["class"] for entry in json.loads(output)["classes"] if entry["key"] == "available"}
        if mount.usable != usable:
            mount.usable = usable
            self.refresh(mount, list(mount.classes))

    # Menu

    def get_file_items(self, files):
        return self.menus(files, "Selection")

    def get_background_items(self, folder):
        return self.menus([folder], "Folder")

    def menus(self, files, owner):
        mounts = {self.mount_of(file) for file in files}
        if len(mounts) != 1 or None in mounts:
            return []
        mount = mounts.pop()
        paths = [file.get_location().get_path() for file in files]
        classes = {mount.classes.get(file.get_uri()) for file in files}
        if not any(file.is_directory() for file in files):
            return [self.submenu("Protection Class", owner, mount, paths, classes)]
        return [
            self.submenu("Protection Class of Everything Inside", owner, mount, ["-R", *paths], set()),
            self.submenu("Protection Class of New Files", owner, mount, paths, classes),
        ]

    def submenu(self, label, owner, mount, arguments, current):
        # Nautilus has one action for all items of a name, in whatever menus they are.
        prefix = f"ProtectFS::{owner}::{label}"
        top = Nautilus.MenuItem(name=prefix, label=label)
        menu = Nautilus.Menu()
        top.set_submenu(menu)
        for name, (letter, usable) in CLASSES.items():
            mark = "✓ " if current == {name} else ""
            item = Nautilus.MenuItem(name=f"{prefix}::{letter}", label=f"{mark}{letter}: {usable}")
            item.connect("activate", self.set_class, mount, name, arguments)
            menu.append_item(item)
        return top

    def set_class(self, _, mount, name, arguments):
        run(["protectfs", "class", "set", name, *arguments], self.has_set_class, mount)

    def has_set_class(self, succeeded, _, errors, mount):
        self.refresh(mount, list(mount.classes), is_fresh=False)
        if not succeeded:
            report("The protection class could not be changed everywhere", errors)

    # Properties

    def get_models(self, files):
        mount = self.mount_of(files[0])
        if len(files) != 1 or mount is None:
            return []
        rows = Gio.ListStore.new(Nautilus.PropertiesItem)
        path, name = files[0].get_location().get_path(), mount.classes.get(files[0].get_uri())
        run(["timeout", PATIENCE, "protectfs", "status", "--json", path], self.knows_file, rows, name)
        return [Nautilus.PropertiesModel(title="Protection", model=rows)]

    def knows_file(self, _, output, errors, rows, name):
        def row(title, text):
            rows.append(Nautilus.PropertiesItem(name=title, value=text))

        if not output:
            row("Not known", errors.strip() or "The daemon does not answer.")
            return
        status = json.loads(output)
        name = status.get("class", name)
        if name in CLASSES:
            letter, usable = CLASSES[name]
            row("Class", f"{name} ({letter})")
            row("Usable", usable)
        if "isUsable" in status:
            row("Now", OBSTACLES.get(status.get("obstacle"), status.get("obstacle")))
        row("Mount", f"{status['mountPoint']}, {STATES.get(status.get('state'), 'state not shown to this user')}")


def run(command, done, *context):
    """Runs a command, and calls 'done' with whether it succeeded, what it printed, its errors, and the context."""
    def finished(process, result):
        output, errors = (bytes.get_data().decode(errors="replace") for bytes in process.communicate_finish(result)[1:])
        done(process.get_successful(), output, errors, *context)

    try:
        process = Gio.Subprocess.new(command, Gio.SubprocessFlags.STDOUT_PIPE | Gio.SubprocessFlags.STDERR_PIPE)
    except GLib.Error as error:
        done(False, "", error.message, *context)
        return
    process.communicate_async(None, None, finished)


def report(title, text):
    """Shows an error above the window that is in use."""
    gi.require_version("Gtk", "4.0")
    from gi.repository import Gtk

    window = Gio.Application.get_default().get_active_window()
    dialog = Gtk.MessageDialog(
        transient_for=window, modal=True, message_type=Gtk.MessageType.ERROR, buttons=Gtk.ButtonsType.CLOSE,
        text=title, secondary_text=text.strip())
    dialog.connect("response", lambda dialog, _: dialog.destroy())
    dialog.present()
