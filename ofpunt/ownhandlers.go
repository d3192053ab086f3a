// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// insertOwnHandlers returns the plugins of a block with handlers of our own between them:
//
//	ofpunt, metadata ... unobserved, log, outcome ... Normalize, rewrite ... Above, cache, Below ... Unstored, whoami
//
// There is an outcome where there is log or prometheus, an unobserved before each run of plugins
// that tell of queries, and the others, which are of package tenantcache, where there is cache.
// wrapplugins.go wraps each forward and tsig, and puts a noTransfers behind transfer, and hijack.go adds the
// end of the chain.
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
	for _, run := range observersAmong(names) {
		u := &unobservedRun{names: names[run.first:run.end]}
		before(run.first, u.enter)
		plugins[run.end-1] = u.last(plugins[run.end-1])
	}
	observer := max(slices.Index(names, "log"), slices.Index(names, "prometheus"))
	if observer >= 0 {
		before(observer+1, func(next plugin.Handler) plugin.Handler { return newOutcome(next) })
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
