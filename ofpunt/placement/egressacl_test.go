// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/hex"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Actions of ACL flows as Open vSwitch reports them.
const (
	// OVN 23.03
	dropOld    = ""
	blockOld   = "0004004000000000ffff0038000023200023000100011a04000fff0000000000ffff0010000023200024000000010000001900100001d7080000000100000001"
	rejectOld  = "0004004000000000ffff0018000023200007181f0001de100000000000000000ffff00200000232000250000000000000003000f000000070000000001067800"
	allowOld   = "0004003000000000ffff001800002320000718400001de100000000000000001ffff001000002320000efff811000000"
	loggingOld = "0004003800000000ffff00200000232000250000000000000003000f000000070000000000067900ffff001000002320000efff811000000"
	// OVN 26.03 over OpenFlow 1.3 and 1.5
	drop13   = "0004003000000000ffff00180000232000070c40800108080000000000000001ffff001000002320000efff812000000"
	reject13 = "0004003000000000ffff00180000232000070c80800108080000000000000001ffff001000002320000efff812000000"
	allow13  = "0004003000000000ffff00180000232000070c00800108080000000000000001ffff001000002320000efff812000000"
	drop15   = "0004003000000000001900188001091000020000000000000002000000000000ffff001000002320000efff812000000"
	block15  = "0004009000000000001900188001091000020000000000000002000000000000ffff0060000023200023000100011a04000fff0000000000ffff0010000023200024000000010000001900100001d7080000000100000001001900280001d92000000000000000000000000000000000ffffffff000000000000000000000000ffff001000002320000efff812000000"
	reject15 = "0004003000000000001900188001091000040000000000000004000000000000ffff001000002320000efff812000000"
	allow15  = "0004003000000000001900188001091000010000000000000001000000000000ffff001000002320000efff812000000"
)

// Only ACLs between ls_in_pre_stateful and ls_in_dns_lookup count.
func TestReadClosed(t *testing.T) {
	const stage = 16
	guest := Key{Datapath: 1, Port: 2}
	of := func(key Key, more ...openflow.Field) openflow.Match {
		return openflow.NewMatch(append(more, openflow.Metadata(uint64(key.Datapath)), openflow.Reg(RegInPort, key.Port), openflow.PktMarkMasked(0, 1<<31))...)
	}
	v4, v6 := of(guest, openflow.EthType(ethIPv4)), of(guest, openflow.EthType(ethIPv6))
	only4, only6, both := Families{IPv4: true}, Families{IPv6: true}, Families{true, true}
	for _, tt := range []struct {
		name    string
		table   uint8
		match   openflow.Match
		actions string
		want    Families
	}{
		{"drop, 23.03", stage, v4, dropOld, only4},
		{"drop of an established connection, 23.03", stage, v4, blockOld, only4},
		{"reject, 23.03", stage, v4, rejectOld, only4},
		{"allow-related, 23.03", stage, v4, allowOld, Families{}},
		{"allow with a log, 23.03", stage, v4, loggingOld, Families{}},
		{"drop, OpenFlow 1.3", stage, v4, drop13, only4},
		{"reject, OpenFlow 1.3", stage, v4, reject13, only4},
		{"allow, OpenFlow 1.3", stage, v4, allow13, Families{}},
		{"drop, OpenFlow 1.5", stage, v4, drop15, only4},
		{"drop of an established connection, OpenFlow 1.5", stage, v4, block15, only4},
		{"reject, OpenFlow 1.5", stage, v4, reject15, only4},
		{"allow, OpenFlow 1.5", stage, v4, allow15, Families{}},
		{"IPv6", stage, v6, drop15, only6},
		{"both versions of IP", stage, of(guest), drop15, both},
		{"some destinations", stage, of(guest, openflow.EthType(ethIPv4), openflow.IPProto(ProtoTCP), openflow.TCPDst(80)), drop15, only4},
		{"another port", stage, of(Key{Datapath: 1, Port: 3}, openflow.EthType(ethIPv4)), drop15, Families{}},
		{"another switch", stage, of(Key{Datapath: 2, Port: 2}, openflow.EthType(ethIPv4)), drop15, Families{}},
		{"no port", stage, openflow.NewMatch(openflow.Metadata(1), openflow.PktMarkMasked(0, 1<<31)), drop15, Families{}},
		{"no switch", stage, openflow.NewMatch(openflow.Reg(RegInPort, 2), openflow.PktMarkMasked(0, 1<<31)), drop15, Families{}},
		{"a stage before", 14, v4, drop15, Families{}},
		{"to-lport", 46, v4, drop15, Families{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(tt.actions)
			if err != nil {
				t.Fatal(err)
			}
			flows := []openflow.FlowStats{{Table: tt.table, Match: tt.match, Instructions: b}}
			closed := ReadClosed(Pipeline{Kind: OVN, Table: 30, EgressTable: 14}, flows)
			external := guest
			external.MAC = [6]byte{2}
			if got := closed.Of(guest); got != tt.want || closed.Of(external) != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	var all []openflow.FlowStats
	for _, m := range []openflow.Match{v4, v6} {
		all = append(all, openflow.FlowStats{Table: stage, Match: m})
	}
	if got := ReadClosed(Pipeline{Kind: OVN, Table: 30, EgressTable: 14}, all).Of(guest); got != both {
		t.Errorf("two ACLs: %+v", got)
	}
}
