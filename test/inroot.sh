#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in a throw-away copy of a root that root.sh has made.
#
#   inroot.sh [-b FOLDER] [-n ROOT] ROOT COMMAND...
#
#   -b FOLDER  the command has this folder in its place
#   -n ROOT    it has a copy of another root as /mnt/next, with the same /tmp
#
# What the command writes is kept in memory. It has namespaces of its own, and this folder's
# repository in its place; that, and FOLDER, are read-only. When this program ends, however that
# is, the processes, mounts and files of the command are gone. SIGTERM does not end it: unshare(1)
# blocks that.
set -eu

usage() {
	echo "usage: inroot.sh [-b FOLDER] [-n ROOT] ROOT COMMAND..." >&2
	exit 2
}
if [ "${1-}" != --inside ]; then
	[ "$(id -u)" -eq 0 ] || {
		echo "inroot.sh: not root" >&2
		exit 1
	}
	# The first process of the PID namespace takes all others with it.
	exec unshare --mount --propagation private --net --uts --ipc --pid --fork --kill-child \
		"$0" --inside "$@"
fi
shift
folder='' next=''
while getopts b:n: option; do
	case $option in
	b) folder=$OPTARG ;;
	n) next=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
root=$1
shift
repository=$(cd "$(dirname "$0")/.." && pwd)
memory=$root/mnt
copy=$memory/root

# copy_of ROOT FOLDER NAME mounts a copy of a root. This process alone sees these mounts: nothing
# is written to the root.
copy_of() {
	mkdir -p "$2" "$memory/$3-written" "$memory/$3-work"
	mount -t overlay -o "lowerdir=$1,upperdir=$memory/$3-written,workdir=$memory/$3-work" puntdns "$2"
	mount -t proc proc "$2/proc"
	mount -t sysfs sysfs "$2/sys"
	mount --rbind /dev "$2/dev"
}
# show FOLDER has it in its place in the copy.
show() {
	mkdir -p "$copy$1"
	mount --bind "$1" "$copy$1"
	mount -o remount,bind,ro "$copy$1"
}
mount -t tmpfs -o mode=755 puntdns "$memory"
copy_of "$root" "$copy" this
mount -t tmpfs puntdns "$copy/tmp"
show "$repository"
[ -z "$folder" ] || show "$folder"
if [ -n "$next" ]; then
	copy_of "$next" "$copy/mnt/next" next
	mount --bind "$copy/tmp" "$copy/mnt/next/tmp"
fi
ip link set dev lo up
hostname localhost
# It does not become the command, since somebody has to reap what daemons leave behind.
status=0
# shellcheck disable=SC2016 # for the shell in the root
chroot "$copy" env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	sh -c 'cd "$0" && exec "$@"' "$repository" "$@" || status=$?
exit $status
