// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"slices"
	"strings"
	"sync"

	"github.com/puntdns/puntdns/internal/ovn"
)

// sources are the databases that the handlers of this process read, for what
// ready and prometheus want to know of all of them.
var sources register

type register struct {
	mu   sync.Mutex
	uses map[*ovn.Source]*use
}

type use struct {
	config ovn.Config
	count  int
}

// acquire opens the source of c, or joins those who have it open.
func (r *register) acquire(c ovn.Config) (*ovn.Source, error) {
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
	return s, nil
}

func (r *register) release(s *ovn.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.uses[s]; u != nil {
		if u.count--; u.count == 0 {
			delete(r.uses, s)
		}
		s.Release()
	}
}

func (r *register) ready() bool { return len(r.notReady()) == 0 }

// notReady is what the databases wait for, none if all are in sync.
func (r *register) notReady() (reasons []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.uses) == 0 {
		return []string{"the plugins are being started"}
	}
	for s := range r.uses {
		reasons = append(reasons, s.Status().Lacks()...)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons) // of several ways to read one database
}

// all returns the sources by the endpoints that they read. Two that read the same
// ones in another way count as one.
func (r *register) all() map[string]*ovn.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]*ovn.Source, len(r.uses))
	for s, u := range r.uses {
		endpoints := append(append([]string(nil), u.config.Southbound...), u.config.Northbound...)
		all[strings.Join(endpoints, ",")] = s
	}
	return all
}
