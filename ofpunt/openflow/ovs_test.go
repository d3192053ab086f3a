// SPDX-License-Identifier: Apache-2.0

package openflow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

const (
	testID     = 4242
	testCookie = 0x7075_6e74_0000_0001
)

// eachVersion runs a test on a bridge of its own in both versions.
func eachVersion(t *testing.T, name string, test func(t *testing.T, o *ovs, bridge string, opts openflow.Options)) {
	for _, v := range []openflow.Version{openflow.V13, openflow.V15} {
		t.Run(v.String(), func(t *testing.T) {
			o := realSwitch(t)
			bridge := fmt.Sprintf("%s%d", name, v)
			o.bridge(t, bridge)
			test(t, o, bridge, openflow.Options{ControllerID: testID, Versions: []openflow.Version{v}})
		})
	}
}

func TestHandshakeWithSwitch(t *testing.T) {
	eachVersion(t, "hs", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		// The fragment mode belongs to the bridge and must stay as it is.
		o.ofctl(t, bridge, "set-frags", "nx-match")
		c := o.connect(t, bridge, opts, openflow.Handler{})
		if got, want := c.Version(), opts.Versions[0]; got != want {
			t.Errorf("version %v, want %v", got, want)
		}
		mustContain(t, o.ofctl(t, bridge, "show"), fmt.Sprintf("dpid:%016x", c.DatapathID()))
		mustContain(t, o.ofctl(t, bridge, "get-frags"), "nx-match")
		if err := c.Barrier(short(t)); err != nil {
			t.Error(err)
		}
		ports, err := c.PortDescs(short(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(ports) != 1 || ports[0].Name != bridge || ports[0].Number != openflow.PortLocal {
			t.Errorf("ports %+v, want the local one only", ports)
		}
	})
}

func TestHandshakeWithoutCommonVersion(t *testing.T) {
	o := realSwitch(t)
	o.bridge(t, "hsno")
	o.vsctl(t, "set", "bridge", "hsno", "protocols=OpenFlow13")
	nc, err := net.Dial("unix", o.path("hsno.mgmt"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = openflow.NewConn(t.Context(), nc, openflow.Options{Versions: []openflow.Version{openflow.V15}})
	if err == nil {
		t.Fatal("a handshake without a common version succeeded")
	}
	mustContain(t, err.Error(), "no common OpenFlow version")
}

var udp53 = openflow.NewMatch(
	openflow.UDPDst(53), openflow.IPProto(17), openflow.EthType(0x800),
	openflow.Metadata(5), openflow.Reg(14, 3), openflow.IPv4Dst(netip.MustParseAddr("169.254.169.254")),
)

func TestApply(t *testing.T) {
	eachVersion(t, "ap", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		c := o.connect(t, bridge, opts, openflow.Handler{})
		mods := []openflow.FlowMod{
			{Table: 29, Priority: 200, Cookie: testCookie, Match: udp53, Actions: []openflow.Action{openflow.Resubmit{Table: 200}}},
			{Table: 200, Priority: 10, Cookie: testCookie, HardTimeout: 15, Flags: openflow.ResetCounts, Actions: []openflow.Action{
				openflow.Controller2{ControllerID: testID, UserData: []byte("dns"), Meter: 7},
				openflow.Resubmit{Table: 30},
			}},
			{Table: 201, Priority: 3, Cookie: testCookie, Match: openflow.NewMatch(openflow.RegMasked(10, 0x20, 0x30), openflow.VLANID(7)), Actions: []openflow.Action{
				openflow.PopVLAN{}, openflow.PushVLAN{}, openflow.SetVLAN{VID: 12},
				openflow.SetField{Field: openflow.RegMasked(0, 0x10, 0x30)},
				openflow.SetField{Field: openflow.Reg(1, 9)},
				openflow.Move{Src: openflow.Reg(14, 0), Dst: openflow.Reg(2, 0), SrcOfs: 3, DstOfs: 1, Bits: 5},
				openflow.Output{Port: openflow.PortInPort},
			}},
			{Table: 202, Priority: 1, Cookie: testCookie, Match: openflow.NewMatch(openflow.EthType(0x800)), Actions: []openflow.Action{
				openflow.CT{ZoneField: openflow.Reg(13, 0)},
				openflow.CT{Zone: 77, NAT: true},
				openflow.Move{Src: openflow.IPv4Dst(netip.IPv4Unspecified()), Dst: openflow.IPv4Dst(netip.IPv4Unspecified()), Bits: 32},
				openflow.Note{Text: "pypi.org."},
				openflow.Learn{
					Table: 9, Priority: 5, IdleTimeout: 300, Cookie: testCookie + 1, Limit: 7, Match: []openflow.Field{openflow.EthType(0x800), openflow.Reg(14, 3)},
					Same: []openflow.Field{openflow.IPv4Src(netip.IPv4Unspecified())}, Set: openflow.PktMarkMasked(1<<31, 1<<31),
				},
			}},
			{Table: 203},
		}
		if err := c.Apply(short(t), mods); err != nil {
			t.Fatal(err)
		}
		// ovs-ofctl sorts the flows of a bridge by table.
		want := []string{
			"cookie=0x70756e7400000001, table=29, priority=200,udp,reg14=0x3,metadata=0x5,nw_dst=169.254.169.254,tp_dst=53 actions=resubmit(,200)",
			"cookie=0x70756e7400000001, table=200, hard_timeout=15, reset_counts priority=10 actions=controller(id=4242,userdata=64.6e.73,meter_id=7),resubmit(,30)",
			"cookie=0x70756e7400000001, table=201, priority=3,reg10=0x20/0x30,dl_vlan=7 actions=pop_vlan,push_vlan:0x8100,set_field:4108->vlan_vid,set_field:0x10/0x30->reg0,set_field:0x9->reg1,move:NXM_NX_REG14[3..7]->NXM_NX_REG2[1..5],IN_PORT",
			"cookie=0x70756e7400000001, table=202, priority=1,ip actions=ct(zone=NXM_NX_REG13[0..15]),ct(zone=77,nat),move:NXM_OF_IP_DST[]->NXM_OF_IP_DST[],note:70.79.70.69.2e.6f.72.67.2e.00.00.00.00.00,learn(table=9,idle_timeout=300,priority=5,cookie=0x70756e7400000002,limit=7,eth_type=0x800,reg14=0x3,NXM_OF_IP_SRC[],load:0x1->NXM_NX_PKT_MARK[31])",
			"table=203, priority=0 actions=drop",
		}
		var got []string
		for line := range strings.Lines(o.flows(t, bridge)) {
			if line = strings.TrimSpace(line); strings.Contains(line, "actions=") {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("flows (-want +got):\n%s", diff)
		}

		stats, err := c.FlowStats(short(t), openflow.FlowStatsRequest{Table: openflow.TableAll, Cookie: testCookie, CookieMask: ^uint64(0)})
		if err != nil {
			t.Fatal(err)
		}
		byTable := map[uint8]openflow.FlowStats{}
		for _, s := range stats {
			byTable[s.Table] = s
		}
		if len(stats) != 4 || len(byTable) != 4 {
			t.Errorf("%d flows with the cookie, want 4", len(stats))
		}
		for _, m := range mods[:4] {
			s := byTable[m.Table]
			if s.Match != m.Match || s.Priority != m.Priority || s.Cookie != m.Cookie || s.HardTimeout != m.HardTimeout || len(s.Instructions) == 0 {
				t.Errorf("statistics %+v of %v (match %v)", s, m, s.Match)
			}
		}
		one, err := c.FlowStats(short(t), openflow.FlowStatsRequest{Table: 29, Match: openflow.NewMatch(openflow.Reg(14, 3))})
		if err != nil {
			t.Fatal(err)
		}
		if len(one) != 1 || one[0].Match != udp53 {
			t.Errorf("%+v by table and match, want one flow", one)
		}

		if err := c.Apply(short(t), []openflow.FlowMod{{Command: openflow.Delete, Table: openflow.TableAll, Cookie: testCookie, CookieMask: ^uint64(0)}}); err != nil {
			t.Fatal(err)
		}
		if got := o.flows(t, bridge); strings.Contains(got, "cookie") || !strings.Contains(got, "table=203") {
			t.Errorf("flows after the delete:\n%s", got)
		}
	})
}

func TestApplyRefused(t *testing.T) {
	good := openflow.FlowMod{Table: 29, Priority: 1, Cookie: testCookie, Actions: []openflow.Action{openflow.Output{Port: 1}}}
	tests := []struct {
		name string
		bad  openflow.FlowMod
		want string // in the error
	}{
		{"when it is added to the bundle", openflow.FlowMod{
			Table: 33, Priority: 7, Match: openflow.NewMatch(openflow.UDPDst(53)),
		}, "add table=33,priority=7,cookie=0x0,udp_dst=53,actions=drop: OFPBMC_BAD_PREREQ"},
		{"when the bundle is committed", openflow.FlowMod{
			Table: 29, Priority: 1, Flags: openflow.CheckOverlap, Match: openflow.NewMatch(openflow.EthType(0x800)),
		}, "add table=29,priority=1,cookie=0x0,eth_type=0x800,actions=drop: OFPFMFC_OVERLAP"},
		{"because of an action", openflow.FlowMod{
			Table: 30, Actions: []openflow.Action{openflow.CT{}},
		}, "actions=ct(zone=0): OFPBAC_MATCH_INCONSISTENT"},
	}
	eachVersion(t, "re", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		var stray []error
		c := o.connect(t, bridge, opts, openflow.Handler{SwitchError: func(e *openflow.SwitchError) { stray = append(stray, e) }})
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				err := c.Apply(short(t), []openflow.FlowMod{good, test.bad, good})
				var refused *openflow.SwitchError
				if !errors.As(err, &refused) {
					t.Fatalf("error %v, want a SwitchError", err)
				}
				mustContain(t, err.Error(), test.want)
				if got := o.flows(t, bridge); strings.Contains(got, "actions") {
					t.Errorf("flows after a refused bundle:\n%s", got)
				}
				if err := c.Apply(short(t), []openflow.FlowMod{good}); err != nil {
					t.Errorf("the next bundle: %v", err)
				}
				o.ofctl(t, bridge, "del-flows")
			})
		}
		c.end(t)
		if len(stray) > 0 {
			t.Errorf("errors beside: %v", stray)
		}
	})
}

