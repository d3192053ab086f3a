// SPDX-License-Identifier: Apache-2.0

// Package tcp ends TCP connections whose segments come one by one, from many peers
// of whom several may have the same addresses and ports. It knows nothing of the
// frames that carry the segments, nor of what is said on a connection. The protocol
// itself is gVisor's.
//
// A connection is known by its [Key]. gVisor sees each under an IPv6 address of its
// own, made up for it, and so can't mix two of them up, whatever the family of the
// real addresses.
//
// All is bounded: connections of one owner, of one network and in all, how long one may
// be half open, and what is sent and not yet acknowledged.
package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
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
)

// Limits of a [Stack], in connections.
const (
	// MaxConnections are those of all; no network has more of them than it leaves free.
	MaxConnections = 1024
	// MaxOfOwner are the open ones of one owner.
	MaxOfOwner = 64
	// maxEnded are those of one owner that this end has closed and gVisor still has, if
	// as many as may be are open. They go as soon as open ones need their room.
	maxEnded = MaxOfOwner
)

const (
	// sendBuffer, in bytes, has room for the largest DNS message and some more:
	// who reads so slowly that it fills loses the connection.
	sendBuffer = 160 << 10
	// receiveBuffer, in bytes: queries are small, and what does not fit waits with
	// the peer.
	receiveBuffer = 16 << 10
	// mtu, in bytes, of the made-up link: with the IPv6 header of 40 bytes that
	// gVisor reckons with it gives segments of up to 1,360 bytes, which fit into the
	// 1,442 of an overlay on Ethernet with IPv6 as well as with IPv4.
	mtu = 1400
	// maxHeld, in bytes, is how much may wait for room, of all connections.
	maxHeld = 16 << 20
	// maxReading, in bytes, is what may be reserved for what is read.
	maxReading = 32 << 20
	// halfOpen is how long the handshake may take, and the peer's FIN behind ours.
	halfOpen = 5 * time.Second
	// leastWait is how long what is sent may wait for room once its turn has come, even if
	// others before it have taken all of its time.
	leastWait = time.Second
	// unacknowledged is how long a peer may leave segments without an answer.
	unacknowledged = 10 * time.Second
	// closing bounds how long a connection that was closed may take to end.
	closing = 10 * time.Second
	// settled is how long gVisor may take to look at a SYN.
	settled = time.Second
	// leastMSS, in bytes, is what a peer without the option has (RFC 9293, section
	// 3.7.1). A lower one would turn an answer into thousands of segments.
	leastMSS = 536
	// timeWait is short, since a made-up address is not used again.
	timeWait = time.Second
)

const (
	nic  = 1
	port = 53
)

// own is the address that all segments are for.
var own = tcpip.AddrFrom16(netip.MustParseAddr("fd00::35").As16())

// Key tells connections apart.
type Key struct {
	// Network, Owner and Link are comparable. The limit MaxOfOwner is the owner's, who is
	// in the network; Link tells apart those of one owner that may have the same
	// addresses.
	Network, Owner, Link any
	// Src is the peer's end, Dst ours.
	Src, Dst netip.AddrPort
}

// Peer is the way to the other end of a connection.
type Peer interface {
	// Send sends a segment, with the ports and the checksum left to fill in. It must
	// not wait, nor call the stack, nor keep b; what can't be sent is lost.
	Send(b []byte)
}

// Stack is a TCP implementation. It is safe for concurrent use.
type Stack struct {
	gvisor   *stack.Stack
	device   *device
	listener tcpip.Endpoint
	wait     *waiter.Queue
	done     chan struct{}

	mu       sync.Mutex
	closed   bool
	nextID   uint64
	flows    map[Key]*flow
	byID     map[uint64]*flow
	owners   map[any]*count
	networks map[any]*count
	all      count

	// waiting are the bytes that peers leave no room for.
	waiting *budget
	// reading are the bytes of long messages.
	reading *budget
}

