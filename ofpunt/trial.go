// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/vswitch"
)

// openAndSettle opens the databases of s. On a reload it waits for them, since one
// must not take answers away: where the server before has all that its databases
// tell, or reaches its switch, an error keeps that one. A bridge that takes the place of
// the one given up has to be there, too.
func (s *server) openAndSettle(given string) error {
	if err := s.open(); err != nil {
		return err
	}
	b := bridges.get(s.options.Bridge)
	if b == nil && given == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	// caddy looks at the signals to come once the reload is over.
	ctx, unwatch := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer unwatch()
	if b == nil {
		return s.meet(ctx, given)
	}
	settled := b.current.Load().settled()
	if err := s.attain(ctx, b); err != nil {
		return err
	}
	if b.await(ctx, s); settled && !s.settled() {
		if ctx.Err() == context.Canceled {
			return fmt.Errorf("ofpunt %s: the process ends", s.options.Bridge)
		}
		return fmt.Errorf("ofpunt %s: the databases have not told everything within %s, as those of the Corefile before have; expected some that can be reached", s.options.Bridge, settleTimeout)
	}
	return nil
}

// attain tries the local endpoints that are new to b, where it has what is there now.
func (s *server) attain(ctx context.Context, b *bridge) error {
	o, was := &s.options, &b.current.Load().options
	for _, local := range []struct {
		property string
		e, was   endpoint.Endpoint
		now      bool
	}{
		{"openflow", o.OpenFlow, was.OpenFlow, b.conn.Load() != nil},
		{"ovsdb", o.OVSDB, was.OVSDB, b.localRead.Load()},
	} {
		if !local.now || local.e.Listen || local.e == local.was && o.TLS == was.TLS {
			continue
		}
		conn, err := open(ctx, local.e, &o.TLS)
		if err != nil {
			return fmt.Errorf("ofpunt %s: %s: %w; expected one that can be reached, as that of the Corefile before is", o.Bridge, local.property, err)
		}
		conn.Close()
	}
	return nil
}

// settleTimeout bounds how long a reload waits for databases that are new to it.
const settleTimeout = 10 * time.Second

// givesUp is a bridge that has been served till now and is named no more, if any.
func (in *instance) givesUp(before *instance) (bridge string) {
	if before == nil || before == in {
		return ""
	}
	for _, s := range before.servers {
		name := s.options.Bridge
		if slices.ContainsFunc(in.servers, func(s *server) bool { return s.options.Bridge == name }) {
			continue
		}
		if b := bridges.get(name); b != nil && b.conn.Load() != nil {
			if view := b.view.Load(); view != nil && !view.absent() {
				return name
			}
		}
	}
	return ""
}

// meet looks for the bridge of s, which is new, by its socket and in the local database.
func (s *server) meet(ctx context.Context, given string) error {
	o := &s.options
	expected := fmt.Sprintf("expected a bridge that is there, as %s of the Corefile before is", given)
	if !o.OpenFlow.Listen {
		conn, err := open(ctx, o.OpenFlow, &o.TLS)
		if err != nil {
			return fmt.Errorf("ofpunt %s: openflow: %w; %s", o.Bridge, err, expected)
		}
		conn.Close()
	}
	if o.OVSDB.Listen {
		return nil
	}
	config, err := o.TLS.For(o.OVSDB)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	var view *localView
	unread := error(nil)
	err = vswitch.Watch(ctx, o.OVSDB, config, o.Bridge,
		func(v vswitch.View) { view = newLocalView(v, nil) },
		func(err error) { unread = err; done() })
	switch {
	case unread != nil:
		err = unread
	case view == nil: // not even that it can't be read
	case view.absent():
		return fmt.Errorf("ofpunt %s: the local Open_vSwitch database has no bridge of this name; %s", o.Bridge, expected)
	default:
		return nil
	}
	return fmt.Errorf("ofpunt %s: ovsdb: %w; %s", o.Bridge, err, expected)
}
