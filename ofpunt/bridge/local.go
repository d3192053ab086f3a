// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// localWatch is the goroutine that reads the local Open_vSwitch database. cancel is nil before the first.
type localWatch struct {
	from   endpoint.Endpoint
	tls    endpoint.TLSFiles
	cancel context.CancelFunc
}

// watchLocal starts a goroutine unless the current one reads the same database. The caller holds b.mu.
func (b *Bridge) watchLocal(ctx context.Context, s *Server) {
	o := &s.Options
	if b.local.cancel != nil {
		if b.local.from == o.OVSDB && b.local.tls == o.TLS {
			s.applyView(b.ports.View())
			b.logChassis(s, b.ports.View())
			return
		}
		b.local.cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	b.local = localWatch{from: o.OVSDB, tls: o.TLS, cancel: cancel}
	b.done.Go(func() {
		if err := b.followLocal(ctx, o); err != nil && ctx.Err() == nil {
			log.Errorf("Bridge %s: %v", b.name, err)
		}
	})
}

// Chassis returns the Corefile's chassis, else the local database's.
func (s *Server) Chassis(view *ports.View) string {
	return cmp.Or(s.Options.Chassis, view.Chassis)
}

// applyView has no effect while another bridge has another chassis (Conflict).
func (s *Server) applyView(view *ports.View) {
	if view == nil || s.source == nil {
		return
	}
	s.source.SetLocal(s.Chassis(view), view.IfaceIDs(), s.Options.Grace)
}

// The caller of logChassis holds b.mu.
func (b *Bridge) logChassis(s *Server, view *ports.View) {
	if view == nil {
		return
	}
	if name := s.Chassis(view); b.loggedChassis == nil || *b.loggedChassis != name {
		b.loggedChassis = &name
		log.Infof("Bridge %s: the chassis is %q", b.name, name)
	}
}

func (b *Bridge) followLocal(ctx context.Context, o *config.Bridge) error {
	config, err := o.TLS.For(o.OVSDB)
	if err != nil {
		return err
	}
	return vswitch.Watch(ctx, o.OVSDB, config, b.name, func(v vswitch.View) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		before := b.ports.View()
		view := ports.NewView(v, before)
		// first, so that no snapshot without the view's ports counts as settled
		b.current.Load().applyView(view)
		b.ports.Set(view)
		b.done.Go(func() { b.awaitDrained(ctx, view) })
		if view.Absent() && (before == nil || !before.Absent()) {
			log.Warningf("Bridge %s: the local Open_vSwitch database has no bridge of this name, so its guests are not known; expected the name as in `ovs-vsctl list-br`", b.name)
		}
		b.logChassis(b.current.Load(), view)
		notify(b.wake)
	}, func(err error) {
		b.ports.SetDatabaseUp(err == nil)
		b.localFailure.Store(nil)
		b.setStall(func(s *stall) { s.away = isAway(err) })
		if err != nil {
			b.localFailure.Store(&err)
			b.done.Go(b.askSwitch)
			metric.LocalDatabaseUp.WithLabelValues(b.name).Set(0)
			log.Warningf("Bridge %s: local Open_vSwitch database %s: %v", b.name, o.OVSDB, err)
		} else {
			metric.LocalDatabaseUp.WithLabelValues(b.name).Set(1)
			log.Infof("Bridge %s: local Open_vSwitch database %s is read", b.name, o.OVSDB)
		}
	})
}

// awaitDrained waits until the switch has sent all packets from before the view.
func (b *Bridge) awaitDrained(ctx context.Context, view *ports.View) {
	if c := b.conn.Load(); c != nil {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		_ = c.Barrier(ctx) // a lost connection brings nothing more
	}
	view.SetDrained()
}
