// SPDX-License-Identifier: Apache-2.0

package metricset

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/coredns/coredns/plugin/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// QueryCounter counts by the server and the view of a query, and by further labels. Its methods may be called concurrently.
// Nobody may delete its series.
type QueryCounter struct {
	*prometheus.CounterVec

	mu sync.Mutex // guards writes of known
	// known caches counters of CounterVec: to find one by its labels takes three times as long.
	known atomic.Pointer[map[queryLabels]prometheus.Counter]
}

const maxFurther = 2

type queryLabels struct {
	server, view string
	further      [maxFurther]string
}

// QueryCounter returns a registered counter with the labels server and view, and at most two further ones.
func (s *Set) QueryCounter(name, help string, further ...string) *QueryCounter {
	if len(further) > maxFurther {
		panic(fmt.Sprintf("metric %s: %d further labels", name, len(further)))
	}
	c := &QueryCounter{CounterVec: s.Counter(name, help, append([]string{"server", "view"}, further...)...)}
	c.known.Store(&map[queryLabels]prometheus.Counter{})
	return c
}

// Inc counts the query of ctx. further are the values of the further labels.
func (c *QueryCounter) Inc(ctx context.Context, further ...string) {
	of := queryLabels{server: metrics.WithServer(ctx), view: metrics.WithView(ctx)}
	copy(of.further[:], further)
	counter, ok := (*c.known.Load())[of]
	if !ok {
		counter = c.find(of, further)
	}
	counter.Inc()
}

func (c *QueryCounter) find(of queryLabels, further []string) prometheus.Counter {
	counter := c.WithLabelValues(append([]string{of.server, of.view}, further...)...)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := maps.Clone(*c.known.Load())
	known[of] = counter
	c.known.Store(&known)
	return counter
}
