#!/bin/bash
# Runs what people really run on a mount, and checks what it left: git, SQLite, tar, rsync, a build, PostgreSQL with the
# daemon killed under it, overlayfs on top, and stress-ng's file system stressors.
#
#   scripts/applications.sh [NAME…]      NAME is one of the functions below; all of them by default
#
# Takes about a quarter of an hour, most of it stress-ng (STRESS_SECONDS for each stressor, 5 by default). Needs root.
# Exits with 1 when one fails, and says which.
set -uo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

if ((EUID != 0)); then
  echo "applications: must be root, for overlayfs and PostgreSQL's user" >&2
  exit 1
fi
prepare_build git sqlite3 rsync make gcc libc6-dev attr postgresql stress-ng
swift build -c release --product protectfs --static-swift-stdlib 2>&1 | tail -n 1
protectfs=$(swift build -c release --static-swift-stdlib --show-bin-path)/protectfs

work=$(mktemp -d "${TMPDIR:-/tmp}/protectfs-applications.XXXXXX")
chmod 755 "$work"
backing=$work/backing mount=$work/mount

mount_store() {
  "$protectfs" mount "$backing" "$mount" --device-key "$work/device.key" --passcode-file "$work/passcode" \
    -o allow_other,suid,dev
}

# The daemon of this mount, by the process that the control socket names.
daemon() { "$protectfs" status "$mount" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["processID"])'; }

clean_up() {
  stop_postgres
  for path in "$work/merged" "$mount"; do
    mountpoint -q "$path" && umount -l "$path"
  done
  rm -rf "$work"
}
trap clean_up EXIT

# A tree of some thousand files of all kinds, outside the mount.
sample() {
  [[ -d $work/sample ]] && return
  mkdir "$work/sample"
  python3 - "$work/sample" <<'PYTHON'
import os, random, sys
root, chance = sys.argv[1], random.Random(7)
for d in range(40):
    directory = f"{root}/{'deep/' * (d % 7)}directory {d}"
    os.makedirs(directory)
    for f in range(50):
        path = f"{directory}/{'n' * chance.choice([1, 8, 100, 175, 176, 240])}{f}"
        with open(path, "wb") as file:
            file.write(chance.randbytes(chance.choice([0, 1, 15, 16, 17, 4095, 4096, 4097, 70000])))
            if f % 13 == 0:
                file.truncate(chance.choice([3, 5000, 300000]))
        os.chmod(path, chance.choice([0o644, 0o600, 0o755, 0o444]))
        if f % 10 == 0:
            os.setxattr(path, "user.note", chance.randbytes(20))
    os.symlink("../" * (900 + d % 2 * 460) + "target", f"{directory}/link")
    os.link(path, f"{directory}/second name")
    os.mkfifo(f"{directory}/fifo")
PYTHON
}

git() { command git -c user.name=tester -c user.email=tester@example.org -c commit.gpgsign=false "$@"; }

with_git() {
  sample
  cd "$mount" && git init -q repository && cd repository && mkdir tree &&
    cp -a "$work/sample/." tree/ && find tree -type p -delete &&
    git add -A && git commit -qm first && [[ -z $(git status --porcelain) ]] &&
    for i in {1..20}; do echo "$i" >>changed && git add changed && git commit -qm "$i" || return; done &&
    git checkout -q HEAD~15 && git checkout -q - && git gc -q && [[ -z $(git fsck --full --strict 2>&1 | grep -v dangling) ]] &&
    git clone -q . "$mount/clone" && diff -r --no-dereference tree "$mount/clone/tree"
}

with_sqlite() {
  local mode
  for mode in delete truncate persist wal; do
    rm -f "$mount/database"*
    {
      echo "pragma journal_mode=$mode; create table t(i integer primary key, b blob);"
      for i in {1..200}; do echo "insert into t(b) values(randomblob($((i * 37 % 5000))));"; done
      echo "begin; insert into t(b) select randomblob(300) from t a, t b limit 20000; commit; delete from t where i % 3 = 0; vacuum;"
    } | sqlite3 "$mount/database" >/dev/null || return
    [[ $(sqlite3 "$mount/database" "pragma integrity_check") == ok ]] || return
  done
}

with_tar() {
  sample
  mkdir -p "$mount/tar" &&
    tar -C "$work/sample" --xattrs -cf - . | tar -C "$mount/tar" --xattrs --xattrs-include='user.*' -xpf - &&
    tar -C "$mount/tar" --xattrs -cf "$work/back.tar" . &&
    tar -C "$work/sample" --xattrs --compare -f "$work/back.tar"
}

with_rsync() {
  sample
  rsync -aHAX "$work/sample/" "$mount/rsync/" &&
    [[ -z $(rsync -aHAXn --checksum --delete --itemize-changes "$work/sample/" "$mount/rsync/") ]] &&
    rsync -aHAX "$mount/rsync/" "$work/back/" && diff -r --no-dereference -x fifo "$work/sample" "$work/back"
}

