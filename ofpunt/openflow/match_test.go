// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"net/netip"
	"testing"
)

func TestMatchIsCanonical(t *testing.T) {
	v4 := netip.MustParseAddr("10.0.0.4")
	tests := []struct {
		name string
		oxm  string // as a switch may write it
		want Match
	}{
		{"order", "80002002 0035 80001401 11 80000a02 0800", NewMatch(EthType(0x800), IPProto(17), UDPDst(53))},
		{"xreg with both halves", "80010e08 0000000e 0000000f", NewMatch(Reg(14, 14), Reg(15, 15))},
		{"xreg with its upper half", "80010f10 0000000e00000000 ffffffff00000000", NewMatch(Reg(14, 14))},
		{"xreg with masked halves", "80010f10 0000000e0000000f 000000ff0000ffff", NewMatch(RegMasked(14, 14, 0xff), RegMasked(15, 15, 0xffff))},
		{"xreg with its lower half, zero", "80010f10 0000000000000000 00000000ffffffff", NewMatch(Reg(15, 0))},
		{"xxreg", "0001df20 00000000 00000007 00000000 00000000 00000000 ffffffff 00000000 00000000", NewMatch(Reg(1, 7))},
		{"NXM registers", "00011e04 0000000f 00011c04 0000000e", NewMatch(Reg(14, 14), Reg(15, 15))},
		{"NXM names", "00000602 0800 00000e04 0a000004 00000c01 11 00001802 0035", NewMatch(EthType(0x800), IPv4Src(v4), IPProto(17), UDPDst(53))},
		{"NXM tunnel id", "00012008 0000000000000009", matchOf([]Field{field(classBasic, oxmTunnelID, []byte{0, 0, 0, 0, 0, 0, 0, 9})})},
		{"full mask", "80000510 0000000000000005 ffffffffffffffff", NewMatch(Metadata(5))},
		{"empty mask", "80000510 0000000000000005 0000000000000000", Match{}},
		{"value outside of the mask", "80000510 0000000000000fff 00000000000000ff", NewMatch(MetadataMasked(0xff, 0xff))},
		{"VLAN identifier with a full mask", "80000d04 1009 1fff", NewMatch(VLANID(9))},
		{"VLAN tag of any identifier", "80000d04 1fff 1000", matchOf([]Field{VLANID(0).withMask([]byte{0x10, 0})})},
		{"nothing", "", Match{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := decodeOXM(unhex(t, test.oxm))
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want || got.Key() != test.want.Key() {
				t.Errorf("match %v, want %v", got, test.want)
			}
			if again := NewMatch(got.Fields()...); again != got {
				t.Errorf("match %v of the fields of %v", again, got)
			}
		})
	}
	if NewMatch(Reg(14, 3)) == NewMatch(Reg(14, 4)) || NewMatch(Reg(14, 3)) == NewMatch(RegMasked(14, 3, 7)) || NewMatch(IPv4Src(v4)) == NewMatch(IPv4Dst(v4)) {
		t.Error("different matches are equal")
	}
}

func TestMatchKeepsUnknownFields(t *testing.T) {
	// An experimenter's, one of Nicira's, one longer than 16 bytes, and a
	// masked one of them.
	oxm := "0001d204 00000001 00015014" + "0102030405060708090a0b0c0d0e0f1011121314" +
		"00015328 0102030405060708090a0b0c0d0e0f1011121314 ffffffffffffffffffffffffffffffffffffffff ffff0206 00002320 1234"
	m, err := decodeOXM(unhex(t, oxm))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Fields()); n != 4 {
		t.Errorf("%d fields, want 4", n)
	}
	again, err := decodeOXM([]byte(m.oxm))
	if err != nil || again != m {
		t.Errorf("%v decodes as %v, %v", m, again, err)
	}
	if text := m.String(); text != "oxm(0x1,40)=0x102030405060708090a0b0c0d0e0f1011121314,oxm(0x1,41)=0x102030405060708090a0b0c0d0e0f1011121314/0xffffffffffffffffffffffffffffffffffffffff,ct_state=0x1,oxm(0xffff,1)=0x1234" {
		t.Error(text)
	}
}

func TestString(t *testing.T) {
	tests := []struct {
		got  interface{ String() string }
		want string
	}{
		{everyField, "in_port=3,metadata=0x5,dl_dst=01:02:03:04:05:06,dl_src=06:05:04:03:02:01,eth_type=0x86dd,vlan_vid=0x1009,ip_proto=17,udp_src=1024,udp_dst=53,ipv6_src=fd00::1,ipv6_dst=fd00::254,reg10=0x20/0x30,reg14=0x3"},
		{NewMatch(InPort(PortLocal), VLANNone()), "in_port=LOCAL,vlan_vid=0x0"},
		{Match{}, ""},
		{FlowMod{}, "add table=0,priority=0,cookie=0x0,actions=drop"},
		{FlowMod{Command: Delete, Table: TableAll, Cookie: 1, CookieMask: 3}, "delete table=255,cookie=0x1/0x3"},
		{FlowMod{Command: DeleteStrict, Table: 3, Priority: 4, Match: NewMatch(Reg(1, 2))}, "delete_strict table=3,priority=4,cookie=0x0,reg1=0x2"},
		{
			FlowMod{Command: ModifyStrict, Table: 3, IdleTimeout: 1, HardTimeout: 2, Actions: []Action{
				Controller2{ControllerID: 9, UserData: []byte{1, 0xab}, Meter: 7}, Resubmit{Table: 4}, Resubmit{Table: 4, InPort: 5},
				PushVLAN{}, SetVLAN{9}, PopVLAN{}, SetField{RegMasked(1, 2, 3)}, Move{Src: Reg(1, 0), Dst: Reg(2, 0), SrcOfs: 4, Bits: 8},
				CT{Zone: 5}, CT{ZoneField: Reg(13, 0), NAT: true}, Output{PortInPort}, Output{12},
			}},
			"modify_strict table=3,priority=0,cookie=0x0,idle_timeout=1,hard_timeout=2,actions=controller(id=9,userdata=01.ab,meter_id=7),resubmit(,4),resubmit(5,4),push_vlan:0x8100,set_field:4105->vlan_vid,pop_vlan,set_field:0x2/0x3->reg1,move:reg1[4..11]->reg2[0..7],ct(zone=5),ct(zone=reg13[0..15],nat),output:IN_PORT,output:12",
		},
		{MeterMod{ID: 7, Rate: 5, Burst: 6}, "add meter=7,pktps,band=type=drop,rate=5,burst_size=6"},
		{MeterMod{Command: Delete, ID: 7}, "delete meter=7"},
		{V15, "OpenFlow 1.5"},
		{Version(9), "OpenFlow version 0x09"},
		{FlowOwn, "own"},
	}
	for _, test := range tests {
		if got := test.got.String(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

func TestMatchVLAN(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fields []Field
		want   uint16
	}{
		{"any", []Field{InPort(1)}, 0},
		{"none", []Field{InPort(1), VLANNone()}, 0},
		{"one", []Field{InPort(1), VLANID(42)}, 42},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := NewMatch(tt.fields...).VLAN(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
