#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in a throw-away copy of a root that root.sh has made.
#
#   inroot.sh ROOT COMMAND...
#
# What the command writes is kept in memory. It has namespaces of its own, and this folder's
# repository in its place, read-only. When this program ends, however that is, the processes,
# mounts and files of the command are gone.
set -eu

[ $# -ge 2 ] || {
	echo "usage: inroot.sh ROOT COMMAND..." >&2
	exit 2
}
if [ "$1" != --inside ]; then
	[ "$(id -u)" -eq 0 ] || {
		echo "inroot.sh: not root" >&2
		exit 1
	}
	# The first process of the PID namespace takes all others with it.
	exec unshare --mount --propagation private --net --uts --ipc --pid --fork --kill-child \
		"$0" --inside "$@"
fi
root=$2
shift 2
repository=$(cd "$(dirname "$0")/.." && pwd)
copy=$root/mnt/root

# This process alone sees these mounts: nothing is written to the root.
mount -t tmpfs -o mode=755 puntdns "$root/mnt"
mkdir "$root/mnt/written" "$root/mnt/work" "$copy"
mount -t overlay -o "lowerdir=$root,upperdir=$root/mnt/written,workdir=$root/mnt/work" puntdns "$copy"
mount -t proc proc "$copy/proc"
mount -t sysfs sysfs "$copy/sys"
mount --rbind /dev "$copy/dev"
mkdir -p "$copy$repository"
mount --bind "$repository" "$copy$repository"
mount -o remount,bind,ro "$copy$repository"
ip link set dev lo up
hostname localhost
# It does not become the command, since somebody has to reap what daemons leave behind.
status=0
# shellcheck disable=SC2016 # for the shell in the root
chroot "$copy" env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	sh -c 'cd "$0" && exec "$@"' "$repository" "$@" || status=$?
exit $status