// TestApplyLarge applies more than the write queue holds and reads it back in
// a reply of many parts.
func TestApplyLarge(t *testing.T) {
	eachVersion(t, "la", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		c := o.connect(t, bridge, opts, openflow.Handler{})
		mods := make([]openflow.FlowMod, 30000)
		for i := range mods {
			mods[i] = openflow.FlowMod{
				Table: 50, Cookie: testCookie,
				Match:   openflow.NewMatch(openflow.Metadata(uint64(i)), openflow.Reg(14, 1)),
				Actions: []openflow.Action{openflow.Resubmit{Table: 51}},
			}
		}
		if err := c.Apply(short(t), mods); err != nil {
			t.Fatal(err)
		}
		stats, err := c.FlowStats(short(t), openflow.FlowStatsRequest{Table: 50})
		if err != nil {
			t.Fatal(err)
		}
		matches := map[openflow.Match]bool{}
		for _, s := range stats {
			matches[s.Match] = true
		}
		for _, m := range mods {
			if !matches[m.Match] {
				t.Fatalf("%v is not among the %d flows of the switch", m, len(stats))
			}
		}
	})
}

// collectPunts returns a handler that sends packet-ins to a channel and takes
// everything that is wrong for a failure.
func collectPunts(t *testing.T, punts chan<- openflow.PacketIn) openflow.Handler {
	return openflow.Handler{
		PacketIn: func(p *openflow.PacketIn) {
			p.Own()
			punts <- *p
		},
		SwitchError: func(e *openflow.SwitchError) { t.Error(e) },
		Malformed:   func(err error) { t.Error(err) },
	}
}

