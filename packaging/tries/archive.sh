#!/usr/bin/env bash
# The .tar.xz in a bare root, unpacked, used and removed.
. "$(dirname "$0")/common.sh"

apt-get -q install -y --no-install-recommends cmake make xz-utils >/tmp/step.log 2>&1 || { cat /tmp/step.log; exit 1; }
mkdir -p /opt/kiln
step 'tar -xJ' tar -C /opt/kiln --strip-components=1 -xJf /dist/kiln-*-linux-x86_64.tar.xz
export PATH=/opt/kiln/bin:$PATH
prints 'kiln ' kiln --version
use_kiln "$(kiln --cmake-dir)"
rm -rf /opt/kiln
printf '%6.1f s  the archive is well\n' "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')"
