// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"slices"
	"strconv"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
)

// settings are parts of the *cache* directive.
type settings struct {
	zones []string
	// zones has the root, or is unknown
	all bool
	// in entries
	capacity int
	// ttl bounds freshness, stale the time beyond.
	ttl, stale time.Duration
	// *cache* refreshes answers by itself
	refreshes bool
}

const (
	// for answers and denials each
	defaultCapacity = 10000
	// CoreDNS's plugin/pkg/cache
	cacheShards, minShard = 256, 4
	defaultTTL            = time.Hour
	// of serve_stale
	defaultStale = time.Hour
)

// *cache* has validated the directive.
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

// "CAPACITY [TTL] [MINTTL]"
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

func roundCapacity(n int) int { return max(n/cacheShards, minShard) * cacheShards }

// name is in lower case.
func (s *settings) covers(name string) bool {
	return s.all || plugin.Zones(s.zones).Contains(name)
}
