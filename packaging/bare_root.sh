#!/usr/bin/env bash
# Runs a command in a folder that is a machine with nothing on it but a minimal system and python3: made by debootstrap on
# first use, with pip's settings and, for the Debian that runs here, this machine's package sources. As root.
#
#     bare_root.sh ROOT COMMAND...
#
# KILN_SUITE is bookworm (Debian 12) unless it names another Debian, or an Ubuntu: noble (24.04), resolute (26.04). Debian's
# debootstrap checks Ubuntu's signatures by the keyring of Ubuntu's package ubuntu-keyring; KILN_UBUNTU_KEYRING names the file
# where it is elsewhere than in /usr/share/keyrings.
# /proc, /dev and /sys are mounted while the command runs, and unmounted behind it.
set -euo pipefail

root=$1
shift
suite=${KILN_SUITE:-bookworm}

is_ubuntu() { [[ $suite == @(noble|questing|resolute) ]]; }

if [[ ! -e $root/.made ]]; then
    keyring=${KILN_UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
    source=()
    if is_ubuntu; then
        [[ -e $keyring ]] || {
            echo "$suite needs Ubuntu's keyring, ${keyring}: take it from the package ubuntu-keyring, or name it in KILN_UBUNTU_KEYRING" >&2
            exit 1
        }
        # Debootstrap's script for every Ubuntu since 7.10 is of that name, and knows Ubuntu's own archive.
        source=(--keyring="$keyring" --components=main,universe "$suite" "$root" "" gutsy)
    else
        mirror=$(grep -rhoE '(URIs: |deb )https?://[^ ]+/debian/?' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
            grep -oE 'http.*' | head -n 1) || true
        source=("$suite" "$root" ${mirror:+"$mirror"})
    fi
    mkdir -p "$root"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "${source[@]}" >"$root.log" 2>&1 || {
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