# Three hundred C files into a library and a program, twice: nothing is to be built again.
with_make() {
  mkdir -p "$mount/build" && cd "$mount/build" || return
  local i
  for i in {1..300}; do printf 'int f%d(int x) { return x + %d; }\n' "$i" "$i" >"f$i.c"; done
  {
    echo '#include <stdio.h>'
    for i in {1..300}; do echo "int f$i(int);"; done
    echo 'int main(void) { int s = 0;'
    for i in {1..300}; do echo "s = f$i(s);"; done
    echo 'printf("%d\n", s); return 0; }'
  } >main.c
  printf 'O = $(patsubst %%.c,%%.o,$(wildcard *.c))\nprogram: libf.a main.o\n\t$(CC) -o $@ main.o libf.a\nlibf.a: $(filter-out main.o,$(O))\n\tar crs $@ $^\n' >Makefile
  make -s -j4 && [[ $(./program) == 45150 ]] && make -q && touch f7.c && ! make -q && make -s && make -q
}

postgres_bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
as_postgres() { (cd / && setpriv --reuid postgres --regid postgres --init-groups env PATH="$postgres_bin:$PATH" PGHOST="$work/socket" "$@"); }
start_postgres() { as_postgres pg_ctl -D "$mount/postgres" -w -l "$work/socket/log" -o "-k $work/socket -c listen_addresses= $*" start >/dev/null; }
stop_postgres() { [[ -f $mount/postgres/postmaster.pid ]] && as_postgres pg_ctl -D "$mount/postgres" -m immediate stop >/dev/null 2>&1; }
balanced() {
  [[ $(as_postgres psql -AtX postgres -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
    and (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches)
    and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)') == t ]]
}

# The daemon is killed under a running benchmark; what was committed must be there, and the sums right.
with_postgres() {
  mkdir -p "$work/socket" "$mount/postgres" && chown postgres "$work/socket" "$mount/postgres" && chmod 700 "$mount/postgres" &&
    as_postgres initdb -D "$mount/postgres" --data-checksums -A trust >/dev/null && start_postgres &&
    as_postgres pgbench -q -i -s 3 postgres 2>/dev/null && as_postgres pgbench -n -c 4 -T 5 postgres >/dev/null 2>&1 && balanced || return
  local round
  for round in 1 2 3; do
    (as_postgres pgbench -n -c 4 -T 30 postgres >/dev/null 2>&1) &
    local load=$!
    sleep "$((round + 1))"
    local before
    before=$(as_postgres psql -AtX postgres -c 'select count(*) from pgbench_history')
    local postmaster
    postmaster=$(head -n 1 "$mount/postgres/postmaster.pid")
    kill -KILL "$(daemon)"
    pkill -KILL -P "$postmaster"
    kill -KILL "$postmaster" 2>/dev/null
    wait "$load"
    while ! umount "$mount" 2>/dev/null; do sleep 0.1; done
    mount_store && rm -f "$mount/postgres/postmaster.pid" "$work/socket"/.s.* && start_postgres && balanced || return
    local after
    after=$(as_postgres psql -AtX postgres -c 'select count(*) from pgbench_history')
    ((after >= before)) || return
  done
  as_postgres pg_ctl -D "$mount/postgres" -w -m fast stop >/dev/null && as_postgres pg_checksums -D "$mount/postgres" --check >/dev/null
}

with_overlayfs() {
  sample
  mkdir -p "$mount/upper" "$mount/overlay-work" "$work/merged" &&
    mount -t overlay overlay -o "lowerdir=$work/sample,upperdir=$mount/upper,workdir=$mount/overlay-work" "$work/merged" &&
    cd "$work/merged" && rm -rf "directory 0" && mkdir "directory 0" && echo new >"directory 0/file" &&
    mv "directory 7" renamed && echo more >>"renamed/second name" && find . -name 'n*' -exec chmod u+w {} + &&
    [[ $(ls "directory 0") == file ]] && [[ -c $(find "$mount/upper" -maxdepth 1 -name 'directory 7') ]] &&
    find . | sort >"$work/listing" && cd / && umount "$work/merged" &&
    mount -t overlay overlay -o "lowerdir=$work/sample,upperdir=$mount/upper,workdir=$mount/overlay-work" "$work/merged" &&
    (cd "$work/merged" && find . | sort) | cmp - "$work/listing" && umount "$work/merged"
}

# binderfs is a file system of its own. The mount has no O_TMPFILE, no swap files, and no file systems' own ioctls; stress-ng skips what it finds missing.
with_stress_ng() {
  mkdir -p "$mount/stress" && stress-ng --class filesystem --exclude binderfs --sequential 2 --timeout "${STRESS_SECONDS:-5}s" --verify \
    --temp-path "$mount/stress" --metrics-brief --oomable >"$work/stress.log" 2>&1
  local result=$?
  grep -E "fail|failed" "$work/stress.log" | grep -v "failed: 0" | sed 's/^/    /' >&2
  return "$result"
}

all=(with_git with_sqlite with_tar with_rsync with_make with_postgres with_overlayfs with_stress_ng)
mkdir "$backing" "$mount"
(umask 077 && echo "correct horse battery staple" >"$work/passcode")
"$protectfs" init "$backing" --passcode-file "$work/passcode" --device-key "$work/device.key" >/dev/null && mount_store || exit 1
failed=()
for name in "${@:-${all[@]}}"; do
  for check in $name; do
    if (declare -F "$check" >/dev/null && "$check"); then echo "ok      $check"; else
      echo "FAILED  $check" && failed+=("$check")
    fi
  done
done
"$protectfs" unmount "$mount" && "$protectfs" fsck "$backing" --device-key "$work/device.key" --passcode-file "$work/passcode" || failed+=(fsck)
((${#failed[@]} == 0))
