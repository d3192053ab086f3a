// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"crypto/tls"
	"fmt"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/refcount"
)

// sources are the Sources that run, by Config.Key.
var sources refcount.Pool[string, *Source]

// Acquire returns the Source of a configuration: the running one if there is one,
// else a new one. Each Acquire needs a Release. It does not wait for a connection. The
// error is one of the configuration, or of a TLS file.
func Acquire(cfg Config) (*Source, error) {
	sb, nb, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	return sources.Acquire(cfg.Key(), func() (*Source, error) {
		var conf *tls.Config
		if cfg.TLS != (endpoint.TLSFiles{}) {
			if conf, err = cfg.TLS.Config(false); err != nil {
				return nil, fmt.Errorf("tls: %w", err)
			}
		}
		s := start(cfg, sb, nb, conf)
		totals.begin(s)
		return s, nil
	})
}

// Release undoes one Acquire. The last one ends the connections, and returns when all
// goroutines have ended.
func (s *Source) Release() {
	if sources.Release(s.config.Key(), s) {
		s.stop()
		totals.end(s)
	}
}
