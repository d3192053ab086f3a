// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/binding"
)

// Reader is a bridge's part of a Source: its local chassis, ports and requests. Any goroutine may call the
// methods.
type Reader struct {
	*Source
	bridge   string
	conflict atomic.Pointer[error]

	// Source.mu guards the fields below.

	// local has the ports in effect, nil before the first SetLocal without a conflict. granted is their
	// chassis.
	local       *binding.LocalPorts
	granted     string
	wanted      string
	wantedPorts binding.LocalPorts
	inPorts     map[binding.InPort]struct{}
	asked       []string
	releases    []func()
}

// Open returns a Reader. Its errors are as for Acquire. Each Open needs a Close.
func Open(cfg Config, bridge string) (*Reader, error) {
	s, err := Acquire(cfg)
	if err != nil {
		return nil, err
	}
	return s.open(bridge), nil
}

func (s *Source) open(bridge string) *Reader {
	r := &Reader{Source: s, bridge: bridge}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers[r] = struct{}{}
	return r
}

func (r *Reader) Close() {
	r.forget()
	r.Release()
}

func (r *Reader) forget() {
	r.mu.Lock()
	releases := r.releases
	r.releases = nil
	delete(r.readers, r)
	r.conditionsDirty = r.conditionsDirty || len(r.asked) > 0
	r.setPlugged(r.local != nil)
	for other := range r.readers {
		if other.conflict.Load() != nil {
			other.decide()
		}
	}
	r.mu.Unlock()
	for _, release := range releases {
		release()
	}
}

// Shares reports whether two Readers, which may be nil, have the same Source.
func (r *Reader) Shares(other *Reader) bool {
	return r != nil && other != nil && r.Source == other.Source
}

func (r *Reader) Request(requests Requests) {
	release := r.Source.Request(requests)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releases = append(r.releases, release)
}

// SetLocal sets the name of the local chassis (ovn-sb(5), Chassis), or "", and the logical ports with an
// interface on the bridge, by external_ids:iface-id. With Southbound, a guest without a binding is retained
// for the grace while it has its interface. With Northbound alone these ports are the guests, and no snapshot
// is settled before the first call.
//
// A Source has one chassis. While another bridge has another chassis, SetLocal has no effect, and Conflict
// says why. The last call of each takes effect once all bridges have the same chassis, or the other bridge
// has closed. So bridges follow a renamed chassis in any order. Readers of one bridge, during a reload, do
// not conflict.
func (r *Reader) SetLocal(chassis string, ports []string, grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted, r.wantedPorts = chassis, binding.LocalPorts{Names: ports, Grace: grace}
	r.decide()
}

// Chassis returns the name of the last SetLocal, or "".
func (r *Reader) Chassis() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted
}

// Conflict returns why the last SetLocal has no effect, or nil.
func (r *Reader) Conflict() error {
	if err := r.conflict.Load(); err != nil {
		return *err
	}
	return nil
}

// mu is held.
func (r *Reader) decide() {
	for other := range r.readers {
		if other.bridge != r.bridge && other.granted != "" && other.granted != r.wanted && other.wanted != r.wanted {
			err := fmt.Errorf("bridge %s reads the same databases for chassis %q, so they can't be read for chassis %q; expected one chassis, or another process for it",
				other.bridge, other.granted, r.wanted)
			r.conflict.Store(&err)
			return
		}
	}
	r.setChassis(r.wanted)
	first := false
	for other := range r.readers {
		if other == r || other.wanted == r.wanted && other.granted != r.wanted {
			first = first || other.local == nil
			ports := other.wantedPorts
			other.granted, other.local = r.wanted, &ports
			other.conflict.Store(nil)
		}
	}
	r.setPlugged(first)
}

// more is set if the number of reporting bridges has changed. mu is held.
func (s *Source) setPlugged(more bool) {
	var names []string
	for r := range s.readers {
		if r.local != nil {
			names = append(names, r.local.Names...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if s.sb != nil {
		s.plug(names, s.clock())
		if s.awaitsConfirmation() {
			s.unsettle()
		}
		s.update()
		return
	}
	if slices.Equal(names, s.plugged) && !more || s.nb == nil {
		return
	}
	for _, name := range append(slices.Clone(s.plugged), names...) {
		s.nb.MarkPortNamed(name)
	}
	s.plug(names, s.clock())
	s.conditionsDirty = true
	s.unsettle()
	s.update()
}

func (s *Source) localPorts() (all []binding.LocalPorts) {
	for r := range s.readers {
		if r.local != nil {
			all = append(all, *r.local)
		}
	}
	return all
}

// Confirm sets the ports from which ovn-controller's flows take in packets on the bridge. During a warm start
// only confirmed guests are served.
func (r *Reader) Confirm(ports []binding.InPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.needsConfirmation() {
		return
	}
	all := make(map[binding.InPort]struct{}, len(ports))
	for _, p := range ports {
		all[p] = struct{}{}
	}
	if r.inPorts != nil && maps.Equal(r.inPorts, all) {
		return
	}
	r.inPorts = all
	if r.warm.waiting {
		return
	}
	r.markAllPorts()
	r.coverageChanged = true
	r.update()
}

func (s *Source) confirmed() (all []map[binding.InPort]struct{}) {
	for r := range s.readers {
		if r.inPorts != nil {
			all = append(all, r.inPorts)
		}
	}
	return all
}

func (s *Source) forgetConfirmed() {
	for r := range s.readers {
		r.inPorts = nil
	}
}
