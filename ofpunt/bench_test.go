// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/admin"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/refusals"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// waiting is a plugin that waits for another goroutine, as forward does for an upstream.
func waiting(b *testing.B) plugin.Plugin {
	b.Helper()
	asked := make(chan chan struct{})
	go func() {
		for answered := range asked {
			close(answered)
		}
	}()
	b.Cleanup(func() { close(asked) })
	return func(plugin.Handler) plugin.Handler {
		return plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			answered := make(chan struct{})
			asked <- answered
			<-answered
			return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetReply(r))
		})
	}
}

// puntingSwitch is a switch at the other end of a connection, and the intake of the packets that it punts.
type puntingSwitch struct {
	peer   net.Conn
	intake *punt.Intake
	owners ports.Owners
	feed   watch.Feed
}

func newPuntingSwitch(b *testing.B) *puntingSwitch {
	b.Helper()
	conn, peer := punttest.Connect(b)
	s := &puntingSwitch{peer: peer}
	var current atomic.Pointer[openflow.Conn]
	current.Store(conn)
	s.intake = punt.NewIntake(punt.Bridge{
		Name: "br-bench", Tally: metric.NewTally("br-bench"), Refusals: new(refusals.Ledger), Watch: &s.feed, Ports: &s.owners,
		Conn: &current, Draining: new(atomic.Bool),
	})
	channel := s.intake.NewChannel(conn, func(uint64) {})
	served := make(chan error, 1)
	go func() { served <- conn.Serve(openflow.Handler{PacketIn: channel.PacketIn, SlowTask: punt.TaskLasts}) }()
	b.Cleanup(func() {
		conn.Close()
		<-served
		s.intake.Close()
	})
	return s
}

// namedServer is the server of a Corefile with ovnhosts and a plugin that waits, whose
// database has the guest port-1 and the name a. properties are more of ofpunt; audited adds
// audit, with a file.
func namedServer(b *testing.B, bridge, properties string, audited bool) *server {
	b.Helper()
	db := ovsdbtest.Start(b, "/usr/share/ovn/ovn-nb.ovsschema")
	type object = map[string]any
	db.Transact(b, "OVN_Northbound",
		object{"op": "insert", "table": "Logical_Switch_Port", "uuid-name": "p", "row": object{"name": "port-1", "addresses": []any{"set", []any{"02:00:00:00:00:11 10.0.0.11"}}}},
		object{"op": "insert", "table": "DNS", "uuid-name": "d", "row": object{"records": []any{"map", [][2]string{{"a", "10.0.0.21"}}}}},
		object{"op": "insert", "table": "Logical_Switch", "uuid-name": "s", "row": object{"name": "red", "ports": []any{"named-uuid", "p"}, "dns_records": []any{"named-uuid", "d"}}},
	)
	dir, audit := b.TempDir(), ""
	if audited {
		audit = " audit " + dir + "/audit.json\n"
	}
	in, err := caddy.Start(caddy.CaddyfileInput{Filepath: "Corefile", ServerTypeName: "dns", Contents: fmt.Appendf(nil,
		". {\n ofpunt %s {\n openflow unix:%s/mgmt\n ovsdb unix:%s/db\n placement table 0\n%s }\n metadata\n"+audit+
			" ovnhosts {\n northbound %s\n monitor all\n fallthrough\n }\n}\n", bridge, dir, dir, properties, db.Endpoint)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.ShutdownCallbacks()
		_ = in.Stop()
	})
	blocks := in.Storage[instanceKey{}].(*instance).blocks
	blocks[0].Configs[0].AddPlugin(waiting(b))
	s, err := newServer(blocks)
	if err == nil {
		err = s.Open()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	s.Names().SetLocal("", []string{"port-1"}, time.Minute)
	testkit.OnChange(b, s.Names(), "the network", func() bool { return s.Names().Snapshot().PortByName("port-1") != nil })
	return s
}

// BenchmarkQuery takes UDP queries from the packet-in to the packet-out, over a pair of
// sockets. Those for a known name are answered by the reader of the connection, the others
// go to a plugin that waits.
func BenchmarkQuery(b *testing.B) {
	for _, kind := range []struct {
		name   string
		label  byte
		batch  int // queries in one write of the switch
		answer int // records
		limits int // by labels, the last of which is the guest's
		audit  bool
		looks  string // the path of a stream that is open, empty for none
	}{
		{"known", 'a', 1, 1, 0, false, ""},
		{"known/batch", 'a', 16, 1, 0, false, ""},
		{"known/batch/limits", 'a', 16, 1, 100, false, ""},
		{"forwarded", 'b', 1, 0, 0, false, ""},
		{"forwarded/batch", 'b', 16, 0, 0, false, ""},
		{"known/audit", 'a', 1, 1, 0, true, ""},
		{"known/batch/audit", 'a', 16, 1, 0, true, ""},
		{"known/batch/watched by others", 'a', 16, 1, 0, false, api.PathWatch + "?port=another"},
		{"known/batch/watched", 'a', 16, 1, 0, false, api.PathWatch},
		{"known/batch/top", 'a', 16, 1, 0, false, api.PathTop},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s := newPuntingSwitch(b)
			properties := ""
			for i := range kind.limits {
				properties += fmt.Sprintf(" limit ofpunt/port port-%d {\n  max_concurrent 100\n }\n limit ofpunt/external-id/project p%d {\n  rate 5\n }\n", kind.limits-i, i)
			}
			s.intake.Use(namedServer(b, "br-bench", properties, kind.audit).Queries())
			v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", OFPort: 5, IfaceID: "port-1"}}}, nil)
			v.SetDrained()
			s.owners.Set(v)
			frame := punttest.QueryFrame()
			frame[len(frame)-6] = kind.label
			var burst []byte
			for range kind.batch {
				burst = append(burst, punttest.Punt(frame)...)
			}
			room := make([]byte, 1<<18)
			round := func(first bool) {
				if _, err := s.peer.Write(burst); err != nil {
					b.Fatal(err)
				}
				for left := kind.batch; left > 0; {
					n, err := s.peer.Read(room)
					if err != nil {
						b.Fatal(err)
					}
					for m := room[:n]; len(m) >= 8; m = m[binary.BigEndian.Uint16(m[2:]):] {
						left--
						if !first {
							continue
						}
						r := new(dns.Msg)
						if err := r.Unpack(punttest.AnswerIn(b, m[:binary.BigEndian.Uint16(m[2:])]).Payload); err != nil || r.Rcode != 0 || len(r.Answer) != kind.answer {
							b.Fatalf("%v, %v", r, err)
						}
					}
				}
			}
			_ = s.peer.SetReadDeadline(time.Now().Add(10 * time.Minute))
			round(true)
			lookOn(b, &s.feed, kind.looks)
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				for range max(1, 16/kind.batch) {
					round(false)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N)/16, "cpu-ns/query")
		})
	}
}