// query is an Ethernet frame with a UDP datagram to port 53.
var query = []byte{
	0x0a, 0, 0, 0, 0, 1, 0x0a, 0, 0, 0, 0, 2, 0x08, 0x00, // Ethernet
	0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x66, 0xc6, 10, 0, 0, 4, 10, 0, 0, 5, // IPv4
	0x30, 0x39, 0, 53, 0, 12, 0, 0, 't', 'e', 's', 't', // UDP
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // to 60 bytes
}

func (l *link) packetOut(t *testing.T, actions ...openflow.Action) {
	t.Helper()
	encoded := openflow.AppendActions(nil, l.Version(), actions...)
	b, err := openflow.AppendPacketOut(nil, l.Version(), l.NextXID(), openflow.PortController, encoded, query)
	if err != nil {
		t.Error(err)
	}
	if err := l.Write(b, openflow.Soon, false); err != nil {
		t.Error(err)
	}
}

func TestPunt(t *testing.T) {
	eachVersion(t, "pu", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		punts := make(chan openflow.PacketIn, 16)
		c := o.connect(t, bridge, opts, collectPunts(t, punts))
		// Another connection with another id must not get the packet.
		others := make(chan openflow.PacketIn, 16)
		other := o.connect(t, bridge, openflow.Options{ControllerID: testID + 1}, collectPunts(t, others))

		userData := []byte("\x00\x01who")
		punt := openflow.FlowMod{Table: 200, Cookie: testCookie, Actions: []openflow.Action{
			openflow.Controller2{ControllerID: testID, UserData: userData},
		}}
		if err := c.Apply(short(t), []openflow.FlowMod{punt}); err != nil {
			t.Fatal(err)
		}
		c.packetOut(t,
			openflow.SetField{Field: openflow.Metadata(0x1_0000_0005)},
			openflow.SetField{Field: openflow.Reg(14, 3)},
			openflow.SetField{Field: openflow.Reg(12, 8)},
			openflow.SetField{Field: openflow.Reg(13, 9)},
			openflow.Resubmit{Table: 200},
		)
		got := receive(t, punts)
		if !bytes.Equal(got.Data, query) || got.FullLen != uint32(len(query)) {
			t.Errorf("frame % x (of %d bytes), want % x", got.Data, got.FullLen, query)
		}
		if !bytes.Equal(got.UserData, userData) {
			t.Errorf("user data %q, want %q", got.UserData, userData)
		}
		if got.InPort != openflow.PortController || got.Metadata != 0x1_0000_0005 || got.Regs[14] != 3 || got.Regs[12] != 8 || got.Regs[13] != 9 {
			t.Errorf("in_port %#x, metadata %#x, registers %v", got.InPort, got.Metadata, got.Regs)
		}
		if got.Cookie != testCookie || got.Table != 200 {
			t.Errorf("cookie %#x, table %d", got.Cookie, got.Table)
		}
		if err := other.Barrier(short(t)); err != nil {
			t.Fatal(err)
		}
		if len(others) != 0 {
			t.Error("the connection with another controller id got the packet")
		}
	})
}

