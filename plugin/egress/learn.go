// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"sync"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/policy"
)

// maxLearned bounds the names that a policy remembers for the operator.
const maxLearned = 1000

// learned counts queries for names that no policy of the guest allows.
type learned struct {
	mu sync.Mutex // guards all fields
	// more is set if a name had no room.
	queries map[string]uint64
	more    bool
}

func (l *learned) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.queries[name]; !known && len(l.queries) >= maxLearned {
		l.more = true
		return
	}
	l.queries[name]++
}

var observers = observerSet{all: map[*Handler]struct{}{}}

type observerSet struct {
	mu  sync.Mutex // guards all
	all map[*Handler]struct{}
}

func init() { control.Process.Answer(api.PathEgressLearn, observers.answer) }

func (s *observerSet) open(h *Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[h] = struct{}{}
}

func (s *observerSet) close(h *Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, h)
}

// answer is the control.AnswerFunc of api.PathEgressLearn.
func (s *observerSet) answer(context.Context, url.Values) (any, error) {
	out := &api.LearnedPolicies{Policies: []api.LearnedPolicy{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.all {
		for i := range h.policies {
			out.Policies = append(out.Policies, h.policies[i].learned())
		}
	}
	slices.SortFunc(out.Policies, func(a, b api.LearnedPolicy) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.At, b.At))
	})
	return out, nil
}

func (p *guestPolicy) learned() api.LearnedPolicy {
	out := api.LearnedPolicy{Policy: p.words(), At: p.at.String(), Allow: []string{}, Names: []api.LearnedName{}}
	for _, e := range p.rules.Entries() {
		out.Allow = append(out.Allow, e.String())
	}
	p.names.mu.Lock()
	defer p.names.mu.Unlock()
	out.More = p.names.more
	for name, n := range p.names.queries {
		if e, err := policy.Parse(name); err != nil || e.Name != name {
			out.More = true // no entry can match this name
			continue
		}
		out.Names = append(out.Names, api.LearnedName{Name: name, Queries: n})
	}
	slices.SortFunc(out.Names, func(a, b api.LearnedName) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
