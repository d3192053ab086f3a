// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/chain"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// checkTimeout bounds how long a check of a Corefile waits for the local database. Tests change it.
var checkTimeout = time.Second

// warnOfNode warns of sockets that do not exist, and of a chassis that the local database has not. A start
// waits for all of them.
func (in *instance) warnOfNode() {
	for _, s := range in.servers {
		blocks := chain.OfBridge(in.blocks, s.Options.Name)
		o, said := &s.Options, blocks[0].Directive
		if i := slices.IndexFunc(blocks, func(b *chain.Block) bool { return b.Directive.HasProperties() }); i >= 0 {
			said = blocks[i].Directive
		}
		for _, p := range []struct {
			property string
			e        endpoint.Endpoint
		}{{"openflow", o.OpenFlow}, {"ovsdb", o.OVSDB}} {
			if err := p.e.CheckSocket(!said.Gives(p.property)); err != nil {
				log.Warning(said.Errorf(p.property, "%w, and a start waits for it; expected a bridge of this name, and Open vSwitch running", err))
			}
		}
		if o.Chassis == "" || o.Placement != placement.OVN {
			continue
		}
		if local := localChassis(o); local != "" && local != o.Chassis {
			log.Warning(said.Errorf("chassis", "%q is not the chassis of this node by the local Open_vSwitch database, which has %q; expected %s, unless ovn-controller runs with -n %s", o.Chassis, local, local, o.Chassis))
		}
	}
}

// localChassis returns the name of the chassis of the bridge in the local database, or "" if the database does not
// answer at once.
func localChassis(o *config.Bridge) (name string) {
	tls, err := o.TLS.For(o.OVSDB)
	if err != nil {
		return "" // checkTLS says it
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	_ = vswitch.Watch(ctx, o.OVSDB, tls, o.Name, func(v vswitch.View) {
		name = v.Chassis
		cancel()
	}, func(error) { cancel() })
	return name
}
