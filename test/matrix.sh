#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the demo and the system tests on each release of OVN, in a root folder of the Debian
# that has it, and on the kernel's datapath; prints what failed and a table. make matrix and .ci/run call it.
#
# Environment:
#   GO               the Go that builds, which is done once, on this machine; its C library is
#                    not to be newer than that of the oldest release
#   MATRIX           core (default) or short, see core.txt
#   MATRIX_RELEASES  Debian's code names, oldest first; the last one's OVN is what those of the
#                    others are upgraded to
#   MATRIX_KERNEL    yes (default) for the kernel's datapath too, see kernel.sh, or no
#   MATRIX_TESTED    the code name of a Debian on which all tests have been run
#   MATRIX_FLAGS     of the test binary
set -eu
cd "$(dirname "$0")/.."

form=${MATRIX:-core}
releases=${MATRIX_RELEASES:-bookworm trixie sid}
flags=${MATRIX_FLAGS:--test.parallel=6}
case $form in
core | short) ;;
*)
	echo "matrix.sh: MATRIX=$form: expected core or short" >&2
	exit 2
	;;
esac

work=$(mktemp -d)
child=
clear() {
	[ -z "$child" ] || kill "$child" 2>/dev/null || :
	rm -rf "$work"
}
trap clear EXIT
trap 'exit 1' HUP INT TERM

# In the background, so that a signal is not left until the end of it.
run() {
	"$@" &
	child=$!
	status=0
	wait $child || status=$?
	child=
	return $status
}

mkdir "$work/bin" "$work/root"
CGO_ENABLED=1 run "${GO:-go}" build -race -o "$work/bin/puntdns" ./cmd/puntdns
CGO_ENABLED=1 run "${GO:-go}" test -c -race -o "$work/bin/system.test" ./test
CGO_ENABLED=0 run "${GO:-go}" build -o "$work/bin/demo" ./test/demo

# inside is a script that runs a command in a root folder, in a mount namespace that ends with
# it. What is written goes to memory. The command finds the tree at /srv/src, the binaries at
# /srv/bin, and the root folder of the last release at /srv/next.
inside='
set -eu
tree=$1 bin=$2 into=$3 root=$4 next=$5
shift 5
enter() {
	mount --bind "$1" "$2"
	mount -o remount,bind,ro "$2"
	for dir in proc sys dev; do
		mount --rbind "/$dir" "$2/$dir"
	done
	mount -t tmpfs tmpfs "$2/run"
}
enter "$root" "$into"
mount -t tmpfs tmpfs "$into/tmp"
mount -t tmpfs tmpfs "$into/srv"
mkdir "$into/srv/src" "$into/srv/bin" "$into/srv/next"
mount --bind "$tree" "$into/srv/src"
mount -o remount,bind,ro "$into/srv/src"
mount --bind "$bin" "$into/srv/bin"
if [ "$next" != "$root" ]; then
	enter "$next" "$into/srv/next"
	mount --bind "$into/tmp" "$into/srv/next/tmp"
fi
exec setpriv --pdeathsig TERM chroot "$into" sh -ec "cd /srv/src/test; exec \"\$@\"" sh "$@"
'
# in_root is run in a process of its own, which it becomes.
in_root() {
	exec unshare --mount --propagation private sh -c "$inside" sh "$PWD" "$work/bin" "$work/root" "$root" "$next" \
		env PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/tmp PUNTDNS=/srv/bin/puntdns LAB_NEXT_ROOT="$upgrade" \
		GORACE="atexit_sleep_ms=100 ${GORACE-}" "$@"
}

# root_of prints the path of the root folder of a release.
root_of() {
	./test/root.sh "$1" ovn ovn-central ovn-host openvswitch-switch bind9-dnsutils iproute2 ethtool procps
}

# version prints that of a daemon in the root folder, which its first line ends with.
version() {
	in_root "$1" --version | sed -n '1s/.* //p'
}

for last in $releases; do :; done
next=$(root_of "$last")
failed=0
echo "release OVN OvS datapath passed failed skipped demo seconds" >"$work/table"
for release in $releases; do
	root=$(root_of "$release")
	traits=netdev upgrade=/srv/next
	[ "$root" != "$next" ] || traits="netdev newest" upgrade=
	ovn=$(version ovn-northd) ovs=$(version ovs-vswitchd)
	echo "== $release: OVN $ovn, Open vSwitch $ovs"
	if [ "$release" = "${MATRIX_TESTED-}" ]; then
		echo "left out: all tests have been run on it"
		echo "$release $ovn $ovs netdev all - - - -" >>"$work/table"
		continue
	fi
	select=$(PUNTDNS=$work/bin/puntdns ./test/core.sh flags "$form" "$traits" "$work/bin/system.test")
	began=$(date +%s)
	demo=right
	run in_root /srv/bin/demo -puntdns /srv/bin/puntdns >"$work/demo" 2>&1 || {
		demo=wrong failed=1
		cat "$work/demo"
	}
	# shellcheck disable=SC2086 # a list of words
	run in_root /srv/bin/system.test "$select" $flags -test.timeout=30m -test.v >"$work/log" 2>&1 || failed=1
	./test/core.sh report "$work/log" >"$work/report"
	sed '$d' "$work/report"
	numbers=$(tail -n 1 "$work/report")
	seconds=$(($(date +%s) - began))
	echo "demo $demo, tests passed, failed and skipped: $numbers, $seconds s"
	echo "$release $ovn $ovs netdev $numbers $demo $seconds" >>"$work/table"
done
if [ "${MATRIX_KERNEL:-yes}" = yes ]; then
	echo "== trixie: the kernel's datapath, in an emulated machine"
	# The short form of it, whatever that of the others is: the processors are emulated.
	MATRIX=short KERNEL_TABLE=$work/table run ./test/kernel.sh || failed=1
fi
echo
awk '{ printf "%-10s %-8s %-6s %-9s %6s %6s %7s %6s %7s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }' "$work/table"
exit $failed
