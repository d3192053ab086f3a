#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the root folder of another Debian release, with packages in it, and prints its path.
#
#   root.sh SUITE NAME PACKAGE...
#
# SUITE is bookworm, trixie, sid ...; NAME tells roots of one suite apart. A root is made once,
# in a minute or two, and kept in $PUNTDNS_ROOTS (default /var/cache/puntdns/roots) until other
# packages are asked for or it is 30 days old. It is not to be written to: put an overlay above
# it, or copy it. Neither Go nor a compiler is needed in it. No daemon is started in it.
set -eu

[ $# -ge 3 ] || {
	echo "usage: root.sh SUITE NAME PACKAGE..." >&2
	exit 2
}
suite=$1 name=$2
shift 2
roots=${PUNTDNS_ROOTS:-/var/cache/puntdns/roots}
root=$roots/$suite-$name
# What the root is made of; a change here makes it anew.
recipe="2 $suite $*"

current() {
	[ "$(cat "$root/etc/puntdns-root" 2>/dev/null)" = "$recipe" ] &&
		[ -z "$(find "$root/etc/puntdns-root" -mtime +30)" ]
}

if current; then
	echo "$root"
	exit
fi
[ "$(id -u)" -eq 0 ] || {
	echo "root.sh: not root, who alone can make $root" >&2
	exit 1
}
mkdir -p "$roots"
# Two callers that want one root make it once.
exec 9>"$root.lock"
flock 9
if current; then
	echo "$root"
	exit
fi

echo "root.sh: making $root" >&2
new=$root.new
log=$root.log
# A root that was left half made may still have its mounts.
unmount() {
	for dir in dev proc sys; do
		if mountpoint -q "$new/$dir"; then
			umount -R "$new/$dir"
		fi
	done
}
abandon() {
	status=$?
	unmount
	[ $status -eq 0 ] || {
		echo "root.sh: making $root failed; the end of $log:" >&2
		tail -n 20 "$log" >&2
	}
	exit $status
}
unmount
rm -rf --one-file-system "$new"
trap abandon EXIT
trap 'exit 1' HUP INT TERM

# Debian 12's debootstrap may not know the suite yet: the steps are those of sid.
script=
[ -e "/usr/share/debootstrap/scripts/$suite" ] || script=/usr/share/debootstrap/scripts/sid
# A mirror that is a moment behind is tried again.
for try in 1 2 3; do
	# shellcheck disable=SC2086 # no word, or one for the mirror and one for the script
	debootstrap --variant=minbase "$suite" "$new" ${script:+"" "$script"} >"$log" 2>&1 && break
	[ $try -lt 3 ] || exit 1
	rm -rf --one-file-system "$new"
	sleep 5
done
printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
chmod 755 "$new/usr/sbin/policy-rc.d"
# The clock of whoever runs this may be behind that of the mirror or ahead of it.
echo 'Acquire::Check-Valid-Until "false"; Acquire::Retries "3";' >"$new/etc/apt/apt.conf.d/50puntdns"
for dir in dev proc sys; do
	mount --rbind "/$dir" "$new/$dir"
	mount --make-rslave "$new/$dir"
done
DEBIAN_FRONTEND=noninteractive chroot "$new" sh -ec '
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends "$@"
	apt-get clean' sh "$@" >>"$log" 2>&1
unmount
echo "$recipe" >"$new/etc/puntdns-root"
old=$root.old
rm -rf --one-file-system "$old"
[ ! -e "$root" ] || mv "$root" "$old"
mv "$new" "$root"
rm -rf --one-file-system "$old"
echo "$root"
