#!/bin/sh
# Installs protectfs: the binary, the helper of mount(8), services for systemd, the PAM module, the extension for Nautilus,
# man pages and shell completions. 'pam-auth-update --enable protectfs' as root then has logins use the module.
#
# usage: scripts/install.sh [PREFIX]        (PREFIX is /usr/local; DESTDIR is honoured, for packages)
#
# The binary is $PROTECTFS, or .build/release/protectfs, which is built unless it is there. At run time that needs libfuse3,
# libcrypto and libtss2 (Debian: fuse3 libssl3 libtss2-esys-3.0.2-0 libtss2-tctildr0 libtss2-rc0), nothing of Swift. What
# speaks to logind loads libsystemd (libsystemd0), with which nothing is linked: packages must name it themselves.
set -eu

prefix=${1:-/usr/local}
destination=${DESTDIR:-}
case $prefix in
/*) ;;
*)
    echo "install.sh: PREFIX must be an absolute path, not '$prefix'" >&2
    exit 64
    ;;
esac

cd "$(dirname "$0")/.."
binary=${PROTECTFS:-.build/release/protectfs}
if [ -z "${PROTECTFS:-}" ] && [ ! -x "$binary" ]; then
    echo "Building $binary"
    swift build -c release --static-swift-stdlib --product protectfs
fi

install -D -m 755 "$binary" "$destination$prefix/bin/protectfs"
# Names of functions are half of it.
if command -v strip >/dev/null; then strip "$destination$prefix/bin/protectfs"; fi

# mount(8) looks for helpers in /sbin alone. The program knows by the name that it is called by.
case $prefix in
/usr | /usr/local) helpers=/sbin ;;
*) helpers=$prefix/sbin ;;
esac
mkdir -p "$destination$helpers"
ln -sf "$prefix/bin/protectfs" "$destination$helpers/mount.fuse.protectfs"

units=$destination$prefix/lib/systemd
mkdir -p "$units/system" "$units/user"
for unit in packaging/systemd/*.service packaging/systemd/*.socket packaging/systemd/user/*.service; do
    case $unit in */user/*) manager=user ;; *) manager=system ;; esac
    sed "s|/usr/local/|$prefix/|" "$unit" >"$units/$manager/${unit##*/}"
    chmod 644 "$units/$manager/${unit##*/}"
done
install -D -m 755 packaging/systemd/protectfs-freeze "$destination$prefix/libexec/protectfs-freeze"
install -D -m 644 packaging/tmpfiles/protectfs.conf "$destination$prefix/lib/tmpfiles.d/protectfs.conf"

# PAM looks for modules in one place alone.
modules=$destination/usr/lib/$(${CC:-cc} -print-multiarch)/security
mkdir -p "$modules"
scripts/pam-module.sh "$modules/pam_protectfs.so"
install -D -m 644 packaging/pam/protectfs "$destination/usr/share/pam-configs/protectfs"

# Nautilus loads it where python3-nautilus is installed.
extension=share/nautilus-python/extensions/protectfs-nautilus.py
install -D -m 644 packaging/nautilus/protectfs-nautilus.py "$destination$prefix/$extension"
for emblem in packaging/nautilus/*.svg; do
    install -D -m 644 "$emblem" "$destination$prefix/share/icons/hicolor/scalable/emblems/${emblem##*/}"
done

for page in Documentation/man/*.[1-8]; do
    install -D -m 644 "$page" "$destination$prefix/share/man/man${page##*.}/${page##*/}"
done

# Prints to a file of its own first: a completion script cut short would break the user's shell. What is sourced names no
# interpreter.
completion() {
    "$binary" --generate-completion-script "$1" >"$temporary"
    sed -i '1{/^#!/d}' "$temporary"
    install -D -m 644 "$temporary" "$destination$prefix/share/$2"
}
temporary=$(mktemp)
trap 'rm -f "$temporary"' EXIT
completion bash bash-completion/completions/protectfs
completion zsh zsh/site-functions/_protectfs
completion fish fish/vendor_completions.d/protectfs.fish

echo "Installed protectfs in $destination$prefix; its helper of mount(8) is $destination$helpers/mount.fuse.protectfs."
if [ "$helpers" != /sbin ]; then
    echo "For 'mount -t fuse.protectfs' and fstab, link it as root: ln -s $prefix/bin/protectfs /sbin/mount.fuse.protectfs"
fi