// BenchmarkConnection takes TCP connections of one query for a known name, from the SYN to the last
// acknowledgement, over a pair of sockets: 16 at a time, in batches of the switch.
func BenchmarkConnection(b *testing.B) {
	for _, batch := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("batch %d", batch), func(b *testing.B) {
			s := newPuntingSwitch(b)
			s.intake.Use(namedServer(b, "br-bench", "", false).Queries())
			v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", OFPort: 5, IfaceID: "port-1"}}}, nil)
			v.SetDrained()
			s.owners.Set(v)
			_ = s.peer.SetReadDeadline(time.Now().Add(10 * time.Minute))
			g := &connectingGuest{b: b, peer: s.peer, batch: batch, room: make([]byte, 1<<18)}
			g.connections()
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				for range 16 / batch {
					g.connections()
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N)/16, "cpu-ns/connection")
		})
	}
}

// connectingGuest is a guest that asks each query by a connection of its own, some at a time.
type connectingGuest struct {
	b     *testing.B
	peer  net.Conn
	batch int
	port  uint16
	burst []byte
	room  []byte
	// next are what the connections acknowledge, by their port less the first.
	next [16]uint32
}

// connections makes connections, asks by each of them, and closes them.
func (g *connectingGuest) connections() {
	query := append([]byte{0, byte(len(punttest.Query))}, punttest.Query...)
	asked := 8 + uint32(len(query))
	g.port += 16
	if g.port < 2000 {
		g.port = 2000
	}
	g.segments(7, punttest.SYN, nil)
	g.send(true)
	g.segments(8, punttest.ACK, nil)
	g.segments(8, punttest.ACK, query)
	g.send(true)
	g.segments(asked, punttest.ACK, nil)
	g.segments(asked, punttest.ACK|punttest.FIN, nil)
	g.send(true)
	g.segments(asked+1, punttest.ACK, nil)
	g.send(false)
}

// segments has a segment of each connection sent.
func (g *connectingGuest) segments(sequence uint32, flags byte, payload []byte) {
	for i := range g.batch {
		frame := punttest.SegmentFrom(g.b, g.port+uint16(i), sequence, g.next[i], flags, payload)
		g.burst = append(g.burst, punttest.Punt(frame)...)
	}
}

// send sends what there is to be sent, and takes what is sent to each connection if it is answered.
func (g *connectingGuest) send(answered bool) {
	if _, err := g.peer.Write(g.burst); err != nil {
		g.b.Fatal(err)
	}
	g.burst = g.burst[:0]
	for left := g.batch; left > 0 && answered; {
		n, err := g.peer.Read(g.room)
		if err != nil {
			g.b.Fatal(err)
		}
		for m := g.room[:n]; len(m) >= 8; m = m[binary.BigEndian.Uint16(m[2:]):] {
			left--
			to, err := punttest.SegmentIn(m)
			if err != nil {
				g.b.Fatal(err)
			}
			s := header.TCP(to.Segment)
			if s.Flags().Contains(header.TCPFlagRst) {
				g.b.Fatalf("a reset")
			}
			length := uint32(len(s.Payload()))
			if s.Flags().Intersects(header.TCPFlagSyn | header.TCPFlagFin) {
				length++
			}
			g.next[to.Dst.Port()-g.port] = s.SequenceNumber() + length
		}
	}
}

// lookOn has somebody read a stream of queries, as far as that is of this process: nothing is encoded.
func lookOn(b *testing.B, feed *watch.Feed, path string) {
	b.Helper()
	if path == "" {
		return
	}
	u, err := url.Parse(path)
	if err != nil {
		b.Fatal(err)
	}
	stream := map[string]control.StreamFunc{api.PathWatch: admin.Queries(feed), api.PathTop: admin.Top(feed)}[u.Path]
	ctx, cancel := context.WithCancel(b.Context())
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = stream(ctx, u.Query(), func(values ...any) error { // it ends with ctx
			if len(values) == 0 {
				close(begun)
			}
			return nil
		})
	}()
	<-begun
	b.Cleanup(func() {
		cancel()
		<-ended
	})
}

// processorTime returns the processor time of this process. Unlike the time that passes, it
// hardly depends on other processes.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
