// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// ovnIngressTable is the OpenFlow table of ingress stage 0 (OVN's lib/lflow.h,
// OFTABLE_LOG_INGRESS_PIPELINE). It is only a first guess: the switch confirms it or not.
const ovnIngressTable = 8

// stageFinder finds the OpenFlow table of OVN's DNS stage. ovn-controller gives a flow the
// first 32 bits of its logical flow's UUID as the cookie (ovn-architecture(7)), so the table
// where such flows are installed is the stage's.
type stageFinder struct {
	// table is where the switch has the stage that confirmed is of, 0 before it has one.
	table     uint8
	confirmed Stage
	// asked is how many of the cookies of asking the switch was asked for.
	asking Stage
	asked  int
}

func (s *Stage) equal(o *Stage) bool {
	return s.TableID == o.TableID && slices.Equal(s.Cookies, o.Cookies)
}

// forget has the switch asked again before anything is placed.
func (s *stageFinder) forget() { *s = stageFinder{} }

// again has the switch asked anew.
func (s *stageFinder) again() { s.asked = 0 }

// find returns the table of the stage, which is known if there is nothing left to ask. Else
// it returns the cookie to ask for next; what comes back goes to found.
func (s *stageFinder) find(stage Stage) (table uint8, known bool, ask uint32, more bool) {
	if s.table != 0 && s.confirmed.equal(&stage) {
		return s.table, true, 0, false
	}
	if !s.asking.equal(&stage) {
		s.asking, s.asked = stage, 0
	}
	if s.asked < len(stage.Cookies) {
		return 0, false, stage.Cookies[s.asked], true
	}
	// The rows may be new where the number is not: the switch follows in a moment.
	known = s.table != 0 && s.confirmed.TableID == stage.TableID && len(stage.Cookies) > 0
	return s.table, known, 0, false
}

// found takes in the flows that have the cookie that was asked for.
func (s *stageFinder) found(stage Stage, flows []openflow.FlowStats) {
	if s.asking.equal(&stage) {
		s.asked++
	}
	if len(flows) == 0 {
		return
	}
	table, guess := flows[0].Table, ovnIngressTable+stage.TableID
	if slices.ContainsFunc(flows, func(f openflow.FlowStats) bool { return int(f.Table) == guess }) {
		table = uint8(guess)
	}
	if table < 1 {
		return // no stage comes before it
	}
	s.table, s.confirmed = table, stage
}
