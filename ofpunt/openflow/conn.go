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

// Options are the options of a connection. The zero value is usable, apart from the controller id: OVN, and
// each connection that sets none, has 0.
type Options struct {
	// ControllerID is the id of the Controller2 actions whose packet-ins come here.
	ControllerID uint16
	// Versions are those that may be negotiated; the protocol picks the
	// highest that the switch has too. The default is 1.5 and 1.3.
	Versions []Version
	// EchoInterval is the silence after which the switch is sent an echo request.
	// The default is 5 s.
	EchoInterval time.Duration
	// Timeout bounds the further silence after an echo request, and each write. The
	// default is 5 s.
	Timeout time.Duration
	// Yield has the goroutines run that have got work of a batch of messages, see
	// [Conn.NoteDispatched]. The default is runtime.Gosched.
	Yield func()
}

// Handler has the functions for what the switch sends on its own. The reader calls them,
// one at a time, except for SlowTask. They must not block, nor wait for a reply from the
// switch. Those that are nil are not called.
type Handler struct {
	// PacketIn gets a packet-in, whose slices are valid during the call only.
	PacketIn func(p *PacketIn)
	// FlowUpdate gets the events of flow monitors.
	FlowUpdate func(u FlowUpdate)
	// PortStatus gets ports that are added and deleted.
	PortStatus func(s PortStatus)
	// SlowTask gets a task that has blocked the reader for so long that another
	// goroutine becomes the reader. It is called on the goroutine of Serve.
	SlowTask func(t Task)
	// SwitchError gets errors that belong to no request that waits, such as
	// those about a packet-out.
	SwitchError func(e *SwitchError)
	// Malformed gets the error about a packet-in that could not be decoded
	// and was skipped.
	Malformed func(err error)
}

// ErrQueueFull is the error of a write while the switch reads too slowly, and too much
// is queued.
var ErrQueueFull = errors.New("write queue of the OpenFlow connection is full")

// ErrNoEcho ends a connection whose switch gives no sign of life.
var ErrNoEcho = errors.New("no reply to an echo request")

// maxQueued bounds the queue, in bytes: some 10,000 packet-outs.
const maxQueued = 4 << 20

// readBuffer, in bytes, has room for at least one message of any length.
const readBuffer = 1 << 16

// Conn is a connection to a bridge of Open vSwitch. Any goroutine may call its methods, except for ReadAt and
// Then.
type Conn struct {
	nc       *socket
	version  Version
	datapath uint64
	echo     time.Duration
	timeout  time.Duration
	xid      atomic.Uint32

	// Only the reader uses these, except for running, handed and readEnd.
	buf         []byte
	start, end  int       // what is not handled yet of buf
	readAt      time.Time // when fill last filled buf, zero before Serve
	early       [][]byte  // packet-ins that came during the handshake
	pin         PacketIn  // the last one that was decoded
	handler     Handler
	nextTask    Task          // that a handler has left, nil without one
	currentTask Task          // the last that was started
	tasks       uint64        // how many were started
	running     atomic.Uint64 // the number of the task that the reader runs, 0 without one
	handed      atomic.Bool   // another goroutine has got work since the last read; see NoteDispatched
	yield       func()        // that of Options
	readEnd     chan error    // gets the error of the last reader

	// queueMu guards the fields up to drained.
	queueMu sync.Mutex
	queue   []byte
	writing bool          // a goroutine writes, and will write what is queued meanwhile
	spare   []byte        // the memory of the next queue; nil while the last batch is written
	drained chan struct{} // closed when the queue is next empty, nil if nobody waits for that
	wake    chan struct{} // wakes the writer
	writer  sync.WaitGroup

	applying chan struct{} // has an element while a bundle is open

	// mu guards the fields up to reason.
	mu       sync.Mutex
	calls    []*call
	monitors map[uint32]bool // by id; ids are not used twice
	reason   error           // of the end, nil before; to be read without mu after done
	done     chan struct{}   // closed when reason is set
}

// NewConn makes the OpenFlow connection on nc, which it owns from then on: on an error it
// closes nc. When it returns, the version is negotiated and the switch
// has accepted the format and the controller id of packet-ins. If the switch refuses one,
// the error wraps a *SwitchError. ctx alone bounds how long NewConn waits for the switch.
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
// queued are lost; after Barrier the switch has processed them. The error is nil.
func (c *Conn) Close() error {
	c.fail(fmt.Errorf("openflow: %w", net.ErrClosed))
	c.writer.Wait()
	return nil
}

// fail ends the connection with a reason, unless it has ended already.
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

// fillNow reads what there is into the buffer, and does not block. It reports whether that was anything. ReadAt
// stays, as all that is written in one go is of one read for those who bound how long the reader may be busy.
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

// fill reads more into the buffer. After EchoInterval without bytes it sends an echo
// request, and after Timeout it returns an error.
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

// writeEcho writes an echo request or reply. If the queue is full, it is left out: other
// messages show the switch that we are alive. If the switch does not read them, the writer
// ends the connection at its timeout.
func (c *Conn) writeEcho(msg []byte) error {
	if err := c.Write(msg, Soon, false); !errors.Is(err, ErrQueueFull) {
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
	if hd.typ != typeExperimenter {
		c.NoteDispatched() // a reply or an event is for another goroutine
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

// switchError passes an error to the request that it is about, or to the handler.
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

// multipartReply passes the events of a flow monitor to the handler, and the reply to the
// request that waits for it. Such events come as multipart replies too, without a request.
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
			u.Event = FlowInitial // a reply, which 1.3 does not tell from an update
		}
		h.FlowUpdate(u)
	})
}
