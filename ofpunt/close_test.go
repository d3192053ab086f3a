// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// An instance that is stopped again releases its databases once: others may share them.
func TestStopTwice(t *testing.T) {
	s := chainServer(t)
	released := sharesDatabases(t, s)
	in := &instance{servers: []*server{s}}
	for range 2 {
		if err := in.stop(); err != nil {
			t.Error(err)
		}
	}
	released()
}

// An instance whose start has failed is shut down once: by the one before, which answers again, and
// not by the end of its start.
func TestStopAfterRollBack(t *testing.T) {
	s := chainServer(t)
	released := sharesDatabases(t, s)
	failed, before := &instance{servers: []*server{s}}, &instance{}
	serving.Lock()
	serving.instance = failed
	serving.Unlock()
	for _, f := range []func() error{before.rollBack, failed.undoTakeOver, before.stop} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	released()
}

// A start that fails leaves no plugin that is said to be enabled, also where there was no server
// before.
func TestFailedStartEnablesNothing(t *testing.T) {
	s := chainServer(t)
	of := prometheus.Labels{"server": "ofpunt://br-reader"}
	vars.PluginEnabled.WithLabelValues("ofpunt://br-reader", ".", "", name).Set(1)
	if err := (&instance{servers: []*server{s}}).undoTakeOver(); err != nil {
		t.Error(err)
	}
	if left := vars.PluginEnabled.DeletePartialMatch(of); left > 0 {
		t.Errorf("%d series of coredns_plugin_enabled are left", left)
	}
}

// The TCP connections of the guests are reset before the connection to the switch ends.
func TestCloseResetsConnections(t *testing.T) {
	for range 20 {
		s, peer := pairSession(t, func() {})
		b := s.bridge
		v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", OFPort: 5, IfaceID: "port-1"}}}, nil)
		v.SetDrained()
		b.ports.Set(v)
		room := make([]byte, 1<<16)
		_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
		// segment is the next one to the guest that has the flags, or data if they are 0.
		segment := func(flags byte) []byte {
			t.Helper()
			for {
				n, err := peer.Read(room)
				if err != nil {
					t.Fatal(err)
				}
				s, err := punttest.SegmentIn(room[:n])
				if err != nil {
					t.Fatal(err)
				}
				if flags != 0 && s.Segment[13]&flags == flags || flags == 0 && len(s.Segment) > 20 {
					return s.Segment
				}
			}
		}
		send := func(sequence, ack uint32, flags byte, data []byte) {
			t.Helper()
			if _, err := peer.Write(punttest.Punt(punttest.Segment(t, sequence, ack, flags, data))); err != nil {
				t.Fatal(err)
			}
		}
		send(7, 0, punttest.SYN, nil)
		next := binary.BigEndian.Uint32(segment(punttest.SYN | punttest.ACK)[4:]) + 1
		// A NOTIFY, which is refused without a chain: the answer shows that the connection
		// has been accepted.
		query := []byte(punttest.Query)
		query[2] |= 4 << 3
		send(8, next, punttest.ACK, append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
		segment(0)

		b.ctx, b.cancel = t.Context(), func() { s.conn.Close() }
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.close()
			b.punts = punt.NewIntake(b.puntBridge()) // whose end the session's is, too
		}()
		resets := 0
		for m := room; ; {
			_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
			n, err := peer.Read(m)
			if err != nil || n == 0 {
				break
			}
			for rest := m[:n]; len(rest) >= 8; rest = rest[binary.BigEndian.Uint16(rest[2:]):] {
				const packetOut, barrier = 13, 20
				switch rest[1] {
				case packetOut:
					if s, err := punttest.SegmentIn(rest); err == nil && s.Segment[13]&punttest.RST != 0 {
						resets++
					}
				case barrier:
					if _, err := peer.Write(punttest.Message(barrier+1, binary.BigEndian.Uint32(rest[4:]), nil)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		<-closed
		if resets != 1 {
			t.Errorf("%d resets, want 1", resets)
		}
	}
}

// sharesDatabases gives a server databases that another bridge has too. released checks that the server has
// released them, once: then the other bridge has them still.
func sharesDatabases(t *testing.T, s *server) (released func()) {
	config := ovndb.Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}}
	open := func(bridge string) *ovndb.Reader {
		r, err := ovndb.Open(config, bridge)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	s.source = open("br-closed")
	other := open("br-other")
	return func() {
		t.Helper()
		third := open("br-third")
		if !third.Shares(other) {
			t.Error("the databases were released more than once")
		}
		third.Close()
		other.Close()
		if again := open("br-again"); again.Shares(other) {
			t.Error("the databases were not released")
		} else {
			again.Close()
		}
	}
}
