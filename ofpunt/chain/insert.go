// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"slices"

	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// insertOwnHandlers returns the plugins of a block with puntdns' handlers:
//
//	ofpunt, metadata ... unobserved, log, outcome ... hop, Normalize, rewrite ... Above, cache, Below ... Unstored, whoami
//
// unobserved stands before each run of observers, hop before the first plugin that may query another server. Package
// tenantcache has the handlers around *cache*.
func insertOwnHandlers(plugins []plugin.Plugin, o tenantcache.Options) []plugin.Plugin {
	names := make([]string, len(plugins))
	for i, p := range plugins {
		names[i] = p(nil).Name()
	}
	inserted := map[int][]plugin.Plugin{} // by the index of the plugin behind them
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
			// Normalize would remove the options that *rewrite* adds.
			first = min(first, rewrite)
		}
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

// *prometheus* counts answers by the name of the next handler, which may be puntdns' own.
func followedBy(prometheus plugin.Plugin, behind string) plugin.Plugin {
	return func(next plugin.Handler) plugin.Handler {
		if next != nil {
			next = named{next, behind}
		}
		return prometheus(next)
	}
}

type named struct {
	plugin.Handler
	name string
}

func (n named) Name() string { return n.name }
