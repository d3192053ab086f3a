// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"errors"
	"time"
)

// Task is a handler's work for the reader, see [Conn.RunAfterRead]. turn identifies the task to [Conn.LeaveReader], and
// is not 0.
type Task interface{ Run(turn uint64) }

var errReplaced = errors.New("another goroutine is the reader")

// taskTime is the minimum that a task may block the reader; the maximum is twice that.
const taskTime = 100 * time.Millisecond

// Serve reads until the connection ends, and returns the reason. After Close the error wraps net.ErrClosed.
// Requests need Serve. Call it once.
func (c *Conn) Serve(h Handler) error {
	c.handler = h
	go c.read()
	c.fail(c.watchReader())
	c.writer.Wait()
	return c.reason
}

// watchReader replaces a reader that a task blocks.
func (c *Conn) watchReader() error {
	tick := time.NewTicker(taskTime)
	defer tick.Stop()
	before := uint64(0)
	for {
		select {
		case err := <-c.readEnd:
			return err
		case <-tick.C:
		}
		now := c.running.Load()
		if now != 0 && now == before && c.running.CompareAndSwap(now, 0) {
			// The replaced reader ends after the task, so only the next one writes currentTask.
			if c.handler.SlowTask != nil {
				c.handler.SlowTask(c.currentTask)
			}
			c.readElsewhere()
		}
		before = now
	}
}

// ReadAt returns when the calling handler's or task's message, or the first of its batch, was read. It is zero
// during the handshake.
func (c *Conn) ReadAt() time.Time { return c.readAt }

// RunAfterRead has the reader run t after the calling handler, for work shorter than waking a goroutine. If t
// blocks, another goroutine becomes the reader. Only a handler may call it.
func (c *Conn) RunAfterRead(t Task) { c.nextTask = t }

// LeaveReader makes another goroutine the reader if the task of turn runs on the reader. The task may block
// afterwards. Any goroutine may call it.
func (c *Conn) LeaveReader(turn uint64) {
	if turn != 0 && c.running.CompareAndSwap(turn, 0) {
		c.readElsewhere()
	}
}

func (c *Conn) readElsewhere() {
	if c.handler.Go == nil {
		go c.read()
		return
	}
	c.handler.Go(c.read)
}

// NoteDispatched records that a handler or task has given work to another goroutine. The reader then yields after
// the batch; without it, yielding wastes scheduler time. Only handlers and tasks may call it.
func (c *Conn) NoteDispatched() { c.handed.Store(true) }

func (c *Conn) read() {
	if err := c.serve(); !errors.Is(err, errReplaced) {
		c.readEnd <- err
	}
}

// maxReads bounds the reads before the reader writes. Under load more has arrived after a batch, and batched
// messages cost the switch less.
const maxReads = 3

func (c *Conn) serve() error {
	for messages, reads := 0, 0; ; {
		msg, err := c.upcoming()
		if err != nil {
			return err
		}
		if msg != nil {
			if err := c.handle(msg); err != nil {
				return err
			}
			messages++
			continue
		}
		// Dispatched work and single messages need not wait.
		if messages > 1 && reads < maxReads && !c.handed.Load() && c.fillNow() {
			reads++
			continue
		}
		c.flush()
		if c.handed.Swap(false) && messages > 1 {
			// Dispatched work runs first. Meanwhile messages arrive for one read.
			c.yield()
		}
		messages, reads = 0, 0
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// upcoming returns the handshake's messages first.
func (c *Conn) upcoming() ([]byte, error) {
	if len(c.early) == 0 {
		return c.next()
	}
	msg := c.early[0]
	c.early = c.early[1:]
	return msg, nil
}

func (c *Conn) handle(msg []byte) error {
	if err := c.dispatch(msg, &c.handler); err != nil || c.nextTask == nil {
		return err
	}
	t := c.nextTask
	c.nextTask = nil
	c.tasks++
	number := c.tasks
	c.currentTask = t
	c.running.Store(number)
	t.Run(number)
	if !c.running.CompareAndSwap(number, 0) {
		return errReplaced
	}
	return nil
}
