// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"slices"
	"strconv"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
)

// settings is what the directive of *cache* says that matters here.
type settings struct {
	zones []string
	// all is set if zones has the root, or is not known.
	all bool
	// capacity is the number of entries that *cache* has room for.
	capacity int
	// ttl bounds how long an answer is fresh, stale how long it is kept beyond that.
	ttl, stale time.Duration
	// refreshes is set if *cache* asks for answers anew by itself.
	refreshes bool
}

const (
	// defaultCapacity is the default capacity of each of the two caches, for answers and denials.
	defaultCapacity = 10000
	// cacheShards and minShard are how CoreDNS's package plugin/pkg/cache rounds a capacity.
	cacheShards, minShard = 256, 4
	// defaultTTL bounds the TTLs of answers in *cache*.
	defaultTTL = time.Hour
	// defaultStale is how long *cache* keeps what has expired with serve_stale.
	defaultStale = time.Hour
)

// readSettings reads the directive of *cache* in a block. The plugin itself has refused a wrong directive.
func readSettings(block caddyfile.ServerBlock) settings {
	s := settings{ttl: defaultTTL}
	success, denial := defaultCapacity, defaultCapacity
	d := caddyfile.NewDispenserTokens("", block.Tokens["cache"])
	var args []string
	if d.Next() {
		args = d.RemainingArgs()
	}
	if len(args) > 0 {
		if n, err := strconv.Atoi(args[0]); err == nil {
			s.ttl, args = time.Duration(n)*time.Second, args[1:]
		}
	}
	s.zones = plugin.OriginsFromArgsOrServerBlock(args, block.Keys)
	s.all = len(s.zones) == 0 || slices.Contains(s.zones, ".")
	for d.NextBlock() {
		property, args := d.Val(), d.RemainingArgs()
		switch property {
		case "success":
			success = s.readCapacity(args, success)
		case "denial":
			denial = s.readCapacity(args, denial)
		case "prefetch":
			s.refreshes = true
		case "serve_stale":
			s.refreshes, s.stale = true, defaultStale
			if len(args) > 0 {
				if stale, err := time.ParseDuration(args[0]); err == nil {
					s.stale = stale
				}
			}
		}
	}
	s.capacity = roundCapacity(success) + roundCapacity(denial)
	return s
}

// readCapacity reads "CAPACITY [TTL] [MINTTL]".
func (s *settings) readCapacity(args []string, capacity int) int {
	for i, arg := range args {
		n, err := strconv.Atoi(arg)
		switch {
		case err != nil:
		case i == 0:
			capacity = n
		default:
			s.ttl = max(s.ttl, time.Duration(n)*time.Second)
		}
	}
	return capacity
}

// roundCapacity returns how many entries a cache has room for that is asked to have n.
func roundCapacity(n int) int { return max(n/cacheShards, minShard) * cacheShards }

// covers reports whether *cache* looks at names like this one, in lower case.
func (s *settings) covers(name string) bool {
	return s.all || plugin.Zones(s.zones).Contains(name)
}
