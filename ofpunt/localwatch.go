// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/vswitch"
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
			s.learn(b.view.Load())
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

// learn tells the databases of names what is local.
func (s *server) learn(view *localView) {
	if view == nil || s.source == nil {
		return
	}
	s.source.SetChassis(view.SystemID)
	s.source.SetPorts(s, view.ifaceIDs())
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
		before := b.view.Load()
		view := newLocalView(v, before)
		// First the databases: flows are planned by the view, and a snapshot must
		// not count as settled that knows nothing of it yet.
		b.current.Load().learn(view)
		b.view.Store(view)
		b.done.Go(func() { b.settle(ctx, view) })
		if view.absent() && (before == nil || !before.absent()) {
			log.Warningf("Bridge %s: the local Open_vSwitch database has no bridge of this name, so its guests are not known; expected the name as in `ovs-vsctl list-br`", b.name)
		}
		if before == nil || before.SystemID != v.SystemID {
			log.Infof("Bridge %s: the chassis is %q", b.name, v.SystemID)
		}
		poke(b.wake)
	}, func(err error) {
		b.localRead.Store(err == nil)
		if err != nil {
			localUp.WithLabelValues(b.name).Set(0)
			log.Warningf("Bridge %s: local Open_vSwitch database %s: %v", b.name, o.OVSDB, err)
		} else {
			localUp.WithLabelValues(b.name).Set(1)
			log.Infof("Bridge %s: local Open_vSwitch database %s is read", b.name, o.OVSDB)
		}
	})
}