// A punted packet goes on in another table with all that the pipeline had set.
func TestResume(t *testing.T) {
	eachVersion(t, "pa", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		punts := make(chan openflow.PacketIn, 16)
		c := o.connect(t, bridge, opts, collectPunts(t, punts))
		punt := func(data string) []openflow.Action {
			return []openflow.Action{openflow.Controller2{ControllerID: testID, UserData: []byte(data)}}
		}
		if err := c.Apply(short(t), []openflow.FlowMod{{Table: 200, Actions: punt("first")}, {Table: 30, Actions: punt("second")}}); err != nil {
			t.Fatal(err)
		}
		actions := []openflow.Action{openflow.SetField{Field: openflow.Metadata(0x1_0000_0005)}, openflow.SetField{Field: openflow.PktMark(0x8000_0001)}}
		for n := range 16 {
			actions = append(actions, openflow.SetField{Field: openflow.Reg(n, uint32(n+1))})
		}
		c.packetOut(t, append(actions, openflow.Resubmit{Table: 200})...)

		first := receive(t, punts)
		resume, err := first.AppendResume(nil, c.Version(), c.NextXID(), 30)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(resume, openflow.Soon, false); err != nil {
			t.Fatal(err)
		}
		second := receive(t, punts)
		if string(first.UserData) != "first" || first.Metadata != 0x1_0000_0005 || first.PktMark != 0x8000_0001 || first.Regs[0] != 1 || first.Regs[15] != 16 {
			t.Errorf("packet-in %+v", first)
		}
		want := first
		want.UserData, want.Table = []byte("second"), 30
		if diff := cmp.Diff(want, second, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("packet-in after the resume (-want +got):\n%s", diff)
		}
	})
}

