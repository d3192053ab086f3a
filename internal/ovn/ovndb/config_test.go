// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// The properties in which configurations differ are named, and these are what Key tells apart.
func TestConfigDifferences(t *testing.T) {
	base := Config{Southbound: []string{"unix:/sb"}, Northbound: []string{"unix:/nb"}, TLS: endpoint.TLSFiles{Cert: "/c"}, WarmStart: WarmStart{"/saved", time.Minute}}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"the same", func(c *Config) { c.Southbound, c.Log = []string{"unix:/sb"}, silent{} }, "[]"},
		{"Southbound", func(c *Config) { c.Southbound = []string{"unix:/other"} }, "[southbound]"},
		{"no Northbound", func(c *Config) { c.Northbound = nil }, "[northbound]"},
		{"monitor", func(c *Config) { c.Monitor = All }, "[monitor]"},
		{"a file of TLS", func(c *Config) { c.TLS.CA = "/ca" }, "[tls]"},
		{"the name of the server", func(c *Config) { c.TLS.ServerName = "a.test" }, "[tls_servername]"},
		{"no snapshot", func(c *Config) { c.WarmStart = WarmStart{} }, "[snapshot]"},
		{"another age", func(c *Config) { c.WarmStart.MaxAge = time.Hour }, "[snapshot]"},
		{"two", func(c *Config) { c.Southbound, c.WarmStart.Folder = nil, "/other" }, "[southbound snapshot]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := base
			tt.change(&other)
			for _, got := range []string{fmt.Sprint(base.Differences(other)), fmt.Sprint(other.Differences(base))} {
				if got != tt.want || (base.Key() == other.Key()) != (got == "[]") {
					t.Errorf("%s, want %s; keys %s and %s", got, tt.want, base.Key(), other.Key())
				}
			}
		})
	}
}
