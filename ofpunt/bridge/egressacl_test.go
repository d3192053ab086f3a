// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// aclSwitch has an ACL flow that drops all packets of port 1 of datapath 1.
type aclSwitch struct {
	flows.Switch
	asked []openflow.FlowStatsRequest
	err   error
}

func (s *aclSwitch) FlowStats(_ context.Context, r openflow.FlowStatsRequest) ([]openflow.FlowStats, error) {
	s.asked = append(s.asked, r)
	return []openflow.FlowStats{{Table: 16, Match: openflow.NewMatch(openflow.Metadata(1), openflow.Reg(placement.RegInPort, 1), openflow.PktMarkMasked(0, 1<<31))}}, s.err
}

// The switch is asked only if stages are known, without egress for the default bit: ACLs may outlive the policies.
func TestClosedByACL(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		bit   uint8
		table uint8
		err   error
		asked int
		known bool
	}{
		{"a policy", 31, 14, nil, 1, true},
		{"another bit", 20, 14, nil, 1, true},
		{"no policy", 0, 14, nil, 1, true},
		{"stages that are not known", 31, 0, nil, 0, false},
		{"an error", 31, 14, broken, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sw, srv := &aclSwitch{err: tt.err}, NewServer(Config{ACLBit: tt.bit})
			closed, err := closedByACL(t.Context(), sw, srv, placement.Pipeline{Kind: placement.OVN, Table: 30, EgressTable: tt.table})
			if !errors.Is(err, tt.err) || (closed != nil) != tt.known || len(sw.asked) != tt.asked {
				t.Errorf("%v, %v, %d requests", closed, err, len(sw.asked))
			}
			if tt.asked > 0 && (sw.asked[0].Table != openflow.TableAll || sw.asked[0].Match != placement.MatchUnmarked(cmp.Or(tt.bit, 31))) {
				t.Errorf("%+v", sw.asked[0])
			}
		})
	}
}

type anyPolicy struct{ opening.Policy }

func TestCountOpen(t *testing.T) {
	key := func(port uint32) placement.Key { return placement.Key{Datapath: 1, Port: port} }
	closed := placement.ClosedByACL{key(1): {IPv4: true, IPv6: true}, key(2): {IPv4: true}}
	for _, tt := range []struct {
		name   string
		port   uint32
		policy opening.Policy
		want   int
	}{
		{"closed", 1, anyPolicy{}, 0},
		{"open for IPv6", 2, anyPolicy{}, 1},
		{"open", 3, anyPolicy{}, 1},
		{"without a policy", 3, nil, 0},
	} {
		list := &guests.List{Served: []guests.Served{{Guest: placement.Guest{Key: key(tt.port), Egress: tt.policy}}}}
		if got := CountOpen(list, closed); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestOpenInterval(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 50 * time.Millisecond: 10 * time.Second, time.Second: 100 * time.Second} {
		if got := openInterval(took); got != want {
			t.Errorf("%s: %s, want %s", took, got, want)
		}
	}
}
