// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// trialTimeout bounds a reload's wait for new databases and switches.
const trialTimeout = 10 * time.Second

var (
	errProcessEnds = errors.New("the process ends")
	errNoSwitch    = errors.New("no switch has connected")
	errNotRead     = errors.New("the databases have not sent everything")
)

// Try returns an error if the servers, one for each bridge of a new Corefile, would lose what works now. They must
// read databases, and connect to switches, as the current servers do. If a connected bridge loses its server, new
// bridges must exist. Try takes trialTimeout at most.
//
// The databases stay open until release is called, so that the Corefile's servers share them.
func (r *Registry) Try(ctx context.Context, servers []*Server) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	over := new(atomic.Bool)
	for _, s := range servers {
		s.Database.Log = trialLog{s.Database.Log, over}
	}
	release = func() {
		for _, s := range servers {
			s.Close()
		}
		over.Store(true)
	}
	if err := r.tryAll(ctx, servers, r.dropped(servers)); err != nil {
		release()
		r.accepted.closeAll()
		return nil, err
	}
	return release, nil
}

// trialLog marks log lines of databases until their trial is over.
type trialLog struct {
	ovndb.Logger
	over *atomic.Bool
}

func (l trialLog) mark() string {
	if l.over.Load() {
		return ""
	}
	return "trial of the reload: "
}

// Infof implements ovndb.Logger.
func (l trialLog) Infof(format string, args ...any) { l.Logger.Infof(l.mark()+format, args...) }

// Warningf implements ovndb.Logger.
func (l trialLog) Warningf(format string, args ...any) { l.Logger.Warningf(l.mark()+format, args...) }

