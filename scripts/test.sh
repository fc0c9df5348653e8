#!/bin/bash
# Runs everything that must hold: format, a build without warnings, unit tests, and tests on real mounts.
# Installs what it needs on Debian 12. As root the mount tests cover other users too.
#
#   scripts/test.sh [COMMAND]    runs a shell command beside the tests that run alone, which mounts nothing
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

prepare_build attr acl git rsync sqlite3 vim-tiny xxd util-linux e2fsprogs man-db python3 \
  python3-cryptography python3-venv swtpm dbus-daemon python3-dbusmock iproute2 moosefs-master moosefs-chunkserver \
  moosefs-client

# udev makes /dev/fuse usable for everyone; a machine without udev may not have.
if ((EUID == 0)) && [[ -c /dev/fuse ]]; then chmod 666 /dev/fuse; fi

# Where the kernel can pass requests over io_uring, mounts use that; those tests that it may matter for are then repeated
# with the device.
rings=/sys/module/fuse/parameters/enable_uring
has_rings=false
if ((EUID == 0)) && [[ -w $rings ]]; then
  trap "echo $(<"$rings") >$rings" EXIT
  echo Y >"$rings"
  has_rings=true
fi

# Tells how long the whole, or in a job the job, has taken so far, in seconds.
step() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }

step "Format"
swift format lint --strict --recursive Package.swift Plugins Sources Tests Benchmarks/Package.swift \
  Benchmarks/Sources/Benchmarks scripts/app-package Fuzz/Package.swift Fuzz/Sources/Fuzz Fuzz/Sources/FuzzTargets

step "Borders between modules"
python3 scripts/check-imports.py

step "Manual pages"
for page in Documentation/man/*; do
  LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null | tee /dev/stderr | { ! grep -q .; }
done

step "Pictures"
scripts/pictures.py --check

step "Test vectors, by a second implementation"
/usr/bin/python3 scripts/check-vectors.py

export PROTECTFS_STRICT=1
step "Build, warnings as errors"
swift build --build-tests

protectfs="$(swift build --show-bin-path)/protectfs"
step "Manual pages: what --help says"
scripts/man-pages.py --check "$protectfs"

step "The services"
check_service() (
  units=(packaging/systemd/protectfs{@,-user@,-logout@,-sleep}.service packaging/systemd/protectfs-user@.socket)
  units+=(packaging/systemd/user/protectfs-session.service)
  # With one of these the mount would be seen by the service alone.
  namespaces='Private[A-Za-z]*|ProtectSystem|ProtectHome|ProtectKernel[A-Za-z]*|ProtectControlGroups|ProtectProc|ProcSubset'
  namespaces+='|[A-Za-z]*Paths|TemporaryFileSystem|Mount[A-Za-z]*|Root[A-Za-z]*|Extension[A-Za-z]*|DynamicUser'
  if grep -nE "^($namespaces)=" "${units[@]}"; then return 1; fi
  if ! command -v systemd-analyze >/dev/null; then
    echo "Skipped: what systemd says of it. There is no systemd-analyze." >&2
    return
  fi
  work=$(mktemp -d /tmp/protectfs-unit.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  for unit in "${units[@]}"; do
    sed "s|/usr/local/bin/protectfs|$protectfs|; s|/usr/local/libexec|$PWD/packaging/systemd|" "$unit" >"$work/${unit##*/}"
  done
  systemd-analyze verify --man=no "$work"/protectfs{@,-user@,-logout@,-sleep}.service "$work/protectfs-user@.socket"
  XDG_RUNTIME_DIR=$work systemd-analyze verify --user --man=no "$work/protectfs-session.service"
  systemd-analyze security --offline=true --threshold=50 --no-pager "$work/protectfs@.service" | tail -n 1
)
check_service

unit_tests() {
  step "Unit tests"
  swift test --skip-build --skip 'MountTests|KeybagCrashTests/|FileCrashTests/' --parallel
  scripts/documentation.sh
}

check_command() {
  step "The command and its control socket, from outside"
  python3 -m venv .build/python
  .build/python/bin/pip install --quiet --disable-pip-version-check 'varlink>=31'
  PATH="$PWD/.build/python/bin:$PATH" scripts/transcripts.py "$protectfs"
}

check_service_manager() {
  step "Units, fstab, sessions and logins, in containers"
  local status=0
  scripts/container-test.sh --protectfs "$protectfs" fstab login service session || status=$?
  # It has said why it was skipped.
  ((status == 0 || status == 77))
}

check_crashes() {
  step "Crashes: the daemon killed, the power cut"
  python3 scripts/kill-test.py --protectfs "$protectfs" --rounds 5 --longest 0.5
  if ((EUID == 0)) && [[ -e /dev/loop-control ]]; then
    python3 scripts/powercut-test.py --protectfs "$protectfs" --rounds 3 --longest 1
  else
    echo "Skipped: the power cut. Only root has loop devices." >&2
  fi
}

