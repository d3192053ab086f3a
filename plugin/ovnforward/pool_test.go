// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/testkit"
)

func words(s string) []string { return strings.Fields(s) }

// server is the server of a number.
func server(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(n)}), 1)
}

// live says which servers a pool has, by their numbers.
func (p *pool) live() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for s := range p.all {
		b := s.Addr().As4()
		all = append(all, fmt.Sprint(b[3]))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestPool(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	now := time.Unix(1000, 0)
	p := newPool(3)
	p.now = func() time.Time { now = now.Add(time.Second); return now }
	use := func(n int) *upstream {
		t.Helper()
		u := p.acquire(server(n))
		if u == nil {
			t.Fatalf("no room for %d", n)
		}
		return u
	}
	has := func(want string) {
		t.Helper()
		if got := p.live(); got != want {
			t.Errorf("it has %s, want %s", got, want)
		}
	}
	one, again := use(1), use(1)
	if one != again {
		t.Error("one server was started twice")
	}
	again.release()
	use(2).release()
	use(3).release()
	use(2).release()
	has("1 2 3")
	evicted := testkit.Value(t, evictions)
	use(4).release() // 1 is in use, and 3 was not for longest
	has("1 2 4")
	if got := testkit.Value(t, evictions) - evicted; got != 1 {
		t.Errorf("%v evictions are counted", got)
	}
	two, four := use(2), use(4)
	if p.acquire(server(5)) != nil {
		t.Error("there is room for one more than all that are in use")
	}
	two.release()
	four.release()

	// What is in use when it goes works to the end.
	p.retain(map[netip.AddrPort]struct{}{server(2): {}, server(9): {}})
	has("2")
	one.release()
	fresh := use(1)
	if fresh == one {
		t.Error("a server that has gone is used again")
	}
	now = now.Add(idleAfter)
	p.retain(map[netip.AddrPort]struct{}{server(1): {}, server(2): {}})
	has("1")
	fresh.release()
	p.close()
	has("")
	if p.acquire(server(1)) != nil {
		t.Error("a closed pool starts a server")
	}
	goleak.VerifyNone(t, ignore)
}

// Two health checks that fail in a row are enough for a server to be down.
func TestDown(t *testing.T) {
	p := newPool(1)
	defer p.close()
	u := p.acquire(silent(t))
	defer u.release()
	u.failed()
	wait(t, func() string {
		if n := u.proxy.Fails(); n < 2 {
			return fmt.Sprintf("%d failed checks", n)
		}
		return ""
	})
	if !u.isDown() {
		t.Errorf("a server is up after %d failed checks", u.proxy.Fails())
	}
}

// Servers come and go while they are asked for, and nothing is left.
func TestPoolRace(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	p := newPool(4)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				if u := p.acquire(server((i + j) % 10)); u != nil {
					u.isDown()
					u.release()
				}
				if j%20 == 0 {
					p.retain(map[netip.AddrPort]struct{}{server(j % 10): {}})
				}
				p.health()
			}
		})
	}
	wg.Wait()
	p.close()
	goleak.VerifyNone(t, ignore)
}

// The metrics of package proxy are found, else those of servers that have gone would stay.
func TestProxyMetrics(t *testing.T) {
	if len(proxyMetrics) != 4 {
		t.Errorf("%d metrics are found, want 4", len(proxyMetrics))
	}
}
