// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Messages that Open vSwitch 3.1.0 has sent.
const (
	sentPunt13      = "040400a800000000000023200000001e000000400a00000000010a000000000208004500002000010000401166c60a0000040a00000530390035000c000074657374000000000000000000000000000000030005c9000000000400100000000070756e740000000100050005000000000006003080000004fffffffd000118040000000800011a040000000900011c04000000038000040800000000000000050007000777686f00"
	sentPunt15      = "060400b000000000000023200000001e000000400a00000000010a000000000208004500002000010000401166c60a0000040a00000530390035000c000074657374000000000000000000000000000000030005c9000000000400100000000070756e740000000100050005000000000006003880000004fffffffd80010c08000000080000000980010f100000000300000000ffffffff000000008000040800000000000000050007000777686f00"
	sentAdded13     = "0413006800000000ffff0000000000004f4e46000000074e00500000000000c80000000900311d0000000000000000660001003180000a02080080001804a9fea9fe800014011180002002003500011c040000000380000408000000000000000500000000000000"
	sentAdded15     = "06130068000000000010000000000000005800011d000000000900c80000000000000000000000660001003d80000a02080080001804a9fea9fe800014011180002002003580010f100000000300000000ffffffff00000000800004080000000000000005000000"
	sentRemoved13   = "0413006800000000ffff0000000000004f4e46000000074e00500001000200c80000000900311d0000000000000000660001003180000a02080080001804a9fea9fe800014011180002002003500011c040000000380000408000000000000000500000000000000"
	sentRemoved15   = "06130068000000000010000000000000005800021d020000000900c80000000000000000000000660001003d80000a02080080001804a9fea9fe800014011180002002003580010f100000000300000000ffffffff00000000800004080000000000000005000000"
	sentOwn13       = "0413002000000000ffff0000000000004f4e46000000074e0008000300000014"
	sentOwn15       = "061300180000000000100000000000000008000400000014"
	sentInitial13   = "041300380000001fffff0000000000004f4e46000000074e00200000000000000000000000041d0000000000000000000001000400000000"
	sentInitial15   = "061300300000001f0010000000000000002000001d000000000000000000000000000000000000000001000400000000"
	sentFlowStats13 = "0413012000000018000100000000000000381d00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000010004000000000078c8000000000001d905c0000a0000000f00000000000070756e74000000010000000000000001000000000000003c00010004000000000004004000000000ffff002800002320002500000000000000010008109200000003000777686f000004000400000000ffff001000002320000efff81e0000000060c9000000000001d905c000000000000000000000000070756e74000000010000000000000001000000000000003c00010004000000000004002800000000ffff002000002320002500000000000000010008109200000003000777686f00"
	sentFlowStats15 = "06130180000000180001000000000000005800001d000000000000000000000000000000000000000001000400000000000000348002000800000000000f424080020208000000000000000080020808000000000000000080020a0800000000000000000000000000980000c800000a0000000f0000000070756e74000000010001000400000000000000348002000800000000018cba8080020208000000000000000080020808000000000000000180020a08000000000000003c000000000004004000000000ffff002800002320002500000000000000010008109200000003000777686f000004000400000000ffff001000002320000efff81e00000000800000c9000000000000000000000070756e74000000010001000400000000000000348002000800000000018cba8080020208000000000000000080020808000000000000000180020a08000000000000003c000000000004002800000000ffff002000002320002500000000000000010008109200000003000777686f00"
	sentPorts13     = "0413005000000019000d000000000000fffffffe0000000002938c9b35440000636134000000000000000000000000000000000100000001000008400000000000000000000000000098968000000000"
	sentPorts15     = "0613005800000019000d000000000000fffffffe004800005e83537f084e00006361360000000000000000000000000000000001000000010000002000000000000008400000000000000000000000000098968000000000"
	sentError13     = "040100640000001b00040009040400580000001b4f4e4600000008fd0000001a00000003040e00400000001b000000000000000000000000000000001d00000000000000ffffffffffffffffffffffff000000000001000a800020020035000000000000"
	sentError15     = "0601005c0000001b00040009062200500000001b0000001a00000003060e00400000001b000000000000000000000000000000001d00000000000000ffffffffffffffffffffffff000000000001000a800020020035000000000000"
	sentFeatures13  = "0406002000000002000002938c9b354400000000fe0000000000004f00000000"
	sentFeatures15  = "060600200000000200005e83537f084e00000000fe0000000000024f00000000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var dnsFrame = "0a00000000010a000000000208004500002000010000401166c60a0000040a00000530390035000c0000746573740000000000000000000000000000"

func TestPacketInDecode(t *testing.T) {
	common := PacketIn{
		Data: unhex(t, dnsFrame), FullLen: 60, InPort: PortController, Metadata: 5, UserData: []byte("who"),
		Regs: [16]uint32{12: 8, 13: 9, 14: 3},
	}
	punt := common
	punt.Table, punt.Cookie = 201, 0x70756e7400000001
	tests := []struct {
		name, msg string
		want      PacketIn
	}{
		{"1.3", sentPunt13, punt},
		{"1.5", sentPunt15, punt},
		{
			// All that OVS may send beside: a cut packet, a tunnel, both wide
			// notations of registers, a field and a property unknown to us.
			"wide registers and unknown parts",
			"0604008000000000 00002320 0000001e" +
				"00000006abcd0000 0001000800000040" +
				"0006004c 80004c0800000000000000aa 0001df2000000001000000020000000300000004 ffffffffffffffff00000000ffffffff" +
				"80010e080000000e0000000f ffff02080000232011223344 00000000" +
				"7777000501000000 0003000507000000",
			PacketIn{
				Data: []byte{0xab, 0xcd}, FullLen: 64, Table: 7,
				Regs: [16]uint32{0: 1, 1: 2, 3: 4, 14: 14, 15: 15},
			},
		},
		// What OVN's load balancer has rewritten.
		{
			"tracked, IPv4",
			"0604007000000000000023200000001e00000006abcd00000006005780000004000000010001d204000000a10001d40200030001d604000000020001f0040a00000b0001f2040a6000640001ee01110001f802e0350001fa02003500011c040000000280000408000000000000000100",
			PacketIn{
				Data: []byte{0xab, 0xcd}, FullLen: 2, Metadata: 1, InPort: 1, Regs: [16]uint32{14: 2},
				CT: CTTuple{State: CTTracked | CTNew | CTDstNAT, Proto: 17, Dst: netip.AddrFrom4([4]byte{10, 96, 0, 100}), Port: 53},
			},
		},
		{
			"tracked, IPv6",
			"0604007800000000000023200000001e00000006abcd00000006005b80000004000000010001d204000000a10001f410fd00001000000000000000000000000b0001f610fd0000960000000000000000000001000001ee01060001fa02003500011c04000000028000040800000000000000010000000000",
			PacketIn{
				Data: []byte{0xab, 0xcd}, FullLen: 2, Metadata: 1, InPort: 1, Regs: [16]uint32{14: 2},
				CT: CTTuple{State: CTTracked | CTNew | CTDstNAT, Proto: 6, Dst: netip.MustParseAddr("fd00:96::100"), Port: 53},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := PacketIn{Table: 99, UserData: []byte("what was there")}
			msg := unhex(t, test.msg)
			if err := got.Decode(msg); err != nil {
				t.Fatal(err)
			}
			got.Own()
			clear(msg) // the next message is read into it
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("packet-in (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPacketInDecodeRefuses(t *testing.T) {
	start := "00002320 0000001e"
	tests := []struct{ name, msg string }{
		{"empty", ""},
		{"header with a length of 7", "0604000700000000"},
		{"another experimenter", "0604001800000000 00002321 0000001e 00000005ff000000"},
		{"another subtype", "0604001800000000 00002320 0000001d 00000005ff000000"},
		{"longer than its length", "0604001000000000" + start + "00000005ff000000"},
		{"shorter than its length", "0604002000000000" + start + "00000005ff000000"},
		{"no packet", "0604001800000000" + start + "0003000507000000"},
		{"no properties", "0604001000000000" + start},
		{"empty packet", "0604001800000000" + start + "0000000400000000"},
		{"half a property header", "0604001200000000" + start + "0000"},
		{"property without length", "0604001800000000" + start + "0000000000000000"},
		{"property beyond the end", "0604001800000000" + start + "0000000900000000"},
		{"table of two bytes", "0604001800000000" + start + "0003000607070000"},
		{"cookie of four bytes", "0604001800000000" + start + "0004000807070707"},
		{"full length of two bytes", "0604001800000000" + start + "0001000607070000"},
		{"reason of no bytes", "0604001800000000" + start + "0005000400000000"},
		{"half a field header", "0604001800000000" + start + "0006000680000000"},
		{"field beyond the end", "0604001800000000" + start + "0006000880000004"},
		{"masked field of three bytes", "0604002000000000" + start + "0006000b 80000103 010203 0000000000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var p PacketIn
			if err := p.Decode(unhex(t, test.msg)); !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v, want ErrMalformed", err)
			}
		})
	}
}

// A resume is a packet-out with what the pipeline had set.
func TestAppendResume(t *testing.T) {
	p := PacketIn{Data: []byte{0xab, 0xcd}, InPort: 5, Metadata: 6, PktMark: 7, Regs: [16]uint32{0: 8, 15: 9}}
	for _, v := range []Version{V13, V15} {
		t.Run(v.String(), func(t *testing.T) {
			actions := AppendActions(nil, v, SetField{Metadata(6)}, SetField{PktMark(7)}, SetField{Reg(0, 8)}, SetField{Reg(15, 9)}, Resubmit{Table: 30})
			want, err := AppendPacketOut(nil, v, 77, 5, actions, p.Data)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := p.AppendResume([]byte("ab"), v, 77, 30); err != nil || string(got) != "ab"+string(want) {
				t.Errorf("got  % x, %v\nwant 61 62 % x", got, err, want)
			}
			p := p
			p.Data = make([]byte, maxMessage)
			if b, err := p.AppendResume([]byte("ab"), v, 77, 30); !errors.Is(err, ErrTooLong) || string(b) != "ab" {
				t.Errorf("a frame that is too long: %d bytes, %v", len(b), err)
			}
		})
	}
}

var sentMatch = NewMatch(EthType(0x800), IPv4Dst(netip.MustParseAddr("169.254.169.254")), IPProto(17), UDPDst(53), Reg(14, 3), Metadata(5))

var matchComparer = cmp.Comparer(func(a, b Match) bool { return a == b })

func TestFlowUpdateDecode(t *testing.T) {
	tests := []struct {
		name, v13, v15 string
		want           FlowUpdate
	}{
		{"added", sentAdded13, sentAdded15, FlowUpdate{Event: FlowAdded, Table: 29, Priority: 200, HardTimeout: 9, Cookie: 0x66, Match: sentMatch}},
		{"removed", sentRemoved13, sentRemoved15, FlowUpdate{Event: FlowRemoved, Reason: 2, Table: 29, Priority: 200, HardTimeout: 9, Cookie: 0x66, Match: sentMatch}},
		{"own", sentOwn13, sentOwn15, FlowUpdate{Event: FlowOwn, XID: 0x14}},
	}
	for _, test := range tests {
		for v, msg := range map[Version]string{V13: test.v13, V15: test.v15} {
			t.Run(test.name+" in "+v.String(), func(t *testing.T) {
				typ, body, more, err := multipartBody(unhex(t, msg))
				if err != nil || more {
					t.Fatalf("more %v, error %v", more, err)
				}
				updates, ok := monitorBody(v, typ, body)
				if !ok {
					t.Fatal("not taken for a flow monitor's")
				}
				var got []FlowUpdate
				if err := decodeFlowUpdates(updates, v, func(u FlowUpdate) { got = append(got, u) }); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]FlowUpdate{test.want}, got, matchComparer); diff != "" {
					t.Errorf("updates (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestFlowUpdatePauses(t *testing.T) {
	var got []FlowEvent
	// Paused, an event of the future, resumed.
	body := unhex(t, "0008000500000000 0010006300000000ffffffffffffffff 0008000600000000")
	if err := decodeFlowUpdates(body, V15, func(u FlowUpdate) { got = append(got, u.Event) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]FlowEvent{FlowPaused, FlowResumed}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// 1.3 has messages for pauses, and no events beyond 3.
	got = nil
	if err := decodeFlowUpdates(unhex(t, "0008000400000000 0008ffff00000000"), V13, func(u FlowUpdate) { got = append(got, u.Event) }); err != nil || len(got) > 0 {
		t.Errorf("events %v, error %v", got, err)
	}
}

func TestFlowStatsDecode(t *testing.T) {
	for v, test := range map[Version]struct {
		msg                 string
		duration0, duration time.Duration
		idle                time.Duration
	}{
		V13: {sentFlowStats13, 0, 31 * time.Millisecond, -1},
		V15: {sentFlowStats15, time.Millisecond, 26 * time.Millisecond, 0},
	} {
		t.Run(v.String(), func(t *testing.T) {
			_, body, _, err := multipartBody(unhex(t, test.msg))
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeFlowStats(body, v)
			if err != nil {
				t.Fatal(err)
			}
			controller := "ffff%s00002320002500000000000000010008" + "1092" + "00000003000777686f00"
			want := []FlowStats{
				{Table: 29, Duration: test.duration0, Idle: test.idle, Instructions: []byte{}},
				{
					Table: 200, Priority: 10, Cookie: 0x70756e7400000001, HardTimeout: 15, Duration: test.duration, Idle: test.idle, Packets: 1, Bytes: 60,
					Instructions: unhex(t, "0004004000000000"+strings.Replace(controller, "%s", "0028", 1)+"0004000400000000"+"ffff001000002320000efff81e000000"),
				},
				{
					Table: 201, Cookie: 0x70756e7400000001, Duration: test.duration, Idle: test.idle, Packets: 1, Bytes: 60,
					Instructions: unhex(t, "0004002800000000"+strings.Replace(controller, "%s", "0020", 1)),
				},
			}
			if diff := cmp.Diff(want, got, matchComparer); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPortsDecode(t *testing.T) {
	for v, test := range map[Version]struct {
		msg  string
		want Port
	}{
		V13: {sentPorts13, Port{PortLocal, [6]byte{0x02, 0x93, 0x8c, 0x9b, 0x35, 0x44}, "ca4", 1}},
		V15: {sentPorts15, Port{PortLocal, [6]byte{0x5e, 0x83, 0x53, 0x7f, 0x08, 0x4e}, "ca6", 1}},
	} {
		_, body, _, err := multipartBody(unhex(t, test.msg))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodePorts(body, v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Port{test.want}, got); diff != "" {
			t.Errorf("%v: ports (-want +got):\n%s", v, diff)
		}
	}
}

func TestMetersDecode(t *testing.T) {
	configs, err := decodeMeterConfigs(unhex(t, "0018000600000007 0001001000000064 0000001400000000"+"0008000200000008"))
	if want := []MeterConfig{{ID: 7, Rate: 100, Burst: 20}, {ID: 8}}; err != nil || !slices.Equal(configs, want) {
		t.Errorf("configurations %v, %v, want %v", configs, err, want)
	}
	stats, err := decodeMeterStats(unhex(t, "0000000700480000 0000000000000001"+"000000000000001e 0000000000000708"+"0000000200000003"+
		"000000000000000a 0000000000000258"+"0000000000000001 000000000000003c"))
	if want := []MeterStats{{ID: 7, Packets: 30, Dropped: 11}}; err != nil || !slices.Equal(stats, want) {
		t.Errorf("statistics %v, %v, want %v", stats, err, want)
	}
	most, err := decodeMaxMeter(unhex(t, "0003ffff 00000002 0000000f 01000000"))
	if err != nil || most != 0x3ffff {
		t.Errorf("highest meter %#x, %v", most, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	updates := func(v Version) func([]byte) error {
		return func(b []byte) error { return decodeFlowUpdates(b, v, func(FlowUpdate) {}) }
	}
	stats := func(v Version) func([]byte) error {
		return func(b []byte) error { _, err := decodeFlowStats(b, v); return err }
	}
	ports := func(v Version) func([]byte) error {
		return func(b []byte) error { _, err := decodePorts(b, v); return err }
	}
	configs := func(b []byte) error { _, err := decodeMeterConfigs(b); return err }
	meters := func(b []byte) error { _, err := decodeMeterStats(b); return err }
	most := func(b []byte) error { _, err := decodeMaxMeter(b); return err }
	match := func(b []byte) error { _, _, err := decodeMatch(b); return err }
	hello := func(b []byte) error { _, err := decodeHello(b); return err }
	swerr := func(b []byte) error { _, err := decodeError(b); return err }
	tests := []struct {
		name   string
		decode func([]byte) error
		b      string
	}{
		{"update of 3 bytes", updates(V15), "000300"},
		{"update of length 0", updates(V15), "0000000100000000"},
		{"update beyond the end", updates(V13), "0010000100000000"},
		{"update without a match", updates(V15), "0018000100000000 0000000000000000 0000000000000000"},
		{"full update that is too short", updates(V13), "0010000100000000 0000000000000000"},
		{"flow of 1 byte", stats(V15), "00"},
		{"flow of length 0", stats(V13), "00000000"},
		{"flow beyond the end", stats(V15), "00190000000000000000000000000000 0000000000000000"},
		{"flow without statistics", stats(V15), "00200000000000000000000000000000 0000000000000000 0001000400000000"},
		{"flow with statistics beyond the end", stats(V15), "00280000000000000000000000000000 0000000000000000 0001000400000000 0000001080020008"},
		{"flow with a statistic beyond the end", stats(V15), "00280000000000000000000000000000 0000000000000000 0001000400000000 0000000880020008"},
		{"1.3 flow that is too short", stats(V13), "00180000000000000000000000000000 0000000000000000"},
		{"port of 39 bytes", ports(V15), "fffffffe0027" + strings.Repeat("00", 33)},
		{"port beyond the end", ports(V13), strings.Repeat("00", 63)},
		{"port of 3 bytes", ports(V15), "000000"},
		{"meter configuration of 4 bytes", configs, "00080006"},
		{"meter configuration of length 0", configs, "0000000600000007"},
		{"meter configuration beyond the end", configs, "0018000600000007"},
		{"meter statistics of 8 bytes", meters, "0000000700280000"},
		{"meter statistics of length 0", meters, "0000000700000000" + strings.Repeat("00", 32)},
		{"meter statistics beyond the end", meters, "0000000700380000" + strings.Repeat("00", 32)},
		{"meter features of 12 bytes", most, strings.Repeat("00", 12)},
		{"match of 3 bytes", match, "000100"},
		{"match of length 3", match, "0001000300000000"},
		{"match of another type", match, "0000000400000000"},
		{"match without its padding", match, "00010004"},
		{"match with a field beyond the end", match, "0001000c 80000008 00000000 00000000"},
		{"match with half a field header", match, "0001000680000000"},
		{"match with an experimenter field without experimenter", match, "0001000a ffff0002 0000 000000000000"},
		{"hello of 4 bytes", hello, "06000004"},
		{"hello with an element of length 0", hello, "060000100000000100010000000000b0"},
		{"error of 11 bytes", swerr, "0601000b00000001000100"},
		{"experimenter error without experimenter", swerr, "0601000e00000001ffff00230000"},
		{"Nicira error of 1.0 without its type", swerr, "0101001000000000b0c2000000002320"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := test.decode(unhex(t, test.b)); !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v, want ErrMalformed", err)
			}
		})
	}
}

func TestSwitchError(t *testing.T) {
	tests := []struct {
		name, msg string
		want      string
		xid       uint32
	}{
		{"1.3", sentError13, "switch refused BUNDLE_ADD_MESSAGE: OFPBMC_BAD_PREREQ", 0x1b},
		{"1.5", sentError15, "switch refused BUNDLE_ADD_MESSAGE: OFPBMC_BAD_PREREQ", 0x1b},
		{"1.3 bundle", "0401001000000007 ffff0909 4f4e4600", "switch refused unknown request: OFPBFC_MSG_FAILED", 7},
		{"hello", "0101001600000000 00000000 6e6f2076657273696f6e", "switch refused: OFPHFC_INCOMPATIBLE (\"no version\")", 0},
		{"flow monitor in 1.0", "0101001c00000000 b0c20000 00002320 00010205 0100000800000000", "switch refused HELLO: OFPMOFC_MONITOR_EXISTS", 0},
		{"flow mod failure of 1.0", "0101000c00000009 00030001", "switch refused unknown request: type 3, code 1", 9},
		{"unknown", "0601000c00000009 00630001", "switch refused unknown request: type 99, code 1", 9},
		{"unknown experimenter", "0601001000000009 ffff0001 00001234", "switch refused unknown request: experimenter 0x1234, type 0xffff, code 1", 9},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, err := decodeError(unhex(t, test.msg))
			if err != nil {
				t.Fatal(err)
			}
			if e.Error() != test.want || e.XID != test.xid {
				t.Errorf("%q with xid %d, want %q with %d", e.Error(), e.XID, test.want, test.xid)
			}
		})
	}
}

func TestNegotiate(t *testing.T) {
	both := []Version{V15, V13}
	tests := []struct {
		name, hello string
		ours        []Version
		want        Version // 0 for an error
	}{
		{"bitmap", "06000010000000010001000800000070", both, V15},
		{"bitmap without 1.5", "05000010000000010001000800000030", both, V13},
		{"bitmap, we want 1.3", "06000010000000010001000800000070", []Version{V13}, V13},
		{"bitmap behind an unknown element", "0600001800000001 0002000500000000 0001000800000010", both, V13},
		{"no bitmap, 1.5", "0600000800000001", both, V15},
		{"no bitmap, 1.4", "0500000800000001", both, V13},
		{"no bitmap, 1.0", "0100000800000001", both, 0},
		{"no bitmap, 255", "ff00000800000001", both, V15},
		{"bitmap without a common version", "06000010000000010001000800000002", both, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			theirs, err := decodeHello(unhex(t, test.hello))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := negotiate(test.ours, theirs); got != test.want || (err != nil) != (test.want == 0) {
				t.Errorf("%v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestFeatures(t *testing.T) {
	for msg, want := range map[string]uint64{sentFeatures13: 0x02938c9b3544, sentFeatures15: 0x5e83537f084e} {
		if got, err := decodeFeatures(unhex(t, msg)); got != want || err != nil {
			t.Errorf("datapath id %#x, %v; want %#x", got, err, want)
		}
	}
}
