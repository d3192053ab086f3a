// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

const (
	// defaultReconnect is how long watch and top wait for a restart.
	defaultReconnect = time.Minute
	reconnectEvery   = 250 * time.Millisecond
)

// lasting is a stream that continues after a restart of the process.
type lasting struct {
	*stream
	ctx context.Context
	// open also reopens the stream.
	open func() (*stream, error)
	// complete reports whether an ended stream has sent all lines.
	complete func() bool
	// lost is called before the attempts to reconnect.
	lost func(error)
	// patience limits the attempts, 0 for none.
	patience time.Duration
	received int
	opened   time.Time
	// outage is when the connection was lost. A reconnection that fails at once extends the outage.
	outage time.Time
}

func addReconnect(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("reconnect", defaultReconnect, "how long to wait for a puntdns that restarts; 0 ends at once")
}

func (l *lasting) begin() (err error) {
	l.opened = time.Now()
	l.stream, err = l.open()
	return err
}

func (l *lasting) close() { l.stream.close() }

// next returns io.EOF after the last line.
func (l *lasting) next() ([]byte, error) {
	for {
		line, err := l.stream.next()
		if err == nil {
			l.received++
			return line, nil
		}
		if l.complete() {
			return nil, io.EOF
		}
		if errors.Is(err, io.EOF) {
			err = l.failed(err)
		}
		var exit *exitError
		if l.patience == 0 || l.ctx.Err() != nil || !errors.As(err, &exit) || !exit.lost {
			return nil, err
		}
		if err := l.reopen(err); err != nil {
			return nil, err
		}
	}
}

// reopen returns the error of the last attempt.
func (l *lasting) reopen(err error) error {
	if now := time.Now(); l.outage.IsZero() || now.Sub(l.opened) > reconnectEvery {
		l.outage = now
		l.lost(fmt.Errorf("%w; trying to connect again for %s", err, l.patience))
	}
	for time.Since(l.outage) < l.patience {
		select {
		case <-l.ctx.Done():
			return err
		case <-time.After(reconnectEvery):
		}
		var s *stream
		if s, err = l.open(); err == nil {
			l.stream.close()
			l.stream, l.opened = s, time.Now()
			return nil
		}
		var exit *exitError
		if !errors.As(err, &exit) || exit.status != exitNoProcess {
			return err // the process refuses the request
		}
	}
	return err
}
