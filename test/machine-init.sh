#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first process of the machine of machine.sh: runs the command that stands beside it.
# Output goes to one port of the console and the exit status to another, so that messages of
# the kernel mix with neither.

# port NAME prints the path of a port of the console.
port() {
	for p in /sys/class/virtio-ports/*; do
		[ "$(cat "$p/name")" != "$1" ] || echo "/dev/${p##*/}"
	done
}
# The end of this process would be a panic.
off() {
	echo "$1" >"$(port status)"
	sync
	echo o >/proc/sysrq-trigger
	sleep 60
}
mount -n -t proc proc /proc
mount -n -t sysfs sys /sys
mount -n -t tmpfs tmp /tmp
mount -n -t tmpfs run /run
mkdir -p /dev/pts /dev/shm /job
mount -n -t devpts pts /dev/pts
mount -n -t tmpfs shm /dev/shm
mount -n -t cgroup2 cgroup /sys/fs/cgroup
mount -n /dev/vdb /job
exec >"$(port output)" 2>&1 </dev/null
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
for module in openvswitch vport-geneve veth tun; do
	modprobe $module || off 1
done
hostname machine
ip link set lo up
set --
while read -r word; do
	set -- "$@" "$word"
done </mnt/command
cd /job || off 1
"$@"
off $?
