#!/bin/sh
# Makes the PAM module, which needs libpam and libc only.
#
# usage: scripts/pam-module.sh FILE
set -eu
# shellcheck disable=SC2086
exec ${CC:-cc} -std=gnu17 -Wall -Wextra -Werror -O2 -fPIC -fstack-protector-strong -D_FORTIFY_SOURCE=2 ${CFLAGS:-} \
    -shared -s -Wl,-z,now,-z,relro,-z,defs -o "$1" "$(dirname "$0")"/../Sources/pam_protectfs/*.c -lpam
