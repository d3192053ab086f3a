// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"crypto/tls"
	"fmt"
	"sync"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// sources are the Sources that run, by Config.Key. sourcesMu guards them.
var (
	sourcesMu sync.Mutex
	sources   = make(map[string]*shared)
)

// shared is a Source and how many have acquired it and not released.
type shared struct {
	source *Source
	refs   int
}

// Acquire returns the Source of a configuration: the running one if somebody
// has acquired it before, else a new one. Each Acquire needs a Release. It does
// not wait for a connection.
func Acquire(cfg Config) (*Source, error) {
	sb, nb, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	sourcesMu.Lock()
	defer sourcesMu.Unlock()
	key := cfg.Key()
	if s := sources[key]; s != nil {
		s.refs++
		return s.source, nil
	}
	var conf *tls.Config
	if cfg.TLS != (endpoint.TLSFiles{}) {
		if conf, err = cfg.TLS.Config(false); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	s := start(cfg, sb, nb, conf)
	s.key = key
	sources[key] = &shared{source: s, refs: 1}
	return s, nil
}

// Release gives the Source back. At the last Release its connections end, and
// its goroutines have ended when Release returns.
func (s *Source) Release() {
	sourcesMu.Lock()
	sh := sources[s.key]
	if sh == nil || sh.source != s {
		sourcesMu.Unlock()
		return
	}
	sh.refs--
	last := sh.refs == 0
	if last {
		delete(sources, s.key)
	}
	sourcesMu.Unlock()
	if last {
		s.stop()
	}
}
