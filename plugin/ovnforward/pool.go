// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin/pkg/proxy"
	"github.com/coredns/coredns/plugin/pkg/transport"
)

const (
	// maxFails is the number of failed health checks in a row before a server counts as down.
	maxFails = 1
	// checkInterval is the time between health checks, which run from a failed query to an answer.
	checkInterval = 500 * time.Millisecond
	// maxIdle bounds the idle connections of a server, by protocol.
	maxIdle = 16
	// idleAfter is the time after which an unused server is removed.
	idleAfter = 5 * time.Minute
	// logInterval is the least time between two lines of the log about the health of one server.
	logInterval = time.Minute
)

// pool has the servers in use. It starts a server at the first query, and stops it when no network names it, when
// it is unused for idleAfter, or to make room. Its methods are safe for concurrent use.
type pool struct {
	max int
	now func() time.Time

	mu     sync.Mutex // guards what is below, and the fields of each upstream that name it
	all    map[netip.AddrPort]*upstream
	closed bool
}

// upstream is one server. It is usable until its last user releases it.
type upstream struct {
	pool   *pool
	server netip.AddrPort
	proxy  *proxy.Proxy

	users int       // that have not released it; guarded by pool.mu
	used  time.Time // when it was last acquired; guarded by pool.mu
	gone  bool      // it is not in the pool any more; guarded by pool.mu
	// toldDown is the state that was logged last, at the time told; guarded by pool.mu.
	toldDown bool
	told     time.Time
}

func newPool(most int) *pool {
	return &pool{max: most, now: time.Now, all: make(map[netip.AddrPort]*upstream)}
}

// acquire returns a server, which the caller must release. It may start the server, and removes the least recently
// used one if the pool is full. It returns nil if all servers are busy or the pool is closed.
func (p *pool) acquire(server netip.AddrPort) *upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	u := p.all[server]
	if u == nil {
		if len(p.all) >= p.max && !p.evict() {
			return nil
		}
		u = p.start(server)
	}
	u.users++
	u.used = p.now()
	return u
}

// evict removes the least recently used server. It reports false if all are busy. mu is held.
func (p *pool) evict() bool {
	var oldest *upstream
	for _, u := range p.all {
		if u.users == 0 && (oldest == nil || u.used.Before(oldest.used)) {
			oldest = u
		}
	}
	if oldest == nil {
		return false
	}
	evictions.Inc()
	p.remove(oldest)
	return true
}

// start adds a server. mu is held.
func (p *pool) start(server netip.AddrPort) *upstream {
	u := &upstream{pool: p, server: server, proxy: proxy.NewProxy(Name, server.String(), transport.DNS)}
	u.proxy.SetReadTimeout(readTimeout)
	u.proxy.SetMaxIdleConns(maxIdle)
	u.proxy.Start(checkInterval)
	p.all[server] = u
	return u
}

// remove removes a server, and stops it after its last release. mu is held.
func (p *pool) remove(u *upstream) {
	delete(p.all, u.server)
	u.gone = true
	if u.users == 0 {
		u.stop()
	}
}

// retain removes the servers that are not named, or unused for idleAfter.
func (p *pool) retain(named map[netip.AddrPort]struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for server, u := range p.all {
		if _, ok := named[server]; !ok || u.users == 0 && p.now().Sub(u.used) > idleAfter {
			p.remove(u)
		}
	}
}

// close removes all servers. acquire fails afterwards.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, u := range p.all {
		p.remove(u)
	}
}

// health returns the numbers of servers that are up and down.
func (p *pool) health() (up, down int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.all {
		if u.proxy.Down(maxFails) {
			down++
		} else {
			up++
		}
	}
	return up, down
}

// release undoes acquire.
func (u *upstream) release() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	if u.users--; u.users == 0 && u.gone {
		u.stop()
	}
}

// stop ends the goroutines of the server and closes its connections. It removes the finalizer with which package
// proxy would close them again.
func (u *upstream) stop() {
	runtime.SetFinalizer(u.proxy, nil)
	u.proxy.Stop()
	u.proxy.GetTransport().Stop()
	forgetServer(u.server)
}

// failed starts health checks of the server, until it answers.
func (u *upstream) failed() { u.proxy.Healthcheck() }

// isDown reports whether the health checks of the server have failed, and logs changes.
func (u *upstream) isDown() bool {
	down := u.proxy.Down(maxFails)
	p := u.pool
	p.mu.Lock()
	now := p.now()
	tell := down != u.toldDown && now.Sub(u.told) >= logInterval
	if tell {
		u.toldDown, u.told = down, now
	}
	p.mu.Unlock()
	switch {
	case !tell:
	case down:
		log.Warningf("the server %s does not answer: it is asked no more until it does, unless the others of a zone do not either", u.server)
	default:
		log.Infof("the server %s answers again", u.server)
	}
	return down
}
