// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Write queues encoded messages, whole ones. It copies b and never waits for
// the socket. It returns ErrQueueFull, and queues nothing, if too much waits
// already, or the reason if the connection has ended.
func (c *Conn) Write(b []byte) error {
	taken, err := c.push(b)
	if err == nil && !taken {
		c.wakeWriter()
	}
	return err
}

// WriteSpare is Write for what may be lost: it leaves half of the room to others.
func (c *Conn) WriteSpare(b []byte) error {
	c.queueMu.Lock()
	waiting := len(c.queue)
	c.queueMu.Unlock()
	if waiting+len(b) > maxQueued/2 {
		return ErrQueueFull
	}
	return c.Write(b)
}

// WriteNow is Write, but tries the socket at once, which saves the time that the
// writer needs to wake up. Where many write, Write gives larger batches.
func (c *Conn) WriteNow(b []byte) error {
	_, err := c.push(b)
	if err == nil {
		c.flush()
	}
	return err
}

// WriteLater is Write for tasks: before it reads on, the reader writes in one go
// what they have left.
func (c *Conn) WriteLater(b []byte) error {
	taken, err := c.push(b)
	// Without a task there is no such reader. The look comes after the push, as the
	// reader may be done between the two.
	if err == nil && !taken && c.running.Load() == 0 {
		c.wakeWriter()
	}
	return err
}

// push queues b. taken is whether somebody is writing, who takes it along.
func (c *Conn) push(b []byte) (taken bool, err error) {
	if err := c.Err(); err != nil {
		return false, err
	}
	c.queueMu.Lock()
	defer c.queueMu.Unlock()
	if len(c.queue)+len(b) > maxQueued {
		return false, ErrQueueFull
	}
	c.queue = append(c.queue, b...)
	return c.writing, nil
}

// flush has the caller write what is queued, unless somebody does already.
func (c *Conn) flush() {
	c.queueMu.Lock()
	idle := !c.writing && len(c.queue) > 0
	mine := idle && c.nc.canTry()
	c.writing = c.writing || mine
	c.queueMu.Unlock()
	switch {
	case mine:
		c.writeSome()
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

// send is Write for those who can wait for room.
func (c *Conn) send(ctx context.Context, b []byte) error {
	for {
		c.queueMu.Lock()
		if c.drained == nil {
			c.drained = make(chan struct{})
		}
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

// take returns what is queued, for the one who is writing. If that is nothing,
// nobody is from then on.
func (c *Conn) take() []byte {
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

// keep gives the room of a batch back, and puts what is left of it in front of
// the queue.
func (c *Conn) keep(batch []byte, written int) {
	c.queueMu.Lock()
	defer c.queueMu.Unlock()
	if written < len(batch) {
		c.queue = append(batch[:copy(batch, batch[written:])], c.queue...)
		return
	}
	c.spare = batch[:0]
}

// writeSome writes what is queued as far as the socket takes it without waiting;
// the writer does the rest. The caller must be the one who is writing.
func (c *Conn) writeSome() {
	batch := c.take()
	if batch == nil {
		return
	}
	n := c.nc.tryWrite(batch)
	c.keep(batch, n)
	c.queueMu.Lock()
	c.writing = false
	left := len(c.queue) > 0
	c.queueMu.Unlock()
	if left {
		c.wakeWriter()
	}
}

func (c *Conn) startWriter() { c.writer.Go(c.writeLoop) }

// writeLoop writes what is queued, all of it at once.
func (c *Conn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		// Whoever is about to write something has the chance to do so: it goes
		// with the rest.
		runtime.Gosched()
		c.queueMu.Lock()
		taken := c.writing
		c.writing = true
		c.queueMu.Unlock()
		if taken {
			continue // that one wakes us if it leaves something
		}
		for batch := c.take(); batch != nil; batch = c.take() {
			if err := c.writeAll(batch); err != nil {
				c.fail(fmt.Errorf("openflow: writing: %w", err))
				return
			}
			c.keep(batch, len(batch))
			runtime.Gosched()
		}
	}
}

// writeAll waits for the socket if need be, and no longer than the timeout.
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
	// One that has passed would keep everybody from the socket. A connection that has
	// ended meanwhile tells the reader.
	_ = c.nc.SetWriteDeadline(time.Time{})
	return nil
}
