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

// trialTimeout bounds how long a reload waits for databases and switches that are
// new to it.
const trialTimeout = 10 * time.Second

// What a trial fails with.
var (
	errProcessEnds = errors.New("the process ends")
	errNoSwitch    = errors.New("no switch has connected")
	errNotRead     = errors.New("the databases have not told everything")
)

// Try returns an error unless the servers, one for each bridge of a new Corefile, would keep what works now:
// a reload must not lose answers. If the current server has read its databases completely, or is connected to
// its switch, the new server has to be able to do so too. If a connected bridge has no server any more, a
// bridge that is new has to exist. Try tries all servers at once, for trialTimeout at most.
//
// What was opened stays open until release is called, so that the servers of the Corefile share it.
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

// trialLog is the log of a database that a trial opens. It marks each line, until the trial is over and the
// servers of the Corefile share the database.
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

// Infof implements ovn.Logger.
func (l trialLog) Infof(format string, args ...any) { l.Logger.Infof(l.mark()+format, args...) }

// Warningf implements ovn.Logger.
func (l trialLog) Warningf(format string, args ...any) { l.Logger.Warningf(l.mark()+format, args...) }

// tryAll tries the servers side by side, and returns the error of the first that has
// one.
func (r *Registry) tryAll(ctx context.Context, servers []*Server, dropped string) error {
	for _, s := range servers {
		if b := r.Get(s.Options.Name); b != nil {
			// Before any server asks for more, perhaps of the databases of another bridge.
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

// try opens the databases of s and waits until they have been read, and connects to the switch
// and the local database. dropped is as droppedBridge returns it.
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

// tryReplacement returns an error unless s can keep what works with the current server of b.
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
		// Without its chassis nothing is settled. That there is more to read is no reason then.
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

// awaitRequested waits until the databases, which serve the current Corefile as well, have sent
// what s requests of them, or ctx ends. If they were not settled before, only the request
// counts. A settled snapshot alone is not enough: a guest may have no router scope in it. It
// reports whether they have.
func (s *Server) awaitRequested(ctx context.Context) bool {
	routers := slices.ContainsFunc(s.More, func(r ovndb.Requests) bool { return r.Routers })
	return s.awaitSnapshot(ctx, func(now *ovn.Snapshot) bool {
		return (now.Settled || !s.wasSettled) && (!routers || now.HasRouterScopes())
	})
}

// awaitChassis reports whether the databases have a chassis by the time that ctx ends. It does
// not claim that chassis, since the current server is served from the same databases.
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

// AwaitDatabases waits until the databases of s are read, if the databases of the current server are read.
// After a trial only networks can be missing that plugins have asked for since.
func (r *Registry) AwaitDatabases(s *Server) {
	b := r.Get(s.Options.Name)
	if b == nil || !b.current.Load().settled() {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, trialTimeout)
	defer cancel()
	b.awaitSettled(ctx, s)
}

// tryEndpoints tries the switch and the local database, where they are other ones than those
// that b is connected to now.
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
			continue // the switch connects again only once its current connection ends
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

// tryEndpoint returns an error unless it can connect to e, or e connects. A connection that was
// accepted is left to the next session: the switch would not connect again for seconds.
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

// dropped returns the name of a connected bridge that none of the servers is for, empty without one.
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

// tryNewBridge returns an error unless the bridge of s, which is new, has its socket and is in
// the local database.
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
	case view == nil: // ctx has ended before either
	case view.Absent():
		return fmt.Errorf("ofpunt %s: the local Open_vSwitch database has no bridge of this name; %s", o.Name, expected)
	default:
		return nil
	}
	return fmt.Errorf("ofpunt %s: ovsdb: %w; %s", o.Name, err, expected)
}
