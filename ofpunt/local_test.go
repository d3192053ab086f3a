// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func TestLocalGuests(t *testing.T) {
	const mac = "02:00:00:00:00:01"
	tests := []struct {
		name           string
		port           vswitch.Interface
		neutron, table bool
	}{
		{"bound", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 5}, true, true},
		{"not bound", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac}, false, true},
		{"cut off", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: mac, Tag: 4095}, false, false},
		{"no number yet", vswitch.Interface{IfaceID: "lp", AttachedMAC: mac, Tag: 5}, false, false},
		{"no logical port", vswitch.Interface{OFPort: 1, AttachedMAC: mac, Tag: 5}, false, false},
		{"no MAC", vswitch.Interface{OFPort: 1, IfaceID: "lp", Tag: 5}, false, true},
		{"MAC of another length", vswitch.Interface{OFPort: 1, IfaceID: "lp", AttachedMAC: "02:00:00:00:00:01:02:03", Tag: 5}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			view := newLocalView(vswitch.View{Interfaces: []vswitch.Interface{tt.port}}, nil)
			for kind, want := range map[placement.Kind]bool{placement.Neutron: tt.neutron, placement.Table: tt.table} {
				got := slices.Collect(localGuests(kind, view, nil, func(guestKey) uint32 { return 0 }))
				if (len(got) == 1) != want {
					t.Errorf("%s: guests %v, want one: %v", kind, got, want)
				}
			}
		})
	}
}

// The number of a port that the switch has deleted says nothing until the local
// database has caught up: another tenant's port may have it by then.
func TestNumberOfADeletedPort(t *testing.T) {
	old := vswitch.Interface{UUID: "1", Name: "tap-of-some-long-name", OFPort: 3, IfaceID: "red"}
	b := &bridge{gone: map[uint32]tombstone{}}
	show := func(p vswitch.Interface) {
		v := newLocalView(vswitch.View{Interfaces: []vswitch.Interface{p}}, b.view.Load())
		v.settled.Store(true)
		b.view.Store(v)
	}
	who := func() string {
		if i := b.localPort(3); i != nil {
			return i.IfaceID
		}
		return ""
	}
	check := func(step, want string) {
		t.Helper()
		if d := cmp.Diff(want, who()); d != "" {
			t.Errorf("%s: %s", step, d)
		}
	}
	check("without a view", "")
	show(old)
	check("known", "red")
	b.portStatus(openflow.PortStatus{Port: openflow.Port{Number: 3, Name: "tap-of-some-lon"}})
	check("a port came", "red")
	b.portStatus(openflow.PortStatus{Gone: true, Port: openflow.Port{Number: 3, Name: "tap-of-other"}})
	check("one of another name went, which the database has replaced already", "red")
	b.portStatus(openflow.PortStatus{Gone: true, Port: openflow.Port{Number: 3, Name: "tap-of-some-lon"}})
	check("it went", "")
	reused := old
	reused.UUID, reused.IfaceID = "2", "blue"
	show(reused)
	check("the database has caught up", "blue")
}

// A number that has passed to another port counts once the switch has handed over
// all that it had before: a packet-in that it had queued is of the port before.
func TestNumberOfAnotherPort(t *testing.T) {
	s, peer := pairSession(t, func() {})
	b := s.bridge
	b.conn.Store(s.conn)
	// Who asks is told whom we take him for.
	c := &dnsserver.Config{Zone: "."}
	c.AddPlugin(func(plugin.Handler) plugin.Handler {
		return plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			m := new(dns.Msg).SetReply(r)
			if o, ok := origin.FromContext(ctx); ok {
				m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{o.Port}}}
			}
			return dns.RcodeSuccess, w.WriteMsg(m)
		})
	})
	server := &server{options: b.current.Load().options, admission: newAdmission(100)}
	var err error
	if server.dns, err = dnsserver.NewServer("test", []*dnsserver.Config{c}); err != nil {
		t.Fatal(err)
	}
	b.current.Store(server)
	show := func(uuid, iface string) *localView {
		v := newLocalView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: uuid, Name: "tap", OFPort: 5, IfaceID: iface}}}, b.view.Load())
		b.view.Store(v)
		return v
	}
	_ = peer.SetDeadline(time.Now().Add(20 * time.Second))
	room := make([]byte, 1<<16)
	read := func() []byte {
		t.Helper()
		n, err := peer.Read(room)
		if err != nil {
			t.Fatal(err)
		}
		return room[:n]
	}
	send := func(m []byte) {
		t.Helper()
		if _, err := peer.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	is := func(step, want string) {
		t.Helper()
		send(puntOf(queryFrame()))
		r, got := new(dns.Msg), ""
		if err := r.Unpack(answerIn(t, read()).Payload); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if got = dns.RcodeToString[r.Rcode]; len(r.Answer) == 1 {
			got = r.Answer[0].(*dns.TXT).Txt[0]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	// settle begins to wait for the switch, which has the packets to hand over
	// that it has queued; what it returns is the switch's reply.
	settle := func(v *localView) (reply func()) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.settle(t.Context(), v)
		}()
		const barrier = 20
		request := bytes.Clone(read())
		if request[1] != barrier {
			t.Fatalf("%x instead of a barrier", request)
		}
		return func() {
			send(message(barrier+1, binary.BigEndian.Uint32(request[4:]), nil))
			<-done
		}
	}

	show("1", "red")
	is("the first view", "red")
	blue := show("2", "blue")
	is("the database is ahead of the switch", "SERVFAIL")
	reply := settle(blue)
	is("a packet that the switch had queued", "SERVFAIL")
	show("2", "blue")
	is("another view of the same port", "SERVFAIL")
	reply()
	is("another view, which nobody has asked the switch about", "SERVFAIL")
	b.view.Store(blue)
	is("the switch has handed over all", "blue")
	show("2", "green")
	is("the port stands for another guest", "green")
}
