// SPDX-License-Identifier: Apache-2.0

// Package tcp terminates TCP connections whose segments come one by one, from many peers
// of whom several may have the same addresses and ports. It knows nothing of the
// frames that carry the segments, nor of the protocol above TCP. The implementation of
// TCP is gVisor's, but for connections that bring one request, get one response and are closed:
// package light has these, if there is a handler for their requests ([Stack.Handle]).
//
//	segment, Key, Peer                                     Accept, Conn.Read, Conn.Send
//	   │                                                                ▲ │
//	   ▼                                                                │ ▼
//	Stack.Deliver ─► flow: by Key ─┬► made-up IPv6 packet ─► device ─► gVisor
//	                   ▲           │      ▲                               │
//	                   │           │      └ handover, if that is not all  │
//	                   │           └► light.Conn ◄─► handler, Request     │
//	   Peer.Send ◄─────┴─ by made-up address ◄── device.WritePackets ◄────┘
//
// A connection is known by its [Key]. gVisor gets each with an IPv6 address of its own
// that is made up for it, so it can't mix two of them up, whatever the family of the
// real addresses.
//
// A flow begins light, and is handed over to gVisor as soon as it is more than one request and one
// response of a segment each: handover.go says how. It is never taken back. What the peer was
// promised in the handshake is what gVisor would have promised.
//
// All is bounded: connections of one owner, of one network and in all, how long one may be half
// open, and what is sent and not yet acknowledged. A light connection has a response of one segment
// at most, and one that is handed over holds a window of what the peer sends.
//
// Goroutines are those of gVisor, which also call Peer.Send, one that a timer starts while a light
// connection owes an acknowledgement, and those of the callers. Stack.mu guards flows and their
// counts. It is not held while gVisor is called, since gVisor calls WritePackets with locks of its
// own held, and that takes Stack.mu. Nor is it held while a Peer or the handler is called.
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
	// MaxConnections bounds the connections of all networks; no network has more of them than it leaves free.
	MaxConnections = 1024
	// MaxOfOwner are the open ones of one owner that has no other limit. As many again may
	// be there that this end has closed and gVisor still has, if as many as may be are open.
	// They go as soon as open ones need their room.
	MaxOfOwner = 64
)

const (
	// sendBuffer, in bytes, has room for the largest DNS message and some more. A message
	// for which there is no room waits, see Conn.Send.
	sendBuffer = 160 << 10
	// receiveBuffer, in bytes, is of what the peer sends; gVisor makes half of it the window.
	// Queries are small.
	receiveBuffer = 2 * light.Window
	// mtu, in bytes, is the MTU of the made-up link. Without the made-up IPv6 header of 40 bytes it leaves
	// segments of up to 1,360 bytes, which fit into the 1,442 bytes of an overlay on Ethernet with IPv6 as
	// well as with IPv4.
	mtu = light.MSS + header.TCPMinimumSize + header.IPv6MinimumSize
	// maxUnsent, in bytes, is how much may wait for room in send buffers, of all
	// connections.
	maxUnsent = 16 << 20
	// maxReserved, in bytes, is how much Conn.Reserve gives, to all connections.
	maxReserved = 32 << 20
	// handshakeTimeout bounds the handshake, and the wait for the peer's FIN after ours.
	handshakeTimeout = 5 * time.Second
	// minSendTimeout is the time that a message has for its sending once the messages before it are sent,
	// even after its deadline.
	minSendTimeout = time.Second
	// userTimeout is how long a peer may leave segments unacknowledged (RFC 9293, section
	// 3.8.3).
	userTimeout = light.UserTimeout
	// closeTimeout bounds how long a connection that was closed may take to end.
	closeTimeout = 10 * time.Second
	// synDelay is how long gVisor may take to process a SYN.
	synDelay = time.Second
	// timeWait is short, since a made-up address is not used again.
	timeWait = time.Second
)

const (
	nic  = 1
	port = 53
)

// localAddress is our address in gVisor's stack, of all connections.
var localAddress = tcpip.AddrFrom16(netip.MustParseAddr("fd00::35").As16())

// Key identifies a connection.
type Key struct {
	// Network, Owner and Link are comparable. An owner, who has a limit, is in
	// one network. Link distinguishes peers of one owner that may have the same addresses.
	Network, Owner, Link any
	// Src is the peer's end, Dst ours.
	Src, Dst netip.AddrPort
}

// Peer sends to the other end of a connection.
type Peer interface {
	// Send sends a segment, and fills in the ports and the checksum. It must not block,
	// call the stack, or use b after its return. A segment that can't be sent is lost.
	Send(b []byte)
}

// Stack is a TCP implementation. It is safe for concurrent use.
type Stack struct {
	gvisor      *stack.Stack
	device      *device
	listener    tcpip.Endpoint
	acceptQueue *waiter.Queue // of the listener
	done        chan struct{} // closed by Close

	// mu guards the fields up to all, and the fields of flows and counts that name it.
	mu     sync.Mutex
	closed bool
	nextID uint64
	flows  map[Key]*flow
	// byID also has the flows that were removed and not aborted yet.
	byID     map[uint64]*flow
	owners   map[any]*count
	networks map[any]*count
	all      count

	// handler and reply are the arguments of Handle, which is called before Deliver.
	handler func(r Request, payload []byte) bool
	reply   func(to Peer, segment []byte)
	// random makes the first sequence numbers of light connections. mu guards it.
	random *rand.ChaCha8
	// acks sends what acknowledgements light connections owe. It runs while acksRun is set, which
	// mu guards.
	acks    *time.Timer
	acksRun bool

	// unsent are the bytes that wait for room in send buffers.
	unsent *budget
	// reserved are the bytes of Conn.Reserve.
	reserved *budget
}

// New returns a stack that accepts connections. It has to be closed. Its error is gVisor's.
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

// settings are of all connections.
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
	// With room for more than all connections the listener never falls back to SYN
	// cookies, which lose the options.
	if err := ep.Listen(2 * MaxConnections); err != nil {
		return errors.New(err.String())
	}
	s.listener = ep
	return nil
}

// Accept returns the next connection, and [net.ErrClosed] once the stack is closed.
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

// Close ends all connections and waits until gVisor's goroutines have ended. Only the first
// call does anything.
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

// deliver hands a segment of a flow to gVisor.
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

// rewriteOptions replaces the timestamps option of a SYN by NOPs: once it is negotiated,
// gVisor drops segments without it (RFC 7323, section 3.2), and a middlebox may remove it
// from some. And it raises an MSS that is below light.MinMSS.
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

// shiftAcks lowers the acknowledgements of a segment, also in SACK blocks (RFC 2018, section 3).
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

// options are the options of a segment without NOPs, with kind and length, up to the first broken option.
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
