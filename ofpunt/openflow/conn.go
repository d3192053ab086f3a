// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the options of a connection. The zero value is usable, but for
// the controller id: 0 is that of OVN and of every connection that sets none.
type Options struct {
	// ControllerID is what a Controller2 must carry for its packet-ins to
	// come here.
	ControllerID uint16
	// Versions are those that may be negotiated; the protocol picks the
	// highest that the switch has too. The default is 1.5 and 1.3.
	Versions []Version
	// EchoInterval is the silence after which the switch is asked whether it
	// lives. The default is 5 s.
	EchoInterval time.Duration
	// Timeout bounds the handshake, the wait for a sign of life after an echo
	// request, and each write. The default is 5 s.
	Timeout time.Duration
}

// Handler says what to do with what the switch sends unasked. Its functions
// are called one at a time, on a reader's goroutine but for TaskLasts; they must
// not block, nor wait for a reply from the switch. Those that are nil are not called.
type Handler struct {
	// PacketIn gets a packet-in and the message that it was decoded from,
	// which AppendResume takes. Both are valid during the call only.
	PacketIn func(p *PacketIn, msg []byte)
	// FlowUpdate gets the events of flow monitors.
	FlowUpdate func(u FlowUpdate)
	// PortStatus gets ports that come and go.
	PortStatus func(s PortStatus)
	// TaskLasts gets a task that has kept the reader for so long that another
	// goroutine reads on. It is called on the goroutine of Serve.
	TaskLasts func(t Task)
	// SwitchError gets errors that belong to no request that waits, such as
	// those about a packet-out.
	SwitchError func(e *SwitchError)
	// Malformed gets the error about a packet-in that could not be decoded
	// and was skipped.
	Malformed func(err error)
}

// ErrQueueFull is returned when the switch does not take messages as fast as
// they are written.
var ErrQueueFull = errors.New("write queue of the OpenFlow connection is full")

// maxQueued bounds the bytes that wait to be written: some 10,000 packet-outs.
const maxQueued = 4 << 20

// readBuffer holds at least one message of any length.
const readBuffer = 1 << 16

// Conn is a connection to a bridge of Open vSwitch. Its methods may be called
// from any goroutine, but for ReadAt and Then.
type Conn struct {
	nc       *socket
	version  Version
	datapath uint64
	echo     time.Duration
	timeout  time.Duration
	xid      atomic.Uint32

	// The reader's: that of NewConn, then those of Serve, one at a time.
	buf        []byte
	start, end int
	readAt     time.Time
	early      [][]byte // packet-ins that came during the handshake
	pin        PacketIn
	handler    Handler
	task       Task          // that a handler has left
	doing      Task          // the last that was begun
	tasks      uint64        // how many there were
	running    atomic.Uint64 // the number of the task that the reader does, 0 without one
	served     chan error    // why the last of the readers ended

	// The writers'.
	queueMu sync.Mutex
	queue   []byte
	writing bool          // somebody writes, and takes what is queued along
	spare   []byte        // room for the next queue, the writing one's
	drained chan struct{} // closed when somebody takes the queue, nil if nobody waits for that
	wake    chan struct{}
	writer  sync.WaitGroup

	applying chan struct{} // holds a token while a bundle is open

	mu       sync.Mutex
	calls    []*call
	monitors map[uint32]bool
	reason   error
	done     chan struct{} // closed when reason is set
}

// NewConn makes a connection of nc, which it owns from then on: on an error it
// closes it. When it returns, the version has been negotiated and the switch
// has accepted the format and the controller id of packet-ins. A refusal is a
// *SwitchError.
func NewConn(ctx context.Context, nc net.Conn, o Options) (*Conn, error) {
	c := &Conn{
		nc:       newSocket(nc),
		echo:     o.EchoInterval,
		timeout:  o.Timeout,
		buf:      make([]byte, readBuffer),
		served:   make(chan error, 1),
		wake:     make(chan struct{}, 1),
		applying: make(chan struct{}, 1),
		monitors: map[uint32]bool{},
		done:     make(chan struct{}),
	}
	if c.echo <= 0 {
		c.echo = 5 * time.Second
	}
	if c.timeout <= 0 {
		c.timeout = 5 * time.Second
	}
	if len(o.Versions) == 0 {
		o.Versions = []Version{V15, V13}
	}
	for _, v := range o.Versions {
		if v != V13 && v != V15 {
			nc.Close()
			return nil, fmt.Errorf("openflow: %v is not supported", v)
		}
	}
	if err := c.handshake(ctx, o); err != nil {
		nc.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("openflow handshake with %v: %w", nc.RemoteAddr(), err)
	}
	c.startWriter()
	return c, nil
}

// Version returns the version that was negotiated.
func (c *Conn) Version() Version { return c.version }

// DatapathID returns the datapath id of the bridge.
func (c *Conn) DatapathID() uint64 { return c.datapath }

// NextXID returns a transaction id that is not in use, never 0.
func (c *Conn) NextXID() uint32 { return c.reserve(1) }

// reserve returns the first of n consecutive transaction ids.
func (c *Conn) reserve(n int) uint32 {
	for {
		last := c.xid.Add(uint32(n))
		if first := last - uint32(n) + 1; first != 0 && first <= last {
			return first
		}
	}
}

