// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// recordingTransport counts what is done with an exchange.
type recordingTransport struct {
	tcp, canResume bool
	sent, resumed  atomic.Int64
}

func (r *recordingTransport) overTCP() bool                 { return r.tcp }
func (r *recordingTransport) resumable() bool               { return r.canResume }
func (r *recordingTransport) send(*buffer, time.Time) error { r.sent.Add(1); return nil }
func (r *recordingTransport) resume() error                 { r.resumed.Add(1); return nil }
func (r *recordingTransport) promise(time.Duration) int     { return -1 }
func (r *recordingTransport) atDeadline(answer func())      { answer() }
func (r *recordingTransport) release()                      {}

// newExchange is an exchange that a chain has got, of a server in service or in hijack mode.
func newExchange(t *testing.T, tr transport, hijack bool) *Exchange {
	t.Helper()
	config := testConfig()
	if hijack {
		config.Guests = hijacking()
	}
	in := newIntake(Bridge{Name: bridgeName, Tally: metric.NewTally(bridgeName), Ports: new(ports.Owners)}, nil)
	from := &sender{channel: &Channel{intake: in}, ends: frame.Ends{Src: netip.MustParseAddrPort("10.0.0.11:5000"), Dst: netip.MustParseAddrPort("169.254.169.254:53")}}
	x := new(Exchange)
	x.init(NewServer(config), tr, from)
	x.payload = []byte(punttest.Query)
	if !x.validate() {
		t.Fatal("the query is refused")
	}
	x.writer.init(x)
	return x
}

// Of all who may end an exchange the first does, and the others do nothing, whatever the
// transport and the mode: in any order, and at once.
func TestExchangeEndsOnce(t *testing.T) {
	type end struct {
		name string
		do   func(*Exchange) error
		// what the first one leaves behind: an answer, a resume, or neither.
		answers, resumes func(hijack bool) bool
	}
	always, never := func(bool) bool { return true }, func(bool) bool { return false }
	inHijack, inService := func(h bool) bool { return h }, func(h bool) bool { return !h }
	ends := []end{
		{"the chain answers", func(x *Exchange) error { return x.writer.WriteMsg(new(dns.Msg).SetReply(&x.request)) }, always, never},
		{"the chain resumes", (*Exchange).Resume, never, inHijack},
		{"the chain says nothing", func(x *Exchange) error { x.drop(metric.ReasonUnanswered); return nil }, never, never},
		{"the deadline", func(x *Exchange) error { x.expire(); return nil }, always, never},
		{"the limits", func(x *Exchange) error { x.reject(metric.ReasonOverload); return nil }, inService, inHijack},
		{"a panic", func(x *Exchange) error {
			defer x.end()
			panic("a plugin's")
		}, never, never},
	}
	count := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	for _, mode := range []struct {
		name        string
		tcp, hijack bool
	}{{"UDP", false, false}, {"UDP, hijack mode", false, true}, {"TCP", true, false}} {
		t.Run(mode.name, func(t *testing.T) {
			for _, first := range ends {
				for _, second := range ends {
					tr := &recordingTransport{tcp: mode.tcp, canResume: mode.hijack}
					x := newExchange(t, tr, mode.hijack)
					firstErr, secondErr := first.do(x), second.do(x)
					sent, resumed := tr.sent.Load(), tr.resumed.Load()
					if first.name == "the chain resumes" && !mode.hijack {
						// What can't be resumed is left to the next.
						if !errors.Is(firstErr, errNotResumable) || sent != count(second.answers(false)) || resumed != 0 {
							t.Errorf("%s, %s: %v, %d answers, %d resumes", first.name, second.name, firstErr, sent, resumed)
						}
						continue
					}
					if firstErr != nil || sent != count(first.answers(mode.hijack)) || resumed != count(first.resumes(mode.hijack)) {
						t.Errorf("%s, %s: %v, %d answers, %d resumes", first.name, second.name, firstErr, sent, resumed)
					}
					if secondErr != nil && !errors.Is(secondErr, errDone) && !errors.Is(secondErr, errNotResumable) {
						t.Errorf("%s, %s: %v", first.name, second.name, secondErr)
					}
					rcode, done := x.Unanswered()
					if want := count(first.resumes(mode.hijack)) * RcodeResumed; !done || rcode != int(want) {
						t.Errorf("%s, %s: outcome %d, done: %v", first.name, second.name, rcode, done)
					}
				}
			}
			for range 200 {
				tr := &recordingTransport{tcp: mode.tcp, canResume: mode.hijack}
				x := newExchange(t, tr, mode.hijack)
				var all sync.WaitGroup
				for _, e := range ends {
					all.Go(func() { _ = e.do(x) })
				}
				all.Wait()
				if n := tr.sent.Load() + tr.resumed.Load(); n > 1 {
					t.Fatalf("%d answers and resumes", n)
				}
			}
		})
	}
}

// A packet is resumed once, and not behind anything else that was done with it.
func TestPacketResumedOnce(t *testing.T) {
	c, peer := newChannel(t)
	for _, tt := range []struct {
		name  string
		first func(*packet)
		want  int // resumes
	}{
		{"at once", func(*packet) {}, 1},
		{"resumed before", func(p *packet) { _ = p.resume(false) }, 1},
		{"passed before", func(p *packet) { p.resumeOrDrop(metric.ReasonOrigin) }, 1},
		{"taken before", func(p *packet) { p.end(metric.Taken, metric.ReasonSegment) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p packet
			in := openflow.PacketIn{InPort: 5, Data: punttest.QueryFrame()}
			p.init(c, c.intake.server.Load(), &in, 30)
			tt.first(&p)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := p.resume(false); err != nil && !errors.Is(err, errDone) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			const packetOut, echo = 13, 2
			if err := c.conn.Write(punttest.Message(echo, 0, nil), openflow.Now, false); err != nil {
				t.Fatal(err)
			}
			resumes, last := 0, false
			for room := make([]byte, 1<<16); !last; {
				_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
				n, err := peer.Read(room)
				if err != nil {
					t.Fatal(err)
				}
				punttest.Each(room[:n], func(typ uint8, _ uint32) {
					switch typ {
					case packetOut:
						resumes++
					case echo:
						last = true
					}
				})
			}
			if resumes != tt.want {
				t.Errorf("resumed %d times, want %d", resumes, tt.want)
			}
		})
	}
	t.Run("not resumable", func(t *testing.T) {
		d, _ := received(t, c)
		if err := d.packet.resume(false); !errors.Is(err, errNotResumable) {
			t.Errorf("%v", err)
		}
	})
}