check_hosts() {
  step "Two hosts, on a file system that serves both"
  if ((EUID == 0)); then
    python3 scripts/hosts-test.py --protectfs "$protectfs" --quick
  else
    echo "Skipped: the hosts. Only root has network namespaces." >&2
  fi
}

simulated_crashes() {
  step "Simulated crashes: all sequences of two changes, and planted faults"
  PROTECTFS_SIMULATED_LENGTH=2 tests_in_turn --filter '(Keybag|File)CrashTests/'
  PROTECTFS_TEST_AUTHENTICATED=1 tests_in_turn --filter 'FileCrashTests/whatWasMadeDurableIsThere'
}

tests_in_turn() { swift test --skip-build --ignore-lock --no-parallel "$@"; }
mount_group() {
  step "Mount tests: $1"
  tests_in_turn --filter "MountTests\.MountTests/($1)Tests/"
  echo "Took $SECONDS s."
}

authenticated_group() { PROTECTFS_TEST_AUTHENTICATED=1 mount_group "$1"; }

device_group() {
  step "Mount tests, with the device: $1"
  TRANSPORTS=device scripts/transports.sh "$1"
  echo "Took $SECONDS s."
}

# Suites that look at mounts of their own, measure nothing, and stop or unmount nothing that others may see; the longest
# groups first. All others, new ones too, run alone.
groups=(
  'KeybagFault|GoldenStore'
  'KeybagImport|KeybagCommand'
  'Erasure|Protector|Secrecy'
  'ErasureFault|DeepTree|KeptFiles|LockDelay|ClassChangeFault'
  'Conformance.*|Contract|Namespace|Directory'
  'Hook|HookTime|Memory|Copying|OverlayBacking'
  'Rotation|DataRotation'
  'Raise|PendingRekey|Rekey.*'
  'FullDisk|NoAttributes|TwoHosts|SeveralMounts'
  'Restore|Orphan'
  'FaultError|Fsck|Synchronize'
  'BadStore|DamagedFile|Tampering|Daemon|TPMStore|Content|ClassOwner|BehindTheBack|SetIDBit|DirectTransfer|Sandbox|Remount|StateAttribute|PAMModule'
  'Tool|ClassTool|Removal|PasscodeChange|AttributeKey|ResourceValue|ProtectedRecord|ProtectedZone|Availability|Diagnosis|EncryptedValue|Foundation|Writing'
  'AccessList|Audit|Listener|ReplacedFile|Replacing|SilentLoss|Subclass|Testing'
)
# Those are for scripts/timing-tests.sh.
timed=$(scripts/timing-tests.sh --pattern)

# Runs functions, with their arguments, two at a time.
two_at_a_time() { printf '%s\n' "$@" | xargs -d '\n' -P 2 -I '{}' bash -c 'run_quietly .build "$1"' job '{}'; }
export protectfs timed
export -f step unit_tests check_service_manager check_command check_crashes check_hosts simulated_crashes tests_in_turn
export -f mount_group authenticated_group device_group run_quietly

# No test mounts anything meanwhile: a container has copies of all mounts that are there when it is made, and so would keep
# those of other tests.
step "Two at a time: the service manager, and unit tests"
first=(unit_tests)
jobs=()
if ! [[ -r /dev/fuse && -w /dev/fuse ]]; then
  # The mount tests say the same of themselves.
  echo "Skipped: the command from outside, units, crashes. /dev/fuse is missing or may not be used." >&2
else
  first=(check_service_manager unit_tests)
  jobs+=(check_command check_crashes check_hosts)
fi
jobs+=(simulated_crashes)
two_at_a_time "${first[@]}"

if $has_rings; then jobs+=("device_group 'Secrecy|Directory|Namespace|Content'"); fi
jobs+=("authenticated_group 'Contract|DirectTransfer|FullDisk|PendingRekey'")
for group in "${groups[@]}"; do jobs+=("mount_group '$group'"); done

step "Two at a time, in turn: the command, crashes, mount tests"
two_at_a_time "${jobs[@]}"

alone() {
  step "Mount tests, alone"
  tests_in_turn --filter MountTests --skip "MountTests\.MountTests/($all)Tests/" --skip "$timed"
  if $has_rings; then device_group 'FrozenStore|KilledDaemon|LateWrite|RequestCount|Contract|Sandbox'; fi
}
all=$(IFS='|' && echo "${groups[*]}")
export all has_rings
export -f alone
step "Mount tests, alone${1:+, beside: $1}"
two_at_a_time alone "$@"
