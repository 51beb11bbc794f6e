#!/usr/bin/env bash
# kiln and libkiln-dev as .deb in a bare root, installed, used and removed.
. "$(dirname "$0")/common.sh"

apt-get -q install -y --no-install-recommends cmake make >/tmp/step.log 2>&1 || { cat /tmp/step.log; exit 1; }
step 'apt-get install ./kiln_*.deb ./libkiln-dev_*.deb' bash -c 'apt-get -q install -y --no-install-recommends /dist/kiln_*.deb /dist/libkiln-dev_*.deb'
prints 'kiln ' kiln --version
use_kiln "$(kiln --cmake-dir)"
step 'find_package(Kiln) without a word' cmake -S /src/app -B /tmp/out/plain
step 'its manual and completion are there' bash -c 'dpkg -L kiln | grep -q man1/kiln.1 && dpkg -L kiln | grep -q completions/kiln'
step 'apt-get remove' apt-get -q remove -y kiln libkiln-dev
left /usr/bin/kiln /usr/share/kiln /usr/lib/kiln /usr/lib/cmake/Kiln /usr/include/kiln
printf '%6.1f s  the Debian packages are well\n' "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')"
