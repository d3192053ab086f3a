// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/puntdns/puntdns/ofpunt/openflow"

// ACL verdicts in a register (OVN's northd.c, REGBIT_ACL_VERDICT_DROP and REGBIT_ACL_VERDICT_REJECT, from OVN 23.09
// on).
const (
	regVerdict    = 8
	verdictDrop   = 1 << 17
	verdictReject = 1 << 18
)

// Families are versions of IP.
type Families struct{ IPv4, IPv6 bool }

// ClosedByACL has, by guest without its MAC, the families that ACLs drop or reject unless the egress bit is set.
type ClosedByACL map[Key]Families

// Of returns the closed families of a guest.
func (c ClosedByACL) Of(guest Key) Families {
	return c[Key{Datapath: guest.Datapath, Port: guest.Port}]
}

// MatchUnmarked matches packets without the egress bit. Few flows except ACLs, and the drops of fragments, have this match.
func MatchUnmarked(bit uint8) openflow.Match {
	return openflow.NewMatch(openflow.PktMarkMasked(0, 1<<bit))
}

// ReadClosed finds ACLs of single ports or port groups among flows that MatchUnmarked covers. ACLs for some
// destinations count: operators may leave others open on purpose.
func ReadClosed(at Pipeline, flows []openflow.FlowStats) ClosedByACL {
	closed := ClosedByACL{}
	for i := range flows {
		f := &flows[i]
		datapath, ofDatapath := f.Match.Value(openflow.Metadata(0))
		port, ofPort := f.Match.Value(openflow.Reg(RegInPort, 0))
		if f.Table <= at.EgressTable || f.Table >= at.Table || !ofDatapath || !ofPort || !drops(f.Instructions) {
			continue
		}
		ethernet, ofType := f.Match.Value(openflow.EthType(0))
		key := Key{Datapath: uint32(datapath), Port: uint32(port)}
		families := closed[key]
		families.IPv4 = families.IPv4 || !ofType || ethernet == ethIPv4
		families.IPv6 = families.IPv6 || !ofType || ethernet == ethIPv6
		closed[key] = families
	}
	return closed
}

// drops reports whether an ACL drops or rejects. Before OVN 23.09 the ACL's flow drops by not resubmitting.
func drops(instructions []byte) bool {
	return !openflow.Resubmits(instructions) || openflow.SetsBits(instructions, regVerdict, verdictDrop|verdictReject)
}