func TestMonitorFlows(t *testing.T) {
	eachVersion(t, "mo", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		updates := make(chan openflow.FlowUpdate, 64)
		c := o.connect(t, bridge, opts, openflow.Handler{FlowUpdate: func(u openflow.FlowUpdate) { updates <- u }})
		ours := openflow.FlowMod{Table: 29, Priority: 200, Cookie: testCookie, HardTimeout: 100, Match: udp53, Actions: []openflow.Action{openflow.Resubmit{Table: 200}}}
		if err := c.Apply(short(t), []openflow.FlowMod{ours, {Table: 30, Cookie: 1}}); err != nil {
			t.Fatal(err)
		}
		if err := c.MonitorFlows(short(t), 1, 29); err != nil {
			t.Fatal(err)
		}
		expect := func(want openflow.FlowUpdate) {
			t.Helper()
			got := receive(t, updates)
			if want.Event == openflow.FlowOwn {
				got.XID = 0
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b openflow.Match) bool { return a == b })); diff != "" {
				t.Errorf("update (-want +got):\n%s", diff)
			}
		}
		if n := len(updates); n != 1 {
			t.Errorf("%d updates when MonitorFlows returned, want the initial flow", n)
		}
		expect(openflow.FlowUpdate{Event: openflow.FlowInitial, Table: 29, Priority: 200, Cookie: testCookie, HardTimeout: 100, Match: udp53})

		text := "table=29,priority=200,udp,reg14=3,metadata=5,nw_dst=169.254.169.254,tp_dst=53"
		o.ofctl(t, bridge, "add-flow", "cookie=0x66,"+text+",actions=drop")
		expect(openflow.FlowUpdate{Event: openflow.FlowAdded, Table: 29, Priority: 200, Cookie: 0x66, Match: udp53})
		o.ofctl(t, bridge, "--strict mod-flows", text+",actions=resubmit(,9)")
		expect(openflow.FlowUpdate{Event: openflow.FlowModified, Table: 29, Priority: 200, Cookie: 0x66, Match: udp53})
		o.ofctl(t, bridge, "--strict del-flows", text)
		expect(openflow.FlowUpdate{Event: openflow.FlowRemoved, Reason: 2, Table: 29, Priority: 200, Cookie: 0x66, Match: udp53})
		if err := c.Apply(short(t), []openflow.FlowMod{ours}); err != nil {
			t.Fatal(err)
		}
		expect(openflow.FlowUpdate{Event: openflow.FlowOwn})

		if err := c.MonitorFlows(short(t), 1, 30); err == nil {
			t.Error("a second monitor with the same id was accepted")
		}
		if err := c.MonitorFlows(short(t), 2, openflow.TableAll); err != nil {
			t.Error(err)
		}
		if n := len(updates); n != 2 {
			t.Errorf("%d initial updates from all tables, want 2", n)
		}
	})
}

