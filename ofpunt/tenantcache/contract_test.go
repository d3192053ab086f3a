// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"reflect"
	"testing"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin/cache"
)

// The defaults of the real *cache* are those that readSettings has.
func TestDefaultsOfCache(t *testing.T) {
	s := readSettings(caddyfile.ServerBlock{Keys: []string{"."}, Tokens: map[string][]caddyfile.Token{"cache": {{Text: "cache"}}}})
	real := reflect.ValueOf(cache.New()).Elem()
	for field, want := range map[string]int64{"pcap": defaultCapacity, "ncap": defaultCapacity, "pttl": int64(defaultTTL), "staleUpTo": 0} {
		f := real.FieldByName(field)
		if !f.IsValid() {
			t.Errorf("cache has no field %s any more", field)
		} else if got := f.Int(); got != want {
			t.Errorf("%s is %d, want %d", field, got, want)
		}
	}
	if s.ttl != defaultTTL || defaultTTL != time.Hour || s.stale != 0 {
		t.Errorf("%+v", s)
	}
}
