#!/usr/bin/env bash
# kiln and libkiln-dev as .deb in a bare root, installed, used and removed.
. "$(dirname "$0")/common.sh"

apt-get -q install -y --no-install-recommends cmake make >/tmp/step.log 2>&1 || { cat /tmp/step.log; exit 1; }
step 'apt-get install ./kiln_*.deb ./libkiln-dev_*.deb' bash -c 'apt-get -q install -y --no-install-recommends /dist/kiln_*.deb /dist/libkiln-dev_*.deb'
prints 'kiln ' kiln --version
use_kiln "$(kiln --cmake-dir)"
step 'find_package(Kiln) without a word' cmake -S /src/app -B /tmp/out/plain
[[ -s /usr/share/man/man1/kiln.1.gz || -s /usr/share/man/man1/kiln.1 || ! -d /usr/share/man ]] || { echo 'FAILED: no manual'; exit 1; }
step 'apt-get remove' apt-get -q remove -y kiln libkiln-dev
left /usr/bin/kiln /usr/share/kiln /usr/lib/kiln /usr/lib/cmake/Kiln /usr/include/kiln
printf '%6.1f s  the Debian packages are well\n' "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')"
