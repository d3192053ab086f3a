// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"

	"github.com/coredns/coredns/plugin"
)

// withGuards returns the plugins of a block with handlers of our own between them:
//
//	ofpunt, metadata ... log, outcome ... plainQuestion, rewrite ... aboveCache, cache, belowCache ...
//
// There is an outcome where there is log or prometheus, and the others where there is
// cache.
func withGuards(plugins []plugin.Plugin) []plugin.Plugin {
	names := make([]string, len(plugins))
	for i, p := range plugins {
		// A handler is made more than once in any case: each server that has the
		// block makes one.
		names[i] = p(nil).Name()
	}
	place := map[int][]plugin.Plugin{} // what comes before the plugin of that number
	before := func(i int, p plugin.Plugin) { place[i] = append(place[i], p) }

	told := max(slices.Index(names, "log"), slices.Index(names, "prometheus"))
	if told >= 0 {
		before(told+1, func(next plugin.Handler) plugin.Handler { return newOutcome(next) })
	}
	if cache := slices.Index(names, "cache"); cache >= 0 {
		first := cache
		if rewrite := slices.Index(names, "rewrite"); rewrite >= 0 {
			// What rewrite adds to a question is the operator's, and stays.
			first = min(first, rewrite)
		}
		before(first, func(next plugin.Handler) plugin.Handler { return &plainQuestion{next} })
		before(cache, func(next plugin.Handler) plugin.Handler { return &aboveCache{next} })
		before(cache+1, func(next plugin.Handler) plugin.Handler { return &belowCache{next} })
	}
	var all []plugin.Plugin
	for i, p := range plugins {
		all = append(append(all, place[i]...), p)
	}
	return append(all, place[len(plugins)]...)
}
