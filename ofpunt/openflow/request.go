// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxReply bounds the joined parts of a multipart reply, in bytes. A flow is
// some 200 bytes.
const maxReply = 64 << 20

// sendChunk, in bytes, is how much of a bundle is encoded before it is queued.
const sendChunk = 1 << 16

// call is a request that waits for its reply, of one message or several. The reader calls
// its functions, which report whether the call is complete.
type call struct {
	first, n uint32 // its transaction ids
	monitor  bool   // it is for a flow monitor, see refused
	reply    func(hd header, msg []byte) (bool, error)
	refused  func(e *SwitchError) (bool, error)
	result   chan error
}

func (k *call) owns(xid uint32) bool { return xid-k.first < k.n }

// begin registers a call for its replies. The error is the reason of the connection's end.
func (c *Conn) begin(k *call) error {
	k.result = make(chan error, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != nil {
		return c.reason
	}
	c.calls = append(c.calls, k)
	return nil
}

// forget unregisters a call.
func (c *Conn) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.calls, k); i >= 0 {
		c.calls = slices.Delete(c.calls, i, i+1)
	}
}

// unread is how much longer than the deadline a call waits: a process that was stopped and continues finds
// its deadlines over, and replies that it has not read.
const unread = 500 * time.Millisecond

// wait waits for the end of a call.
func (c *Conn) wait(ctx context.Context, k *call) error {
	var late <-chan time.Time
	over := ctx.Done()
	for {
		select {
		case err := <-k.result:
			return err
		case <-c.done:
			return c.reason
		case <-late:
			return context.Cause(ctx)
		case <-over:
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
			over, late = nil, time.After(unread)
		}
	}
}

// do sends the messages of a call and waits for its end.
func (c *Conn) do(ctx context.Context, k *call, b []byte) error {
	if err := c.begin(k); err != nil {
		return err
	}
	defer c.forget(k)
	if err := c.send(ctx, b); err != nil {
		return err
	}
	return c.wait(ctx, k)
}

func (c *Conn) find(match func(k *call) bool) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.calls, match); i >= 0 {
		return c.calls[i]
	}
	return nil
}

// reply passes a message to the call that waits for it, if any.
func (c *Conn) reply(hd header, msg []byte) error {
	k := c.find(func(k *call) bool { return k.owns(hd.xid) })
	if k == nil {
		return nil
	}
	if done, err := k.reply(hd, msg); done {
		k.finish(err)
	}
	return nil
}

// refused passes an error to the call that it belongs to, and reports whether there is one.
func (c *Conn) refused(e *SwitchError) bool {
	var k *call
	if e.Version != c.version {
		// Open vSwitch answers a refused flow monitor from the wrong bytes:
		// version and xid are arbitrary.
		k = c.find(func(k *call) bool { return k.monitor })
	}
	if k == nil {
		k = c.find(func(k *call) bool { return k.owns(e.XID) })
	}
	if k == nil {
		return false
	}
	if done, err := k.refused(e); done {
		k.finish(err)
	}
	return true
}

// finish ends a call; a second end has no effect.
func (k *call) finish(err error) {
	select {
	case k.result <- err:
	default:
	}
}

// fails is the refused function of a call that the first error ends.
func fails(e *SwitchError) (bool, error) { return true, e }

// Barrier returns when the switch has carried out everything that was written
// before.
func (c *Conn) Barrier(ctx context.Context) error {
	xid := c.NextXID()
	k := &call{first: xid, n: 1, refused: fails, reply: func(hd header, _ []byte) (bool, error) {
		return hd.typ == typeBarrierReply, nil
	}}
	if err := c.do(ctx, k, appendBarrier(nil, c.version, xid)); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	return nil
}

// untilBarrier returns a call whose last transaction id is a barrier's. It
// ends with the first error, if any, when the barrier is reached. name says
// what the request with the i-th id is.
func untilBarrier(first uint32, n int, name func(i int) string) *call {
	var refusal error
	return &call{
		first: first,
		n:     uint32(n),
		reply: func(hd header, _ []byte) (bool, error) {
			return hd.typ == typeBarrierReply, refusal
		},
		refused: func(e *SwitchError) (bool, error) {
			if refusal == nil {
				e.Request = name(int(e.XID - first))
				refusal = e
			}
			return false, nil
		},
	}
}

