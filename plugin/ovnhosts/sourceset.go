// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"slices"
	"strings"
	"sync"

	"github.com/puntdns/puntdns/internal/ovn"
)

// openSources are the databases that the handlers of this process have open, for ready and
// prometheus, which report on all of them.
var openSources sourceSet

// sourceSet has sources, each with its users.
type sourceSet struct {
	mu   sync.Mutex // guards uses
	uses map[*ovn.Source]*use
}

// use counts the handlers that have a source open.
type use struct {
	config ovn.Config
	count  int
	// domain is that of the handler that has opened it last, empty for none.
	domain string
}

// acquire opens the source of c, or shares it with other handlers. Its error is that of
// ovn.Acquire. domain is that of the handler.
func (r *sourceSet) acquire(c ovn.Config, domain string) (*ovn.Source, error) {
	s, err := ovn.Acquire(c)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uses == nil {
		r.uses = map[*ovn.Source]*use{}
	}
	u := r.uses[s]
	if u == nil {
		u = &use{config: c}
		r.uses[s] = u
	}
	u.count++
	u.domain = domain
	return s, nil
}

func (r *sourceSet) release(s *ovn.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.uses[s]; u != nil {
		if u.count--; u.count == 0 {
			delete(r.uses, s)
		}
		s.Release()
	}
}

func (r *sourceSet) ready() bool { return len(r.notReady()) == 0 }

// notReady returns why databases are not in sync, none if all are.
func (r *sourceSet) notReady() (reasons []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.uses) == 0 {
		return []string{"the plugins are being started"}
	}
	for s := range r.uses {
		reasons = append(reasons, s.Status().Lacks()...)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons) // two sources may read one database in different ways
}

// all returns the sources by their endpoints. Of two with the same endpoints it returns one.
func (r *sourceSet) all() map[string]*ovn.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]*ovn.Source, len(r.uses))
	for s, u := range r.uses {
		endpoints := append(append([]string(nil), u.config.Southbound...), u.config.Northbound...)
		all[strings.Join(endpoints, ",")] = s
	}
	return all
}
