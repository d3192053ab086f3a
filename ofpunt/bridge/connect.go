// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// connectTimeout bounds dialling. A missing handshake is reported after it.
const connectTimeout = 5 * time.Second

// connect runs one session, and calls up after the handshake. After errOptions the connection drains in the
// background.
func (b *Bridge) connect(ctx context.Context, options *config.Bridge, up func()) error {
	id := options.ControllerID
	if id == 0 {
		id = b.controllerID
	}
	conn, err := b.reach(ctx, options, id)
	if err != nil {
		return err
	}
	s := newSession(b, conn, id)
	up()
	b.conn.Store(conn)
	b.openings.Store(s.flows)

	live, stop := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		stop(conn.Serve(s.handler()))
	}()
	err = s.run(live, options)
	// A request that sees the loss first returns its own error.
	if lost := conn.Err(); lost != nil {
		err = fmt.Errorf("%s: connection lost: %w", options.OpenFlow, lost)
	}
	end := func() {
		conn.Close()
		<-served
		stop(nil)
	}
	// The next connection may be open at the same time if it has another id.
	next := b.current.Load().Options.ControllerID
	if errors.Is(err, errOptions) && next != id {
		b.controllerID = newControllerID()
		b.done.Go(func() {
			defer end()
			b.retire(ctx, s, options)
		})
		return err
	}
	b.conn.CompareAndSwap(conn, nil)
	b.openings.CompareAndSwap(s.flows, nil)
	end()
	return err
}

func sayHang(err error) error {
	if isHang(err) {
		return fmt.Errorf("the switch does not answer: %w", err)
	}
	return err
}

func isHang(err error) bool {
	return errors.Is(err, openflow.ErrNoEcho) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// retire drains a replaced session. It leaves a newer connection of the bridge.
func (b *Bridge) retire(ctx context.Context, s *session, options *config.Bridge) {
	s.drainOld(ctx, options)
	b.conn.CompareAndSwap(s.conn, nil)
}

// drainOld waits until the next session has its flows in place and the last query its answer.
func (s *session) drainOld(ctx context.Context, options *config.Bridge) {
	ctx, cancel := context.WithTimeout(ctx, max(options.Lease, config.DefaultLease)+punt.DrainTimeout)
	defer cancel()
	placed := s.bridge.placed.Load()
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for s.bridge.placed.Load() == placed || s.punts.Pending() > 0 {
		s.flows.Discard()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
	_ = s.conn.Barrier(ctx) // the last answers must reach the switch
}

// reach returns errOptions if a new Corefile changes the connection's options meanwhile.
func (b *Bridge) reach(ctx context.Context, options *config.Bridge, id uint16) (*openflow.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn *openflow.Conn
		err  error
	}
	reached, silent := make(chan result, 1), make(chan error, 1)
	go func() {
		nc, err := b.dialOrAccept(ctx, options)
		if err != nil {
			reached <- result{nil, err}
			return
		}
		conn, err := shakeHands(ctx, nc, options.OpenFlow, id, connectTimeout, func(err error) { silent <- err })
		reached <- result{conn, err}
	}()
	abort := func() {
		cancel()
		if r := <-reached; r.conn != nil {
			r.conn.Close()
		}
	}
	for {
		select {
		case r := <-reached:
			return r.conn, r.err
		case err := <-silent:
			err = sayHang(err)
			b.disconnected(err)
			b.logFailure(err)
		case w := <-b.withdraw:
			close(w.gone)
		case <-b.wake:
			if !b.current.Load().Options.SameConnection(options) {
				abort()
				return nil, errOptions
			}
		}
	}
}

// shakeHands makes the OpenFlow connection on nc, which leads to e. On a Unix socket it waits for a silent switch,
// and calls silent once, after patience: the kernel closes the socket when the switch ends, and more connections
// would fill the switch's backlog, where ovn-controller needs room. Over a network the switch's host may be gone, so
// shakeHands fails after patience.
func shakeHands(ctx context.Context, nc net.Conn, e endpoint.Endpoint, id uint16, patience time.Duration, silent func(error)) (*openflow.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(patience, func() {
		err := fmt.Errorf("no OpenFlow handshake within %v: %w", patience, os.ErrDeadlineExceeded)
		if e.Network == "unix" && !e.Listen {
			silent(fmt.Errorf("%s: %w", e, err))
		} else {
			cancel(err)
		}
	})
	defer late.Stop()
	conn, err := openflow.NewConn(ctx, nc, openflow.Options{ControllerID: id})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e, err)
	}
	return conn, nil
}

func (b *Bridge) dialOrAccept(ctx context.Context, options *config.Bridge) (net.Conn, error) {
	if nc := b.accepted.take(acceptKey{options.OpenFlow, options.TLS}); nc != nil {
		return nc, nil
	}
	return open(ctx, options.OpenFlow, &options.TLS)
}

// open dials e, or accepts one connection.
func open(ctx context.Context, e endpoint.Endpoint, files *endpoint.TLSFiles) (net.Conn, error) {
	config, err := files.For(e)
	if err != nil {
		return nil, err
	}
	if e.Listen {
		return acceptOne(ctx, e, config)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return e.Dial(ctx, config)
}

func acceptOne(ctx context.Context, e endpoint.Endpoint, config *tls.Config) (net.Conn, error) {
	l, err := e.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		l.Close()
	})
	defer func() {
		if !stop() {
			<-closed // Accept returns before the port is free
		}
	}()
	return l.Accept()
}
