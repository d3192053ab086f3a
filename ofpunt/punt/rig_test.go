// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"io"
	stdlog "log"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

func TestMain(m *testing.M) {
	stdlog.SetOutput(io.Discard) // panics are a part of it
	goleak.VerifyTestMain(m)
}

const bridgeName = "br-punt"

// chain is a plugin chain.
type chain func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg)

func (c chain) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) { c(ctx, w, r) }

// testConfig is that of a server in service mode, whose guests are those that have an OpenFlow
// port, and which has no chain.
func testConfig() Config {
	return Config{
		Guests:     guests.NewRules(guestConfig()),
		Concurrent: 4096, ConcurrentGuest: 512, FromMemory: true,
		ReadTimeout: 3 * time.Second, IdleTimeout: 10 * time.Second, MaxTCPQueries: -1,
		Answers:  func(*origin.Origin, string) bool { return false },
		OVNOwned: func(*origin.Origin, string) bool { return false },
		Find:     func(_ *origin.Origin, qname string, _ *ovn.LookupCache) bool { return qname == "a." },
	}
}

// guestConfig has the interfaces of the bridge for guests, and one resolver address.
func guestConfig() guests.Config {
	return guests.Config{Placement: placement.Table, Resolvers: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53")}}
}

// hijacking has the interfaces of the bridge for guests, whose queries are punted wherever they go.
func hijacking() *guests.Rules { return guests.NewRules(guests.Config{Placement: placement.Table}) }

// serve has the intake ask a chain, with the config as change leaves it.
func serve(in *Intake, c chain, change func(*Config)) *Server {
	config := testConfig()
	config.FromMemory = false
	if c != nil {
		config.Chains = c
	}
	if change != nil {
		change(&config)
	}
	s := NewServer(config)
	in.Use(s)
	return s
}

// newChannel is a channel whose queries the reader may run, and the switch's end of its
// connection. The punts are of guests that nobody knows, which get an error.
func newChannel(t testing.TB) (c *Channel, peer net.Conn) {
	t.Helper()
	return newChannelOf(t, func() {}, nil)
}

// newChannelOf is newChannel of a bridge that ends TCP by stack; before is called before
// each packet-in. It accepts no connections.
func newChannelOf(t testing.TB, before func(), stack *tcp.Stack) (c *Channel, peer net.Conn) {
	t.Helper()
	conn, peer := punttest.Connect(t)
	return newChannelOn(t, conn, before, stack), peer
}

// newChannelOn is newChannelOf on a connection.
func newChannelOn(t testing.TB, conn *openflow.Conn, before func(), stack *tcp.Stack) *Channel {
	t.Helper()
	var newest atomic.Pointer[openflow.Conn]
	newest.Store(conn)
	in := newIntake(Bridge{
		Name: bridgeName, Tally: metric.NewTally(bridgeName),
		Ports: new(ports.Owners), Conn: &newest, Draining: new(atomic.Bool),
	}, stack)
	in.Use(NewServer(testConfig()))
	c := in.NewChannel(conn, func(uint64) {})
	served := make(chan error, 1)
	go func() {
		served <- conn.Serve(openflow.Handler{
			PacketIn: func(p *openflow.PacketIn) { before(); c.PacketIn(p) },
			SlowTask: TaskLasts,
			Go:       c.intake.Go,
		})
	}()
	t.Cleanup(func() {
		conn.Close()
		<-served
		in.Close()
	})
	return c
}

// tcpChannel is a channel of a bridge that ends TCP, with one guest at in_port 5.
func tcpChannel(t *testing.T) (c *Channel, peer net.Conn) {
	t.Helper()
	stack, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	c, peer = newChannelOf(t, func() {}, stack)
	guestIs(c.intake, "1")
	return c, peer
}

// guestIs has the local database say that the row with that UUID has in_port 5, and
// the switch that no packet from before is in flight.
func guestIs(in *Intake, uuid string) {
	v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: uuid, Name: "tap", OFPort: 5, IfaceID: "port-" + uuid}}}, in.bridge.Ports.View())
	v.SetDrained()
	in.bridge.Ports.Set(v)
}

// ofGuest is an exchange of a guest that is in no chain.
func ofGuest(of account) *Exchange { return &Exchange{from: &sender{account: of}} }

// accountAt is the account of a port of a network, by tunnel keys.
func accountAt(datapath, port uint32) account {
	return account{placement.Key{Datapath: datapath, Port: port}, networkKey{datapath: datapath}}
}

// packetIns returns how many packet-ins have had a result for a reason.
func packetIns(t *testing.T, result, reason string) int {
	t.Helper()
	return int(testkit.Value(t, metric.PacketIns.WithLabelValues(bridgeName, result, reason)))
}
