#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Says which of the system tests run where, and what became of them.
#
#   core.sh flags core|short "TRAIT..." BINARY
#                       prints the flag by which the test binary runs these tests; core.txt
#                       has which, and may name none that the binary does not have. A trait is
#                       of where they run: netdev or system for the datapath, newest for a
#                       release that none is later than, older for any other. PUNTDNS is in the
#                       environment.
#   core.sh report LOG  reads what the binary has printed with -test.v: it prints the output
#                       of the tests that failed, and last the numbers of those that passed,
#                       failed and were skipped
#   core.sh crashed LOG prints the names of the tests that failed, with | between them, if a crash of
#                       Open vSwitch has failed each of them; nothing otherwise
set -eu
list=$(dirname "$0")/core.txt

flags() {
	form=$1 traits=$2 binary=$3
	"$binary" -test.list '^Test' | awk -v form="$form" -v traits="$traits" -v list="$list" '
		function add(tests, test) { return tests == "" ? test : tests "|" test }
		{ known[$1] = 1 }
		END {
			here[""] = 1
			for (i = split(traits, trait); i > 0; i--) here["-" trait[i]] = 1
			while ((getline line <list) > 0) {
				if (split(line, word) == 0 || word[1] ~ /^#/) continue
				if (!(word[2] in known)) {
					print list ": no test is called " word[2] >"/dev/stderr"
					exit 1
				}
				if (word[1] !~ /^(release|not(-newest|-older)?|short(-netdev|-system|-newest)?|core-system)$/) {
					print list ": " word[1] ": expected release, not, not-newest, not-older, short, short-netdev, short-system, short-newest or core-system" >"/dev/stderr"
					exit 1
				} else if (word[1] ~ /^(not|release)/ && word[3] == "") {
					print list ": " word[2] " is left out without a reason" >"/dev/stderr"
					exit 1
				}
				form_of = word[1]; sub(/-.*/, "", form_of)
				if (!(substr(word[1], length(form_of) + 1) in here)) continue
				if (form_of == "short" || form_of == form) some = add(some, word[2])
				else if (form_of ~ /^(not|release)$/) { out = add(out, word[2]); left[word[2]] = 1 }
			}
			if (form == "core" && !("-system" in here)) {
				print "-test.skip=^(" out ")$"
				exit
			}
			for (i = split(some, word, "|"); i > 0; i--) if (!(word[i] in left)) run = add(run, word[i])
			print "-test.run=^(" run ")$"
		}'
}

report() {
	awk '
		# A line that is not about a test belongs to the one that was named last.
		/^=== (RUN|PAUSE|CONT|NAME) / { split($3, path, "/"); test = path[1]; next }
		/^ *--- (PASS|FAIL|SKIP): / {
			split($3, path, "/"); test = path[1]
			if ($0 ~ /^---/) {
				count[$2]++
				ended[test] = 1
			}
			if ($2 == "FAIL:") failed[test] = 1
			if ($2 != "PASS:") said[test] = said[test] $0 "\n"
			if ($2 == "SKIP:") skipped[test] = 1
			next
		}
		/^(PASS|FAIL)$/ { test = ""; next }
		{ said[test] = said[test] $0 "\n" }
		# A test that has not ended is why the binary has, as is what belongs to none.
		END {
			printf "%s", said[""]
			for (test in said) if (test in failed || test in skipped || test != "" && !(test in ended)) printf "%s", said[test]
			print count["PASS:"] + 0, count["FAIL:"] + 0, count["SKIP:"] + 0
		}' "$1"
}

# Debian 12's Open vSwitch 3.1.0 aborts now and then in its userspace conntrack, on a busy
# machine more often: an assertion in conn_update_state() fails if another thread has just ended a
# NAT connection. Each test on that switch fails. Of a test with parts, each part that failed needs
# the crash.
crashed() {
	awk '
		# go test puts the output of a test behind its FAIL line, a binary with -test.v behind its === lines.
		/^=== (RUN|PAUSE|CONT|NAME) / { test = $3; marked = 1; next }
		# Without these lines the output of a test with parts follows its parts, and is indented less than theirs.
		!marked && /^ +[^ ]+\.go:[0-9]+: / {
			match($0, /^ +/)
			for (parts = test; gsub("/", "/", parts) > RLENGTH / 4 - 1; parts = test) sub("/[^/]*$", "", test)
		}
		/^ *--- FAIL: / {
			test = $3
			failed[test] = 1
			for (of = test; sub("/[^/]*$", "", of);) whole[of] = 1
			next
		}
		/^ *--- / || /^(ok|FAIL|PASS)/ { test = ""; next }
		# The lab of a test with parts may be that of the whole test.
		/conn_update_state/ { crash[test] = 1 }
		/^panic: |WARNING: DATA RACE/ { other = 1 }
		END {
			for (test in failed) {
				found = test in whole
				for (of = test; !found; ) {
					found = of in crash
					if (!sub("/[^/]*$", "", of)) break
				}
				if (!found) other = 1
				if (test !~ /\//) names = names (names == "" ? "" : "|") test
			}
			if (!other) print names
		}' "$1"
}

case "${1-} $#" in
"flags 4") flags "$2" "$3" "$4" ;;
"report 2") report "$2" ;;
"crashed 2") crashed "$2" ;;
*)
	echo "usage: core.sh flags core|short TRAITS BINARY, or core.sh report|crashed LOG" >&2
	exit 2
	;;
esac
