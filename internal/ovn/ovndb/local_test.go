// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
)

// TestLocal: the networks of the guests here come and go with them, and no
// guest is listed before both databases have sent all rows of its network.
func TestLocal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.build(twoTenants)
	s := r.acquire(r.config(true, true))

	// Until stop: check each snapshot that this gets to see.
	stop, watched := make(chan struct{}), sync.WaitGroup{}
	watched.Go(func() {
		blue := false
		for {
			changed := s.Changed()
			snapshot := s.Snapshot()
			for p := range snapshot.Guests() {
				n := snapshot.Network(p.Network)
				if n == nil {
					t.Errorf("guest %s has no network", p.Name)
				} else if _, ok := n.Lookup("vm1.blue.test.", ""); n.Name == "blue" && !ok {
					t.Errorf("guest %s is there before the names of its network", p.Name)
				} else if _, ok := n.Lookup("txt.ovn.org.", ""); n.Name == "blue" && !ok {
					t.Errorf("guest %s is there before the other records of its network", p.Name)
				}
			}
			now := snapshot.NetworkByName("blue") != nil
			if blue && !now {
				t.Error("blue has left")
			}
			blue = now
			select {
			case <-changed:
			case <-stop:
				return
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		watched.Wait()
	})
	defer end()

	are := func(wantNetworks, wantGuests string) {
		t.Helper()
		eventually(t, s, func(s *ovn.Snapshot) string {
			if n, g := networks(s), guests(s); n != wantNetworks || g != wantGuests {
				return fmt.Sprintf("networks %q, guests %q; want %q, %q", n, g, wantNetworks, wantGuests)
			}
			return ""
		})
	}
	eventually(t, s, func(s *ovn.Snapshot) string {
		if _, _, ok := s.DNSStage(); !ok {
			return "no stage"
		}
		return ""
	})
	are("", "")
	s.nameChassis("hv1")
	are("bare blue", "b1 b2 c1 p1")
	r.nbctl("lsp-add blue b9 -- lsp-set-addresses b9 02:00:00:00:00:09~10.0.0.90 -- lsp-set-options b9 hostname=vm9")
	eventually(t, s, lookups("blue vm9. = 10.0.0.90"))
	are("bare blue", "b1 b2 c1 p1")
	r.sbctl("lsp-unbind p1")
	are("bare blue", "b1 b2 c1")
	narrow(s)
	are("blue", "b1 b2 c1")
	r.sbctl("lsp-bind b9 hv1")
	are("blue", "b1 b2 b9 c1")
	remove := s.Request(Requests{Network: ovn.SwitchRef{Name: "red"}})
	also := s.Request(Requests{Network: ovn.SwitchRef{Name: "red"}})
	are("blue red", "b1 b2 b9 c1")
	remove()
	remove()
	end()
	s.nameChassis("hv2")
	are("red", "r1")
	r.sbctl("chassis-del hv2")
	are("red", "")
	also()
	narrow(s)
	are("", "")
	s.nameChassis("hv3")
	r.sbctl("chassis-add hv3 geneve 127.0.0.3 -- lsp-unbind b1 -- lsp-bind b1 hv3")
	are("blue", "b1")
	r.nbctl("ls-del blue")
	are("", "")
}

// TestLocalNorthbound: without a Southbound it is the ports named that count.
func TestLocalNorthbound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, command := range twoTenants {
		r.nbctl(command)
	}
	s := r.acquire(r.config(false, true))
	for _, step := range []struct {
		ports              []string
		networks, expected string
	}{
		{nil, "", ""},
		{[]string{"r1", "none", "r1"}, "red", "r1"},
		{[]string{"b1", "r1"}, "blue red", "b1 r1"},
		{[]string{"b1"}, "blue", "b1"},
		{nil, "", ""},
	} {
		s.as("br").setPorts(step.ports, 0)
		narrow(s)
		eventually(t, s, func(s *ovn.Snapshot) string {
			if n, g := networks(s), guests(s); n != step.networks || g != step.expected {
				return fmt.Sprintf("%v: networks %q, guests %q; want %q, %q", step.ports, n, g, step.networks, step.expected)
			}
			return ""
		})
	}
	defer s.Request(Requests{Network: ovn.SwitchRef{Name: "bare"}})()
	eventually(t, s, lookups("bare vm1. = 10.0.0.4"))
}

// Guests that are named later are not known at once: a snapshot from before that
// says that all are must not stand while the next one is put off.
func TestSetPortsUnsettles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, command := range twoTenants {
		r.nbctl(command)
	}
	s := r.acquire(r.config(false, true))
	s.as("br1").setPorts([]string{"r1"}, 0)
	eventually(t, s, func(s *ovn.Snapshot) string {
		if !s.Settled || guests(s) != "r1" {
			return "not yet"
		}
		return ""
	})
	s.mu.Lock()
	s.notBefore = time.Now().Add(time.Minute) // as after a long rebuild
	s.mu.Unlock()
	s.as("br2").setPorts([]string{"b1"}, 0)
	if n := s.Snapshot(); n.Settled {
		t.Errorf("settled with guests %q after br2 has named b1", guests(n))
	}
}
