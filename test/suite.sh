#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the system tests, and once more those that a crash of Open vSwitch has failed.
#
#   suite.sh GO FLAG...
#
# Debian 12's Open vSwitch 3.1.0 aborts now and then in its userspace conntrack, on a busy
# machine more often: an assertion in conn_update_state() meets the connection of an address
# translation that another thread has just ended. Whatever test runs on that switch fails. Such
# tests are run once more, and the output says so. Any other failure is one.
set -eu
go=$1
shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM

# There is one release here, so none later than it: make matrix runs these.
alone=$(awk '$1 == "not-newest" { print $2 }' "$(dirname "$0")/core.txt" | paste -sd '|')

if "$go" test -skip "^($alone)\$" "$@" ./test >"$out" 2>&1; then
	cat "$out"
	exit
fi
cat "$out"

# The names of the tests that failed, if each of them lost its switch; nothing otherwise.
crashed=$(awk '
	/^--- FAIL: / { test = $3; failed[test] = 1; next }
	/^(ok|FAIL|---|===)/ { test = ""; next }
	/conn_update_state/ { crashed[test] = 1 }
	/^panic: |WARNING: DATA RACE/ { other = 1 }
	END {
		for (test in failed) {
			if (!(test in crashed)) other = 1
			names = names (names == "" ? "" : "|") test
		}
		if (!other) print names
	}' "$out")
[ -n "$crashed" ] || exit 1
echo "suite.sh: Open vSwitch has aborted under these tests, which are run once more: $crashed"
"$go" test "$@" -run "^($crashed)\$" ./test
