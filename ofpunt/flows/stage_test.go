// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"testing"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Of several tables with the cookie, OVN's expected table wins.
func TestStage(t *testing.T) {
	two := Stage{TableID: 22, Cookies: []uint32{0xaa, 0xbb}}
	in := func(tables ...uint8) (flows []openflow.FlowStats) {
		for _, table := range tables {
			flows = append(flows, openflow.FlowStats{Table: table})
		}
		return flows
	}
	tests := []struct {
		name  string
		found [][]openflow.FlowStats // for each cookie
		table uint8
		known bool
		asked int
	}{
		{"by the first cookie", [][]openflow.FlowStats{in(30)}, 30, true, 1},
		{"by the second", [][]openflow.FlowStats{nil, in(30)}, 30, true, 2},
		{"at another table", [][]openflow.FlowStats{in(33)}, 33, true, 1},
		{"somebody else's with that cookie too", [][]openflow.FlowStats{in(7, 30)}, 30, true, 1},
		{"nowhere", [][]openflow.FlowStats{nil, nil}, 0, false, 2},
		{"where no stage comes before", [][]openflow.FlowStats{in(0), in(0)}, 0, false, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s stageFinder
			for i, flows := range tt.found {
				_, _, cookie, more := s.find(two)
				if !more || cookie != two.Cookies[i] {
					t.Fatalf("asks for %#x, %v; want %#x", cookie, more, two.Cookies[i])
				}
				s.found(two, flows)
			}
			table, known, _, more := s.find(two)
			if more || table != tt.table || known != tt.known || s.asked != tt.asked {
				t.Errorf("table %d, known %v, asked %d, more %v", table, known, s.asked, more)
			}
			s.again()
			if _, _, _, more := s.find(two); more == tt.known {
				t.Errorf("asks again: %v", more)
			}
		})
	}
}

// A result for another stage does not advance the search.
func TestStageChangesMeanwhile(t *testing.T) {
	var s stageFinder
	before, after := Stage{TableID: 22, Cookies: []uint32{0xaa}}, Stage{TableID: 23, Cookies: []uint32{0xbb}}
	s.find(before)
	s.find(after)
	s.found(before, nil)
	if _, _, cookie, more := s.find(after); !more || cookie != 0xbb {
		t.Errorf("asks for %#x, %v", cookie, more)
	}
}
