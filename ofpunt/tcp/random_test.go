// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	gtcp "gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// guestHost is a host with gVisor's TCP, whose segments go to a Stack. It is the Peer of its connections.
type guestHost struct {
	stack *stack.Stack
	link  *channel.Endpoint
	to    *tcp.Stack
	key   tcp.Key
	// trouble, in percent, is how many segments are lost, how many come twice, and how many come late,
	// each way.
	trouble int
	sending sync.WaitGroup
	// mu guards ended, which is set once nothing is to be delivered any more, and sending against
	// additions behind that.
	mu    sync.Mutex
	ended bool
}

// start runs f in a goroutine that the end of the host waits for, if it has not ended.
func (h *guestHost) start(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.sending.Go(f)
	}
}

func (h *guestHost) hasEnded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

func newGuestHost(t *testing.T, to *tcp.Stack, trouble int) *guestHost {
	t.Helper()
	h := &guestHost{
		stack: stack.New(stack.Options{
			NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
			TransportProtocols: []stack.TransportProtocolFactory{gtcp.NewProtocol},
		}),
		link: channel.New(1024, 1500, ""), to: to, trouble: trouble,
		key: tcp.Key{Network: "red", Owner: "vm1", Dst: resolver4},
	}
	h.link.LinkEPCapabilities |= stack.CapabilityRXChecksumOffload
	if err := h.stack.CreateNIC(1, h.link); err != nil {
		t.Fatal(err)
	}
	of := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(guest4.Addr().As4()).WithPrefix()}
	if err := h.stack.AddProtocolAddress(1, of, stack.AddressProperties{}); err != nil {
		t.Fatal(err)
	}
	h.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	ctx, cancel := context.WithCancel(context.Background())
	h.start(func() { h.deliver(ctx) })
	t.Cleanup(func() {
		h.mu.Lock()
		h.ended = true
		h.mu.Unlock()
		cancel()
		h.stack.Destroy()
		h.sending.Wait()
	})
	return h
}

// deliver delivers the segments of the host.
func (h *guestHost) deliver(ctx context.Context) {
	for {
		pkt := h.link.ReadContext(ctx)
		if pkt == nil {
			return
		}
		view := pkt.ToView()
		segment := bytes.Clone(view.AsSlice()[header.IPv4MinimumSize:])
		view.Release()
		pkt.DecRef()
		key := h.key
		key.Src = netip.AddrPortFrom(guest4.Addr(), header.TCP(segment).SourcePort())
		h.pass(func() { h.to.Deliver(key, tcp.MaxOfOwner, &guestPort{h, key}, segment, time.Now()) })
	}
}

// pass has a segment arrive, not at all, twice, or late.
func (h *guestHost) pass(arrive func()) {
	switch n := rand.IntN(300); {
	case n < h.trouble:
	case n < 2*h.trouble:
		arrive()
		arrive()
	case n < 3*h.trouble:
		h.start(func() {
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
			if !h.hasEnded() {
				arrive()
			}
		})
	default:
		arrive()
	}
}

// guestPort is the host as the Peer of one connection.
type guestPort struct {
	host *guestHost
	key  tcp.Key
}

// Send implements tcp.Peer.
func (p *guestPort) Send(segment []byte) {
	b := make([]byte, header.IPv4MinimumSize+len(segment))
	ip := header.IPv4(b)
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(b)), TTL: 64, Protocol: uint8(header.TCPProtocolNumber),
		SrcAddr: tcpip.AddrFrom4(p.key.Dst.Addr().As4()), DstAddr: tcpip.AddrFrom4(p.key.Src.Addr().As4()),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	t := header.TCP(b[header.IPv4MinimumSize:])
	copy(t, segment)
	t.SetSourcePort(p.key.Dst.Port())
	t.SetDestinationPort(p.key.Src.Port())
	h := p.host
	// Not here: whoever sends may hold locks of its own connection.
	h.start(func() {
		h.pass(func() {
			if h.hasEnded() {
				return
			}
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(bytes.Clone(b))})
			defer pkt.DecRef()
			h.link.InjectInbound(header.IPv4ProtocolNumber, pkt)
		})
	})
}

// The protocol of the conversations below: a message is its length in two bytes and a text. A
// request says how late its answer is, in milliseconds, how long, and which it is; the answer
// begins with the last.
const requestLen = 2 + 2 + 2 + 4

func request(late, length uint16, number uint32) []byte {
	b := binary.BigEndian.AppendUint16(nil, requestLen-2)
	b = binary.BigEndian.AppendUint16(b, late)
	b = binary.BigEndian.AppendUint16(b, length)
	return binary.BigEndian.AppendUint32(b, number)
}

// responseTo is the answer to a request.
func responseTo(request []byte) []byte {
	length := max(int(binary.BigEndian.Uint16(request[4:])), 4)
	b := binary.BigEndian.AppendUint16(nil, uint16(length))
	b = append(b, request[6:requestLen]...)
	for i := range length - 4 {
		b = append(b, byte(i)*request[requestLen-1])
	}
	return b
}

