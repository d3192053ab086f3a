// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

type notice struct {
	warning bool
	text    string
}

// logMutex is a mutex, and a Logger for its holder. Unlock writes the lines after it has released the mutex,
// so a slow log delays only its writer.
type logMutex struct {
	sync.Mutex
	log Logger // set before the start
	// writing is set while a goroutine writes lines, also lines that others add meanwhile.
	pending []notice
	writing bool
}

func (m *logMutex) Infof(format string, args ...any) {
	m.add(notice{text: fmt.Sprintf(format, args...)})
}

func (m *logMutex) Warningf(format string, args ...any) {
	m.add(notice{true, fmt.Sprintf(format, args...)})
}

func (m *logMutex) add(lines ...notice) { m.pending = append(m.pending, lines...) }

func (m *logMutex) Unlock() {
	for !m.writing && len(m.pending) > 0 {
		lines := m.pending
		m.pending, m.writing = nil, true
		m.Mutex.Unlock()
		for _, n := range lines {
			if n.warning {
				m.log.Warningf("%s", n.text)
			} else {
				m.log.Infof("%s", n.text)
			}
		}
		m.Lock()
		m.writing = false
	}
	m.Mutex.Unlock()
}

type occurrence struct {
	count int
	ids   []origin.Network
}

func (o occurrence) isAmbiguous() bool { return o.count > 1 }

func (o occurrence) listed(name string) string {
	var all []string
	for _, id := range o.ids {
		all = append(all, id.String())
	}
	if more := o.count - len(all); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d logical switches are named %q (%s)", o.count, name, strings.Join(all, ", "))
}

const maxListed = 10

// logged is immutable, from the last snapshot with all requested rows.
type logged struct {
	networks map[ovn.SwitchRef]occurrence
	compared map[string]occurrence
}

func (s *Source) findLogged(next *ovn.Snapshot) logged {
	isRead := s.isAcknowledged()
	return logged{
		networks: occurrences(s.references.Networks, s.logged.networks, isRead, func(r ovn.SwitchRef) occurrence { return s.occurrenceOf(next, r) }),
		compared: occurrences(s.references.Compared, s.logged.compared, isRead, func(name string) occurrence {
			return s.occurrenceOf(next, ovn.SwitchRef{Name: name})
		}),
	}
}

func occurrences[K comparable](counts map[K]int, previous map[K]occurrence, isRead bool, now func(K) occurrence) map[K]occurrence {
	all := make(map[K]occurrence, len(counts))
	for key := range counts {
		if isRead {
			all[key] = now(key)
		} else if was, ok := previous[key]; ok {
			all[key] = was
		}
	}
	return all
}

func (s *Source) occurrenceOf(in *ovn.Snapshot, r ovn.SwitchRef) (o occurrence) {
	if _, o.count = in.Resolve(r); o.isAmbiguous() {
		o.ids = s.NetworksNamed(r.Name)
		o.ids = o.ids[:min(len(o.ids), maxListed)]
	}
	return o
}

func notices(prev, next logged) (all []notice) {
	for _, r := range slices.SortedFunc(maps.Keys(next.networks), ovn.CompareSwitchRefs) {
		was, ok := prev.networks[r]
		if !ok {
			was.count = 1
		}
		if text, warning := noticeOfNetwork(r, was, next.networks[r]); text != "" {
			all = append(all, notice{warning, text})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next.compared)) {
		was, now := prev.compared[name], next.compared[name]
		switch {
		case now.isAmbiguous() && !was.isAmbiguous():
			all = append(all, notice{true, now.listed(name) + ": a view or limit by ofpunt/switch takes them for one; ofpunt/network is never ambiguous"})
		case was.isAmbiguous() && !now.isAmbiguous():
			all = append(all, notice{false, fmt.Sprintf("%d logical switches that are read here are named %q now: a view or limit may go by that name", now.count, name)})
		}
	}
	return all
}

func noticeOfNetwork(r ovn.SwitchRef, was, now occurrence) (text string, warning bool) {
	named := fmt.Sprintf("is named %q", r.Name)
	if r.Name == "" {
		named = "has the UUID " + r.ID.String()
	}
	switch {
	case min(was.count, 2) == min(now.count, 2):
		return "", false
	case now.count == 0:
		return fmt.Sprintf("no logical switch %s, though one is asked for", named), true
	case now.isAmbiguous():
		return now.listed(r.Name) + ", though one is asked for: none of them is taken; the UUID of one is never ambiguous", true
	case was.count == 0:
		return fmt.Sprintf("a logical switch %s now", named), false
	}
	return fmt.Sprintf("just one logical switch %s now", named), false
}
