#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the demo and system tests on the kernel's datapath, in the emulated machine of machine.sh,
# and prints what failed. make kernel and matrix.sh call it.
#
#   kernel.sh [FLAG...]   flags of the test binary, instead of those of core.txt
#
# Environment:
#   GO            the Go that builds, on this machine
#   MATRIX        core (default) or short, see core.txt
#   KERNEL_LIMIT  the most seconds that it may take, 540 for the short form and 1200 for the core
#   KERNEL_SLOW   how many times slower than usual the machine is taken to be, 3 by default
#   KERNEL_TABLE  a file that gets a line of versions and numbers
#
# What runs there is built without the race detector, which an emulated processor is too slow
# for: races are looked for on the other datapath.
set -eu
cd "$(dirname "$0")/.."

form=${MATRIX:-core}
case $form in
core) limit=${KERNEL_LIMIT:-1200} ;;
short) limit=${KERNEL_LIMIT:-540} ;;
*)
	echo "kernel.sh: MATRIX=$form: expected core or short" >&2
	exit 2
	;;
esac
# shellcheck source=test/child.sh
. ./test/child.sh

./test/deps.sh machine
job=$work/job
mkdir "$job"
export CGO_ENABLED=0
run "${GO:-go}" build -trimpath -o "$job/puntdns" ./cmd/puntdns
run "${GO:-go}" test -c -o "$job/system.test" ./test
run "${GO:-go}" build -o "$job/demo" ./test/demo
[ $# -gt 0 ] || set -- "$(PUNTDNS=$job/puntdns ./test/core.sh flags "$form" system "$job/system.test")"

# The tests say themselves which were under way when their time was over; the machine gets a
# minute more.
cat >"$job/run" <<'END'
#!/bin/sh
export PUNTDNS=/job/puntdns LAB_DATAPATH=system
ovn-northd --version | sed -n '1s/.* /OVN /p'
ovs-vswitchd --version | sed -n '1s/.* /Open vSwitch /p'
echo "Linux $(uname -r), up for $(cut -d ' ' -f 1 /proc/uptime) s"
if ./demo -puntdns ./puntdns >/tmp/demo 2>&1; then
	echo 'demo right'
else
	cat /tmp/demo
	echo 'demo wrong'
fi
exec ./system.test -test.v "$@"
END
chmod 755 "$job/run"
began=$(date +%s)
failed=0
run ./test/machine.sh "$limit" "$job" env LAB_SLOW="${KERNEL_SLOW:-3}" ./run \
	-test.parallel=2 -test.timeout="$((limit - 60))s" "$@" >"$work/log" 2>&1 || failed=1
grep -qx 'demo right' "$work/log" || failed=1
./test/core.sh report "$work/log" >"$work/report"
sed '$d' "$work/report"
numbers=$(tail -n 1 "$work/report")
seconds=$(($(date +%s) - began))
echo "tests passed, failed and skipped: $numbers, $seconds s"
if [ -n "${KERNEL_TABLE-}" ]; then
	awk -v numbers="$numbers" -v seconds=$seconds '
		$1 == "OVN" && !ovn { ovn = $2 }
		$1 " " $2 == "Open vSwitch" && !ovs { ovs = $3 }
		/^demo (right|wrong)$/ { demo = $2 }
		END { print "trixie", ovn ? ovn : "-", ovs ? ovs : "-", "system", numbers, demo ? demo : "-", seconds }' "$work/log" >>"$KERNEL_TABLE"
fi
exit $failed
