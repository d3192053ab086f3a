// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"crypto/tls"
	"fmt"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/refcount"
)

var sources refcount.Pool[string, *Source]

// Acquire returns the running Source of a configuration, or starts one without waiting for a connection. Each
// Acquire needs a Release. The error is about the configuration or a TLS file.
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

// Release undoes one Acquire. The last Release returns when all goroutines have ended.
func (s *Source) Release() {
	if sources.Release(s.config.Key(), s) {
		s.stop()
		totals.end(s)
	}
}
