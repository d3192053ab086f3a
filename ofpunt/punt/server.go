// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Chains answers a query, or does not: the plugin chains of a Corefile for one bridge.
type Chains interface {
	ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg)
}

// Guest is who has sent a packet, by what the switch and the databases say.
type Guest struct {
	Network origin.Network // zero if it is not known
	Switch  string         // name of the logical switch
	Port    string         // name of the logical port
	// Attributes are for labels of metadata, nil for none.
	Attributes origin.Attributes
	// Tag is the VLAN id of a container whose frames have lost it in the pipeline, else 0.
	Tag uint16
}

// Config is what a [Server] is made of.
type Config struct {
	Chains Chains
	// Context is what the chains get beside the exchange and its origin.
	Context context.Context
	// Identify returns the sender of a packet. Owner has the OpenFlow port that the packet
	// came in by, and is nil if that is not known; tagged is set if the frame has a VLAN tag.
	// It reports whether the sender is known. It must not block.
	Identify func(in *openflow.PacketIn, owner *vswitch.Interface, tagged bool) (Guest, bool)
	// Answers reports whether a chain answers o for a name by itself, and asks nobody else.
	// The name is fully qualified and in lower case. It must not block.
	Answers func(o *origin.Origin, qname string) bool
	// OVNOwned reports whether the name, as o sees it, is that of a row that OVN owns. The
	// name is fully qualified and in lower case. It must not block.
	OVNOwned func(o *origin.Origin, qname string) bool

	// OVN is set where packets have been through OVN's pipeline, whose registers tell who
	// has sent them.
	OVN bool
	// Addresses are the resolver addresses that all guests have. Hijack is set if every
	// address is one.
	Addresses []netip.AddrPort
	Hijack    bool
	// HasAddress reports whether the sender of a packet, as of Identify, has a resolver
	// address beside those. It is nil if there are no others, and must not block.
	HasAddress func(in *openflow.PacketIn, owner *vswitch.Interface, a netip.AddrPort) bool
	// HasWorkload reports whether a workload of the sender's network has an address, which then
	// is no resolver address of the sender. It is nil if that is not known, and must not block.
	HasWorkload func(in *openflow.PacketIn, owner *vswitch.Interface, a netip.Addr) bool
	// Owns reports whether a port of the sender's network has an address, so that ARP and
	// neighbour solicitations for it are its own to answer. It is nil if that is not known,
	// and must not block.
	Owns func(in *openflow.PacketIn, owner *vswitch.Interface, a netip.Addr) bool
	// Concurrent is how many queries may be in flight, ConcurrentGuest how many of one guest.
	Concurrent, ConcurrentGuest int
	// Limits are what guests have by what the databases say of them, in the place of what is
	// for all. FindLimit returns the index of that of the sender of a packet, -1 for none, and
	// PortsVersion changes with what it returns, unless the ports of the bridge have changed.
	// Both are nil if there are no Limits, and must not block.
	Limits       []Limit
	FindLimit    func(in *openflow.PacketIn, owner *vswitch.Interface) int
	PortsVersion func() uint64
	// DropOverload is set if a query over these limits gets no answer, in the place of
	// SERVFAIL.
	DropOverload bool
	// Recursive is set if a chain offers recursion; Transfers if one does zone transfers,
	// which the others then refuse by Exchange.RefuseTransfer.
	Recursive, Transfers bool
	// FromMemory is set if no chain blocks over a name that Find finds. Find looks a name up
	// in the databases, and leaves what it has found to the chain. The name is fully
	// qualified and in lower case. It must not block.
	FromMemory bool
	Find       func(o *origin.Origin, qname string, found *ovn.LookupCache) bool

	// ReadTimeout is how long a message of a TCP connection may take, and the first one to
	// begin; IdleTimeout how long a connection may be idle behind the first. MaxTCPQueries is
	// how many queries a connection may have, below 0 any number.
	ReadTimeout, IdleTimeout time.Duration
	MaxTCPQueries            int
}

// Server answers the queries of a bridge, for one Corefile. It is safe for concurrent use.
type Server struct {
	Config
	admission   *admission
	guestLimits guestLimits
	// workersUntil is until when all queries are left to workers, though the chains answer
	// from memory: one has blocked the reader. It is in Unix nanoseconds.
	workersUntil atomic.Int64
	// panicked is set once a panic has been logged, unpackable once an answer that can't be
	// packed has.
	panicked, unpackable atomic.Bool
}

// NewServer returns a server without a query in flight.
func NewServer(c Config) *Server {
	if c.Context == nil {
		c.Context = context.Background()
	}
	return &Server{Config: c, admission: newAdmission(c.Concurrent)}
}

// InFlight returns how many queries are in flight.
func (s *Server) InFlight() int64 { return s.admission.count.Load() }

// hijack reports whether queries to every destination are punted.
func (s *Server) hijack() bool { return s.Hijack }

// isResolver reports whether an address is one that the sender of a packet may ask.
func (s *Server) isResolver(in *openflow.PacketIn, owner *vswitch.Interface, a netip.AddrPort) bool {
	if slices.Contains(s.Addresses, a) && (s.HasWorkload == nil || !s.HasWorkload(in, owner, a.Addr())) {
		return true
	}
	return s.Hijack || s.HasAddress != nil && s.HasAddress(in, owner, a)
}

// workersOnlyTime is how long all queries are left to workers once one has blocked a reader: a
// chain may block after all, or the machine was busy.
const workersOnlyTime = time.Minute

// mayRunOnReader reports whether the reader of the connection may run queries.
func (s *Server) mayRunOnReader(now time.Time) bool {
	return s.FromMemory && now.UnixNano() > s.workersUntil.Load()
}

// readerBlocked takes note that a query has blocked a reader.
func (s *Server) readerBlocked(bridge string, now time.Time) {
	if s.workersUntil.Swap(now.Add(workersOnlyTime).UnixNano()) == 0 {
		log.Infof("Bridge %s: a query kept the reader of the connection for some 100 ms, others are left to workers for a minute", bridge)
	}
}
