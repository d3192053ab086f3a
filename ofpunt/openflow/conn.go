// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a connection. The zero value is usable except for ControllerID: OVN has 0 too.
type Options struct {
	// ControllerID selects the packet-ins of Controller2 actions.
	ControllerID uint16
	// Versions to negotiate: the highest common version wins. The default is 1.5 and 1.3.
	Versions []Version
	// EchoInterval is the silence before an echo request, by default 5 s.
	EchoInterval time.Duration
	// Timeout of an echo reply, and of each write; by default 5 s.
	Timeout time.Duration
	// Yield lets dispatched work run, see [Conn.NoteDispatched]. The default is runtime.Gosched.
	Yield func()
}

// Handler has optional callbacks for messages without a request. The reader calls them one at a time, except for
// SlowTask. They must not block or wait for a reply.
type Handler struct {
	// PacketIn gets a packet-in with slices valid during the call.
	PacketIn   func(p *PacketIn)
	FlowUpdate func(u FlowUpdate)
	PortStatus func(s PortStatus)
	// SlowTask gets a task that blocks the reader, which is then replaced. The goroutine of Serve calls it.
	SlowTask func(t Task)
	// Go runs the next reader on another goroutine. The default starts one.
	Go func(read func())
	// SwitchError gets errors without a waiting request.
	SwitchError func(e *SwitchError)
	// Malformed gets the error of a skipped packet-in.
	Malformed func(err error)
}

// ErrQueueFull is the error of a write above the queue's limit.
var ErrQueueFull = errors.New("write queue of the OpenFlow connection is full")

// ErrNoEcho ends a connection without an echo reply.
var ErrNoEcho = errors.New("no reply to an echo request")

// maxQueued bounds the queue in bytes: some 10,000 packet-outs.
const maxQueued = 4 << 20

// readBuffer, in bytes, holds any message.
const readBuffer = 1 << 16

// Conn is an OpenFlow connection to a bridge. It is safe for concurrent use, except for ReadAt and RunAfterRead.
type Conn struct {
	nc       *socket
	version  Version
	datapath uint64
	echo     time.Duration
	timeout  time.Duration
	xid      atomic.Uint32

	// Only the reader uses these, except for running, handed and readEnd.
	buf         []byte
	start, end  int       // unhandled bytes of buf
	readAt      time.Time // when fill last filled buf, zero before Serve
	early       [][]byte  // packet-ins of the handshake
	pin         PacketIn  // the last decoded
	handler     Handler
	nextTask    Task // nil for none
	currentTask Task
	tasks       uint64        // tasks started
	running     atomic.Uint64 // number of the reader's task, 0 for none
	handed      atomic.Bool   // see NoteDispatched
	yield       func()
	readEnd     chan error // gets the last reader's error

	// queueMu guards the fields up to drained.
	queueMu sync.Mutex
	queue   []byte
	writing bool
	spare   []byte        // memory of the next queue; nil during a write
	drained chan struct{} // closed when the queue is next empty, nil without a waiter
	wake    chan struct{}
	writer  sync.WaitGroup

	applying chan struct{} // has an element while a bundle is open

	// mu guards the fields up to reason.
	mu       sync.Mutex
	calls    []*call
	monitors map[uint32]bool // ids are not reused
	reason   error           // of the end; readable without mu after done
	done     chan struct{}
}

// NewConn performs the handshake on nc, which it owns and closes on an error. ctx alone bounds it. If the switch
// refuses the packet-in format or controller id, the error wraps a *SwitchError.
func NewConn(ctx context.Context, nc net.Conn, o Options) (*Conn, error) {
	c := &Conn{
		nc:       newSocket(nc),
		echo:     o.EchoInterval,
		timeout:  o.Timeout,
		buf:      make([]byte, readBuffer),
		readEnd:  make(chan error, 1),
		yield:    o.Yield,
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
	if c.yield == nil {
		c.yield = runtime.Gosched
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

// Version returns the negotiated version.
func (c *Conn) Version() Version { return c.version }

// DatapathID returns the datapath id of the bridge.
func (c *Conn) DatapathID() uint64 { return c.datapath }

// NextXID returns an unused transaction id, never 0.
func (c *Conn) NextXID() uint32 { return c.reserve(1) }

// reserve returns the first of n consecutive ids.
func (c *Conn) reserve(n int) uint32 {
	for {
		last := c.xid.Add(uint32(n))
		if first := last - uint32(n) + 1; first != 0 && first <= last {
			return first
		}
	}
}

// Close ends the connection and waits for its writer. Use Barrier before to flush queued messages. The error is
// nil.
func (c *Conn) Close() error {
	c.fail(fmt.Errorf("openflow: %w", net.ErrClosed))
	c.writer.Wait()
	return nil
}

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

// next returns the next whole message, or nil. It is valid until the next fill.
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

// fillNow reads without blocking and reports whether it has read anything. It keeps ReadAt, whose callers bound the
// time until replies are written.
func (c *Conn) fillNow() bool {
	if !c.nc.canTry() {
		return false
	}
	c.end = copy(c.buf, c.buf[c.start:c.end])
	c.start = 0
	n := c.nc.tryRead(c.buf[c.end:])
	c.end += n
	return n > 0
}

// fill reads. After EchoInterval it sends an echo request, and after Timeout it returns an error.
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
		case asked && c.fillNow(): // see unread
			c.readAt = time.Now()
			return nil
		case asked:
			return fmt.Errorf("openflow: %w within %v", ErrNoEcho, c.timeout)
		}
		if err := c.writeEcho(appendEmpty(nil, c.version, typeEchoRequest, c.NextXID())); err != nil {
			return err
		}
	}
}

// writeEcho skips the echo if the queue is full: queued messages show that we are alive.
func (c *Conn) writeEcho(msg []byte) error {
	if err := c.Write(msg, Soon, false); !errors.Is(err, ErrQueueFull) {
		return err
	}
	return nil
}

// An error of dispatch ends the connection.
func (c *Conn) dispatch(msg []byte, h *Handler) error {
	hd, err := parseHeader(msg)
	if err != nil {
		return err
	}
	if hd.version != c.version && hd.typ != typeError {
		return malformed("message of type %d in %v, not %v", hd.typ, hd.version, c.version)
	}
	if hd.typ != typeExperimenter {
		c.NoteDispatched() // replies and events are for other goroutines
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

// Flow monitor events are multipart replies without a request.
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
			h.PacketIn(&c.pin)
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
			u.Event = FlowInitial // 1.3 does not distinguish initial flows
		}
		h.FlowUpdate(u)
	})
}
