#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in an emulated machine whose kernel has Open vSwitch's datapath.
#
#   machine.sh SECONDS FOLDER COMMAND...
#
# The machine is a Debian 13 with OVN, made by root.sh and kept beside its root as a disk. It
# has FOLDER as /job and the command's working directory; what is written there or elsewhere
# is lost. Output and exit status are the command's. If that does not end within SECONDS,
# boot included, or the machine dies, the end of its console follows and the status is 124.
#
# No hardware is needed: MACHINE_ACCEL=tcg, the default, emulates the processors, and kvm
# uses those of this machine. MACHINE_CPUS (2) and MACHINE_MEMORY (3072, in MiB) are its size.
set -eu

[ $# -ge 3 ] || {
	echo "usage: machine.sh SECONDS FOLDER COMMAND..." >&2
	exit 2
}
limit=$1 folder=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
root=$("$here/root.sh" trixie kernel ovn-central ovn-host openvswitch-switch bind9-dnsutils iproute2 ethtool procps linux-image-cloud-amd64)

# disk FOLDER IMAGE MIB makes a file system with so much room beside what is in the folder.
disk() {
	size=$(($(du -sm --apparent-size "$1" | cut -f 1) * 5 / 4 + $3))
	rm -f "$2"
	mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$1" "$2" "${size}m" >/dev/null
}

# A newer root makes the disk anew, for the first of several callers.
image=$root.img
(
	flock 9
	[ -n "$(find "$image" -newer "$root/etc/puntdns-root" 2>/dev/null)" ] || {
		echo "machine.sh: making $image" >&2
		disk "$root" "$image.new" 1024
		mv "$image.new" "$image"
	}
) 9>>"$root.lock"

# shellcheck source=test/child.sh
. "$here/child.sh"
mkdir "$work/init"
cp "$here/machine-init.sh" "$work/init/init"
# Each word of the command is a line of its own, as long as none has a line break.
printf '%s\n' "$@" >"$work/init/command"
disk "$work/init" "$work/init.img" 8
disk "$folder" "$work/job.img" 64

# Debian 12's emulation of cmpxchg16b corrupts the flags, and that of AVX is slower than none.
case ${MACHINE_ACCEL:-tcg} in
tcg) cpu="-accel tcg,thread=multi -cpu Nehalem,cx16=off" ;;
*) cpu="-accel $MACHINE_ACCEL -cpu host" ;;
esac
# drive DRIVER NAME IMAGE is an overlay above an image. The kernel has the driver of the first
# one built in, and those of file systems and consoles: there is no initial ramdisk.
drive() {
	echo "-drive file=$3,id=$2,if=none,format=raw,snapshot=on,cache=unsafe -device $1,drive=$2,serial=$2"
}
for try in 1 2; do
	touch "$work/output" "$work/status" "$work/console"
	# What only slows an emulated processor down is off in the kernel.
	# shellcheck disable=SC2046,SC2086 # lists of words
	timeout --kill-after=5 "$limit" qemu-system-x86_64 \
		-machine q35 $cpu -smp "${MACHINE_CPUS:-2}" -m "${MACHINE_MEMORY:-3072}" \
		-nodefaults -no-user-config -display none -no-reboot -net none \
		-kernel "$(ls "$root"/boot/vmlinuz-*)" \
		-append 'root=/dev/nvme0n1 rw console=ttyS0 panic=-1 oops=panic mitigations=off nokaslr audit=0 init=/bin/sh -- -ec "mount -n -t devtmpfs dev /dev; modprobe virtio_blk; mount -n /dev/vda /mnt; exec /mnt/init >/dev/console 2>&1"' \
		$(drive nvme root "$image") $(drive virtio-blk-pci init "$work/init.img") $(drive virtio-blk-pci job "$work/job.img") \
		-serial "file:$work/console" -device virtio-serial-pci \
		-chardev "file,id=output,path=$work/output" -device virtserialport,chardev=output,name=output \
		-chardev "file,id=status,path=$work/status" -device virtserialport,chardev=status,name=status \
		</dev/null >"$work/qemu" 2>&1 &
	child=$!
	# In the background, so that a signal is not left until the end of it.
	tail -n +1 -s 0.1 -f --pid=$child "$work/output" &
	shown=$!
	ended=0
	wait $child || ended=$?
	child=
	wait $shown
	if [ $ended -ne 139 ] || [ -s "$work/output" ] || [ $try -eq 2 ]; then
		break
	fi
	echo "machine.sh: qemu has crashed before the job began: once more" >&2
done
if [ -s "$work/status" ]; then
	exit "$(cat "$work/status")"
fi
if [ "$ended" -eq 124 ]; then
	echo "machine.sh: not done after $limit s" >&2
else
	echo "machine.sh: the machine has ended by itself, qemu with status $ended" >&2
fi
echo "machine.sh: the end of its console:" >&2
cat "$work/console" "$work/qemu" | tail -n 40 >&2
exit 124
