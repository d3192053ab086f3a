// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"errors"
	"runtime"
	"time"
)

// Task is work that a handler leaves to the reader, see [Conn.Then].
type Task interface{ Run() }

// errRelieved ends a reader in whose place another goroutine reads on.
var errRelieved = errors.New("another goroutine reads on")

// taskTime is how long a task may keep the reader, or twice that.
const taskTime = 100 * time.Millisecond

// Serve reads from the switch until the connection ends, and returns why.
// After Close the error is net.ErrClosed. Everything that waits for a reply
// needs Serve to run. It may be called once.
func (c *Conn) Serve(h Handler) error {
	c.handler = h
	go c.read()
	c.fail(c.oversee())
	c.writer.Wait()
	return c.reason
}

// oversee waits for the end of the reader, and has another goroutine read on where a
// task keeps it.
func (c *Conn) oversee() error {
	tick := time.NewTicker(taskTime)
	defer tick.Stop()
	before := uint64(0)
	for {
		select {
		case err := <-c.served:
			return err
		case <-tick.C:
		}
		now := c.running.Load()
		if now != 0 && now == before && c.running.CompareAndSwap(now, 0) {
			// Told before others leave tasks. Its reader ends without a look at doing.
			if c.handler.TaskLasts != nil {
				c.handler.TaskLasts(c.doing)
			}
			go c.read()
		}
		before = now
	}
}

// ReadAt is when the message was read of the handler or task that calls it; nobody
// else may. It is zero for what came during the handshake.
func (c *Conn) ReadAt() time.Time { return c.readAt }

// Then has the reader run t as soon as the handler that calls it has returned: for
// work that is done sooner than another goroutine wakes up. A task that lasts after
// all goes on while another goroutine reads on. Only a handler may call it.
func (c *Conn) Then(t Task) { c.task = t }

// read is the reader.
func (c *Conn) read() {
	if err := c.serve(); !errors.Is(err, errRelieved) {
		c.served <- err
	}
}

func (c *Conn) serve() error {
	for messages := 0; ; {
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
		c.flush()
		if messages > 1 {
			// Whoever got the messages goes first: more come meanwhile, and one
			// read takes them all.
			runtime.Gosched()
		}
		messages = 0
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// upcoming is next, of those too that came during the handshake.
func (c *Conn) upcoming() ([]byte, error) {
	if len(c.early) == 0 {
		return c.next()
	}
	msg := c.early[0]
	c.early = c.early[1:]
	return msg, nil
}

// handle dispatches a message and does the task that its handler leaves.
func (c *Conn) handle(msg []byte) error {
	if err := c.dispatch(msg, &c.handler); err != nil || c.task == nil {
		return err
	}
	t := c.task
	c.task = nil
	c.tasks++
	number := c.tasks
	c.doing = t
	c.running.Store(number)
	t.Run()
	if !c.running.CompareAndSwap(number, 0) {
		return errRelieved
	}
	return nil
}
