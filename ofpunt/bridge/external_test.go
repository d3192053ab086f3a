// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/announce"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

func physicalView() *ports.View {
	return ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{UUID: "1", Name: "tap", IfaceID: "vm", OFPort: 5},
		{UUID: "2", Name: "patch", Localnet: "ln", OFPort: 9},
	}}, nil)
}

func TestExternalOf(t *testing.T) {
	snapshot := ovntest.External("02:00:00:00:00:11 10.0.0.2", "02:00:00:00:00:12 10.0.0.3 169.254.169.254")
	at := func(last byte) announce.Served {
		return announce.Served{Localnet: announce.Localnet{Port: 9}, MAC: [6]byte{2, 0, 0, 0, 0, last}}
	}
	const free, taken = "169.254.1.1:53", "169.254.169.254:53"
	for _, tt := range []struct {
		name      string
		arp       bool
		addresses []string
		view      *ports.View
		want      []announce.Served
	}{
		{"answers", true, []string{free}, physicalView(), []announce.Served{at(0x11), at(0x12)}},
		{"arp off", false, []string{free}, physicalView(), nil},
		{"a port of the network has the address", true, []string{taken}, physicalView(), nil},
		{"a port of the network has one of two addresses", true, []string{taken, free}, physicalView(), []announce.Served{at(0x11), at(0x12)}},
		{"any address", true, nil, physicalView(), nil},
		{"no localnet port yet", true, []string{free}, ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", IfaceID: "vm", OFPort: 5}}}, nil), nil},
		{"no OpenFlow port yet", true, []string{free}, ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "2", Name: "patch", Localnet: "ln"}}}, nil), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := config.Default("br-announce")
			o.ARP, o.Resolvers = tt.arp, nil
			for _, a := range tt.addresses {
				o.Resolvers = append(o.Resolvers, netip.MustParseAddrPort(a))
			}
			srv := newTestServer(o, nil)
			service := srv.service(1)
			l := guests.At(guests.NewRules(o.Config), snapshot, tt.view).List()
			if len(l.Served) != 2 {
				t.Fatalf("guests %+v, want two", l.Served)
			}
			if d := cmp.Diff(tt.want, externalOf(l, &service, tt.view)); d != "" {
				t.Error(d)
			}
		})
	}
}

// A process announces only while its flows are in place and it does not end.
func TestAnnounceWhileServing(t *testing.T) {
	s, peer := pairSession(t, func() {})
	srv := s.bridge.current.Load()
	srv.setRules(func(c *guests.Config) { c.Placement = placement.OVN })
	srv.source = ovndb.ReaderOf(ovntest.External("02:00:00:00:00:11 10.0.0.2"))
	view := physicalView()
	s.bridge.ports.Set(view)
	s.desired.version, _ = srv.Book(view).Version()
	s.desired.list = srv.Book(view).List()
	sent := func() float64 { return testkit.Value(t, metric.Announcements.WithLabelValues(s.bridge.name)) }
	begun, start := sent(), time.Now()
	for _, step := range []struct {
		name     string
		at       time.Duration
		notReady string
		draining bool
		want     float64
	}{
		{"waiting", 0, "waiting for flows", false, 0},
		{"in place", time.Minute, "", false, 1},
		{"in place, nothing is due", time.Minute, "", false, 1},
		{"another process has the flows", 2 * time.Minute, "another process", false, 1},
		{"they are back", 3 * time.Minute, "", false, 2},
		{"the next", 4 * time.Minute, "", false, 3},
		{"the process ends", 5 * time.Minute, "", true, 3},
	} {
		s.bridge.readiness.set(step.notReady)
		s.bridge.draining.Store(step.draining)
		s.announce(start.Add(step.at), srv)
		if got := sent() - begun; got != step.want {
			t.Errorf("%s: %v announcements, want %v", step.name, got, step.want)
		}
	}
	b := make([]byte, 1<<16)
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := peer.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	const packetOut, output = 13, "\x00\x00\x00\x10\x00\x00\x00\x09"
	want := frame.AppendAnnouncement(nil, [6]byte{2, 0, 'd', 'n', 's', 0x35}, frame.Tag{})
	if b = b[:n]; b[1] != packetOut || !bytes.Contains(b, []byte(output)) || !bytes.HasSuffix(b[:int(b[2])<<8|int(b[3])], want) {
		t.Errorf("the switch has got %x", b)
	}
}