// Close ends the connection and waits for its writer. Messages that are still
// queued are lost; Barrier tells when the switch has had them.
func (c *Conn) Close() error {
	c.fail(fmt.Errorf("openflow: %w", net.ErrClosed))
	c.writer.Wait()
	return nil
}

// fail ends the connection with a reason, unless it has ended before.
func (c *Conn) fail(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != nil {
		return
	}
	c.reason = reason
	close(c.done)
	c.nc.Close()
}

// next returns the next whole message of the buffer, or nil. It is valid until
// the buffer is filled again.
func (c *Conn) next() ([]byte, error) {
	b := c.buf[c.start:c.end]
	if len(b) < headerLen {
		return nil, nil
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	if len(b) < h.length {
		return nil, nil
	}
	c.start += h.length
	return b[:h.length:h.length], nil
}

// fill reads more into the buffer, and asks the switch for a sign of life when
// there is nothing for too long.
func (c *Conn) fill() error {
	c.end = copy(c.buf, c.buf[c.start:c.end])
	c.start = 0
	for wait, asked := c.echo, false; ; wait, asked = c.timeout, true {
		if err := c.nc.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return fmt.Errorf("openflow: %w", err)
		}
		n, err := c.nc.Read(c.buf[c.end:])
		c.end += n
		switch {
		case n > 0:
			c.readAt = time.Now()
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("openflow: reading: %w", err)
		case asked:
			return fmt.Errorf("openflow: the switch did not answer an echo request within %v", c.timeout)
		}
		if err := c.writeEcho(appendEmpty(nil, c.version, typeEchoRequest, c.NextXID())); err != nil {
			return err
		}
	}
}

// writeEcho writes an echo request or reply. One that finds no room is left out: what
// waits to be written is a sign of life to the switch, and if that does not take it, the
// writer gives up in time.
func (c *Conn) writeEcho(msg []byte) error {
	if err := c.Write(msg); !errors.Is(err, ErrQueueFull) {
		return err
	}
	return nil
}

// dispatch handles one message. An error ends the connection.
func (c *Conn) dispatch(msg []byte, h *Handler) error {
	hd, err := parseHeader(msg)
	if err != nil {
		return err
	}
	if hd.version != c.version && hd.typ != typeError {
		return malformed("message of type %d in %v, not %v", hd.typ, hd.version, c.version)
	}
	switch hd.typ {
	case typeExperimenter:
		return c.experimenter(hd, msg, h)
	case typeEchoRequest:
		return c.writeEcho(appendEchoReply(nil, msg))
	case typeError:
		return c.switchError(msg, h)
	case typeMultipartReply:
		return c.multipartReply(hd, msg, h)
	case typePortStatus:
		return c.portStatus(msg, h)
	case typeBarrierReply, typeBundleControl:
		return c.reply(hd, msg)
	}
	return nil
}

// switchError gives an error to the request that it is about, or to the handler.
func (c *Conn) switchError(msg []byte, h *Handler) error {
	e, err := decodeError(msg)
	if err != nil {
		return err
	}
	if !c.refused(e) && h.SwitchError != nil {
		h.SwitchError(e)
	}
	return nil
}

// multipartReply gives the events of a flow monitor to the handler, which come as
// replies too when nobody asks, and the reply to the request that waits for it.
func (c *Conn) multipartReply(hd header, msg []byte, h *Handler) error {
	typ, body, _, err := multipartBody(msg)
	if err != nil {
		return err
	}
	if updates, ok := monitorBody(c.version, typ, body); ok {
		if err := c.flowUpdates(hd, updates, h); err != nil {
			return err
		}
	}
	return c.reply(hd, msg)
}

func (c *Conn) portStatus(msg []byte, h *Handler) error {
	s, ok, err := decodePortStatus(msg, c.version)
	if err != nil {
		return err
	}
	if ok && h.PortStatus != nil {
		h.PortStatus(s)
	}
	return nil
}

func (c *Conn) experimenter(hd header, msg []byte, h *Handler) error {
	if isPacketIn2(msg) {
		if err := c.pin.Decode(msg); err != nil {
			if h.Malformed != nil {
				h.Malformed(err)
			}
		} else if h.PacketIn != nil {
			h.PacketIn(&c.pin, msg)
		}
		return nil
	}
	if len(msg) < 16 || be.Uint32(msg[8:]) != experimenterONF {
		return nil
	}
	switch be.Uint32(msg[12:]) {
	case onfFlowMonitorPaused:
		if h.FlowUpdate != nil {
			h.FlowUpdate(FlowUpdate{Event: FlowPaused})
		}
	case onfFlowMonitorResumed:
		if h.FlowUpdate != nil {
			h.FlowUpdate(FlowUpdate{Event: FlowResumed})
		}
	case onfBundleControl:
		return c.reply(hd, msg)
	}
	return nil
}

func (c *Conn) flowUpdates(hd header, body []byte, h *Handler) error {
	if h.FlowUpdate == nil {
		return nil
	}
	return decodeFlowUpdates(body, c.version, func(u FlowUpdate) {
		if hd.xid != 0 && u.Event == FlowAdded {
			u.Event = FlowInitial // a reply, which 1.3 does not tell from an update
		}
		h.FlowUpdate(u)
	})
}
