#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the system tests, and once more those that a crash of Open vSwitch has failed.
#
#   suite.sh GO FLAG...          all but those of the release
#   suite.sh release GO FLAG...  those of the release, see core.txt
#
# The output says which tests are run once more; core.sh tells crashes from failures.
set -eu
chosen=-skip words='not-newest not-older release'
if [ "$1" = release ]; then
	chosen=-run words=release
	shift
fi
go=$1
shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM

# What needs a later release of OVN, there or here, make matrix runs.
listed=$(awk -v words="$words" '
	BEGIN { for (i = split(words, word, " "); i > 0; i--) of[word[i]] }
	$1 in of { print $2 }' "$(dirname "$0")/core.txt" | paste -sd '|')

if "$go" test $chosen "^($listed)\$" "$@" ./test >"$out" 2>&1; then
	cat "$out"
	exit
fi
cat "$out"

crashed=$("$(dirname "$0")/core.sh" crashed "$out")
[ -n "$crashed" ] || exit 1
echo "suite.sh: Open vSwitch has aborted under these tests, which are run once more: $crashed"
"$go" test "$@" -run "^($crashed)\$" ./test
