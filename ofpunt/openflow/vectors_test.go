// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"encoding/hex"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

func sure(b []byte) ([]byte, error) { return b, nil }

var everyField = NewMatch(
	InPort(3), Metadata(5), EthDst([6]byte{1, 2, 3, 4, 5, 6}), EthSrc([6]byte{6, 5, 4, 3, 2, 1}), EthType(0x86dd), VLANID(9),
	IPProto(17), IPv6Src(netip.MustParseAddr("fd00::1")), IPv6Dst(netip.MustParseAddr("fd00::254")), UDPSrc(1024), UDPDst(53),
	Reg(14, 3), RegMasked(10, 0x20, 0x30),
)

// encodings are the messages that the package sends; text is in what ovs-ofctl
// ofp-print makes of them.
var encodings = []struct {
	name     string
	encode   func(b []byte, v Version) ([]byte, error)
	v13, v15 string
	text     string
}{
	{
		name:   "hello",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendHello(b, 1, []Version{V13, v})) },
		v13:    "04000010000000010001000800000010",
		v15:    "06000010000000010001000800000050",
		text:   "version bitmap: 0x0",
	},
	{
		name: "echo request",
		encode: func(b []byte, v Version) ([]byte, error) {
			return sure(appendEmpty(b, v, typeEchoRequest, 2))
		},
		v13:  "0402000800000002",
		v15:  "0602000800000002",
		text: "OFPT_ECHO_REQUEST",
	},
	{
		name: "echo reply",
		encode: func(b []byte, v Version) ([]byte, error) {
			return sure(appendEchoReply(b, []byte{byte(v), typeEchoRequest, 0, 11, 0, 0, 0, 3, 'a', 'b', 'c'}))
		},
		v13:  "0403000b00000003616263",
		v15:  "0603000b00000003616263",
		text: "3 bytes of payload",
	},
	{
		name: "features request",
		encode: func(b []byte, v Version) ([]byte, error) {
			return sure(appendEmpty(b, v, typeFeaturesRequest, 4))
		},
		v13:  "0405000800000004",
		v15:  "0605000800000004",
		text: "OFPT_FEATURES_REQUEST",
	},
	{
		name: "get config",
		encode: func(b []byte, v Version) ([]byte, error) {
			return sure(appendEmpty(b, v, typeGetConfig, 4))
		},
		v13:  "0407000800000004",
		v15:  "0607000800000004",
		text: "OFPT_GET_CONFIG_REQUEST",
	},
	{
		name: "set config",
		encode: func(b []byte, v Version) ([]byte, error) {
			return sure(appendSetConfig(b, v, 5, 3, 0xffff))
		},
		v13:  "0409000c000000050003ffff",
		v15:  "0609000c000000050003ffff",
		text: "frags=nx-match miss_send_len=65535",
	},
	{
		name:   "set async",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendSetAsync(b, v, 6)) },
		v13:    "041c002000000006000000030000000300000003000000030000000000000000",
		v15:    "061c006800000006000000080000003b000100080000003b00020008000000030003000800000003000400080000000000050008000000000006000800000000000700080000000000080008000000000009000800000000000a000800000000000b000800000000",
		text:   "PACKET_IN: no_match action",
	},
	{
		name:   "set packet-in format",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendSetPacketInFormat(b, v, 7)) },
		v13:    "0404001400000007000023200000001000000002",
		v15:    "0604001400000007000023200000001000000002",
		text:   "format=nxt_packet_in2",
	},
	{
		name:   "set controller id",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendSetControllerID(b, v, 8, 4242)) },
		v13:    "040400180000000800002320000000140000000000001092",
		v15:    "060400180000000800002320000000140000000000001092",
		text:   "id=4242",
	},
	{
		name:   "barrier",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendBarrier(b, v, 9)) },
		v13:    "0414000800000009",
		v15:    "0614000800000009",
		text:   "OFPT_BARRIER_REQUEST",
	},
	{
		name: "flow without actions",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 10, &FlowMod{Table: 29, Priority: 200, Cookie: 0x11, IdleTimeout: 5, HardTimeout: 15, Flags: ResetCounts | SendFlowRem, Match: everyField})
		},
		v13:  "040e00b80000000a000000000000001100000000000000001d000005000f00c8ffffffffffffffffffffffff00050000000100858000000400000003800004080000000000000005800006060102030405068000080606050403020180000a0286dd80000c021009800014011180001e02040080002002003580003410fd00000000000000000000000000000180003610fd00000000000000000000000000025400011508000000200000003000011c0400000003000000",
		v15:  "060e00b80000000a000000000000001100000000000000001d000005000f00c8ffffffffffffffffffffffff00050000000100858000000400000003800004080000000000000005800006060102030405068000080606050403020180000a0286dd80000c021009800014011180001e02040080002002003580003410fd00000000000000000000000000000180003610fd00000000000000000000000000025400011508000000200000003000011c0400000003000000",
		text: "ADD table:29 priority=200,udp6,reg10=0x20/0x30,reg14=0x3,metadata=0x5,in_port=3,dl_vlan=9,dl_src=06:05:04:03:02:01,dl_dst=01:02:03:04:05:06,ipv6_src=fd00::1,ipv6_dst=fd00::254,tp_src=1024,tp_dst=53 cookie:0x11 idle:5 hard:15 send_flow_rem reset_counts actions=drop",
	},
	{
		name: "ARP flow",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 10, &FlowMod{Match: NewMatch(VLANNone(), EthType(0x806), ARPOp(1), ARPSPA(netip.MustParseAddr("10.0.0.4")), ARPTPA(netip.MustParseAddr("169.254.169.254")))})
		},
		v13:  "040e00580000000a000000000000000000000000000000000000000000000000ffffffffffffffffffffffff000000000001002680000a02080680000c02000080002a02000180002c040a00000480002e04a9fea9fe0000",
		v15:  "060e00580000000a000000000000000000000000000000000000000000000000ffffffffffffffffffffffff000000000001002680000a02080680000c02000080002a02000180002c040a00000480002e04a9fea9fe0000",
		text: "priority=0,arp,vlan_tci=0x0000/0x1fff,arp_spa=10.0.0.4,arp_tpa=169.254.169.254,arp_op=1 actions=drop",
	},
	{
		name: "neighbour solicitation flow",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 10, &FlowMod{Match: NewMatch(NDTarget(netip.MustParseAddr("fd00::254")), ICMPv6Type(135), IPProto(58), EthType(0x86dd), MetadataMasked(1, 0xffff))})
		},
		v13:  "040e00700000000a000000000000000000000000000000000000000000000000ffffffffffffffffffffffff000000000001003c800005100000000000000001000000000000ffff80000a0286dd800014013a80003a018780003e10fd00000000000000000000000000025400000000",
		v15:  "060e00700000000a000000000000000000000000000000000000000000000000ffffffffffffffffffffffff000000000001003c800005100000000000000001000000000000ffff80000a0286dd800014013a80003a018780003e10fd00000000000000000000000000025400000000",
		text: "priority=0,icmp6,metadata=0x1/0xffff,icmp_type=135,nd_target=fd00::254 actions=drop",
	},
	{
		name: "TCP flow",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 10, &FlowMod{Match: NewMatch(EthType(0x800), IPProto(6), IPv4Src(netip.MustParseAddr("10.0.0.4")), IPv4Dst(netip.MustParseAddr("10.0.0.5")), TCPSrc(99), TCPDst(53))})
		},
		v13:  "040e00600000000a000000000000000000000000000000000000000000000000ffffffffffffffffffffffff000000000001002b80000a0208008000140106800016040a000004800018040a00000580001a02006380001c0200350000000000",
		v15:  "060e00600000000a000000000000000000000000000000000000000000000000ffffffffffffffffffffffff000000000001002b80000a0208008000140106800016040a000004800018040a00000580001a02006380001c0200350000000000",
		text: "priority=0,tcp,nw_src=10.0.0.4,nw_dst=10.0.0.5,tp_src=99,tp_dst=53 actions=drop",
	},
	{
		name: "flow with every action",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 11, &FlowMod{Table: 1, Match: NewMatch(EthType(0x800), VLANID(1)), Actions: []Action{
				Controller2{ControllerID: 4242, UserData: []byte{1, 2, 3}, Meter: 7},
				Controller2{ControllerID: 1},
				Resubmit{Table: 200}, Resubmit{Table: 30, InPort: 5},
				SetVLAN{VID: 12}, PopVLAN{}, PushVLAN{},
				SetField{Reg(1, 9)}, SetField{RegMasked(0, 0x10, 0x30)}, SetField{EthDst([6]byte{1, 2, 3, 4, 5, 6})},
				Move{Src: Reg(14, 0), Dst: Metadata(0), SrcOfs: 3, DstOfs: 40, Bits: 5},
				CT{ZoneField: Reg(13, 0)}, CT{ZoneField: Reg(13, 0), ZoneOfs: 8}, CT{Zone: 77}, CT{Zone: 78, NAT: true},
				Output{Port: PortController}, Output{Port: 5}, Output{Port: PortInPort},
			}})
		},
		v13:  "040e01b80000000b000000000000000000000000000000000100000000000000ffffffffffffffffffffffff000000000001001080000a02080080000c0210010004017800000000ffff0028000023200025000000000000000100081092000000030007010203000005000800000007ffff00180000232000250000000000000001000800010000ffff001000002320000efff8c8000000ffff001000002320000e00051e0000000019001080000c02100c0000000000000012000800000000001100088100000000190010000102040000000900000000ffff0018000023200021000101080000001000000030000000190010800006060102030405060000ffff001800002320000600050003002800011c0480000408ffff0018000023200023000000011a04000fff0000000000ffff0018000023200023000000011a04020fff0000000000ffff0018000023200023000000000000004dff0000000000ffff0028000023200023000000000000004eff0000000000ffff001000002320002400000000000000000010fffffffdffff0000000000000000001000000005000000000000000000000010fffffff80000000000000000",
		v15:  "060e01b00000000b000000000000000000000000000000000100000000000000ffffffffffffffffffffffff000000000001001080000a02080080000c0210010004017000000000ffff0028000023200025000000000000000100081092000000030007010203000005000800000007ffff00180000232000250000000000000001000800010000ffff001000002320000efff8c8000000ffff001000002320000e00051e0000000019001080000c02100c00000000000000120008000000000011000881000000001900100001020400000009000000000019001000010108000000100000003000190010800006060102030405060000001c0018000500030028000000011c048000040800000000ffff0018000023200023000000011a04000fff0000000000ffff0018000023200023000000011a04020fff0000000000ffff0018000023200023000000000000004dff0000000000ffff0028000023200023000000000000004eff0000000000ffff001000002320002400000000000000000010fffffffdffff0000000000000000001000000005000000000000000000000010fffffff80000000000000000",
		text: "actions=controller(id=4242,userdata=01.02.03,meter_id=7),controller(id=1),resubmit(,200),resubmit(5,30),set_field:4108->vlan_vid,pop_vlan,push_vlan:0x8100,set_field:0x9->reg1,set_field:0x10/0x30->reg0,set_field:01:02:03:04:05:06->eth_dst,move:NXM_NX_REG14[3..7]->OXM_OF_METADATA[40..44],ct(zone=NXM_NX_REG13[0..15]),ct(zone=NXM_NX_REG13[8..23]),ct(zone=77),ct(zone=78,nat),CONTROLLER:65535,output:5,IN_PORT",
	},
	{
		name: "flow that learns",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 20, &FlowMod{
				Table: 203, Match: NewMatch(EthType(0x86dd), IPProto(6), TCPFlags(0, 2), Metadata(5), Reg(14, 3)),
				Actions: []Action{Learn{
					Table: 203, Priority: 5, IdleTimeout: 300, Cookie: 0x70646f0000000001, Limit: 100,
					Match: []Field{Metadata(5), Reg(14, 3), EthSrc([6]byte{2, 0, 0, 0, 0, 1}), EthType(0x86dd), IPProto(6), TCPFlags(0, 2)},
					Same:  []Field{IPv6Src(netip.IPv6Unspecified()), IPv6Dst(netip.IPv6Unspecified()), TCPSrc(0), TCPDst(0)},
					Set:   PktMarkMasked(1<<31, 1<<31),
				}},
			})
		},
		v13:  "040e01200000001400000000000000000000000000000000cb00000000000000ffffffffffffffffffffffff000000000001002b80000408000000000000000580000a0286dd8000140106800055040000000200011c04000000030000000000000400c000000000ffff00b800002320002d012c0000000570646f00000000010000cb000000000000000064000000002040000000000000000580000408000020200000000300011c0400002030020000000001800008060000201086dd80000a020000200800068000140100002001000080005402000100808000341000008000341000000080800036100000800036100000001080001a02000080001a020000001080001c02000080001c0200002801000100014204001f000000000000",
		v15:  "060e01200000001400000000000000000000000000000000cb00000000000000ffffffffffffffffffffffff000000000001002b80000408000000000000000580000a0286dd8000140106800055040000000200011c04000000030000000000000400c000000000ffff00b800002320002d012c0000000570646f00000000010000cb000000000000000064000000002040000000000000000580000408000020200000000300011c0400002030020000000001800008060000201086dd80000a020000200800068000140100002001000080005402000100808000341000008000341000000080800036100000800036100000001080001a02000080001a020000001080001c02000080001c0200002801000100014204001f000000000000",
		text: "tcp6,reg14=0x3,metadata=0x5,tcp_flags=-syn actions=learn(table=203,idle_timeout=300,priority=5,cookie=0x70646f0000000001,limit=100,metadata=0x5,reg14=0x3,eth_src=02:00:00:00:00:01,eth_type=0x86dd,nw_proto=6,NXM_NX_TCP_FLAGS[1]=0,NXM_NX_IPV6_SRC[],NXM_NX_IPV6_DST[],NXM_OF_TCP_SRC[],NXM_OF_TCP_DST[],load:0x1->NXM_NX_PKT_MARK[31])",
	},
	{
		name: "modify",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 12, &FlowMod{Command: ModifyStrict, Table: 200, Priority: 10, Cookie: 1, CookieMask: 3, HardTimeout: 15, Actions: []Action{Resubmit{Table: 30}}})
		},
		v13:  "040e00500000000c00000000000000010000000000000003c8020000000f000affffffffffffffffffffffff0000000000010004000000000004001800000000ffff001000002320000efff81e000000",
		v15:  "060e00500000000c00000000000000010000000000000003c8020000000f000affffffffffffffffffffffff0000000000010004000000000004001800000000ffff001000002320000efff81e000000",
		text: "MOD_STRICT table:200 priority=10 cookie:0x1/0x3 hard:15 actions=resubmit(,30)",
	},
	{
		name: "delete",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendFlowMod(b, v, 13, &FlowMod{Command: Delete, Table: TableAll, Cookie: 1, CookieMask: ^uint64(0)})
		},
		v13:  "040e00380000000d0000000000000001ffffffffffffffffff03000000000000ffffffffffffffffffffffff000000000001000400000000",
		v15:  "060e00380000000d0000000000000001ffffffffffffffffff03000000000000ffffffffffffffffffffffff000000000001000400000000",
		text: "DEL table:255 priority=0 cookie:0x1/0xffffffffffffffff actions=drop",
	},
	{
		name: "packet-out",
		encode: func(b []byte, v Version) ([]byte, error) {
			return AppendPacketOut(b, v, 14, 5, Output{Port: PortInPort}.append(nil, v), []byte("\x01\x02\x03\x04\x05\x06\x06\x05\x04\x03\x02\x01\x12\x34ab"))
		},
		v13:  "040d00380000000effffffff00000005001000000000000000000010fffffff8000000000000000001020304050606050403020112346162",
		v15:  "060d00400000000effffffff001000000001000c80000004000000050000000000000010fffffff8000000000000000001020304050606050403020112346162",
		text: "in_port=5 actions=IN_PORT data_len=16",
	},
	{
		name: "meter",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendMeterMod(b, v, 15, &MeterMod{ID: 7, Rate: 100, Burst: 20})
		},
		v13:  "041d00200000000f000000060000000700010010000000640000001400000000",
		v15:  "061d00200000000f000000060000000700010010000000640000001400000000",
		text: "ADD meter=7 pktps burst bands=\ntype=drop rate=100 burst_size=20",
	},
	{
		name: "meter without burst",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendMeterMod(b, v, 15, &MeterMod{Command: Modify, ID: 7, Rate: 100})
		},
		v13:  "041d00200000000f000100020000000700010010000000640000000000000000",
		v15:  "061d00200000000f000100020000000700010010000000640000000000000000",
		text: "MOD meter=7 pktps bands=\ntype=drop rate=100",
	},
	{
		name: "meter delete",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendMeterMod(b, v, 15, &MeterMod{Command: Delete, ID: meterAll})
		},
		v13:  "041d00100000000f00020002ffffffff",
		v15:  "061d00100000000f00020002ffffffff",
		text: "DEL meter=all",
	},
	{
		name:   "bundle open",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendBundleControl(b, v, 16, 3, bundleOpen)) },
		v13:    "04040018000000104f4e4600000008fc0000000300000003",
		v15:    "06210010000000100000000300000003",
		text:   "bundle_id=0x3 type=OPEN_REQUEST flags=atomic ordered",
	},
	{
		name:   "bundle commit",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendBundleControl(b, v, 16, 3, bundleCommit)) },
		v13:    "04040018000000104f4e4600000008fc0000000300040003",
		v15:    "06210010000000100000000300040003",
		text:   "bundle_id=0x3 type=COMMIT_REQUEST flags=atomic ordered",
	},
	{
		name: "bundle discard",
		encode: func(b []byte, v Version) ([]byte, error) {
			return sure(appendBundleControl(b, v, 16, 3, bundleDiscard))
		},
		v13:  "04040018000000104f4e4600000008fc0000000300060003",
		v15:  "06210010000000100000000300060003",
		text: "bundle_id=0x3 type=DISCARD_REQUEST flags=atomic ordered",
	},
	{
		name: "bundle add",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendBundleAdd(b, v, 17, 3, &FlowMod{Table: 1, Match: NewMatch(Reg(14, 3))})
		},
		v13:  "04040058000000114f4e4600000008fd0000000300000003040e004000000011000000000000000000000000000000000100000000000000ffffffffffffffffffffffff000000000001000c00011c040000000300000000",
		v15:  "06220050000000110000000300000003060e004000000011000000000000000000000000000000000100000000000000ffffffffffffffffffffffff000000000001000c00011c040000000300000000",
		text: "bundle_id=0x3 flags=atomic ordered\nOFPT_FLOW_MOD",
	},
	{
		name: "flow statistics request",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendFlowStatsRequest(b, v, 18, &FlowStatsRequest{Table: TableAll, Cookie: 1, CookieMask: 3, Match: NewMatch(Reg(14, 3))})
		},
		v13:  "04120040000000120001000000000000ff000000ffffffffffffffff00000000000000000000000100000000000000030001000c00011c040000000300000000",
		v15:  "06120040000000120001000000000000ff000000ffffffffffffffff00000000000000000000000100000000000000030001000c00011c040000000300000000",
		text: "OFPST_FLOW request",
	},
	{
		name:   "port description request",
		encode: func(b []byte, v Version) ([]byte, error) { return appendPortDescRequest(b, v, 19) },
		v13:    "0412001000000013000d000000000000",
		v15:    "0612001800000013000d000000000000ffffffff00000000",
		text:   "OFPST_PORT_DESC request",
	},
	{
		name: "meter configuration request",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendMeterRequest(b, v, 21, multipartMeterConfig)
		},
		v13:  "0412001800000015000a000000000000ffffffff00000000",
		v15:  "0612001800000015000a000000000000ffffffff00000000",
		text: "OFPST_METER_CONFIG request",
	},
	{
		name: "meter statistics request",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendMeterRequest(b, v, 22, multipartMeterStats)
		},
		v13:  "04120018000000160009000000000000ffffffff00000000",
		v15:  "06120018000000160009000000000000ffffffff00000000",
		text: "OFPST_METER request",
	},
	{
		name: "meter features request",
		encode: func(b []byte, v Version) ([]byte, error) {
			return appendMeterRequest(b, v, 23, multipartMeterFeatures)
		},
		v13:  "0412001000000017000b000000000000",
		v15:  "0612001000000017000b000000000000",
		text: "OFPST_METER_FEATURES request",
	},
	{
		name:   "flow monitor",
		encode: func(b []byte, v Version) ([]byte, error) { return sure(appendFlowMonitor(b, v, 20, 1, 29)) },
		v13:    "0412003000000014ffff0000000000004f4e46000000074e00000001000f0004ffffffff1d0000000001000400000000",
		v15:    "0612002800000014001000000000000000000001ffffffffffffffff000f1d000001000400000000",
		text:   "id=1 flags=initial,add,delete,modify table=29",
	},
}

