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
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/label"
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

// Try returns an error unless a reload to a Corefile would keep what works now: a reload must
// not lose answers. Where the current Corefile has read its databases completely, or is
// connected to its switch, the new one has to be able to do so too; a bridge in the place of
// one that is abandoned has to exist. All bridges are tried at once, for trialTimeout at most.
//
// The blocks must have passed CheckAfter. databases returns what an ovnhosts directive reads
// and requests. What was opened stays open until release is called, so that the new servers share it.
func Try(ctx context.Context, file string, blocks []caddyfile.ServerBlock, databases func(*caddy.Controller) (ovndb.Config, ovndb.Requests, error)) (release func(), err error) {
	servers, err := serversToTry(file, blocks, databases)
	if err != nil {
		return nil, err
	}
	if err := tryControl(servers); err != nil {
		return nil, err
	}
	serving.Lock()
	abandoned := abandonedBridge(serving.instance, servers)
	serving.Unlock()

	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	over := new(atomic.Bool)
	for _, s := range servers {
		s.database.Log = trialLog{s.database.Log, over}
	}
	release = func() {
		for _, s := range servers {
			s.close()
		}
		over.Store(true)
	}
	if err := tryAll(ctx, servers, abandoned); err != nil {
		release()
		acceptedInTrial.closeAll()
		return nil, err
	}
	return release, nil
}

