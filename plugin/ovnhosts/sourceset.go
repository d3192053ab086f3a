// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"slices"
	"sync"

	"github.com/puntdns/puntdns/internal/ovn"
)

// openSources are the databases that the handlers of this process have open, for ready and
// prometheus, which report on all of them.
var openSources sourceSet

// sourceSet has sources, each with its users.
type sourceSet struct {
	mu   sync.Mutex // guards uses, and each use
	uses map[*ovn.Source]*use
}

// use counts the handlers that have a source open.
type use struct {
	openSource
	count int
}

// openSource is a source that a handler has open.
type openSource struct {
	*ovn.Source
	config ovn.Config
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
		u = &use{openSource: openSource{Source: s, config: c}}
		r.uses[s] = u
	}
	u.count++
	u.domain = domain
	return s, nil
}

// release undoes one acquire. It waits for the end of the source without mu, since the source may write to
// a disk then.
func (r *sourceSet) release(s *ovn.Source) {
	if r.forget(s) {
		s.Release()
	}
}

// forget takes one use of a source back. It reports whether there was one.
func (r *sourceSet) forget(s *ovn.Source) bool {
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

// notReady returns why databases are not in sync, none if all are.
func (r *sourceSet) notReady() (reasons []string) {
	all := r.all()
	if len(all) == 0 {
		return []string{"the plugins are being started"}
	}
	for _, s := range all {
		reasons = append(reasons, s.Status().Lacks()...)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons) // two sources may read one database in different ways
}

// all returns the sources in the order of what they are configured to read.
func (r *sourceSet) all() (all []openSource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.uses {
		all = append(all, u.openSource)
	}
	slices.SortFunc(all, func(a, b openSource) int { return cmp.Compare(a.config.Key(), b.config.Key()) })
	return all
}
