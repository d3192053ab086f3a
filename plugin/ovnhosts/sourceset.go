// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"slices"
	"sync"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// openSources are of all handlers, for ready and prometheus.
var openSources sourceSet

type sourceSet struct {
	mu   sync.Mutex // guards uses, and each use
	uses map[*ovndb.Source]*use
}

type use struct {
	openSource
	count int
}

type openSource struct {
	*ovndb.Source
	config ovndb.Config
	// domain is that of the last handler that has opened the source, or empty.
	domain string
}

// acquire opens the source of c, or shares an open one. It fails as ovndb.Acquire does.
func (r *sourceSet) acquire(c ovndb.Config, domain string) (*ovndb.Source, error) {
	s, err := ovndb.Acquire(c)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uses == nil {
		r.uses = map[*ovndb.Source]*use{}
	}
	u := r.uses[s]
	if u == nil {
		u = &use{openSource: openSource{Source: s, config: c}}
		r.uses[s] = u
	}
	u.count++
	u.domain = domain
	return s, nil
}

// release waits for the source without mu: the source may write to a disk.
func (r *sourceSet) release(s *ovndb.Source) {
	if r.forget(s) {
		s.Release()
	}
}

// forget removes one use, and reports whether there was one.
func (r *sourceSet) forget(s *ovndb.Source) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.uses[s]
	if u == nil {
		return false
	}
	if u.count--; u.count == 0 {
		delete(r.uses, s)
	}
	return true
}

func (r *sourceSet) ready() bool { return len(r.notReady()) == 0 }

func (r *sourceSet) notReady() (reasons []string) {
	all := r.all()
	if len(all) == 0 {
		return []string{"the plugins are being started"}
	}
	for _, s := range all {
		reasons = append(reasons, s.Status().Lacks()...)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons) // sources with other settings may read the same database
}

func (r *sourceSet) all() (all []openSource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.uses {
		all = append(all, u.openSource)
	}
	slices.SortFunc(all, func(a, b openSource) int { return cmp.Compare(a.config.Key(), b.config.Key()) })
	return all
}
