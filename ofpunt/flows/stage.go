// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// ovnIngressTable is the OpenFlow table of ingress stage 0 (OVN's lib/lflow.h, OFTABLE_LOG_INGRESS_PIPELINE), a guess
// to be confirmed.
const ovnIngressTable = 8

// stageFinder finds the OpenFlow table of OVN's DNS stage: the table with flows whose cookie is the first 32 bits of
// a logical flow's UUID (ovn-architecture(7)).
type stageFinder struct {
	// table is for the stage confirmed, 0 before.
	table     uint8
	confirmed Stage
	asking    Stage
	asked     int
}

func (s *Stage) equal(o *Stage) bool {
	return s.TableID == o.TableID && slices.Equal(s.Cookies, o.Cookies)
}

func (s *stageFinder) forget() { *s = stageFinder{} }

// again repeats the search without forgetting the table.
func (s *stageFinder) again() { s.asked = 0 }

// find returns the table of the stage, or the next cookie to ask for, whose flows go to found.
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
	// New rows may have the same number: the switch follows soon.
	known = s.table != 0 && s.confirmed.TableID == stage.TableID && len(stage.Cookies) > 0
	return s.table, known, 0, false
}

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
		return // no stage precedes it
	}
	s.table, s.confirmed = table, stage
}