// firstRequest is the first request of a connection that began light.
type firstRequest struct{ done chan struct{} }

// answerAll answers requests until the stack is closed.
func answerAll(t *testing.T, s *tcp.Stack) {
	wait := func(request []byte) {
		time.Sleep(time.Duration(binary.BigEndian.Uint16(request[2:])) * time.Millisecond)
	}
	handler := func(r tcp.Request, payload []byte) bool {
		if len(payload) != requestLen {
			return false
		}
		asked, first := bytes.Clone(payload), &firstRequest{make(chan struct{})}
		r.Keep(first)
		go func() {
			defer close(first.done)
			defer r.Done()
			wait(asked)
			_ = r.Send(responseTo(asked), time.Now().Add(patience), tcp.Peer.Send) // the client says what is missing
		}()
		return true
	}
	if beginLight {
		s.Handle(handler, tcp.Peer.Send)
	}
	go serveEach(s, func(conn *tcp.Conn) {
		var open sync.WaitGroup
		if first, ok := conn.TakeRequest().(*firstRequest); ok {
			open.Go(func() { <-first.done })
		}
		for {
			b := make([]byte, requestLen)
			if _, err := io.ReadFull(conn, b); err != nil {
				break
			}
			open.Go(func() {
				wait(b)
				_ = conn.Send(responseTo(b), time.Now().Add(patience))
			})
		}
		open.Wait()
	})
	swept := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(swept)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case now := <-tick.C:
				s.Sweep(now)
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { close(done); <-swept })
}

// converse has one conversation, which has to go as it should.
func converse(h *guestHost, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	conn, err := gonet.DialContextTCP(ctx, h.stack, tcpip.FullAddress{Addr: tcpip.AddrFrom4(resolver4.Addr().As4()), Port: resolver4.Port()}, ipv4.ProtocolNumber)
	if err != nil {
		return fmt.Errorf("dialling: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	requests := 1
	if random.IntN(3) == 0 {
		requests += random.IntN(5)
	}
	missing := map[string]bool{}
	var plan []string
	var pieces [][]byte
	for i := range requests {
		late := []uint16{0, 0, 0, 30, 60, 250}[random.IntN(6)]
		length := []uint16{4, 100, 1300, 1340, 5000, 20000}[random.IntN(6)]
		b := request(late, length, uint32(i+1))
		missing[string(responseTo(b))] = true
		plan = append(plan, fmt.Sprintf("%d bytes after %d ms", length, late))
		pieces = append(pieces, b)
	}
	if random.IntN(3) == 0 { // together
		pieces = [][]byte{slices.Concat(pieces...)}
	}
	if random.IntN(4) == 0 { // cut somewhere
		all := slices.Concat(pieces...)
		at := 1 + random.IntN(len(all)-1)
		pieces = [][]byte{all[:at], all[at:]}
	}
	ends := random.IntN(3) == 0
	fail := func(err error) error {
		return fmt.Errorf("%w: requests for %q, written in %d pieces, closes its side %v, %d answers are missing", err, plan, len(pieces), ends, len(missing))
	}
	pause := time.Duration(random.IntN(2)*random.IntN(400)) * time.Millisecond
	written := make(chan error, 1)
	go func() {
		for _, p := range pieces {
			if random.IntN(4) == 0 {
				time.Sleep(pause)
			}
			if _, err := conn.Write(p); err != nil {
				written <- err
				return
			}
		}
		if ends {
			_ = conn.CloseWrite() // what follows says whether it did
		}
		written <- nil
	}()
	for range requests {
		b := make([]byte, 2)
		if _, err := io.ReadFull(conn, b); err != nil {
			return fail(fmt.Errorf("reading a length: %w", err))
		}
		b = append(b, make([]byte, binary.BigEndian.Uint16(b))...)
		if _, err := io.ReadFull(conn, b[2:]); err != nil {
			return fail(fmt.Errorf("reading %d bytes: %w", len(b)-2, err))
		}
		if !missing[string(b)] {
			return fail(fmt.Errorf("%d bytes that nobody has asked for, or that have come before", len(b)))
		}
		delete(missing, string(b))
	}
	if err := <-written; err != nil {
		return fail(fmt.Errorf("writing: %w", err))
	}
	if ends {
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return fail(fmt.Errorf("behind all answers: %d bytes, %w", n, err))
		}
	}
	return nil
}

// For all actions of clients and all losses of segments, each request gets its answer once, and a client that
// closes its side gets the end after all answers.
func TestRandomConversations(t *testing.T) {
	for _, trouble := range []int{0, 3, 9} {
		t.Run(fmt.Sprintf("%d percent of trouble", trouble), func(t *testing.T) {
			t.Parallel()
			s, err := tcp.New()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			answerAll(t, s)
			h := newGuestHost(t, s, trouble)
			var conversing sync.WaitGroup
			for range 16 {
				conversing.Go(func() {
					for range 8 {
						seed := rand.Uint64()
						if err := converse(h, rand.New(rand.NewPCG(seed, 0))); err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
					}
				})
			}
			conversing.Wait()
		})
	}
}
