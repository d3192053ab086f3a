// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"slices"

	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// insertOwnHandlers returns the plugins of a block with handlers of our own between them:
//
//	ofpunt, metadata ... unobserved, log, outcome ... hop, Normalize, rewrite ... Above, cache, Below ... Unstored, whoami
//
// An outcome stands behind log and prometheus, an unobserved before each run of plugins that report
// queries, a hop before the first plugin that may send a query to another server. The handlers of package
// tenantcache stand where the block has cache.
func insertOwnHandlers(plugins []plugin.Plugin, o tenantcache.Options) []plugin.Plugin {
	names := make([]string, len(plugins))
	for i, p := range plugins {
		// A handler is made more than once in any case: each server that has the
		// block makes one.
		names[i] = p(nil).Name()
	}
	inserted := map[int][]plugin.Plugin{} // by the index of the plugin that they come before
	before := func(i int, p plugin.Plugin) { inserted[i] = append(inserted[i], p) }

	plugins = slices.Clone(plugins)
	if i := slices.Index(names, "prometheus"); i >= 0 && i+1 < len(names) {
		plugins[i] = followedBy(plugins[i], names[i+1])
	}
	for _, run := range observersAmong(names) {
		u := &unobservedRun{names: names[run.first:run.end]}
		before(run.first, u.enter)
		plugins[run.end-1] = u.last(plugins[run.end-1])
	}
	observer := max(slices.Index(names, "log"), slices.Index(names, "prometheus"))
	if observer >= 0 {
		before(observer+1, func(next plugin.Handler) plugin.Handler { return newOutcome(next) })
	}
	if i := slices.IndexFunc(names, mayForward); i >= 0 {
		isRewritten := slices.Contains(names, "rewrite")
		before(i, func(next plugin.Handler) plugin.Handler { return &hop{next, isRewritten} })
	}
	if cache := slices.Index(names, "cache"); cache >= 0 {
		first := cache
		if rewrite := slices.Index(names, "rewrite"); rewrite >= 0 {
			// What rewrite adds to a question is the operator's wish, so it stays.
			first = min(first, rewrite)
		}
		// One for all chains of the block, as they have one cache.
		c := tenantcache.New(o)
		before(first, tenantcache.Normalize)
		before(cache, c.Above)
		before(cache+1, c.Below)
		if whoami := slices.Index(names, "whoami"); whoami > cache {
			before(whoami, tenantcache.Unstored)
		}
	}
	var all []plugin.Plugin
	for i, p := range plugins {
		all = append(append(all, inserted[i]...), p)
	}
	return append(all, inserted[len(plugins)]...)
}

// followedBy returns *prometheus* with a handler behind it that has the name of the plugin behind it
// in the block: *prometheus* counts each answer for the name of the handler behind it, which may be
// one of our own.
func followedBy(prometheus plugin.Plugin, behind string) plugin.Plugin {
	return func(next plugin.Handler) plugin.Handler {
		if next != nil {
			next = named{next, behind}
		}
		return prometheus(next)
	}
}

// named is a handler by another name.
type named struct {
	plugin.Handler
	name string
}

// Name implements plugin.Handler.
func (n named) Name() string { return n.name }
