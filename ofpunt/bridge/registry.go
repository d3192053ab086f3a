// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Registry has the bridges of a process by name. They outlive the Corefile: a reload leaves connections
// and flows as they are, and changes which server answers. It is safe for concurrent use.
type Registry struct {
	// feed shows the queries of all bridges to those who watch.
	feed *watch.Feed
	// accepted has the connections from switches that a trial has accepted.
	accepted acceptedConns

	mu sync.Mutex
	m  map[string]*Bridge // guarded by mu
}

// NewRegistry returns a registry without a bridge. The bridges publish their queries to feed.
func NewRegistry(feed *watch.Feed) *Registry {
	return &Registry{feed: feed, m: map[string]*Bridge{}}
}

// Serve has s, which has chains, answer for its bridge from now on. A bridge that is new connects to its
// switch.
func (r *Registry) Serve(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.m[s.Options.Name]
	if b == nil {
		b = newBridge(s.Options.Name, r.feed, &r.accepted)
		r.m[b.name] = b
	}
	b.setServer(s)
}

// Stop waits for the queries of a server and releases its databases. With last no other server answers for
// the bridge: first the flows are withdrawn, so that no query comes, or, where another process has the flows,
// not for much longer. Then the queries in the chains get their answers, and then the connection ends. With
// keepClosed the switch goes on dropping the packets of closed guests.
func (r *Registry) Stop(s *Server, last, keepClosed bool) {
	b := r.Get(s.Options.Name)
	if b != nil && last {
		b.withdrawFlows(keepClosed)
		b.awaitDatapath()
	}
	ctx, cancel := context.WithTimeout(context.Background(), punt.DrainTimeout)
	defer cancel()
	s.drain(ctx)
	if last {
		if b != nil {
			b.flush(ctx)
		}
		r.remove(s.Options.Name)
	}
	s.Close()
}

// Get returns the bridge of that name. It is nil if the process does not serve the bridge.
func (r *Registry) Get(name string) *Bridge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[name]
}

// All returns the bridges, sorted by their names.
func (r *Registry) All() (all []*Bridge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.m)) {
		all = append(all, r.m[name])
	}
	return all
}

// remove closes a bridge, whose flows have been withdrawn, and forgets it.
func (r *Registry) remove(name string) {
	r.mu.Lock()
	b := r.m[name]
	delete(r.m, name)
	r.mu.Unlock()
	if b != nil {
		b.close()
	}
}

// NotReady returns why bridges are not served, a line for each that is not, and one if there is no bridge
// yet.
func (r *Registry) NotReady() (reasons []string) {
	all := r.All()
	if len(all) == 0 {
		return []string{"the plugins are being started"}
	}
	for _, b := range all {
		if why := b.whyNotReady(); why != "" {
			reasons = append(reasons, "bridge "+b.name+": "+why)
		}
	}
	return reasons
}

// Collect puts whether bridges are ready into a scrape. That depends on databases and their bindings too,
// so each scrape asks.
func (r *Registry) Collect(to metricset.Scrape) {
	for _, b := range r.All() {
		to.Put(metric.Ready, metricset.Flag(b.whyNotReady() == ""), b.name)
		to.Put(metric.Stalled, metricset.Flag(b.stall.reason() != ""), b.name)
	}
}
