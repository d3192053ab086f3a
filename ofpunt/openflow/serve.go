// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"errors"
	"time"
)

// Task is work that a handler leaves to the reader, see [Conn.Then].
type Task interface{ Run() }

// errReplaced is the end of a reader that was replaced by another goroutine.
var errReplaced = errors.New("another goroutine is the reader")

// taskTime is how long a task may block the reader at least; twice that at most.
const taskTime = 100 * time.Millisecond

// Serve reads from the switch until the connection ends, and returns why.
// After Close the error wraps net.ErrClosed. Whatever waits for a reply
// needs Serve to run. It may be called once.
func (c *Conn) Serve(h Handler) error {
	c.handler = h
	go c.read()
	c.fail(c.watchReader())
	c.writer.Wait()
	return c.reason
}

// watchReader waits for the end of the reader, and starts another one where a task blocks
// it.
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
			// currentTask is not written before the next reader starts: the replaced one
			// ends after the task.
			if c.handler.SlowTask != nil {
				c.handler.SlowTask(c.currentTask)
			}
			go c.read()
		}
		before = now
	}
}

// ReadAt returns when the message of the calling handler or task was read, or the first message whose replies
// leave together with its replies. Only handlers and tasks may call it. It is zero for a message that came
// during the handshake.
func (c *Conn) ReadAt() time.Time { return c.readAt }

// RunAfterRead has the reader run t as soon as the calling handler has returned: for work that takes less time than
// another goroutine needs to wake up. If a task blocks, it continues while another goroutine becomes the
// reader. Only a handler may call it.
func (c *Conn) RunAfterRead(t Task) { c.nextTask = t }

// NoteDispatched says that the calling handler or task has left work to another goroutine: that runs before the
// reader reads on behind a batch of messages. Where a batch has left nothing to others, to let them run
// would only cost the time of Go's scheduler. Only a handler or a task may call it.
func (c *Conn) NoteDispatched() { c.handed.Store(true) }

// read is the reader.
func (c *Conn) read() {
	if err := c.serve(); !errors.Is(err, errReplaced) {
		c.readEnd <- err
	}
}

// maxReads is how often the reader reads on before it writes the queued messages. Under load the switch has
// sent more by the time that a batch is done, and messages that come together cost the switch less.
const maxReads = 3

// serve handles messages until the connection ends or the reader is replaced.
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
		// What was left to others need not wait, nor does a message that comes alone.
		if messages > 1 && reads < maxReads && !c.handed.Load() && c.fillNow() {
			reads++
			continue
		}
		c.flush()
		if c.handed.Swap(false) && messages > 1 {
			// The goroutines that got the messages run first. More come meanwhile, for
			// one read.
			c.yield()
		}
		messages, reads = 0, 0
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// upcoming returns what next does, and before that the messages that came during the
// handshake.
func (c *Conn) upcoming() ([]byte, error) {
	if len(c.early) == 0 {
		return c.next()
	}
	msg := c.early[0]
	c.early = c.early[1:]
	return msg, nil
}

// handle dispatches a message and runs the task that its handler has left.
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
	t.Run()
	if !c.running.CompareAndSwap(number, 0) {
		return errReplaced
	}
	return nil
}