func (r *Registry) tryAll(ctx context.Context, servers []*Server, dropped string) error {
	for _, s := range servers {
		if b := r.Get(s.Options.Name); b != nil {
			// before any server requests more, perhaps of another bridge's databases
			s.wasSettled = b.current.Load().settled()
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(servers))
	for i, s := range servers {
		wg.Go(func() { errs[i] = r.try(ctx, s, dropped) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// try takes the result of Registry.dropped.
func (r *Registry) try(ctx context.Context, s *Server, dropped string) error {
	b := r.Get(s.Options.Name)
	if b == nil && dropped == "" {
		return nil
	}
	if err := s.Open(); err != nil {
		return err
	}
	var err error
	if b == nil {
		err = r.tryNewBridge(ctx, s, dropped)
	} else {
		err = r.tryReplacement(ctx, s, b)
	}
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("ofpunt %s: %w", s.Options.Name, errProcessEnds)
	}
	return err
}

func (r *Registry) tryReplacement(ctx context.Context, s *Server, b *Bridge) error {
	current := b.current.Load()
	for _, r := range s.More {
		s.source.Request(r)
	}
	endpoints := make(chan error, 1)
	go func() { endpoints <- r.tryEndpoints(ctx, s, b) }()
	shared := s.source.Shares(current.source)
	var told bool
	known, view := true, b.ports.View()
	if !shared {
		told = b.awaitSettled(ctx, s)
		// Without its chassis nothing is settled, so unread rows are not the reason.
		if !told && s.wasSettled && s.source != nil && view != nil {
			has, sure := s.source.HasChassis(s.Chassis(view))
			known = has || !sure
		}
	} else {
		told = s.awaitRequested(ctx)
		if s.wasSettled && view != nil && s.Chassis(view) != current.Chassis(view) {
			known = s.awaitChassis(ctx, s.Chassis(view))
		}
	}
	if err := <-endpoints; err != nil {
		return err
	}
	if err := s.Conflict(); err != nil {
		return fmt.Errorf("ofpunt %s: chassis: %w", s.Options.Name, err)
	}
	if !known {
		return fmt.Errorf("ofpunt %s: chassis: the Southbound database has no chassis %q; expected one that it has, as that of the Corefile before", s.Options.Name, s.Chassis(view))
	}
	if s.wasSettled && !told {
		lacks, expected := strings.Join(s.source.Status().Lacks(), "; "), "some that can be reached"
		if lacks == "" {
			lacks, expected = "there is more to read", "some that are read within that time"
		}
		return fmt.Errorf("ofpunt %s: %w within %s, as those of the Corefile before have: %s; expected %s", s.Options.Name, errNotRead, trialTimeout, lacks, expected)
	}
	return nil
}

// awaitRequested reports whether the databases, which the current Corefile shares, have sent what s requests. If they
// were not settled before, only the request counts. A settled snapshot alone is not enough: a guest may lack its
// router scope.
func (s *Server) awaitRequested(ctx context.Context) bool {
	routers := slices.ContainsFunc(s.More, func(r ovndb.Requests) bool { return r.Routers })
	return s.awaitSnapshot(ctx, func(now *ovn.Snapshot) bool {
		return (now.Settled || !s.wasSettled) && (!routers || now.HasRouterScopes())
	})
}

// awaitChassis does not set the chassis: the current server uses the same databases.
func (s *Server) awaitChassis(ctx context.Context, name string) bool {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for {
		if has, _ := s.source.HasChassis(name); has {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
}

// AwaitDatabases waits until the databases of s are read, if the current server's are. After a trial they lack only
// networks that plugins requested since.
func (r *Registry) AwaitDatabases(s *Server) {
	b := r.Get(s.Options.Name)
	if b == nil || !b.current.Load().settled() {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, trialTimeout)
	defer cancel()
	b.awaitSettled(ctx, s)
}

// tryEndpoints tries the switch and the local database, if they are connected and their endpoint or TLS files change.
func (r *Registry) tryEndpoints(ctx context.Context, s *Server, b *Bridge) error {
	o, was := &s.Options, &b.current.Load().Options
	for _, local := range []struct {
		property string
		e, was   endpoint.Endpoint
		up       bool
	}{
		{"openflow", o.OpenFlow, was.OpenFlow, b.conn.Load() != nil},
		{"ovsdb", o.OVSDB, was.OVSDB, b.ports.DatabaseUp()},
	} {
		if !local.up || local.e == local.was && o.TLS == was.TLS {
			continue
		}
		if local.e.Listen && local.was.Listen && portOf(local.e) == portOf(local.was) {
			continue // the switch connects again only after its current connection ends
		}
		if err := r.tryEndpoint(ctx, o, local.e); err != nil {
			return fmt.Errorf("ofpunt %s: %s: %w; expected one that can be reached, as that of the Corefile before is", o.Name, local.property, err)
		}
	}
	return nil
}

func portOf(e endpoint.Endpoint) string {
	_, port, _ := net.SplitHostPort(e.Address) // endpoint has checked it
	return port
}

// tryEndpoint leaves an accepted connection to the next session: the switch would not reconnect for seconds.
func (r *Registry) tryEndpoint(ctx context.Context, o *config.Bridge, e endpoint.Endpoint) error {
	conn, err := open(ctx, e, &o.TLS)
	switch {
	case err != nil && e.Listen && ctx.Err() != nil:
		return fmt.Errorf("%s: %w within %s", e, errNoSwitch, trialTimeout)
	case err != nil:
		return err
	case e.Listen:
		r.accepted.put(acceptKey{e, o.TLS}, conn)
	default:
		conn.Close()
	}
	return nil
}

// dropped returns a connected bridge without a server, else empty.
func (r *Registry) dropped(servers []*Server) (bridge string) {
	for _, b := range r.All() {
		if slices.ContainsFunc(servers, func(s *Server) bool { return s.Options.Name == b.name }) || b.conn.Load() == nil {
			continue
		}
		if view := b.ports.View(); view != nil && !view.Absent() {
			return b.name
		}
	}
	return ""
}

// tryNewBridge returns an error unless the bridge has its socket and is in the local database.
func (r *Registry) tryNewBridge(ctx context.Context, s *Server, dropped string) error {
	o := &s.Options
	expected := fmt.Sprintf("expected a bridge that is there, as %s of the Corefile before is", dropped)
	if err := r.tryEndpoint(ctx, o, o.OpenFlow); err != nil {
		return fmt.Errorf("ofpunt %s: openflow: %w; %s", o.Name, err, expected)
	}
	tls, err := o.TLS.For(o.OVSDB)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	var view *ports.View
	unread := error(nil)
	err = vswitch.Watch(ctx, o.OVSDB, tls, o.Name,
		func(v vswitch.View) { view = ports.NewView(v, nil) },
		func(err error) { unread = err; done() })
	switch {
	case unread != nil:
		err = unread
	case view == nil: // ctx has ended
	case view.Absent():
		return fmt.Errorf("ofpunt %s: the local Open_vSwitch database has no bridge of this name; %s", o.Name, expected)
	default:
		return nil
	}
	return fmt.Errorf("ofpunt %s: ovsdb: %w; %s", o.Name, err, expected)
}
