// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// When selects who writes to the socket.
type When uint8

const (
	// Soon: the writer, in one batch with other messages.
	Soon When = iota
	// Now: the caller if it does not block, which saves waking the writer. With many callers Soon gives larger
	// batches.
	Now
	// AfterHandlers: the reader, before its next read. For handlers only.
	AfterHandlers
	// AfterTasks: AfterHandlers while the reader runs a task, else Soon.
	AfterTasks
)

// Write queues a copy of whole messages without blocking. If mayBeLost they use only half of the queue. Write
// returns ErrQueueFull and queues nothing above the limit, or the reason of the connection's end.
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
		// Checked after the push, as the task may end before.
	default:
		c.wakeWriter()
	}
	return nil
}

// push queues b up to most bytes. If it reports writing, a goroutine will write b.
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

// flush does nothing while another goroutine is writing.
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

// Err returns the reason of the connection's end, nil before.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.reason
	default:
		return nil
	}
}

// send is Write, Soon, that waits while the queue is full.
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

// takeBatch is for the writing goroutine. If the queue is empty, it returns nil and clears writing.
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

// requeue puts the unwritten rest in front of the queue, or recycles the memory.
func (c *Conn) requeue(batch []byte, written int) {
	c.queueMu.Lock()
	defer c.queueMu.Unlock()
	if written < len(batch) {
		c.queue = append(batch[:copy(batch, batch[written:])], c.queue...)
		return
	}
	c.spare = batch[:0]
}

// writeNonblocking leaves the rest to the writer. The caller has set writing.
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

func (c *Conn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		// Other goroutines may queue more for a larger batch.
		runtime.Gosched()
		c.queueMu.Lock()
		busy := c.writing
		c.writing = true
		c.queueMu.Unlock()
		if busy {
			continue // the writing goroutine wakes us if messages remain
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

// writeAll blocks until the timeout if necessary.
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
	// A passed deadline would fail later writes. The reader notices the connection's end.
	_ = c.nc.SetWriteDeadline(time.Time{})
	return nil
}
