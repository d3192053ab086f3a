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

// shared is a Source with its reference count.
type shared struct {
	source *Source
	refs   int // calls of Acquire without a Release yet
}

// Acquire returns the Source of a configuration: the running one if there is one,
// else a new one. Each Acquire needs a Release. It does not wait for a connection. The
// error is one of the configuration, or of a TLS file.
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

// Release undoes one Acquire. The last one ends the connections, and returns when all
// goroutines have ended.
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
