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
#   CI, GORACE, LAB_SLOW and SOAK reach the tests, and nothing else of the environment does
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

# shellcheck source=test/child.sh
. ./test/child.sh

mkdir "$work/bin"
CGO_ENABLED=1 run "${GO:-go}" build -race -o "$work/bin/" ./cmd/puntdns ./cmd/puntctl
CGO_ENABLED=1 run "${GO:-go}" test -c -race -o "$work/bin/system.test" ./test
CGO_ENABLED=0 run "${GO:-go}" build -o "$work/bin/demo" ./test/demo

# in_root is run in a process of its own, which it becomes. It ends with this one, even where
# SIGTERM does not end it.
in_root() {
	set -- "$root" env -C test PUNTDNS="$work/bin/puntdns" GORACE="atexit_sleep_ms=100 ${GORACE-}" \
		CI="${CI-}" LAB_SLOW="${LAB_SLOW-}" SOAK="${SOAK-}" LAB_NEXT_ROOT="$upgrade" "$@"
	[ -z "$upgrade" ] || set -- -n "$next" "$@"
	exec setpriv --pdeathsig KILL ./test/inroot.sh -b "$work/bin" "$@"
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
	traits="netdev older" upgrade=/mnt/next
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
	{ run in_root "$work/bin/demo" -puntdns "$work/bin/puntdns" && run in_root "$work/bin/demo" -egress -puntdns "$work/bin/puntdns"; } >"$work/demo" 2>&1 || {
		demo=wrong failed=1
		cat "$work/demo"
	}
	# shellcheck disable=SC2086 # a list of words
	run in_root "$work/bin/system.test" "$select" $flags -test.timeout=30m -test.v >"$work/log" 2>&1 || {
		crashed=$(./test/core.sh crashed "$work/log")
		if [ -n "$crashed" ]; then
			echo "Open vSwitch has aborted under these tests, which are run once more: $crashed"
			# shellcheck disable=SC2086 # a list of words
			run in_root "$work/bin/system.test" "-test.run=^($crashed)$" $flags -test.timeout=30m >"$work/again" 2>&1 || failed=1
			cat "$work/again"
		else
			failed=1
		fi
	}
	./test/core.sh report "$work/log" >"$work/report"
	[ -z "${SOAK-}" ] || grep '_test\.go:[0-9]*: ' "$work/log" || : # figures of the soak
	sed '$d' "$work/report"
	numbers=$(tail -n 1 "$work/report")
	seconds=$(($(date +%s) - began))
	echo "demo $demo, tests passed, failed and skipped: $numbers, $seconds s"
	echo "$release $ovn $ovs netdev $numbers $demo $seconds" >>"$work/table"
done
if [ "${MATRIX_KERNEL:-yes}" = yes ]; then
	echo "== trixie: the kernel's datapath, in an emulated machine"
	MATRIX=$form KERNEL_TABLE=$work/table run ./test/kernel.sh || failed=1
fi
echo
awk '{ printf "%-10s %-8s %-6s %-9s %6s %6s %7s %6s %7s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }' "$work/table"
exit $failed