// trialLog is the log of a database that a trial opens: what it says is none of what
// serves, until that shares the database and the trial is over.
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
func tryAll(ctx context.Context, servers []*server, abandoned string) error {
	for _, s := range servers {
		if b := bridges.get(s.options.Name); b != nil {
			// Before any server asks for more, perhaps of the databases of another bridge.
			s.settledBefore = b.current.Load().settled()
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(servers))
	for i, s := range servers {
		wg.Go(func() { errs[i] = s.try(ctx, abandoned) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// serversToTry returns a server for each bridge, with no more than a trial needs. Each makes the
// requests of all blocks that read its databases, whether these are for its bridge, another one
// or sockets alone.
func serversToTry(file string, blocks []caddyfile.ServerBlock, databases func(*caddy.Controller) (ovndb.Config, ovndb.Requests, error)) (servers []*server, err error) {
	requests := make(map[string][]ovndb.Requests) // by ovn.Config.Key
	for i := range blocks {
		var database ovndb.Config
		hasOVNHosts := len(blocks[i].Tokens["ovnhosts"]) > 0
		if hasOVNHosts {
			var more ovndb.Requests
			if database, more, err = databases(corefile.Controller(file, &blocks[i], "ovnhosts")); err != nil {
				return nil, err
			}
			more.Forwards = len(blocks[i].Tokens["ovnforward"]) > 0
			requests[database.Key()] = append(requests[database.Key()], more)
		}
		if len(blocks[i].Tokens[name]) == 0 {
			continue
		}
		d, err := config.Parse(corefile.Controller(file, &blocks[i], name))
		if err != nil {
			return nil, err
		}
		n := slices.IndexFunc(servers, func(s *server) bool { return s.options.Name == d.Bridge.Name })
		if n < 0 {
			n, servers = len(servers), append(servers, &server{options: d.Bridge})
		}
		s := servers[n]
		if d.HasProperties() { // other blocks of the bridge have the same, or none
			s.options = d.Bridge
		}
		if hasOVNHosts {
			s.hasOVNHosts, s.database = true, database
		}
		read := label.Read(blocks[i])
		label.AddRequests(&s.labelRequests, read.Labels, read.ComparedNames)
	}
	for _, s := range servers {
		s.guests = guests.NewRules(s.options.Config)
		s.options.AddRequests(&s.labelRequests)
		if s.hasOVNHosts {
			s.requests = requests[s.database.Key()]
		}
	}
	return servers, nil
}

// try opens the databases of s and waits until they have been read, and connects to the switch
// and the local database. abandoned is as abandonedBridge returns it.
func (s *server) try(ctx context.Context, abandoned string) error {
	b := bridges.get(s.options.Name)
	if b == nil && abandoned == "" {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	var err error
	if b == nil {
		err = s.tryNewBridge(ctx, abandoned)
	} else {
		err = s.tryReplacement(ctx, b)
	}
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("ofpunt %s: %w", s.options.Name, errProcessEnds)
	}
	return err
}

// tryReplacement returns an error unless s can keep what works with the current server of b.
func (s *server) tryReplacement(ctx context.Context, b *bridge) error {
	current := b.current.Load()
	for _, r := range s.requests {
		s.source.Request(r)
	}
	endpoints := make(chan error, 1)
	go func() { endpoints <- s.tryEndpoints(ctx, b) }()
	shared := s.source.Shares(current.source)
	var told bool
	known, view := true, b.ports.View()
	if !shared {
		told = b.awaitSettled(ctx, s)
		// Without its chassis nothing is settled. That there is more to read is no reason then.
		if !told && s.settledBefore && s.source != nil && view != nil {
			has, sure := s.source.HasChassis(s.chassis(view))
			known = has || !sure
		}
	} else {
		told = s.awaitRequested(ctx)
		if s.settledBefore && view != nil && s.chassis(view) != current.chassis(view) {
			known = s.awaitChassis(ctx, s.chassis(view))
		}
	}
	if err := <-endpoints; err != nil {
		return err
	}
	if err := s.conflict(); err != nil {
		return fmt.Errorf("ofpunt %s: chassis: %w", s.options.Name, err)
	}
	if !known {
		return fmt.Errorf("ofpunt %s: chassis: the Southbound database has no chassis %q; expected one that it has, as that of the Corefile before", s.options.Name, s.chassis(view))
	}
	if s.settledBefore && !told {
		lacks, expected := strings.Join(s.source.Status().Lacks(), "; "), "some that can be reached"
		if lacks == "" {
			lacks, expected = "there is more to read", "some that are read within that time"
		}
		return fmt.Errorf("ofpunt %s: %w within %s, as those of the Corefile before have: %s; expected %s", s.options.Name, errNotRead, trialTimeout, lacks, expected)
	}
	return nil
}

// awaitRequested waits until the databases, which serve the current Corefile as well, have sent
// what s requests of them, or ctx ends. If they were not settled before, only the request
// counts. A settled snapshot alone is not enough: a guest may have no router scope in it. It
// reports whether they have.
func (s *server) awaitRequested(ctx context.Context) bool {
	routers := slices.ContainsFunc(s.requests, func(r ovndb.Requests) bool { return r.Routers })
	return s.awaitSnapshot(ctx, func(now *ovn.Snapshot) bool {
		return (now.Settled || !s.settledBefore) && (!routers || now.HasRouterScopes())
	})
}

// awaitChassis reports whether the databases have a chassis by the time that ctx ends. It does
// not claim that chassis, since the current server is served from the same databases.
func (s *server) awaitChassis(ctx context.Context, name string) bool {
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

// awaitNewDatabases waits until the databases of s are read, if those of the current server
// are. After a trial that can be no more than networks that plugins have asked for since.
func (s *server) awaitNewDatabases() {
	b := bridges.get(s.options.Name)
	if b == nil || !b.current.Load().settled() {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, trialTimeout)
	defer cancel()
	b.awaitSettled(ctx, s)
}

// tryEndpoints tries the switch and the local database, where they are other ones than those
// that b is connected to now.
func (s *server) tryEndpoints(ctx context.Context, b *bridge) error {
	o, was := &s.options, &b.current.Load().options
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
		if err := tryEndpoint(ctx, o, local.e); err != nil {
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
func tryEndpoint(ctx context.Context, o *config.Bridge, e endpoint.Endpoint) error {
	conn, err := open(ctx, e, &o.TLS)
	switch {
	case err != nil && e.Listen && ctx.Err() != nil:
		return fmt.Errorf("%s: %w within %s", e, errNoSwitch, trialTimeout)
	case err != nil:
		return err
	case e.Listen:
		acceptedInTrial.put(acceptKey{e, o.TLS}, conn)
	default:
		conn.Close()
	}
	return nil
}

// abandonedBridge returns the name of a bridge that the current instance serves and none of
// servers would, empty if there is none.
func abandonedBridge(current *instance, servers []*server) (bridge string) {
	if current == nil {
		return ""
	}
	for _, s := range current.servers {
		name := s.options.Name
		if slices.ContainsFunc(servers, func(s *server) bool { return s.options.Name == name }) {
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

// tryNewBridge returns an error unless the bridge of s, which is new, has its socket and is in
// the local database.
func (s *server) tryNewBridge(ctx context.Context, abandoned string) error {
	o := &s.options
	expected := fmt.Sprintf("expected a bridge that is there, as %s of the Corefile before is", abandoned)
	if err := tryEndpoint(ctx, o, o.OpenFlow); err != nil {
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
