// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"context"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// localWatch reads the local Open_vSwitch database: which chassis this node is,
// and which ports the bridge has.
type localWatch struct {
	from   endpoint.Endpoint
	tls    endpoint.TLSFiles
	cancel context.CancelFunc
}

// watchLocal has s told what the local database says, the one that its options
// name. The bridge's lock is held.
func (b *bridge) watchLocal(ctx context.Context, s *server) {
	o := &s.options
	if b.local.cancel != nil {
		if b.local.from == o.OVSDB && b.local.tls == o.TLS {
			s.learn(b.ports.View())
			b.tellChassis(s, b.ports.View())
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

// chassis is the name of the local chassis.
func (s *server) chassis(view *ports.View) string {
	return cmp.Or(s.options.Chassis, view.Chassis)
}

// learn tells the databases of names what is local, unless they are another chassis's.
func (s *server) learn(view *ports.View) {
	if view == nil || s.source == nil {
		return
	}
	if err := claims.claim(s, s.chassis(view)); err != nil {
		s.rival.Store(&err)
		return
	}
	s.rival.Store(nil)
	s.source.SetPorts(s, view.IfaceIDs(), s.options.Grace)
}

// tellChassis logs the name of the chassis when it is another. The bridge's lock is
// held.
func (b *bridge) tellChassis(s *server, view *ports.View) {
	if view == nil {
		return
	}
	if name := s.chassis(view); b.chassis == nil || *b.chassis != name {
		b.chassis = &name
		log.Infof("Bridge %s: the chassis is %q", b.name, name)
	}
}

func (b *bridge) followLocal(ctx context.Context, o *Options) error {
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
		// First the databases: flows are planned by the view, and a snapshot must
		// not count as settled that knows nothing of it yet.
		b.current.Load().learn(view)
		b.ports.Set(view)
		b.done.Go(func() { b.settle(ctx, view) })
		if view.Absent() && (before == nil || !before.Absent()) {
			log.Warningf("Bridge %s: the local Open_vSwitch database has no bridge of this name, so its guests are not known; expected the name as in `ovs-vsctl list-br`", b.name)
		}
		b.tellChassis(b.current.Load(), view)
		poke(b.wake)
	}, func(err error) {
		b.ports.SetDatabaseUp(err == nil)
		if err != nil {
			metric.LocalDatabaseUp.WithLabelValues(b.name).Set(0)
			log.Warningf("Bridge %s: local Open_vSwitch database %s: %v", b.name, o.OVSDB, err)
		} else {
			metric.LocalDatabaseUp.WithLabelValues(b.name).Set(1)
			log.Infof("Bridge %s: local Open_vSwitch database %s is read", b.name, o.OVSDB)
		}
	})
}

// settle waits until the switch has handed over all packets that it had before the view
// came.
func (b *bridge) settle(ctx context.Context, view *ports.View) {
	if c := b.conn.Load(); c != nil {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		_ = c.Barrier(ctx) // a connection that is gone brings nothing more
	}
	view.SetDrained()
}
