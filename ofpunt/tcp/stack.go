// SPDX-License-Identifier: Apache-2.0

// Package tcp terminates TCP connections of peers that may have the same addresses and ports. It knows neither frames
// nor the protocol above TCP. gVisor implements TCP. Package light implements connections with one request and one
// response, if they have a handler ([Stack.Handle]).
//
//	segment, Key, Peer                                     Accept, Conn.Read, Conn.Send
//	   │                                                                ▲ │
//	   ▼                                                                │ ▼
//	Stack.Deliver ─► flow: by Key ─┬► made-up IPv6 packet ─► device ─► gVisor
//	                   ▲           │      ▲                               │
//	                   │           │      └ handover                      │
//	                   │           └► light.Conn ◄─► handler, Request     │
//	   Peer.Send ◄─────┴─ by made-up address ◄── device.WritePackets ◄────┘
//
// A [Key] identifies a connection. Each connection has a made-up IPv6 address in gVisor, so peers with equal addresses
// do not collide.
//
// A flow begins light, with gVisor's SYN-ACK. If it needs more than a request and a response of one segment each,
// gVisor takes over for good (handover.go).
//
// Limits bound the connections of an owner, of a network and of all, the time half open, and the unacknowledged bytes.
// A light connection stores a response of one segment, a handover a window of the peer's data.
//
// gVisor's goroutines also call Peer.Send. A timer starts a goroutine while a light connection owes an
// acknowledgement. Stack.mu guards flows and their counts. No goroutine calls gVisor, a Peer
// or the handler with Stack.mu held. gVisor takes Stack.mu in WritePackets with its own locks held.
package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/puntdns/puntdns/ofpunt/tcp/light"
)

// Limits of a [Stack], in connections.
const (
	// MaxConnections bounds all connections. A network has at most as many as it leaves free.
	MaxConnections = 1024
	// MaxOfOwner is the default limit of an owner's open connections, and half the limit with ended ones. New
	// connections evict ended ones.
	MaxOfOwner = 64
)

const (
	// bytes, above the largest DNS message
	sendBuffer = 160 << 10
	// bytes; gVisor offers half of it as the window
	receiveBuffer = 2 * light.Window
	// bytes; segments of 1,360 bytes fit the 1,442 bytes of an overlay on Ethernet
	mtu = light.MSS + header.TCPMinimumSize + header.IPv6MinimumSize
	// bytes of all connections that wait for send buffers
	maxUnsent = 16 << 20
	// bytes of Conn.Reserve of all connections
	maxReserved = 32 << 20
	// handshakeTimeout also bounds the wait for the peer's FIN after ours.
	handshakeTimeout = 5 * time.Second
	// minSendTimeout applies even after the deadline.
	minSendTimeout = time.Second
	// RFC 9293, section 3.8.3
	userTimeout = light.UserTimeout
	// closeTimeout bounds the time from Close to the end.
	closeTimeout = 10 * time.Second
	// synDelay is gVisor's time to process a SYN.
	synDelay = time.Second
	// short, as made-up addresses are not reused
	timeWait = time.Second
)

const (
	nic  = 1
	port = 53
)

var localAddress = tcpip.AddrFrom16(netip.MustParseAddr("fd00::35").As16())

// Key identifies a connection.
type Key struct {
	// An owner has a limit and is in one network. Link distinguishes an owner's peers with the same addresses. All
	// are comparable.
	Network, Owner, Link any
	// the peer's end, and ours
	Src, Dst netip.AddrPort
}

// Peer sends to the other end of a connection.
type Peer interface {
	// Send sets ports and checksum of a segment, and sends or drops it. It must not block, call the stack, or
	// retain b.
	Send(b []byte)
}

// Stack implements TCP. It is safe for concurrent use.
type Stack struct {
	gvisor      *stack.Stack
	device      *device
	listener    tcpip.Endpoint
	acceptQueue *waiter.Queue // of the listener
	done        chan struct{} // closed by Close

	// mu guards the fields up to all, and fields of flows and counts.
	mu     sync.Mutex
	closed bool
	nextID uint64
	flows  map[Key]*flow
	// also removed flows until abort
	byID     map[uint64]*flow
	owners   map[any]*count
	networks map[any]*count
	all      count

	// arguments of Handle
	handler func(r Request, payload []byte) bool
	reply   func(to Peer, segment []byte)
	// initial sequence numbers of light connections; guarded by mu
	random *rand.ChaCha8
	// acks sends owed acknowledgements while acksRun; mu guards acksRun.
	acks    *time.Timer
	acksRun bool

	// bytes that wait for send buffers
	unsent *budget
	// bytes of Conn.Reserve
	reserved *budget
}

// New returns a stack, which the caller closes. Errors are gVisor's.
func New() (*Stack, error) {
	s := &Stack{
		done:  make(chan struct{}),
		flows: map[Key]*flow{}, byID: map[uint64]*flow{}, owners: map[any]*count{}, networks: map[any]*count{},
		acceptQueue: new(waiter.Queue), unsent: newBudget(maxUnsent), reserved: newBudget(maxReserved),
	}
	s.device = &device{stack: s}
	s.acks = time.AfterFunc(time.Hour, s.sendAcks)
	s.acks.Stop()
	s.gvisor = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := s.listen(); err != nil {
		s.gvisor.Destroy()
		return nil, fmt.Errorf("TCP: %w", err)
	}
	return s, nil
}

