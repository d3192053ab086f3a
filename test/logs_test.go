// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"regexp"
	"testing"
)

// Log sentences that tests search for more than once. A test waits on metrics,
// the control socket or *ready*, and reads the log only where the log is what it tests. Each %s is a literal
// text that the test gives.
const (
	logReload        = "Reloading complete" // of CoreDNS
	logReloadRefused = "the reload is refused and changes nothing; "

	logSwitchUp      = `\[INFO\] plugin/ofpunt: Bridge br-int: connected to %s`
	logSwitchEnded   = `connection lost`
	logSwitchReset   = `openflow: reading`
	logSwitchFails   = `\[WARNING\] plugin/ofpunt: Bridge br-int: %s: .*%s`
	logSwitchAbsent  = `\[WARNING\] plugin/ofpunt: Bridge %s: .*no such file`
	logSwitchHangs   = `the switch does not answer: %s`
	logStalled       = `the local ovsdb-server does not answer`
	logStallOver     = `no longer waits for the local ovsdb-server`
	logLocalUp       = `\[INFO\] plugin/ofpunt: Bridge br-int: local Open_vSwitch database %s`
	logLocalFails    = `\[WARNING\] plugin/ofpunt: Bridge br-int: local Open_vSwitch database %s: .*%s`
	logNoBridge      = `\[WARNING\] plugin/ofpunt: Bridge %s: the local Open_vSwitch database has no bridge of this name`
	logWaiting       = `Bridge br-int: waiting: `
	logSynced        = `\[INFO\] plugin/ovnhosts: %s: in sync with %s$`
	logNotSynced     = `%s: not in sync: %s: .*%s`
	logNotSyncedAny  = `not in sync: `
	logSavedTaken    = `: taken from \d`
	logSavedNotUsed  = `: not used: .*%s`
	logBadValue      = `skipped: `
	logNoChassis     = `the Southbound database has no chassis "%s"`
	logGraceBegins   = `\[WARNING\] plugin/ovnhosts: OVN_Southbound: the bindings of this chassis are gone.* for up to 1m0s: 2$`
	logGraceRenamed  = `\[WARNING\] plugin/ovnhosts: OVN_Southbound: this chassis is "%s", and its guests are bound to chassis "%s": .* for up to 1m0s: 2$`
	logGraceEnds     = `OVN_Southbound: no guest is kept any more, %s: 2$`
	logFlowsLost     = `Bridge br-int: (\d+) flows were removed or changed by another process$`
	logLeaseExpired  = `the punt has expired`
	logLeaseRestored = `the punt is installed again`
	logProbeMissed   = `did not come back`
	logReaderKept    = `a query kept the reader`
	logLingers       = `another process has the flows, waiting until the switch punts nothing to this one`
	logLingered      = `[1-9][0-9]* packets were punted to this process meanwhile`

	logGuests        = `\[INFO\] plugin/ofpunt: Bridge br-int: guests: %s, before: %s`
	logUnserved      = `\[WARNING\] plugin/ofpunt: Bridge br-int: interface %s of logical port "%s" is not served: Southbound has no logical port of this name`
	logUnservedAny   = `is not served`
	logGuestsGone    = `\[WARNING\] plugin/ofpunt: Bridge br-int: the Corefile that was reloaded serves no guest here, before: 1`
	logNobodyServed  = `\[WARNING\] plugin/ofpunt: Bridge br-int: %s`
	logNoAddress     = `\[WARNING\] plugin/ofpunt: Bridge br-int: switch "%s" \([0-9a-f-]+\): .*no resolver address; guests: 1`
	logAddressAgain  = `\[INFO\] plugin/ofpunt: Bridge br-int: switch "%s" .*any more`
	logFunctions     = `switch "%s" \(.*\) has ports of network functions \("%s", "%s"\)`
	logForwardHijack = `ofpunt br-int: forward asks %s, which is port "%s" of switch "red" \([-0-9a-f]+\) on this bridge: its own queries are not forwarded`
	logForwardLoop   = `ofpunt br-int: forward asks %s, which is port "%s" of switch "red" \([-0-9a-f]+\) on this bridge: what it asks while`
	logOverRate      = `\[WARNING\] plugin/ofpunt: Bridge br-int: port "%s" of switch "red" was refused \d+ packets over rate`
	logOverload      = `port "red-vm[23]" of switch "red" was refused \d+ queries by overload`
	logNoRate        = `and no packet rate`
	logUnmetered     = `rate is not enforced`
	logNoMeters      = `rate is not enforced: its datapath has no meters`
	logMetered       = `rate is enforced again`
	logSocketHeld    = `process %s .* listens there; expected .*; it is opened once that process is gone`
	logSocketOpened  = `Control socket: .*, the process before has gone`
)

// logged returns a sentence as an expression of lines of the log, with literal texts.
func logged(sentence string, texts ...string) string {
	var quoted []any
	for _, text := range texts {
		quoted = append(quoted, regexp.QuoteMeta(text))
	}
	if len(quoted) > 0 {
		sentence = fmt.Sprintf(sentence, quoted...)
	}
	return "(?m)" + sentence
}

// log waits until the log has a sentence.
func (s *server) log(sentence string, texts ...string) {
	s.t.Helper()
	expr := logged(sentence, texts...)
	if err := s.WaitLog(within(s.t, wait), expr); err != nil {
		s.t.Fatalf("waiting for %q in the log: %v\n%s", expr, err, s.Log())
	}
}

// told counts a sentence in the log.
func (s *server) told(sentence string, texts ...string) int {
	return len(regexp.MustCompile(logged(sentence, texts...)).FindAllString(s.Log(), -1))
}

// toldTimes checks how often the log has a sentence.
func (s *server) toldTimes(t *testing.T, times int, sentence string, texts ...string) {
	t.Helper()
	if got := s.told(sentence, texts...); got != times {
		t.Errorf("the log has %d times %q, want %d\n%s", got, logged(sentence, texts...), times, s.Log())
	}
}

// logsAfter calls f, and waits until the log has a sentence once more.
func (s *server) logsAfter(f func(), sentence string, texts ...string) {
	s.t.Helper()
	before := s.told(sentence, texts...)
	f()
	s.l.Eventually(logged(sentence, texts...), func() error {
		s.alive()
		return errorUnless(s.told(sentence, texts...) > before, "not in the log:\n%s", s.Log())
	})
}

// lost returns how many flows each line of the log says that somebody else has taken or changed.
func (s *server) lost() (flows []string) {
	for _, line := range regexp.MustCompile(logged(logFlowsLost)).FindAllStringSubmatch(s.Log(), -1) {
		flows = append(flows, line[1])
	}
	return flows
}
