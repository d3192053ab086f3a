// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// trialTimeout bounds how long a reload waits for databases and switches that are
// new to it.
const trialTimeout = 10 * time.Second

// Try looks whether the switches and databases of a Corefile that is to take the
// place of the one that serves are there, all of them at once: a reload must not take
// answers away. Where the Corefile before has all that its databases tell, or reaches
// its switch, the new one has to do so too; a bridge that takes the place of one
// given up has to be there. The blocks must have passed CheckAfter. databases tells
// what an ovnhosts directive reads and asks for. What was opened stays so until release is called,
// for the servers to come to share it.
func Try(ctx context.Context, file string, blocks []caddyfile.ServerBlock, databases func(*caddy.Controller) (ovn.Config, ovn.Wants, error)) (release func(), err error) {
	servers, err := serversToTry(file, blocks, databases)
	if err != nil {
		return nil, err
	}
	serving.Lock()
	given := bridgeGivenUp(serving.instance, servers)
	serving.Unlock()

	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	release = func() {
		for _, s := range servers {
			s.close()
		}
	}
	if err := tryAll(ctx, servers, given); err != nil {
		release()
		calls.drop()
		return nil, err
	}
	return release, nil
}

// tryAll tries the servers side by side, and returns the error of the first that has
// one.
func tryAll(ctx context.Context, servers []*server, given string) error {
	var wg sync.WaitGroup
	errs := make([]error, len(servers))
	for i, s := range servers {
		wg.Go(func() { errs[i] = s.try(ctx, given) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// serversToTry has of the server of each bridge what a trial needs.
func serversToTry(file string, blocks []caddyfile.ServerBlock, databases func(*caddy.Controller) (ovn.Config, ovn.Wants, error)) (servers []*server, err error) {
	controller := func(b *caddyfile.ServerBlock, directive string) *caddy.Controller {
		return &caddy.Controller{Dispenser: caddyfile.NewDispenserTokens(file, b.Tokens[directive]), ServerBlockKeys: b.Keys}
	}
	for i := range blocks {
		if len(blocks[i].Tokens[name]) == 0 {
			continue
		}
		b, err := parseBlock(controller(&blocks[i], name))
		if err != nil {
			return nil, err
		}
		n := slices.IndexFunc(servers, func(s *server) bool { return s.options.Bridge == b.options.Bridge })
		if n < 0 {
			n, servers = len(servers), append(servers, &server{options: b.options})
		}
		s := servers[n]
		if b.directive.HasProperties() { // the others of the bridge say the same, or nothing
			s.options = b.options
		}
		if len(blocks[i].Tokens["ovnhosts"]) > 0 {
			var wants ovn.Wants
			if s.database, wants, err = databases(controller(&blocks[i], "ovnhosts")); err != nil {
				return nil, err
			}
			s.named, s.wants = true, append(s.wants, wants)
		}
	}
	return servers, nil
}

// try opens the databases of s and waits until they have told everything, and looks
// for the switch and the local database.
func (s *server) try(ctx context.Context, given string) error {
	b := bridges.get(s.options.Bridge)
	if b == nil && given == "" {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	var err error
	if b == nil {
		err = s.tryNewBridge(ctx, given)
	} else {
		err = s.trySuccession(ctx, b)
	}
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("ofpunt %s: the process ends", s.options.Bridge)
	}
	return err
}

// trySuccession looks whether s gives what the server has that serves b.
func (s *server) trySuccession(ctx context.Context, b *bridge) error {
	current := b.current.Load()
	settled := current.settled() // before s asks for more, perhaps of the same databases
	for _, w := range s.wants {
		s.forget = append(s.forget, s.source.Ask(w))
	}
	endpoints := make(chan error, 1)
	go func() { endpoints <- s.tryEndpoints(ctx, b) }()
	shared := s.source != nil && s.source == current.source
	known := true
	if !shared {
		b.await(ctx, s)
	} else {
		s.awaitWanted(ctx, settled)
		if view := b.ports.View(); settled && view != nil && s.chassis(view) != current.chassis(view) {
			known = s.awaitChassis(ctx, s.chassis(view))
		}
	}
	if err := <-endpoints; err != nil {
		return err
	}
	if err := s.rival.Load(); err != nil {
		return fmt.Errorf("ofpunt %s: chassis: %w", s.options.Bridge, *err)
	}
	if !known {
		return fmt.Errorf("ofpunt %s: chassis: the Southbound database has no chassis %q; expected one that it has, as that of the Corefile before", s.options.Bridge, s.chassis(b.ports.View()))
	}
	if settled && !s.settled() {
		lacks := strings.Join(s.source.Status().Lacks(), "; ")
		if lacks == "" {
			lacks = "there is more to read"
		}
		return fmt.Errorf("ofpunt %s: the databases have not told everything within %s, as those of the Corefile before have: %s; expected some that can be reached", s.options.Bridge, trialTimeout, lacks)
	}
	return nil
}

// awaitWanted waits until the databases, which serve the Corefile before as well, have told
// what s wants of them, or ctx ends. Where they had not told everything before, what
// else is outstanding counts for nothing.
func (s *server) awaitWanted(ctx context.Context, settled bool) {
	routers := slices.ContainsFunc(s.wants, func(w ovn.Wants) bool { return w.Routers })
	s.await(ctx, func(now *ovn.Snapshot) bool {
		return now.Settled || !settled && (!routers || now.HasRouterScopes())
	})
}

// awaitChassis reports whether the databases know a chassis, or come to know it before
// ctx ends. They are not told that it is this one, since others are served from them.
func (s *server) awaitChassis(ctx context.Context, name string) bool {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for !s.source.HasChassis(name) {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	return true
}

// awaitDatabases waits for what the databases of s still have to tell: those of a Corefile
// that has passed its trial have told all but what has become wanted since.
func (s *server) awaitDatabases() {
	b := bridges.get(s.options.Bridge)
	if b == nil || !b.current.Load().settled() {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, trialTimeout)
	defer cancel()
	b.await(ctx, s)
}

// tryEndpoints tries the local endpoints that are new to b, where it has what is there now.
func (s *server) tryEndpoints(ctx context.Context, b *bridge) error {
	o, was := &s.options, &b.current.Load().options
	for _, local := range []struct {
		property string
		e, was   endpoint.Endpoint
		now      bool
	}{
		{"openflow", o.OpenFlow, was.OpenFlow, b.conn.Load() != nil},
		{"ovsdb", o.OVSDB, was.OVSDB, b.ports.Followed()},
	} {
		if !local.now || local.e == local.was && o.TLS == was.TLS {
			continue
		}
		if local.e.Listen && local.was.Listen && portOf(local.e) == portOf(local.was) {
			continue // the switch calls again only once the connection that it has ends
		}
		if err := o.tryEndpoint(ctx, local.e); err != nil {
			return fmt.Errorf("ofpunt %s: %s: %w; expected one that can be reached, as that of the Corefile before is", o.Bridge, local.property, err)
		}
	}
	return nil
}

func portOf(e endpoint.Endpoint) string {
	_, port, _ := net.SplitHostPort(e.Address) // endpoint has checked it
	return port
}

// tryEndpoint finds out whether there is somebody to connect to, or who connects. A switch that
// has called is kept for the session to come: it would not call again for seconds.
func (o *Options) tryEndpoint(ctx context.Context, e endpoint.Endpoint) error {
	conn, err := open(ctx, e, &o.TLS)
	switch {
	case err != nil && e.Listen && ctx.Err() != nil:
		return fmt.Errorf("%s: no switch has called within %s", e, trialTimeout)
	case err != nil:
		return err
	case e.Listen:
		calls.keep(call{e, o.TLS}, conn)
	default:
		conn.Close()
	}
	return nil
}

// bridgeGivenUp is a bridge that before serves, and none of servers would, if any.
func bridgeGivenUp(before *instance, servers []*server) (bridge string) {
	if before == nil {
		return ""
	}
	for _, s := range before.servers {
		name := s.options.Bridge
		if slices.ContainsFunc(servers, func(s *server) bool { return s.options.Bridge == name }) {
			continue
		}
		if b := bridges.get(name); b != nil && b.conn.Load() != nil {
			if view := b.ports.View(); view != nil && !view.Absent() {
				return name
			}
		}
	}
	return ""
}

// tryNewBridge looks for the bridge of s, which is new, by its socket and in the local database.
func (s *server) tryNewBridge(ctx context.Context, given string) error {
	o := &s.options
	expected := fmt.Sprintf("expected a bridge that is there, as %s of the Corefile before is", given)
	if err := o.tryEndpoint(ctx, o.OpenFlow); err != nil {
		return fmt.Errorf("ofpunt %s: openflow: %w; %s", o.Bridge, err, expected)
	}
	config, err := o.TLS.For(o.OVSDB)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	var view *ports.View
	unread := error(nil)
	err = vswitch.Watch(ctx, o.OVSDB, config, o.Bridge,
		func(v vswitch.View) { view = ports.NewView(v, nil) },
		func(err error) { unread = err; done() })
	switch {
	case unread != nil:
		err = unread
	case view == nil: // not even that it can't be read
	case view.Absent():
		return fmt.Errorf("ofpunt %s: the local Open_vSwitch database has no bridge of this name; %s", o.Bridge, expected)
	default:
		return nil
	}
	return fmt.Errorf("ofpunt %s: ovsdb: %w; %s", o.Bridge, err, expected)
}