// TestRequestsAtOnce mixes requests of several goroutines with punts.
func TestRequestsAtOnce(t *testing.T) {
	eachVersion(t, "at", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		punts := make(chan openflow.PacketIn, 1000)
		h := collectPunts(t, punts)
		updates := 0
		h.FlowUpdate = func(openflow.FlowUpdate) { updates++ }
		c := o.connect(t, bridge, opts, h)
		if err := c.Apply(short(t), []openflow.FlowMod{{Table: 200, Actions: []openflow.Action{openflow.Controller2{ControllerID: testID}}}}); err != nil {
			t.Fatal(err)
		}
		if err := c.MonitorFlows(short(t), 1, openflow.TableAll); err != nil {
			t.Fatal(err)
		}
		const rounds = 20
		var workers sync.WaitGroup
		for table := range uint8(4) {
			workers.Go(func() {
				for i := range rounds {
					flow := openflow.FlowMod{Table: table, Priority: uint16(i), Cookie: uint64(table)}
					if err := c.Apply(t.Context(), []openflow.FlowMod{flow}); err != nil {
						t.Error(err)
					}
					stats, err := c.FlowStats(t.Context(), openflow.FlowStatsRequest{Table: table})
					if err != nil || len(stats) != i+1 {
						t.Errorf("%d flows, %v; want %d", len(stats), err, i+1)
					}
					c.packetOut(t, openflow.Resubmit{Table: 200})
					if err := c.Barrier(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
		for range 4 * rounds {
			receive(t, punts)
		}
		c.end(t)
		if want := 1 + 4*rounds; updates != want {
			t.Errorf("%d flow updates, want %d", updates, want)
		}
	})
}

func TestModMeters(t *testing.T) {
	eachVersion(t, "me", func(t *testing.T, o *ovs, bridge string, opts openflow.Options) {
		c := o.connect(t, bridge, opts, openflow.Handler{})
		if err := c.ModMeters(short(t), []openflow.MeterMod{{ID: 7, Rate: 100, Burst: 20}, {ID: 8, Rate: 1}}); err != nil {
			t.Fatal(err)
		}
		if err := c.ModMeters(short(t), []openflow.MeterMod{{Command: openflow.Modify, ID: 7, Rate: 1, Burst: 20}, {Command: openflow.Delete, ID: 8}}); err != nil {
			t.Fatal(err)
		}
		meters := o.ofctl(t, bridge, "dump-meters")
		mustContain(t, meters, "meter=7 pktps burst bands=\ntype=drop rate=1 burst_size=20\n")
		if strings.Contains(meters, "meter=8") {
			t.Errorf("meter 8 is still there:\n%s", meters)
		}
		if err := c.Apply(short(t), []openflow.FlowMod{{Table: 3, Actions: []openflow.Action{openflow.Controller2{ControllerID: testID, Meter: 7}}}}); err != nil {
			t.Fatal(err)
		}

		most, err := c.MaxMeter(short(t))
		if err != nil || most < 7 {
			t.Errorf("highest meter id %d, %v", most, err)
		}
		configs, err := c.Meters(short(t))
		if want := []openflow.MeterConfig{{ID: 7, Rate: 1, Burst: 20}}; err != nil || !slices.Equal(configs, want) {
			t.Errorf("meters %v, %v, want %v", configs, err, want)
		}
		// More than a bucket holds, at once.
		for range 30 {
			c.packetOut(t, openflow.Resubmit{Table: 3})
		}
		stats, err := c.MeterStats(short(t))
		if err != nil || len(stats) != 1 || stats[0].ID != 7 || stats[0].Packets != 30 || stats[0].Dropped == 0 || stats[0].Dropped > 10 {
			t.Errorf("statistics %+v, %v, want 30 packets and up to 10 dropped", stats, err)
		}

		err = c.ModMeters(short(t), []openflow.MeterMod{{ID: 9, Rate: 1}, {ID: 7, Rate: 1}})
		var refused *openflow.SwitchError
		if !errors.As(err, &refused) || refused.Name() != "OFPMMFC_METER_EXISTS" {
			t.Fatalf("error %v, want OFPMMFC_METER_EXISTS", err)
		}
		mustContain(t, err.Error(), "add meter=7")
	})
}

func TestSwitchGoes(t *testing.T) {
	o := realSwitch(t)
	o.vsctl(t, "add-br", "go", "--", "set", "bridge", "go", "datapath_type=netdev")
	nc, err := net.Dial("unix", o.path("go.mgmt"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := openflow.NewConn(t.Context(), nc, openflow.Options{ControllerID: testID})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- c.Serve(openflow.Handler{}) }()
	o.vsctl(t, "del-br", "go")
	if err := receive(t, served); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve returned %v when the bridge went", err)
	}
	if err := c.Barrier(context.Background()); err == nil {
		t.Error("a barrier on a connection that has ended succeeded")
	}
	if err := c.Write(nil, openflow.Soon, false); err == nil {
		t.Error("a write on a connection that has ended succeeded")
	}
}
