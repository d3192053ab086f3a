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

// Registry has a process's bridges by name. A reload changes only which server answers, and keeps connections and
// flows. It is safe for concurrent use.
type Registry struct {
	feed     *watch.Feed
	accepted acceptedConns

	mu sync.Mutex
	m  map[string]*Bridge // guarded by mu
}

// NewRegistry returns a registry without bridges. Bridges publish their queries to feed.
func NewRegistry(feed *watch.Feed) *Registry {
	return &Registry{feed: feed, m: map[string]*Bridge{}}
}

// Serve makes s, which has chains, answer for its bridge. A new bridge connects to its switch.
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

// Stop waits for the queries of s and releases its databases. With last no other server answers for the bridge: Stop
// first withdraws the flows, and waits for late packets if another process has taken over, and finally closes the
// connection. keep is [flows.Withdraw.Keep].
func (r *Registry) Stop(s *Server, last, keep bool) {
	b := r.Get(s.Options.Name)
	if b != nil && last {
		b.withdrawFlows(keep)
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

// Get returns a bridge, nil if the process does not serve it.
func (r *Registry) Get(name string) *Bridge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[name]
}

// All returns the bridges, sorted by name.
func (r *Registry) All() (all []*Bridge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.m)) {
		all = append(all, r.m[name])
	}
	return all
}

// remove closes a bridge whose flows are withdrawn.
func (r *Registry) remove(name string) {
	r.mu.Lock()
	b := r.m[name]
	delete(r.m, name)
	r.mu.Unlock()
	if b != nil {
		b.close()
	}
}

// NotReady returns a line for each bridge that is not served, or one line without bridges.
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

// Collect reports which bridges are ready. Each scrape asks, since readiness depends on databases and bindings.
func (r *Registry) Collect(to metricset.Scrape) {
	for _, b := range r.All() {
		to.Put(metric.Ready, metricset.Flag(b.whyNotReady() == ""), b.name)
		to.Put(metric.Stalled, metricset.Flag(b.stall.reason() != ""), b.name)
	}
}
