# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by a script that runs commands for long. The folder $work, which is new, goes with the
# script, and so does the command that it runs.
work=$(mktemp -d)
child= # the process of the command, while there is one

# shellcheck disable=SC2317 # the trap calls it
clear() {
	[ -z "$child" ] || kill "$child" 2>/dev/null || :
	rm -rf "$work"
}
trap clear EXIT
trap 'exit 1' HUP INT TERM

# run COMMAND... has the status of the command, which is in the background, so that a signal is
# not left until the end of it.
run() {
	"$@" &
	child=$!
	status=0
	wait $child || status=$?
	child=
	return $status
}