// New returns a stack that accepts connections. It has to be closed.
func New() (*Stack, error) {
	s := &Stack{
		done:  make(chan struct{}),
		flows: map[Key]*flow{}, byID: map[uint64]*flow{}, owners: map[any]*count{}, networks: map[any]*count{},
		wait: new(waiter.Queue), waiting: newBudget(maxHeld), reading: newBudget(maxReading),
	}
	s.device = &device{stack: s}
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

// options are of all connections.
func options() []tcpip.SettableTransportProtocolOption {
	send := tcpip.TCPSendBufferSizeRangeOption{Min: sendBuffer, Default: sendBuffer, Max: sendBuffer}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: receiveBuffer, Default: receiveBuffer, Max: receiveBuffer}
	moderate, wait, linger, retries := tcpip.TCPModerateReceiveBufferOption(false), tcpip.TCPTimeWaitTimeoutOption(timeWait),
		tcpip.TCPLingerTimeoutOption(halfOpen), tcpip.TCPMaxRetriesOption(5)
	return []tcpip.SettableTransportProtocolOption{&send, &receive, &moderate, &wait, &linger, &retries}
}

func (s *Stack) listen() error {
	for _, o := range options() {
		if err := s.gvisor.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("setting %T: %s", o, err)
		}
	}
	if err := s.gvisor.CreateNIC(nic, s.device); err != nil {
		return errors.New(err.String())
	}
	address := tcpip.ProtocolAddress{Protocol: ipv6.ProtocolNumber, AddressWithPrefix: own.WithPrefix()}
	if err := s.gvisor.AddProtocolAddress(nic, address, stack.AddressProperties{}); err != nil {
		return errors.New(err.String())
	}
	s.gvisor.SetRouteTable([]tcpip.Route{{Destination: header.IPv6EmptySubnet, NIC: nic}})
	ep, err := s.gvisor.NewEndpoint(tcp.ProtocolNumber, ipv6.ProtocolNumber, s.wait)
	if err != nil {
		return errors.New(err.String())
	}
	timeout := tcpip.TCPUserTimeoutOption(unacknowledged)
	if err := ep.SetSockOpt(&timeout); err != nil {
		return errors.New(err.String())
	}
	if err := ep.Bind(tcpip.FullAddress{Addr: own, Port: port}); err != nil {
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
	s.wait.EventRegister(&entry)
	defer s.wait.EventUnregister(&entry)
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

// Close ends all connections and waits until nothing runs any more.
func (s *Stack) Close() {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return
	}
	close(s.done)
	s.listener.Close()
	s.gvisor.Destroy()
}

// deliver hands a segment of a flow to gVisor.
func (s *Stack) deliver(id uint64, segment []byte) {
	b := make([]byte, header.IPv6MinimumSize+len(segment))
	header.IPv6(b).Encode(&header.IPv6Fields{
		PayloadLength: uint16(len(segment)), TransportProtocol: header.TCPProtocolNumber, HopLimit: 64,
		SrcAddr: address(id), DstAddr: own,
	})
	t := header.TCP(b[header.IPv6MinimumSize:])
	copy(t, segment)
	t.SetDestinationPort(port)
	if t.Flags().Contains(header.TCPFlagSyn) {
		mendOptions(t)
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
	defer pkt.DecRef()
	s.device.deliver(pkt)
}

// mendOptions replaces the timestamps option of a SYN by NOPs: once it is agreed on,
// gVisor drops a segment without it (RFC 7323, section 3.2), and what stands between a
// guest and us may take it out. And it raises an MSS that is too low.
func mendOptions(t header.TCP) {
	const end, nop = header.TCPOptionEOL, header.TCPOptionNOP
	for o := t.Options(); len(o) > 0 && o[0] != end; {
		if o[0] == nop {
			o = o[1:]
			continue
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			return
		}
		n := int(o[1])
		switch {
		case o[0] == header.TCPOptionTS:
			for i := range n {
				o[i] = nop
			}
		case o[0] == header.TCPOptionMSS && n == header.TCPOptionMSSLength:
			binary.BigEndian.PutUint16(o[2:], max(binary.BigEndian.Uint16(o[2:]), leastMSS))
		}
		o = o[n:]
	}
}