func settings() []tcpip.SettableTransportProtocolOption {
	send := tcpip.TCPSendBufferSizeRangeOption{Min: sendBuffer, Default: sendBuffer, Max: sendBuffer}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: receiveBuffer, Default: receiveBuffer, Max: receiveBuffer}
	moderate, wait, linger, retries := tcpip.TCPModerateReceiveBufferOption(false), tcpip.TCPTimeWaitTimeoutOption(timeWait),
		tcpip.TCPLingerTimeoutOption(handshakeTimeout), tcpip.TCPMaxRetriesOption(5)
	return []tcpip.SettableTransportProtocolOption{&send, &receive, &moderate, &wait, &linger, &retries}
}

func (s *Stack) listen() error {
	for _, o := range settings() {
		if err := s.gvisor.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("setting %T: %s", o, err)
		}
	}
	if err := s.gvisor.CreateNIC(nic, s.device); err != nil {
		return errors.New(err.String())
	}
	address := tcpip.ProtocolAddress{Protocol: ipv6.ProtocolNumber, AddressWithPrefix: localAddress.WithPrefix()}
	if err := s.gvisor.AddProtocolAddress(nic, address, stack.AddressProperties{}); err != nil {
		return errors.New(err.String())
	}
	s.gvisor.SetRouteTable([]tcpip.Route{{Destination: header.IPv6EmptySubnet, NIC: nic}})
	ep, err := s.gvisor.NewEndpoint(tcp.ProtocolNumber, ipv6.ProtocolNumber, s.acceptQueue)
	if err != nil {
		return errors.New(err.String())
	}
	timeout := tcpip.TCPUserTimeoutOption(userTimeout)
	if err := ep.SetSockOpt(&timeout); err != nil {
		return errors.New(err.String())
	}
	if err := ep.Bind(tcpip.FullAddress{Addr: localAddress, Port: port}); err != nil {
		return errors.New(err.String())
	}
	// Above MaxConnections there are no SYN cookies, which lose the options.
	if err := ep.Listen(2 * MaxConnections); err != nil {
		return errors.New(err.String())
	}
	s.listener = ep
	return nil
}

// Accept returns the next connection, or [net.ErrClosed] after Close.
func (s *Stack) Accept() (*Conn, error) {
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
	s.acceptQueue.EventRegister(&entry)
	defer s.acceptQueue.EventUnregister(&entry)
	for {
		ep, queue, err := s.listener.Accept(nil)
		switch err.(type) {
		case nil:
			if c := s.accepted(ep, queue); c != nil {
				return c, nil
			}
			ep.Abort()
			ep.Close()
		case *tcpip.ErrWouldBlock:
			select {
			case <-ready:
			case <-s.done:
				return nil, net.ErrClosed
			}
		default:
			return nil, net.ErrClosed
		}
	}
}

// Close ends all connections and waits for gVisor's goroutines. It is idempotent.
func (s *Stack) Close() {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return
	}
	close(s.done)
	s.closeLight()
	s.listener.Close()
	s.gvisor.Destroy()
}

func (s *Stack) deliver(f *flow, segment header.TCP) {
	if segment.Flags().Contains(header.TCPFlagUrg) {
		f.urgent.note(segment)
	}
	b := make([]byte, header.IPv6MinimumSize+len(segment))
	header.IPv6(b).Encode(&header.IPv6Fields{
		PayloadLength: uint16(len(segment)), TransportProtocol: header.TCPProtocolNumber, HopLimit: 64,
		SrcAddr: address(f.id), DstAddr: localAddress,
	})
	t := header.TCP(b[header.IPv6MinimumSize:])
	copy(t, segment)
	t.SetDestinationPort(port)
	if f.shift != 0 {
		shiftAcks(t, f.shift)
	}
	if t.Flags().Contains(header.TCPFlagSyn) {
		rewriteOptions(t)
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
	defer pkt.DecRef()
	s.device.deliver(pkt)
}

// rewriteOptions removes a SYN's timestamps option: gVisor would drop segments from which a middlebox has removed
// them (RFC 7323, section 3.2). It raises an MSS below light.MinMSS.
func rewriteOptions(t header.TCP) {
	for o := range options(t) {
		switch {
		case o[0] == header.TCPOptionTS:
			for i := range o {
				o[i] = header.TCPOptionNOP
			}
		case o[0] == header.TCPOptionMSS && len(o) == header.TCPOptionMSSLength:
			binary.BigEndian.PutUint16(o[2:], max(binary.BigEndian.Uint16(o[2:]), light.MinMSS))
		}
	}
}

// shiftAcks also shifts SACK blocks (RFC 2018, section 3).
func shiftAcks(t header.TCP, by uint32) {
	t.SetAckNumber(t.AckNumber() - by)
	for o := range options(t) {
		if o[0] != header.TCPOptionSACK {
			continue
		}
		for edges := o[2:]; len(edges) >= 4; edges = edges[4:] {
			binary.BigEndian.PutUint32(edges, binary.BigEndian.Uint32(edges)-by)
		}
	}
}

// options yields options with kind and length, without NOPs, up to the first malformed one.
func options(t header.TCP) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for o := t.Options(); len(o) > 0 && o[0] != header.TCPOptionEOL; {
			if o[0] == header.TCPOptionNOP {
				o = o[1:]
				continue
			}
			if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
				return
			}
			n := int(o[1])
			if !yield(o[:n]) {
				return
			}
			o = o[n:]
		}
	}
}
