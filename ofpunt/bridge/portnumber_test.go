// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// A port number's new owner counts once the switch has sent all earlier packets.
func TestNumberOfAnotherPort(t *testing.T) {
	s, peer := pairSession(t, func() {})
	b := s.bridge
	// The answer names the query's guest.
	b.serve(chainServer(t, func(plugin.Handler) plugin.Handler {
		return plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			m := new(dns.Msg).SetReply(r)
			if o, ok := origin.FromContext(ctx); ok {
				m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{o.Port}}}
			}
			return dns.RcodeSuccess, w.WriteMsg(m)
		})
	}))
	show := func(uuid, iface string) *ports.View {
		v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: uuid, Name: "tap", OFPort: 5, IfaceID: iface}}}, b.ports.View())
		b.ports.Set(v)
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
		send(punttest.Punt(punttest.QueryFrame()))
		r, got := new(dns.Msg), ""
		if err := r.Unpack(punttest.AnswerIn(t, read()).Payload); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if got = dns.RcodeToString[r.Rcode]; len(r.Answer) == 1 {
			got = r.Answer[0].(*dns.TXT).Txt[0]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	drain := func(v *ports.View) (reply func()) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.awaitDrained(t.Context(), v)
		}()
		const barrier = 20
		request := bytes.Clone(read())
		if request[1] != barrier {
			t.Fatalf("%x instead of a barrier", request)
		}
		return func() {
			send(punttest.Message(barrier+1, binary.BigEndian.Uint32(request[4:]), nil))
			<-done
		}
	}

	show("1", "red")
	is("the first view", "red")
	blue := show("2", "blue")
	is("the database is ahead of the switch", "SERVFAIL")
	reply := drain(blue)
	is("a packet that the switch had queued", "SERVFAIL")
	show("2", "blue")
	is("another view of the same port", "SERVFAIL")
	reply()
	is("another view, which nobody has asked the switch about", "SERVFAIL")
	b.ports.Set(blue)
	is("the switch has handed over all", "blue")
	show("2", "green")
	is("the port stands for another guest", "green")
}

// Only a deletion overrides the local database.
func TestPortStatus(t *testing.T) {
	s, _ := pairSession(t, func() {})
	owners := &s.bridge.ports
	owners.Set(ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", OFPort: 5}}}, nil))
	port := openflow.Port{Number: 5, Name: "tap"}
	s.handler().PortStatus(openflow.PortStatus{Port: port})
	if owners.Owner(5) == nil {
		t.Error("one that has come counts as gone")
	}
	s.handler().PortStatus(openflow.PortStatus{Port: port, Gone: true})
	if owners.Owner(5) != nil {
		t.Error("one that has gone counts still")
	}
}