// ModMeters changes meters, in order. If one change is refused, which a
// *SwitchError names, the others are carried out nevertheless.
func (c *Conn) ModMeters(ctx context.Context, mods []MeterMod) error {
	n := len(mods)
	first := c.reserve(n + 1)
	var b []byte
	var err error
	for i := range mods {
		if b, err = appendMeterMod(b, c.version, first+uint32(i), &mods[i]); err != nil {
			return err
		}
	}
	b = appendBarrier(b, c.version, first+uint32(n))
	return c.do(ctx, untilBarrier(first, n+1, func(i int) string {
		if i < n {
			return mods[i].String()
		}
		return "BARRIER_REQUEST"
	}), b)
}

// multipart sends a request and returns the joined parts of the reply.
func (c *Conn) multipart(ctx context.Context, request func(xid uint32) ([]byte, error)) ([]byte, error) {
	var joined []byte
	xid := c.NextXID()
	b, err := request(xid)
	if err != nil {
		return nil, err
	}
	k := &call{first: xid, n: 1, refused: fails, reply: func(_ header, msg []byte) (bool, error) {
		_, body, more, err := multipartBody(msg)
		if err != nil {
			return true, err
		}
		if len(joined)+len(body) > maxReply {
			return true, fmt.Errorf("reply of more than %d bytes", maxReply)
		}
		joined = append(joined, body...)
		return !more, nil
	}}
	if err := c.do(ctx, k, b); err != nil {
		return nil, err
	}
	return joined, nil
}

// FlowStats returns the flows that the request is for.
func (c *Conn) FlowStats(ctx context.Context, r FlowStatsRequest) ([]FlowStats, error) {
	b, err := c.multipart(ctx, func(xid uint32) ([]byte, error) {
		return appendFlowStatsRequest(nil, c.version, xid, &r)
	})
	if err != nil {
		return nil, fmt.Errorf("flow statistics: %w", err)
	}
	return decodeFlowStats(b, c.version)
}

// PortDescs returns the ports of the bridge.
func (c *Conn) PortDescs(ctx context.Context) ([]Port, error) {
	b, err := c.multipart(ctx, func(xid uint32) ([]byte, error) {
		return appendPortDescRequest(nil, c.version, xid)
	})
	if err != nil {
		return nil, fmt.Errorf("port descriptions: %w", err)
	}
	return decodePorts(b, c.version)
}

// MonitorFlows subscribes to the changes of one table, or of all with TableAll, under an
// id that was not used before on this connection. The flows that are there come
// as FlowInitial events before it returns; this connection's own changes come
// as FlowOwn.
func (c *Conn) MonitorFlows(ctx context.Context, id uint32, table uint8) error {
	// A second use of an id makes Open vSwitch read beyond the request, so it
	// must not see one.
	c.mu.Lock()
	used := c.monitors[id]
	c.monitors[id] = true
	c.mu.Unlock()
	if used {
		return fmt.Errorf("flow monitor: id %d is in use", id)
	}

	first := c.reserve(2)
	var refusal error
	k := &call{
		first:   first,
		n:       2,
		monitor: true,
		reply: func(hd header, msg []byte) (bool, error) {
			if hd.typ == typeMultipartReply {
				_, _, more, err := multipartBody(msg)
				return err != nil || !more, err
			}
			if refusal == nil {
				refusal = fmt.Errorf("no reply before the barrier")
			}
			return true, refusal
		},
		refused: func(e *SwitchError) (bool, error) {
			e.Request = "FLOW_MONITOR_REQUEST" // the message may repeat something else
			refusal = e
			return false, nil
		},
	}
	b := appendFlowMonitor(nil, c.version, first, id, table)
	b = appendBarrier(b, c.version, first+1)
	if err := c.do(ctx, k, b); err != nil {
		return fmt.Errorf("flow monitor on table %d: %w", table, err)
	}
	return nil
}
