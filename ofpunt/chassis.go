// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"crypto/tls"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/vswitch"
)

// chassis tells a bridge's server which chassis this node is, as the local
// Open_vSwitch database has it.
type chassis struct {
	from   endpoint.Endpoint
	tls    endpoint.TLSFiles
	cancel context.CancelFunc
	// name is the last that was read; under the bridge's lock.
	name string
}

// watchChassis has s told of the chassis, from the database that its options
// name. The bridge's lock is held.
func (b *bridge) watchChassis(ctx context.Context, s *server) {
	o := &s.options
	if b.chassis.cancel != nil && b.chassis.from == o.OVSDB && b.chassis.tls == o.TLS {
		s.source.SetChassis(b.chassis.name)
		return
	}
	if b.chassis.cancel != nil {
		b.chassis.cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	b.chassis = chassis{from: o.OVSDB, tls: o.TLS, cancel: cancel}
	b.done.Go(func() {
		if err := b.followChassis(ctx, o); err != nil && ctx.Err() == nil {
			log.Errorf("Bridge %s: %v", b.name, err)
		}
	})
}

func (b *bridge) followChassis(ctx context.Context, o *Options) error {
	var config *tls.Config
	if o.OVSDB.TLS {
		var err error
		if config, err = o.TLS.Config(false); err != nil {
			return err
		}
	}
	return vswitch.Watch(ctx, o.OVSDB, config, b.name, func(v vswitch.View) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if ctx.Err() != nil || b.chassis.name == v.SystemID {
			return
		}
		b.chassis.name = v.SystemID
		log.Infof("Bridge %s: the chassis is %q", b.name, v.SystemID)
		b.current.Load().source.SetChassis(v.SystemID)
	}, func(err error) {
		if err != nil {
			log.Warningf("Bridge %s: local Open_vSwitch database %s: %v", b.name, o.OVSDB, err)
		} else {
			log.Infof("Bridge %s: local Open_vSwitch database %s is read", b.name, o.OVSDB)
		}
	})
}
