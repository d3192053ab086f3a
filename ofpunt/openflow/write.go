// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Write queues encoded messages, whole ones. It copies b and never waits for
// the socket. It returns ErrQueueFull, and queues nothing, if too much waits
// already, or the reason if the connection has ended.
func (c *Conn) Write(b []byte) error {
	if err := c.ended(); err != nil {
		return err
	}
	c.queueMu.Lock()
	if len(c.queue)+len(b) > maxQueued {
		c.queueMu.Unlock()
		return ErrQueueFull
	}
	c.queue = append(c.queue, b...)
	c.queueMu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// ended returns why the connection has ended, or nil.
func (c *Conn) ended() error {
	select {
	case <-c.done:
		return c.reason
	default:
		return nil
	}
}

// send is Write for those who can wait for room.
func (c *Conn) send(ctx context.Context, b []byte) error {
	for {
		c.queueMu.Lock()
		drained := c.drained
		c.queueMu.Unlock()
		err := c.Write(b)
		if !errors.Is(err, ErrQueueFull) {
			return err
		}
		select {
		case <-drained:
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// writeLoop writes what is queued, all of it at once.
func (c *Conn) writeLoop() {
	var batch []byte
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.queueMu.Lock()
		batch, c.queue = c.queue, batch[:0]
		close(c.drained)
		c.drained = make(chan struct{})
		c.queueMu.Unlock()
		if len(batch) == 0 {
			continue
		}

		err := c.nc.SetWriteDeadline(time.Now().Add(c.timeout))
		if err == nil {
			_, err = c.nc.Write(batch)
		}
		if err != nil {
			c.fail(fmt.Errorf("openflow: writing: %w", err))
			return
		}
	}
}