func TestEncode(t *testing.T) {
	for _, test := range encodings {
		for v, want := range map[Version]string{V13: test.v13, V15: test.v15} {
			t.Run(test.name+" in "+v.String(), func(t *testing.T) {
				prefix := []byte("what was there")
				b, err := test.encode(prefix, v)
				if err != nil {
					t.Fatal(err)
				}
				if string(b[:len(prefix)]) != string(prefix) {
					t.Error("bytes before the message have changed")
				}
				b = b[len(prefix):]
				if got := hex.EncodeToString(b); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if h, err := parseHeader(b); err != nil || h.length != len(b) {
					t.Errorf("header %+v of %d bytes: %v", h, len(b), err)
				}
			})
		}
	}
}

// TestEncodeReadBySwitch asks Open vSwitch what the vectors mean.
func TestEncodeReadBySwitch(t *testing.T) {
	if _, err := exec.LookPath("ovs-ofctl"); err != nil {
		lab.Lack(t, "no ovs-ofctl: %v", err)
	}
	for _, test := range encodings {
		for v, vector := range map[Version]string{V13: test.v13, V15: test.v15} {
			t.Run(test.name+" in "+v.String(), func(t *testing.T) {
				out, err := exec.Command("ovs-ofctl", "ofp-print", vector, "2").CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if !strings.Contains(string(out), test.text) {
					t.Errorf("%s\ndoes not have %q", out, test.text)
				}
			})
		}
	}
}
