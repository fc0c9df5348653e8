"""An extension of Nautilus that shows a test what is on the screen: it answers one request a line on a Unix socket.

Loaded by Nautilus itself beside the extension that is tested; see scripts/desktop-test.py.
"""

import json
import os

import gi

gi.require_version("Gtk", "4.0")
from gi.repository import Gio, GObject, Gtk, Nautilus


def widgets(widget=None):
    """All widgets that are shown, below one or in all windows."""
    if widget is None:
        for window in Gtk.Window.list_toplevels():
            if window.get_visible():
                yield from widgets(window)
        return
    yield widget
    child = widget.get_first_child()
    while child is not None:
        yield from widgets(child)
        child = child.get_next_sibling()


def items(model):
    """The entries of a menu: label and action, or label and the entries of a submenu."""
    found = []
    for index in range(model.get_n_items()):
        label, action = (model.get_item_attribute_value(index, name, None) for name in ("label", "action"))
        section, submenu = (model.get_item_link(index, name) for name in ("section", "submenu"))
        if section is not None:
            found += items(section)
        elif submenu is not None:
            found.append([label.unpack(), items(submenu)])
        elif action is not None:
            found.append([label.unpack(), action.unpack()])
    return found


class Requests:
    def cells(self):
        """The names that a view shows, each with the icons of its emblems."""
        found = {}
        for cell in widgets():
            if type(cell).__gtype__.name in ("NautilusGridCell", "NautilusNameCell"):
                labels = [w.get_label() for w in widgets(cell) if isinstance(w, Gtk.Label) and w.get_label()]
                icons = [w.get_gicon() for w in widgets(cell) if isinstance(w, Gtk.Image) and w.get_gicon()]
                found[labels[0]] = sorted(icon.get_names()[0] for icon in icons)
        return found

    def texts(self):
        """All texts that are shown."""
        return [w.get_label() for w in widgets() if isinstance(w, Gtk.Label) and w.get_mapped() and w.get_label()]

    def select(self, *names):
        """Selects files of the view by name."""
        for grid in widgets():
            if isinstance(grid, (Gtk.GridView, Gtk.ColumnView)):
                model = grid.get_model()
                model.unselect_all()
                for index in range(model.get_n_items()):
                    if model.get_item(index).get_property("file").get_name() in names:
                        model.select_item(index, False)

    def act(self, action):
        """Activates an action in the view, or in what is shown above it."""
        return any(w.activate_action(action, None) for w in widgets())

    def menus(self):
        return [items(w.get_menu_model()) for w in widgets() if isinstance(w, Gtk.PopoverMenu) and w.get_menu_model()]

    def press(self, text):
        """Activates the row, button or entry of a menu that shows a text."""
        widget = next(w for w in widgets() if isinstance(w, Gtk.Label) and w.get_mapped() and w.get_label() == text)
        while not widget.activate():
            widget = widget.get_parent()


class Probe(GObject.GObject, Nautilus.ColumnProvider):
    def __init__(self):
        super().__init__()
        self.service = Gio.SocketService()
        self.service.add_address(
            Gio.UnixSocketAddress.new(os.environ["PROBE_SOCKET"]), Gio.SocketType.STREAM, Gio.SocketProtocol.DEFAULT,
            None)
        self.service.connect("incoming", self.answer)

    def get_columns(self):
        return []

    def answer(self, _, connection, __):
        request = json.loads(Gio.DataInputStream.new(connection.get_input_stream()).read_line_utf8()[0])
        try:
            reply = json.dumps(getattr(Requests(), request[0])(*request[1:]))
            connection.get_output_stream().write_all(reply.encode() + b"\n")
        finally:
            connection.close()
