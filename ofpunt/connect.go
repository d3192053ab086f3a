// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// connectTimeout bounds dialling and the OpenFlow handshake.
const connectTimeout = 5 * time.Second

// connect runs one session, from dialling to its end, and says why it ended.
// up is called when the handshake is done.
func (b *bridge) connect(ctx context.Context, options *Options, up func()) error {
	nc, err := b.reach(ctx, options)
	if err != nil {
		return err
	}
	id := options.ControllerID
	if id == 0 {
		id = controllerID
	}
	handshake, cancel := context.WithTimeout(ctx, connectTimeout)
	conn, err := openflow.NewConn(handshake, nc, openflow.Options{ControllerID: id})
	cancel()
	if err != nil {
		return fmt.Errorf("%s: %w", options.OpenFlow, err)
	}
	defer conn.Close()
	s, err := newSession(b, conn, options)
	if err != nil {
		return err
	}
	up()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		stop(fmt.Errorf("%s: connection lost: %w", options.OpenFlow, conn.Serve(s.handler())))
	}()
	err = s.keep(ctx, options)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	conn.Close()
	<-served
	if errors.Is(err, errOptions) {
		return nil
	}
	return err
}

// reach dials the switch, or waits for it to call.
func (b *bridge) reach(ctx context.Context, options *Options) (net.Conn, error) {
	var config *tls.Config
	if options.OpenFlow.TLS {
		var err error
		if config, err = options.TLS.Config(options.OpenFlow.Listen); err != nil {
			return nil, err
		}
	}
	if options.OpenFlow.Listen {
		return b.await(ctx, options.OpenFlow, config)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return options.OpenFlow.Dial(ctx, config)
}

// await opens the endpoint until one switch has called.
func (b *bridge) await(ctx context.Context, e endpoint.Endpoint, config *tls.Config) (net.Conn, error) {
	l, err := e.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	return l.Accept()
}
