// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxReply bounds a joined reply in bytes. A flow has some 200.
const maxReply = 64 << 20

// bytes of a bundle to queue at once
const sendChunk = 1 << 16

// call is a request that waits. The reader calls reply and refused, which report whether the call is complete.
type call struct {
	first, n uint32 // transaction ids
	monitor  bool   // for a flow monitor, see refused
	reply    func(hd header, msg []byte) (bool, error)
	refused  func(e *SwitchError) (bool, error)
	result   chan error
}

func (k *call) owns(xid uint32) bool { return xid-k.first < k.n }

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

func (c *Conn) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.calls, k); i >= 0 {
		c.calls = slices.Delete(c.calls, i, i+1)
	}
}

// unread extends deadlines: a process that was stopped has unread replies.
const unread = 500 * time.Millisecond

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

// refused reports whether the error is of a call.
func (c *Conn) refused(e *SwitchError) bool {
	var k *call
	if e.Version != c.version {
		// OVS answers a refused flow monitor from the wrong bytes: version and xid are arbitrary.
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

// A second end has no effect.
func (k *call) finish(err error) {
	select {
	case k.result <- err:
	default:
	}
}

func fails(e *SwitchError) (bool, error) { return true, e }

// Barrier waits until the switch has processed all earlier messages.
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

// untilBarrier returns a call that ends at the barrier, its last id, with the first error. name describes the i-th
// request.
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

// ModMeters changes meters in order. A *SwitchError names a refused change; others are made.
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

// multipart returns the joined parts of the reply.
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

// FlowStats returns the requested flows.
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

// MonitorFlows subscribes to a table or TableAll, with an id that is new on this connection. It returns after all
// FlowInitial events; own changes arrive as FlowOwn.
func (c *Conn) MonitorFlows(ctx context.Context, id uint32, table uint8) error {
	// A reused id makes OVS read beyond the request.
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
			e.Request = "FLOW_MONITOR_REQUEST" // the message may repeat other bytes
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
