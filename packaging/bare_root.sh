#!/usr/bin/env bash
# Runs a command in a folder that is a machine with nothing on it but Debian 12's minimal system and python3: made by
# debootstrap on first use, with this machine's package sources and pip's settings. As root.
#
#     bare_root.sh ROOT COMMAND...        with KILN_SUITE another Debian than bookworm
#
# /proc, /dev and /sys are mounted while the command runs, and unmounted behind it.
set -euo pipefail

root=$1
shift
suite=${KILN_SUITE:-bookworm}

if [[ ! -e $root/.made ]]; then
    mirror=$(grep -rhoE '(URIs: |deb )https?://[^ ]+/debian/?' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
        grep -oE 'http.*' | head -n 1) || true
    mkdir -p "$root"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$suite" "$root" \
        ${mirror:+"$mirror"} >"$root.log" 2>&1 || {
        tail "$root.log" >&2
        exit 1
    }
    touch "$root/.made"
fi
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir -p "$root/etc/apt/sources.list.d" "$root/etc/apt/apt.conf.d" "$root/root"
if [[ $suite == bookworm ]]; then
    : >"$root/etc/apt/sources.list"
    [[ ! -s /etc/apt/sources.list ]] || cp /etc/apt/sources.list "$root/etc/apt/"
    grep -lE '/debian/?( |$)' /etc/apt/sources.list.d/* 2>/dev/null | xargs -r cp -t "$root/etc/apt/sources.list.d/" || true
fi
cp -r /etc/apt/auth.conf* "$root/etc/apt/" 2>/dev/null || true
for file in /etc/pip.conf ~/.config/pip/pip.conf; do
    [[ ! -e $file ]] || cp "$file" "$root/etc/pip.conf"
done

unmount() {
    local folder
    for folder in sys dev proc; do
        ! mountpoint -q "$root/$folder" || umount "$root/$folder"
    done
}
trap unmount EXIT
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev" || mount --bind /dev "$root/dev"
mountpoint -q "$root/sys" || mount -t sysfs -o ro sys "$root/sys"
mapfile -t settings < <(env | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|CURL_CA|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' |
    grep -v FIND_LINKS)
env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "${settings[@]}" chroot "$root" "$@"
