// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// When says who writes messages to the socket.
type When uint8

const (
	// Soon: the writer does, in one batch with what others queue before it runs.
	Soon When = iota
	// Now: the caller does if that does not block, which saves the time that the writer needs to wake up.
	// Where many write, Soon gives larger batches.
	Now
	// AfterHandlers: the reader does, in one batch before its next read. For handlers only.
	AfterHandlers
	// AfterTasks: the reader does if it runs a task, in one batch before its next read; else the writer.
	AfterTasks
)

// Write queues encoded messages, whole ones. It copies b and does not block. Messages that may be lost use
// half of the queue only. Write returns ErrQueueFull, and queues nothing, if too much is queued already, or
// the reason if the connection has ended.
func (c *Conn) Write(b []byte, when When, mayBeLost bool) error {
	most := maxQueued
	if mayBeLost {
		most /= 2
	}
	writing, err := c.push(most, b)
	switch {
	case err != nil:
		return err
	case when == Now:
		c.flush()
	case writing, when == AfterHandlers:
	case when == AfterTasks && c.running.Load() != 0:
		// Checked after the push, as the task may end between the two.
	default:
		c.wakeWriter()
	}
	return nil
}

// push queues b unless that makes more than most bytes. It reports whether a goroutine is writing, which then
// writes b too.
func (c *Conn) push(most int, b []byte) (writing bool, err error) {
	if err := c.Err(); err != nil {
		return false, err
	}
	c.queueMu.Lock()
	defer c.queueMu.Unlock()
	if len(c.queue)+len(b) > most {
		return false, ErrQueueFull
	}
	c.queue = append(c.queue, b...)
	return c.writing, nil
}

// flush writes the queued messages, unless another goroutine is writing.
func (c *Conn) flush() {
	c.queueMu.Lock()
	idle := !c.writing && len(c.queue) > 0
	mine := idle && c.nc.canTry()
	c.writing = c.writing || mine
	c.queueMu.Unlock()
	switch {
	case mine:
		c.writeNonblocking()
	case idle:
		c.wakeWriter()
	}
}

func (c *Conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Err returns why the connection has ended, nil while it has not. A request that waited
// for the switch then fails with the same.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.reason
	default:
		return nil
	}
}

// send is Write, Soon, for callers that can block: it waits while the queue is full.
func (c *Conn) send(ctx context.Context, b []byte) error {
	for {
		c.queueMu.Lock()
		if c.drained == nil {
			c.drained = make(chan struct{})
		}
		drained := c.drained
		c.queueMu.Unlock()
		err := c.Write(b, Soon, false)
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

// takeBatch returns the queued messages, for the goroutine that is writing. If there is none, it returns nil,
// and no goroutine is writing from then on.
func (c *Conn) takeBatch() []byte {
	c.queueMu.Lock()
	defer c.queueMu.Unlock()
	if len(c.queue) == 0 {
		c.writing = false
		return nil
	}
	batch := c.queue
	c.queue, c.spare = c.spare[:0], nil
	if c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
	return batch
}

// requeue puts what was not written of a batch in front of the queue, and has its memory
// used again.
func (c *Conn) requeue(batch []byte, written int) {
	c.queueMu.Lock()
	defer c.queueMu.Unlock()
	if written < len(batch) {
		c.queue = append(batch[:copy(batch, batch[written:])], c.queue...)
		return
	}
	c.spare = batch[:0]
}

// writeNonblocking writes as much of the queue as the socket takes without blocking, and
// leaves the rest to the writer. The caller has set writing.
func (c *Conn) writeNonblocking() {
	batch := c.takeBatch()
	if batch == nil {
		return
	}
	n := c.nc.tryWrite(batch)
	c.requeue(batch, n)
	c.queueMu.Lock()
	c.writing = false
	left := len(c.queue) > 0
	c.queueMu.Unlock()
	if left {
		c.wakeWriter()
	}
}

func (c *Conn) startWriter() { c.writer.Go(c.writeLoop) }

// writeLoop is the writer: it writes all that is queued, in batches.
func (c *Conn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		// Other goroutines that are about to queue something run first, for a larger
		// batch.
		runtime.Gosched()
		c.queueMu.Lock()
		busy := c.writing
		c.writing = true
		c.queueMu.Unlock()
		if busy {
			continue // the goroutine that writes wakes us if it leaves something
		}
		for batch := c.takeBatch(); batch != nil; batch = c.takeBatch() {
			if err := c.writeAll(batch); err != nil {
				c.fail(fmt.Errorf("openflow: writing: %w", err))
				return
			}
			c.requeue(batch, len(batch))
			runtime.Gosched()
		}
	}
}

// writeAll writes b. It blocks if it has to, until the timeout.
func (c *Conn) writeAll(b []byte) error {
	if c.nc.canTry() {
		if b = b[c.nc.tryWrite(b):]; len(b) == 0 {
			return nil
		}
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if _, err := c.nc.Write(b); err != nil {
		return err
	}
	// A deadline that has passed would make later writes fail. If the connection has ended
	// meanwhile, the reader notices.
	_ = c.nc.SetWriteDeadline(time.Time{})
	return nil
}
